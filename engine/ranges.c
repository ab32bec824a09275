#include "engine/ranges.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/ops/ops.h"

enum {
    BINS = 2048,
    LIMITS = 128,  /* that are tried */
    LARGE = 65536, /* elements of a sample above which only one in N is counted: */
    TAKEN = 5,
};
/* Smaller magnitudes count as 0: their bins and int8 steps would underflow in float32. */
static const float nothing = 1e-30f;

/* How often magnitudes were seen: bin i holds those from i to i + 1 in units of top / BINS. Each
 * sample's numbers count by one over the sum of their squares, so that an image that excites the
 * network much more than others do not speak for them all. */
struct histogram {
    bool negative;
    bool broken; /* a value was not finite */
    double top;  /* may be beyond float's numbers; 0: nothing but zeros so far */
    double counts[BINS];
};

struct xt_recording {
    int count; /* of the graph's ranges */
    struct histogram *histograms[XT_TENSORS_MAX];
    uint32_t *bins; /* [samples][BINS] of one tensor */
    int samples;
};

enum xt_status xt_recording_create(struct xt_recording **out, struct xt_err *err)
{
    return xt_mem_calloc(out, 1, sizeof **out, "int8's ranges", err);
}

void xt_recording_destroy(struct xt_recording *recording)
{
    for (int i = 0; recording && i < XT_TENSORS_MAX; i++)
        free(recording->histograms[i]);
    if (recording)
        free(recording->bins);
    free(recording);
}

/* Doubles the bins' width until magnitudes up to `largest` fit. */
static void widen(struct histogram *h, double largest)
{
    if (h->top <= 0 && largest >= (double)nothing)
        h->top = largest;
    if (h->top <= 0)
        return;
    for (; h->top < largest; h->top *= 2)
        for (int i = 0; i < BINS; i++)
            h->counts[i] = i < BINS / 2 ? h->counts[2 * i] + h->counts[2 * i + 1] : 0;
}

static void count_sample(const float *values, size_t count, double top, uint32_t bins[BINS])
{
    float per_bin = (float)(BINS / top);
    size_t stride = count > LARGE ? TAKEN : 1;
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < count; i += stride) {
        int bin = (int)(fabsf(values[i]) * per_bin);
        bins[bin < BINS ? bin : BINS - 1]++;
    }
}

static void add_sample(struct histogram *h, const uint32_t bins[BINS])
{
    double width = h->top / BINS;
    double squares = 0;
    for (int i = 1; i < BINS; i++)
        squares += bins[i] * (i + 0.5) * (i + 0.5) * width * width;
    for (int i = 0; i < BINS && squares > 0; i++)
        h->counts[i] += bins[i] / squares;
}

/* What the tensor holds of the pass's valid samples: windows are several of each, a constant is one
 * for all. */
static int samples_of(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    int each = tensor->n / graph->options.batch;
    return each ? each * graph->pass.count : tensor->n;
}

/* Samples are added in their order, so that the number of threads changes nothing. */
static enum xt_status count(struct xt_recording *recording, struct histogram *h,
                            const float *values, size_t sample, int samples, struct xt_err *err)
{
    if (samples > recording->samples) {
        free(recording->bins);
        recording->bins = NULL;
        recording->samples = 0;
        if (xt_mem_calloc(&recording->bins, (size_t)samples * BINS, sizeof *recording->bins,
                          "int8's ranges", err))
            return err->status;
        recording->samples = samples;
    }
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        count_sample(values + (size_t)n * sample, sample, h->top,
                     recording->bins + (size_t)n * BINS);
    for (int n = 0; n < samples; n++)
        add_sample(h, recording->bins + (size_t)n * BINS);
    return XT_OK;
}

/* The largest magnitude; not finite where one of them is not. */
static float largest_of(const struct xt_graph *graph, const float *values, size_t sample,
                        int samples)
{
    float largest = 0;
    int broken = 0;
#pragma omp parallel for schedule(static) reduction(max : largest) reduction(| : broken)
    for (int n = 0; n < samples; n++) {
        float own = graph->loops->largest(values + (size_t)n * sample, sample);
        broken |= !isfinite(own);
        largest = own > largest ? own : largest;
    }
    return broken ? NAN : largest;
}

enum xt_status xt_recording_see(struct xt_recording *recording, const struct xt_graph *graph,
                                const struct xt_tensor *tensor, const float *values,
                                struct xt_err *err)
{
    struct histogram **at = &recording->histograms[tensor->range - 1];
    size_t sample = xt_tensor_count(tensor) / (size_t)tensor->n;
    int samples = samples_of(graph, tensor);
    if (!*at && xt_mem_calloc(at, 1, sizeof **at, "int8's ranges", err))
        return err->status;
    struct histogram *h = *at;
    recording->count = graph->range_count;
    h->negative = !tensor->above_0;
    float largest = largest_of(graph, values, sample, samples);
    h->broken |= !isfinite(largest);
    if (h->broken)
        return XT_OK;
    widen(h, (double)largest);
    return h->top > 0 ? count(recording, h, values, sample, samples, err) : XT_OK;
}

