/* What a network, its device, its images and the reading of its answers are asked to be, one struct
 * for each, as plain values. Strings are borrowed; NULL where not given.
 */
#ifndef XT_INFER_SETTINGS_H
#define XT_INFER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "device/gpu/capture.h"

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
enum xt_cache_choice {
    XT_CACHE_CHOICE_OFF,
    XT_CACHE_CHOICE_FILES,
    XT_CACHE_CHOICE_RAM,
    XT_CACHE_CHOICE_DISK
};
enum xt_images_fit { XT_IMAGES_STRETCH, XT_IMAGES_CROP };
enum xt_decode_kind { XT_DECODE_GREEDY, XT_DECODE_BEAM };

struct xt_graph_observer;

/* The images, and how they are read. */
struct xt_data_settings {
    const char *images;
    const char *val;
    bool augment;
    enum xt_images_fit fit;
    bool flip;
    double jitter; /* of brightness, contrast, saturation; 0: off */
    double hue;    /* part of the circle; 0: off */
    double mixup;  /* alpha; 0: off */
    bool strict;   /* a bad image is an error */
    uint64_t seed;
    int workers; /* 0: found from threads */
    int slots;   /* batches that are made ahead; 0: found */
    enum xt_cache_choice cache;
    int cache_limit;        /* MiB; 0: found */
    const char *cache_file; /* of a cache on disk; NULL: in the run's folder */
    int processes;          /* no option: that share the host's memory; 0: this one alone */
    bool cache_is_made;     /* no option: another process makes the cache on disk */
};

struct xt_network_settings {
    const char *model;
    const char *text; /* no option: the network as a run that goes on has it; NULL: --model */
    const char *init;
    bool init_partial;
    bool random_init; /* a network from a file begins anew, not with the file's weights */
    const char *alphabet;
    int classes;    /* 0: as many as the data or the weights have */
    int image_size; /* height and width; 0: what the weights were trained at, or the network's */
    const char *normalize; /* of pixels; "auto" or NULL: what the weights say or are */
    enum xt_context_norm lprnet_norm;
    enum xt_bn_mode bn;
    const char *freeze_until; /* the first layer that learns; NULL: all do */
    int batch;                /* 0: as large as fits */
    enum xt_amp amp;
    bool recompute;   /* activations that are cheap to recompute are not stored */
    bool fuse;        /* inference folds batch norms into the convolutions before them */
    bool lower_bound; /* the time of the convolutions is measured: inference is not by slices */
    /* who is told of an XPU's kernels as they are made; NULL: nobody */
    const struct xt_graph_observer *kernels;
};

struct xt_device_settings {
    const char *name;      /* "cpu", "xpu", "xpu:N" or "auto"; says it all, also after --xpu */
    bool xpu;              /* true where `name` is an XPU */
    const char *own_xpu;   /* no option: what "xpu" is to one of several processes; NULL: "xpu" */
    const char *cache_dir; /* of compiled kernels */
    bool kernel_cache;     /* they are stored */
    int threads;           /* 0: what the process may use */
    bool oversubscribe;    /* more than that is meant */
    bool check;            /* whether an XPU computes right, before a run begins on it */
    bool pin_memory;       /* an XPU reads images where they were decoded */
    enum xt_capture_gpu for_gpu; /* that is not here; XT_CAPTURE_NONE: the one that is */
};

struct xt_answer_settings {
    enum xt_decode_kind decode;
    int top;               /* prediction names this many of the likeliest classes */
    double reject;         /* predictions below this confidence are rejected; 0: none */
    const char *calibrate; /* int8: images that its ranges come from */
    int calibrate_images;  /* at most so many of them */
};

/* What a network that answers is opened with. */
struct xt_infer_settings {
    struct xt_data_settings data;
    struct xt_network_settings network;
    struct xt_device_settings device;
    struct xt_answer_settings answer;
};

#endif
