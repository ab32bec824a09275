/* xtrain selftest: compares every op of the networks on this device with a reference in double
 * precision. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "data/alphabet.h"
#include "device/types.h"
#include "engine/selftest/selftest.h"
#include "engine/selftest/whole.h"
#include "infer/network/network.h"
#include "infer/network/network_build.h"
#include "models/loaded.h"
#include "train/synthetic_step.h"

enum { BATCH = 2, CLASSES = 10, NETWORKS_MAX = 8 };

/* A network to check. */
struct subject {
    const char *name; /* NULL: the small network */
    struct xt_selftest_network network;
    const struct xt_model_info *model; /* of `network`; NULL: built into the self-test */
    struct xt_model_options options;
    int batch;
    struct xt_selftest result;
};

struct command {
    const struct xt_options *options;
    struct xt_device device;
    enum xt_amp types[XT_AMP_COUNT];
    int type_count;
    struct xt_loaded_model *loaded; /* --model of a file, else NULL */
    struct subject *subjects;
    int subject_count;
    struct xt_progress progress;
};

/* ---- what to check ---- */

static enum xt_status choose_types(struct command *command, struct xt_err *err)
{
    struct xt_types has;
    xt_types_ask(command->device.engine, &has);
    /* On the CPU the loops beside the convolutions do not support fp16. */
    const bool runs[] = {
        [XT_AMP_OFF] = has.trains_f32,
        [XT_AMP_BF16] = has.trains_bf16,
        [XT_AMP_FP16] = has.trains_fp16 && command->device.trains_fp16,
        [XT_AMP_INT8] = has.infers_int8,
    };
    enum xt_amp asked = command->options->values.network.amp;
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

static struct xt_tensor *describe_model(struct xt_graph *graph, const void *context)
{
    const struct subject *subject = context;
    return xt_model_describe(subject->model, graph, &subject->options);
}

static enum xt_status add_model(struct command *command, const struct xt_model_info *model,
                                struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    if (command->subject_count == NETWORKS_MAX)
        return xt_err_set(err, XT_ERR_RUN, "more than %d networks", NETWORKS_MAX);
    bool sized = s->network.image_size && model->any_size;
    if (s->network.image_size && !sized && s->network.model &&
        s->network.image_size != model->height)
        return xt_err_set(err, XT_ERR_USAGE, "--image-size %d: %s reads images of %dx%d only",
                          s->network.image_size, model->name, model->width, model->height);
    struct subject *subject = &command->subjects[command->subject_count++];
    *subject = (struct subject){
        .name = model->name,
        .network = {.describe = describe_model, .context = subject},
        .model = model,
        .options = {.classes = s->network.classes ? s->network.classes : CLASSES,
                    .height = sized ? s->network.image_size : model->height,
                    .width = sized ? s->network.image_size : model->width,
                    .context_over_batch = s->network.lprnet_norm == XT_CONTEXT_BATCH},
        .batch = xt_options_source(command->options, "batch") >= XT_SOURCE_CONFIG ? s->network.batch
                                                                                  : BATCH,
    };
    if (model->classes && !s->network.classes)
        subject->options.classes = model->classes;
    if (!model->time_steps || model->classes)
        return XT_OK;
    struct xt_alphabet *alphabet = NULL;
    enum xt_status status = xt_network_alphabet(&s->network, &alphabet, err);
    if (!status)
        subject->options.classes = xt_alphabet_count(alphabet);
    xt_alphabet_destroy(alphabet);
    return status;
}

/* The small network first: an error is easiest to analyse there. */
static enum xt_status choose_subjects(struct command *command, struct xt_err *err)
{
    const char *name = command->options->values.network.model;
    const struct xt_model_info *model = NULL;
    int side = command->options->values.network.image_size;
    enum xt_status status =
        name ? xt_model_choose(name, side, &command->loaded, &model, err) : XT_OK;
    if (!status)
        status = xt_mem_calloc(&command->subjects, NETWORKS_MAX, sizeof *command->subjects,
                               "the self-test", err);
    if (status)
        return status;
    command->subjects[command->subject_count++] =
        (struct subject){.network = xt_selftest_small, .batch = 3};
    /* Channel counts as in the networks: other kernels than those of odd shapes. */
    command->subjects[command->subject_count++] = (struct subject){
        .name = "known",
        .network = xt_selftest_known,
        .options = {.height = XT_SELFTEST_KNOWN_SIDE, .width = XT_SELFTEST_KNOWN_SIDE},
        .batch = BATCH};
    if (command->options->values.small_shapes)
        return XT_OK;
    if (model)
        return add_model(command, model, err);
    for (size_t i = 0; (model = xt_model_at(i)) && !status; i++)
        if (model->in_selftest)
            status = add_model(command, model, err);
    return status;
}

/* ---- checking ---- */

static void show_op(void *context, struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    struct command *command = context;
    (void)op;
    (void)backward;
    xt_progress_count(&command->progress, op->index + 1, graph->op_count);
}

static enum xt_status check_subject(struct command *command, struct subject *subject,
                                    struct xt_err *err)
{
    enum xt_status status = XT_OK;
    /* The small network has both kinds of global context. */
    int variants = subject->name ? 1 : 2;
    for (int i = 0; i < command->type_count * variants && !status; i++) {
        enum xt_amp type = command->types[i / variants];
        struct xt_selftest_options options = {.device = &command->device,
                                              .network = i % variants ? xt_selftest_small_over_batch
                                                                      : subject->network,
                                              .batch = subject->batch,
                                              .dtype = xt_amp_dtype(type),
                                              .int8 = type == XT_AMP_INT8,
                                              .thorough = !subject->name,
                                              .before = show_op,
                                              .context = command};
        status = xt_selftest_run(&subject->result, &options, err);
        if (!status)
            status = xt_selftest_whole(&subject->result, &options, err);
        if (status)
            xt_err_prefix(err, "%s, %s: ", subject->name ? subject->name : "small shapes",
                          xt_amp_name(type));
    }
    return status;
}

/* ---- reporting ---- */

static void title_of(const struct subject *subject, char *out, size_t size)
{
    if (subject->name)
        snprintf(out, size, "%s, %dx%d, batch %d", subject->name, subject->options.width,
                 subject->options.height, subject->batch);
    else
        snprintf(out, size, "small shapes, batch %d", subject->batch);
}

static void add_row(struct xt_report *table, const struct xt_selftest_row *row)
{
    struct xt_report *item = xt_report_group(table, NULL);
    xt_report_add(item, "op", "op", "%s", row->kind);
    xt_report_add(item, "type", "type", "%s", xt_dtype_name(row->dtype));
    xt_report_add(item, "pass", "pass", "%s", xt_selftest_pass_name(row->pass));
    xt_report_add(item, "op_count", "ops", "%d", row->ops);
    xt_report_add(item, "wrong", NULL, "%d", row->wrong);
    xt_report_add(item, "largest_error", "error", "%.1e", row->error);
    xt_report_add(item, "bound", "bound", "%.1e", row->bound);
    xt_report_add(item, "where", NULL, "%s", row->where);
    xt_report_add(item, NULL, "nearest", row->wrong ? "WRONG %s" : "%s", row->where);
}

static void add_subject(struct xt_report *list, const struct subject *subject)
{
    struct xt_report *item = xt_report_group(list, NULL);
    char title[96];
    title_of(subject, title, sizeof title);
    xt_report_line(item, "%s", "");
    xt_report_line(item, "%s", title);
    xt_report_values(item, "network=%s batch=%d", subject->name ? subject->name : "small shapes",
                     subject->batch);
    if (subject->name) {
        xt_report_values(item, "width=%d height=%d", subject->options.width,
                         subject->options.height);
    }
    struct xt_report *table = xt_report_table(item, "rows");
    for (int i = 0; i < subject->result.row_count; i++)
        add_row(table, &subject->result.rows[i]);
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

static enum xt_status print(const struct command *command, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    int wrong = count_wrong(command);
    xt_report_line(report, "%s: each op against a reference in double precision",
                   command->device.name);
    xt_report_line(report,
                   "errors are relative to the tensor's largest value; shown is the one nearest "
                   "to its bound");
    xt_report_values(report, "device=%s op_count=%d wrong=%d", command->device.name,
                     count_ops(command), wrong);
    struct xt_report *networks = xt_report_list(report, "networks");
    for (int i = 0; i < command->subject_count; i++)
        add_subject(networks, &command->subjects[i]);
    char verdict[32] = "all within their bounds";
    if (wrong)
        snprintf(verdict, sizeof verdict, "%d WRONG", wrong);
    xt_report_line(report, "%s", "");
    xt_report_line(report, "%d passes of ops checked, %s", count_ops(command), verdict);
    return xt_result_put(report, err);
}

/* Reports the first network with an op out of tolerance. */
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
    const struct xt_device_options options = {.spec = s->device.name,
                                              .threads = s->device.threads,
                                              .cache_folder = s->device.cache_dir,
                                              .no_cache = !s->device.kernel_cache};
    enum xt_status status = xt_device_open_with(&command->device, &options, err);
    if (!status && *command->device.chosen)
        xt_log_note("--device %s: %s (%s)", s->device.name, command->device.name,
                    command->device.chosen);
    return status;
}

/* ---- --step ---- */

/* Lines of text, which train/trainer/check_device.c reads. */
static enum xt_status print_step(const struct xt_synthetic_step *step, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "device", "device", "%s", step->network->device.name);
    xt_report_values(report, "op_count=%d wrong=%d", 0, 0);
    xt_report_list(report, "networks");
    xt_report_line(report, "loss %.9g", step->mean);
    for (size_t i = 0; i < step->count; i++) {
        const struct xt_gradient_sums *p = &step->params[i];
        xt_report_line(report, "gradient %s %.9g %.9g %.9g %.9g %.9g", p->name, p->norm, p->sums[0],
                       p->sums[1], p->sums[2], p->sums[3]);
    }
    return xt_result_put(report, err);
}

