/* xtrain selftest: every op of the networks on this device against plain loops. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
#include "data/alphabet.h"
#include "device/types.h"
#include "models/selftest/selftest.h"

enum { BATCH = 2, CLASSES = 10, NETWORKS_MAX = 8 };

/* A network as it is checked. */
struct subject {
    const struct xt_model_info *model; /* NULL: the small one */
    struct xt_model_options options;
    int batch;
    struct xt_selftest result;
};

struct command {
    const struct xt_options *options;
    struct xt_device device;
    enum xt_amp types[XT_AMP_COUNT];
    int type_count;
    struct subject *subjects;
    int subject_count;
    struct xt_progress progress;
    int ops_done;
};

/* ---- what is checked ---- */

static enum xt_status choose_types(struct command *command, struct xt_err *err)
{
    struct xt_types has;
    xt_types_ask(command->device.engine, &has);
    /* On the CPU the loops beside the convolutions know no fp16. */
    const bool runs[] = {
        [XT_AMP_OFF] = has.trains_f32,
        [XT_AMP_BF16] = has.trains_bf16,
        [XT_AMP_FP16] = has.trains_fp16 && command->device.kind == XT_DEVICE_XPU,
        [XT_AMP_INT8] = has.infers_int8,
    };
    enum xt_amp asked = command->options->values.amp;
    bool said = xt_options_source(command->options, "amp") >= XT_SOURCE_CONFIG;
    if (said && !runs[asked])
        return xt_err_set(err, XT_ERR_DEVICE, "%s does not %s in %s", command->device.name,
                          asked == XT_AMP_INT8 ? "infer" : "train", xt_amp_name(asked));
    for (int type = 0; type < XT_AMP_COUNT; type++)
        if (runs[type] && (!said || (enum xt_amp)type == asked))
            command->types[command->type_count++] = (enum xt_amp)type;
    return command->type_count
               ? XT_OK
               : xt_err_set(err, XT_ERR_DEVICE, "%s trains in no data type", command->device.name);
}

static enum xt_status add_model(struct command *command, const struct xt_model_info *model,
                                struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    if (command->subject_count == NETWORKS_MAX)
        return xt_err_set(err, XT_ERR_RUN, "more than %d networks", NETWORKS_MAX);
    bool sized = s->image_size && model->any_size;
    if (s->image_size && !sized && s->model && s->image_size != model->height)
        return xt_err_set(err, XT_ERR_USAGE, "--image-size %d: %s reads images of %dx%d alone",
                          s->image_size, model->name, model->width, model->height);
    struct subject *subject = &command->subjects[command->subject_count++];
    *subject = (struct subject){
        .model = model,
        .options = {.classes = s->classes ? s->classes : CLASSES,
                    .height = sized ? s->image_size : model->height,
                    .width = sized ? s->image_size : model->width,
                    .context_over_batch = s->lprnet_norm == XT_CONTEXT_BATCH},
        .batch =
            xt_options_source(command->options, "batch") >= XT_SOURCE_CONFIG ? s->batch : BATCH,
    };
    if (!model->time_steps)
        return XT_OK;
    struct xt_alphabet *alphabet = NULL;
    enum xt_status status = xt_alphabet_load(&alphabet, s->alphabet, err);
    if (!status)
        subject->options.classes = xt_alphabet_count(alphabet);
    xt_alphabet_destroy(alphabet);
    return status;
}

/* The small network first: where an op is off, its numbers are the easiest to follow. */
static enum xt_status choose_subjects(struct command *command, struct xt_err *err)
{
    const char *name = command->options->values.model;
    size_t count = 0;
    const struct xt_model_info *const *models = xt_model_all(&count);
    const struct xt_model_info *model = NULL;
    enum xt_status status = name ? xt_model_get(name, &model, err) : XT_OK;
    if (!status)
        status = xt_mem_calloc(&command->subjects, NETWORKS_MAX, sizeof *command->subjects,
                               "the self-test", err);
    if (status)
        return status;
    command->subjects[command->subject_count++] =
        (struct subject){.options = {.classes = CLASSES}, .batch = 3};
    if (command->options->values.small_shapes)
        return XT_OK;
    if (model)
        return add_model(command, model, err);
    for (size_t i = 0; i < count && !status; i++)
        status = add_model(command, models[i], err);
    return status;
}

/* ---- checking ---- */

static void show_op(void *context, struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    struct command *command = context;
    (void)op;
    (void)backward;
    struct xt_progress_state state = {.step = op->index + 1,
                                      .steps = graph->op_count,
                                      .loss = NAN,
                                      .lr = NAN,
                                      .images_per_s = NAN,
                                      .seconds_left = NAN,
                                      .wait = NAN};
    xt_progress_show(&command->progress, &state, xt_thread_seconds(), false);
}

static enum xt_status check_subject(struct command *command, struct subject *subject,
                                    struct xt_err *err)
{
    enum xt_status status = XT_OK;
    /* The small network has both kinds of global context. */
    int variants = subject->model ? 1 : 2;
    for (int i = 0; i < command->type_count * variants && !status; i++) {
        enum xt_amp type = command->types[i / variants];
        struct xt_selftest_options options = {.device = &command->device,
                                              .model = subject->model ? subject->model
                                                                      : &xt_selftest_small,
                                              .network = subject->options,
                                              .batch = subject->batch,
                                              .dtype = xt_amp_dtype(type),
                                              .int8 = type == XT_AMP_INT8,
                                              .thorough = !subject->model,
                                              .before = show_op,
                                              .context = command};
        if (i % variants)
            options.network.context_over_batch = true;
        status = xt_selftest_run(&subject->result, &options, err);
        if (status)
            xt_err_prefix(err, "%s, %s: ", subject->model ? subject->model->name : "small shapes",
                          xt_amp_name(type));
    }
    return status;
}

