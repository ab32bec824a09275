#include "cli/options/settle.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Precedence of two conflicting options: above 0 if `a` has the higher source and wins, below if
 * `b` has, 0 if both have the same source. */
static int compare_sources(const struct xt_options *options, const char *a, const char *b)
{
    return (int)xt_options_source(options, a) - (int)xt_options_source(options, b);
}

/* Sets the option to the value that another one implies, with that one's origin. */
static void imply(struct xt_options *options, const char *name, const char *by)
{
    options->origins[xt_option_index(xt_option_find(name))] =
        options->origins[xt_option_index(xt_option_find(by))];
}

static enum xt_status contradiction(const struct xt_options *options, const char *name,
                                    const char *rest, struct xt_err *err)
{
    char subject[XT_OPTION_SUBJECT];
    xt_options_subject(subject, options, name);
    return xt_err_set(err, XT_ERR_USAGE, "%s %s", subject, rest);
}

/* Afterwards `device` is complete and `xpu` agrees with it. */
static enum xt_status settle_device(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    bool device_is_xpu = xt_str_starts(values->device.name, "xpu");
    bool xpu_is_said = xt_options_source(options, "xpu") != XT_SOURCE_DEFAULT;
    if (values->device.xpu == device_is_xpu && strcmp(values->device.name, "auto") != 0)
        return XT_OK;
    if (!values->device.xpu && !xpu_is_said) {
        values->device.xpu = device_is_xpu;
        if (device_is_xpu)
            imply(options, "xpu", "device");
        return XT_OK;
    }
    int order = compare_sources(options, "xpu", "device");
    if (order == 0) {
        char rest[128];
        snprintf(rest, sizeof rest, "%s the device %s; keep the one you mean",
                 values->device.xpu ? "contradicts" : "is switched off, which contradicts",
                 values->device.name);
        return contradiction(options, "xpu", rest, err);
    }
    if (order > 0) {
        values->device.name = values->device.xpu ? "xpu" : "cpu";
        imply(options, "device", "xpu");
    } else {
        values->device.xpu = device_is_xpu;
        imply(options, "xpu", "device");
    }
    return XT_OK;
}

/* Steps win over epochs, unless the epochs have a higher source. */
static void settle_length(struct xt_options *options)
{
    struct xt_settings *values = &options->values;
    if (!values->run.steps || !values->run.epochs)
        return;
    if (compare_sources(options, "epochs", "steps") > 0)
        values->run.steps = 0;
    else
        values->run.epochs = 0;
}

static enum xt_status settle_recipe(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    bool has_milestones =
        values->recipe.sched == XT_SCHED_STEP || values->recipe.sched == XT_SCHED_MULTISTEP;
    if (values->recipe.nesterov && values->recipe.optim != XT_OPTIM_SGD) {
        if (compare_sources(options, "nesterov", "optim") >= 0)
            return contradiction(options, "nesterov", "is only for the optimizer sgd", err);
        values->recipe.nesterov = false;
        imply(options, "nesterov", "optim");
    }
    if (values->recipe.milestones && !has_milestones) {
        if (compare_sources(options, "milestones", "sched") >= 0)
            return contradiction(options, "milestones", "is only for --sched step or multistep",
                                 err);
        values->recipe.milestones = NULL;
    }
    if (has_milestones && !values->recipe.milestones)
        return contradiction(options, "sched",
                             values->recipe.sched == XT_SCHED_STEP
                                 ? "step needs its period in epochs, such as --milestones 10"
                                 : "multistep needs the epochs, such as --milestones 10,20",
                             err);
    if (values->run.min_delta > 0 && !values->run.patience)
        return contradiction(options, "min-delta", "defines a gain for --patience; give both", err);
    if (values->data.val_part > 0 && values->data.val)
        return contradiction(options, "val-part",
                             "holds out a part of --data, --val names other images; give one", err);
    if (values->recipe.min_lr > values->recipe.lr)
        return contradiction(options, "min-lr", "is above lr, the highest rate", err);
    if (values->network.random_init && values->network.init)
        return contradiction(
            options, "random-init",
            "starts from random weights, --init FILE from given ones; give only one", err);
    if (values->network.init_partial && !values->network.init)
        return contradiction(options, "init-partial", "needs the weights to take: --init FILE",
                             err);
    return XT_OK;
}

/* Sets an option to what another one requires, unless it was typed. */
static void ask_for(struct xt_options *options, const char *name, const char *by, void *value,
                    const void *wanted, size_t size)
{
    if (xt_options_source(options, name) == XT_SOURCE_COMMAND_LINE)
        return;
    memcpy(value, wanted, size);
    imply(options, name, by);
}

