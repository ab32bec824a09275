/* Training: batches from the loader through the network, the loss, the backward pass, the update;
 * evaluation, checkpoints and the record in the run's folder.
 *
 * The trainer prints nothing itself: it notifies its observer, and gives a summary on request. One
 * thread; the loader and the ops have threads of their own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"
#include "device/gpu/monitor.h"
#include "device/upload.h"
#include "infer/evaluate.h"
#include "infer/feed.h"
#include "infer/network/memory_plan.h"
#include "infer/network/network.h"
#include "runs/report/errors.h"
#include "runs/run_costs.h"
#include "runs/run_folder.h"
#include "train/settings.h"
#include "train/watch/slow.h"

/* Progress of the run; `loss` is the mean since the last line of the record, `images_per_s` and
 * `wait` since then or since the last evaluation. */
struct xt_train_progress {
    int64_t step; /* done */
    int64_t steps;
    int epoch; /* 1-based, of the step just done; 0 before the first */
    int epochs;
    double loss;
    double lr;
    double images_per_s;
    double wait; /* share of the time spent waiting for data */
    double seconds_left;
    double loss_scale; /* 0: none */
    int64_t skipped;   /* steps whose gradients were not finite at that scale */
    const struct xt_monitor_figures *device; /* NULL: no monitor, as on the CPU */
    bool log_step;                           /* this step is one of --log-every */
    bool of_average;                         /* an evaluation: of the weights' moving average */
};

struct xt_train_observer {
    void *context;
    void (*progress)(void *context, const struct xt_train_progress *progress);
    void (*evaluated)(void *context, const struct xt_train_progress *progress,
                      const struct xt_evaluation *evaluation, bool best);
};

/* Seconds by phase of one step: the working copies of the weights count as forward, clipping as
 * update. */
struct xt_step_seconds {
    double forward, loss, backward, update;
};

/* Why a run is complete. */
enum xt_train_end { XT_END_STEPS, XT_END_TIME, XT_END_PATIENCE, XT_END_LEARNT /* --overfit */ };

/* ---- summaries of a run, at any time; pointers are the trainer's ---- */

struct xt_run_plan {
    const char *data; /* descriptions */
    const char *val;  /* NULL: no evaluation */
    int batch;        /* images, of all ranks */
    int step_images;  /* of all batches of a step */
    int64_t epoch_steps;
    int64_t steps;
};

struct xt_run_state {
    int64_t step;           /* done */
    int64_t start_step;     /* where this process began */
    int64_t saved_step;     /* of the newest checkpoint; -1: none */
    int64_t evaluated_step; /* -1: none */
    enum xt_train_end end;
    bool diverged; /* the last error is a non-finite number */
};

struct xt_run_best {
    int64_t step; /* -1: none; 0: the given weights */
    double accuracy;
    bool is_average; /* of the weights' moving average */
    bool is_learnt;  /* every prediction is correct, the goal of --overfit */
};

struct xt_run_times {
    double begun; /* when this process began to train, of xt_thread_seconds */
    double all;   /* seconds, over all starts */
    double here;  /* of this process */
    struct xt_run_costs costs;
    struct xt_span prepare;      /* batch slots and optimizer, their kernels too */
    struct xt_span first_step;   /* of this process */
    struct xt_step_seconds step; /* the last step's */
};

/* Anomalies, over all starts. */
struct xt_run_watch {
    int64_t spikes;       /* of the loss */
    int64_t skipped;      /* steps whose gradients were not finite at the loss scale */
    int64_t nan_skips;    /* steps, by --on-nan skip */
    int64_t without_gain; /* evaluations, since the last gain */
    double lr_factor;     /* by rollbacks */
    double loss_scale;    /* 0: none */
    const struct xt_slow *slow;
};

struct xt_run_device {
    bool is_watched; /* an XPU is monitored */
    const struct xt_monitor_figures *figures;
    const char *no_energy;         /* why energy is not measured; "": it is */
    struct xt_transfers transfers; /* host-device, in steps of this process; zero on the CPU */
    struct xt_guard_counts asked;  /* calls to the XPU, likewise */
};

