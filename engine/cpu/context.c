/* LPRNet's global context by loops: forward each tap is read once, for its sums and its squares. */
#include <string.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

struct state {
    const struct xt_op *op;
    const struct xt_context_op *is; /* the same */
    double *square;                 /* [n][groups] mean square that divides */
    double *slope; /* [n][groups] sum of gradient times tap, over the domain of the mean */
    double values[];
};

void xt_cpu_context_prepare(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_context_op *is = (const struct xt_context_op *)op;
    size_t count = (size_t)xt_op_out(op, 0)->n * (size_t)is->groups;
    struct state *state = NULL;
    if (xt_mem_calloc(&state, 1, sizeof *state + 2 * count * sizeof(double), op->name, &graph->err))
        return;
    *state = (struct state){.op = op, .is = is};
    state->square = state->values;
    state->slope = state->values + count;
    op->own = state;
    xt_graph_use(op, graph, ~0U, 0);
}

static double *group_value(const struct state *context, double *values, int n, int tap)
{
    return values + (size_t)n * (size_t)context->is->groups + (size_t)context->is->spec.group[tap];
}

/* Extends the mean to the whole batch: every sample gets the sum over the valid samples. */
static enum xt_status over_batch(const struct state *context, double *values,
                                 struct xt_graph *graph, struct xt_err *err)
{
    size_t groups = (size_t)context->is->groups;
    double sums[XT_TAPS_MAX] = {0};
    for (int n = 0; n < graph->pass.count; n++)
        for (size_t g = 0; g < groups; g++)
            sums[g] += values[(size_t)n * groups + g];
    enum xt_status status = xt_graph_add_up(graph, sums, groups, err);
    for (int n = 0; n < xt_op_out(context->op, 0)->n; n++)
        memcpy(values + (size_t)n * groups, sums, groups * sizeof *sums);
    return status;
}

static double samples_in_mean(const struct state *context, const struct xt_graph *graph)
{
    return context->is->spec.over_batch ? xt_graph_samples(graph, graph->pass.count) : 1;
}

static float *out_at(const struct state *context, int n, int tap)
{
    const struct xt_tensor *out = xt_op_out(context->op, 0);
    return (float *)xt_tensor_sample(out, out->value, n) + context->is->first_channel[tap];
}

/* Each tap's sums over h into the output, and its squares. */
static void sum_sample(const struct state *context, const struct xt_loops *loops, int n)
{
    const struct xt_tensor *out = xt_op_out(context->op, 0);
    size_t groups = (size_t)context->is->groups;
    memset(context->square + (size_t)n * groups, 0, groups * sizeof *context->square);
    for (int i = 0; i < context->is->spec.count; i++) {
        const struct xt_tensor *tap = xt_op_in(context->op, i);
        *group_value(context, context->square, n, i) +=
            loops->sum_rows(xt_tensor_sample(tap, tap->value, n), tap->h, tap->w, tap->c,
                            out_at(context, n, i), (size_t)out->c);
    }
}

/* Scales the sums by the inverse mean squares. */
static void scale_sample(const struct state *context, const struct xt_loops *loops, int n)
{
    const struct xt_tensor *out = xt_op_out(context->op, 0);
    for (int i = 0; i < context->is->spec.count; i++) {
        const struct xt_tensor *tap = xt_op_in(context->op, i);
        double square = *group_value(context, context->square, n, i);
        loops->scale_rows(out_at(context, n, i), tap->w, tap->c, (size_t)out->c,
                          (float)(1 / (square * tap->h)));
    }
}

/* Turns sums of squares into mean squares. */
static void finish_squares(const struct state *context, double mean_of, int n)
{
    for (int g = 0; g < context->is->groups; g++) {
        double *square = &context->square[(size_t)n * (size_t)context->is->groups + (size_t)g];
        *square = *square / (context->is->group_count[g] * mean_of) + XT_CONTEXT_EPS;
    }
}

/* With a mean over the sample. */
static void forward_sample(const struct state *context, const struct xt_graph *graph, int n)
{
    sum_sample(context, graph->loops, n);
    finish_squares(context, 1, n);
    scale_sample(context, graph->loops, n);
}

