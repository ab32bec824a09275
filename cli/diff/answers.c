#include "cli/diff/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/diff/page.h"
#include "cli/diff/weights.h"
#include "data/sources/registry.h"
#include "infer/evaluate.h"
#include "infer/network/network_build.h"

enum { SHOWN = 20 };

/* One model's prediction for an image. */
struct answer {
    char *text; /* NULL: the image could not be used */
    double confidence;
    bool right;
    struct xt_str whole; /* all of it as JSON, for the page, if the two differ */
};

/* One of the two models. */
struct side {
    const char *file;
    struct answer *answers; /* [count] */
    char score[128];
    double accuracy;
    size_t images, correct, bad;
};

struct comparison {
    const struct xt_settings *settings;
    struct side sides[2];
    char **paths;  /* [count] of the images with different predictions */
    char **labels; /* [count] */
    size_t count;
    enum xt_task task;
    char description[512];
    bool has_page;
    cJSON *images;                /* of the page */
    size_t differ, both, only[2]; /* different predictions; predicted by both; only one right */
};

/* ---- one model ---- */

struct seeing {
    struct comparison *comparison;
    struct side *side;
    const struct xt_predictor *predictor;
    const struct xt_source *source;
    struct xt_err err; /* the first failure */
};

static enum xt_status keep_text(char **out, const struct xt_predictor *predictor,
                                const int *symbols, int length, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = predictor->class->text(predictor, symbols, length, &text, err);
    if (!status && !*out)
        status = xt_mem_strdup(out, xt_str_get(&text), err);
    xt_str_clear(&text);
    return status;
}

/* A plate is compared as a whole, classes by the most likely: both are the text. */
static bool differ(const struct comparison *c, size_t i)
{
    const char *a = c->sides[0].answers[i].text;
    const char *b = c->sides[1].answers ? c->sides[1].answers[i].text : NULL;
    return a && b && strcmp(a, b) != 0;
}

/* The first model's predictions are all stored until the second's are known. */
static enum xt_status keep_whole(const struct seeing *seeing, const struct xt_answer *seen,
                                 struct xt_err *err)
{
    struct side *sides = seeing->comparison->sides;
    struct xt_wrong *copy = NULL;
    struct xt_json json = {0};
    const struct xt_errors errors = {.predictor = seeing->predictor};
    const struct xt_findings findings = {.errors = &errors, .source = seeing->source};
    if (seeing->side == &sides[1] && !differ(seeing->comparison, seen->index)) {
        xt_str_clear(&sides[0].answers[seen->index].whole);
        return XT_OK;
    }
    enum xt_status status = xt_wrong_create(&copy, seeing->predictor, seen, err);
    if (status)
        return status;
    cJSON *whole = xt_findings_error(&json, &findings, copy);
    status = xt_json_print(&json, whole, &seeing->side->answers[seen->index].whole, err);
    cJSON_Delete(whole);
    free(copy);
    return status;
}

static void see(void *context, const struct xt_answer *seen)
{
    struct seeing *seeing = context;
    struct comparison *c = seeing->comparison;
    struct answer *answer = &seeing->side->answers[seen->index];
    char name[4096];
    if (seeing->err.status)
        return;
    seeing->source->class->name(seeing->source, seen->index, name, sizeof name);
    answer->confidence = seen->said->probability;
    answer->right = seen->right;
    if (!keep_text(&answer->text, seeing->predictor, seen->said->symbols, seen->said->length,
                   &seeing->err) &&
        !keep_text(&c->labels[seen->index], seeing->predictor, seen->label, seen->label_length,
                   &seeing->err) &&
        !c->paths[seen->index])
        xt_mem_strdup(&c->paths[seen->index], name, &seeing->err);
    if (!seeing->err.status && c->has_page)
        keep_whole(seeing, seen, &seeing->err);
}

/* Allocates results for the images of the first model's source. */
static enum xt_status make_room(struct comparison *c, const struct xt_source *source,
                                struct side *side, struct xt_err *err)
{
    bool is_first = !c->paths;
    enum xt_status status = XT_OK;
    if (is_first) {
        c->count = source->count;
        snprintf(c->description, sizeof c->description, "%s", source->description);
        status = xt_mem_calloc(&c->paths, c->count, sizeof *c->paths, "the answers", err);
        if (!status)
            status = xt_mem_calloc(&c->labels, c->count, sizeof *c->labels, "the answers", err);
    } else if (c->count != source->count) {
        status = xt_err_set(err, XT_ERR_RUN, "%s changed while it was read: %zu images, then %zu",
                            xt_source_specs_shown(c->settings->data.images).text, c->count,
                            source->count);
    }
    return status
               ? status
               : xt_mem_calloc(&side->answers, c->count, sizeof *side->answers, "the answers", err);
}

