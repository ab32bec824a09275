/* xtrain eval: trained weights on labelled images. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "train/evaluate.h"

/* How often each class was right. */
struct class_row {
    size_t images;
    size_t right;
};

struct view {
    struct xt_progress progress;
    double start;
    const struct xt_objective *objective;
    struct class_row *rows; /* [classes]; NULL: no table is wanted */
    size_t show;
};

static void print_answer(const struct view *view, const int *label, int label_length,
                         const struct xt_decoded *answer, bool right)
{
    const struct xt_objective *objective = view->objective;
    struct xt_err err;
    struct xt_str wanted = {0};
    struct xt_str got = {0};
    if (!objective->class->text(objective, label, label_length, &wanted, &err) &&
        !objective->class->text(objective, answer->symbols, answer->length, &got, &err))
        printf("  %s  %s  read as  %s  confidence %.3f\n", right ? "right" : "wrong",
               xt_str_get(&wanted), xt_str_get(&got), answer->probability);
    xt_str_clear(&wanted);
    xt_str_clear(&got);
}

static void see_answer(void *context, size_t index, const int *label, int label_length,
                       const struct xt_decoded *answer)
{
    struct view *view = context;
    bool right = xt_objective_is_right(view->objective, label, label_length, answer);
    if (view->rows) {
        view->rows[label[0]].images++;
        view->rows[label[0]].right += right;
    }
    if (index >= view->show)
        return;
    xt_progress_clear(&view->progress);
    print_answer(view, label, label_length, answer, right);
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

static void print_figures(const char *what, const struct xt_latency_figures *f)
{
    printf("latency %s: mean %.3f ms, p50 %.3f, p95 %.3f, p99 %.3f\n", what, f->mean, f->p50,
           f->p95, f->p99);
}

static void print_latency(const struct xt_latency_summary *latency)
{
    if (!latency->measured) {
        printf("latency: not measured (it takes at least %d batches)\n",
               2 * XT_LATENCY_LEFT_OUT + 1);
        return;
    }
    print_figures("an image", &latency->image);
    print_figures("a batch", &latency->batch);
}

/* printf counts bytes, of which a name may have more than columns. */
static void print_class(const char *name, const struct class_row *row)
{
    enum { WIDTH = 24 };
    int columns = xt_utf8_columns(name);
    printf("%s%*s ", name, columns < WIDTH ? WIDTH - columns : 0, "");
    if (row->images)
        printf("%8zu %8zu %6.2f %%\n", row->images, row->right,
               100.0 * (double)row->right / (double)row->images);
    else
        printf("%8d %8s %8s\n", 0, "-", "-");
}

static enum xt_status print_classes(const struct view *view, const struct xt_network *network,
                                    struct xt_err *err)
{
    enum xt_status status = XT_OK;
    printf("%-24s %8s %8s %8s\n", "class", "images", "right", "top-1");
    for (int i = 0; i < network->classes && !status; i++) {
        const struct class_row *row = &view->rows[i];
        struct xt_str name = {0};
        status = xt_network_class_text(network, i, &name, err);
        if (!status)
            print_class(xt_str_get(&name), row);
        xt_str_clear(&name);
    }
    return status;
}

static bool add_figures(cJSON *to, const char *key, const struct xt_latency_figures *f)
{
    cJSON *object = cJSON_AddObjectToObject(to, key);
    return object && cJSON_AddNumberToObject(object, "mean", f->mean) &&
           cJSON_AddNumberToObject(object, "p50", f->p50) &&
           cJSON_AddNumberToObject(object, "p95", f->p95) &&
           cJSON_AddNumberToObject(object, "p99", f->p99);
}

static bool add_latency(cJSON *root, const struct xt_latency_summary *latency)
{
    if (!latency->measured)
        return cJSON_AddNullToObject(root, "latency_ms");
    cJSON *object = cJSON_AddObjectToObject(root, "latency_ms");
    return object && add_figures(object, "image", &latency->image) &&
           add_figures(object, "batch", &latency->batch);
}

static enum xt_status print_json(const char *data, const struct xt_evaluation *e,
                                 struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "data", data) &&
              cJSON_AddNumberToObject(root, "images", (double)e->images) &&
              cJSON_AddNumberToObject(root, "correct", (double)e->correct);
    for (int i = 0; i < e->metric_count && ok; i++)
        ok = cJSON_AddNumberToObject(root, e->metrics[i].key, e->metrics[i].value);
    ok = ok && add_latency(root, &e->latency) &&
         cJSON_AddNumberToObject(root, "images_per_s", e->images_per_s) &&
         cJSON_AddNumberToObject(root, "bad_images", (double)e->bad_images);
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the result as JSON", 0);
}

static enum xt_status print_result(const struct view *view, const struct xt_network *network,
                                   const struct xt_source *source, const struct xt_evaluation *e,
                                   struct xt_err *err)
{
    char score[128];
    enum xt_status status = XT_OK;
    printf("%s\n", source->description);
    if (view->rows)
        status = print_classes(view, network, err);
    view->objective->class->describe(&e->score, score, sizeof score);
    printf("%s\n", score);
    print_latency(&e->latency);
    printf("%.0f images/s\n", e->images_per_s);
    if (e->bad_images)
        printf("%zu images could not be used and do not count\n", e->bad_images);
    return status;
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
    struct xt_source *source = NULL;
    struct xt_objective *objective = NULL;
    struct view view = {.start = xt_thread_seconds(), .show = s->json ? 0 : (size_t)s->show};
    const char *data = choose_data(options, network);
    enum xt_status status = xt_network_open_source(network, data, &source, err);
    if (!status)
        status = xt_objective_create(&objective, network, s, err);
    view.objective = objective;
    if (!status && network->task == XT_TASK_CLASSES)
        status = xt_mem_calloc(&view.rows, (size_t)network->classes, sizeof *view.rows,
                               "the table of classes", err);
    struct xt_evaluate_observer observer = {
        .context = &view, .progress = show, .answer = see_answer};
    /* Standard output belongs to the result alone. */
    xt_progress_init(&view.progress, s->quiet, true);
    struct xt_evaluation evaluation = {0};
    if (!status)
        status = xt_evaluate(network, objective, source, s, &observer, &evaluation, err);
    xt_progress_clear(&view.progress);
    if (evaluation.bad_images)
        warn_of_bad(source, &evaluation);
    if (!status && s->json)
        status = print_json(data, &evaluation, err);
    else if (!status)
        status = print_result(&view, network, source, &evaluation, err);
    xt_evaluation_clear(&evaluation);
    free(view.rows);
    xt_objective_destroy(objective);
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
