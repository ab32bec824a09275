/* Level Zero or OpenCL: tries each back end of oneDNN's SYCL runtime in a child process and
 * compares them. */
#pragma once

#include "base/err.h"
#include "infer/device_check.h"

enum { XT_BACKENDS = 2 };

struct xt_backend_tried {
    const char *name;     /* "Level Zero" */
    const char *selector; /* "level_zero:gpu" */
    struct xt_device_try result;
};

/* Tries each: the device check of a run, then some passes. Fails only if no process can be started.
 * Call before threads start. */
enum xt_status xt_backends_try(struct xt_backend_tried out[XT_BACKENDS], struct xt_err *err);

/* The one to use: the only one with correct results, else the faster; within a tenth OpenCL, which
 * is the default (device/gpu/back_end.h); -1: none works. */
int xt_backends_choose(const struct xt_backend_tried tried[XT_BACKENDS]);

/* The recommendation, its reason and the command if one works: "Level Zero: ...". */
void xt_backends_advise(const struct xt_backend_tried tried[XT_BACKENDS], char *text, size_t size);
