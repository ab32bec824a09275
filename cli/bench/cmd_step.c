/* xtrain bench step: what a training step takes, and how near that is to the convolutions alone.
 *
 * Lists of devices, batches and types give a run each. Every one of several runs has a process of
 * its own, so that peak memory and first step are its alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/bench/report.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
#include "models/registry.h"
#include "cli/bench/cpu_share.h"
#include "train/network_plan.h"

enum { STEPS = 12, STEPS_MAX = 100000 };

struct command {
    const struct xt_options *options;
    struct xt_bench_run *runs;
    int count;
    struct xt_bench_old *old;
    bool is_child; /* this process measured one run for its parent, and has nothing to say */
};

static void show_progress(void *context, int done, int all)
{
    struct xt_progress *progress = context;
    struct xt_progress_state state = {.step = done,
                                      .steps = all,
                                      .loss = NAN,
                                      .lr = NAN,
                                      .images_per_s = NAN,
                                      .seconds_left = NAN,
                                      .wait = NAN};
    xt_progress_show(progress, &state, xt_thread_seconds(), false);
}

static int steps_to_time(const struct xt_options *options)
{
    /* A recipe's steps are the length of a training run. */
    bool said = xt_options_source(options, "steps") >= XT_SOURCE_CONFIG;
    int64_t steps = said ? options->values.steps : STEPS;
    return steps > STEPS_MAX ? STEPS_MAX : (int)steps;
}

static enum xt_status measure(const struct command *command, const struct xt_settings *settings,
                              struct xt_bench_step *result, struct xt_err *err)
{
    struct xt_progress progress;
    /* Standard output belongs to the results. */
    xt_progress_init(&progress, settings->quiet, true);
    const struct xt_bench_observer observer = {.context = &progress, .progress = show_progress};
    enum xt_status status =
        xt_bench_step(result, settings, steps_to_time(command->options), &observer, err);
    xt_progress_clear(&progress);
    return status;
}

/* ---- a run in a process of its own ---- */

/* What the child sends; the profile's ops follow. */
struct message {
    struct xt_err err;
    struct xt_bench_step result;
};

static bool send_all(int fd, const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count) {
        ssize_t sent = write(fd, from, count);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        from += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t count)
{
    char *to = bytes;
    while (count) {
        ssize_t got = read(fd, to, count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        count -= (size_t)got;
    }
    return true;
}

static enum xt_status be_child(const struct command *command, const struct xt_settings *settings,
                               int fd)
{
    struct message message = {.err = {.status = XT_OK}};
    measure(command, settings, &message.result, &message.err);
    const struct xt_bench_profile *profile = &message.result.profile;
    bool sent = send_all(fd, &message, sizeof message) &&
                send_all(fd, profile->ops, (size_t)profile->op_count * sizeof *profile->ops);
    xt_bench_step_clear(&message.result);
    return sent ? XT_OK : XT_ERR_RUN;
}

static enum xt_status receive(int fd, struct xt_bench_step *result, struct xt_err *err)
{
    struct message message;
    if (!receive_all(fd, &message, sizeof message))
        return xt_err_set(err, XT_ERR_RUN,
                          "the process of one run ended before it was done; where memory ran out, "
                          "give a smaller --batch");
    if (message.err.status) {
        *err = message.err;
        return err->status;
    }
    *result = message.result;
    size_t ops = (size_t)result->profile.op_count;
    result->profile.ops = NULL;
    enum xt_status status =
        xt_mem_calloc(&result->profile.ops, ops, sizeof *result->profile.ops, "the profile", err);
    if (!status && !receive_all(fd, result->profile.ops, ops * sizeof *result->profile.ops))
        status = xt_err_set(err, XT_ERR_RUN, "the process of one run sent half of its results");
    return status;
}

static enum xt_status measure_apart(struct command *command, const struct xt_settings *settings,
                                    struct xt_bench_step *result, struct xt_err *err)
{
    int ends[2];
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC))
        return xt_err_set(err, XT_ERR_RUN, "no pipe to a process of its own: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        command->is_child = true;
        close(ends[0]);
        enum xt_status status = be_child(command, settings, ends[1]);
        close(ends[1]);
        return status;
    }
    close(ends[1]);
    enum xt_status status =
        child < 0
            ? xt_err_set(err, XT_ERR_RUN, "no process of its own for a run: %s", strerror(errno))
            : receive(ends[0], result, err);
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- all runs ---- */

