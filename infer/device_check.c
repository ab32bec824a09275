#include "infer/device_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"
#include "engine/selftest/selftest.h"

/* Whether the file holds this text and was written in the last 24 hours; *when gets the time. */
static bool says_lately(const char *path, const struct xt_str *text, int64_t *when)
{
    const double day = 24 * 3600;
    uint8_t *data = NULL;
    size_t capacity = 0;
    size_t size = 0;
    struct stat info;
    if (stat(path, &info) || fabs(difftime(time(NULL), info.st_mtime)) > day ||
        xt_file_read(path, 4096, &data, &capacity, &size, NULL)) {
        free(data);
        return false;
    }
    bool same = size == text->length && memcmp(data, xt_str_get(text), size) == 0;
    free(data);
    if (same)
        *when = info.st_mtime;
    return same;
}

static enum xt_status check(struct xt_device *device, enum xt_dtype dtype, int64_t *when,
                            struct xt_err *err)
{
    double start = xt_thread_seconds();
    enum xt_status status = xt_selftest_device(device, dtype, err);
    if (status && xt_guard_is_lost())
        xt_err_prefix(err, "the device was lost before the run began: %s: ", device->name);
    if (!status)
        xt_log_detail("%s computes correctly in %s: a few ops against reference loops, in %.2f s",
                      device->name, xt_dtype_name(dtype), xt_thread_seconds() - start);
    *when = status ? 0 : (int64_t)time(NULL);
    return status;
}

enum xt_status xt_device_check(struct xt_device *device, enum xt_dtype dtype, int64_t *when,
                               struct xt_err *err)
{
    const struct xt_kernel_cache *cache = &device->cache;
    struct xt_str about = {0};
    char *path = NULL;
    char name[64];
    *when = 0;
    if (!device->own_memory)
        return XT_OK;
    if (!cache->folder)
        return check(device, dtype, when, err);
    snprintf(name, sizeof name, "checked-%s.txt", xt_dtype_name(dtype));
    enum xt_status status = xt_device_about(device, &about, err);
    if (!status)
        status = xt_file_join(&path, cache->folder, name, err);
    if (!status && !says_lately(path, &about, when)) {
        status = check(device, dtype, when, err);
        /* Without the file the next run only repeats the check. */
        struct xt_err own;
        if (!status && cache->writable)
            xt_file_save(path, about.data, about.length, &own);
    }
    free(path);
    xt_str_clear(&about);
    return status;
}

/* ---- in a child process ---- */

struct attempt {
    const char *spec;
    const char *selector;
};

static enum xt_status check_opened(struct xt_device *device, bool times, struct xt_device_try *out,
                                   struct xt_err *err)
{
    double start = xt_thread_seconds();
    xt_str_append_to(out->name, sizeof out->name, "%s", device->name);
    xt_str_append_to(out->backend, sizeof out->backend, "%s", device->xpu.backend);
    enum xt_status status = xt_selftest_device(device, XT_F32, err);
    out->check_s = xt_thread_seconds() - start;
    if (!status && times)
        status = xt_selftest_time_device(device, XT_F32, &out->pass_s, err);
    return status;
}

static void try_one(const void *argument, void *result)
{
    const struct attempt *attempt = argument;
    struct xt_device_try *out = result;
    struct xt_device device;
    struct xt_err err = {0};
    double start = xt_thread_seconds();
    const struct xt_device_options options = {.spec = attempt->spec};
    if (attempt->selector)
        setenv("ONEAPI_DEVICE_SELECTOR", attempt->selector, 1);
    out->status = xt_device_open_with(&device, &options, &err);
    out->open_s = xt_thread_seconds() - start;
    out->there = xt_dnnl.version && xt_dnnl.engine_get_count(dnnl_gpu) > 0;
    if (!out->status) {
        out->status = check_opened(&device, attempt->selector != NULL, out, &err);
        if (!xt_guard_is_lost())
            xt_device_close(&device);
    }
    if (out->status)
        xt_str_append_to(out->why, sizeof out->why, "%s", err.text);
}

enum xt_status xt_device_try(const char *spec, const char *selector, struct xt_device_try *out,
                             struct xt_err *err)
{
    enum { SECONDS = 600 };
    struct xt_err why = {0};
    const struct attempt attempt = {spec, selector};
    const struct xt_process process = {.work = try_one, .argument = &attempt, .seconds = SECONDS};
    enum xt_status status = xt_process_run(&process, out, sizeof *out, NULL, &why);
    if (status == XT_ERR_DEVICE) {
        /* It may have died half way: its result is discarded. */
        *out = (struct xt_device_try){.status = XT_ERR_DEVICE, .there = true};
        snprintf(out->why, sizeof out->why, "opening the device and computing there failed: %.900s",
                 why.text);
        return XT_OK;
    }
    return status ? xt_err_set(err, status, "%s", why.text) : XT_OK;
}
