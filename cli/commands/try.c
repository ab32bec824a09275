/* xtrain try: from a folder of labelled images to a trained network and a page of what was found on
 * the way: checks, a few images learnt by heart, the fastest type, labels that look wrong,
 * training. Each stage takes a share of the time that is left. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/bench/step.h"
#include "cli/commands.h"
#include "cli/image_set.h"
#include "cli/json/result.h"
#include "cli/options/options.h"
#include "cli/try/suspects.h"
#include "cli/try/training.h"
#include "data/sources/part.h"
#include "data/survey.h"
#include "runs/report/json.h"
#include "runs/report/page.h"

enum { FEW = 8, BENCH_STEPS = 1, EVALUATIONS = 8, WANTED = 5, MAX_TIME = 600 };
#define VAL_PART 0.15

/* Shares of --max-time; what a stage does not use is left to those after it. */
#define FEW_SHARE 0.08
#define TYPE_SHARE 0.04
#define HALF_SHARE 0.22 /* each of two */
#define TRAINING_SHARE 0.44

struct trial {
    const struct xt_options *options;
    const struct xt_settings *s;
    const char *images; /* as named */
    char out[PATH_MAX - 64];
    double end;         /* of --max-time, of xt_thread_seconds */
    double stage_begun; /* likewise */
    /* found on the way */
    struct xt_image_set set;
    struct xt_survey survey;
    const char *model;
    int batch;
    bool has_bf16;
    const char *amp;
    double images_per_s; /* of training */
    struct xt_suspects suspects;
    bool judged;             /* they are worth naming */
    size_t held, held_right; /* held out of the training */
    char sure[192];          /* what is rejected of them */
    bool rejects_all;
    /* what is said: the members of --json */
    cJSON *said, *stages;
    struct xt_json json;
};

static void print(const char *name, const char *text)
{
    if (!xt_result_is_json())
        xt_log_result(stdout, "%-9s %s", name, text);
}

/* Ends a stage with a sentence on it. */
__attribute__((format(printf, 3, 4))) static void end_stage(struct trial *t, const char *name,
                                                            const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    double now = xt_thread_seconds();
    cJSON *stage = xt_json_object(&t->json, t->stages, NULL);
    xt_json_put(&t->json, stage, "name=%s detail=%s seconds=%f", name, text, now - t->stage_begun);
    if (!t->s->output.quiet)
        print(name, text);
    t->stage_begun = now;
}

/* The seconds for a stage, where the stages after it have the shares `after`. */
static double time_for(const struct trial *t, double share, double after)
{
    double left = t->end - xt_thread_seconds();
    return left > 0 ? left * share / (share + after) : 0;
}

/* What was given for an option; NULL: nothing. */
static const char *given(const struct trial *t, const char *name)
{
    return t->options->origins[xt_option_index(xt_option_find(name))].given;
}

/* Trains, and takes the rate from it: it is that of this batch, with loading. */
static enum xt_status train(struct trial *t, const struct xt_line *line, bool resumes,
                            struct xt_trained *out, struct xt_err *err)
{
    enum xt_status status = xt_trained_run(out, line, t->options, resumes, err);
    if (out->images_per_s > 0)
        t->images_per_s = out->images_per_s;
    return status;
}

/* ---- the images ---- */

/* Pictures that are not wide enough for one row of symbols. */
static size_t count_uncut(const struct xt_survey *survey)
{
    size_t count = 0;
    for (size_t i = 0; i < survey->size_count; i++)
        if (survey->sizes[i].width < 2 * survey->sizes[i].height)
            count += survey->sizes[i].count;
    return count;
}