/* ---- what it says ---- */

static void title_of(const struct subject *subject, char *out, size_t size)
{
    if (subject->model)
        snprintf(out, size, "%s, %dx%d, batch %d", subject->model->name, subject->options.width,
                 subject->options.height, subject->batch);
    else
        snprintf(out, size, "small shapes, batch %d", subject->batch);
}

static void print_subject(const struct subject *subject)
{
    char title[96];
    title_of(subject, title, sizeof title);
    printf("\n%s\n%-15s %-5s %-10s %4s %10s %10s\n", title, "op", "type", "pass", "ops", "error",
           "bound");
    for (int i = 0; i < subject->result.row_count; i++) {
        const struct xt_selftest_row *row = &subject->result.rows[i];
        printf("%-15s %-5s %-10s %4d %10.1e %10.1e  %s%s\n", row->kind, xt_dtype_name(row->dtype),
               xt_selftest_pass_name(row->pass), row->ops, row->error, row->bound,
               row->wrong ? "WRONG " : "", row->where);
    }
}

static int count_ops(const struct command *command)
{
    int count = 0;
    for (int i = 0; i < command->subject_count; i++)
        for (int k = 0; k < command->subjects[i].result.row_count; k++)
            count += command->subjects[i].result.rows[k].ops;
    return count;
}

static int count_wrong(const struct command *command)
{
    int count = 0;
    for (int i = 0; i < command->subject_count; i++)
        count += command->subjects[i].result.wrong;
    return count;
}

static void print_text(const struct command *command)
{
    printf("%s: each op alone against plain loops in double precision\n"
           "errors are of the tensor's largest number; shown is what came nearest to its bound\n",
           command->device.name);
    for (int i = 0; i < command->subject_count; i++)
        print_subject(&command->subjects[i]);
    int wrong = count_wrong(command);
    printf("\n%d passes of ops checked, ", count_ops(command));
    printf(wrong ? "%d WRONG\n" : "all within their bounds\n", wrong);
}

static bool add_row(cJSON *rows, const struct xt_selftest_row *row)
{
    cJSON *item = cJSON_CreateObject();
    return cJSON_AddItemToArray(rows, item) && cJSON_AddStringToObject(item, "op", row->kind) &&
           cJSON_AddStringToObject(item, "type", xt_dtype_name(row->dtype)) &&
           cJSON_AddStringToObject(item, "pass", xt_selftest_pass_name(row->pass)) &&
           cJSON_AddNumberToObject(item, "ops", row->ops) &&
           cJSON_AddNumberToObject(item, "wrong", row->wrong) &&
           cJSON_AddNumberToObject(item, "error", row->error) &&
           cJSON_AddNumberToObject(item, "bound", row->bound) &&
           cJSON_AddStringToObject(item, "where", row->where);
}

static bool add_subject(cJSON *networks, const struct subject *subject)
{
    cJSON *item = cJSON_CreateObject();
    bool ok = cJSON_AddItemToArray(networks, item) &&
              cJSON_AddStringToObject(item, "network",
                                      subject->model ? subject->model->name : "small shapes") &&
              cJSON_AddNumberToObject(item, "batch", subject->batch);
    if (ok && subject->model)
        ok = cJSON_AddNumberToObject(item, "width", subject->options.width) &&
             cJSON_AddNumberToObject(item, "height", subject->options.height);
    cJSON *rows = ok ? cJSON_AddArrayToObject(item, "rows") : NULL;
    ok = rows != NULL;
    for (int i = 0; i < subject->result.row_count && ok; i++)
        ok = add_row(rows, &subject->result.rows[i]);
    return ok;
}

static enum xt_status print_json(const struct command *command, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "device", command->device.name) &&
              cJSON_AddNumberToObject(root, "ops", count_ops(command)) &&
              cJSON_AddNumberToObject(root, "wrong", count_wrong(command));
    cJSON *networks = ok ? cJSON_AddArrayToObject(root, "networks") : NULL;
    ok = networks != NULL;
    for (int i = 0; i < command->subject_count && ok; i++)
        ok = add_subject(networks, &command->subjects[i]);
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the self-test's results", 0);
}

/* Of the first network with an op that is off. */
static enum xt_status verdict(const struct command *command, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < command->subject_count && !status; i++)
        status = xt_selftest_verdict(&command->subjects[i].result, command->device.name, err);
    return status;
}

static enum xt_status open_device(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    const struct xt_device_options options = {.spec = s->device,
                                              .threads = s->threads,
                                              .cache_folder = s->cache_dir,
                                              .no_cache = !s->kernel_cache};
    enum xt_status status = xt_device_open_with(&command->device, &options, err);
    if (!status && *command->device.chosen)
        xt_log_note("--device %s: %s (%s)", s->device, command->device.name,
                    command->device.chosen);
    return status;
}

enum xt_status xt_cmd_selftest(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct command command = {.options = options};
    xt_progress_init(&command.progress, s->quiet, true);
    enum xt_status status = open_device(&command, err);
    if (!status)
        status = choose_types(&command, err);
    if (!status)
        status = choose_subjects(&command, err);
    for (int i = 0; i < command.subject_count && !status; i++)
        status = check_subject(&command, &command.subjects[i], err);
    xt_progress_clear(&command.progress);
    if (!status && s->json)
        status = print_json(&command, err);
    else if (!status)
        print_text(&command);
    if (!status)
        status = verdict(&command, err);
    free(command.subjects);
    xt_device_close(&command.device);
    return status;
}
