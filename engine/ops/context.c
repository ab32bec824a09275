/* LPRNet's global context: each tap divided by its mean square, averaged over the height,
 * concatenated. All float32.
 *
 * The published network averages over the height after the 1x1 convolution; both are linear, so
 * here it is done before, at a quarter of the cost. Sums over a sample are matrix products, a row
 * [n] for each tap. So are the means of all groups at once: a matrix [groups][taps] has a group's
 * weights of each tap's sums and, for means over the batch, another, [n][n], a sample's weights of
 * each sample's.
 */
#include <assert.h>

#include "engine/ops/context_kernels.h"
#include "engine/ops/reference.h"

/* ---- the program ---- */

/* One tap's memories; with height 1 the average over the height is the tap itself. */
struct tap {
    const struct xt_tensor *tensor;
    const struct xt_buffer *grad;
    struct xt_operand values;  /* [n][h * w * c] */
    struct xt_operand average; /* [n][w * c] */
    struct xt_tensor flat;     /* the average as a tensor of height 1 */
    struct xt_window window;   /* over the height */
};

struct description {
    struct xt_context_op *context;
    struct xt_graph *graph;
    struct xt_program *program;
    int forward, backward; /* times */
    size_t n;
    struct xt_context_kernels kernels;
    struct tap taps[XT_TAPS_MAX];
    struct xt_operand shares;  /* [groups][taps] */
    struct xt_operand means;   /* [n][n]; for means over the batch */
    struct xt_operand inverse; /* [groups][n]: 1 / mean square */
};

static size_t per_sample(const struct xt_tensor *t)
{
    return (size_t)t->h * (size_t)t->w * (size_t)t->c;
}

/* A float32 matrix alive for one pass, or for both. */
static struct xt_operand add_matrix(const struct description *m, const struct xt_tensor *owner,
                                    size_t columns, int time, bool saved)
{
    struct xt_buffer *buffer =
        xt_graph_temporary(m->graph, owner, m->n * columns * sizeof(float), time);
    if (saved && m->graph->options.training)
        xt_buffer_use(buffer, m->backward);
    return xt_operand_matrix(xt_in_buffer(buffer), dnnl_f32, m->n, columns);
}

static void add_tap(struct description *m, int i)
{
    struct tap *tap = &m->taps[i];
    const struct xt_tensor *t = xt_op_in(&m->context->op, i);
    tap->tensor = t;
    tap->grad = xt_op_in_grad(&m->context->op, i);
    tap->flat = *t;
    tap->flat.h = 1;
    tap->window = (struct xt_window){.kernel_h = t->h,
                                     .kernel_w = 1,
                                     .stride_h = t->h,
                                     .stride_w = 1,
                                     .out_h = 1,
                                     .out_w = t->w};
    tap->values = xt_operand_matrix(xt_in_buffer(t->value), dnnl_f32, m->n, per_sample(t));
    tap->average = tap->values;
    if (t->h == 1 || m->kernels.code)
        return;
    struct xt_buffer *average =
        xt_graph_temporary(m->graph, t, m->n * per_sample(&tap->flat) * sizeof(float), m->forward);
    if (m->graph->options.training)
        xt_buffer_use(average, m->backward);
    tap->average = xt_operand_matrix(xt_in_buffer(average), dnnl_f32, m->n, per_sample(&tap->flat));
    tap->flat.value = average;
}

/* All taps' tensors exist by now. */
static const struct tap *tap_of(const struct description *m, int i)
{
    const struct tap *tap = &m->taps[i];
    assert(tap->tensor);
    return tap;
}

static struct xt_pooling pooling_of(const struct description *m, const struct tap *tap)
{
    return (struct xt_pooling){
        .in = tap->tensor,
        .from = tap->tensor->value,
        .out = &tap->flat,
        .window = &tap->window,
        .average = true,
        .training = m->graph->options.training,
        .forward = m->forward,
        .backward = m->backward,
    };
}

/* out[n] = the dot product of a sample's rows of a and b. */
static void add_products(const struct description *m, enum xt_phase phase,
                         const struct xt_operand *a, const struct xt_operand *b,
                         const struct xt_operand *out)
{
    size_t columns = (size_t)a->dims[1];
    struct xt_operand rows = xt_operand_matrices(a->place, dnnl_f32, m->n, 1, columns);
    struct xt_operand sides =
        xt_operand_transposed(xt_operand_matrices(b->place, dnnl_f32, m->n, 1, columns));
    struct xt_operand sums = xt_operand_matrices(out->place, dnnl_f32, m->n, 1, 1);
    xt_program_matmul(m->program, phase, &rows, &sides, &sums, NULL);
}

