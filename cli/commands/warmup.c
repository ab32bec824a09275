/* xtrain warmup: compiles an XPU's kernels ahead of time, into the cache that runs use. */
#include <stdio.h>

#include "base/log.h"
#include "base/span.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/placement.h"
#include "cli/json/result.h"
#include "cli/json/schema.h"
#include "cli/report.h"
#include "device/upload.h"
#include "infer/calibrate.h"
#include "infer/feed.h"
#include "infer/network/network_build.h"
#include "train/trainer.h"

static const char *const purposes[] = {"train", "eval", "predict"};

/* Result for one purpose and type. */
struct warmed {
    struct xt_span span;
    int compiled;
    int cached;
};

static void count(const struct xt_device *device, struct warmed *out)
{
    out->cached = device->cache.valid;
    out->compiled = xt_kernel_cache_count(&device->cache) - out->cached;
}

/* The CPU has no kernels to cache. Without a cache, compiled kernels would be lost at exit. */
static enum xt_status check(const struct xt_device *device, struct xt_err *err)
{
    if (!device->compiles)
        return xt_err_set(err, XT_ERR_USAGE,
                          "warmup is for XPUs: the CPU's kernels are created at each start, in "
                          "under a second; add --xpu");
    if (!device->cache.folder)
        return xt_err_set(err, XT_ERR_RUN,
                          "nothing can be compiled ahead, since kernels are not cached: %s",
                          *device->cache.note ? device->cache.note : "the cache is switched off");
    return XT_OK;
}

static enum xt_status warm_training(const struct xt_settings *settings, struct warmed *out,
                                    struct xt_err *err)
{
    struct xt_trainer *trainer = NULL;
    const struct xt_train_settings training = xt_options_train(settings);
    enum xt_status status = xt_trainer_create(&trainer, &training, err);
    if (status)
        return status;
    struct xt_network *network = xt_trainer_network(trainer);
    status = xt_trainer_prepare(trainer, err);
    const struct xt_run_summary run = xt_trainer_summary(trainer);
    if (!status)
        status = check(&network->device, err);
    if (!status && settings->output.verbose)
        xt_placement_print(network->graph, &run, stderr);
    if (!status)
        count(&network->device, out);
    xt_trainer_destroy(trainer);
    return status;
}

/* Evaluation needs the upload's kernels; prediction passes its own pixels. */
static enum xt_status warm_upload(struct xt_network *network,
                                  const struct xt_data_settings *settings, struct xt_err *err)
{
    struct xt_upload upload;
    const struct xt_upload_config config =
        xt_network_upload_config(network, xt_feed_slots(settings));
    enum xt_status status = xt_upload_init(&upload, &config, err);
    xt_upload_clear(&upload);
    return status;
}

static enum xt_status warm_inference(const struct xt_settings *settings, bool uploads,
                                     struct warmed *out, struct xt_err *err)
{
    struct xt_network network;
    enum xt_status status = xt_network_open(&network, &settings->network, &settings->device, err);
    if (!status)
        status = check(&network.device, err);
    if (!status && !network.classes)
        network.classes = settings->network.classes;
    if (!status && !network.classes)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "warmup --for eval,predict: the number of classes of %s is not "
                            "known; give --classes N, or the weights with --init",
                            network.model->name);
    if (!status)
        status =
            xt_network_build(&network, &settings->network, settings->network.batch, false, err);
    if (!status && settings->network.amp == XT_AMP_INT8)
        status = xt_calibrate_blank(&network, &settings->network, settings->network.batch, err);
    if (!status && settings->output.verbose)
        xt_placement_print(network.graph, NULL, stderr);
    if (!status && uploads)
        status = warm_upload(&network, &settings->data, err);
    if (!status)
        status = xt_device_record_cache(&network.device, err);
    if (!status)
        count(&network.device, out);
    xt_network_clear(&network);
    return status;
}

static enum xt_status warm(const struct xt_settings *settings, struct warmed *out,
                           struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    struct xt_settings own = *settings;
    own.network.amp = settings->warm.types;
    if (own.device.for_gpu) {
        own.device.name = "xpu";
        own.device.xpu = true;
    }
    enum xt_status status = own.warm.purpose == XT_WARM_TRAIN
                                ? warm_training(&own, out, err)
                                : warm_inference(&own, own.warm.purpose == XT_WARM_EVAL, out, err);
    out->span = xt_span_since(&start);
    return status ? xt_err_prefix(err, "warmup for %s in %s: ", purposes[own.warm.purpose],
                                  xt_amp_name(own.network.amp))
                  : XT_OK;
}

static enum xt_status report(const struct xt_settings *settings, const struct warmed *warmed,
                             struct xt_err *err)
{
    struct xt_report *line = xt_report_create();
    xt_report_add(line, "for", "", "%-8s ", purposes[settings->warm.purpose]);
    xt_report_add(line, "type", "", "%-5s ", xt_amp_name(settings->warm.types));
    xt_report_add(line, "compiled", "", "%4d", warmed->compiled);
    xt_report_add(line, NULL, "", " kernel%-2scompiled", warmed->compiled == 1 ? "" : "s");
    xt_report_add(line, "cached", "", ", %4d in the cache before", warmed->cached);
    xt_report_add(line, "for_gpu", NULL, "%s", xt_capture_name(settings->device.for_gpu).text);
    xt_report_add(line, "seconds", "", ", %8.2f s", warmed->span.wall);
    xt_report_add(line, "cpu_seconds", "", ", %8.2f s of CPU time", warmed->span.cpu);
    enum xt_status status = xt_result_put_one(line, "runs", XT_SCHEMA_COUNT, err);
    return status;
}

/* Notes that nothing was run, and how the kernels get to the GPU. */
static void note_ahead(const struct xt_settings *settings)
{
    if (settings->device.for_gpu)
        xt_log_note(
            "these kernels are for %s, and no GPU has run them: this machine computed nothing. "
            "\"xtrain cache export FILE\" exports them for one; its first run checks them again",
            xt_capture_title(settings->device.for_gpu).text);
}

enum xt_status xt_cmd_warmup(struct xt_options *options, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < xt_options_count(options, "for") && !status; i++)
        for (int k = 0; k < xt_options_count(options, "types") && !status; k++) {
            struct xt_settings settings = options->values;
            struct warmed warmed = {.compiled = 0};
            status = xt_options_pick(options, "for", i, &settings, err);
            if (!status)
                status = xt_options_pick(options, "types", k, &settings, err);
            if (!status)
                status = warm(&settings, &warmed, err);
            if (!status)
                status = report(&settings, &warmed, err);
        }
    if (!status)
        note_ahead(&options->values);
    return status;
}
