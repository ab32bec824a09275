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
#include "data/loader.h"
#include "data/sources/source.h"
#include "device/gpu/monitor.h"
#include "device/upload.h"
#include "train/run/bad_images.h"
#include "train/evaluate.h"
#include "train/feed.h"
#include "train/run/log_writer.h"
#include "train/memory_plan.h"
#include "train/network.h"
#include "train/losses/objective.h"
#include "train/optim/optim.h"
#include "train/ranks/ranks.h"
#include "train/ranks/team.h"
#include "train/run/resume.h"
#include "train/run/run_folder.h"
#include "train/optim/scaler.h"
#include "train/optim/schedule.h"
#include "train/settings.h"
#include "train/optim/xpu_optim.h"

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

struct xt_trainer {
    const struct xt_settings *settings;
    struct xt_network network;
    int batch;            /* images a step, of all ranks; the network's is this process's share */
    struct xt_rows rows;  /* that share, of several ranks */
    struct xt_team *team; /* NULL: it trains alone */
    struct xt_vote vote;  /* what the ranks came to in the last step */
    size_t bad_judged;    /* bad images of all ranks, as they were looked at last */
    struct xt_source *source;
    struct xt_source *val; /* NULL: none */
    struct xt_upload upload;
    struct xt_feed *feed;
    struct xt_loader_config loader_config;
    struct xt_cache *cache; /* NULL: none */
    struct xt_objective *objective;
    struct xt_optim optim;
    struct xt_xpu_optim *xpu_optim; /* what runs it on an XPU; NULL on the CPU */
    struct xt_scaler scaler;
    struct xt_optim_range ranges[XT_PARAMS_MAX];
    size_t range_count;
    struct xt_schedule schedule;
    struct xt_resume resume; /* until the run is open */
    struct xt_run_folder folder;
    struct xt_log_writer log;
    int64_t epoch_steps;
    int64_t steps;
    int64_t step;
    int64_t start_step; /* where this process began */
    int64_t best_step;  /* -1: none; 0: the given weights */
    struct xt_merit best;
    double earlier_seconds; /* trained by processes before this one */
    double start_time;
    int64_t evaluated_step; /* -1: none */
    int64_t saved_step;     /* -1: none */
    struct xt_bad_images bad;
    struct xt_evaluation last_evaluation;
    struct xt_train_observer observer;
    struct xt_monitor *monitor; /* of an XPU, while steps are trained; NULL: none */
    struct xt_monitor_figures device_figures;
    struct xt_crossed crossed;           /* the bus, in steps of this process; nothing on the CPU */
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
 * (--max-time too), XT_STOPPED for --stop-after and SIGTERM, XT_INTERRUPTED for SIGINT: saved in
 * each case, and err says so. */
enum xt_status xt_trainer_run(struct xt_trainer *trainer, const struct xt_train_observer *observer,
                              struct xt_err *err);

/* What the run has taken so far, over all starts. */
double xt_trainer_seconds(const struct xt_trainer *trainer);

/* One step on a batch: forward, loss, backward, update. For benches and tests
 * too. */
enum xt_status xt_trainer_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *loss, struct xt_err *err);

#endif