/* Rows of one float32 number per sample. */
static struct xt_operand add_rows(const struct description *m, size_t rows, int time, bool saved)
{
    const struct xt_tensor *owner = xt_op_out(&m->context->op, 0);
    struct xt_buffer *buffer =
        xt_graph_temporary(m->graph, owner, rows * m->n * sizeof(float), time);
    if (saved && m->graph->options.training)
        xt_buffer_use(buffer, m->backward);
    return xt_operand_matrix(xt_in_buffer(buffer), dnnl_f32, rows, m->n);
}

/* The i-th of them as [n][1]. */
static struct xt_operand row_of(const struct description *m, const struct xt_operand *rows, int i)
{
    struct xt_operand row = xt_operand_matrix(rows->place, dnnl_f32, m->n, 1);
    row.place.floats_before = &m->context->row[i];
    return row;
}

/* out[groups][n] = the groups' means of sums[taps][n], with post-ops. */
static void add_mean(const struct description *m, enum xt_phase phase,
                     const struct xt_operand *sums, const struct xt_operand *out,
                     const struct xt_post_ops *post_ops)
{
    int time = phase == XT_FORWARD ? m->forward : m->backward;
    if (!m->context->spec.over_batch) {
        xt_program_matmul(m->program, phase, &m->shares, sums, out, post_ops);
        return;
    }
    struct xt_operand own = add_rows(m, (size_t)m->context->groups, time, false);
    struct xt_operand of_samples = xt_operand_transposed(m->means);
    xt_program_matmul(m->program, phase, &m->shares, sums, &own, NULL);
    xt_program_matmul(m->program, phase, &own, &of_samples, out, post_ops);
}

static void add_inverse(struct description *m)
{
    const struct xt_context_op *context = m->context;
    const struct xt_post_ops post_ops = {
        .count = 2,
        .items = {xt_then(dnnl_eltwise_linear, 1, (float)XT_CONTEXT_EPS),
                  xt_then(dnnl_eltwise_pow, 1, -1)}};
    struct xt_operand sums = add_rows(m, (size_t)context->spec.count, m->forward, false);
    if (m->kernels.code)
        xt_context_kernels_sums(&m->kernels, sums.place);
    for (int i = 0; i < context->spec.count && !m->kernels.code; i++) {
        const struct tap *tap = tap_of(m, i);
        struct xt_operand sum = row_of(m, &sums, i);
        add_products(m, XT_FORWARD, &tap->values, &tap->values, &sum);
    }
    m->inverse = add_rows(m, (size_t)context->groups, m->forward, true);
    add_mean(m, XT_FORWARD, &sums, &m->inverse, &post_ops);
}

/* [n][w * c] as [n][c][1][w] */
static struct xt_operand as_tensor(const struct xt_operand *matrix, const struct xt_tensor *shape)
{
    struct xt_operand operand = xt_operand_tensor(shape, NULL);
    operand.place = matrix->place;
    return operand;
}

static void add_forward(struct description *m)
{
    const struct xt_context_op *context = m->context;
    const struct xt_tensor *tensor = xt_op_out(&context->op, 0);
    struct xt_operand parts[XT_TAPS_MAX] = {{.ndims = 0}};
    add_inverse(m);
    if (m->kernels.code) {
        xt_context_kernels_out(&m->kernels, m->inverse.place);
        return;
    }
    for (int i = 0; i < context->spec.count; i++) {
        const struct tap *tap = tap_of(m, i);
        struct xt_pooling pooling = pooling_of(m, tap);
        if (tap->tensor->h > 1)
            xt_pooling_forward(&m->context->op, m->graph, &pooling);
        struct xt_operand scaled =
            add_matrix(m, tap->tensor, per_sample(&tap->flat), m->forward, false);
        struct xt_operand inverse = row_of(m, &m->inverse, context->spec.group[i]);
        xt_program_binary(m->program, XT_FORWARD, dnnl_binary_mul, &tap->average, &inverse, &scaled,
                          NULL);
        parts[i] = as_tensor(&scaled, &tap->flat);
    }
    struct xt_operand out = xt_operand_tensor(tensor, tensor->value);
    xt_program_concat(m->program, XT_FORWARD, parts, context->spec.count, &out);
}

/* A tap's part of the output's gradient, dense. */
static struct xt_operand add_slice(const struct description *m, int i)
{
    struct xt_context_op *context = m->context;
    const struct tap *tap = tap_of(m, i);
    const struct xt_tensor *out = xt_op_out(&context->op, 0);
    struct xt_operand slice =
        add_matrix(m, tap->tensor, per_sample(&tap->flat), m->backward, false);
    struct xt_operand from = xt_operand_tensor(out, out->grad[0]);
    from.dims[1] = tap->tensor->c;
    context->first_float[i] = (size_t)context->first_channel[i];
    from.place.floats_before = &context->first_float[i];
    struct xt_operand to = as_tensor(&slice, &tap->flat);
    xt_program_reorder(m->program, XT_BACKWARD, &from, &to);
    return slice;
}

