/* What the service counts, in Prometheus' text format. Thread-safe once it is initialised. */
#ifndef XT_CLI_SERVE_METRICS_H
#define XT_CLI_SERVE_METRICS_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_METRIC_BUCKETS = 13, XT_METRIC_CODES = 12 };

/* Values up to each bound; the last bucket is all that are larger. */
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
    } codes[XT_METRIC_CODES]; /* HTTP's, as they come */
    struct xt_histogram latency, batches, passes;
};

/* What is measured when it is asked for. */
struct xt_metrics_now {
    int queue, queue_limit, requests, connections;
};

void xt_metrics_init(struct xt_metrics *metrics);
void xt_metrics_clear(struct xt_metrics *metrics);
/* A request was answered with this code; of images also how long that took, from its last byte on;
 * below 0: no image. */
void xt_metrics_request(struct xt_metrics *metrics, int code, double seconds);
/* A pass over so many images took so long. */
void xt_metrics_pass(struct xt_metrics *metrics, int images, double seconds);
enum xt_status xt_metrics_print(struct xt_metrics *metrics, const struct xt_metrics_now *now,
                                struct xt_str *out, struct xt_err *err);

#endif
