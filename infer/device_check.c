#include "infer/device_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "engine/selftest/selftest.h"

/* Whether the file holds this text and was written in the last 24 hours; *when gets the time. */
static bool says_lately(const char *path, const struct xt_str *text, int64_t *when)
{
    const double day = 24 * 3600;
    struct xt_bytes bytes;
    struct stat info;
    if (stat(path, &info) || fabs(difftime(time(NULL), info.st_mtime)) > day ||
        xt_file_load(path, 4096, &bytes, NULL))
        return false;
    bool same = bytes.size == text->length && memcmp(bytes.data, xt_str_get(text), bytes.size) == 0;
    free(bytes.data);
    if (same)
        *when = info.st_mtime;
    return same;
}

static void add_number(struct xt_sha256 *hash, double number)
{
    xt_sha256_add(hash, &number, sizeof number);
}

static void add_text(struct xt_sha256 *hash, const char *text)
{
    xt_sha256_add(hash, text, strlen(text) + 1);
}

static void add_tensor(struct xt_sha256 *hash, const struct xt_tensor *tensor)
{
    const double shape[] = {tensor->n,     tensor->h,     tensor->w,      tensor->c,
                            tensor->dtype, tensor->scale, tensor->readers};
    xt_sha256_add(hash, shape, sizeof shape);
}

/* What selects an op's kernels: shapes, types, the work that strides and windows leave, and
 * oneDNN's names of the kernels. */
static void add_op(struct xt_sha256 *hash, const struct xt_graph *graph, const struct xt_op *op)
{
    add_text(hash, op->kind->name);
    add_text(hash, op->name);
    for (int i = 0; i < op->input_count; i++)
        add_tensor(hash, xt_op_in(op, i));
    for (int i = 0; i < op->output_count; i++)
        if (op->outputs[i])
            add_tensor(hash, op->outputs[i]);
    for (int i = 0; i < op->param_count; i++)
        add_text(hash, graph->options.params->items[op->params[i]].name);
    add_number(hash, op->flops);
    add_number(hash, op->backward_flops);
    add_text(hash, xt_op_implementation(op, false));
    add_text(hash, xt_op_implementation(op, true));
}

/* The name of the file that tells of a graph's check. */
static void name_check(const struct xt_graph *graph, const char *what, char *out, size_t size)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    add_text(&hash, XT_VERSION);
    add_text(&hash, what);
    add_number(&hash, graph->options.batch);
    add_number(&hash, graph->options.training);
    add_number(&hash, graph->options.bn_frozen);
    add_number(&hash, graph->options.dtype);
    add_number(&hash, graph->options.device->deterministic);
    for (int i = 0; i < graph->op_count; i++)
        add_op(&hash, graph, graph->ops[i]);
    const struct xt_sha256_digest digest = xt_sha256_end(&hash);
    snprintf(out, size, "checked-%.16s.txt", xt_sha256_format(&digest).text);
}

enum xt_status xt_device_check_ops(struct xt_graph *graph, struct xt_device_verdict *out,
                                   struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    struct xt_selftest result = {.row_count = 0};
    enum xt_status status = xt_selftest_graph(&result, graph, err);
    if (!status)
        status = xt_selftest_refuse(&result, device->name, "xtrain selftest --xpu", err);
    for (int i = 0; i < result.row_count; i++)
        out->passes += result.rows[i].ops;
    out->when = status ? 0 : (int64_t)time(NULL);
    return status;
}

static enum xt_status check(struct xt_graph *graph, const struct xt_device_checker *checker,
                            struct xt_device_verdict *out, struct xt_err *err)
{
    double start = xt_thread_seconds();
    out->when = 0;
    enum xt_status status = checker ? checker->check(checker->context, graph, out, err)
                                    : xt_device_check_ops(graph, out, err);
    out->seconds += xt_thread_seconds() - start;
    return status;
}

enum xt_status xt_device_check(struct xt_graph *graph, const struct xt_device_checker *checker,
                               bool afresh, struct xt_device_verdict *out, struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    const struct xt_kernel_cache *cache = &device->cache;
    struct xt_str about = {0};
    char name[64];
    if (!device->own_memory)
        return XT_OK;
    if (!cache->folder || afresh)
        return check(graph, checker, out, err);
    name_check(graph, checker ? checker->what : "", name, sizeof name);
    enum xt_status status = xt_device_about(device, &about, err);
    const struct xt_path path = xt_file_path(cache->folder, name);
    if (!status && !says_lately(path.text, &about, &out->when)) {
        status = check(graph, checker, out, err);
        /* Without the file the next run only repeats the check. */
        struct xt_err own;
        if (!status && out->when && cache->writable)
            xt_file_save(path.text, about.data, about.length, &own);
    }
    xt_str_clear(&about);
    return status;
}

/* ---- the host's memory ---- */

/* Of double-precision arrays while an op is compared (selftest.c): of each input the values, the
 * gradient and its reference, of each output two of each and a reader's gradients; and copies of
 * one of them on its way to the device. */
static double op_bytes(const struct xt_op *op)
{
    double all = 0;
    double largest = 0;
    for (int i = 0; i < op->input_count; i++) {
        double count = (double)xt_tensor_count(xt_op_in(op, i));
        all += 3 * count;
        largest = fmax(largest, count);
    }
    for (int i = 0; i < op->output_count; i++) {
        double count = op->outputs[i] ? (double)xt_tensor_count(op->outputs[i]) : 0;
        all += (4 + (op->outputs[i] ? op->outputs[i]->readers : 0)) * count;
        largest = fmax(largest, count);
    }
    return (all + 3 * largest) * sizeof(double);
}

int xt_device_check_batch(const struct xt_graph *graph, double available)
{
    const double part = 0.8;
    const double copies = 8; /* of the parameters */
    const struct xt_graph_options *o = &graph->options;
    double fixed = copies * (double)o->params->value_floats * sizeof(float);
    double most = o->training
                      ? (double)graph->plan.bytes * sizeof(float) / (double)xt_dtype_size(o->dtype)
                      : 0;
    for (int i = 0; i < graph->op_count; i++)
        most = fmax(most, op_bytes(graph->ops[i]));
    double fits = o->batch * (part * available - fixed) / most;
    return fits >= o->batch ? o->batch : fits > 0 ? (int)fits : 0;
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