static void describe_images(struct trial *t)
{
    const struct xt_survey *survey = &t->survey;
    char more[512] = "";
    size_t uncut = t->set.alphabet ? count_uncut(survey) : 0;
    if (uncut)
        snprintf(more, sizeof more,
                 "; %zu less than twice as wide as high, but a plate has to be cut out and in one "
                 "row",
                 uncut);
    if (survey->first_bad)
        xt_str_append_to(more, sizeof more, "; the first bad one: %s", survey->first_bad);
    end_stage(t, "images", "%s, for %s; %zu bad, %zu duplicates, %zu turned by their Exif%s",
              t->set.source->description, t->model, survey->bad, survey->duplicates, survey->turned,
              more);
    xt_json_put(&t->json, t->said,
                "task=%s model=%s images=%f bad_images=%f duplicates=%f turned=%f",
                t->set.alphabet ? "plates" : "classes", t->model, (double)survey->count,
                (double)survey->bad, (double)survey->duplicates, (double)survey->turned);
}

/* That of the recipe, or less, so that a half of few images has some steps. */
static enum xt_status choose_batch(struct trial *t, struct xt_err *err)
{
    struct xt_line line = {.count = 0};
    struct xt_options options;
    xt_line_add_given(&line, t->options);
    xt_line_add(&line, "--model=%s", t->model);
    enum xt_status status = xt_line_parse(&line, t->options, XT_COMMAND_TRAIN, &options, err);
    int most = (int)(t->survey.count / 8);
    t->batch = options.values.network.batch;
    if (!given(t, "batch") && t->batch > most)
        t->batch = most > 1 ? most : 1;
    xt_options_clear(&options);
    xt_line_clear(&line);
    return status;
}

/* The share that the last training is evaluated on. */
static double held_share(const struct trial *t)
{
    return t->s->data.val_part > 0 ? t->s->data.val_part : VAL_PART;
}

static enum xt_status refuse_one_label(const struct trial *t, const int *label, int length,
                                       struct xt_err *err)
{
    struct xt_str text = {0};
    char name[PATH_MAX];
    t->set.source->class->name(t->set.source, 0, name, sizeof name);
    enum xt_status status = xt_alphabet_decode(t->set.alphabet, label, length, &text, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_DATA,
                            "all %zu images have the label %s, such as %s; name each by what is "
                            "written on it, or put images of classes into a folder a class",
                            t->survey.count, xt_str_get(&text), name);
    xt_str_clear(&text);
    return status;
}

/* Plates that are all the same, or too few for a part to evaluate on, are seen before time is spent
 * on them. */
static enum xt_status check_labels(const struct trial *t, struct xt_err *err)
{
    int label[2][XT_LABEL_MAX];
    int length[2] = {0, 0};
    const struct xt_source *source = t->set.source;
    size_t differ = 0, held = 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < source->count && !status; i++) {
        bool out = false;
        int k = i > 0;
        status = source->class->label(source, i, label[k], &length[k], err);
        if (!status)
            status = xt_source_holds_out(source, i, held_share(t), t->s->data.seed, &out, err);
        held += out;
        differ += k && (length[0] != length[1] ||
                        memcmp(label[0], label[1], (size_t)length[0] * sizeof **label) != 0);
    }
    if (!status && t->set.alphabet && source->count > 1 && !differ)
        return refuse_one_label(t, label[0], length[0], err);
    if (!status && (!held || held == source->count))
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s are too few: a part of %g for evaluation has %zu of them; add "
                            "images, or give another --val-part or --seed",
                            xt_count((long long)source->count, "image").text, held_share(t), held);
    return status;
}

static enum xt_status look_at_images(struct trial *t, struct xt_err *err)
{
    struct xt_survey *survey = &t->survey;
    enum xt_status status = xt_image_set_open_whole(&t->set, t->s, t->images, "try", err);
    if (!status)
        status = xt_survey_take(survey, t->set.source, xt_image_set_symbols(&t->set), false, err);
    if (!status)
        status = xt_survey_check(survey, err);
    if (status)
        return status;
    t->model = t->s->network.model ? t->s->network.model : t->set.alphabet ? "lprnet" : "resnet18";
    describe_images(t);
    status = check_labels(t, err);
    return status ? status : choose_batch(t, err);
}

/* ---- a few by heart, and the type ---- */

