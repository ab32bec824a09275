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
#include "cli/options/options.h"
#include "cli/progress.h"
#include "train/auto_batch.h"
#include "train/calibrate.h"
#include "train/evaluate.h"
#include "train/network_build.h"

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

/* One type of those that are compared, or the only one. */
struct run {
    enum xt_amp amp;
    struct xt_evaluation result;
};

struct command {
    const struct xt_options *options;
    struct xt_network *network;
    struct xt_source *source;
    struct xt_objective *objective;
    const char *data;
    struct view view;
    struct xt_calibration calibration; /* images 0: none was needed */
    bool calibrated_on_data;           /* for want of other images */
    struct run *runs;
    int count;
};

static const char *type_name(enum xt_amp amp)
{
    static const char *const names[] = {[XT_AMP_OFF] = "f32",
                                        [XT_AMP_BF16] = "bf16",
                                        [XT_AMP_FP16] = "fp16",
                                        [XT_AMP_INT8] = "int8"};
    return names[amp];
}

static bool is_comparison(const struct command *command)
{
    return xt_options_source(command->options, "compare") == XT_SOURCE_COMMAND_LINE;
}

/* ---- JSON ---- */

static bool add_result(cJSON *root, const struct run *run)
{
    const struct xt_evaluation *e = &run->result;
    bool ok = cJSON_AddStringToObject(root, "type", type_name(run->amp)) &&
              cJSON_AddNumberToObject(root, "images", (double)e->images) &&
              cJSON_AddNumberToObject(root, "correct", (double)e->correct);
    for (int i = 0; i < e->metric_count && ok; i++)
        ok = cJSON_AddNumberToObject(root, e->metrics[i].key, e->metrics[i].value);
    return ok && add_latency(root, &e->latency) &&
           cJSON_AddNumberToObject(root, "images_per_s", e->images_per_s) &&
           cJSON_AddNumberToObject(root, "bad_images", (double)e->bad_images);
}

static bool add_calibration(cJSON *root, const struct xt_calibration *calibration)
{
    if (!calibration->images)
        return true;
    cJSON *object = cJSON_AddObjectToObject(root, "calibration");
    return object && cJSON_AddStringToObject(object, "source", calibration->source) &&
           cJSON_AddNumberToObject(object, "images", (double)calibration->images);
}

static bool add_runs(cJSON *root, const struct command *command)
{
    cJSON *list = cJSON_AddArrayToObject(root, "runs");
    bool ok = list != NULL;
    for (int i = 0; i < command->count && ok; i++) {
        cJSON *item = cJSON_CreateObject();
        ok = item && cJSON_AddItemToArray(list, item) && add_result(item, &command->runs[i]);
    }
    return ok;
}

static enum xt_status print_json(const struct command *command, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok =
        root && cJSON_AddStringToObject(root, "data", command->data) &&
        add_calibration(root, &command->calibration) &&
        (is_comparison(command) ? add_runs(root, command) : add_result(root, &command->runs[0]));
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the result as JSON", 0);
}

/* ---- text ---- */

static void print_calibration(const struct command *command)
{
    const struct xt_calibration *c = &command->calibration;
    if (!c->images)
        return;
    printf("int8: ranges from %zu of the %zu images of %s", c->images, c->all, c->source);
    puts(command->calibrated_on_data ? ", which are those evaluated on; --calibrate takes others"
                                     : "");
}

static enum xt_status print_result(const struct command *command, struct xt_err *err)
{
    const struct view *view = &command->view;
    const struct xt_evaluation *e = &command->runs[0].result;
    char score[128];
    enum xt_status status = XT_OK;
    printf("%s\n", command->source->description);
    print_calibration(command);
    if (view->rows)
        status = print_classes(view, command->network, err);
    view->objective->class->describe(&e->score, score, sizeof score);
    printf("%s\n", score);
    print_latency(&e->latency);
    printf("%.0f images/s\n", e->images_per_s);
    if (e->bad_images)
        printf("%zu images could not be used and do not count\n", e->bad_images);
    return status;
}

/* The first figure is compared in percentage points, with the first type's. */
static void print_row(const struct run *run, const struct run *first)
{
    const struct xt_evaluation *e = &run->result;
    printf("%-5s %8zu %8zu", type_name(run->amp), e->images, e->correct);
    for (int i = 0; i < e->metric_count; i++)
        printf(" %12.2f %%", 100 * e->metrics[i].value);
    double change = 100 * (e->metrics[0].value - first->result.metrics[0].value);
    if (run == first)
        printf(" %9s", "");
    else
        printf(" %+9.2f", change);
    if (e->latency.measured)
        printf(" %9.3f %8.3f %8.3f %8.3f %9.2f", e->latency.image.mean, e->latency.image.p50,
               e->latency.image.p95, e->latency.image.p99, e->latency.batch.mean);
    else
        printf(" %9s %8s %8s %8s %9s", "-", "-", "-", "-", "-");
    printf(" %9.0f\n", e->images_per_s);
}

