/* A network ready to run: device, alphabet, parameters and graph, made from the settings; and its
 * weight files.
 *
 * A weight file is safetensors with the published parameter names and nothing else; its metadata
 * holds what a reader of plates needs: model, alphabet, context norm, input size, mean and scale.
 * What the metadata says about alphabet and norm counts where the settings leave them open. Not
 * thread-safe.
 */
#ifndef XT_TRAIN_NETWORK_H
#define XT_TRAIN_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/alphabet.h"
#include "data/source.h"
#include "device/device.h"
#include "models/model.h"
#include "train/settings.h"

struct xt_network {
    const struct xt_model_info *model;
    struct xt_device device;
    struct xt_alphabet *alphabet;
    struct xt_params params;
    struct xt_graph *graph;
    bool over_batch; /* LPRNet's context norm */
    bool bn_frozen;  /* training leaves the statistics alone */
    int batch;
};

/* Opens the device, reads --alphabet and --init (or starts from `seed`) and builds the graph for
 * `batch`. The caller clears the network, also after a failure. */
enum xt_status xt_network_init(struct xt_network *network, const struct xt_settings *settings,
                               int batch, bool training, struct xt_err *err);
void xt_network_clear(struct xt_network *network);

/* What a source of images for this network must be like. */
struct xt_source_options xt_network_source_options(const struct xt_network *network);

/* Writes the weights with their metadata: temporary name, synced, renamed. */
enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err);

/* Trained parameters, the padding of formats not counted. */
size_t xt_network_parameter_count(const struct xt_network *network);

#endif
