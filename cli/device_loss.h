/* A device that is lost under a run: the sentence, with the last checkpoint and the line that goes
 * on, and, with --on-device-loss resume, the run once more from there in this process' place.
 * Before its folder is open, a run begins again as it was typed. */
#ifndef XT_CLI_DEVICE_LOSS_H
#define XT_CLI_DEVICE_LOSS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/system/reexec.h"
#include "cli/settings.h"
#include "train/trainer.h"

enum { XT_DEVICE_LOSSES_MAX = 5 }; /* in a row, without coming to another checkpoint */

struct xt_device_loss {
    const struct xt_trainer *trainer;
    const struct xt_settings *settings;
    struct xt_reexec reexec;
    char line[1024];   /* the command that goes on */
    char json[4096];   /* with --json: what an object of last words begins with */
    int count;         /* losses before this start, in a row */
    int64_t last_step; /* that its checkpoint was of; -1: there was none */
    bool taken;
};

/* Before the trainer's device is opened; `trainer` may hold anything yet that
 * xt_trainer_prepare writes. Ready also for what nothing comes back from (guard.h). End it before
 * the trainer is cleared, also after a failure. */
enum xt_status xt_device_loss_begin(struct xt_device_loss *loss, const struct xt_trainer *trainer,
                                    const struct xt_settings *settings, struct xt_err *err);
/* The run's folder is open: from now on it goes on from there. */
enum xt_status xt_device_loss_open_folder(struct xt_device_loss *loss, struct xt_err *err);
void xt_device_loss_end(struct xt_device_loss *loss);

/* What a run ended with that failed with the device: the same with the rest of the sentence, once.
 * Does not come back where the run is started again. */
enum xt_status xt_device_loss_take(struct xt_device_loss *loss, struct xt_err *err);

/* Whether this process is a run that was started again: what it said when it began holds. */
bool xt_run_is_restarted(void);

/* The command that goes on with the trainer's run, as it can be pasted; "" where memory is short.
 */
void xt_resume_line(const struct xt_run_summary *run, char *out, size_t size);

#endif