/* The gradient through the average: slice / mean square, replicated over the height. */
static void add_direct(const struct description *m, int i, const struct xt_operand *slice)
{
    const struct tap *tap = tap_of(m, i);
    struct xt_operand scaled =
        xt_operand_matrix(xt_in_buffer(tap->grad), dnnl_f32, m->n, per_sample(&tap->flat));
    if (tap->tensor->h > 1)
        scaled = add_matrix(m, tap->tensor, per_sample(&tap->flat), m->backward, false);
    struct xt_operand inverse = row_of(m, &m->inverse, m->context->spec.group[i]);
    xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_mul, slice, &inverse, &scaled, NULL);
    struct xt_pooling pooling = pooling_of(m, tap);
    if (tap->tensor->h > 1)
        xt_pooling_backward(&m->context->op, m->graph, &pooling, scaled.place.buffer, tap->grad);
}

/* The gradient through the mean square: tap * -2 * mean(slopes) / (mean square)^2. */
static void add_through(const struct description *m, const struct xt_operand *slopes)
{
    const struct xt_context_op *context = m->context;
    const struct xt_post_ops twice = {.count = 1, .items = {xt_then(dnnl_eltwise_linear, -2, 0)}};
    const struct xt_post_ops recompute = {.count = 1,
                                          .items = {xt_then_with(dnnl_binary_mul, m->inverse)}};
    struct xt_operand through = add_rows(m, (size_t)context->groups, m->backward, false);
    add_mean(m, XT_BACKWARD, slopes, &through, &twice);
    xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_mul, &through, &m->inverse, &through,
                      &recompute);
    if (m->kernels.code)
        xt_context_kernels_grads(&m->kernels, m->inverse.place, through.place);
    for (int i = 0; i < context->spec.count && !m->kernels.code; i++) {
        const struct tap *tap = tap_of(m, i);
        struct xt_operand grad = tap->values;
        grad.place = xt_in_buffer(tap->grad);
        struct xt_operand by = row_of(m, &through, context->spec.group[i]);
        struct xt_post_ops post_ops = {.count = 1, .items = {xt_then_with(dnnl_binary_add, grad)}};
        if (tap->grad)
            xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_mul, &tap->values, &by, &grad,
                              &post_ops);
    }
}

static void add_backward(const struct description *m)
{
    struct xt_operand slopes = add_rows(m, (size_t)m->context->spec.count, m->backward, false);
    if (m->kernels.code)
        xt_context_kernels_slopes(&m->kernels, slopes.place);
    for (int i = 0; i < m->context->spec.count && !m->kernels.code; i++) {
        const struct tap *tap = tap_of(m, i);
        struct xt_operand slice = add_slice(m, i);
        struct xt_operand slope = row_of(m, &slopes, i);
        add_products(m, XT_BACKWARD, &slice, &tap->average, &slope);
        if (tap->grad)
            add_direct(m, i, &slice);
    }
    add_through(m, &slopes);
}

/* A matrix that is filled on the host, and copied when the number of samples changes. */
static struct xt_operand add_filled(const struct description *m, struct xt_device_memory *memory,
                                    size_t rows, size_t columns)
{
    static const char what[] = "the context's means";
    struct xt_operand host = xt_operand_matrix(xt_in_memory(memory), dnnl_f32, rows, columns);
    struct xt_operand own = host;
    xt_graph_pin(m->graph, &host, what, memory);
    own.place = xt_in_buffer(
        xt_graph_permanent(m->graph, m->context->op.name, "means", rows * columns * sizeof(float)));
    xt_program_reorder(m->program, XT_BEFORE, &host, &own);
    return own;
}

static void add_means(struct description *m)
{
    struct xt_context_op *context = m->context;
    m->shares =
        add_filled(m, &context->shares, (size_t)context->groups, (size_t)context->spec.count);
    if (context->spec.over_batch)
        m->means = add_filled(m, &context->means, m->n, m->n);
    for (int i = 0; i < context->spec.count; i++)
        context->row[i] = (size_t)i * m->n;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_context_op *context = (struct xt_context_op *)op;
    struct description m = {
        .context = context,
        .graph = graph,
        .program = &op->program,
        .forward = xt_op_forward_time(op),
        .backward = xt_op_backward_time(graph, op),
        .n = (size_t)xt_op_out(op, 0)->n,
    };
    xt_graph_use(op, graph, ~0U, 0);
    m.kernels = xt_context_kernels(context, graph);
    add_means(&m);
    for (int i = 0; i < context->spec.count; i++)
        add_tap(&m, i);
    add_forward(&m);
    if (xt_op_learns(op, graph))
        add_backward(&m);
}