/* The line of a training on `data` into OUT/`name`. Gradients are clipped: where a batch holds the
 * same image several times, channels have no variance, and each batch norm multiplies its gradient
 * by up to 1 / sqrt(epsilon). */
static struct xt_line begin_line(const struct trial *t, const char *data, const char *name)
{
    struct xt_line line = {.count = 0};
    xt_line_add_given(&line, t->options);
    xt_line_add(&line, "--model=%s", t->model);
    xt_line_add(&line, "--data=%s", data);
    xt_line_add(&line, "--out=%s", xt_file_path(t->out, name).text);
    xt_line_add(&line, "--amp=%s", t->amp);
    xt_line_add(&line, "--batch=%d", t->batch);
    if (!given(t, "clip"))
        xt_line_add(&line, "--clip=5");
    return line;
}

static enum xt_status learn_few(struct trial *t, struct xt_err *err)
{
    struct xt_trained few;
    double seconds = time_for(t, FEW_SHARE, 1 - FEW_SHARE);
    int count = t->survey.count < FEW ? (int)t->survey.count : FEW;
    struct xt_line line = begin_line(t, t->images, "few");
    xt_line_add(&line, "--overfit=%d", count);
    xt_line_add(&line, "--batch=%d", count < t->batch ? count : t->batch);
    xt_line_add(&line, "--max-time=%f", fmax(seconds, 0.1));
    enum xt_status status = train(t, &line, false, &few, err);
    xt_line_clear(&line);
    if (status)
        return status;
    t->has_bf16 = few.has_bf16;
    if (few.best.is_learnt)
        end_stage(t, "few",
                  "%zu images are learnt by heart: images, labels and training fit together",
                  few.images);
    else if (few.state.end == XT_END_TIME)
        end_stage(t, "few",
                  "%zu of %zu images were learnt by heart in its share of --max-time, %.0f s",
                  few.right, few.images, seconds);
    else
        end_stage(t, "few",
                  "only %zu of %zu images can be learnt by heart: do the labels say what "
                  "the images show? xtrain --overfit %d names those that cannot",
                  few.right, few.images, count);
    return XT_OK;
}

static enum xt_status time_type(const struct trial *t, const char *amp, double *rate,
                                struct xt_err *err)
{
    struct xt_options options;
    struct xt_bench_step result = {.steps = 0};
    const struct xt_bench_observer observer = {.progress = NULL};
    struct xt_line line = {.count = 0};
    xt_line_add_given(&line, t->options);
    xt_line_add(&line, "--model=%s", t->model);
    xt_line_add(&line, "--amp=%s", amp);
    xt_line_add(&line, "--batch=%d", t->batch);
    enum xt_status status = xt_line_parse(&line, t->options, XT_COMMAND_TRAIN, &options, err);
    const struct xt_train_settings settings = xt_options_train(&options.values);
    if (!status)
        status = xt_bench_step(&result, &settings, BENCH_STEPS, false, &observer, err);
    if (!status)
        *rate = xt_bench_images_per_s(&result);
    xt_bench_step_clear(&result);
    xt_options_clear(&options);
    xt_line_clear(&line);
    return status;
}

/* Times the types that the device computes in, and takes the fastest. */
static enum xt_status choose_type(struct trial *t, struct xt_err *err)
{
    double f32 = 0, bf16 = 0;
    /* Of each: three to warm up, one that is timed, and its convolutions. */
    double steps = 5.0 * (t->has_bf16 ? 2 : 1);
    bool fits = steps * t->batch <
                t->images_per_s * time_for(t, TYPE_SHARE, 2 * HALF_SHARE + TRAINING_SHARE);
    if (given(t, "amp") || !fits) {
        end_stage(t, "type", "%s%s", given(t, "amp") ? given(t, "amp") : "f32",
                  fits ? ", as given" : ": to time others does not fit into --max-time");
        return XT_OK;
    }
    enum xt_status status = time_type(t, "f32", &f32, err);
    if (!status && t->has_bf16)
        status = time_type(t, "bf16", &bf16, err);
    if (status)
        return status;
    t->amp = bf16 > f32 ? "bf16" : "f32";
    t->images_per_s = fmax(f32, bf16);
    if (t->has_bf16)
        end_stage(t, "type", "%s: a second trains on %.0f images in f32, %.0f in bf16", t->amp, f32,
                  bf16);
    else
        end_stage(t, "type",
                  "f32: a second trains on %.0f images; bf16 is not faster here, where no "
                  "instruction computes in it",
                  f32);
    return XT_OK;
}

