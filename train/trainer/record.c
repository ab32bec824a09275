/* Reporting of a run: progress, the lines of metrics.jsonl, the page. */
#include "train/trainer/trainer_internal.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/system/thread.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"

struct xt_train_progress xt_trainer_progress(const struct xt_trainer *trainer)
{
    double now = xt_thread_seconds();
    double since = now - trainer->report_time;
    int64_t step = xt_train_step_count(trainer);
    int64_t steps = step - trainer->report_step;
    double done = (double)(step - trainer->start_step);
    double elapsed = now - trainer->start_time;
    return (struct xt_train_progress){
        .step = step,
        .steps = trainer->steps,
        .epoch = step ? (int)((step - 1) / trainer->epoch_steps) + 1 : 0,
        .epochs = (int)((trainer->steps + trainer->epoch_steps - 1) / trainer->epoch_steps),
        .loss = trainer->loss_steps ? trainer->loss_sum / (double)trainer->loss_steps : NAN,
        .lr = xt_train_step_lr(trainer, step ? step - 1 : 0),
        .images_per_s = since > 0 ? (double)steps * xt_train_step_images(trainer) / since : NAN,
        .wait = since > 0 ? trainer->wait_sum / since : NAN,
        .loss_scale = trainer->scaler.on ? (double)trainer->scaler.scale : 0,
        .skipped = trainer->scaler.skipped,
        .device = trainer->monitor ? &trainer->device_figures : NULL,
        .seconds_left = done > 0 ? elapsed / done * (double)(trainer->steps - step) : NAN,
    };
}

/* Unreadable figures are null. */
static void log_device(struct xt_log_writer *log, const struct xt_monitor_figures *figures)
{
    const struct {
        const char *key;
        const char *source; /* its key; NULL: that of the preceding figure */
        const struct xt_reading *reading;
    } lines[] = {
        {"device_memory_bytes", "device_memory_source", &figures->now.memory_used},
        {"device_memory_peak_bytes", NULL, &figures->run.memory_used},
        {"device_busy", "device_busy_source", &figures->now.busy},
        {"device_power_w", "device_power_source", &figures->now.power},
        {"device_energy_joules", "device_energy_source", &figures->run.energy},
        {"device_frequency_mhz", "device_frequency_source", &figures->now.frequency},
        {"device_temperature_c", "device_temperature_source", &figures->now.temperature},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const struct xt_reading *reading = lines[i].reading;
        xt_log_writer_number(log, lines[i].key, reading->known ? reading->value : NAN);
        if (lines[i].source)
            xt_log_writer_word(log, lines[i].source, reading->known ? reading->source : NULL);
    }
}

/* On the CPU: the process' memory, and its threads' share of busy time. */
static void log_host(struct xt_trainer *trainer)
{
    struct xt_span span = xt_span_since(&trainer->report_span);
    double busy = span.cpu / (span.wall * trainer->network.device.threads);
    double memory = (double)xt_thread_memory_used();
    xt_log_writer_number(&trainer->log, "device_memory_bytes", memory > 0 ? memory : NAN);
    xt_log_writer_number(&trainer->log, "device_busy", busy < 1 ? busy : 1);
}

enum xt_status xt_trainer_end_line(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_log_writer_end(&trainer->log, err);
    if (!status)
        xt_events_line(&trainer->report.events, trainer->log.line, trainer->log.length);
    return status;
}

/* The common head of a line; the time in milliseconds, over all starts. */
static void begin_line(struct xt_trainer *trainer, const struct xt_train_progress *p)
{
    xt_log_writer_begin(&trainer->log);
    xt_log_writer_integer(&trainer->log, "step", p->step);
    xt_log_writer_integer(&trainer->log, "epoch", p->epoch);
    xt_log_writer_number(&trainer->log, "time", round(1000 * xt_trainer_seconds(trainer)) / 1000);
}

static enum xt_status log_shares(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_str shares = {0};
    enum xt_status status = xt_trainer_print_shares(trainer, ",", &shares, err);
    if (shares.length)
        xt_log_writer_word(&trainer->log, "rank_shares", xt_str_get(&shares));
    xt_str_clear(&shares);
    return status;
}

static enum xt_status log_step(struct xt_trainer *trainer, const struct xt_train_progress *p,
                               struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    begin_line(trainer, p);
    xt_log_writer_number(log, "loss", p->loss);
    xt_log_writer_number(log, "lr", p->lr);
    xt_log_writer_number(log, "images_per_s", p->images_per_s);
    xt_log_writer_number(log, "wait", p->wait);
    if (p->loss_scale > 0) {
        xt_log_writer_number(log, "loss_scale", p->loss_scale);
        xt_log_writer_integer(log, "skipped_steps", p->skipped);
    }
    if (trainer->settings->run.on_nan == XT_ON_NAN_SKIP)
        xt_log_writer_integer(log, "left_out_steps", trainer->nan_skips);
    if (trainer->spikes.count > trainer->spikes.told)
        xt_log_writer_integer(log, "spikes", trainer->spikes.count - trainer->spikes.told);
    if (p->device)
        log_device(log, p->device);
    else
        log_host(trainer);
    enum xt_status status = log_shares(trainer, err);
    return status ? status : xt_trainer_end_line(trainer, err);
}

