/* LPRNet's global context on an XPU. Sums over a sample are products of matrices; so is the mean
 * over a tap's tensors and, where it runs over the batch, over the samples: each group has a matrix
 * [n][n] of what a sample's mean takes of each sample's sum. */
#include <assert.h>
#include <string.h>

#include "models/graph/xpu_ops.h"

/* Keeps an all-zero tap finite. */
#define CONTEXT_EPS 1e-12F

static const char what_matrix[] = "a matrix product";

/* One tap's memories; the average over the height is the tap itself where that is 1. */
struct tap {
    const struct xt_tensor *tensor;
    struct xt_xpu_operand values;  /* [n][h * w * c] */
    struct xt_xpu_operand average; /* [n][w * c] */
    struct xt_tensor flat;         /* the average as a tensor of height 1 */
    struct xt_window window;       /* over the height */
};

struct plan {
    struct context *context;
    struct xt_graph *graph;
    struct xt_xpu_program *program;
    int forward, backward; /* times */
    size_t n;
    struct tap taps[XT_TAPS_MAX];
    struct xt_xpu_operand means[XT_TAPS_MAX];   /* of each group, [n][n] */
    struct xt_xpu_operand inverse[XT_TAPS_MAX]; /* of each group, [n][1]: 1 / mean square */
};

/* Every tap has its tensor once it is prepared. */
static const struct tap *tap_of(const struct plan *plan, int i)
{
    const struct tap *tap = &plan->taps[i];
    assert(tap->tensor);
    return tap;
}