/* Collects the differing images for the page, while the second model and its images are still open.
 */
static enum xt_status show_images(struct comparison *c, const struct seeing *seeing,
                                  const struct xt_settings *settings, struct xt_err *err)
{
    const struct xt_errors errors = {.predictor = seeing->predictor};
    const struct xt_findings findings = {.errors = &errors,
                                         .source = seeing->source,
                                         .data = &settings->data,
                                         .pictures =
                                             settings->record.pictures ? XT_DIFF_PICTURES : 0};
    struct xt_diff_image *images = NULL;
    size_t count = 0;
    enum xt_status status =
        xt_mem_calloc(&images, c->count, sizeof *images, "the list of differences", err);
    for (size_t i = 0; i < c->count && !status; i++) {
        const struct answer *a = &c->sides[0].answers[i];
        const struct answer *b = &c->sides[1].answers[i];
        if (differ(c, i))
            images[count++] = (struct xt_diff_image){
                .index = i,
                .answers = {xt_str_get(&a->whole), xt_str_get(&b->whole)},
                .confidence = {a->confidence, b->confidence},
                .right = {a->right, b->right},
            };
    }
    if (!status)
        status = xt_diff_page_images(images, count, &findings, &c->images, err);
    free(images);
    return status;
}

static enum xt_status evaluate(struct comparison *c, struct side *side, struct xt_network *network,
                               const struct xt_source *source, const struct xt_settings *settings,
                               struct xt_err *err)
{
    struct xt_predictor *predictor = NULL;
    struct xt_evaluation result = {0};
    enum xt_status status = xt_predictor_create(&predictor, network, &settings->answer, err);
    struct seeing seeing = {c, side, predictor, source, {.status = XT_OK}};
    const struct xt_evaluate_config config = {
        .data = &settings->data,
        .source = source,
        .observer = {.context = &seeing, .answer = see},
    };
    if (!status)
        status = xt_evaluate(network, predictor, &config, &result, err);
    if (!status && seeing.err.status) {
        *err = seeing.err;
        status = err->status;
    }
    if (!status) {
        predictor->class->describe(&result.score, side->score, sizeof side->score);
        side->images = result.images;
        side->correct = result.correct;
        side->accuracy = result.metrics[0].value;
        side->bad = result.bad_images;
    }
    if (!status && c->has_page && side == &c->sides[1])
        status = show_images(c, &seeing, settings, err);
    xt_evaluation_clear(&result);
    xt_predictor_destroy(predictor);
    return status;
}

static enum xt_status run(struct comparison *c, struct side *side, struct xt_err *err)
{
    struct xt_network network = {0};
    struct xt_source *source = NULL;
    struct xt_settings settings = *c->settings;
    settings.network.init = side->file;
    settings.network.described_by = c->sides[side == c->sides].file;
    enum xt_status status = xt_network_open(&network, &settings.network, &settings.device, err);
    if (!status)
        status = xt_network_check_classes(&network, err);
    if (!status)
        status = xt_network_open_source(&network, settings.data.images, &source, err);
    if (!status)
        status = make_room(c, source, side, err);
    if (!status)
        status = xt_network_build(&network, &settings.network, settings.network.batch, false, err);
    if (!status)
        status = evaluate(c, side, &network, source, &settings, err);
    xt_source_destroy(source);
    xt_network_clear(&network);
    return status;
}

/* Checks that both open and have the same task, before the evaluation. */
static enum xt_status check_networks(struct comparison *c, struct xt_err *err)
{
    enum xt_task tasks[2] = {XT_TASK_PLATES, XT_TASK_PLATES};
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status; i++) {
        struct xt_network network = {0};
        struct xt_settings settings = *c->settings;
        settings.network.init = c->sides[i].file;
        settings.network.described_by = c->sides[1 - i].file;
        status = xt_network_open(&network, &settings.network, &settings.device, err);
        tasks[i] = network.task;
        xt_network_clear(&network);
    }
    c->task = tasks[0];
    if (status || tasks[0] == tasks[1])
        return status;
    int plates = tasks[0] == XT_TASK_PLATES ? 0 : 1;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s reads plates and %s classifies images: there is nothing to compare on "
                      "the same images",
                      c->sides[plates].file, c->sides[1 - plates].file);
}