/* With means over the batch a sample reads the sums of all valid samples. */
static void fill_means(struct xt_context_op *context, int count)
{
    size_t n = (size_t)xt_op_out(&context->op, 0)->n;
    float *shares = context->shares.host;
    float *means = context->means.host;
    for (int g = 0; g < context->groups; g++)
        for (int i = 0; i < context->spec.count; i++)
            *shares++ = context->spec.group[i] == g ? (float)(1 / context->group_count[g]) : 0.0F;
    for (size_t i = 0; context->spec.over_batch && i < n * n; i++)
        means[i] = i % n < (size_t)count ? 1.0F / (float)count : 0.0F;
    context->means_of = count;
}

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err)
{
    struct xt_context_op *context = (struct xt_context_op *)op;
    *runs = true;
    if (backward || context->means_of == graph->pass.count)
        return XT_OK;
    fill_means(context, graph->pass.count);
    return xt_program_run(&op->program, XT_BEFORE, err);
}

static void destroy(struct xt_op *op)
{
    struct xt_context_op *context = (struct xt_context_op *)op;
    xt_device_memory_destroy(&context->shares);
    xt_device_memory_destroy(&context->means);
}

/* ---- in double precision ---- */

struct taps {
    struct xt_reference_tap items[XT_TAPS_MAX];
    int over; /* samples in a mean; 0: each sample has its own */
};

static struct taps taps_of(const struct xt_reference_op *reference)
{
    const struct xt_context_op *context = (const struct xt_context_op *)reference->op;
    struct taps taps = {.over = context->spec.over_batch ? reference->graph->pass.count : 0};
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *t = xt_op_in(reference->op, i);
        taps.items[i] = (struct xt_reference_tap){.shape = {t->n, t->h, t->w, t->c},
                                                  .group = context->spec.group[i],
                                                  .value = reference->in[i],
                                                  .grad = reference->in_grad[i]};
    }
    return taps;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    struct taps taps = taps_of(reference);
    xt_reference_context(taps.items, reference->op->input_count, taps.over, reference->out[0]);
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    struct taps taps = taps_of(reference);
    xt_reference_context_grad(taps.items, reference->op->input_count, taps.over,
                              reference->out_grad[0]);
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    double elements = 0;
    (void)part;
    (void)which;
    for (int i = 0; i < reference->op->input_count; i++)
        elements += (double)xt_tensor_count(xt_op_in(reference->op, i));
    return (struct xt_bound){.relative = xt_reference_op_relative(XT_F32, 4, elements)};
}

const struct xt_op_kind xt_kind_context = {
    .name = "global context",
    .size = sizeof(struct xt_context_op),
    .describe = describe,
    .before = before,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
    .destroy = destroy,
};

/* ---- describing ---- */

static bool check_tap(struct xt_graph *graph, const struct xt_tensor *tap,
                      const struct xt_tensor *first)
{
    if (tap->dtype != XT_F32 && !graph->options.int8_layout)
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "the context reads %s, which is in %s: taps are "
                               "float32",
                               tap->name, xt_dtype_name(tap->dtype));
    if (tap->n != first->n || tap->w != first->w)
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "the context's taps %s and %s have %d and %d columns: they are "
                               "concatenated, so they need as many",
                               first->name, tap->name, first->w, tap->w);
    return true;
}

struct xt_tensor *xt_graph_context(struct xt_graph *graph, const struct xt_context_spec *spec)
{
    struct xt_context_op *context = xt_graph_add_op(graph, &xt_kind_context, "context");
    int channels = 0;
    for (int i = 0; i < spec->count; i++) {
        const struct xt_tensor *tap = spec->taps[i];
        if (!context || !xt_op_read(&context->op, graph, spec->taps[i]) ||
            !check_tap(graph, tap, spec->taps[0]))
            return NULL;
        context->first_channel[i] = channels;
        channels += tap->c;
        context->group_count[spec->group[i]] += (double)tap->h * tap->w * tap->c;
        if (spec->group[i] >= context->groups)
            context->groups = spec->group[i] + 1;
    }
    if (!context)
        return NULL;
    context->spec = *spec;
    const struct xt_tensor *tap = spec->taps[0];
    struct xt_tensor *out =
        xt_op_write(&context->op, graph, "context", tap->n, 1, tap->w, channels, XT_F32);
    if (!out)
        return NULL;
    out->one_reader = true;
    context->op.why_f32 = "it divides by means of squares, for which 8 bits are too few";
    return out;
}
