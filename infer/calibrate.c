#include "infer/calibrate.h"

#include <stdio.h>

#include "data/sources/registry.h"
#include "infer/image_pass.h"
#include "infer/network/network_build.h"

enum { BATCH = 32 };

static enum xt_status open_source(const struct xt_network *network, const char *spec,
                                  struct xt_source **out, struct xt_err *err)
{
    struct xt_source_options options = xt_network_source_options(network);
    options.labels_optional = true;
    enum xt_status status = xt_source_open(out, spec, &options, err);
    return status ? xt_err_prefix(err, "--calibrate: ") : XT_OK;
}

/* The existing graph's batch where kernels for other shapes would have to be compiled. */
static int batch_of(const struct xt_network *network)
{
    return network->device.compiles ? network->batch : BATCH;
}

enum xt_status xt_calibrate_check(const struct xt_network_settings *settings, struct xt_err *err)
{
    if (settings->fuse)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "int8 needs the batch norms folded into the convolutions; leave --no-fuse "
                      "out");
}

/* Leaves a float32 graph of some batch: rebuild it. */
static enum xt_status calibrate(struct xt_network *network,
                                const struct xt_infer_settings *settings, const char *spec,
                                struct xt_calibration *out, struct xt_err *err)
{
    struct xt_source *source = NULL;
    struct xt_network_settings int8 = settings->network;
    struct xt_recording *recording = NULL;
    int8.amp = XT_AMP_INT8;
    network->ranges = (struct xt_ranges){0};
    *out = (struct xt_calibration){0};
    enum xt_status status = xt_calibrate_check(&settings->network, err);
    if (!status)
        status = open_source(network, spec, &source, err);
    if (!status)
        status = xt_network_rebuild(network, &int8, batch_of(network), err);
    if (!status)
        status = xt_recording_create(&recording, err);
    if (!status) {
        out->all = source->count;
        snprintf(out->source, sizeof out->source, "%.255s", spec);
        network->graph->recording = recording;
        const struct xt_image_pass pass = {.source = source,
                                           .most = (size_t)settings->answer.calibrate_images,
                                           .option = "--calibrate",
                                           .what = "while measuring the ranges for int8"};
        status = xt_image_pass_run(network, &settings->data, &pass, &out->images, err);
        network->graph->recording = NULL;
    }
    if (!status)
        status = xt_recording_ranges(recording, network->graph, &network->ranges, err);
    xt_recording_destroy(recording);
    xt_source_destroy(source);
    return status;
}

enum xt_status xt_calibrate_int8(struct xt_network *network,
                                 const struct xt_infer_settings *settings, const char *spec,
                                 int batch, struct xt_calibration *out, struct xt_err *err)
{
    struct xt_network_settings int8 = settings->network;
    int8.amp = XT_AMP_INT8;
    enum xt_status status = calibrate(network, settings, spec, out, err);
    return status || int8.int8_layout ? status : xt_network_rebuild(network, &int8, batch, err);
}

enum xt_status xt_calibrate_blank(struct xt_network *network,
                                  const struct xt_network_settings *settings, int batch,
                                  struct xt_err *err)
{
    struct xt_network_settings int8 = *settings;
    int8.amp = XT_AMP_INT8;
    network->ranges.count = network->graph->range_count;
    for (int i = 0; i < network->ranges.count; i++)
        network->ranges.limit[i] = 1;
    return xt_network_rebuild(network, &int8, batch, err);
}