/* ---- reporting ---- */

static void count(struct comparison *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct answer *a = &c->sides[0].answers[i];
        const struct answer *b = &c->sides[1].answers[i];
        c->both += a->text && b->text;
        c->differ += differ(c, i);
        c->only[0] += differ(c, i) && a->right && !b->right;
        c->only[1] += differ(c, i) && b->right && !a->right;
    }
}

static const char *who_is_right(const struct comparison *c, size_t i)
{
    return c->sides[0].answers[i].right ? "A" : c->sides[1].answers[i].right ? "B" : "neither";
}

/* The JSON of one image. */
static void describe_image(struct xt_report *to, const struct comparison *c, size_t i)
{
    const struct answer *a = &c->sides[0].answers[i];
    const struct answer *b = &c->sides[1].answers[i];
    xt_report_values(to, "path=%s label=%s prediction_a=%s confidence_a=%f", c->paths[i],
                     c->labels[i], a->text, a->confidence);
    xt_report_flag(to, "right_a", NULL, a->right, "", "");
    xt_report_values(to, "prediction_b=%s confidence_b=%f", b->text, b->confidence);
    xt_report_flag(to, "right_b", NULL, b->right, "", "");
}

/* Its table row. */
static void describe_row(struct xt_report *to, const struct comparison *c, size_t i)
{
    const struct answer *a = &c->sides[0].answers[i];
    const struct answer *b = &c->sides[1].answers[i];
    xt_report_add(to, NULL, "image", "%s", c->paths[i]);
    xt_report_add(to, NULL, "label", "%s", c->labels[i]);
    xt_report_add(to, NULL, "A", "%s", a->text);
    xt_report_add(to, NULL, "conf.", "%.3f", a->confidence);
    xt_report_add(to, NULL, "B", "%s", b->text);
    xt_report_add(to, NULL, "conf.", "%.3f", b->confidence);
    xt_report_add(to, NULL, "right", "%s", who_is_right(c, i));
}

static void describe_models(struct xt_report *report, const struct comparison *c)
{
    struct xt_report *models = xt_report_list(report, "models");
    xt_report_add(report, "data", NULL, "%s", xt_source_specs_shown(c->settings->data.images).text);
    xt_report_line(report, "on %s:", c->description);
    for (int i = 0; i < 2; i++) {
        const struct side *side = &c->sides[i];
        struct xt_report *to = xt_report_group(models, NULL);
        xt_report_values(to, "path=%s images=%zu correct=%zu accuracy=%f bad_images=%zu",
                         side->file, side->images, side->correct, side->accuracy, side->bad);
        xt_report_line(report, "  %c: %s", "AB"[i], side -> score);
        if (side->bad)
            xt_report_line(report, "     %s could not be used and %s not count",
                           xt_count((long long)side->bad, "image").text,
                           side->bad == 1 ? "does" : "do");
    }
    xt_report_values(report, "compared=%zu different=%zu only_a_right=%zu only_b_right=%zu",
                     c->both, c->differ, c->only[0], c->only[1]);
    xt_report_line(report,
                   "different predictions: %zu of %zu; only A is right on %zu, only B on %zu",
                   c->differ, c->both, c->only[0], c->only[1]);
}

static void describe_images(struct xt_report *report, const struct comparison *c)
{
    struct xt_report *list = xt_report_list(report, "differences");
    struct xt_report *table = xt_report_table(report, NULL);
    size_t shown = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!differ(c, i))
            continue;
        describe_image(xt_report_group(list, NULL), c, i);
        if (shown++ < SHOWN)
            describe_row(xt_report_group(table, NULL), c, i);
    }
    if (shown > SHOWN)
        xt_report_line(report, "and %zu more", shown - SHOWN);
    if (c->settings->differences)
        xt_report_line(report, "%s: %s", c->has_page ? "to look at" : "all of them",
                       c->settings->differences);
    else if (shown)
        xt_report_line(report, "--differences FILE.html shows their images, FILE.tsv lists them");
}

/* ---- page ---- */

