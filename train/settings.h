/* Every setting of a run, as plain values. cli/options/ fills it from one table (command line over
 * config file over the model's recipe over the default); nothing else writes to it. Strings are
 * owned by the option parser and live as long as it; NULL where not given.
 */
#ifndef XT_TRAIN_SETTINGS_H
#define XT_TRAIN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "device/gpu/capture.h"

enum xt_optim_kind { XT_OPTIM_SGD, XT_OPTIM_ADAM, XT_OPTIM_ADAMW, XT_OPTIM_RMSPROP };
enum xt_sched_kind {
    XT_SCHED_CONSTANT,
    XT_SCHED_STEP,
    XT_SCHED_MULTISTEP,
    XT_SCHED_COSINE,
    XT_SCHED_ONECYCLE,
};
enum xt_bn_mode { XT_BN_AUTO, XT_BN_BATCH, XT_BN_FROZEN };
enum xt_context_norm { XT_CONTEXT_AUTO, XT_CONTEXT_SAMPLE, XT_CONTEXT_BATCH };
enum xt_amp { XT_AMP_OFF, XT_AMP_BF16, XT_AMP_FP16, XT_AMP_INT8, XT_AMP_COUNT };
/* The type of a graph's tensors by it: an int8 network's are described in f32. */
static inline enum xt_dtype xt_amp_dtype(enum xt_amp amp)
{
    return amp == XT_AMP_BF16 ? XT_BF16 : amp == XT_AMP_FP16 ? XT_F16 : XT_F32;
}
/* What reports call it: "f32", "bf16", "fp16", "int8". */
static inline const char *xt_amp_name(enum xt_amp amp)
{
    return amp == XT_AMP_INT8 ? "int8" : xt_dtype_name(xt_amp_dtype(amp));
}
/* What a network is exported in. */
enum xt_export_type { XT_EXPORT_F32, XT_EXPORT_FP16, XT_EXPORT_INT8 };
/* What is done where the device is lost under a run. */
enum xt_device_loss_choice { XT_LOSS_STOP, XT_LOSS_RESUME };
enum xt_warm_for { XT_WARM_TRAIN, XT_WARM_EVAL, XT_WARM_PREDICT };
enum xt_cache_choice {
    XT_CACHE_CHOICE_OFF,
    XT_CACHE_CHOICE_FILES,
    XT_CACHE_CHOICE_RAM,
    XT_CACHE_CHOICE_DISK
};
enum xt_pack_choice { XT_PACK_SHARDS, XT_PACK_PIXELS };
enum xt_images_fit { XT_IMAGES_STRETCH, XT_IMAGES_CROP };
/* This process among those of its host that train together. */
struct xt_host_share {
    const char *xpu;    /* what "--device xpu" is to it; NULL: as --device says */
    int processes;      /* that share the host's memory; 0: it is alone */
    bool cache_is_made; /* another makes the file of --cache disk */
};
enum xt_stdin_kind { XT_STDIN_NONE, XT_STDIN_PATHS, XT_STDIN_IMAGES, XT_STDIN_FRAMES };
/* What becomes of a step whose loss, gradients or statistics are no numbers. */
enum xt_on_nan { XT_ON_NAN_STOP, XT_ON_NAN_SKIP, XT_ON_NAN_ROLLBACK };
enum xt_reduce_type { XT_REDUCE_F32, XT_REDUCE_BF16 };
enum xt_decode_kind { XT_DECODE_GREEDY, XT_DECODE_BEAM };

/* What a run that goes on does about an option that is not what it was. */
enum xt_resume_rule {
    XT_RESUME_TAKES,   /* nothing: no weight follows from it */
    XT_RESUME_SAYS,    /* goes on with it, and says so: the losses are others */
    XT_RESUME_REFUSES, /* ends: it would be another run */
};

struct xt_graph_observer;
struct xt_ranks;
struct xt_run_options;
struct xt_settings;

/* Lists the options of these settings that have one of the last two rules
 * (runs/run_options.h). */
typedef enum xt_status xt_list_options(const struct xt_settings *settings,
                                       struct xt_run_options *out, struct xt_err *err);

struct xt_settings {
    /* no option: from the option table, what a checkpoint records of the settings; NULL: nothing */
    xt_list_options *list_options;
    /* no option: who is told of an XPU's kernels as they are made; NULL: nobody */
    const struct xt_graph_observer *kernels;
    /* no option: the processes that train together (ranks/ranks.h); NULL: this one, alone */
    struct xt_ranks *ranks;
    struct xt_host_share host; /* no option: follows from the ranks */

    /* what to train, on what */
    const char *model;
    const char *data;
    const char *val;
    const char *init;
    bool init_partial;
    const char *alphabet;
    int classes;    /* 0: as many as the data or the weights have */
    int image_size; /* height and width; 0: what the weights were trained at, or the network's */
    const char *normalize; /* of pixels; "auto" or NULL: what the weights say or are */
    bool augment;
    enum xt_images_fit fit;
    bool flip;
    double jitter; /* of brightness, contrast, saturation; 0: off */
    double hue;    /* part of the circle; 0: off */
    bool strict_data;