static enum xt_status pick(const struct xt_options *options, int index,
                           struct xt_settings *settings, struct xt_err *err)
{
    int types = xt_options_count(options, "amp");
    int batches = xt_options_count(options, "batch");
    *settings = options->values;
    enum xt_status status = xt_options_pick(options, "amp", index % types, settings, err);
    if (!status)
        status = xt_options_pick(options, "batch", index / types % batches, settings, err);
    if (!status)
        status = xt_options_pick(options, "device", index / types / batches, settings, err);
    settings->xpu = xt_str_starts(settings->device, "xpu");
    return status;
}

static const char *type_name(const struct xt_settings *settings)
{
    return xt_dtype_name(xt_network_dtype(settings));
}

/* What there is to compare with, before anything is measured. */
static enum xt_status check_old(const struct command *command, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; command->old && i < command->count && !status; i++) {
        struct xt_settings settings;
        double rate = 0;
        status = pick(command->options, i, &settings, err);
        if (!status && !settings.batch)
            status = xt_err_set(err, XT_ERR_USAGE,
                                "--batch auto has nothing to compare with in --against %s: give "
                                "the batch of that run",
                                settings.against);
        if (!status)
            status = xt_bench_old_rate(command->old, settings.model, settings.device,
                                       type_name(&settings), settings.batch, settings.threads,
                                       &rate, err);
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
    run->model = settings.model;
    run->device = settings.device;
    status = command->count == 1 ? measure(command, &settings, &run->result, err)
                                 : measure_apart(command, &settings, &run->result, err);
    if (status || command->is_child || !command->old)
        return status;
    return xt_bench_old_rate(command->old, run->model, run->device, type_name(&settings),
                             settings.batch, run->result.threads, &run->old_rate, err);
}

static void warn_of_others(const struct command *command)
{
    double most = 0;
    for (int i = 0; i < command->count; i++)
        if (command->runs[i].result.others > most)
            most = command->runs[i].result.others;
    if (most > XT_CPU_OTHERS_MAX)
        xt_log_warn("other processes took %.0f %% of this machine's CPU time meanwhile: the rates "
                    "are too low, and ratios between runs are uncertain",
                    100 * most);
}

static enum xt_status print_json(const struct command *command, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = xt_bench_to_json(command->runs, command->count,
                                             command->options->values.profile, &text, err);
    if (!status)
        fputs(xt_str_get(&text), stdout);
    xt_str_clear(&text);
    return status;
}

static void print_text(const struct command *command)
{
    const struct xt_settings *s = &command->options->values;
    printf("%s: training steps on random pictures in memory, %s\n", xt_model_find(s->model)->title,
           command->runs[0].result.device);
    xt_bench_print_table(command->runs, command->count, stdout);
    for (int i = 0; s->profile && i < command->count; i++) {
        const struct xt_bench_step *r = &command->runs[i].result;
        printf("\n%s, %s, batch %d\n", command->runs[i].device, xt_dtype_name(r->dtype), r->batch);
        xt_bench_print_profile(&r->profile, stdout);
    }
}

static enum xt_status run_all(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    enum xt_status status = XT_OK;
    for (int i = 0; i < command->count && !status; i++) {
        status = run_one(command, i, err);
        if (command->is_child)
            return status;
    }
    if (!status && s->json)
        status = print_json(command, err);
    if (!status && !s->json)
        print_text(command);
    if (!status)
        warn_of_others(command);
    if (!status && command->old)
        status = xt_bench_compare(command->runs, command->count, s->against, err);
    return status;
}

enum xt_status xt_cmd_bench_step(struct xt_options *options, struct xt_err *err)
{
    struct command command = {.options = options,
                              .count = xt_options_count(options, "device") *
                                       xt_options_count(options, "batch") *
                                       xt_options_count(options, "amp")};
    enum xt_status status =
        xt_mem_calloc(&command.runs, (size_t)command.count, sizeof *command.runs, "the runs", err);
    if (!status && options->values.against)
        status = xt_bench_old_read(&command.old, options->values.against, err);
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
