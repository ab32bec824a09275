/* xtrain bench step: the time of a training step, compared with its lower bound, the network's
 * convolutions.
 *
 * Each combination of devices, batches, types and numbers of busy processes is one run. Several
 * runs each get their own process, so that peak memory and first step are not shared.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/system/process.h"
#include "cli/json/result.h"
#include "cli/bench/against.h"
#include "cli/bench/step_report.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
#include "models/registry.h"
#include "cli/bench/cpu_share.h"

enum { STEPS = 12, STEPS_MAX = 100000 };

struct command {
    const struct xt_options *options;
    struct xt_bench_run *runs;
    int count;
    struct xt_bench_old *old;
};

static int steps_to_time(const struct xt_options *options)
{
    /* The recipe's steps are the length of a training run. */
    bool said = xt_options_source(options, "steps") >= XT_SOURCE_CONFIG;
    int64_t steps = said ? options->values.run.steps : STEPS;
    return steps > STEPS_MAX ? STEPS_MAX : (int)steps;
}

static enum xt_status measure(const struct command *command, const struct xt_settings *settings,
                              struct xt_bench_step *result, struct xt_err *err)
{
    struct xt_progress progress;
    /* Standard output is for the results. */
    xt_progress_init(&progress, settings->output.quiet, true);
    const struct xt_bench_observer observer = {.context = &progress, .progress = xt_progress_count};
    const struct xt_train_settings training = xt_options_train(settings);
    enum xt_status status = xt_bench_step(result, &training, steps_to_time(command->options),
                                          settings->bench.why, &observer, err);
    xt_progress_clear(&progress);
    return status;
}

/* ---- a run in its own process ---- */

struct job {
    const struct command *command;
    const struct xt_settings *settings;
};

/* What the child sends; the profile's ops follow. */
struct message {
    struct xt_err err;
    struct xt_bench_step result;
};

static void do_job(const void *argument, void *result)
{
    const struct job *job = argument;
    struct message *message = result;
    measure(job->command, job->settings, &message->result, &message->err);
}

static const void *ops_of(const void *result, size_t *bytes)
{
    const struct xt_bench_profile *profile = &((const struct message *)result)->result.profile;
    *bytes = (size_t)profile->op_count * sizeof *profile->ops;
    return profile->ops;
}

static enum xt_status measure_apart(const struct command *command,
                                    const struct xt_settings *settings,
                                    struct xt_bench_step *result, struct xt_err *err)
{
    struct message message;
    struct xt_str ops = {0};
    struct xt_err why = {0};
    const struct job job = {.command = command, .settings = settings};
    const struct xt_process process = {
        .work = do_job, .argument = &job, .speaks = true, .points_to = ops_of, .rest = &ops};
    enum xt_status status = xt_process_run(&process, &message, sizeof message, NULL, &why);
    if (status == XT_ERR_DEVICE)
        status = xt_err_set(err, XT_ERR_RUN,
                            "the process of one run exited before it was done: %s; if memory ran "
                            "out, give a smaller --batch",
                            why.text);
    else if (status)
        *err = why;
    else if (message.err.status)
        *err = message.err;
    if (status || message.err.status) {
        xt_str_clear(&ops);
        return err->status;
    }
    *result = message.result;
    result->profile.ops = (struct xt_bench_op *)(void *)ops.data;
    return XT_OK;
}

/* ---- all runs ---- */

static enum xt_status pick(const struct xt_options *options, int index,
                           struct xt_settings *settings, struct xt_err *err)
{
    int types = xt_options_count(options, "amp");
    int batches = xt_options_count(options, "batch");
    int devices = xt_options_count(options, "device");
    *settings = options->values;
    enum xt_status status = xt_options_pick(options, "amp", index % types, settings, err);
    if (!status)
        status = xt_options_pick(options, "batch", index / types % batches, settings, err);
    if (!status)
        status =
            xt_options_pick(options, "device", index / types / batches % devices, settings, err);
    if (!status)
        status =
            xt_options_pick(options, "beside", index / types / batches / devices, settings, err);
    settings->device.xpu = xt_str_starts(settings->device.name, "xpu");
    return status;
}

/* Checks the file to compare with before anything is measured. */
static enum xt_status check_old(const struct command *command, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; command->old && i < command->count && !status; i++) {
        struct xt_settings settings;
        double rate = 0;
        status = pick(command->options, i, &settings, err);
        if (!status && !settings.network.batch)
            status = xt_err_set(err, XT_ERR_USAGE,
                                "--batch auto has nothing to compare with in --against %s: give "
                                "the batch of that run",
                                settings.bench.against);
        if (!status)
            status =
                xt_bench_old_rate(command->old, &settings, settings.device.threads, &rate, err);
    }
    return status;
}

static enum xt_status run_one(struct command *command, int index, struct xt_err *err)
{
    struct xt_bench_run *run = &command->runs[index];
    struct xt_settings settings;
    enum xt_status status = pick(command->options, index, &settings, err);
    if (status)
        return status;
    run->model = settings.network.model;
    run->device = settings.device.name;
    run->beside = settings.bench.beside;
    struct xt_process_load load = {0};
    if (run->beside)
        status = xt_process_load_begin(&load, run->beside, err);
    if (status)
        return status;
    status = command->count == 1 ? measure(command, &settings, &run->result, err)
                                 : measure_apart(command, &settings, &run->result, err);
    xt_process_load_end(&load);
    if (status || !command->old)
        return status;
    return xt_bench_old_rate(command->old, &settings, run->result.threads, &run->old_rate, err);
}

static bool is_beside(const struct command *command)
{
    for (int i = 0; i < command->count; i++)
        if (command->runs[i].beside)
            return true;
    return false;
}

static enum xt_status report(const struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "%s: training steps on random images in memory, %s",
                   xt_model_title(s->network.model), command->runs[0].result.device);
    if (s->network.recompute)
        xt_report_flag(report, "recompute", "activations", true, "recomputed (--recompute)", "");
    xt_bench_describe(report, command->runs, command->count,
                      (struct xt_bench_show){.profile = s->bench.profile,
                                             .why = s->bench.why,
                                             .beside = is_beside(command)});
    return xt_result_put(report, err);
}

static enum xt_status run_all(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    enum xt_status status = XT_OK;
    double others = 0;
    for (int i = 0; i < command->count && !status; i++)
        status = run_one(command, i, err);
    if (!status)
        status = report(command, err);
    for (int i = 0; i < command->count; i++)
        others = fmax(others, command->runs[i].result.others);
    if (!status && !is_beside(command))
        xt_cpu_warn_of_others(others);
    if (!status && command->old)
        status = xt_bench_compare(command->runs, command->count, s->bench.against, err);
    return status;
}

enum xt_status xt_cmd_bench_step(struct xt_options *options, struct xt_err *err)
{
    struct command command = {
        .options = options,
        .count = xt_options_count(options, "device") * xt_options_count(options, "batch") *
                 xt_options_count(options, "amp") * xt_options_count(options, "beside")};
    enum xt_status status =
        xt_mem_calloc(&command.runs, (size_t)command.count, sizeof *command.runs, "the runs", err);
    if (!status && options->values.bench.against)
        status = xt_bench_old_read(&command.old, options->values.bench.against, err);
    if (!status)
        status = check_old(&command, err);
    if (!status)
        status = run_all(&command, err);
    for (int i = 0; command.runs && i < command.count; i++)
        xt_bench_step_clear(&command.runs[i].result);
    free(command.runs);
    xt_bench_old_destroy(command.old);
    return status;
}
