/* Counters of the service, in Prometheus' text format. Thread-safe once initialised. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_METRIC_BUCKETS = 13, XT_METRIC_CODES = 12 };

/* Counts of values up to each bound; the last bucket holds all larger ones. */
struct xt_histogram {
    const double *bounds;
    int count; /* of bounds */
    uint64_t in[XT_METRIC_BUCKETS + 1];
    double sum;
};

struct xt_metrics {
    pthread_mutex_t lock;
    struct {
        int code;
        uint64_t requests;
    } codes[XT_METRIC_CODES]; /* HTTP status codes, in order of first use */
    struct xt_histogram latency, batches, passes;
};

/* Gauges, read for each scrape. */
struct xt_metrics_now {
    int queue, queue_limit, requests, connections;
};

void xt_metrics_init(struct xt_metrics *metrics);
void xt_metrics_clear(struct xt_metrics *metrics);
/* Counts a response with this code; for images also the time since the request's last byte;
 * negative: not an image. */
void xt_metrics_request(struct xt_metrics *metrics, int code, double seconds);
/* Counts a pass over `images` images. */
void xt_metrics_pass(struct xt_metrics *metrics, int images, double seconds);
enum xt_status xt_metrics_print(struct xt_metrics *metrics, const struct xt_metrics_now *now,
                                struct xt_str *out, struct xt_err *err);
