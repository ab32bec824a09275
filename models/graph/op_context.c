/* LPRNet's global context: each tap divided by its mean square, averaged over the height,
 * concatenated. All float32.
 *
 * The mean over the height stands after the 1x1 convolution in the published network; both are
 * linear, so it is taken before, where it costs a quarter.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/graph/xpu_ops.h"

/* Keeps an all-zero tap finite. */
#define CONTEXT_EPS 1e-12

static void destroy(struct xt_op *op)
{
    free(((struct context *)op)->square);
}

enum xt_status xt_context_use_buffers(struct context *context, struct xt_graph *graph,
                                      struct xt_err *err)
{
    int forward = xt_op_forward_time(&context->op);
    int backward = xt_op_backward_time(graph, &context->op);
    enum xt_status status = XT_OK;
    for (int i = 0; i < context->spec.count && !status; i++) {
        struct xt_tensor *tap = context->spec.taps[i];
        status = xt_graph_use_value(graph, tap, forward, err);
        if (!status && graph->options.training)
            status = xt_graph_use_value(graph, tap, backward, err);
        if (!status && graph->options.training)
            status = xt_graph_use_grad(graph, tap, context->reader[i], backward, err);
    }
    if (!status)
        status = xt_graph_use_value(graph, context->out, forward, err);
    if (!status && graph->options.training)
        status = xt_graph_use_grad(graph, context->out, 0, backward, err);
    return status;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct context *context = (struct context *)op;
    size_t count = (size_t)context->out->n * (size_t)context->groups;
    enum xt_status status =
        xt_mem_calloc(&context->square, 2 * count, sizeof(double), op->name, err);
    context->slope = status ? NULL : context->square + count;
    return status ? status : xt_context_use_buffers(context, graph, err);
}

static const float *tap_at(const struct xt_tensor *tap, const void *data, int n)
{
    return (const float *)data + (size_t)n * (size_t)tap->h * (size_t)tap->w * (size_t)tap->c;
}

static double *group_value(const struct context *context, double *values, int n, int tap)
{
    return values + (size_t)n * (size_t)context->groups + (size_t)context->spec.group[tap];
}

/* What the mean runs over becomes the whole batch: every sample gets the sum over the samples that
 * matter. */
static void over_batch(const struct context *context, double *values, int count)
{
    for (int g = 0; g < context->groups; g++) {
        double sum = 0;
        for (int n = 0; n < count; n++)
            sum += values[(size_t)n * (size_t)context->groups + (size_t)g];
        for (int n = 0; n < context->out->n; n++)
            values[(size_t)n * (size_t)context->groups + (size_t)g] = sum;
    }
}

static double samples_in_mean(const struct context *context, const struct xt_graph *graph)
{
    return context->spec.over_batch ? graph->pass.count : 1;
}

static void sum_squares(const struct context *context, const struct xt_loops *loops, int n)
{
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *tap = context->spec.taps[i];
        size_t sample = (size_t)tap->h * (size_t)tap->w * (size_t)tap->c;
        *group_value(context, context->square, n, i) +=
            loops->square_sum(tap_at(tap, tap->value->data, n), sample);
    }
}

static void write_sample(const struct context *context, const struct xt_loops *loops, int n)
{
    const struct xt_tensor *out = context->out;
    float *to = (float *)out->value->data + (size_t)n * (size_t)out->w * (size_t)out->c;
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *tap = context->spec.taps[i];
        double square = *group_value(context, context->square, n, i);
        loops->sum_rows(tap_at(tap, tap->value->data, n), tap->h, tap->w, tap->c,
                        (float)(1 / (square * tap->h)), to + context->first_channel[i],
                        (size_t)out->c);
    }
}

/* What sums of squares become. */
static void finish_squares(const struct context *context, double mean_of, int n)
{
    for (int g = 0; g < context->groups; g++) {
        double *square = &context->square[(size_t)n * (size_t)context->groups + (size_t)g];
        *square = *square / (context->group_count[g] * mean_of) + CONTEXT_EPS;
    }
}

static void forward_over_batch(const struct context *context, const struct xt_graph *graph)
{
    int samples = context->out->n;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        sum_squares(context, graph->loops, n);
    over_batch(context, context->square, graph->pass.count);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++) {
        finish_squares(context, samples_in_mean(context, graph), n);
        write_sample(context, graph->loops, n);
    }
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct context *context = (struct context *)op;
    int samples = context->out->n;
    memset(context->square, 0, (size_t)samples * (size_t)context->groups * sizeof *context->square);
    if (context->spec.over_batch) {
        forward_over_batch(context, graph);
        return XT_OK;
    }
    /* A sample is read twice while it is in cache. */
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++) {
        sum_squares(context, graph->loops, n);
        finish_squares(context, 1, n);
        write_sample(context, graph->loops, n);
    }
    return XT_OK;
}