/* ---- labels ---- */

/* All plates with one label are in the same half; of each class half of the images are, or in both
 * its only one (2). */
static enum xt_status choose_half(const struct trial *t, size_t index, size_t *seen, int *half,
                                  struct xt_err *err)
{
    int label[XT_LABEL_MAX];
    int length = 0;
    bool second = false;
    enum xt_status status = XT_OK;
    if (t->set.alphabet) {
        status = xt_source_holds_out(t->set.source, index, 0.5, t->s->data.seed, &second, err);
        *half = second;
        return status;
    }
    status = t->set.source->class->label(t->set.source, index, label, &length, err);
    if (!status)
        *half = t->survey.symbol_counts[label[0]] < 2 ? 2 : (int)(seen[label[0]]++ % 2);
    return status;
}

static enum xt_status list_halves(const struct trial *t, size_t *seen, struct xt_str halves[2],
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < t->survey.count && !status; i++) {
        int half = 0;
        status = choose_half(t, i, seen, &half, err);
        for (int k = 0; k < 2 && !status; k++)
            if (half == k || half == 2)
                status = xt_image_set_add_line(&t->set, i, &halves[k], err);
    }
    if (!status && (!halves[0].length || !halves[1].length))
        status = xt_err_set(err, XT_ERR_DATA, "all images have the same label");
    return status;
}

static const char *const half_lists[] = {"half-a.txt", "half-b.txt"};

static enum xt_status write_halves(const struct trial *t, struct xt_err *err)
{
    struct xt_str halves[2] = {{0}, {0}};
    size_t *seen = NULL;
    enum xt_status status = xt_mem_calloc(&seen, (size_t)xt_image_set_symbols(&t->set),
                                          sizeof *seen, "the counts of classes", err);
    if (!status)
        status = list_halves(t, seen, halves, err);
    for (int i = 0; i < 2 && !status; i++)
        status = xt_file_save(xt_file_path(t->out, half_lists[i]).text, halves[i].data,
                              halves[i].length, err);
    free(seen);
    xt_str_clear(&halves[0]);
    xt_str_clear(&halves[1]);
    return status;
}

/* As many steps as are usual, or fit; false: not even an epoch does. Recipes from random weights
 * are for large sets: few images are varied and seen often. */
static bool add_length(const struct trial *t, struct xt_line *line, double images, double seconds)
{
    enum { FROM_RANDOM = 200, FINE_TUNING = 40 };
    const double loading = 0.8; /* and evaluation, which the timed steps are without */
    bool random = !t->s->network.init && !xt_model_is_file(t->model);
    double epoch = fmax(1, floor(images / t->batch));
    double possible = floor(loading * seconds * t->images_per_s / t->batch);
    double steps = fmax(1, fmin(possible, epoch * (random ? FROM_RANDOM : FINE_TUNING)));
    xt_line_add(line, "--steps=%.0f", steps);
    xt_line_add(line, "--save-every=%.0f", steps);
    xt_line_add(line, "--eval-every=%.0f", fmax(1, ceil(steps / epoch / EVALUATIONS)));
    xt_line_add(line, "--max-time=%f", fmax(seconds, 0.1));
    if (random && t->set.alphabet)
        xt_line_add(line, "--augment");
    if (random && !t->set.alphabet) {
        xt_line_add(line, "--flip");
        xt_line_add(line, "--sched=cosine");
    }
    return possible >= epoch;
}

