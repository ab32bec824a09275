#include "cli/try/training.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/thread.h"
#include "cli/device_loss.h"
#include "cli/json/result.h"
#include "cli/progress.h"

/* ---- the command line ---- */

void xt_line_add(struct xt_line *line, const char *format, ...)
{
    enum { MOST = sizeof line->words / sizeof *line->words };
    va_list arguments;
    va_start(arguments, format);
    if (line->count == MOST || vasprintf(&line->words[line->count], format, arguments) < 0)
        line->failed = true;
    else
        line->count++;
    va_end(arguments);
}

void xt_line_add_given(struct xt_line *line, const struct xt_options *given)
{
    static const char last_stage[] = " val-part negatives reject ";
    for (size_t i = 0; i < xt_option_count; i++) {
        char word[64];
        const char *value = given->origins[i].given;
        snprintf(word, sizeof word, " %s ", xt_option_table[i].name);
        if (!value || !xt_option_is_for(&xt_option_table[i], XT_COMMAND_TRAIN) ||
            strstr(last_stage, word))
            continue;
        if (xt_option_table[i].type->takes_value)
            xt_line_add(line, "--%s=%s", xt_option_table[i].name, value);
        else
            xt_line_add(line, "--%s%s", strcmp(value, "false") == 0 ? "no-" : "",
                        xt_option_table[i].name);
    }
}

void xt_line_clear(struct xt_line *line)
{
    for (int i = 0; i < line->count; i++)
        free(line->words[i]);
    *line = (struct xt_line){.count = 0};
}

enum xt_status xt_line_parse(const struct xt_line *line, const struct xt_options *given,
                             enum xt_command_id command, struct xt_options *out, struct xt_err *err)
{
    *out = (struct xt_options){.argc = 0};
    if (line->failed)
        return xt_err_no_memory(err, "the options of a stage", 0);
    enum xt_status status = xt_options_parse(out, line->count, (const char *const *)line->words,
                                             command, given->models, err);
    out->values.network.kernels = given->values.network.kernels;
    out->values.output = given->values.output;
    return status ? status : xt_options_find_weights(out, err);
}

/* ---- training ---- */

struct watch {
    struct xt_progress progress;
    double images_per_s;
};

static void show_progress(void *context, const struct xt_train_progress *p)
{
    struct watch *watch = context;
    const struct xt_progress_state state = xt_progress_of(p);
    if (p->images_per_s > 0 && isfinite(p->images_per_s))
        watch->images_per_s = p->images_per_s;
    xt_progress_show(&watch->progress, &state, xt_thread_seconds(), false);
}

/* How a training that was stopped goes on. */
static void add_way_on(const struct xt_run_summary *run, bool resumes, struct xt_err *err)
{
    char line[1024] = "";
    const struct xt_err stopped = *err;
    if (resumes)
        xt_resume_line(run, false, line, sizeof line);
    else
        xt_err_set(err, stopped.status,
                   "%s before the last training; xtrain try is not resumed, start it again",
                   stopped.status == XT_INTERRUPTED ? "interrupted" : "stopped");
    if (*line)
        xt_err_set(err, stopped.status, "%s; resume with: %s", stopped.text, line);
    xt_result_next(line);
}

static enum xt_status run(struct xt_trainer *trainer, const struct xt_options *options,
                          const struct xt_train_observer *observer, struct xt_err *err)
{
    enum xt_status status = xt_trainer_prepare(trainer, err);
    if (!status)
        status = xt_trainer_check_device(trainer, false, err);
    if (!status)
        status = xt_trainer_open_run(trainer, err);
    if (!status)
        status = xt_options_save_run(options, trainer, err);
    return status ? status : xt_trainer_run(trainer, observer, err);
}

enum xt_status xt_trained_run(struct xt_trained *out, const struct xt_line *line,
                              const struct xt_options *given, bool resumes, struct xt_err *err)
{
    struct xt_options options;
    struct xt_trainer *trainer = NULL;
    struct watch watch = {.images_per_s = 0};
    const struct xt_train_observer observer = {.context = &watch, .progress = show_progress};
    *out = (struct xt_trained){.images = 0};
    xt_progress_init(&watch.progress, given->values.output.quiet, xt_result_is_json());
    enum xt_status status = xt_line_parse(line, given, XT_COMMAND_TRAIN, &options, err);
    const struct xt_train_settings settings = xt_options_train(&options.values);
    if (!status)
        status = xt_trainer_create(&trainer, &settings, err);
    if (!status)
        status = run(trainer, &options, &observer, err);
    xt_progress_clear(&watch.progress);
    if (trainer) {
        const struct xt_run_summary summary = xt_trainer_summary(trainer);
        if (!status)
            *out = (struct xt_trained){
                .state = summary.state,
                .best = summary.best,
                .steps = summary.plan.steps,
                .reliability = *summary.reliability,
                .images = summary.evaluation->images,
                .right = summary.evaluation->correct,
                .images_per_s = watch.images_per_s,
                .has_bf16 = xt_device_computes_in(&summary.network->device, XT_BF16),
            };
        if (status == XT_STOPPED || status == XT_INTERRUPTED)
            add_way_on(&summary, resumes, err);
    }
    xt_trainer_destroy(trainer);
    xt_options_clear(&options);
    return status;
}
