/* Resuming a run: which folder, which checkpoint, and whether it is the same run.
 *
 * --resume auto takes the newest intact checkpoint of --out, or starts a new run without one;
 * --resume PATH takes that file, or the newest of that folder. Fixed options, alphabet and classes
 * must be the same; other changes are logged. The checkpoint is read once, before the network is
 * built, since batch and batch norms may follow from it. Not thread-safe.
 */
#pragma once

#include "base/err.h"
#include "infer/network/network.h"
#include "runs/checkpoint.h"
#include "runs/run_folder.h"
#include "runs/settings.h"

struct xt_resume {
    struct xt_checkpoint_file from; /* path NULL: the run starts fresh */
    int64_t newest; /* step of the newest checkpoint on reading; -1: no checkpoint */
};

/* What a resumed run must match, and where its state is loaded. */
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

/* Reads the checkpoint that --resume names; does nothing without --resume. Clear it also after a
 * failure.
 */
enum xt_status xt_resume_read(struct xt_resume *resume, const struct xt_record_settings *record,
                              const char *model, struct xt_err *err);
void xt_resume_clear(struct xt_resume *resume);

/* Opens the run's folder: --out, the folder that --resume names, or a new one. */
enum xt_status xt_resume_open_folder(struct xt_run_folder *folder,
                                     const struct xt_record_settings *record, const char *model,
                                     struct xt_err *err);

/* Loads the checkpoint's weights and arrays and renames later checkpoints; the caller reads its
 * numbers from resume->from.state. Does nothing without --resume. */
enum xt_status xt_resume_load(const struct xt_resume *resume, const struct xt_resume_into *into,
                              struct xt_err *err);