static enum xt_status forward_over_batch(const struct state *context, struct xt_graph *graph,
                                         struct xt_err *err)
{
    int samples = xt_op_out(context->op, 0)->n;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        sum_sample(context, graph->loops, n);
    enum xt_status status = over_batch(context, context->square, graph, err);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++) {
        finish_squares(context, samples_in_mean(context, graph), n);
        scale_sample(context, graph->loops, n);
    }
    return status;
}

enum xt_status xt_cpu_context_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct state *context = op->own;
    int samples = xt_op_out(context->op, 0)->n;
    if (context->is->spec.over_batch)
        return forward_over_batch(context, graph, err);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        forward_sample(context, graph, n);
    return XT_OK;
}

static bool can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward, int samples)
{
    (void)samples;
    return !graph->options.training && !backward &&
           !((const struct xt_context_op *)op)->spec.over_batch;
}

static void run_sample(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n)
{
    (void)backward;
    (void)second;
    forward_sample(op->own, graph, n);
}

/* A tap's gradient is made of the tap, number by number. */
static bool writes_over(const struct xt_op *op, struct xt_graph *graph)
{
    (void)op;
    (void)graph;
    return true;
}

const struct xt_by_slices xt_cpu_context_by_slices = {
    .can = can_slice, .sample = run_sample, .writes_over = writes_over};

/* sum over the sample of (gradient of tap / square) * tap. */
static void sum_slopes(const struct state *context, int n)
{
    const struct xt_tensor *out = xt_op_out(context->op, 0);
    const float *from =
        (const float *)out->grad[0]->data + (size_t)n * (size_t)out->w * (size_t)out->c;
    size_t groups = (size_t)context->is->groups;
    memset(context->slope + (size_t)n * groups, 0, groups * sizeof *context->slope);
    for (int i = 0; i < context->is->spec.count; i++) {
        const struct xt_tensor *tap = xt_op_in(context->op, i);
        const float *t = xt_tensor_sample(tap, tap->value, n);
        double sum = 0;
        for (int y = 0; y < tap->h; y++)
            for (int x = 0; x < tap->w; x++) {
                const float *g = from + (size_t)x * (size_t)out->c + context->is->first_channel[i];
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
static void write_grad(const struct state *context, double mean_of, int counted, int n)
{
    const struct xt_tensor *out = xt_op_out(context->op, 0);
    const float *from =
        (const float *)out->grad[0]->data + (size_t)n * (size_t)out->w * (size_t)out->c;
    for (int i = 0; i < context->is->spec.count; i++) {
        const struct xt_tensor *tap = xt_op_in(context->op, i);
        size_t sample = (size_t)tap->h * (size_t)tap->w * (size_t)tap->c;
        const float *t = xt_tensor_sample(tap, tap->value, n);
        const struct xt_buffer *grad = xt_op_in_grad(context->op, i);
        if (!grad)
            continue;
        float *d = (float *)grad->data + (size_t)n * sample;
        double s = *group_value(context, context->square, n, i);
        double slope = *group_value(context, context->slope, n, i);
        double count = context->is->group_count[context->is->spec.group[i]] * mean_of;
        float direct = (float)(1 / (s * tap->h));
        /* Padding uses the batch's mean square but is not part of it. */
        bool in_mean = !context->is->spec.over_batch || n < counted;
        float through = in_mean ? (float)(-2 * slope / (count * s * s)) : 0;
        for (int y = 0; y < tap->h; y++)
            for (int x = 0; x < tap->w; x++) {
                const float *g = from + (size_t)x * (size_t)out->c + context->is->first_channel[i];
#pragma omp simd
                for (int k = 0; k < tap->c; k++)
                    d[k] = direct * g[k] + through * t[k];
                t += tap->c;
                d += tap->c;
            }
    }
}

enum xt_status xt_cpu_context_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct state *context = op->own;
    int samples = xt_op_out(context->op, 0)->n;
    bool over = context->is->spec.over_batch;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++) {
        sum_slopes(context, n);
        if (!over)
            write_grad(context, 1, samples, n);
    }
    if (!over)
        return XT_OK;
    enum xt_status status = over_batch(context, context->slope, graph, err);
    double mean_of = samples_in_mean(context, graph);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < samples; n++)
        write_grad(context, mean_of, graph->pass.count, n);
    return status;
}
