/* The part of libxtrain that the program does not use: options, facts, messages. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "infer/answer/confidence.h"
#include "device/faults/guard.h"
#include "device/faults/watchdog.h"
#include "models/weights/weight_file.h"
#include "infer/session/engine.h"
#include "infer/session/library.h"

static enum xt_status take_type(const char *type, struct xt_infer_settings *settings,
                                struct xt_err *err)
{
    for (int amp = XT_AMP_OFF; type && amp < XT_AMP_COUNT; amp++)
        if (strcmp(xt_dtype_usual_name(type), xt_amp_name((enum xt_amp)amp)) == 0) {
            settings->network.amp = (enum xt_amp)amp;
            return XT_OK;
        }
    return type ? xt_err_set(err, XT_ERR_USAGE,
                             "the type \"%.40s\" is not one of f32, bf16, fp16, int8", type)
                : XT_OK;
}

enum xt_status xt_library_settings(const char *weights, const struct xtrain_options *options,
                                   struct xt_infer_settings *out, struct xt_err *err)
{
    static const struct {
        const char *name;
        size_t offset;
        int most;
    } numbers[] = {
        {"batch", offsetof(struct xtrain_options, batch), 65536},
        {"threads", offsetof(struct xtrain_options, threads), 4096},
        {"top", offsetof(struct xtrain_options, top), XT_DECODE_MAX},
        {"queue", offsetof(struct xtrain_options, queue), 1 << 24},
    };
    *out = (struct xt_infer_settings){
        .network.init = weights,
        .device.name = options->device ? options->device : "cpu",
        .answer.calibrate = options->calibrate,
        .answer.calibrate_images = 256,
        .network.model = options->model,
        .network.alphabet = options->alphabet,
        .network.batch = options->batch ? options->batch : XT_SESSION_BATCH,
        .device.threads = options->threads,
        .answer.top = options->top ? options->top : 5,
        .answer.decode = options->beam ? XT_DECODE_BEAM : XT_DECODE_GREEDY,
        .device.kernel_cache = true,
        .network.fuse = true,
        .device.pin_memory = true,
    };
    if (!xt_engine_reserved_is_zero(options->reserved, 7))
        return xt_err_set(err, XT_ERR_USAGE,
                          "struct xtrain_options: its reserved fields must be zero: clear it "
                          "before setting its fields");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int number = 0;
        memcpy(&number, (const char *)options + numbers[i].offset, sizeof number);
        if (number < 0 || number > numbers[i].most)
            return xt_err_set(err, XT_ERR_USAGE, "%s is %d; it must be from 0 to %d",
                              numbers[i].name, number, numbers[i].most);
    }
    if (options->reject && !xt_reject_parse(options->reject, &out->answer.reject))
        return xt_err_set(err, XT_ERR_USAGE,
                          "reject is \"%.40s\"; it must be a number from 0 to 1, \"none\", or NULL "
                          "for what the weights say",
                          options->reject);
    if (!(options->wait >= 0 && options->wait <= 3600))
        return xt_err_set(err, XT_ERR_USAGE, "wait is %g; it must be from 0 to 3600 seconds",
                          options->wait);
    return take_type(options->type, out, err);
}

int xtrain_open(struct xtrain **out, const char *weights, const struct xtrain_options *options,
                struct xtrain_error *error)
{
    static const struct xtrain_options none;
    const struct xtrain_options *given = options ? options : &none;
    struct xt_err err = {0};
    struct xt_infer_settings settings = {0};
    char *file = NULL;
    if (!out) {
        err.status = xt_err_set(&err, XT_ERR_USAGE, "xtrain_open has no place for the network");
        xt_engine_fail(&err, error);
        return (int)err.status;
    }
    *out = NULL;
    xt_log_hush();
    enum xt_status status = weights ? xt_weight_file_locate(&file, weights, &err)
                                    : xt_err_set(&err, XT_ERR_USAGE, "no weights were given");
    if (!status)
        status = xt_library_settings(file, given, &settings, &err);
    if (!status)
        status = xt_engine_open(out, &settings, &err);
    const struct xt_engine_plan plan = {
        .session = {.batch = settings.network.batch, .any_count = true},
        .wait = given->wait,
        .queue = given->queue,
        .refuse = given->refuse != 0,
    };
    if (!status)
        status = xt_engine_start(*out, &plan, &err);
    if (!status) {
        free(file);
        return XTRAIN_OK;
    }
    xtrain_close(*out);
    free(file);
    *out = NULL;
    xt_engine_fail(&err, error);
    return (int)status;
}

const char *xtrain_model(const struct xtrain *network)
{
    return xt_engine_network(network)->model->name;
}

int xtrain_reads_plates(const struct xtrain *network)
{
    return xt_engine_network(network)->task == XT_TASK_PLATES;
}

void xtrain_image_size(const struct xtrain *network, int *width, int *height)
{
    *width = xt_engine_network(network)->width;
    *height = xt_engine_network(network)->height;
}

const char *xtrain_device(const struct xtrain *network)
{
    return xt_engine_network(network)->device.name;
}

void xtrain_device_timeout(double seconds, void (*lost)(void *context, const char *sentence),
                           void *context)
{
    xt_watchdog_set_timeout(seconds);
    xt_guard_set_end((struct xt_guard_speaker){.end = lost, .context = context});
}

void xtrain_log(void (*said)(void *context, const char *sentence), void *context)
{
    xt_log_listen(said, context);
}

const char *xtrain_version(void)
{
    return XT_VERSION;
}