/* Judges the labels of `data` by the weights in the folder of a run. */
static enum xt_status judge(struct trial *t, const char *run, const char *data, struct xt_err *err)
{
    struct xt_options options;
    struct xt_line line = {.count = 0};
    xt_line_add(&line, "--init=%s", run);
    xt_line_add(&line, "--data=%s", data);
    enum xt_status status = xt_line_parse(&line, t->options, XT_COMMAND_EVAL, &options, err);
    options.values.device = t->s->device;
    const struct xt_infer_settings settings = xt_options_infer(&options.values);
    if (!status)
        status = xt_suspects_judge(&t->suspects, &settings, data, t->s->record.pictures, err);
    xt_options_clear(&options);
    xt_line_clear(&line);
    return status;
}

/* Trains on one half and judges the labels of the other. */
static enum xt_status judge_half(struct trial *t, int half, bool *fits, struct xt_err *err)
{
    static const char *const runs[] = {"half-a", "half-b"};
    struct xt_trained outcome;
    const struct xt_path other = xt_file_path(t->out, half_lists[1 - half]);
    double after = TRAINING_SHARE + (half ? 0 : HALF_SHARE);
    struct xt_line line = begin_line(t, xt_file_path(t->out, half_lists[half]).text, runs[half]);
    xt_line_add(&line, "--val=%s", other.text);
    *fits = add_length(t, &line, 0.5 * (double)t->survey.count, time_for(t, HALF_SHARE, after));
    enum xt_status status = *fits ? train(t, &line, false, &outcome, err) : XT_OK;
    if (!status && *fits)
        status = judge(t, xt_file_path(t->out, runs[half]).text, other.text, err);
    xt_line_clear(&line);
    return status;
}

static enum xt_status judge_labels(struct trial *t, struct xt_err *err)
{
    bool fits = true;
    const struct xt_suspects *found = &t->suspects;
    enum xt_status status = write_halves(t, err);
    if (status == XT_ERR_DATA) {
        end_stage(t, "labels", "not judged: %s", err->text);
        return XT_OK;
    }
    for (int half = 0; half < 2 && !status && fits; half++)
        status = judge_half(t, half, &fits, err);
    if (status)
        return status;
    xt_suspects_sort(&t->suspects);
    if (found->images)
        status = xt_suspects_save(found, xt_file_path(t->out, "suspects.tsv").text, err);
    t->judged = found->images && 2 * found->right >= found->images;
    if (!found->images)
        end_stage(t, "labels",
                  "not judged: an epoch on half of the images does not fit into its "
                  "share of --max-time");
    else if (!t->judged)
        end_stage(t, "labels",
                  "not judged: networks that were trained on half of the images read "
                  "only %zu of %zu; more --max-time, --init or images help",
                  found->right, found->images);
    else
        end_stage(
            t, "labels", "%zu of %zu look wrong to networks that were trained on the other half%s",
            found->suspect, found->images, fits ? "" : "; the rest does not fit into --max-time");
    return status;
}

/* ---- training ---- */

static enum xt_status train_all(struct trial *t, struct xt_err *err)
{
    struct xt_trained outcome;
    double part = held_share(t);
    struct xt_line line = begin_line(t, t->images, "reader");
    xt_line_add(&line, "--val-part=%g", part);
    xt_line_add(&line, "--reject=%s", given(t, "reject") ? given(t, "reject") : "auto:0.99");
    if (given(t, "negatives"))
        xt_line_add(&line, "--negatives=%s", given(t, "negatives"));
    bool fits =
        add_length(t, &line, (1 - part) * (double)t->survey.count, time_for(t, TRAINING_SHARE, 0));
    enum xt_status status = train(t, &line, true, &outcome, err);
    xt_line_clear(&line);
    if (status)
        return status;
    const struct xt_reliability_report *sure = &outcome.reliability;
    t->held = sure->after.images ? sure->after.images : outcome.images;
    t->held_right = sure->after.images ? sure->after.right : outcome.right;
    t->rejects_all = sure->after.images && !sure->acceptance.accepted;
    if (sure->after.images)
        xt_acceptance_describe(&sure->acceptance, &sure->rule, t->sure, sizeof t->sure);
    end_stage(t, "training", "%lld of %lld steps%s", (long long)outcome.state.step,
              (long long)outcome.steps, fits ? "" : "; an epoch does not fit into --max-time");
    return XT_OK;
}

