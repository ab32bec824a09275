#include "device/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "base/thread.h"
#include "device/device.h"

enum { LIST_SECONDS = 120, CHECK_SECONDS = 600 };

static void copy(char *out, size_t room, const char *text)
{
    size_t fits = strnlen(text, room - 1);
    memcpy(out, text, fits);
    out[fits] = '\0';
}

static void read_free_memory(struct xt_level_zero *zero, struct xt_probe *out, int i)
{
    struct xt_telemetry telemetry;
    xt_level_zero_read(zero, out->xpus.items[i].zero_index, &telemetry);
    out->memory_free[i] = telemetry.memory_used.known
                              ? telemetry.memory_total.value - telemetry.memory_used.value
                              : -1;
    copy(out->memory_why[i], sizeof out->memory_why[i], telemetry.memory_used.why);
}

static void ask_types(struct xt_probe *out, int i)
{
    dnnl_engine_t engine = NULL;
    if (xt_dnnl.engine_create(&engine, dnnl_gpu, (size_t)i) != dnnl_success)
        return;
    xt_types_ask(engine, &out->types[i]);
    xt_dnnl.engine_destroy(engine);
}

static void list_xpus(const void *argument, void *result)
{
    (void)argument;
    struct xt_probe *out = result;
    struct xt_level_zero *zero = NULL;
    struct xt_err err = {0};
    if (xt_level_zero_open(&zero, &err))
        copy(out->level_zero, sizeof out->level_zero, err.text);
    out->status = xt_dnnl_load(XT_DNNL_GPU, &err);
    if (!out->status) {
        copy(out->library, sizeof out->library, xt_dnnl_path());
        copy(out->version, sizeof out->version, xt_dnnl_version_text().text);
        copy(out->commit, sizeof out->commit, xt_dnnl.version()->hash);
        copy(out->runtime, sizeof out->runtime, xt_dnnl_gpu_runtime());
        out->experimental = xt_dnnl_is_experimental();
        out->status = xt_xpu_list(&out->xpus, zero, &err);
    }
    if (out->status)
        copy(out->why, sizeof out->why, err.text);
    for (int i = 0; !out->status && i < out->xpus.count; i++) {
        read_free_memory(zero, out, i);
        ask_types(out, i);
    }
    xt_level_zero_close(zero);
}

enum xt_status xt_probe_xpus(struct xt_probe *out, struct xt_err *err)
{
    struct xt_err why = {0};
    const struct xt_process process = {.work = list_xpus, .seconds = LIST_SECONDS};
    enum xt_status status = xt_process_run(&process, out, sizeof *out, NULL, &why);
    if (status == XT_ERR_DEVICE) {
        /* It may have died half way: nothing of its result counts. */
        memset(out, 0, sizeof *out);
        out->status = XT_ERR_DEVICE;
        snprintf(out->why, sizeof out->why, "asking the GPU driver failed: %.900s", why.text);
        return XT_OK;
    }
    return status ? xt_err_set(err, status, "%s", why.text) : XT_OK;
}

static void check_one(const void *argument, void *result)
{
    const char *const *spec = argument;
    struct xt_probe_check *out = result;
    struct xt_device device;
    struct xt_err err = {0};
    double start = xt_thread_seconds();
    const struct xt_device_options options = {.spec = *spec};
    out->status = xt_device_open_with(&device, &options, &err);
    out->open_s = xt_thread_seconds() - start;
    if (!out->status) {
        copy(out->name, sizeof out->name, device.name);
        start = xt_thread_seconds();
        out->status = xt_types_check(&device, &out->error, &err);
        out->check_s = xt_thread_seconds() - start;
        xt_device_close(&device);
    }
    if (out->status)
        copy(out->why, sizeof out->why, err.text);
}

enum xt_status xt_probe_check(const char *spec, struct xt_probe_check *out, struct xt_err *err)
{
    struct xt_err why = {0};
    const struct xt_process process = {
        .work = check_one, .argument = &spec, .seconds = CHECK_SECONDS};
    enum xt_status status = xt_process_run(&process, out, sizeof *out, NULL, &why);
    if (status == XT_ERR_DEVICE) {
        memset(out, 0, sizeof *out);
        out->status = XT_ERR_DEVICE;
        snprintf(out->why, sizeof out->why, "opening the device and computing there failed: %.900s",
                 why.text);
        return XT_OK;
    }
    return status ? xt_err_set(err, status, "%s", why.text) : XT_OK;
}
