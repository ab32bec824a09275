/* xtrain eval: trained weights on labelled images. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "train/evaluate.h"

struct view {
    struct xt_progress progress;
    double start;
    const struct xt_alphabet *alphabet;
    size_t show;
};

static void print_symbols(const struct xt_alphabet *alphabet, const int *symbols, int length)
{
    for (int i = 0; i < length; i++)
        fputs(xt_alphabet_symbol(alphabet, symbols[i]), stdout);
}

static void show_answer(void *context, size_t index, const int *label, int label_length,
                        const struct xt_decoded *answer)
{
    struct view *view = context;
    if (index >= view->show)
        return;
    xt_progress_clear(&view->progress);
    bool right = answer->length == label_length &&
                 memcmp(answer->symbols, label, (size_t)label_length * sizeof *label) == 0;
    printf("  %s  ", right ? "right" : "wrong");
    print_symbols(view->alphabet, label, label_length);
    printf("  read as  ");
    print_symbols(view->alphabet, answer->symbols, answer->length);
    printf("  confidence %.3f\n", answer->probability);
}

static void show(void *context, size_t done, size_t all)
{
    struct view *view = context;
    double now = xt_thread_seconds();
    double elapsed = now - view->start;
    struct xt_progress_state state = {
        .step = (int64_t)done,
        .steps = (int64_t)all,
        .loss = NAN,
        .lr = NAN,
        .images_per_s = elapsed > 0 ? (double)done / elapsed : NAN,
        .seconds_left = elapsed / (double)done * (double)(all - done),
        .wait = NAN,
    };
    xt_progress_show(&view->progress, &state, now, false);
}

static enum xt_status print_json(const char *data, const struct xt_evaluation *e,
                                 struct xt_err *err)
{
    const struct xt_plate_score *score = &e->score;
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "data", data) &&
              cJSON_AddNumberToObject(root, "images", (double)score->images) &&
              cJSON_AddNumberToObject(root, "correct", (double)score->correct) &&
              cJSON_AddNumberToObject(root, "plate_accuracy", xt_plate_score_accuracy(score)) &&
              cJSON_AddNumberToObject(root, "char_accuracy", xt_plate_score_char_accuracy(score)) &&
              cJSON_AddNumberToObject(root, "images_per_s", e->images_per_s) &&
              cJSON_AddNumberToObject(root, "bad_images", (double)e->bad_images);
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the result as JSON", 0);
}

static void print_text(const struct xt_source *source, const struct xt_evaluation *e)
{
    const struct xt_plate_score *score = &e->score;
    printf("%s\n", source->description);
    printf("%zu of %zu plates read right (%.2f %%), %.2f %% of the characters\n", score->correct,
           score->images, 100 * xt_plate_score_accuracy(score),
           100 * xt_plate_score_char_accuracy(score));
    printf("%.0f images/s\n", e->images_per_s);
    if (e->bad_images)
        printf("%zu images could not be used and do not count\n", e->bad_images);
}

/* Names the first of the images that could not be used. */
static void warn_of_bad(const struct xt_source *source, const struct xt_evaluation *e)
{
    enum { NAMED = 5 };
    for (size_t i = 0; i < e->bad_images && i < NAMED; i++) {
        char name[1024];
        source->class->name(source, e->bad[i].index, name, sizeof name);
        xt_log_warn("%s is left out: %s", name, e->bad[i].reason);
    }
    if (e->bad_images > NAMED)
        xt_log_warn("%zu more images are left out", e->bad_images - NAMED);
}

/* --data on the command line, else --val: in a run's config file `data` is what it was trained on.
 */
static const char *choose_data(const struct xt_options *options, const struct xt_network *network)
{
    const struct xt_settings *s = &options->values;
    if (s->data && xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE)
        return s->data;
    if (s->val) {
        if (s->data)
            xt_log_note("evaluating on `val` of %s; --data DIR takes another set", s->config);
        return s->val;
    }
    if (s->data)
        return s->data;
    xt_log_note("no --data was given: evaluating on %s", network->model->default_val);
    return network->model->default_val;
}

static enum xt_status evaluate(const struct xt_options *options, struct xt_network *network,
                               struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    const char *data = choose_data(options, network);
    struct xt_source *source = NULL;
    struct xt_source_options source_options = xt_network_source_options(network);
    enum xt_status status = xt_source_open(&source, data, &source_options, err);
    struct view view = {.start = xt_thread_seconds(),
                        .alphabet = network->alphabet,
                        .show = s->json ? 0 : (size_t)s->show};
    struct xt_evaluate_observer observer = {
        .context = &view, .progress = show, .answer = show_answer};
    /* Standard output belongs to the result alone. */
    xt_progress_init(&view.progress, s->quiet, true);
    struct xt_evaluation evaluation = {0};
    if (!status)
        status = xt_evaluate(network, source, s, &observer, &evaluation, err);
    xt_progress_clear(&view.progress);
    if (evaluation.bad_images)
        warn_of_bad(source, &evaluation);
    if (!status && s->json)
        status = print_json(data, &evaluation, err);
    else if (!status)
        print_text(source, &evaluation);
    xt_evaluation_clear(&evaluation);
    xt_source_destroy(source);
    return status;
}

enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err)
{
    struct xt_network network;
    enum xt_status status =
        xt_network_init(&network, &options->values, options->values.batch, false, err);
    if (!status)
        status = evaluate(options, &network, err);
    xt_network_clear(&network);
    return status;
}
