/* A network: device, alphabet or classes, parameters and graph, created from the settings; and its
 * weight files.
 *
 * A weight file is safetensors with the published parameter names and nothing else; its metadata
 * holds what inference needs: model, alphabet and context norm or class names, input size, mean and
 * scale. The metadata applies where the settings do not say. Not thread-safe.
 *
 * It is opened here, planned in network_plan.h and built in network_build.h. Where the weights do
 * not determine the classes, the training data does: xt_network_open, a source by
 * xt_network_source_options, xt_network_take_classes, xt_network_build.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/sources/source.h"
#include "device/device.h"
#include "device/upload.h"
#include "engine/executor.h"
#include "engine/ranges.h"
#include "models/normalise.h"
#include "models/loaded.h"
#include "models/registry.h"
#include "infer/answer/confidence.h"
#include "infer/network/class_names.h"
#include "infer/network/run_mark.h"
#include "infer/settings.h"

/* The metadata key that distinguishes a checkpoint from weights. */
#define XT_CHECKPOINT_KEY "xtrain_state"

/* Training's arrays beside the graphs; each is as large as the parameters. */
struct xt_training_arrays {
    int states;   /* arrays of the optimizer */
    int averages; /* moving averages, of statistics too */
    int sums;     /* accumulated gradients */
    int slots;    /* batches decoded ahead; 0: not counted */
};

struct xt_network {
    const struct xt_model_info *model;
    struct xt_loaded_model *loaded; /* the same where it is from a file; NULL else */
    struct xt_device device;
    int64_t
        device_checked; /* when it passed the device check, seconds since 1970; 0: not checked */
    enum xt_task task;
    struct xt_alphabet *alphabet;      /* plates; NULL else */
    struct xt_class_names class_names; /* classes; empty where they have no names */
    int classes;                       /* of the logits; 0: not yet known */
    int height, width;                 /* of the images */
    struct xt_normalise normalise;     /* applied to them */
    char normalise_text[XT_NORMALISE_TEXT];
    const char *normalise_by; /* where that comes from */
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_graph
        *inference; /* of the same parameters and batch; `graph` itself except in training on an
                       XPU, whose kernels are created for one of the two */
    struct xt_ranges ranges;       /* of an int8 graph: measured (calibrate.h), or the weights' */
    struct xt_weight_file weights; /* --init, until the network is built */
    bool has_weights;
    const char *weights_name;        /* of the file, for messages; NULL: no file */
    struct xt_confidence confidence; /* of the weights as they were read; training begins anew */
    struct xt_run_mark mark;   /* of the run that the weights are of; the trainer sets its own */
    struct xt_span build_span; /* duration of building */
    uint64_t seed;             /* of the weights that are initialised; set before it is built */
    bool pageable;             /* images are decoded into pageable host memory */
    bool over_batch;           /* LPRNet's context norm */
    enum xt_bn_mode
        bn_before;           /* of the resumed run, for --bn auto; XT_BN_AUTO: no run is resumed */
    double checkpoint_bytes; /* of that run's checkpoint, in memory while the network is built */
    struct xt_training_arrays training; /* for memory plans; set by the trainer */
    int processes;                      /* that share the host's memory; 0: only this one */
    int ranks;      /* training: that share a batch, of which `batch` is a part; 0: only this one */
    bool bn_frozen; /* training does not update the statistics; decided in building */
    bool int8_told; /* how much of it is computed in int8 */
    int batch;
};

/* The device that the settings select, and its kernel cache. */
struct xt_device_options xt_network_device_options(const struct xt_device_settings *settings);

/* Whether training freezes the statistics of batch norms: by --bn, else as the resumed run did,
 * else by the weights, once they are loaded. */
bool xt_network_freezes_bn(const struct xt_network *network,
                           const struct xt_network_settings *settings);
/* Checks that the device supports the type of --amp; warns where it is slow. */
enum xt_status xt_network_check_amp(const struct xt_network *network,
                                    const struct xt_network_settings *settings, struct xt_err *err);
/* Opens the device and reads --alphabet and --init. The caller clears the network, also after a
 * failure. */
enum xt_status xt_network_open(struct xt_network *network,
                               const struct xt_network_settings *settings,
                               const struct xt_device_settings *device, struct xt_err *err);
/* Takes the classes of the images (for plates nothing), unless --classes gives more. */
enum xt_status xt_network_take_classes(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_source *source, struct xt_err *err);
/* The number of classes of --init's head; 0 where unknown. */
int xt_network_head_classes(const struct xt_network *network);
/* An error where the number of classes is still unknown. */
enum xt_status xt_network_check_classes(const struct xt_network *network, struct xt_err *err);
/* The requested settings with the effective values in place of auto, 0 and what the weights
 * decided; borrows from both. */
struct xt_network_settings xt_network_found(const struct xt_network *network,
                                            const struct xt_network_settings *asked);
void xt_network_clear(struct xt_network *network);

/* The alphabet that the settings select: --alphabet, else that of weights that --model named, else
 * the default. */
enum xt_status xt_network_alphabet(const struct xt_network_settings *settings,
                                   struct xt_alphabet **out, struct xt_err *err);

/* Of an image as it is decoded: three bytes a pixel, of grey networks too. */
size_t xt_network_image_bytes(const struct xt_network *network);
/* The configuration of host-device transfers of this network's batches, through `slots` slots. */
struct xt_upload_config xt_network_upload_config(struct xt_network *network, int slots);

/* The options of an image source for this network. */
struct xt_source_options xt_network_source_options(const struct xt_network *network);
/* Opens images to evaluate on, whose classes are the network's. */
enum xt_status xt_network_open_source(const struct xt_network *network, const char *spec,
                                      struct xt_source **out, struct xt_err *err);

/* Appends the name of a class, or its number where it has none. */
enum xt_status xt_network_class_text(const struct xt_network *network, int index,
                                     struct xt_str *out, struct xt_err *err);

/* What inference needs beside the weights: model, alphabet and context norm or class names, input
 * size, pixel order, mean and scale, what its confidence is worth, and this program's version.
 * Points into the network; clear it also after a failure. */
struct xt_network_meta {
    struct xt_file_meta items[14 + XT_CONFIDENCE_META];
    size_t count;
    char size[32], mean[XT_NORMALISE_TEXT], scale[XT_NORMALISE_TEXT];
    struct xt_str names;
    struct xt_confidence_text confidence;
};
enum xt_status xt_network_meta(const struct xt_network *network, struct xt_network_meta *out,
                               struct xt_err *err);
void xt_network_meta_clear(struct xt_network_meta *meta);

/* Writes the weights with their metadata, int8's ranges among it where they are known: temporary
 * name, synced, renamed. */
enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err);

/* XT_ERR_DATA where the file is a checkpoint. */
enum xt_status xt_network_refuse_checkpoint(const struct xt_weight_file *file, const char *path,
                                            struct xt_err *err);

/* The number of trained parameters, without the padding of formats. */
size_t xt_network_parameter_count(const struct xt_network *network);
