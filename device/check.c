#include "device/check.h"

#include <stdio.h>
#include <string.h>

#include "base/system/process.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "device/device.h"
#include "device/types.h"

enum { CHECK_SECONDS = 600 };

static void check_one(const void *argument, void *result)
{
    const char *const *spec = argument;
    struct xt_check *out = result;
    struct xt_device device;
    struct xt_err err = {0};
    double start = xt_thread_seconds();
    const struct xt_device_options options = {.spec = *spec};
    out->status = xt_device_open_with(&device, &options, &err);
    out->open_s = xt_thread_seconds() - start;
    if (!out->status) {
        xt_str_append_to(out->name, sizeof out->name, "%s", device.name);
        start = xt_thread_seconds();
        out->status = xt_types_check(&device, &out->error, &err);
        out->check_s = xt_thread_seconds() - start;
        xt_device_close(&device);
    }
    if (out->status)
        xt_str_append_to(out->why, sizeof out->why, "%s", err.text);
}

enum xt_status xt_check_device(const char *spec, struct xt_check *out, struct xt_err *err)
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
