/* Going on with a run: which folder, which checkpoint, and whether it is the same run.
 *
 * --resume auto takes the newest whole checkpoint of --out, or starts fresh where there is none;
 * --resume PATH takes that file, or the newest of that folder. Options that a run keeps, alphabet
 * and classes must be the same; what else has changed is said. The checkpoint is read once, before
 * the network is built, since batch and batch norms may follow from it. Not thread-safe.
 */
#ifndef XT_RUNS_RESUME_H
#define XT_RUNS_RESUME_H

#include <stddef.h>

#include "base/err.h"
#include "infer/network/network.h"
#include "runs/checkpoint.h"
#include "runs/run_folder.h"
#include "runs/settings.h"

struct xt_resume {
    struct xt_checkpoint_file from; /* path NULL: the run starts fresh */
    int64_t newest;                 /* step of the newest checkpoint that there was; -1: none */
};

/* What a run that goes on must fit, and what takes its state. */
struct xt_resume_into {
    const struct xt_record_settings *record;
    const struct xt_run_lister *lister;
    const struct xt_run_folder *folder;
    int64_t steps;   /* of the whole run */
    int64_t samples; /* in the training source */
    struct xt_network *network;
    const struct xt_checkpoint_array *arrays;
    int array_count;
};

/* Reads the checkpoint that --resume names; nothing without --resume. Clear it also after a
 * failure.
 */
enum xt_status xt_resume_read(struct xt_resume *resume, const struct xt_record_settings *record,
                              const char *model, struct xt_err *err);
void xt_resume_clear(struct xt_resume *resume);

/* Opens the run's folder: --out, the folder that --resume names, or a new one. */
enum xt_status xt_resume_open_folder(struct xt_run_folder *folder,
                                     const struct xt_record_settings *record, const char *model,
                                     struct xt_err *err);

/* Puts the checkpoint's weights and arrays in their places and sets aside what lies after it; its
 * numbers, in resume->from.state, are the caller's to take. Does nothing without --resume. */
enum xt_status xt_resume_load(const struct xt_resume *resume, const struct xt_resume_into *into,
                              struct xt_err *err);

#endif