static void log_average(struct xt_log_writer *log, const struct xt_evaluation *evaluation)
{
    char key[64];
    xt_log_writer_integer(log, "ema_correct", (int64_t)evaluation->correct);
    for (int i = 0; i < evaluation->metric_count; i++) {
        snprintf(key, sizeof key, "ema_%s", evaluation->metrics[i].key);
        xt_log_writer_number(log, key, evaluation->metrics[i].value);
    }
    xt_log_writer_number(log, "ema_val_loss", evaluation->loss);
}

enum xt_status xt_trainer_log_evaluation(struct xt_trainer *trainer,
                                         const struct xt_train_progress *p,
                                         const struct xt_evaluation *evaluation, struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    begin_line(trainer, p);
    xt_log_writer_integer(log, "images", (int64_t)evaluation->images);
    xt_log_writer_integer(log, "correct", (int64_t)evaluation->correct);
    for (int i = 0; i < evaluation->metric_count; i++)
        xt_log_writer_number(log, evaluation->metrics[i].key, evaluation->metrics[i].value);
    xt_log_writer_number(log, "val_loss", evaluation->loss);
    if (trainer->ema)
        log_average(log, &trainer->average_evaluation);
    return xt_trainer_end_line(trainer, err);
}

void xt_trainer_begin_rates(struct xt_trainer *trainer)
{
    trainer->wait_sum = 0;
    trainer->report_time = xt_thread_seconds();
    trainer->report_step = xt_train_step_count(trainer);
    trainer->report_span = xt_span_now();
}

/* Some figures are differences between two readings. */
void xt_trainer_note_unreadable(struct xt_trainer *trainer)
{
    if (trainer->device_figures.readings < 2 || trainer->said_unreadable)
        return;
    char text[512];
    xt_monitor_describe_unreadable(&trainer->device_figures, text, sizeof text);
    if (*text)
        xt_log_note("%s", text);
    trainer->said_unreadable = true;
}

enum xt_status xt_trainer_report(struct xt_trainer *trainer, struct xt_err *err)
{
    xt_monitor_read(trainer->monitor, &trainer->device_figures);
    int64_t step = xt_train_step_count(trainer);
    bool due = step % trainer->settings->record.log_every == 0 || step == trainer->steps;
    struct xt_train_progress progress = xt_trainer_progress(trainer);
    progress.log_step = due;
    if (trainer->observer.progress)
        trainer->observer.progress(trainer->observer.context, &progress);
    if (!due)
        return XT_OK;
    xt_trainer_note_unreadable(trainer);
    xt_energy_read(&trainer->energy);
    enum xt_status status = log_step(trainer, &progress, err);
    trainer->loss_sum = 0;
    trainer->loss_steps = 0;
    trainer->spikes.told = trainer->spikes.count;
    xt_trainer_begin_rates(trainer);
    return status;
}

enum xt_status xt_trainer_log_rest(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->loss_steps)
        return XT_OK;
    struct xt_train_progress progress = xt_trainer_progress(trainer);
    return log_step(trainer, &progress, err);
}

void xt_trainer_write_page(struct xt_trainer *trainer, const char *state, bool last)
{
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return;
    const struct xt_slow *slow = &trainer->slow.slow;
    struct xt_run_remark remarks[XT_SLOW_CAUSES];
    for (int i = 0; i < slow->count; i++)
        remarks[i] = (struct xt_run_remark){xt_slow_cause_key(slow->found[i].cause),
                                            slow->found[i].because, slow->found[i].remedy};
    const struct xt_run_facts facts = {
        .network = &trainer->network,
        .data = trainer->source->description,
        .val = trainer->val ? trainer->val->description : NULL,
        .step = xt_train_step_count(trainer),
        .steps = trainer->steps,
        .epoch_steps = trainer->epoch_steps,
        .images = xt_train_step_images(trainer),
        .seconds = xt_trainer_seconds(trainer),
        .costs = xt_trainer_costs(trainer),
        .best_step = trainer->best_step,
        .best = trainer->best,
        .profiled = trainer->profiled,
        .slow = remarks,
        .slow_count = slow->count,
        .reliability = &trainer->reliability,
        .state = state,
    };
    xt_run_report_write(&trainer->report, &facts, last);
}