/* ---- the result ---- */

/* Symbols or classes of which more images are wanted; *line gets the first of them. Networks that
 * read little say nothing of them. */
static void put_wanted(struct trial *t, struct xt_str *line)
{
    cJSON *list = xt_json_array(&t->json, t->said, "wanted");
    for (int i = 0, named = 0; t->judged && i < t->suspects.read_count && named < WANTED; i++) {
        const struct xt_read_count *read = &t->suspects.reads[i];
        if (read->seen == read->right)
            continue;
        cJSON *item = xt_json_object(&t->json, list, NULL);
        xt_json_put(&t->json, item, "label=%s count=%f correct=%f", read->name, (double)read->seen,
                    (double)read->right);
        if (xt_str_printf(line, NULL, "%s%s (%zu of %zu read right)", named++ ? ", " : "",
                          read->name, read->right, read->seen))
            t->json.failed = true;
    }
}

/* In --json; the page has them as they were found. */
static void put_suspects(struct trial *t, cJSON *page)
{
    cJSON *list = xt_json_array(&t->json, t->said, "suspects");
    for (size_t i = 0; t->judged && i < t->suspects.suspect; i++) {
        const struct xt_suspect *suspect = &t->suspects.items[i];
        cJSON *item = xt_json_object(&t->json, list, NULL);
        xt_json_put(&t->json, item, "path=%s label=%s prediction=%s confidence=%f odds=%f",
                    xt_json_get_text(suspect->found, "path", ""),
                    xt_json_get_text(suspect->found, "expected", ""),
                    xt_json_get_text(suspect->found, "read", ""),
                    xt_json_get(suspect->found, "confidence", (double)NAN), suspect->odds);
        xt_json_add(&t->json, page, NULL, cJSON_Duplicate(suspect->found, true));
    }
}