/* sum over the sample of (gradient of tap / square) * tap. */
static void sum_slopes(const struct context *context, int n)
{
    const struct xt_tensor *out = context->out;
    const float *from =
        (const float *)out->grad[0]->data + (size_t)n * (size_t)out->w * (size_t)out->c;
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *tap = context->spec.taps[i];
        const float *t = tap_at(tap, tap->value->data, n);
        double sum = 0;
        for (int y = 0; y < tap->h; y++)
            for (int x = 0; x < tap->w; x++) {
                const float *g = from + (size_t)x * (size_t)out->c + context->first_channel[i];
                float row = 0;
#pragma omp simd reduction(+ : row)
                for (int k = 0; k < tap->c; k++)
                    row += g[k] * t[k];
                t += tap->c;
                sum += (double)row;
            }
        *group_value(context, context->slope, n, i) += sum / tap->h;
    }
}

/* d tap = g / (h s) - tap * 2 slope / (count s^2), where s is the mean square. */
static void write_grad(const struct context *context, double mean_of, int n)
{
    const struct xt_tensor *out = context->out;
    const float *from =
        (const float *)out->grad[0]->data + (size_t)n * (size_t)out->w * (size_t)out->c;
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *tap = context->spec.taps[i];
        size_t sample = (size_t)tap->h * (size_t)tap->w * (size_t)tap->c;
        const float *t = tap_at(tap, tap->value->data, n);
        float *d = (float *)tap->grad[context->reader[i]]->data + (size_t)n * sample;
        double s = *group_value(context, context->square, n, i);
        double slope = *group_value(context, context->slope, n, i);
        double count = context->group_count[context->spec.group[i]] * mean_of;
        float direct = (float)(1 / (s * tap->h));
        /* Padding reads the batch's mean square and is no part of it. */
        bool in_mean = !context->spec.over_batch || n < mean_of;
        float through = in_mean ? (float)(-2 * slope / (count * s * s)) : 0;
        for (int y = 0; y < tap->h; y++)
            for (int x = 0; x < tap->w; x++) {
                const float *g = from + (size_t)x * (size_t)out->c + context->first_channel[i];
#pragma omp simd
                for (int k = 0; k < tap->c; k++)
                    d[k] = direct * g[k] + through * t[k];
                t += tap->c;
                d += tap->c;
            }
    }
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct context *context = (struct context *)op;
    int samples = context->out->n;
    memset(context->slope, 0, (size_t)samples * (size_t)context->groups * sizeof *context->slope);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        sum_slopes(context, n);
    if (context->spec.over_batch)
        over_batch(context, context->slope, graph->pass.count);
    double mean_of = samples_in_mean(context, graph);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        write_grad(context, mean_of, n);
    return XT_OK;
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    (void)op;
    (void)is_backward;
    return "xtrain loops";
}

static const struct xt_op_class class_context = {
    .kind = "global context",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .implementation = implementation,
    .destroy = destroy,
};

struct xt_tensor *xt_graph_context(struct xt_graph *graph, const struct xt_context_spec *spec,
                                   struct xt_err *err)
{
    struct context *context =
        xt_graph_add_op(graph, sizeof *context, xt_on_xpu(graph) ? &xt_xpu_context : &class_context,
                        "context", err);
    if (!context)
        return NULL;
    context->spec = *spec;
    int channels = 0;
    for (int i = 0; i < spec->count; i++) {
        const struct xt_tensor *tap = spec->taps[i];
        context->reader[i] = xt_graph_read(spec->taps[i], err);
        if (context->reader[i] < 0)
            return NULL;
        context->first_channel[i] = channels;
        channels += tap->c;
        context->group_count[spec->group[i]] += (double)tap->h * tap->w * tap->c;
        if (spec->group[i] >= context->groups)
            context->groups = spec->group[i] + 1;
    }
    const struct xt_tensor *tap = spec->taps[0];
    context->out = xt_graph_add_tensor(graph, "context", tap->n, 1, tap->w, channels, XT_F32, err);
    if (!context->out)
        return NULL;
    context->out->one_reader = true;
    context->op.dtype = XT_F32;
    context->op.why_f32 = "it divides by means of squares, for which 8 bits are too few";
    context->op.out_bytes = xt_tensor_bytes(context->out);
    return context->out;
}
