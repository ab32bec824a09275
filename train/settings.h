/* What training is asked to be, one struct for each concern, as plain values. Strings are borrowed;
 * NULL where not given.
 */
#ifndef XT_TRAIN_SETTINGS_H
#define XT_TRAIN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "infer/settings.h"
#include "runs/run_options.h"
#include "runs/settings.h"

enum xt_optim_kind { XT_OPTIM_SGD, XT_OPTIM_ADAM, XT_OPTIM_ADAMW, XT_OPTIM_RMSPROP };
enum xt_sched_kind {
    XT_SCHED_CONSTANT,
    XT_SCHED_STEP,
    XT_SCHED_MULTISTEP,
    XT_SCHED_COSINE,
    XT_SCHED_ONECYCLE,
};
/* What is done where the device is lost under a run. */
enum xt_device_loss_choice { XT_LOSS_STOP, XT_LOSS_RESUME };
/* What becomes of a step whose loss, gradients or statistics are not finite. */
enum xt_on_nan { XT_ON_NAN_STOP, XT_ON_NAN_SKIP, XT_ON_NAN_ROLLBACK };
enum xt_reduce_type { XT_REDUCE_F32, XT_REDUCE_BF16 };

struct xt_ranks;
/* How the weights follow from the gradients. */
struct xt_recipe_settings {
    int accumulate; /* batches whose gradients make one step; 0 counts as 1 */
    double lr;
    double min_lr; /* no schedule falls below it */
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

/* How long it trains, what it is evaluated by, and what becomes of it where something fails. */
struct xt_run_settings {
    int epochs;        /* 0: not given */
    int64_t steps;     /* 0: not given; wins over epochs */
    double max_time;   /* seconds, 0: no limit; reached: evaluate, save, exit 0 */
    double stop_after; /* seconds, 0: no limit; reached: save, exit 75 */
    int eval_every;    /* epochs, 0: at the end alone */
    int patience;      /* evaluations in a row without gain, then the run ends; 0: no such end */
    double min_delta;  /* what the accuracy must rise by to be a gain; 0: any better one is */
    int overfit;       /* train and evaluate on so many of the images alone; 0: on all */
    enum xt_on_nan on_nan;
    enum xt_device_loss_choice on_device_loss;
    double device_timeout; /* seconds; 0: by the length of the steps */
};

/* Several processes that train as one. */
struct xt_rank_settings {
    bool sync_bn;                    /* batch norms over the images of all */
    int bucket;                      /* MiB of gradients that are sent together */
    enum xt_reduce_type reduce_type; /* that they are sent in */
    double timeout;                  /* seconds that one waits for the others; 0: no limit */
};

/* What a trainer is made by. */
struct xt_train_settings {
    struct xt_run_lister lister; /* what a checkpoint records of the options */
    /* the processes that train together (ranks/ranks.h); NULL: this one, alone */
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

#endif
