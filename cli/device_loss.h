/* Handles a device that is lost during a run: reports the last checkpoint and the command that
 * resumes from it and, with --on-device-loss resume, re-executes the run from there in the same
 * process. A run whose folder is not open yet is restarted with its original arguments. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/system/reexec.h"
#include "cli/settings.h"
#include "device/faults/guard.h"
#include "train/trainer.h"

enum { XT_DEVICE_LOSSES_MAX = 5 }; /* consecutive losses without a new checkpoint */

struct xt_device_loss {
    const struct xt_trainer *trainer;
    const struct xt_settings *settings;
    struct xt_reexec reexec;
    struct xt_guard_speaker before;
    char line[1024];   /* the command that resumes the run */
    char json[4096];   /* with --json: members of the object that last words print */
    int count;         /* consecutive losses before this start */
    int64_t last_step; /* step of its last checkpoint; -1: none */
    bool taken;
};

/* Call before the trainer's device is opened; `trainer` may be uninitialised except for what
 * xt_trainer_prepare writes. Also covers driver calls that never return (guard.h). End it before
 * the trainer is cleared, also after a failure. */
enum xt_status xt_device_loss_begin(struct xt_device_loss *loss, const struct xt_trainer *trainer,
                                    const struct xt_settings *settings, struct xt_err *err);
/* The run's folder is open: from now on a restart resumes from it. */
enum xt_status xt_device_loss_open_folder(struct xt_device_loss *loss, struct xt_err *err);
void xt_device_loss_end(struct xt_device_loss *loss);

/* Completes the error of a run that failed because of the device, once. Does not return if the run
 * is restarted. */
enum xt_status xt_device_loss_take(struct xt_device_loss *loss, struct xt_err *err);

/* True if this process is a restarted run, whose start-up messages were already printed. */
bool xt_run_is_restarted(void);

/* The command that resumes the trainer's run, or of one without checkpoints begins it again, quoted
 * for a shell; "" if out of memory. */
void xt_resume_line(const struct xt_run_summary *run, bool from_start, char *out, size_t size);