/* The squared error, as the samples count, where the range ends at `limit`: rounded to steps below,
 * cut off above. */
static double error_at(const struct histogram *h, double limit)
{
    double step = limit / (h->negative ? 127 : 255);
    double width = h->top / BINS;
    double rounding = step * step / 12;
    double error = 0;
    for (int i = 0; i < BINS; i++) {
        double value = (i + 0.5) * width;
        double over = value - limit;
        /* The first bin holds the zeros, which are exact. */
        double own = over > 0 ? over * over : i == 0 ? fmin(rounding, value * value) : rounding;
        error += own * h->counts[i];
    }
    return error;
}

static float best_limit(const struct histogram *h)
{
    double best = h->top;
    double least = error_at(h, best);
    double limit = best;
    for (int i = 1; i < LIMITS; i++) {
        limit *= 0.96;
        double error = error_at(h, limit);
        if (error < least) {
            least = error;
            best = limit;
        }
    }
    return (float)fmin(best, FLT_MAX);
}

/* The tensor that has the range. */
static const struct xt_tensor *tensor_of(const struct xt_graph *graph, int range)
{
    int i = 0;
    while (graph->tensors[i]->range != range)
        i++;
    return graph->tensors[i];
}

enum xt_status xt_recording_ranges(const struct xt_recording *recording,
                                   const struct xt_graph *graph, struct xt_ranges *out,
                                   struct xt_err *err)
{
    *out = (struct xt_ranges){.count = recording->count};
    if (!graph->range_count)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "int8: no layer of this network runs in it: its weights are computed from "
            "other parameters; --amp f32 and bf16 run it");
    if (!recording->count)
        return xt_err_set(err, XT_ERR_DATA, "int8: no images to find ranges with");
    for (int i = 0; i < recording->count; i++) {
        const struct histogram *h = recording->histograms[i];
        if (h && h->broken)
            return xt_err_set(err, XT_ERR_DATA,
                              "int8: %s is infinite or NaN on the images that give the "
                              "ranges, so the weights do not fit them",
                              tensor_of(graph, i + 1)->name);
        out->limit[i] = h && h->top > 0 ? best_limit(h) : 0;
    }
    return XT_OK;
}

const struct xt_tensor *xt_ranged_by(const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    return out && out->range ? out : NULL;
}

enum xt_status xt_ranges_print(const struct xt_ranges *ranges, const struct xt_graph *graph,
                               struct xt_str *out, struct xt_err *err)
{
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_tensor *tensor = xt_ranged_by(graph->ops[i]);
        if (tensor)
            xt_str_printf(out, NULL, "%.9g %s\n", (double)ranges->limit[tensor->range - 1],
                          tensor->name);
    }
    return xt_str_check(out, err);
}

/* The text behind the tensor's line; NULL where the line is not of that tensor. */
static const char *parse_line(const char *text, const struct xt_tensor *tensor, float *limit)
{
    size_t length = strlen(tensor->name);
    char *name = NULL;
    *limit = strtof(text, &name);
    bool is_limit = name != text && *name++ == ' ' && isfinite(*limit) && *limit >= 0;
    bool is_name = is_limit && xt_str_starts(name, tensor->name) && name[length] == '\n';
    return is_name ? name + length + 1 : NULL;
}

enum xt_status xt_ranges_parse(const char *text, const struct xt_graph *graph,
                               struct xt_ranges *out, struct xt_err *err)
{
    *out = (struct xt_ranges){.count = graph->range_count};
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_tensor *tensor = xt_ranged_by(graph->ops[i]);
        text = tensor ? parse_line(text, tensor, &out->limit[tensor->range - 1]) : text;
        if (!text)
            return xt_err_set(err, XT_ERR_DATA, "they have no range of %s where the network has it",
                              tensor->name);
    }
    return *text
               ? xt_err_set(err, XT_ERR_DATA, "they are of more convolutions than the network has")
               : XT_OK;
}

void xt_ranges_quantise(const struct xt_ranges *ranges, struct xt_tensor *tensor)
{
    bool negative = !tensor->above_0;
    float limit = ranges->limit[tensor->range - 1];
    tensor->dtype = negative ? XT_S8 : XT_U8;
    tensor->scale = limit > 0 ? limit / (negative ? 127.0f : 255.0f) : 1;
}

double xt_ranges_share(const struct xt_graph *graph)
{
    double all = 0, in_int8 = 0;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        if (op->kind != &xt_kind_conv)
            continue;
        all += op->flops;
        in_int8 += xt_dtype_is_int8(xt_op_in(op, 0)->dtype) ? op->flops : 0;
    }
    return all > 0 ? in_int8 / all : 0;
}
