/* A run's whole state in one file, state-STEP.safetensors: weights, statistics, the trainer's
 * arrays, and in the metadata the step, the best result so far, the trainer's numbers, the options
 * that shape the run, and the machine. One file, so that weights and state can never be of
 * different steps. Random numbers, order and augmentation are functions of seed and step: the step
 * is their state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "infer/evaluate.h"
#include "infer/network/network.h"
#include "runs/checkpoint_numbers.h"
#include "runs/run_costs.h"
#include "runs/run_options.h"

/* The format that is written, and the first that is read. */
enum { XT_CHECKPOINT_FORMAT = 2, XT_CHECKPOINT_FIRST = 1, XT_CHECKPOINT_ARRAYS = 4 };

struct xt_checkpoint {
    int64_t step;    /* batches trained on */
    int64_t steps;   /* of the whole run */
    int64_t samples; /* in the training source */
    bool bn_frozen;
    int64_t best_step; /* -1: none yet */
    struct xt_selection_metric best;
    bool best_is_average;
    int64_t evaluated_step; /* the last evaluation, -1: none */
    double loss_sum;        /* over the steps since the last line of metrics.jsonl */
    int64_t loss_steps;
    double seconds; /* trained so far, over all starts */
    struct xt_run_costs costs;
};

/* An array beside the weights, in their layout; its tensors are called "NAME." and the parameter's
 * name. */
struct xt_checkpoint_array {
    const char *name;
    struct xt_params_view view;
};

/* The trainer's part (train/trainer/state.h). */
struct xt_checkpoint_extra {
    struct xt_checkpoint_array arrays[XT_CHECKPOINT_ARRAYS];
    int array_count;
    const struct xt_number_field *fields; /* of `numbers` */
    size_t field_count;
    const void *numbers;
    struct xt_file_meta text; /* key NULL: none */
};

/* A checkpoint that was read and verified. Zeroed: no file. */
struct xt_checkpoint_file {
    char *path;
    struct xt_weight_file file;
    struct xt_checkpoint state;
};

/* Writes folder/state-STEP.safetensors and removes all but the newest `keep`. */
enum xt_status xt_checkpoint_save(const struct xt_checkpoint *checkpoint,
                                  const struct xt_checkpoint_extra *extra,
                                  const struct xt_run_lister *lister, struct xt_network *network,
                                  const char *folder, int keep, struct xt_err *err);

/* The path for that step, whether it exists or not. */
struct xt_path xt_checkpoint_path(const char *folder, int64_t step);

/* Reads the file once, for all functions below. A damaged one is XT_ERR_DATA, and the message
 * offers the checkpoint before it. Close it also after a failure. */
enum xt_status xt_checkpoint_open(struct xt_checkpoint_file *out, const char *path,
                                  struct xt_err *err);
/* The newest intact checkpoint in the folder; out->path NULL where there is none. Damaged ones are
 * logged. */
enum xt_status xt_checkpoint_open_newest(struct xt_checkpoint_file *out, const char *folder,
                                         struct xt_err *err);
void xt_checkpoint_close(struct xt_checkpoint_file *file);

/* The batch that the run started with. */
enum xt_status xt_checkpoint_batch(const struct xt_checkpoint_file *from, int *batch,
                                   struct xt_err *err);

/* The threads that the run computed with; 0 where unknown, or more than available here. */
int xt_checkpoint_threads(const struct xt_checkpoint_file *from);

/* Loads the weights and `count` arrays. XT_ERR_USAGE where the options are those of another run.
 * Where CPU, library or thread count have changed, a note says which, since the losses will then
 * differ in their last bits; a changed option that affects the losses is noted, and the new value
 * applies. */
enum xt_status xt_checkpoint_load(const struct xt_checkpoint_file *from,
                                  const struct xt_run_lister *lister, struct xt_network *network,
                                  const struct xt_checkpoint_array *arrays, int count,
                                  struct xt_err *err);
enum xt_status xt_checkpoint_load_array(const struct xt_checkpoint_file *from,
                                        struct xt_network *network,
                                        const struct xt_checkpoint_array *array,
                                        struct xt_err *err);

/* The step of the folder's newest checkpoint, intact or not, into *step; -1: there is none. */
enum xt_status xt_checkpoint_newest_step(const char *folder, int64_t *step, struct xt_err *err);
/* Renames the checkpoints of steps after `step` to NAME.aside, each with a note: a run resumed from
 * before them writes its own. */
enum xt_status xt_checkpoint_set_aside(const char *folder, int64_t step, struct xt_err *err);
