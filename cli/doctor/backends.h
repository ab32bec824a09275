/* Level Zero or OpenCL: the back ends of oneDNN's SYCL runtime, each tried in a process of its own
 * and compared. */
#ifndef XT_CLI_DOCTOR_BACKENDS_H
#define XT_CLI_DOCTOR_BACKENDS_H

#include "base/err.h"
#include "infer/device_check.h"

enum { XT_BACKENDS = 2 };

struct xt_backend_tried {
    const char *name;     /* "Level Zero" */
    const char *selector; /* "level_zero:gpu" */
    struct xt_device_try result;
};

/* Tries each: the check before a run, then some passes. Fails only where no process can be started.
 * Call it before threads start. */
enum xt_status xt_backends_try(struct xt_backend_tried out[XT_BACKENDS], struct xt_err *err);

/* The one to take: the only one that computes right, else the faster one, and of those that differ
 * by less than a tenth Level Zero, which is oneDNN's own choice; -1: none. */
int xt_backends_choose(const struct xt_backend_tried tried[XT_BACKENDS]);

/* Which it would be and why, with the line to type where one does the work: "Level Zero: ...". */
void xt_backends_advise(const struct xt_backend_tried tried[XT_BACKENDS], char *text, size_t size);

#endif
