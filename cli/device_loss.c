#include "cli/device_loss.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "cli/json/result.h"
#include "device/faults/guard.h"
#include "ranks/ranks.h"

/* State passed to the re-executed process: consecutive device losses, and the step of the last
 * checkpoint. */
static const char variable[] = "XTRAIN_REEXEC";
enum { VARIABLE_ROOM = 64 };

static void format_variable(char *out, int count, int64_t step)
{
    snprintf(out, VARIABLE_ROOM, "%s=%02d,%020" PRId64, variable, count, step);
}

static void read_variable(struct xt_device_loss *loss)
{
    const char *text = getenv(variable);
    loss->last_step = -1;
    if (text && sscanf(text, "%d,%" SCNd64, &loss->count, &loss->last_step) != 2)
        loss->count = 0;
}

void xt_resume_line(const struct xt_run_summary *run, bool from_start, char *out, size_t size)
{
    struct xt_str line = {0};
    const struct xt_ranks *ranks = run->settings->ranks;
    if (ranks)
        xt_str_printf(&line, NULL, "mpirun -n %d ", ranks->size);
    xt_str_append_word(&line, program_invocation_name, NULL);
    xt_str_printf(&line, NULL, from_start ? " --config " : " --resume ");
    xt_run_folder_append(run->folder, &line, from_start ? "/config.yaml" : "");
    if (from_start)
        xt_str_printf(&line, NULL, " --resume auto");
    snprintf(out, size, "%s", line.failed ? "" : xt_str_get(&line));
    xt_str_clear(&line);
}

/* Counts this loss and passes the count to the restarted process; false once the limit is exceeded.
 */
static bool may_restart(struct xt_device_loss *loss, int *count)
{
    int64_t step = xt_trainer_summary(loss->trainer).state.saved_step;
    *count = step > loss->last_step ? 1 : loss->count + 1;
    if (!loss->reexec.arguments || *count > XT_DEVICE_LOSSES_MAX)
        return false;
    /* An early loss may come before the checkpoint that the previous start resumed from. */
    format_variable(loss->reexec.variable, *count, step > loss->last_step ? step : loss->last_step);
    return true;
}

static void add_rest(const struct xt_device_loss *loss, bool restart, int count, char *text,
                     size_t size)
{
    int64_t step = xt_trainer_summary(loss->trainer).state.saved_step;
    if (step >= 0)
        xt_str_append_to(text, size, "; the last checkpoint is of step %" PRId64, step);
    else
        xt_str_append_to(text, size, "; there is no checkpoint yet");
    if (restart)
        xt_str_append_to(text, size, "; restarting from %s (%d of at most %d in a row)",
                         step >= 0 ? "there" : "the beginning", count, XT_DEVICE_LOSSES_MAX);
    else if (loss->reexec.arguments)
        xt_str_append_to(text, size, "; it was lost %d times in a row without a new checkpoint",
                         XT_DEVICE_LOSSES_MAX);
    if (!restart && step >= 0)
        xt_str_append_to(text, size, "; resume with: %s", loss->line);
    if (!restart && step >= 0)
        xt_result_next(loss->line);
}

bool xt_run_is_restarted(void)
{
    return getenv(variable) != NULL;
}

/* The command line that resumes this run from its folder: the original arguments with --resume
 * replaced and --stop-after reduced by the time used. */
static enum xt_status prepare_reexec(const struct xt_run_summary *run, struct xt_reexec *reexec,
                                     struct xt_err *err)
{
    char none_lost[VARIABLE_ROOM];
    const struct xt_train_settings *s = run->settings;
    const char *folder = run->folder->path;
    bool goes_on = s->record.resume && strcmp(s->record.resume, "auto") != 0;
    char left[32];
    double seconds = s->run.stop_after - (xt_thread_seconds() - run->times.begun);
    snprintf(left, sizeof left, "%.3f", seconds > 1 ? seconds : 1);
    const char *const without[] = {"resume", "out", s->run.stop_after > 0 ? "stop-after" : NULL,
                                   NULL};
    const char *with[8] = {"--resume", goes_on ? folder : "auto"};
    size_t count = 2;
    if (!goes_on) {
        with[count++] = "--out";
        with[count++] = folder;
    }
    if (s->run.stop_after > 0) {
        with[count++] = "--stop-after";
        with[count++] = left;
    }
    format_variable(none_lost, 0, -1);
    return xt_reexec_prepare(reexec, without, with, none_lost, err);
}

static const char *device_of(const struct xt_device_loss *loss)
{
    const char *name = xt_trainer_summary(loss->trainer).network->device.name;
    return *name ? name : loss->settings->device.name;
}

