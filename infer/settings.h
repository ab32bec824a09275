/* Settings of a network, its device, its images and its predictions, one struct each. Strings are
 * borrowed; NULL where not given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "data/alphabet.h"
#include "engine/graph.h"

enum xt_bn_mode { XT_BN_AUTO, XT_BN_BATCH, XT_BN_FROZEN };
enum xt_context_norm { XT_CONTEXT_AUTO, XT_CONTEXT_SAMPLE, XT_CONTEXT_BATCH };
enum xt_amp { XT_AMP_OFF, XT_AMP_BF16, XT_AMP_FP16, XT_AMP_INT8, XT_AMP_COUNT };
/* The type of a graph's tensors: an int8 network is described in f32. */
static inline enum xt_dtype xt_amp_dtype(enum xt_amp amp)
{
    return amp == XT_AMP_BF16 ? XT_BF16 : amp == XT_AMP_FP16 ? XT_F16 : XT_F32;
}
/* Its name in reports: "f32", "bf16", "fp16", "int8". */
static inline const char *xt_amp_name(enum xt_amp amp)
{
    return amp == XT_AMP_INT8 ? "int8" : xt_dtype_name(xt_amp_dtype(amp));
}
enum xt_cache_choice {
    XT_CACHE_CHOICE_OFF,
    XT_CACHE_CHOICE_FILES,
    XT_CACHE_CHOICE_RAM,
    XT_CACHE_CHOICE_DISK
};
enum xt_check_choice { XT_CHECK_FIRST, XT_CHECK_EVERY, XT_CHECK_NEVER };
enum xt_images_fit { XT_IMAGES_STRETCH, XT_IMAGES_CROP };
enum xt_decode_kind { XT_DECODE_GREEDY, XT_DECODE_BEAM };

/* Which predictions are rejected (--reject; infer/answer/confidence.h). */
struct xt_reject_rule {
    enum xt_reject_kind {
        XT_REJECT_STORED, /* as the weights say; in training: nothing is chosen */
        XT_REJECT_NONE,
        XT_REJECT_BELOW, /* those of less confidence than `value` */
        XT_REJECT_AUTO,  /* so that the part `value` of the others is right */
        XT_REJECT_KEEP,  /* so that the part `value` of the images is not rejected */
    } kind;
    double value;
};

struct xt_graph_observer;

/* The images and how they are read. */
struct xt_data_settings {
    const char *images;
    const char *val;
    bool augment;
    enum xt_images_fit fit;
    bool flip;
    double jitter;         /* of brightness, contrast, saturation; 0: off */
    double hue;            /* part of the circle; 0: off */
    double mixup;          /* alpha; 0: off */
    double val_part;       /* of `images`, held out for evaluation; 0: none */
    const char *negatives; /* pictures of nothing that is to be read; NULL: none */
    double negatives_part; /* of each batch */
    bool strict;           /* a bad image is an error */
    uint64_t seed;
    int workers; /* 0: from the number of threads */
    int slots;   /* batches decoded ahead; 0: automatic */
    enum xt_cache_choice cache;
    int cache_limit;        /* MiB; 0: automatic */
    const char *cache_file; /* of a cache on disk; NULL: in the run's folder */
    int processes;      /* no option: processes that share the host's memory; 0: only this one */
    bool cache_is_made; /* no option: another process creates the cache on disk */
};

struct xt_network_settings {
    const char *model;
    const char *text;          /* no option: the network of a resumed run; NULL: --model */
    const char *text_alphabet; /* no option: the symbols of that network; NULL: as without text */
    const char *init;
    const char *described_by; /* no option: weights whose metadata says what --init's lacks */
    bool init_partial;
    bool random_init; /* a network from a file starts from random weights, not the file's */
    const char *alphabet;
    enum xt_blank blank; /* of --alphabet */
    int classes;         /* 0: as many as the data or the weights have */
    int image_size; /* height and width; 0: what the weights were trained at, or the network's */
    const char *normalize; /* of pixels; "auto" or NULL: by the weights' metadata or origin */
    enum xt_context_norm lprnet_norm;
    enum xt_bn_mode bn;
    const char *freeze_until; /* the first layer that learns; NULL: all do */
    int batch;                /* 0: the largest that fits */
    enum xt_amp amp;
    bool recompute;                  /* activations that are cheap to recompute are not stored */
    enum xt_int8_layout int8_layout; /* no option: XT_INT8_OWN but for export */
    bool int8_of_7_bits;             /* no option of its own: weights, for export */
    bool fuse;        /* inference folds batch norms into the convolutions before them */
    bool lower_bound; /* the convolutions are timed: inference does not run by slices */
    /* told of each XPU kernel that is compiled; may be NULL */
    const struct xt_graph_observer *kernels;
};

struct xt_device_settings {
    const char *name;      /* "cpu", "xpu", "xpu:N" or "auto"; complete, also after --xpu */
    bool xpu;              /* true where `name` is an XPU */
    const char *own_xpu;   /* no option: the device that "xpu" means in one of several processes;
                              NULL: "xpu" */
    const char *cache_dir; /* of compiled kernels */
    bool kernel_cache;     /* they are stored */
    int threads;           /* 0: what the process may use */
    int own_threads;       /* no option: what 0 means in one of several processes; 0: the same */
    bool oversubscribe;    /* allow more than that */
    enum xt_check_choice check; /* an XPU's results (infer/device_check.h) */
    bool deterministic;         /* required; an XPU takes it anyway where oneDNN has it */
    bool check_first;           /* an earlier spelling; false: never */
    double timeout;             /* of a call to an XPU's driver, seconds; 0: the usual one */
    bool pin_memory;            /* an XPU reads images where they were decoded */
    uint32_t for_gpu;           /* the PCI device id of a GPU to compile for; 0: the present one */
    const char *driver; /* for_gpu: a folder of a driver's packages; NULL: the installed one */
};

struct xt_answer_settings {
    enum xt_decode_kind decode;
    int top; /* prediction names this many of the likeliest classes */
    struct xt_reject_rule reject;
    const char *calibrate; /* int8: images that its ranges come from */
    int calibrate_images;  /* at most this many of them */
};

/* Settings of inference. */
struct xt_infer_settings {
    struct xt_data_settings data;
    struct xt_network_settings network;
    struct xt_device_settings device;
    struct xt_answer_settings answer;
};
