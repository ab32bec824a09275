/* Latency of batches: from a batch in memory to its predictions. The first and the last three
 * batches are skipped (warm-up, and a last one that is not full); with fewer than seven nothing is
 * measured. Zeroed is empty; the caller clears it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { XT_LATENCY_LEFT_OUT = 3 };

struct xt_latency {
    double *seconds; /* [count] a batch */
    int *images;     /* [count] in it */
    size_t count;
};

/* Milliseconds. A percentile is the smallest value that this fraction of all does not exceed. */
struct xt_latency_figures {
    double mean, p50, p95, p99;
};
struct xt_latency_summary {
    bool measured;
    size_t batches; /* measured */
    struct xt_latency_figures batch;
    struct xt_latency_figures
        image; /* each image takes its batch's time over its number of images */
};

enum xt_status xt_latency_add(struct xt_latency *latency, double seconds, int images,
                              struct xt_err *err);
enum xt_status xt_latency_sum_up(const struct xt_latency *latency, struct xt_latency_summary *out,
                                 struct xt_err *err);
void xt_latency_clear(struct xt_latency *latency);
