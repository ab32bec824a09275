/* The settings of training, one struct for each concern, copyable by value. Strings are borrowed;
 * NULL where not given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "infer/settings.h"
#include "runs/run_options.h"
#include "runs/settings.h"

enum xt_optim_kind {
    XT_OPTIM_SGD,
    XT_OPTIM_ADAM,
    XT_OPTIM_ADAMW,
    XT_OPTIM_RMSPROP,
    XT_OPTIM_KINDS
};
enum xt_sched_kind {
    XT_SCHED_CONSTANT,
    XT_SCHED_STEP,
    XT_SCHED_MULTISTEP,
    XT_SCHED_COSINE,
    XT_SCHED_ONECYCLE,
};
/* What to do when the device is lost during a run. */
enum xt_device_loss_choice { XT_LOSS_STOP, XT_LOSS_RESUME };
/* What to do with a step whose loss, gradients or statistics are not finite. */
enum xt_on_nan { XT_ON_NAN_STOP, XT_ON_NAN_SKIP, XT_ON_NAN_ROLLBACK };
enum xt_bind { XT_BIND_AUTO, XT_BIND_NONE };
enum xt_reduce_type { XT_REDUCE_F32, XT_REDUCE_BF16 };

struct xt_ranks;
/* How the weights follow from the gradients. */
struct xt_recipe_settings {
    int accumulate; /* batches whose gradients are summed for one step; 0 counts as 1 */
    double lr;
    double min_lr; /* lower bound of every schedule */
    enum xt_optim_kind optim;
    double momentum;
    bool nesterov;
    double weight_decay;
    bool decay_all; /* weight decay on BN and bias too */
    enum xt_sched_kind sched;
    const char *milestones; /* "10,20": epochs; step: one number, its period */
    double gamma;           /* step and multistep multiply the rate by it */
    double warmup;          /* fraction of all steps (onecycle: the rising part) */
    double clip;            /* gradient norm, 0: off */
    double ema;             /* decay of the weights' moving average; 0: none is computed */
    double dropout;
    double label_smoothing;
    double head_lr_factor;
};

/* The run's length, its evaluation, and what to do on failures. */
struct xt_run_settings {
    int epochs;        /* 0: not given */
    int64_t steps;     /* 0: not given; takes precedence over epochs */
    double max_time;   /* seconds, 0: no limit; reached: evaluate, save, exit 0 */
    double stop_after; /* seconds, 0: no limit; reached: save, exit 75 */
    int64_t stop_at;   /* step, 0: none; reached: likewise (xtrain verify --replay) */
    int eval_every;    /* epochs, 0: only at the end */
    int patience;      /* stop after this many evaluations in a row without gain; 0: never */
    double min_delta;  /* smallest rise in accuracy that is a gain; 0: any rise */
    int overfit;       /* train and evaluate on only N of the images; 0: on all */
    enum xt_on_nan on_nan;
    enum xt_device_loss_choice on_device_loss;
};

/* Data-parallel training by several processes. */
struct xt_rank_settings {
    bool alone;                      /* ignore that this is one of several tasks */
    bool sync_bn;                    /* batch norm statistics over the images of all ranks */
    int bucket;                      /* MiB of gradients per all-reduce */
    enum xt_reduce_type reduce_type; /* in which they are reduced */
    bool balance;                    /* cut the shares of a batch by measured speed */
    enum xt_bind bind;
    double timeout; /* seconds to wait for the other ranks; 0: no limit */
};

/* All settings of a trainer. */
struct xt_train_settings {
    struct xt_run_lister lister; /* lists the options that a checkpoint records */
    /* the communicator (ranks/ranks.h); NULL: a single process */
    struct xt_ranks *ranks;

    struct xt_data_settings data;
    struct xt_network_settings network;
    struct xt_device_settings device;
    struct xt_answer_settings answer;
    struct xt_record_settings record;
    struct xt_recipe_settings recipe;
    struct xt_run_settings run;
    struct xt_rank_settings rank;
};