static void print_comparison(const struct command *command)
{
    const struct xt_evaluation *first = &command->runs[0].result;
    printf("%s, batch %d\n", command->source->description, command->network->batch);
    print_calibration(command);
    printf("%-5s %8s %8s", "type", "images", "right");
    for (int i = 0; i < first->metric_count; i++)
        printf(" %14s", first->metrics[i].key);
    printf(" %9s %9s %8s %8s %8s %9s %9s\n", "to first", "ms/image", "p50", "p95", "p99",
           "ms/batch", "images/s");
    for (int i = 0; i < command->count; i++)
        print_row(&command->runs[i], &command->runs[0]);
    if (!first->latency.measured)
        print_latency(&first->latency);
    if (first->bad_images)
        printf("%zu images could not be used and do not count\n", first->bad_images);
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

/* What int8's ranges come from: --calibrate, else what the network was trained on, else the images
 * that it is evaluated on. */
static const char *choose_calibration(struct command *command)
{
    const struct xt_settings *s = &command->options->values;
    if (s->calibrate)
        return s->calibrate;
    if (s->data && xt_options_source(command->options, "data") == XT_SOURCE_CONFIG)
        return s->data;
    command->calibrated_on_data = true;
    return command->data;
}

/* Evaluates in one type; the network is in the first run's already. */
static enum xt_status evaluate(struct command *command, int index, struct xt_err *err)
{
    struct xt_settings settings = command->options->values;
    struct run *run = &command->runs[index];
    struct view *view = &command->view;
    enum xt_status status = XT_OK;
    settings.amp = run->amp;
    if (run->amp == XT_AMP_INT8)
        status = xt_calibrate_int8(command->network, &settings, choose_calibration(command),
                                   command->network->batch, &command->calibration, err);
    else if (index > 0)
        status = xt_network_rebuild(command->network, &settings, command->network->batch, err);
    if (status)
        return status;
    struct xt_evaluate_observer observer = {
        .context = view, .progress = show, .answer = see_answer};
    view->start = xt_thread_seconds();
    /* Standard output belongs to the result alone. */
    xt_progress_init(&view->progress, settings.quiet, true);
    status = xt_evaluate(command->network, command->objective, command->source, &settings,
                         &observer, &run->result, err);
    xt_progress_clear(&view->progress);
    if (index == 0 && run->result.bad_images)
        warn_of_bad(command->source, &run->result);
    return status;
}

/* The network in the first run's type, and the images, whose number --batch auto asks for. Of
 * several types float32 takes the most memory. */
static enum xt_status open_network(struct command *command, struct xt_err *err)
{
    struct xt_network *network = command->network;
    struct xt_settings settings = command->options->values;
    int batch = settings.batch;
    settings.amp = command->runs[0].amp;
    enum xt_status status = xt_network_open(network, &settings, err);
    if (!status)
        status = xt_network_check_classes(network, &settings, err);
    if (status)
        return status;
    command->data = choose_data(command->options, network);
    status = xt_network_open_source(network, command->data, &command->source, err);
    struct xt_settings largest = settings;
    if (is_comparison(command))
        largest.amp = XT_AMP_OFF;
    if (!status && !batch)
        status = xt_auto_batch_take(network, &largest, false, command->source->count, &batch, err);
    return status ? status : xt_network_build(network, &settings, batch, false, err);
}

static enum xt_status open_view(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    struct xt_network *network = command->network;
    enum xt_status status = xt_objective_create(&command->objective, network, s, err);
    command->view.objective = command->objective;
    if (is_comparison(command))
        return status;
    command->view.show = s->json ? 0 : (size_t)s->show;
    if (!status && network->task == XT_TASK_CLASSES)
        status = xt_mem_calloc(&command->view.rows, (size_t)network->classes,
                               sizeof *command->view.rows, "the table of classes", err);
    return status;
}

static enum xt_status evaluate_all(struct command *command, struct xt_err *err)
{
    enum xt_status status = open_view(command, err);
    for (int i = 0; i < command->count && !status; i++)
        status = evaluate(command, i, err);
    if (!status && command->options->values.json)
        status = print_json(command, err);
    else if (!status && is_comparison(command))
        print_comparison(command);
    else if (!status)
        status = print_result(command, err);
    for (int i = 0; i < command->count; i++)
        xt_evaluation_clear(&command->runs[i].result);
    free(command->view.rows);
    xt_objective_destroy(command->objective);
    return status;
}

static enum xt_status list_runs(struct command *command, struct xt_err *err)
{
    const struct xt_options *options = command->options;
    struct xt_settings settings = options->values;
    bool compared = is_comparison(command);
    command->count = compared ? xt_options_count(options, "compare") : 1;
    enum xt_status status = xt_mem_calloc(&command->runs, (size_t)command->count,
                                          sizeof *command->runs, "the runs", err);
    if (!status && compared && xt_options_source(options, "amp") == XT_SOURCE_COMMAND_LINE)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--compare says the types; leave --amp out, or give --amp alone");
    for (int i = 0; i < command->count && !status; i++) {
        command->runs[i].amp = settings.amp;
        if (compared)
            status = xt_options_pick(options, "compare", i, &settings, err);
        if (compared)
            command->runs[i].amp = settings.compare;
        /* Before the types ahead of it take their time. */
        if (!status && command->runs[i].amp == XT_AMP_INT8)
            status = xt_calibrate_check(&settings, err);
    }
    return status;
}

enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err)
{
    struct xt_network network = {0};
    struct command command = {.options = options, .network = &network};
    enum xt_status status = list_runs(&command, err);
    if (!status)
        status = open_network(&command, err);
    if (!status)
        status = evaluate_all(&command, err);
    xt_source_destroy(command.source);
    free(command.runs);
    xt_network_clear(&network);
    return status;
}
