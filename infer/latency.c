#include "infer/latency.h"

#include <stdlib.h>

#include "base/mem.h"

enum xt_status xt_latency_add(struct xt_latency *latency, double seconds, int images,
                              struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&latency->seconds, latency->count, sizeof *latency->seconds, "latencies", err);
    if (!status)
        status =
            xt_mem_add(&latency->images, latency->count, sizeof *latency->images, "latencies", err);
    if (status)
        return status;
    latency->seconds[latency->count] = seconds;
    latency->images[latency->count++] = images;
    return XT_OK;
}

/* A batch's time and how many samples have it. */
struct item {
    double milliseconds;
    int weight;
};

static int compare(const void *a, const void *b)
{
    double x = ((const struct item *)a)->milliseconds;
    double y = ((const struct item *)b)->milliseconds;
    return (x > y) - (x < y);
}

/* Items are sorted by time. */
static double percentile(const struct item *items, size_t count, double all, double part)
{
    double below = 0;
    for (size_t i = 0; i < count; i++) {
        below += items[i].weight;
        if (below >= part * all)
            return items[i].milliseconds;
    }
    return items[count - 1].milliseconds;
}

static struct xt_latency_figures figures(struct item *items, size_t count)
{
    qsort(items, count, sizeof *items, compare);
    double all = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        all += items[i].weight;
        sum += items[i].weight * items[i].milliseconds;
    }
    return (struct xt_latency_figures){.mean = sum / all,
                                       .p50 = percentile(items, count, all, 0.50),
                                       .p95 = percentile(items, count, all, 0.95),
                                       .p99 = percentile(items, count, all, 0.99)};
}

enum xt_status xt_latency_sum_up(const struct xt_latency *latency, struct xt_latency_summary *out,
                                 struct xt_err *err)
{
    *out = (struct xt_latency_summary){0};
    if (latency->count < 2 * XT_LATENCY_LEFT_OUT + 1)
        return XT_OK;
    size_t count = latency->count - (size_t)(2 * XT_LATENCY_LEFT_OUT);
    struct item *items = NULL;
    enum xt_status status = xt_mem_calloc(&items, count, sizeof *items, "latencies", err);
    if (status)
        return status;
    const double *seconds = latency->seconds + XT_LATENCY_LEFT_OUT;
    const int *images = latency->images + XT_LATENCY_LEFT_OUT;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct item){.milliseconds = 1e3 * seconds[i], .weight = 1};
    out->batch = figures(items, count);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct item){.milliseconds = 1e3 * seconds[i] / images[i], .weight = images[i]};
    out->image = figures(items, count);
    out->measured = true;
    out->batches = count;
    free(items);
    return XT_OK;
}

void xt_latency_clear(struct xt_latency *latency)
{
    free(latency->seconds);
    free(latency->images);
    *latency = (struct xt_latency){0};
}
