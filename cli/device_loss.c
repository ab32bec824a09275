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
#include "device/guard.h"

/* Of a run that started itself again: how often in a row a device was lost, and of which step the
 * checkpoint was then. */
static const char variable[] = "XTRAIN_AGAIN";
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

void xt_resume_line(const struct xt_trainer *trainer, char *out, size_t size)
{
    struct xt_str line = {0};
    const struct xt_ranks *ranks = trainer->settings->ranks;
    *out = '\0';
    if ((!ranks || xt_str_printf(&line, NULL, "mpirun -n %d ", ranks->size) == XT_OK) &&
        xt_str_append_word(&line, program_invocation_name, NULL) == XT_OK &&
        xt_str_append(&line, " --resume ", 10, NULL) == XT_OK &&
        xt_run_folder_append(&trainer->folder, &line, "") == XT_OK)
        snprintf(out, size, "%s", xt_str_get(&line));
    xt_str_clear(&line);
}

/* Counts this loss, and makes the new start know of it; false: it is one too many. */
static bool may_start_again(struct xt_device_loss *loss, int *count)
{
    int64_t step = loss->trainer->saved_step;
    *count = step > loss->last_step ? 1 : loss->count + 1;
    if (!loss->again.arguments || *count > XT_DEVICE_LOSSES_MAX)
        return false;
    format_variable(loss->again.variable, *count, step);
    return true;
}

static void add_rest(const struct xt_device_loss *loss, bool again, int count, char *text,
                     size_t size)
{
    int64_t step = loss->trainer->saved_step;
    if (step >= 0)
        xt_str_append_to(text, size, "; the last checkpoint is of step %" PRId64, step);
    else
        xt_str_append_to(text, size, "; there is no checkpoint yet");
    if (again)
        xt_str_append_to(text, size, "; starting again from %s (%d of at most %d in a row)",
                         step >= 0 ? "there" : "the beginning", count, XT_DEVICE_LOSSES_MAX);
    else if (loss->again.arguments)
        xt_str_append_to(text, size, "; it was lost %d times in a row without coming further",
                         XT_DEVICE_LOSSES_MAX);
    if (!again && step >= 0)
        xt_str_append_to(text, size, "; this goes on: %s", loss->line);
}

bool xt_run_is_again(void)
{
    return getenv(variable) != NULL;
}

enum xt_status xt_run_again_prepare(const struct xt_trainer *trainer, struct xt_again *again,
                                    struct xt_err *err)
{
    char none_lost[VARIABLE_ROOM];
    const struct xt_settings *s = trainer->settings;
    const char *folder = trainer->folder.path;
    bool goes_on = s->resume && strcmp(s->resume, "auto") != 0;
    char left[32];
    double seconds = s->stop_after - (xt_thread_seconds() - trainer->start_time);
    snprintf(left, sizeof left, "%.3f", seconds > 1 ? seconds : 1);
    const char *const without[] = {"resume", "out", s->stop_after > 0 ? "stop-after" : NULL, NULL};
    const char *with[8] = {"--resume", goes_on ? folder : "auto"};
    size_t count = 2;
    if (!goes_on) {
        with[count++] = "--out";
        with[count++] = folder;
    }
    if (s->stop_after > 0) {
        with[count++] = "--stop-after";
        with[count++] = left;
    }
    format_variable(none_lost, 0, -1);
    return xt_again_prepare(again, without, with, none_lost, err);
}

/* Where there is nothing to return to: a handler of a signal, say. */
static void last_words(void *context, const char *why)
{
    struct xt_device_loss *loss = context;
    char text[2048];
    char op[128];
    int count = 0;
    bool again = may_start_again(loss, &count);
    xt_guard_last_op(op, sizeof op);
    snprintf(text, sizeof text, "xtrain: %s: the device was lost: %.128s: %.256s%s%.128s",
             again ? "warning" : "error", loss->trainer->network.device.name, why,
             *op ? "; the last op it was given: " : "", op);
    add_rest(loss, again, count, text, sizeof text);
    xt_log_from_signal(text);
    if (again)
        xt_again_start(&loss->again);
    xt_again_end(XT_ERR_DEVICE);
}

enum xt_status xt_device_loss_begin(struct xt_device_loss *loss, const struct xt_trainer *trainer,
                                    struct xt_err *err)
{
    *loss = (struct xt_device_loss){.trainer = trainer};
    if (!trainer->network.device.own_memory)
        return XT_OK;
    read_variable(loss);
    xt_resume_line(trainer, loss->line, sizeof loss->line);
    enum xt_status status = XT_OK;
    if (trainer->settings->on_device_loss == XT_LOSS_RESUME)
        status = xt_run_again_prepare(trainer, &loss->again, err);
    if (!status)
        xt_guard_set_end(last_words, loss);
    return status;
}

void xt_device_loss_end(struct xt_device_loss *loss)
{
    if (loss->trainer && loss->trainer->network.device.own_memory)
        xt_guard_set_end(NULL, NULL);
    xt_again_clear(&loss->again);
}

enum xt_status xt_device_loss_take(struct xt_device_loss *loss, struct xt_err *err)
{
    enum { REST_SECONDS = 2 }; /* a GPU that is being reset needs a while */
    const struct xt_err failed = *err;
    char rest[1536] = "";
    int count = 0;
    bool again = may_start_again(loss, &count);
    add_rest(loss, again, count, rest, sizeof rest);
    xt_err_set(err, XT_ERR_DEVICE, "the device was lost: %s: %.480s%s",
               loss->trainer->network.device.name, failed.text, rest);
    if (again) {
        xt_log_warn("%s", err->text);
        fflush(NULL);
        sleep(REST_SECONDS);
        xt_again_start(&loss->again);
        xt_log_warn("it cannot be started again: %s", strerror(errno));
    }
    return err->status;
}