    /* the run */
    const char *out;
    const char *config;
    const char *resume;
    bool print_config;
    bool dry_run;
    int epochs;        /* 0: not given */
    int64_t steps;     /* 0: not given; wins over epochs */
    double max_time;   /* seconds, 0: no limit; reached: evaluate, save, exit 0 */
    double stop_after; /* seconds, 0: no limit; reached: save, exit 75 */
    int patience;      /* evaluations in a row without gain, then the run ends; 0: no such end */
    double min_delta; /* what the accuracy must rise by to be a gain; 0: any better evaluation is */
    enum xt_on_nan on_nan;
    int overfit; /* train and evaluate on so many of the images alone; 0: on all */
    uint64_t seed;
    int log_every;  /* steps */
    int eval_every; /* epochs, 0: at the end alone */
    int save_every; /* steps, 0: each epoch */
    int keep;

    /* the recipe */
    int batch;
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
    double ema;             /* decay of the weights' moving average; 0: none is kept */
    double dropout;
    double label_smoothing;
    double mixup;             /* alpha; 0: off */
    const char *freeze_until; /* the first layer that learns; NULL: all do */
    double head_lr_factor;
    enum xt_bn_mode bn;
    enum xt_context_norm lprnet_norm;
    enum xt_amp amp;

    /* several processes */
    bool sync_bn;                    /* batch norms over the images of all */
    int bucket;                      /* MiB of gradients that are sent together */
    enum xt_reduce_type reduce_type; /* that they are sent in */
    double rank_timeout;             /* seconds that one waits for the others; 0: no limit */

    /* where it runs */
    const char *device;    /* "cpu", "xpu", "xpu:N" or "auto"; says it all, also after --xpu */
    bool xpu;              /* true where `device` is an XPU */
    const char *cache_dir; /* of compiled kernels */
    bool kernel_cache;     /* keep them */
    int max_size;          /* of that cache, MB; 0: no limit */
    double max_age;        /* of kernels in it, seconds; 0: no limit */
    int threads;           /* 0: what the process may use, fewer where others hold the CPUs */
    bool oversubscribe;    /* more than that is meant */
    double watch_cpus;     /* seconds from one look at who else holds the CPUs to the next */
    bool device_check;     /* whether an XPU computes right, before a run begins on it */
    enum xt_device_loss_choice on_device_loss;
    double device_timeout; /* seconds; 0: by the length of the steps */
    int workers;           /* 0: found from threads */
    int slots;             /* batches that are made ahead; 0: found */
    bool recompute;        /* activations that are cheap to make again are not kept */
    enum xt_cache_choice cache;
    int cache_limit;        /* MiB; 0: found */
    const char *cache_file; /* of a cache on disk; NULL: in the run's folder */
    bool pin_memory;

    /* warmup: lists, see xt_options_count */
    enum xt_warm_for warm_for;
    enum xt_capture_gpu for_gpu; /* that is not here; XT_CAPTURE_NONE: the one that is */
    enum xt_amp types;

    /* evaluation and prediction */
    bool fuse;             /* batch norms become part of the convolutions before them */
    enum xt_amp compare;   /* a list: the types to evaluate in; see xt_options_source */
    const char *calibrate; /* int8: images that its ranges come from */
    int calibrate_images;  /* at most so many of them */
    enum xt_decode_kind decode;
    int show;           /* evaluation prints the answers to this many images */
    const char *errors; /* evaluation lists the wrong answers in this file; NULL: nowhere */
    int top;            /* prediction names this many of the likeliest classes */
    double reject;      /* predictions below this confidence are rejected; 0: none */

    /* export, diff */
    enum xt_export_type export_type;
    int fixed_batch;         /* of the exported model; 0: any */
    bool with_preprocess;    /* it takes bytes */
    const char *check;       /* images to compare it on */
    const char *differences; /* diff: the file that lists what the two answer differently */

    /* the service */
    const char *listen; /* an address and port, or unix:PATH */
    bool allow_remote;  /* the address may be other than the loopback's */
    enum xt_stdin_kind stdin_kind;
    const char *frame;  /* the size of raw frames, "640x480" */
    double max_latency; /* seconds that a request may wait for others to share its pass */
    int max_queue;      /* requests that wait for a pass; 0: four batches */
    int max_body;       /* MiB */
    int max_connections;
    double request_timeout; /* seconds from a request's first byte to its last */

    /* benches */
    bool profile;                /* the time of each op */
    bool why;                    /* bench step: what makes it slow */
    bool convolutions_alone;     /* what they take is measured: of inference not by slices */
    const char *sheet;           /* data check: the contact sheet's file */
    enum xt_pack_choice pack_as; /* data pack */
    int shard_size;              /* data pack: MiB */
    double val_part;             /* data split: for evaluation */
    bool small_shapes;           /* selftest: nothing else */
    int beside;                  /* busy processes to measure beside */
    const char *against;         /* the results of an earlier run, as --json wrote them */

    /* what it says */
    bool images;      /* pictures of the images may stand in reports */
    const char *page; /* report: its file; NULL: found */
    bool merge;       /* doctor: of the machines that files tell of */
    bool json;
    bool quiet;
    bool verbose;
    bool log_time;
    bool version;
    bool help;
};

#endif
