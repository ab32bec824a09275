/* The trainer's own state: for the files of train/trainer/ and trainer.c, and their tests. */
#pragma once

#include "base/system/energy.h"
#include "data/loader.h"
#include "data/sources/source.h"
#include "infer/answer/predictor.h"
#include "ranks/ranks.h"
#include "runs/bad_images.h"
#include "runs/log_writer.h"
#include "runs/proof.h"
#include "runs/report/run_report.h"
#include "runs/resume.h"
#include "train/losses/loss.h"
#include "train/optim/ema.h"
#include "train/optim/gradient_sum.h"
#include "train/optim/optim.h"
#include "train/optim/scaler.h"
#include "train/optim/schedule.h"
#include "train/optim/xpu_optim.h"
#include "train/ranks/gradients.h"
#include "train/watch/patience.h"
#include "train/watch/slow_watch.h"
#include "train/watch/spikes.h"
#include "train/trainer.h"

/* A step in progress, of one batch or several. */
struct xt_step_parts {
    int done; /* batches */
    double loss_sum, weight;
    double norm;    /* of the gradients, the loss scale in it */
    bool overflows; /* gradients are not finite, but a smaller scale may help */
    bool skipped;   /* by --on-nan skip */
    int in_a_row;   /* steps skipped */
    float *stats;   /* for that: the running statistics before the step; NULL: not saved */
};

/* --balance: the shares of all ranks, and the window in which they are measured. */
struct xt_balance {
    int *shares; /* [ranks] images, or pairs with mixup; NULL: not given */
    int most;    /* that this rank has memory for */
    int steps;   /* since they were cut, or last compared */
    int window;  /* steps that are measured */
    double busy; /* seconds that this rank computed in them */
};

struct xt_trainer {
    const struct xt_train_settings *settings;
    struct xt_network network;
    int batch;           /* images a step, of all ranks; the network's is this process's share */
    struct xt_rows rows; /* that share, of several ranks */
    struct xt_balance balance;
    struct xt_gradient_reduction *reduction; /* NULL: a single process */
    float *residual;                    /* of its gradients in bf16 (gradients.h); NULL: none */
    struct xt_step_agreement agreement; /* of the ranks in the last step */
    size_t bad_judged;                  /* bad images of all ranks, when last judged */
    struct xt_source *source;
    struct xt_source *val;                        /* NULL: none */
    struct xt_source *negatives, *negatives_held; /* to train with, to measure on; NULL: none */
    struct xt_upload upload;
    struct xt_feed *feed;
    struct xt_loader_config loader_config;
    struct xt_cache *cache; /* NULL: none */
    struct xt_predictor *predictor;
    struct xt_loss *loss;
    struct xt_optim optim;
    struct xt_xpu_optim *xpu_optim; /* what runs it on an XPU; NULL on the CPU */
    struct xt_scaler scaler;
    struct xt_gradient_sum *sum; /* --accumulate; NULL: a step is one batch */
    struct xt_ema *ema;          /* NULL: there is none */
    struct xt_step_parts parts;
    bool diverged;         /* the last error is a non-finite number */
    int64_t diverged_step; /* where it was found */
    double lr_factor;      /* factor of the rate, by rollbacks */
    int rollbacks;         /* since the last checkpoint was written */
    int64_t nan_skips;     /* steps, by --on-nan skip, of the whole run */
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
    int64_t step;       /* judged, and applied or skipped */
    bool in_flight;     /* one more is on the device, not judged yet: see step.h */
    int64_t start_step; /* where this process began */
    int64_t built_step; /* since which the graph is this one */
    int64_t best_step;  /* -1: none; 0: the given weights */
    struct xt_selection_metric best;
    bool best_is_average;   /* of the weights' moving average */
    double earlier_seconds; /* trained by processes before this one */
    double init_time;       /* when this start began to open data and network */
    double start_time;
    struct xt_run_costs costs; /* energy: of processes before this one */
    struct xt_energy energy;   /* of this one */
    int profiled;              /* steps of this graph whose ops were timed */
    int64_t evaluated_step;    /* -1: none */
    int64_t saved_step;        /* -1: none */
    struct xt_bad_images bad;
    struct xt_proof proof;
    struct xt_sha256_text begun_from; /* hash of the record in the checkpoint; "": none */
    struct xt_evaluation last_evaluation;
    struct xt_evaluation average_evaluation;  /* of the moving average, at the same step */
    struct xt_reliability_report reliability; /* of the best weights, at the end of the run */
    struct xt_train_observer observer;
    struct xt_monitor *monitor; /* of an XPU, while steps are trained; NULL: none */
    struct xt_monitor_figures device_figures;
    struct xt_transfers transfers; /* host-device, in steps of this process; zero on the CPU */
    struct xt_guard_counts asked;  /* calls to the XPU, likewise */
    struct xt_slow_watch slow;     /* causes of slowness, while steps are trained */
    bool said_unreadable;          /* that device figures cannot be read */
    struct xt_step_seconds step_seconds; /* of the last step */
    struct xt_span prepare_span;         /* batch slots and optimizer, their kernels too */
    struct xt_span first_step;           /* of this process */
    /* sums since the last report */
    double loss_sum;
    int64_t loss_steps;
    double wait_sum;
    double report_time;
    int64_t report_step;
    struct xt_span report_span;
};

/* create and prepare, and destroy, for a trainer held by value. Clear it also after a failure. */
enum xt_status xt_trainer_init(struct xt_trainer *trainer, const struct xt_train_settings *settings,
                               struct xt_err *err);
void xt_trainer_clear(struct xt_trainer *trainer);

/* Seconds that the run has taken so far, over all starts. */
double xt_trainer_seconds(const struct xt_trainer *trainer);
struct xt_run_costs xt_trainer_costs(const struct xt_trainer *trainer);
