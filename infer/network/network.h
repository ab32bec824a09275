/* A network: device, alphabet or classes, parameters and graph, made from the settings; and its
 * weight files.
 *
 * A weight file is safetensors with the published parameter names and nothing else; its metadata
 * holds what a reader of images needs: model, alphabet and context norm or class names, input size,
 * mean and scale. What the metadata says counts where the settings leave it open. Not thread-safe.
 *
 * It is opened here, planned in network_plan.h and built in network_build.h. Where its weights do
 * not know its classes, the data of training does: xt_network_open, a source by
 * xt_network_source_options, xt_network_take_classes, xt_network_build.
 */
#ifndef XT_INFER_NETWORK_NETWORK_H
#define XT_INFER_NETWORK_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/alphabet.h"
#include "data/sources/source.h"
#include "device/device.h"
#include "device/upload.h"
#include "engine/executor.h"
#include "engine/ranges.h"
#include "models/normalise.h"
#include "models/loaded.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "infer/network/class_names.h"
#include "infer/settings.h"

/* The key in a file's metadata by which a checkpoint is told from weights. */
#define XT_CHECKPOINT_KEY "xtrain_state"

/* What training keeps beside the graphs; arrays are as large as the parameters. */
struct xt_training_arrays {
    int states;   /* arrays of the optimizer */
    int averages; /* moving ones, of statistics too */
    int sums;     /* of gradients */
    int slots;    /* batches that are decoded ahead; 0: none is counted */
};

struct xt_network {
    const struct xt_model_info *model;
    struct xt_loaded_model *loaded; /* the same, of a file; NULL else */
    struct xt_device device;
    int64_t device_checked; /* when it was seen to compute right, seconds since 1970; 0: not */
    enum xt_task task;
    struct xt_alphabet *alphabet;      /* plates; NULL else */
    struct xt_class_names class_names; /* classes; empty where they have none */
    int classes;                       /* of the logits; 0: not known yet */
    int height, width;                 /* of the images */
    struct xt_normalise normalise;     /* what it reads of them */
    char normalise_text[XT_NORMALISE_TEXT];
    const char *normalise_by; /* who says so */
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_graph *inference; /* of the same parameters and batch; `graph` itself but for training
                                   on an XPU, whose kernels are made for the one or the other */
    struct xt_ranges ranges;    /* of an int8 graph (calibrate.h) */
    struct xt_weight_file weights; /* --init, until the network is built */
    bool has_weights;
    const char *weights_name;  /* of the file, for messages; NULL: none is given */
    struct xt_span build_span; /* what building took */
    uint64_t seed;             /* of the weights that are initialised; set before it is built */
    bool pageable;             /* images are decoded into memory that the device does not read */
    bool over_batch;           /* LPRNet's context norm */
    enum xt_bn_mode bn_before; /* of the run that goes on, for --bn auto; XT_BN_AUTO: none does */
    double checkpoint_bytes;   /* of that run, held in memory while the network is built */
    struct xt_training_arrays training; /* for plans of memory, of whoever trains it */
    bool bn_frozen; /* training leaves the statistics alone; decided as it is built */
    int batch;
};

/* Which device the settings ask for, and how it keeps what it compiles. */
struct xt_device_options xt_network_device_options(const struct xt_device_settings *settings);

/* Whether training leaves the statistics of batch norms alone: by --bn, else as the run that goes
 * on did, else by what the weights hold once they are there. */
bool xt_network_freezes_bn(const struct xt_network *network,
                           const struct xt_network_settings *settings);
/* Whether its device can work in the type of --amp; a warning where slowly. */
enum xt_status xt_network_check_amp(const struct xt_network *network,
                                    const struct xt_network_settings *settings, struct xt_err *err);
/* Opens the device and reads --alphabet and --init. The caller clears the network, also after a
 * failure. */
enum xt_status xt_network_open(struct xt_network *network,
                               const struct xt_network_settings *settings,
                               const struct xt_device_settings *device, struct xt_err *err);
/* With --device-check, whether the opened device computes right in the run's type. */
enum xt_status xt_network_check_device(struct xt_network *network,
                                       const struct xt_device_settings *settings, enum xt_amp amp,
                                       struct xt_err *err);
/* Takes the classes that the images are of (for plates nothing), unless --classes says that there
 * are more. */
enum xt_status xt_network_take_classes(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_source *source, struct xt_err *err);
/* The classes that the head of --init tells apart; 0 where it does not say. */
int xt_network_head_classes(const struct xt_network *network);
/* An error where nobody has said how many classes there are. */
enum xt_status xt_network_check_classes(const struct xt_network *network, struct xt_err *err);
/* What was asked for, with what auto, 0 and the weights came to in its place; borrows from both. */
struct xt_network_settings xt_network_found(const struct xt_network *network,
                                            const struct xt_network_settings *asked);
void xt_network_clear(struct xt_network *network);

/* How batches of this network get to its device, over so many slots. */
struct xt_upload_config xt_network_upload_config(struct xt_network *network, int slots);

/* What a source of images for this network must be like. */
struct xt_source_options xt_network_source_options(const struct xt_network *network);
/* Opens images to evaluate on, whose classes are the network's. */
enum xt_status xt_network_open_source(const struct xt_network *network, const char *spec,
                                      struct xt_source **out, struct xt_err *err);

/* Appends the name of a class, or its number where it has none. */
enum xt_status xt_network_class_text(const struct xt_network *network, int index,
                                     struct xt_str *out, struct xt_err *err);

/* What a reader of images needs to know beside the weights: model, alphabet and context norm or
 * class names, input size, pixel order, mean and scale, and this program's version. Points into the
 * network; clear it also after a failure. */
struct xt_network_meta {
    struct xt_file_meta items[13];
    size_t count;
    char size[32], mean[XT_NORMALISE_TEXT], scale[XT_NORMALISE_TEXT];
    struct xt_str names;
};
enum xt_status xt_network_meta(const struct xt_network *network, struct xt_network_meta *out,
                               struct xt_err *err);
void xt_network_meta_clear(struct xt_network_meta *meta);

/* Writes the weights with their metadata: temporary name, synced, renamed. */
enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err);

/* Trained parameters, the padding of formats not counted. */
size_t xt_network_parameter_count(const struct xt_network *network);

#endif