/* How weights are updated. */
struct xt_run_update {
    const char *optimizer;  /* as --optim names it */
    int states;             /* state arrays */
    bool on_device;         /* by oneDNN primitives, not by loops */
    bool averages, sums;    /* a moving average of the weights, gradients of several batches */
    size_t upload_bytes;    /* of a batch */
    bool upload_is_copied;  /* to pinned memory */
    const char *copy_queue; /* of uploads: its family, "" the usual one; NULL: oneDNN's stream */
    bool loss_on_device;    /* by kernels of the program's own */
    double reduction_bytes; /* of gradients that a rank sends in a step */
    int reduction_buckets;
};

struct xt_run_summary {
    const struct xt_train_settings *settings;
    const struct xt_network *network;
    const struct xt_predictor *predictor;
    const struct xt_run_folder *folder;
    const struct xt_evaluation *evaluation; /* the last; no images: there was none */
    const struct xt_evaluation *average;    /* of the moving average, at the same step */
    struct xt_run_plan plan;
    struct xt_run_state state;
    struct xt_run_best best;
    struct xt_run_times times;
    struct xt_run_watch watch;
    struct xt_run_device device;
    struct xt_run_update update;
    const struct xt_reliability_report *reliability; /* of the best weights */
};

/* ---- a run ---- */

struct xt_trainer;

/* An empty trainer; `settings` outlive it. */
enum xt_status xt_trainer_create(struct xt_trainer **out, const struct xt_train_settings *settings,
                                 struct xt_err *err);
/* NULL is allowed. */
void xt_trainer_destroy(struct xt_trainer *trainer);

/* Opens data and network and computes the plan of the run; writes nothing. Once; after a failure
 * only the summary and destroy may be called. */
enum xt_status xt_trainer_prepare(struct xt_trainer *trainer, struct xt_err *err);

/* Of a prepared trainer: checks the device as --check-device says (xt_network_check_device), and
 * one whole step on made pictures: its loss and gradients beside the CPU's, its update beside the
 * host's. `afresh`: whatever the cache says. */
enum xt_status xt_trainer_check_device(struct xt_trainer *trainer, bool afresh, struct xt_err *err);

/* Memory that a prepared trainer uses, and will use. */
struct xt_memory_plan xt_trainer_memory_plan(const struct xt_trainer *trainer);

/* Opens the run's folder and record, and resumes from a checkpoint with --resume. */
enum xt_status xt_trainer_open_run(struct xt_trainer *trainer, struct xt_err *err);

/* Writes the run's settings, the text of its config.yaml, on rank 0. */
enum xt_status xt_trainer_save_settings(struct xt_trainer *trainer, const char *text, size_t length,
                                        struct xt_err *err);

/* Trains to the end of the run, --max-time, --stop-after or a signal. Returns XT_OK when done
 * (--max-time and --patience too, see xt_run_state.end), XT_STOPPED for --stop-after and SIGTERM,
 * XT_INTERRUPTED for SIGINT: saved in each case, and err says so. */
enum xt_status xt_trainer_run(struct xt_trainer *trainer, const struct xt_train_observer *observer,
                              struct xt_err *err);

struct xt_run_summary xt_trainer_summary(const struct xt_trainer *trainer);

/* --overfit: the wrong predictions of all ranks. The caller has initialised `errors`. */
enum xt_status xt_trainer_list_wrong(struct xt_trainer *trainer, struct xt_errors *errors,
                                     struct xt_err *err);
/* The path of one of them. */
void xt_trainer_image_name(const struct xt_trainer *trainer, size_t index, char *out, size_t size);

/* ---- for benchmarks: single steps of a prepared trainer ---- */

/* On one batch: forward, loss, backward, update. */
enum xt_status xt_trainer_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *loss, struct xt_err *err);
struct xt_network *xt_trainer_network(struct xt_trainer *trainer);
/* The slots through which batches are uploaded to the device. */
struct xt_upload *xt_trainer_upload(struct xt_trainer *trainer);
