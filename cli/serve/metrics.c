#include "cli/serve/metrics.h"

#include "base/system/thread.h"

static const double latency_bounds[XT_METRIC_BUCKETS] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
static const double batch_bounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

void xt_metrics_init(struct xt_metrics *metrics)
{
    *metrics = (struct xt_metrics){
        .latency = {.bounds = latency_bounds, .count = XT_METRIC_BUCKETS},
        .passes = {.bounds = latency_bounds, .count = XT_METRIC_BUCKETS},
        .batches = {.bounds = batch_bounds, .count = sizeof batch_bounds / sizeof *batch_bounds},
    };
    pthread_mutex_init(&metrics->lock, NULL);
}

void xt_metrics_clear(struct xt_metrics *metrics)
{
    pthread_mutex_destroy(&metrics->lock);
}

static void add(struct xt_histogram *histogram, double value)
{
    int bucket = 0;
    while (bucket < histogram->count && value > histogram->bounds[bucket])
        bucket++;
    histogram->in[bucket]++;
    histogram->sum += value;
}

void xt_metrics_request(struct xt_metrics *metrics, int code, double seconds)
{
    int i = 0;
    pthread_mutex_lock(&metrics->lock);
    while (i < XT_METRIC_CODES - 1 && metrics->codes[i].code && metrics->codes[i].code != code)
        i++;
    metrics->codes[i].code = code;
    metrics->codes[i].requests++;
    if (seconds >= 0)
        add(&metrics->latency, seconds);
    pthread_mutex_unlock(&metrics->lock);
}

void xt_metrics_pass(struct xt_metrics *metrics, int images, double seconds)
{
    pthread_mutex_lock(&metrics->lock);
    add(&metrics->batches, images);
    add(&metrics->passes, seconds);
    pthread_mutex_unlock(&metrics->lock);
}

static void head(struct xt_str *out, const char *name, const char *type, const char *help)
{
    xt_str_printf(out, NULL, "# HELP xtrain_%s %s\n# TYPE xtrain_%s %s\n", name, help, name, type);
}

static void print_value(struct xt_str *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    xt_str_printf(out, NULL, "xtrain_%s %.15g\n", name, value);
}

static void print_histogram(const struct xt_histogram *histogram, const char *name,
                            const char *help, struct xt_str *out)
{
    uint64_t below = 0;
    head(out, name, "histogram", help);
    for (int i = 0; i < histogram->count; i++) {
        below += histogram->in[i];
        xt_str_printf(out, NULL, "xtrain_%s_bucket{le=\"%g\"} %llu\n", name, histogram->bounds[i],
                      (unsigned long long)below);
    }
    below += histogram->in[histogram->count];
    xt_str_printf(out, NULL,
                  "xtrain_%s_bucket{le=\"+Inf\"} %llu\nxtrain_%s_sum %.9g\n"
                  "xtrain_%s_count %llu\n",
                  name, (unsigned long long)below, name, histogram->sum, name,
                  (unsigned long long)below);
}

static void print_codes(const struct xt_metrics *metrics, struct xt_str *out)
{
    head(out, "requests_total", "counter", "Requests answered, by HTTP status code.");
    for (int i = 0; i < XT_METRIC_CODES && metrics->codes[i].code; i++)
        xt_str_printf(out, NULL, "xtrain_requests_total{code=\"%d\"} %llu\n",
                      metrics->codes[i].code, (unsigned long long)metrics->codes[i].requests);
}

enum xt_status xt_metrics_print(struct xt_metrics *metrics, const struct xt_metrics_now *now,
                                struct xt_str *out, struct xt_err *err)
{
    const struct {
        const char *name, *help;
        double value;
    } values[] = {
        {"queue", "Images in the queue.", now->queue},
        {"queue_limit", "Capacity of the queue.", now->queue_limit},
        {"requests_in_hand", "Requests started and not yet answered.", now->requests},
        {"connections", "Connected clients.", now->connections},
        {"resident_bytes", "Resident memory of the process.", (double)xt_thread_memory_used()},
    };
    pthread_mutex_lock(&metrics->lock);
    print_codes(metrics, out);
    print_histogram(&metrics->latency, "request_seconds",
                    "Time from a request's last byte to its response.", out);
    print_histogram(&metrics->batches, "batch_images", "Images per pass.", out);
    print_histogram(&metrics->passes, "pass_seconds", "Time of a pass.", out);
    pthread_mutex_unlock(&metrics->lock);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        print_value(out, values[i].name, values[i].help, values[i].value);
    return xt_str_check(out, err);
}
