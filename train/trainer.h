/* Training: batches from the loader through the network, the loss, the backward pass, the update;
 * evaluation, checkpoints and the record in the run's folder.
 *
 * The trainer shows nothing itself: it tells its observer. One thread; the loader and the ops have
 * threads of their own.
 */
#ifndef XT_TRAIN_TRAINER_H
#define XT_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/system/energy.h"
#include "base/system/others.h"
#include "data/loader.h"
#include "data/sources/source.h"
#include "device/gpu/monitor.h"
#include "device/faults/guard.h"
#include "device/faults/watchdog.h"
#include "device/upload.h"
#include "runs/bad_images.h"
#include "infer/evaluate.h"
#include "runs/report/run_report.h"
#include "infer/feed.h"
#include "runs/log_writer.h"
#include "runs/proof.h"
#include "infer/network/memory_plan.h"
#include "infer/network/network.h"
#include "infer/answer/objective.h"
#include "train/losses/loss.h"
#include "train/optim/ema.h"
#include "train/optim/gradient_sum.h"
#include "train/optim/optim.h"
#include "ranks/ranks.h"
#include "train/ranks/gradients.h"
#include "runs/resume.h"
#include "runs/run_folder.h"
#include "train/optim/scaler.h"
#include "train/optim/schedule.h"
#include "train/settings.h"
#include "train/optim/xpu_optim.h"
#include "train/watch/patience.h"
#include "train/watch/slow_watch.h"
#include "train/watch/spikes.h"

/* Where the run is; `loss` is the mean since the last line of the record, `images_per_s` and `wait`
 * are since then or the last evaluation. */
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
    const struct xt_monitor_figures *device; /* NULL: there is nothing to watch, as on the CPU */
    bool log_step;                           /* this step is one of --log-every */
    bool of_average;                         /* an evaluation: of the weights' moving average */
};

struct xt_trainer;

struct xt_train_observer {
    void *context;
    void (*progress)(void *context, const struct xt_train_progress *progress);
    void (*evaluated)(void *context, const struct xt_train_progress *progress,
                      const struct xt_evaluation *evaluation, bool best);
};

/* What the parts of one step took: the working copies of the weights count as forward, clipping as
 * update. */
struct xt_step_seconds {
    double forward, loss, backward, update;
};

/* A step under way, of one batch or several. */
struct xt_step_parts {
    int done; /* batches */
    double loss_sum, weight;
    double norm;    /* of the gradients, the loss scale in it */
    bool overflows; /* gradients are not finite, which a smaller scale may mend */
    bool left_out;  /* by --on-nan skip */
    int in_a_row;   /* steps left out */
    float *stats;   /* for that: the running statistics before the step; NULL: not kept */
    int64_t batches_tracked;
};

/* Why a run that is done is done. */
enum xt_train_end { XT_END_STEPS, XT_END_TIME, XT_END_PATIENCE, XT_END_LEARNT /* --overfit */ };

struct xt_trainer {
    const struct xt_settings *settings;
    struct xt_network network;
    int batch;           /* images a step, of all ranks; the network's is this process's share */
    struct xt_rows rows; /* that share, of several ranks */
    struct xt_gradient_reduction *team; /* NULL: it trains alone */
    struct xt_step_agreement vote;      /* what the ranks came to in the last step */
    /* Makes the loss that of all ranks, and the vote; NULL: it trains alone. */
    enum xt_status (*agree)(struct xt_trainer *trainer, double *loss, struct xt_err *err);
    size_t bad_judged; /* bad images of all ranks, as they were looked at last */
    struct xt_source *source;
    struct xt_source *val; /* NULL: none */
    struct xt_upload upload;
    struct xt_feed *feed;
    struct xt_loader_config loader_config;
    struct xt_cache *cache; /* NULL: none */
    struct xt_objective *objective;
    struct xt_loss *loss;
    struct xt_optim optim;
    struct xt_xpu_optim *xpu_optim; /* what runs it on an XPU; NULL on the CPU */
    struct xt_scaler scaler;
    struct xt_gradient_sum *sum; /* --accumulate; NULL: a step is one batch */
    struct xt_ema *ema;          /* NULL: none is kept */
    struct xt_step_parts parts;
    bool norm_is_open; /* of the last step's gradients: the device has it, nobody has looked */
    bool diverged;     /* the last error is of numbers that are none */
    double lr_factor;  /* what rollbacks have made of the rate */
    int rollbacks;     /* since the last checkpoint was written */
    int64_t left_out;  /* steps, by --on-nan skip, of the whole run */
    struct xt_patience patience;
    struct xt_spikes spikes;
    enum xt_train_end end;
    struct xt_optim_range ranges[XT_PARAMS_MAX];
    size_t range_count;
    struct xt_schedule schedule;
    struct xt_resume resume; /* until the run is open */
    struct xt_run_folder folder;
    struct xt_log_writer log;
    struct xt_run_report report;
    int64_t epoch_steps;
    int64_t steps;
    int64_t step;
    int64_t start_step; /* where this process began */
    int64_t best_step;  /* -1: none; 0: the given weights */
    struct xt_selection_metric best;
    bool best_is_average;   /* it is the weights' moving average */
    double earlier_seconds; /* trained by processes before this one */
    double init_time;       /* when this start began to open all of it */
    double start_time;
    struct xt_run_costs costs; /* energy: of processes before this one */
    struct xt_energy energy;   /* of this one */
    int profiled;              /* steps of this process whose ops were timed */
    int64_t evaluated_step;    /* -1: none */
    int64_t saved_step;        /* -1: none */
    struct xt_bad_images bad;
    struct xt_proof proof;
    struct xt_evaluation last_evaluation;
    struct xt_evaluation average_evaluation; /* of the moving average, at the same step */
    struct xt_train_observer observer;
    struct xt_monitor *monitor;   /* of an XPU, while steps are trained; NULL: none */
    struct xt_watchdog *watchdog; /* of an XPU, while steps are trained; NULL: none */
    struct xt_monitor_figures device_figures;
    struct xt_transfers crossed;  /* the bus, in steps of this process; nothing on the CPU */
    struct xt_guard_counts asked; /* of an XPU, likewise */
    struct xt_others others;      /* who else holds the CPUs */
    int threads_again; /* the run is to be started again with so many threads; 0: it is not */
    struct xt_slow_watch slow;           /* what makes it slow, while steps are trained */
    bool said_unreadable;                /* what cannot be read of the device */
    struct xt_step_seconds step_seconds; /* of the last step */
    struct xt_span prepare_span; /* batch slots and optimizer, their kernels too, took this */
    struct xt_span first_step;   /* of this process */
    /* sums since the last report */
    double loss_sum;
    int64_t loss_steps;
    double wait_sum;
    double report_time;
    int64_t report_step;
    struct xt_span report_span;
};