static enum xt_status write_page(struct comparison *c, const char *path, struct xt_err *err)
{
    const char *const files[2] = {c->sides[0].file, c->sides[1].file};
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "unit", NULL, "%s", c->task == XT_TASK_PLATES ? "characters" : "classes");
    describe_models(report, c);
    enum xt_status status = xt_diff_weights(files, report, err);
    if (status) {
        xt_report_destroy(report);
        return status;
    }
    cJSON *images = c->images;
    c->images = NULL;
    return xt_diff_page_write(path, report, images, err);
}

static enum xt_status print_line(FILE *out, const struct comparison *c, size_t i, bool is_json,
                                 struct xt_err *err)
{
    struct xt_report *line = xt_report_create();
    const struct answer *answers[] = {&c->sides[0].answers[i], &c->sides[1].answers[i]};
    if (is_json) {
        describe_image(line, c, i);
        return xt_report_end(line, XT_REPORT_JSON, out, err);
    }
    xt_report_add(line, NULL, "", "%s", c->paths[i]);
    xt_report_add(line, NULL, "", "\t%s", c->labels[i]);
    for (int k = 0; k < 2; k++) {
        xt_report_add(line, NULL, "", "\t%s", answers[k]->text);
        xt_report_add(line, NULL, "", "\t%.4f", answers[k]->confidence);
    }
    xt_report_add(line, NULL, "", "\t%s", who_is_right(c, i));
    return xt_report_end(line, XT_REPORT_TEXT, out, err);
}

static enum xt_status write_list(const struct comparison *c, const char *path, struct xt_err *err)
{
    char *bytes = NULL;
    size_t size = 0;
    bool is_json = xt_str_ends(path, ".jsonl");
    FILE *out = open_memstream(&bytes, &size);
    enum xt_status status = out ? XT_OK : xt_err_no_memory(err, "the list of differences", 0);
    if (!status && !is_json)
        fputs("path\tlabel\tprediction_a\tconfidence_a\tprediction_b\tconfidence_b\tright\n", out);
    for (size_t i = 0; i < c->count && !status; i++)
        if (differ(c, i))
            status = print_line(out, c, i, is_json, err);
    if (out && fclose(out) && !status)
        status = xt_err_no_memory(err, "the list of differences", 0);
    if (!status)
        status = xt_file_save(path, bytes, size, err);
    free(bytes);
    return status;
}

static enum xt_status check_file(const char *path, struct xt_err *err)
{
    char *folder = NULL;
    if (!path)
        return XT_OK;
    if (!xt_str_ends(path, ".html") && !xt_str_ends(path, ".tsv") && !xt_str_ends(path, ".jsonl"))
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--differences %s: the extension selects the format: .html, .tsv or .jsonl", path);
    enum xt_status status = xt_file_folder_of(&folder, path, err);
    if (!status && !xt_file_is_folder(folder))
        status = xt_err_set(err, XT_ERR_RUN,
                            "--differences: cannot write %s: there is no folder %s", path, folder);
    free(folder);
    return status;
}

enum xt_status xt_diff_answers(struct xt_options *options, const char *const files[2],
                               struct xt_report *report, struct xt_err *err)
{
    const char *file = options->values.differences;
    struct comparison c = {.settings = &options->values,
                           .has_page = file && xt_str_ends(file, ".html")};
    c.sides[0].file = files[0];
    c.sides[1].file = files[1];
    enum xt_status status = check_file(file, err);
    if (!status)
        status = check_networks(&c, err);
    for (int i = 0; i < 2 && !status; i++)
        status = run(&c, &c.sides[i], err);
    if (!status) {
        count(&c);
        describe_models(report, &c);
        describe_images(report, &c);
        if (file)
            status = c.has_page ? write_page(&c, file, err) : write_list(&c, file, err);
    }
    for (size_t i = 0; i < c.count; i++) {
        free(c.paths ? c.paths[i] : NULL);
        free(c.labels ? c.labels[i] : NULL);
        for (int k = 0; k < 2 && c.sides[k].answers; k++) {
            free(c.sides[k].answers[i].text);
            xt_str_clear(&c.sides[k].answers[i].whole);
        }
    }
    cJSON_Delete(c.images);
    free(c.paths);
    free(c.labels);
    free(c.sides[0].answers);
    free(c.sides[1].answers);
    return status;
}