static size_t per_sample(const struct xt_tensor *t)
{
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

/* A float32 matrix that lives for the forward pass, or for both. */
static enum xt_status add_matrix(struct plan *plan, const struct xt_tensor *owner, size_t columns,
                                 int time, bool kept, struct xt_xpu_operand *out,
                                 struct xt_err *err)
{
    struct xt_buffer *buffer =
        xt_xpu_temporary(plan->graph, owner, plan->n * columns * sizeof(float), time, err);
    if (!buffer)
        return err->status;
    if (kept && plan->graph->options.training)
        xt_buffer_use(buffer, plan->backward);
    *out = xt_xpu_matrix(xt_xpu_in_buffer(buffer), dnnl_f32, plan->n, columns);
    return XT_OK;
}

static enum xt_status prepare_tap(struct plan *plan, int i, struct xt_err *err)
{
    struct tap *tap = &plan->taps[i];
    const struct xt_tensor *t = plan->context->spec.taps[i];
    tap->tensor = t;
    tap->flat = *t;
    tap->flat.h = 1;
    tap->window = (struct xt_window){.kernel_h = t->h,
                                     .kernel_w = 1,
                                     .stride_h = t->h,
                                     .stride_w = 1,
                                     .out_h = 1,
                                     .out_w = t->w};
    tap->values = xt_xpu_matrix(xt_xpu_in_buffer(t->value), dnnl_f32, plan->n, per_sample(t));
    tap->average = tap->values;
    if (t->h == 1)
        return XT_OK;
    enum xt_status status =
        add_matrix(plan, t, per_sample(&tap->flat), plan->forward, true, &tap->average, err);
    union {
        const struct xt_buffer *in;
        struct xt_buffer *out;
    } average = {.in = tap->average.place.buffer};
    tap->flat.value = average.out;
    return status;
}

static struct xt_xpu_pooling pooling_of(const struct plan *plan, const struct tap *tap)
{
    return (struct xt_xpu_pooling){
        .in = tap->tensor,
        .from = tap->tensor->value,
        .out = &tap->flat,
        .window = &tap->window,
        .average = true,
        .training = plan->graph->options.training,
        .forward = plan->forward,
        .backward = plan->backward,
    };
}

/* out[n] = the product of a sample's row of a and its row of b. */
static enum xt_status add_products(struct plan *plan, enum xt_xpu_phase phase,
                                   const struct xt_xpu_operand *a, const struct xt_xpu_operand *b,
                                   const struct xt_xpu_operand *out, struct xt_err *err)
{
    size_t columns = (size_t)a->dims[1];
    struct xt_xpu_operand rows = xt_xpu_matrices(a->place, dnnl_f32, plan->n, 1, columns);
    struct xt_xpu_operand sides =
        xt_xpu_transposed(xt_xpu_matrices(b->place, dnnl_f32, plan->n, 1, columns));
    struct xt_xpu_operand sums = xt_xpu_matrices(out->place, dnnl_f32, plan->n, 1, 1);
    return xt_xpu_matmul(plan->program, phase, &rows, &sides, &sums, NULL, err);
}

/* out[n] = the group's mean of a sum for each of its tensors, then what `last` says. */
static enum xt_status add_mean(struct plan *plan, enum xt_xpu_phase phase, int group,
                               const struct xt_xpu_operand *sums, const struct xt_xpu_operand *out,
                               struct xt_xpu_post last, struct xt_err *err)
{
    const struct xt_context_spec *spec = &plan->context->spec;
    int left = 0;
    for (int i = 0; i < spec->count; i++)
        left += spec->group[i] == group;
    bool first = true;
    enum xt_status status = XT_OK;
    for (int i = 0; i < spec->count && !status; i++) {
        if (spec->group[i] != group)
            continue;
        struct xt_xpu_posts posts = {0};
        if (!first)
            posts.items[posts.count++] = xt_xpu_then_sum();
        left--;
        if (left == 0)
            posts.items[posts.count++] = last;
        status =
            xt_xpu_matmul(plan->program, phase, &plan->means[group], &sums[i], out, &posts, err);
        first = false;
    }
    return status;
}

static enum xt_status prepare_inverse(struct plan *plan, struct xt_err *err)
{
    const struct context *context = plan->context;
    struct xt_xpu_operand sums[XT_TAPS_MAX] = {{.ndims = 0}};
    const struct xt_xpu_post add_eps = xt_xpu_then(dnnl_eltwise_linear, 1, CONTEXT_EPS);
    enum xt_status status = XT_OK;
    for (int i = 0; i < context->spec.count && !status; i++) {
        const struct tap *tap = tap_of(plan, i);
        status = add_matrix(plan, tap->tensor, 1, plan->forward, false, &sums[i], err);
        if (!status)
            status = add_products(plan, XT_XPU_FORWARD, &tap->values, &tap->values, &sums[i], err);
    }
    for (int g = 0; g < context->groups && !status; g++) {
        status = add_matrix(plan, context->out, 1, plan->forward, true, &plan->inverse[g], err);
        if (!status)
            status = add_mean(plan, XT_XPU_FORWARD, g, sums, &plan->inverse[g], add_eps, err);
        if (!status)
            status = xt_xpu_eltwise(plan->program, XT_XPU_FORWARD, dnnl_eltwise_pow, 1, -1,
                                    &plan->inverse[g], &plan->inverse[g], err);
    }
    return status;
}

/* [n][w * c] as [n][c][1][w] */
static struct xt_xpu_operand as_tensor(const struct xt_xpu_operand *matrix,
                                       const struct xt_tensor *shape)
{
    struct xt_xpu_operand operand = xt_xpu_tensor(shape, NULL);
    operand.place = matrix->place;
    return operand;
}

static enum xt_status prepare_forward(struct plan *plan, struct xt_err *err)
{
    struct context *context = plan->context;
    struct xt_xpu_operand parts[XT_TAPS_MAX] = {{.ndims = 0}};
    enum xt_status status = prepare_inverse(plan, err);
    for (int i = 0; i < context->spec.count && !status; i++) {
        const struct tap *tap = tap_of(plan, i);
        struct xt_xpu_pooling pooling = pooling_of(plan, tap);
        struct xt_xpu_operand scaled = {.ndims = 0};
        if (tap->tensor->h > 1)
            status = xt_xpu_pool_forward(plan->program, plan->graph, &pooling, err);
        if (!status)
            status = add_matrix(plan, tap->tensor, per_sample(&tap->flat), plan->forward, false,
                                &scaled, err);
        if (!status)
            status = xt_xpu_binary(plan->program, XT_XPU_FORWARD, dnnl_binary_mul, &tap->average,
                                   &plan->inverse[context->spec.group[i]], &scaled, NULL, err);
        if (!status)
            parts[i] = as_tensor(&scaled, &tap->flat);
    }
    struct xt_xpu_operand out = xt_xpu_tensor(context->out, context->out->value);
    return status ? status
                  : xt_xpu_concat(plan->program, XT_XPU_FORWARD, parts, context->spec.count, &out,
                                  err);
}

/* A tap's part of the output's gradient, dense. */
static enum xt_status add_slice(struct plan *plan, int i, struct xt_xpu_operand *out,
                                struct xt_err *err)
{
    struct context *context = plan->context;
    const struct tap *tap = tap_of(plan, i);
    enum xt_status status =
        add_matrix(plan, tap->tensor, per_sample(&tap->flat), plan->backward, false, out, err);
    if (status)
        return status;
    struct xt_xpu_operand from = xt_xpu_tensor(context->out, context->out->grad[0]);
    from.dims[1] = tap->tensor->c;
    context->first_float[i] = (size_t)context->first_channel[i];
    from.place.floats_before = &context->first_float[i];
    struct xt_xpu_operand to = as_tensor(out, &tap->flat);
    return xt_xpu_reorder(plan->program, XT_XPU_BACKWARD, &from, &to, err);
}

/* The gradient that comes through the average: slice / mean square, spread over the height. */
static enum xt_status add_direct(struct plan *plan, int i, const struct xt_xpu_operand *slice,
                                 struct xt_err *err)
{
    const struct context *context = plan->context;
    const struct tap *tap = tap_of(plan, i);
    const struct xt_buffer *grad = tap->tensor->grad[context->reader[i]];
    struct xt_xpu_operand scaled =
        xt_xpu_matrix(xt_xpu_in_buffer(grad), dnnl_f32, plan->n, per_sample(&tap->flat));
    enum xt_status status = XT_OK;
    if (tap->tensor->h > 1)
        status = add_matrix(plan, tap->tensor, per_sample(&tap->flat), plan->backward, false,
                            &scaled, err);
    if (!status)
        status = xt_xpu_binary(plan->program, XT_XPU_BACKWARD, dnnl_binary_mul, slice,
                               &plan->inverse[context->spec.group[i]], &scaled, NULL, err);
    struct xt_xpu_pooling pooling = pooling_of(plan, tap);
    return status || tap->tensor->h == 1
               ? status
               : xt_xpu_pool_backward(plan->program, plan->graph, &pooling, scaled.place.buffer,
                                      grad, err);
}

/* The gradient that comes through the mean square: tap * -2 * mean(slopes) / (mean square)^2. */
static enum xt_status add_through(struct plan *plan, const struct xt_xpu_operand *slopes,
                                  struct xt_err *err)
{
    struct context *context = plan->context;
    enum xt_status status = XT_OK;
    struct xt_xpu_operand through[XT_TAPS_MAX] = {{.ndims = 0}};
    for (int g = 0; g < context->groups && !status; g++) {
        const struct xt_xpu_operand *inverse = &plan->inverse[g];
        const struct xt_xpu_posts again = {.count = 1,
                                           .items = {xt_xpu_then_with(dnnl_binary_mul, *inverse)}};
        status = add_matrix(plan, context->out, 1, plan->backward, false, &through[g], err);
        if (!status)
            status = add_mean(plan, XT_XPU_BACKWARD, g, slopes, &through[g],
                              xt_xpu_then(dnnl_eltwise_linear, -2, 0), err);
        if (!status)
            status = xt_xpu_binary(plan->program, XT_XPU_BACKWARD, dnnl_binary_mul, &through[g],
                                   inverse, &through[g], &again, err);
    }
    for (int i = 0; i < context->spec.count && !status; i++) {
        const struct tap *tap = tap_of(plan, i);
        struct xt_xpu_operand grad = tap->values;
        grad.place = xt_xpu_in_buffer(tap->tensor->grad[context->reader[i]]);
        struct xt_xpu_posts posts = {.count = 1,
                                     .items = {xt_xpu_then_with(dnnl_binary_add, grad)}};
        status = xt_xpu_binary(plan->program, XT_XPU_BACKWARD, dnnl_binary_mul, &tap->values,
                               &through[context->spec.group[i]], &grad, &posts, err);
    }
    return status;
}

static enum xt_status prepare_backward(struct plan *plan, struct xt_err *err)
{
    struct xt_xpu_operand slopes[XT_TAPS_MAX] = {{.ndims = 0}};
    enum xt_status status = XT_OK;
    for (int i = 0; i < plan->context->spec.count && !status; i++) {
        const struct tap *tap = tap_of(plan, i);
        struct xt_xpu_operand slice = {.ndims = 0};
        status = add_slice(plan, i, &slice, err);
        if (!status)
            status = add_matrix(plan, tap->tensor, 1, plan->backward, false, &slopes[i], err);
        if (!status)
            status = add_products(plan, XT_XPU_BACKWARD, &slice, &tap->average, &slopes[i], err);
        if (!status)
            status = add_direct(plan, i, &slice, err);
    }
    return status ? status : add_through(plan, slopes, err);
}

/* The matrices of the means, filled on the host and copied when the number of samples changes. */
static enum xt_status prepare_means(struct plan *plan, struct xt_err *err)
{
    struct context *context = plan->context;
    enum xt_status status = XT_OK;
    for (int g = 0; g < context->groups && !status; g++) {
        struct xt_xpu_operand host =
            xt_xpu_matrix(xt_xpu_in_memory(&context->means[g]), dnnl_f32, plan->n, plan->n);
        status = xt_xpu_pin(plan->graph, &host, "the context's means", &context->means[g], err);
        struct xt_buffer *buffer = status
                                       ? NULL
                                       : xt_xpu_permanent(plan->graph, context->op.name, "means",
                                                          plan->n * plan->n * sizeof(float), err);
        if (!buffer)
            return err->status;
        plan->means[g] = host;
        plan->means[g].place = xt_xpu_in_buffer(buffer);
        status = xt_xpu_reorder(plan->program, XT_XPU_BEFORE, &host, &plan->means[g], err);
    }
    return status;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct context *context = (struct context *)op;
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    struct plan plan = {
        .context = context,
        .graph = graph,
        .program = op->program,
        .forward = xt_op_forward_time(op),
        .backward = xt_op_backward_time(graph, op),
        .n = (size_t)context->out->n,
    };
    if (!status)
        status = xt_context_use_buffers(context, graph, err);
    if (!status)
        status = prepare_means(&plan, err);
    for (int i = 0; i < context->spec.count && !status; i++)
        status = prepare_tap(&plan, i, err);
    if (!status)
        status = prepare_forward(&plan, err);
    return status || !graph->options.training ? status : prepare_backward(&plan, err);
}

/* A sample takes its own sums, or all samples' that matter. */
static void fill_means(struct context *context, int count)
{
    int n = context->out->n;
    for (int g = 0; g < context->groups; g++) {
        float *means = context->means[g].host;
        memset(means, 0, context->means[g].bytes);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                if (context->spec.over_batch ? k < count : k == i)
                    means[(size_t)i * (size_t)n + (size_t)k] =
                        (float)(1 /
                                (context->group_count[g] * (context->spec.over_batch ? count : 1)));
    }
    context->means_of = count;
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct context *context = (struct context *)op;
    enum xt_status status = XT_OK;
    if (context->means_of != graph->pass.count) {
        fill_means(context, graph->pass.count);
        status = xt_xpu_op_before(op, graph, err);
    }
    return status ? status : xt_xpu_op_forward(op, graph, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return xt_xpu_program_implementation(
        op->program, is_backward ? XT_XPU_BACKWARD : XT_XPU_FORWARD, what_matrix);
}

static void destroy(struct xt_op *op)
{
    struct context *context = (struct context *)op;
    for (int g = 0; g < context->groups; g++)
        xt_device_memory_destroy(&context->means[g]);
}

const struct xt_op_class xt_xpu_context = {
    .kind = "global context",
    .prepare = prepare,
    .forward = forward,
    .backward = xt_xpu_op_backward,
    .implementation = implementation,
    .destroy = destroy,
};