/* Opens data and network and works out the plan of the run; nothing is written. Clear it also after
 * a failure. */
enum xt_status xt_trainer_init(struct xt_trainer *trainer, const struct xt_settings *settings,
                               struct xt_err *err);
void xt_trainer_clear(struct xt_trainer *trainer);

/* What an initialised trainer takes of memory, and will take. */
struct xt_memory_plan xt_trainer_memory_plan(const struct xt_trainer *trainer);

/* Opens the run's folder and record, and goes on from a checkpoint where --resume says so. */
enum xt_status xt_trainer_open_run(struct xt_trainer *trainer, struct xt_err *err);

/* Trains to the end of the run, --max-time, --stop-after or a signal. Returns XT_OK when done
 * (--max-time and --patience too, see `end`), XT_STOPPED for --stop-after and SIGTERM,
 * XT_INTERRUPTED for SIGINT: saved in each case, and err says so. */
enum xt_status xt_trainer_run(struct xt_trainer *trainer, const struct xt_train_observer *observer,
                              struct xt_err *err);

/* What the run has taken so far, over all starts. */
double xt_trainer_seconds(const struct xt_trainer *trainer);
struct xt_run_costs xt_trainer_costs(const struct xt_trainer *trainer);

/* --overfit: whether all images were read right at the end of an evaluation. */
bool xt_trainer_has_learnt(const struct xt_trainer *trainer);

/* One step on a batch: forward, loss, backward, update. For benches and tests
 * too. */
enum xt_status xt_trainer_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *loss, struct xt_err *err);

/* ---- one step, of one batch or of several whose gradients are added up; trainer/step.c ---- */

/* Batches of a step, and the images in them. */
int xt_step_batches(const struct xt_settings *settings);
int xt_step_images(const struct xt_trainer *trainer);

/* What steps need beside the network: the optimizer has been opened. */
enum xt_status xt_step_open(struct xt_trainer *trainer, struct xt_err *err);
void xt_step_close(struct xt_trainer *trainer);

/* begin, add for each batch, end. Where numbers appear that are none, add fails with what and where
 * they are and sets trainer->diverged; by --on-nan skip it says so, the step's other batches are
 * passed over, and end leaves weights and optimizer as they were. *loss is the mean over the step's
 * images; NAN where it was left out. */
void xt_step_begin(struct xt_trainer *trainer);
enum xt_status xt_step_add(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                           struct xt_err *err);
enum xt_status xt_step_end(struct xt_trainer *trainer, double *loss, struct xt_err *err);

/* On an XPU a step may end before its gradients have been looked at: the device leaves the update
 * out by itself where one is no number, and the next batch's loss, or this, is what says so, and
 * takes the step back. With a batch the device has been waited for, and it is the one that is
 * looked into. Before weights are saved or evaluated. */
enum xt_status xt_step_settle(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                              struct xt_err *err);

/* The rate of step `step`: the schedule's, lowered by rollbacks. */
double xt_step_lr(const struct xt_trainer *trainer, int64_t step);

/* XT_ERR_RUN where a running statistic is no number. A diverging run may have a finite loss to its
 * end: a batch's own statistics hide how large the numbers are, and the running ones overflow. On
 * an XPU they are those that came to the host last. */
enum xt_status xt_step_check_statistics(const struct xt_trainer *trainer, struct xt_err *err);

#endif
