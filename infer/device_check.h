/* Whether a device computes correctly what a run is going to compute: every op of the run's own
 * graph, with its shapes, types and kernels, against a reference in double precision
 * (engine/selftest). A pass is recorded in the kernel cache, by oneDNN, device, driver and graph,
 * and expires after a day.
 *
 * Seen for sure: a tensor of which any element is wrong beyond rounding, but for the outputs of
 * convolutions with a ReLU or a folded batch norm, of which tens of thousands of elements are
 * compared, evenly spaced (one work-group of a thousand that is wrong is missed with a chance below
 * 1e-8 up to 1000 terms each). Other convolutions are compared by sums over their channels, in
 * which each element is a term: errors that cancel there are missed. Each op runs twice, with other
 * numbers: a result of the run before is seen; and a NaN has to pass through convolutions and batch
 * norms. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/graph.h"

/* What checks of a run's graphs found. */
struct xt_device_verdict {
    int64_t when;        /* the last one's time, seconds since 1970; 0: none */
    double seconds;      /* that they took; 0: all are cached */
    double step_seconds; /* of them for a whole step; 0: none was compared */
    int passes;          /* of ops */
    int batch;           /* of a smaller graph that was checked; 0: the run's own */
};

/* A check of a graph whose passing is cached. */
struct xt_device_checker {
    /* XT_ERR_DEVICE where the device computes wrong results; adds to *out. A pass without `when`
     * is not cached: something was not compared. */
    enum xt_status (*check)(void *context, struct xt_graph *graph, struct xt_device_verdict *out,
                            struct xt_err *err);
    void *context;
    const char *what; /* what decides the result beside the graph */
};

/* Compares the ops of a built graph, whose weights are afterwards as before. */
enum xt_status xt_device_check_ops(struct xt_graph *graph, struct xt_device_verdict *out,
                                   struct xt_err *err);
/* Runs the checker (NULL: of the ops), unless a pass is cached. `afresh`: whatever the cache says.
 * The CPU is not checked, since the tests cover its kernels. */
enum xt_status xt_device_check(struct xt_graph *graph, const struct xt_device_checker *checker,
                               bool afresh, struct xt_device_verdict *out, struct xt_err *err);

/* The largest batch, at most the graph's, whose references and whose step on the CPU fit in so much
 * of the host's memory, by estimate; 0: none. */
int xt_device_check_batch(const struct xt_graph *graph, double available);

/* Whether a device works: opens what `spec` names and checks it in float32, in a child process,
 * which may crash or hang. Call it before threads start. */
struct xt_device_try {
    enum xt_status status;
    char why[1024]; /* why it does not work; "": it does */
    char name[128];
    char backend[24]; /* as of struct xt_xpu */
    bool there;       /* oneDNN lists a GPU */
    double open_s;    /* seconds until the device was open, and for the check */
    double check_s;
    double pass_s; /* a training pass of the checked network; 0: not timed */
};
/* `selector`: ONEAPI_DEVICE_SELECTOR of that process, whose passes are timed; NULL: unchanged.
 * Fails only where no process can be started. */
enum xt_status xt_device_try(const char *spec, const char *selector, struct xt_device_try *out,
                             struct xt_err *err);