/* A line of the result. */
__attribute__((format(printf, 3, 4))) static void put_line(struct trial *t, const char *name,
                                                           const char *format, ...)
{
    char text[2 * PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cJSON *lines = cJSON_GetObjectItemCaseSensitive(t->said, "result");
    cJSON *line = xt_json_object(&t->json, lines, NULL);
    xt_json_put(&t->json, line, "name=%s detail=%s", name, text);
    print(name, text);
}

static void put_result(struct trial *t, const char *wanted, const char *serve)
{
    const struct xt_suspects *found = &t->suspects;
    double accuracy = t->held ? (double)t->held_right / (double)t->held : 0;
    xt_json_put(&t->json, t->said, "correct=%f accuracy=%f", (double)t->held_right, accuracy);
    xt_json_array(&t->json, t->said, "result");
    put_line(t, "reads", "%zu of %s that it was not trained on (%.1f %%); %s", t->held_right,
             xt_count((long long)t->held, "image").text, 100 * accuracy, t->sure);
    if (t->judged)
        put_line(t, "labels", "%zu of %zu look wrong: %s shows them, %s lists them", found->suspect,
                 found->images, xt_file_path(t->out, "page.html").text,
                 xt_file_path(t->out, "suspects.tsv").text);
    else
        put_line(t, "labels", "not judged, see above");
    put_line(t, "wanted", "%s",
             *wanted     ? wanted
             : t->judged ? "nothing that is read wrong"
                         : "not known, as no label was judged");
    if (t->held_right)
        put_line(t, "serve", "%s", serve);
    else
        put_line(t, "serve",
                 "not yet, as it reads nothing; more --max-time, --init WEIGHTS or images help");
}

static enum xt_status conclude(struct trial *t, struct xt_err *err)
{
    struct xt_str wanted = {0};
    struct xt_str serve = {0};
    cJSON *page = cJSON_CreateObject();
    xt_str_printf(&serve, NULL, "xtrain serve ");
    xt_str_append_word(&serve, xt_file_path(t->out, "reader").text, NULL);
    if (t->rejects_all)
        xt_str_printf(&serve, NULL, " --reject none");
    enum xt_status status = xt_str_check(&serve, err);
    put_suspects(t, xt_json_array(&t->json, page, "suspects"));
    put_wanted(t, &wanted);
    put_result(t, xt_str_get(&wanted), xt_str_get(&serve));
    xt_result_next(t->held_right ? xt_str_get(&serve) : "xtrain help try");
    xt_json_text(&t->json, page, "unit", t->set.alphabet ? "characters" : "classes");
    xt_json_add(&t->json, page, "found", cJSON_Duplicate(t->said, true));
    if (!status && t->json.failed)
        status = xt_err_no_memory(err, "the page", 0);
    if (status)
        cJSON_Delete(page);
    else
        status = xt_page_write_one(xt_file_path(t->out, "page.html").text, "tried", page, err);
    xt_str_clear(&wanted);
    xt_str_clear(&serve);
    return status;
}

/* ---- the command ---- */

/* --out, or the first of runs/try-NAME, runs/try-NAME-2 and on that does not exist. */
static enum xt_status choose_folder(struct trial *t, struct xt_err *err)
{
    char *whole = realpath(t->images, NULL);
    const char *out = t->s->record.out;
    const char *name = xt_file_name(whole ? whole : "images");
    snprintf(t->out, sizeof t->out, out ? "%s" : "runs/try-%.100s", out ? out : name);
    for (int i = 2; !out && xt_file_exists(t->out); i++)
        snprintf(t->out, sizeof t->out, "runs/try-%.100s-%d", name, i);
    free(whole);
    if (xt_file_exists(t->out))
        return xt_err_set(err, XT_ERR_USAGE, "--out %s exists; try needs a new folder", t->out);
    return XT_OK;
}

static enum xt_status run(struct trial *t, struct xt_err *err)
{
    static enum xt_status (*const stages[])(struct trial * t, struct xt_err * err) = {
        choose_folder, look_at_images, learn_few, choose_type, judge_labels, train_all};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && !status; i++) {
        status = stages[i](t, err);
        if (!status)
            status =
                xt_stop_check(err, "between two stages; xtrain try is not resumed, start it again");
        /* The notes of each training would be said four times. */
        if (!t->s->output.verbose)
            xt_log_set_level(XT_LOG_QUIET);
    }
    return status ? status : conclude(t, err);
}

/* Moves what is said into --json. */
static enum xt_status put_json(cJSON *said, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (xt_result_is_json() && !status && said->child) {
        cJSON *item = cJSON_DetachItemViaPointer(said, said->child);
        status = xt_result_put_json(item->string, item, err);
    }
    return status;
}

enum xt_status xt_cmd_try(struct xt_options *options, struct xt_err *err)
{
    struct xt_err own;
    double now = xt_thread_seconds();
    double limit = options->values.run.max_time;
    struct trial t = {
        .options = options,
        .s = &options->values,
        .images = options->arguments[0],
        .end = now + (limit > 0 ? limit : MAX_TIME),
        .stage_begun = now,
        .amp = "f32",
        .said = cJSON_CreateObject(),
    };
    if (given(&t, "amp"))
        t.amp = given(&t, "amp");
    xt_json_text(&t.json, t.said, "data", t.images);
    t.stages = xt_json_array(&t.json, t.said, "stages");
    enum xt_status status = t.json.failed ? xt_err_no_memory(err, "the result", 0) : run(&t, err);
    xt_json_text(&t.json, t.said, "path", t.out);
    enum xt_status printed = put_json(t.said, status ? &own : err);
    cJSON_Delete(t.said);
    xt_suspects_clear(&t.suspects);
    xt_survey_clear(&t.survey);
    xt_image_set_clear(&t.set);
    return status ? status : printed;
}