static void ask_for_integer(struct xt_options *options, const char *name, int *value, int wanted)
{
    ask_for(options, name, "overfit", value, &wanted, sizeof wanted);
}

/* To memorise few images: no augmentation, no regularisation, enough steps, an evaluation every 20
 * steps. */
static void settle_overfit(struct xt_options *options)
{
    enum { STEPS = 400, EVALUATE_EVERY = 20 };
    struct xt_settings *v = &options->values;
    static const bool no = false;
    static const double none = 0;
    static const int64_t steps = STEPS;
    if (!v->run.overfit)
        return;
    const struct {
        const char *name;
        double *value;
    } off[] = {{"jitter", &v->data.jitter},     {"hue", &v->data.hue},
               {"dropout", &v->recipe.dropout}, {"label-smoothing", &v->recipe.label_smoothing},
               {"mixup", &v->data.mixup},       {"weight-decay", &v->recipe.weight_decay}};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        ask_for(options, off[i].name, "overfit", off[i].value, &none, sizeof none);
    ask_for(options, "augment", "overfit", &v->data.augment, &no, sizeof no);
    ask_for(options, "flip", "overfit", &v->data.flip, &no, sizeof no);
    ask_for_integer(options, "accumulate", &v->recipe.accumulate, 1);
    if (v->network.batch > v->run.overfit)
        ask_for_integer(options, "batch", &v->network.batch, v->run.overfit);
    if (xt_options_source(options, "epochs") != XT_SOURCE_COMMAND_LINE)
        ask_for(options, "steps", "overfit", &v->run.steps, &steps, sizeof steps);
    int batches = v->network.batch ? v->run.overfit / v->network.batch : 1;
    int epochs = EVALUATE_EVERY / (batches > 0 ? batches : 1);
    ask_for_integer(options, "eval-every", &v->run.eval_every, epochs > 1 ? epochs : 1);
    ask_for_integer(options, "save-every", &v->record.save_every, STEPS);
}

static enum xt_status settle_alphabet(struct xt_options *options, struct xt_err *err)
{
    const struct xt_network_settings *network = &options->values.network;
    if (network->blank == XT_BLANK_AUTO || network->alphabet ||
        xt_options_source(options, "blank") < XT_SOURCE_CONFIG)
        return XT_OK;
    return contradiction(options, "blank", "is about the file of --alphabet; give both", err);
}

static enum xt_status settle_output(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    if (!values->output.quiet || !values->output.verbose)
        return XT_OK;
    int order = compare_sources(options, "quiet", "verbose");
    if (order == 0)
        return contradiction(options, "quiet", "contradicts verbose; keep the one you mean", err);
    values->output.quiet = order > 0;
    values->output.verbose = order < 0;
    return XT_OK;
}

/* A rule of a run's settings was for its training, which stored what came of it. */
static void settle_reject(struct xt_options *options)
{
    struct xt_reject_rule *rule = &options->values.answer.reject;
    if (rule->kind >= XT_REJECT_AUTO && options->command != XT_COMMAND_TRAIN &&
        xt_options_source(options, "reject") != XT_SOURCE_COMMAND_LINE)
        *rule = (struct xt_reject_rule){.kind = XT_REJECT_STORED};
}

/* Commands without `automatic` have no training memory to fill. */
static enum xt_status settle_batch(const struct xt_options *options, struct xt_err *err)
{
    const struct xt_option *batch = xt_option_find("batch");
    if (options->values.network.batch || !xt_option_is_for(batch, options->command) ||
        batch->automatic >> options->command & 1)
        return XT_OK;
    char rest[96];
    snprintf(rest, sizeof rest, "auto is not supported by xtrain %s; give a number",
             xt_command_get(options->command)->name);
    return contradiction(options, "batch", rest, err);
}

/* --no-device-check, which gives way to --check-device. */
static void settle_check(struct xt_options *options)
{
    static const enum xt_check_choice never = XT_CHECK_NEVER;
    struct xt_device_settings *device = &options->values.device;
    if (!device->check_first)
        ask_for(options, "check-device", "device-check", &device->check, &never, sizeof never);
}

enum xt_status xt_options_settle(struct xt_options *options, struct xt_err *err)
{
    enum xt_status status = settle_device(options, err);
    if (!status)
        status = settle_batch(options, err);
    if (!status)
        status = settle_output(options, err);
    if (!status)
        status = settle_alphabet(options, err);
    settle_reject(options);
    settle_check(options);
    if (!status && options->command == XT_COMMAND_TRAIN)
        status = settle_recipe(options, err);
    if (options->command == XT_COMMAND_TRAIN)
        settle_overfit(options);
    settle_length(options);
    return status;
}