/* The JSON object of --json when the full report can no longer be written. */
static void put_json(const struct xt_device_loss *loss, const char *why)
{
    char members[sizeof loss->json + 2048];
    char utf8[1024];
    snprintf(members, sizeof members, "%s\"step\":%" PRId64 ",\"exit_reason\":\"", loss->json,
             xt_trainer_summary(loss->trainer).state.step);
    xt_str_escape_bytes(why, utf8, sizeof utf8);
    xt_str_append_json(members, sizeof members - 4, utf8);
    xt_str_append_to(members, sizeof members, "\",");
    if (*loss->json)
        xt_result_last_words(members, why, XT_ERR_DEVICE);
}

/* Called where no error can be returned, such as from a signal handler. */
static void last_words(void *context, const char *sentence)
{
    struct xt_device_loss *loss = context;
    char text[2048];
    int count = 0;
    const bool opens = xt_guard_is_opening();
    bool restart = !opens && may_restart(loss, &count);
    snprintf(text, sizeof text, "xtrain: %s: ", restart ? "warning" : "error");
    size_t head = strlen(text);
    xt_str_append_to(text, sizeof text, "%s", sentence);
    if (!opens)
        add_rest(loss, restart, count, text, sizeof text);
    xt_log_error_from_signal(text);
    if (restart)
        xt_reexec_start(&loss->reexec);
    put_json(loss, text + head);
    xt_reexec_exit(XT_ERR_DEVICE);
}

/* `"run":"...","steps":100,`, on one rank. */
static void begin_json(struct xt_device_loss *loss)
{
    const struct xt_run_summary summary = xt_trainer_summary(loss->trainer);
    const struct xt_run_summary *run = &summary;
    char path[2000];
    if (!xt_result_is_json() || !xt_ranks_is_first(loss->settings->ranks))
        return;
    xt_str_escape_bytes(run->folder->path, path, sizeof path);
    xt_str_append_to(loss->json, sizeof loss->json, "\"run\":\"");
    xt_str_append_json(loss->json, sizeof loss->json - 64, path);
    xt_str_append_to(loss->json, sizeof loss->json, "\",\"steps\":%" PRId64 ",", run->plan.steps);
}

enum xt_status xt_device_loss_begin(struct xt_device_loss *loss, const struct xt_trainer *trainer,
                                    const struct xt_settings *settings, struct xt_err *err)
{
    static const char *const nothing[] = {NULL};
    *loss = (struct xt_device_loss){.trainer = trainer, .settings = settings, .last_step = -1};
    if (strcmp(settings->device.name, "cpu") == 0)
        return XT_OK;
    char none_lost[VARIABLE_ROOM];
    read_variable(loss);
    format_variable(none_lost, 0, -1);
    enum xt_status status = XT_OK;
    if (settings->run.on_device_loss == XT_LOSS_RESUME && !settings->request.dry_run)
        status = xt_reexec_prepare(&loss->reexec, nothing, nothing, none_lost, err);
    if (!status)
        loss->before = xt_guard_set_end((struct xt_guard_speaker){last_words, loss, true});
    return status;
}

enum xt_status xt_device_loss_open_folder(struct xt_device_loss *loss, struct xt_err *err)
{
    struct xt_reexec reexec = {0};
    const struct xt_run_summary run = xt_trainer_summary(loss->trainer);
    xt_resume_line(&run, false, loss->line, sizeof loss->line);
    enum xt_status status = XT_OK;
    begin_json(loss);
    if (loss->reexec.arguments)
        status = prepare_reexec(&run, &reexec, err);
    if (status || !reexec.arguments)
        return status;
    struct xt_reexec typed = loss->reexec;
    loss->reexec = reexec;
    xt_reexec_clear(&typed);
    return XT_OK;
}

void xt_device_loss_end(struct xt_device_loss *loss)
{
    if (strcmp(loss->settings->device.name, "cpu") != 0)
        xt_guard_set_end(loss->before);
    xt_reexec_clear(&loss->reexec);
}

enum xt_status xt_device_loss_take(struct xt_device_loss *loss, struct xt_err *err)
{
    enum { REST_SECONDS = 2 }; /* a GPU that is being reset is unavailable for a while */
    const struct xt_err failed = *err;
    char rest[1536] = "";
    int count = 0;
    if (loss->taken)
        return err->status;
    loss->taken = true;
    /* The device was lost between opening the folder and xt_device_loss_open_folder. */
    struct xt_err own;
    if (!*loss->line && xt_trainer_summary(loss->trainer).folder->path)
        xt_device_loss_open_folder(loss, &own);
    bool restart = may_restart(loss, &count);
    /* The device check before a run already reports the loss. */
    bool said = xt_str_starts(failed.text, "the device was lost");
    add_rest(loss, restart, count, rest, sizeof rest);
    xt_err_set(err, XT_ERR_DEVICE, "%s%s%s%.480s%s",
               said ? "" : "the device was lost: ", said ? "" : device_of(loss), said ? "" : ": ",
               failed.text, rest);
    if (restart) {
        xt_log_warn("%s", err->text);
        fflush(NULL);
        sleep(REST_SECONDS);
        xt_reexec_start(&loss->reexec);
        xt_log_warn("the run cannot be restarted: %s", strerror(errno));
    }
    return err->status;
}
