#include "train/calibrate.h"

#include <stdio.h>

#include "base/log.h"
#include "base/system/stop.h"
#include "data/sources/registry.h"
#include "train/feed.h"
#include "train/network_build.h"

enum { BATCH = 32 };

static enum xt_status open_source(const struct xt_network *network, const char *spec,
                                  struct xt_source **out, struct xt_err *err)
{
    struct xt_source_options options = xt_network_source_options(network);
    options.labels_optional = true;
    enum xt_status status = xt_source_open(out, spec, &options, err);
    return status ? xt_err_prefix(err, "--calibrate: ") : XT_OK;
}

/* That of the graph that there is, where kernels for other shapes would be compiled for this alone.
 */
static int batch_of(const struct xt_network *network)
{
    return network->device.compiles ? network->batch : BATCH;
}

/* One batch, of which at most `room` images are looked at. */
static enum xt_status look_at(struct xt_network *network, const struct xt_feed_batch *batch,
                              size_t room, size_t *done, struct xt_err *err)
{
    enum xt_status stop = xt_stop_check(err, "while looking for int8's ranges");
    if (stop)
        return stop;
    int count = (size_t)batch->host.count < room ? batch->host.count : (int)room;
    network->graph->pass = (struct xt_graph_pass){
        .pixels = batch->host.pixels, .uploaded = batch->uploaded, .count = count};
    *done += (size_t)count;
    return xt_graph_forward(network->graph, err);
}

static enum xt_status look_at_all(struct xt_network *network, struct xt_feed *feed, size_t most,
                                  size_t *done, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (bool end = false; !status && *done < most;) {
        struct xt_feed_batch batch;
        status = xt_feed_next(feed, &batch, &end, NULL, err);
        if (status || end)
            break;
        status = look_at(network, &batch, most - *done, done, err);
        xt_feed_release(feed, &batch);
    }
    return status;
}

static void warn_of_bad(struct xt_feed *feed, const struct xt_source *source)
{
    struct xt_err err;
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    char name[1024] = "";
    if (xt_loader_bad(xt_feed_loader(feed), &bad, &count, &err))
        return;
    if (count) {
        source->class->name(source, bad[0].index, name, sizeof name);
        xt_log_warn("--calibrate: %s could not be read: %s: %s",
                    xt_count((long long)count, "image").text, name, bad[0].reason);
    }
    xt_loader_free_bad(bad, count);
}

static enum xt_status run(struct xt_network *network, const struct xt_settings *settings,
                          const struct xt_source *source, size_t *done, struct xt_err *err)
{
    struct xt_feed *feed = NULL;
    struct xt_upload upload;
    const struct xt_upload_config way =
        xt_network_upload_config(network, settings, XT_FEED_EVALUATION_SLOTS);
    enum xt_status status = xt_upload_init(&upload, &way, err);
    if (status)
        return status;
    struct xt_feed_size size = {network->width, network->height, network->model->bgr};
    struct xt_loader_config config = xt_feed_config(settings, &size, false);
    config.source = source;
    config.batch = network->batch;
    config.shuffle = true;
    status = xt_feed_create(&feed, &upload, &config, false, err);
    if (!status)
        status = look_at_all(network, feed, (size_t)settings->calibrate_images, done, err);
    if (feed)
        warn_of_bad(feed, source);
    xt_feed_destroy(feed);
    xt_upload_clear(&upload);
    return status;
}

enum xt_status xt_calibrate_check(const struct xt_settings *settings, struct xt_err *err)
{
    if (settings->fuse)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "int8 needs the batch norms folded into the convolutions; leave --no-fuse "
                      "out");
}

enum xt_status xt_calibrate(struct xt_network *network, const struct xt_settings *settings,
                            const char *spec, struct xt_calibration *out, struct xt_err *err)
{
    struct xt_source *source = NULL;
    struct xt_settings int8 = *settings;
    struct xt_recording *recording = NULL;
    int8.amp = XT_AMP_INT8;
    network->ranges = (struct xt_ranges){0};
    *out = (struct xt_calibration){0};
    enum xt_status status = xt_calibrate_check(settings, err);
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
        status = run(network, settings, source, &out->images, err);
        network->graph->recording = NULL;
    }
    if (!status)
        status = xt_recording_ranges(recording, network->graph, &network->ranges, err);
    xt_recording_destroy(recording);
    xt_source_destroy(source);
    return status;
}

enum xt_status xt_calibrate_int8(struct xt_network *network, const struct xt_settings *settings,
                                 const char *spec, int batch, struct xt_calibration *out,
                                 struct xt_err *err)
{
    struct xt_settings int8 = *settings;
    int8.amp = XT_AMP_INT8;
    enum xt_status status = xt_calibrate(network, settings, spec, out, err);
    return status ? status : xt_network_rebuild(network, &int8, batch, err);
}

enum xt_status xt_calibrate_blank(struct xt_network *network, const struct xt_settings *settings,
                                  int batch, struct xt_err *err)
{
    struct xt_settings int8 = *settings;
    int8.amp = XT_AMP_INT8;
    network->ranges.tensors = network->graph->tensor_count;
    for (int i = 0; i < network->ranges.tensors; i++)
        network->ranges.limit[i] = 1;
    return xt_network_rebuild(network, &int8, batch, err);
}