static enum xt_status run_step(const struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_network_settings settings = s->network;
    struct xt_synthetic_step step = {.network = NULL};
    struct xt_network *network = NULL;
    bool has_batch = xt_options_source(options, "batch") >= XT_SOURCE_CONFIG;
    settings.model = NULL;
    settings.init = s->step;
    enum xt_status status = xt_mem_calloc(&network, 1, sizeof *network, "the network", err);
    if (status)
        return status;
    status = xt_network_init(network, &settings, &s->device, has_batch ? settings.batch : BATCH,
                             true, err);
    if (!status)
        status = xt_synthetic_step_init(&step, network, network->graph, err);
    if (!status)
        status = xt_synthetic_step_sum(&step, err);
    if (!status)
        status = print_step(&step, err);
    if (step.network)
        xt_synthetic_step_clear(&step);
    xt_network_clear(network);
    free(network);
    return status;
}

enum xt_status xt_cmd_selftest(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    if (s->step)
        return run_step(options, err);
    struct command command = {.options = options};
    xt_progress_init(&command.progress, s->output.quiet, true);
    enum xt_status status = open_device(&command, err);
    if (!status)
        status = choose_types(&command, err);
    if (!status)
        status = choose_subjects(&command, err);
    for (int i = 0; i < command.subject_count && !status; i++)
        status = check_subject(&command, &command.subjects[i], err);
    xt_progress_clear(&command.progress);
    if (!status)
        status = print(&command, err);
    if (!status)
        status = verdict(&command, err);
    free(command.subjects);
    xt_model_close(command.loaded);
    xt_device_close(&command.device);
    return status;
}
