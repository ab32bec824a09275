/* Batch normalisation, the residual, ReLU or another activation and the pools that read it, as one
 * op: oneDNN's primitive with fused ReLU or, if a residual is added in between and for other
 * activations, a separate one; then the pools.
 *
 * The executor updates the running statistics of all norms at once (executor.c).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/ops/norm_kernels.h"
#include "engine/ops/reference.h"

static const char what_forward[] = "the batch norm";
static const char what_backward[] = "the batch norm's gradient";

static struct xt_tensor *residual_of(const struct xt_norm_op *norm)
{
    return norm->spec.residual;
}

static bool is_scaled(const struct xt_norm_op *norm)
{
    return norm->param.scale >= 0;
}

/* ---- buffers ---- */

struct xt_buffer *xt_norm_sums(const struct xt_norm_op *norm)
{
    return xt_op_in_grad(&norm->op, residual_of(norm) ? 1 : 0);
}

void xt_norm_use(struct xt_norm_op *norm, struct xt_graph *graph, uint64_t saved_inputs)
{
    struct xt_op *op = &norm->op;
    struct xt_tensor *full = xt_op_out(op, XT_NORM_FULL);
    xt_graph_use_inputs(op, graph, saved_inputs);
    /* The gradient's buffer, needed even if no earlier layer is trained. */
    for (int i = 0; i < op->input_count && xt_op_learns(op, graph); i++)
        if (!op->inputs[i].tensor->wants_grad)
            xt_graph_use_grad(graph, op->inputs[i].tensor, op->inputs[i].reader,
                              xt_op_backward_time(graph, op));
    bool apart = xt_op_learns(op, graph) && !residual_of(norm) && xt_op_in_grad(op, 0)->ring;
    if (full && xt_op_learns(op, graph) && !apart)
        full->grad[0] = xt_norm_sums(norm);
    xt_graph_use_outputs(op, graph, 0);
}

/* ---- the program ---- */

/* Shared by both directions. */
struct description {
    struct xt_norm_op *norm;
    struct xt_graph *graph;
    struct xt_program *program;
    const struct xt_tensor *in;
    bool learns;                          /* a backward pass follows */
    bool own_stats;                       /* the batch's statistics; else the running ones */
    bool fused_relu;                      /* fused into the primitive */
    bool fused_residual;                  /* as well, before the ReLU */
    unsigned flags;                       /* of the primitive */
    struct xt_buffer *y;                  /* before the pools */
    struct xt_buffer *before;             /* the activation, if that is not ReLU; else y */
    struct xt_buffer *relu;               /* the fused ReLU's workspace */
    struct xt_location mean, variance;    /* what the primitive normalises by */
    const struct xt_own_program *kernels; /* instead of the primitive; NULL: none */
    dnnl_primitive_desc_t forward;
    struct xt_pooling max, average;
};

static struct description creation_of(struct xt_norm_op *norm, struct xt_graph *graph)
{
    bool training = graph->options.training;
    struct description m = {
        .norm = norm,
        .graph = graph,
        .program = &norm->op.program,
        .in = xt_op_in(&norm->op, 0),
        .learns = xt_op_learns(&norm->op, graph),
        .own_stats = training && !norm->op.frozen && !graph->options.bn_frozen,
        .fused_relu = norm->spec.relu && !residual_of(norm),
        .flags = is_scaled(norm) ? dnnl_use_scale | dnnl_use_shift : 0,
    };
    if (m.fused_relu)
        m.flags |= dnnl_fuse_norm_relu;
    if (!m.own_stats)
        m.flags |= dnnl_use_global_stats;
    m.kernels = is_scaled(norm) ? xt_norm_kernels_code(graph, m.in) : NULL;
    return m;
}

static dnnl_status_t create_forward(const struct description *m, dnnl_primitive_desc_t *pd)
{
    struct xt_program *p = m->program;
    struct xt_operand in = xt_operand_tensor(m->in, NULL);
    dnnl_memory_desc_t md = xt_program_layout(p, &in);
    dnnl_primitive_attr_t attr = xt_program_attr(p, NULL);
    dnnl_prop_kind_t kind = m->learns ? dnnl_forward_training : dnnl_forward_inference;
    return xt_program_fails(p)
               ? dnnl_runtime_error
               : xt_dnnl.batch_normalization_forward_primitive_desc_create(
                     pd, p->device->engine, kind, md, md, (float)m->norm->spec.eps, m->flags, attr);
}

/* With the residual added by the primitive, where oneDNN has one that does. */
static void fuse_residual(struct description *m)
{
    dnnl_primitive_desc_t pd = NULL;
    unsigned flags = m->flags;
    if (m->kernels && residual_of(m->norm)) {
        m->fused_residual = true;
        m->fused_relu = m->norm->spec.relu;
        return;
    }
    if (!m->graph->backend->adds_in_norm || !residual_of(m->norm) || !m->norm->spec.relu)
        return;
    m->flags |= dnnl_fuse_norm_add_relu;
    m->fused_residual = m->fused_relu = create_forward(m, &pd) == dnnl_success;
    if (m->fused_residual)
        xt_dnnl.primitive_desc_destroy(pd);
    else
        m->flags = flags;
}

static void use_buffers(struct description *m)
{
    struct xt_op *op = &m->norm->op;
    const struct xt_tensor *full = xt_op_out(op, XT_NORM_FULL);
    xt_norm_use(m->norm, m->graph, 1);
    m->y =
        full ? full->value
             : xt_graph_temporary(m->graph, m->in, xt_tensor_bytes(m->in), xt_op_forward_time(op));
    if (m->learns && m->norm->spec.relu && (!m->fused_relu || (m->kernels && residual_of(m->norm))))
        xt_buffer_use(m->y, xt_op_backward_time(m->graph, op));
    m->before = m->y;
    if (!m->norm->spec.activation)
        return;
    m->before = xt_graph_temporary(m->graph, m->in, xt_tensor_bytes(m->in), xt_op_forward_time(op));
    if (m->learns)
        xt_buffer_use(m->before, xt_op_backward_time(m->graph, op));
}

static dnnl_primitive_desc_t make_backward(const struct description *m)
{
    struct xt_program *p = m->program;
    struct xt_operand in = xt_operand_tensor(m->in, NULL);
    dnnl_memory_desc_t md = xt_program_layout(p, &in);
    dnnl_primitive_attr_t attr = xt_program_attr(p, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.batch_normalization_backward_primitive_desc_create(
                             &pd, p->device->engine,
                             is_scaled(m->norm) ? dnnl_backward : dnnl_backward_data, md, md, md,
                             (float)m->norm->spec.eps, m->flags, m->forward, attr),
                         what_backward);
    return pd;
}

/* Norms that have running statistics in common have a batch's each. */
static bool has_moments(const struct description *m)
{
    return m->own_stats && xt_param_is_shared(m->graph, m->norm->param.mean);
}

static struct xt_location statistic_of(const struct description *m, int param)
{
    if (!m->own_stats)
        return xt_graph_value_of(m->graph, param);
    struct xt_location of_batch = xt_graph_batch_stat_of(m->graph, param);
    if (!has_moments(m))
        return of_batch;
    size_t bytes = (size_t)m->in->c * sizeof(float);
    return xt_in_buffer(xt_graph_saved(m->graph, &m->norm->op, "batch statistic", bytes));
}

/* running = (1 - momentum) * running + momentum * gain * the batch's, in the order of the norms;
 * other norms' move at once when the pass ends. */
static void move_statistic(const struct description *m, int param, struct xt_location batch,
                           double gain)
{
    double momentum = m->norm->spec.momentum;
    size_t count = (size_t)m->in->c;
    struct xt_operand from = xt_operand_matrix(batch, dnnl_f32, 1, count);
    struct xt_operand running =
        xt_operand_matrix(xt_graph_value_of(m->graph, param), dnnl_f32, 1, count);
    struct xt_operand more = from;
    more.place = xt_in_buffer(xt_graph_temporary(m->graph, m->in, count * sizeof(float),
                                                 xt_op_forward_time(&m->norm->op)));
    xt_program_eltwise(m->program, XT_FORWARD, dnnl_eltwise_linear, (float)(momentum * gain), 0,
                       &from, &more);
    xt_program_eltwise(m->program, XT_FORWARD, dnnl_eltwise_linear, (float)(1 - momentum), 0,
                       &running, &running);
    xt_program_binary(m->program, XT_FORWARD, dnnl_binary_add, &running, &more, &running, NULL);
}

static void move_statistics(const struct description *m)
{
    double pixels = (double)m->in->n * m->in->h * m->in->w;
    if (!has_moments(m))
        return;
    move_statistic(m, m->norm->param.mean, m->mean, 1);
    move_statistic(m, m->norm->param.var, m->variance, pixels > 1 ? pixels / (pixels - 1) : 1);
}

static void add_statistics(const struct description *m, struct xt_step *step)
{
    xt_step_arg(step, DNNL_ARG_MEAN, m->mean);
    xt_step_arg(step, DNNL_ARG_VARIANCE, m->variance);
}

static struct xt_norm_kernels kernels_of(const struct description *m)
{
    struct xt_norm_op *norm = m->norm;
    struct xt_norm_kernels kernels = {
        .code = m->kernels,
        .op = &norm->op,
        .graph = m->graph,
        .in = m->in,
        .residual = residual_of(norm) ? residual_of(norm)->value : NULL,
        .out = m->before,
        .eps = (float)norm->spec.eps,
        .own_stats = m->own_stats,
        .relu = norm->spec.relu,
        .scale = xt_graph_value_of(m->graph, norm->param.scale),
        .shift = xt_graph_value_of(m->graph, norm->param.shift),
        .mean = m->mean,
        .variance = m->variance,
    };
    if (m->learns) {
        kernels.out_grad = xt_norm_sums(norm);
        kernels.in_grad = xt_op_in_grad(&norm->op, 0);
        kernels.scale_grad = xt_graph_grad_of(m->graph, norm->param.scale);
        kernels.shift_grad = xt_graph_grad_of(m->graph, norm->param.shift);
    }
    return kernels;
}

static void add_norm(struct description *m)
{
    const struct xt_norm_op *norm = m->norm;
    if (m->kernels) {
        struct xt_norm_kernels kernels = kernels_of(m);
        xt_norm_kernels_forward(&kernels, what_forward);
        return;
    }
    if (!xt_program_fails(m->program))
        xt_program_check(m->program, create_forward(m, &m->forward), what_forward);
    size_t relu =
        m->learns ? xt_layout_bytes(xt_layout_of(m->forward, dnnl_query_workspace_md, 0)) : 0;
    if (relu)
        m->relu = xt_graph_saved(m->graph, &norm->op, "ReLU", relu);
    struct xt_step *step = xt_program_add(m->program, XT_FORWARD, m->forward, what_forward);
    xt_step_arg(step, DNNL_ARG_SRC, xt_in_buffer(m->in->value));
    xt_step_arg(step, DNNL_ARG_DST, xt_in_buffer(m->before));
    if (is_scaled(norm)) {
        xt_step_arg(step, DNNL_ARG_SCALE, xt_graph_value_of(m->graph, norm->param.scale));
        xt_step_arg(step, DNNL_ARG_SHIFT, xt_graph_value_of(m->graph, norm->param.shift));
    }
    add_statistics(m, step);
    if (m->relu)
        xt_step_arg(step, DNNL_ARG_WORKSPACE, xt_in_buffer(m->relu));
    if (m->fused_residual)
        xt_step_arg(step, DNNL_ARG_SRC_1, xt_in_buffer(residual_of(norm)->value));
}

static void add_residual(const struct description *m)
{
    const struct xt_tensor *residual = residual_of(m->norm);
    if (!residual || m->fused_residual)
        return;
    struct xt_operand y = xt_operand_tensor(m->in, m->y);
    struct xt_operand with = xt_operand_tensor(residual, residual->value);
    struct xt_post_ops post_ops = {.count = m->norm->spec.relu,
                                   .items = {xt_then(dnnl_eltwise_relu, 0, 0)}};
    xt_program_binary(m->program, XT_FORWARD, dnnl_binary_add, &y, &with, &y, &post_ops);
}

static void add_activation(const struct description *m)
{
    const struct xt_activation *activation = m->norm->spec.activation;
    if (!activation)
        return;
    struct xt_eltwise_algorithm a = xt_eltwise_algorithm(activation, m->in->dtype);
    struct xt_operand before = xt_operand_tensor(m->in, m->before);
    struct xt_operand y = xt_operand_tensor(m->in, m->y);
    xt_program_eltwise(m->program, XT_FORWARD, a.forward, a.alpha, a.beta, &before, &y);
}

/* The gradient before the activation, in the sum's memory. */
static void add_activation_backward(const struct description *m)
{
    const struct xt_activation *activation = m->norm->spec.activation;
    if (!activation)
        return;
    struct xt_eltwise_algorithm a = xt_eltwise_algorithm(activation, m->in->dtype);
    struct xt_operand before = xt_operand_tensor(m->in, m->before);
    struct xt_operand sum = xt_operand_tensor(m->in, xt_norm_sums(m->norm));
    xt_program_eltwise_backward(m->program, a.forward, a.alpha, a.beta, &before, &sum, &sum,
                                "the activation's gradient");
}

static struct xt_pooling pooling_of(const struct description *m, enum xt_norm_output output)
{
    const struct xt_norm_op *norm = m->norm;
    bool average = output == XT_NORM_AVERAGE;
    return (struct xt_pooling){
        .in = m->in,
        .from = m->y,
        .out = xt_op_out(&norm->op, (int)output),
        .window = average ? &norm->spec.average : &norm->spec.max,
        .average = average,
        .training = m->learns,
        .forward = xt_op_forward_time(&norm->op),
        .backward = xt_op_backward_time(m->graph, &norm->op),
    };
}

static void add_pools(struct description *m)
{
    m->max = pooling_of(m, XT_NORM_MAX);
    m->average = pooling_of(m, XT_NORM_AVERAGE);
    if (m->max.out)
        xt_pooling_forward(&m->norm->op, m->graph, &m->max);
    if (m->average.out)
        xt_pooling_forward(&m->norm->op, m->graph, &m->average);
}

static void add_to_sum(const struct description *m, const struct xt_buffer *more)
{
    struct xt_operand sum = xt_operand_tensor(m->in, xt_norm_sums(m->norm));
    struct xt_operand operand = xt_operand_tensor(m->in, more);
    xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_add, &sum, &operand, &sum, NULL);
}

/* A pool's gradient, written or added to the sum. */
static void add_pool_grad(struct description *m, const struct xt_pooling *pool, bool first)
{
    const struct xt_tensor *out = pool->out;
    const struct xt_buffer *to =
        first ? xt_norm_sums(m->norm)
              : xt_graph_temporary(m->graph, m->in, xt_tensor_bytes(m->in), pool->backward);
    if (out->readers > 1) {
        struct xt_operand a = xt_operand_tensor(out, out->grad[0]);
        struct xt_operand b = xt_operand_tensor(out, out->grad[1]);
        xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_add, &a, &b, &a, NULL);
    }
    xt_pooling_backward(&m->norm->op, m->graph, pool, out->grad[0], to);
    if (!first)
        add_to_sum(m, to);
}

static void sum_grads(struct description *m)
{
    const struct xt_tensor *full = xt_op_out(&m->norm->op, XT_NORM_FULL);
    bool first = !full;
    /* full's own first gradient is the sum already. */
    if (full && full->readers > 1)
        add_to_sum(m, full->grad[1]);
    if (m->max.out) {
        add_pool_grad(m, &m->max, first);
        first = false;
    }
    if (m->average.out)
        add_pool_grad(m, &m->average, first);
}

static void add_backward(struct description *m)
{
    const struct xt_norm_op *norm = m->norm;
    sum_grads(m);
    if (norm->spec.relu && !m->fused_relu) {
        struct xt_operand y = xt_operand_tensor(m->in, m->y);
        struct xt_operand sum = xt_operand_tensor(m->in, xt_norm_sums(norm));
        xt_program_eltwise_backward(m->program, dnnl_eltwise_relu, 0, 0, &y, &sum, &sum,
                                    "the ReLU's gradient");
    }
    add_activation_backward(m);
    if (m->kernels) {
        struct xt_norm_kernels kernels = kernels_of(m);
        xt_norm_kernels_backward(&kernels, what_backward);
        return;
    }
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, make_backward(m), what_backward);
    xt_step_arg(step, DNNL_ARG_SRC, xt_in_buffer(m->in->value));
    xt_step_arg(step, DNNL_ARG_DIFF_DST, xt_in_buffer(xt_norm_sums(norm)));
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, xt_in_buffer(xt_op_in_grad(&norm->op, 0)));
    if (is_scaled(norm)) {
        xt_step_arg(step, DNNL_ARG_SCALE, xt_graph_value_of(m->graph, norm->param.scale));
        xt_step_arg(step, DNNL_ARG_DIFF_SCALE, xt_graph_grad_of(m->graph, norm->param.scale));
        xt_step_arg(step, DNNL_ARG_DIFF_SHIFT, xt_graph_grad_of(m->graph, norm->param.shift));
    }
    add_statistics(m, step);
    if (m->relu)
        xt_step_arg(step, DNNL_ARG_WORKSPACE, xt_in_buffer(m->relu));
    if (m->fused_residual)
        xt_step_arg(step, DNNL_ARG_DIFF_SRC_1, xt_in_buffer(xt_norm_sums(norm)));
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct description m = creation_of((struct xt_norm_op *)op, graph);
    fuse_residual(&m);
    use_buffers(&m);
    m.mean = statistic_of(&m, m.norm->param.mean);
    m.variance = statistic_of(&m, m.norm->param.var);
    add_norm(&m);
    move_statistics(&m);
    add_residual(&m);
    add_activation(&m);
    add_pools(&m);
    if (m.learns)
        add_backward(&m);
}

/* ---- in double precision ---- */

/* Indices of the op's parameters: scale and shift, where there are any, and the statistics. */
enum { SCALE, SHIFT };

static int mean_of(const struct xt_op *op)
{
    return op->param_count - 2;
}

static int variance_of(const struct xt_op *op)
{
    return op->param_count - 1;
}

struct reference_work {
    struct xt_reference_norm norm;
    double *unused[2]; /* the gradients of a scale and shift that there are not */
    double *before;    /* the activation */
    double *y;
    double *doubt;    /* 1 if rounding may decide the activation's outcome */
    double *lead;     /* of the max pool's windows */
    double *sum;      /* the gradient before the activation */
    double margin;    /* bound of the rounding */
    double magnitude; /* the largest term that is added */
    double largest;   /* of the gradient, and its largest factor */
    double slope, steepest;
};

static bool uses_batch(const struct xt_reference_op *reference)
{
    const struct xt_graph_pass *pass = &reference->graph->pass;
    return pass->training && !pass->bn_frozen && !reference->op->frozen;
}

/* Scale and shift; where there are none, ones and zeros, and memory for their gradients. */
static bool take_scale(struct xt_reference_op *reference, struct reference_work *work)
{
    size_t c = (size_t)work->norm.shape.c;
    work->norm.gamma = reference->param[SCALE];
    work->norm.beta = reference->param[SHIFT];
    if (is_scaled((const struct xt_norm_op *)reference->op))
        return true;
    double *ones = xt_reference_op_take(reference, 4 * c);
    for (size_t k = 0; ones && k < c; k++)
        ones[k] = 1;
    work->norm.gamma = ones;
    work->norm.beta = ones + c;
    work->unused[SCALE] = ones + 2 * c;
    work->unused[SHIFT] = ones + 3 * c;
    return ones != NULL;
}

/* The norm's parameters and statistics, and memory for its results. */
static struct reference_work *begin(struct xt_reference_op *reference)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    const struct xt_tensor *max = xt_op_out(reference->op, XT_NORM_MAX);
    size_t count = xt_tensor_count(in);
    size_t c = (size_t)in->c;
    struct reference_work *work = (struct reference_work *)(void *)xt_reference_op_take(
        reference, sizeof *work / sizeof(double) + 1);
    double *moments = work ? xt_reference_op_take(reference, 2 * c) : NULL;
    double *arrays = moments ? xt_reference_op_take(reference, 4 * count) : NULL;
    double *lead = arrays ? xt_reference_op_take(reference, max ? xt_tensor_count(max) : 1) : NULL;
    if (!lead)
        return NULL;
    reference->work = work;
    work->before = arrays;
    work->y = arrays + count;
    work->doubt = arrays + 2 * count;
    work->sum = arrays + 3 * count;
    work->lead = lead;
    work->norm = (struct xt_reference_norm){.shape = {in->n, in->h, in->w, in->c},
                                            .mean = moments,
                                            .variance = moments + c,
                                            .eps = norm->spec.eps,
                                            .of_batch = uses_batch(reference)};
    if (!take_scale(reference, work))
        return NULL;
    for (size_t k = 0; k < c; k++) {
        moments[k] = reference->param[mean_of(reference->op)][k];
        moments[c + k] = reference->param[variance_of(reference->op)][k];
        if (work->norm.of_batch)
            xt_reference_moments(&work->norm.shape, reference->in[0], (int)k, &moments[k],
                                 &moments[c + k]);
    }
    return work;
}

/* Running mean and variance, updated by a pass with the batch's statistics. */
static void reference_statistics(struct xt_reference_op *reference)
{
    const struct reference_work *work = reference->work;
    const struct xt_reference_shape *shape = &work->norm.shape;
    int of[] = {mean_of(reference->op), variance_of(reference->op)};
    double m = ((const struct xt_norm_op *)reference->op)->spec.momentum;
    double pixels = (double)shape->n * shape->h * shape->w;
    double unbiased = pixels > 1 ? pixels / (pixels - 1) : 1;
    for (int k = 0; k < shape->c; k++) {
        const double batch[] = {work->norm.mean[k], work->norm.variance[k] * unbiased};
        for (int i = 0; i < 2; i++) {
            double running = reference->param[of[i]][k];
            reference->statistic[of[i]][k] =
                work->norm.of_batch ? (1 - m) * running + m * batch[i] : running;
        }
    }
}

static void find_margin(const struct xt_reference_op *reference, struct reference_work *work,
                        size_t count)
{
    size_t c = (size_t)work->norm.shape.c;
    for (size_t i = 0; i < count; i++) {
        double scale =
            fabs(work->norm.gamma[i % c]) / sqrt(work->norm.variance[i % c] + work->norm.eps);
        double term = fmax(fabs(reference->in[0][i]), fabs(work->norm.mean[i % c])) * scale;
        work->magnitude = fmax(work->magnitude, term);
    }
    double largest = xt_reference_op_largest(work->before, count);
    work->margin = 3 * xt_reference_op_rounding(xt_op_in(reference->op, 0)->dtype) * largest +
                   16 * xt_reference_op_rounding(XT_F32) * fmax(largest, work->magnitude);
}

/* Whether the activation's slope jumps within the margin. */
static bool is_in_doubt(const struct xt_norm_spec *spec, double before, double margin)
{
    const struct xt_activation *a = spec->activation;
    if (!a)
        return spec->relu && fabs(before) < margin;
    double first = a->kind == XT_ACT_CLIP ? (double)a->alpha : -3;
    double second = a->kind == XT_ACT_CLIP ? (double)a->beta : 3;
    return a->kind != XT_ACT_SILU &&
           (fabs(before - first) < margin || fabs(before - second) < margin);
}

static double activated(const struct xt_norm_spec *spec, double before)
{
    if (spec->activation)
        return xt_activation_value(spec->activation, before);
    return spec->relu && before < 0 ? 0 : before;
}

static double slope(const struct xt_norm_spec *spec, double before)
{
    if (spec->activation)
        return xt_activation_slope(spec->activation, before);
    return !spec->relu || before > 0;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    size_t count = xt_tensor_count(xt_op_in(reference->op, 0));
    struct reference_work *work = begin(reference);
    if (!work)
        return reference->err->status;
    xt_reference_norm(&work->norm, reference->in[0], residual_of(norm) ? reference->in[1] : NULL,
                      work->before);
    find_margin(reference, work, count);
    for (size_t i = 0; i < count; i++) {
        work->y[i] = activated(&norm->spec, work->before[i]);
        work->doubt[i] = is_in_doubt(&norm->spec, work->before[i], work->margin);
        if (reference->out[XT_NORM_FULL])
            reference->out[XT_NORM_FULL][i] = work->y[i];
    }
    if (reference->out[XT_NORM_MAX])
        xt_reference_max_pool(&work->norm.shape, &norm->spec.max, work->y,
                              reference->out[XT_NORM_MAX], work->lead);
    if (reference->out[XT_NORM_AVERAGE])
        xt_reference_average_pool(&work->norm.shape, &norm->spec.average, work->y,
                                  reference->out[XT_NORM_AVERAGE]);
    if (reference->statistic[mean_of(reference->op)])
        reference_statistics(reference);
    return XT_OK;
}

/* 0 for elements and windows with a doubtful decision. */
static void certain(struct xt_reference_op *reference, int output, double *keep)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    const struct reference_work *work = reference->work;
    size_t count = xt_tensor_count(xt_op_out(reference->op, output));
    /* The mean of the doubts is above 0 if there is any. */
    if (output == XT_NORM_AVERAGE)
        xt_reference_average_pool(&work->norm.shape, &norm->spec.average, work->doubt, keep);
    for (size_t i = 0; i < count; i++) {
        if (output == XT_NORM_MAX)
            keep[i] = work->lead[i] > work->margin && reference->out[output][i] > work->margin;
        else
            keep[i] = !((output == XT_NORM_AVERAGE ? keep[i] : work->doubt[i]) > 0);
    }
}

/* The gradient of y from all readers, then the one before the activation. */
static void reference_y_grad(struct xt_reference_op *reference, size_t count)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    struct reference_work *work = reference->work;
    double *const *grads = reference->out_grad;
    if (grads[XT_NORM_FULL])
        memcpy(work->sum, grads[XT_NORM_FULL], count * sizeof *work->sum);
    if (grads[XT_NORM_AVERAGE])
        xt_reference_average_pool_grad(&work->norm.shape, &norm->spec.average,
                                       grads[XT_NORM_AVERAGE], work->sum);
    if (grads[XT_NORM_MAX])
        xt_reference_max_pool_grad(&work->norm.shape, &norm->spec.max, work->y, grads[XT_NORM_MAX],
                                   work->sum);
    for (size_t i = 0; i < count; i++)
        work->sum[i] *= slope(&norm->spec, work->before[i]);
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    struct reference_work *work = reference->work;
    size_t count = xt_tensor_count(xt_op_in(reference->op, 0));
    reference_y_grad(reference, count);
    double *const *grads = is_scaled(norm) ? reference->param_grad : work->unused;
    xt_reference_norm_grad(&work->norm, reference->in[0], work->sum, reference->in_grad[0],
                           grads[SCALE], grads[SHIFT]);
    if (residual_of(norm))
        memcpy(reference->in_grad[1], work->sum, count * sizeof *work->sum);
    work->largest = xt_reference_op_largest(work->sum, count);
    /* The variance of few numbers may be tiny: (z - mean) / deviation cancels. */
    work->steepest = 1;
    for (int k = 0; k < work->norm.shape.c; k++) {
        double invstd = 1 / sqrt(work->norm.variance[k] + norm->spec.eps);
        work->slope = fmax(work->slope, fabs(work->norm.gamma[k]) * invstd);
        work->steepest = fmax(work->steepest, invstd);
    }
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)reference->op;
    const struct reference_work *work = reference->work;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    double pixels = (double)in->n * in->h * in->w;
    /* Up to two readers' and two pools' gradients are summed, rounding each time. */
    if (part == XT_PART_INPUT_GRAD && which == 0)
        return (struct xt_bound){.scale = work->slope * work->largest,
                                 .relative =
                                     xt_reference_op_relative(in->dtype, 5, pixels) +
                                     work->steepest * xt_reference_op_relative(XT_F32, 4, 1)};
    if (part == XT_PART_INPUT_GRAD)
        return (struct xt_bound){.scale = work->largest,
                                 .relative = xt_reference_op_relative(in->dtype, 4, 1)};
    if (part == XT_PART_PARAM_GRAD)
        return (struct xt_bound){.scale = work->largest,
                                 .relative = xt_reference_op_relative(in->dtype, 4, pixels)};
    if (part == XT_PART_STATISTIC)
        return (struct xt_bound){.relative = xt_reference_op_relative(XT_F32, 4, pixels)};
    /* The normalised value is rounded, and again after adding the residual. The variance is a sum
     * of some hundred squares at a time, relative to a pixel that may lie apart from the others. */
    double deviation =
        work->norm.of_batch ? xt_reference_op_relative(XT_F32, 4, fmin(pixels, 256)) / 2 : 0;
    return (struct xt_bound){
        .scale = work->magnitude,
        .relative = xt_reference_op_relative(in->dtype, residual_of(norm) ? 3 : 2, 4) + deviation};
}

const struct xt_op_kind xt_kind_norm = {
    .name = "batch norm",
    .size = sizeof(struct xt_norm_op),
    .describe = describe,
    .what = {what_forward, what_backward},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .certain = certain,
                  .bound = bound,
                  .grads_pass_nan = true,
                  .outputs = {"output", "max pool", "average pool"},
                  .inputs = {"input", "residual"}},
};

/* ---- describing ---- */

void xt_norm_take_params(struct xt_op *op, struct xt_graph *graph,
                         const struct xt_norm_params *params)
{
    const int all[] = {params->scale, params->shift, params->mean, params->var};
    for (int i = params->scale < 0 ? 2 : 0; i < 4; i++)
        xt_op_take_param(op, graph, all[i]);
}

static struct xt_norm_params add_params(struct xt_graph *graph, const struct xt_norm_spec *spec,
                                        int channels)
{
    const struct xt_channel_map *map = &spec->out;
    struct xt_norm_params out = {-1, -1, -1, -1, -1};
    const struct {
        const char *suffix;
        enum xt_param_role role;
        int *index;
    } kinds[] = {
        {"weight", XT_PARAM_BN_SCALE, &out.scale},
        {"bias", XT_PARAM_BN_SHIFT, &out.shift},
        {"running_mean", XT_PARAM_BN_MEAN, &out.mean},
        {"running_var", XT_PARAM_BN_VAR, &out.var},
        {"num_batches_tracked", XT_PARAM_BN_COUNT, &out.count},
    };
    union {
        const int *in;
        int *out;
    } rows = {.in = map->map};
    for (size_t i = spec->unscaled ? 2 : 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct xt_param item = {
            .role = kinds[i].role,
            .ndims = 1,
            .dims = {channels},
            .file_dims = {map->file_count ? map->file_count : channels},
            .rows = kinds[i].role == XT_PARAM_BN_COUNT ? NULL : rows.out,
        };
        snprintf(item.name, sizeof item.name, "%s.%s", spec->name, kinds[i].suffix);
        *kinds[i].index = xt_graph_param(graph, &item);
    }
    return out;
}

static double eps_of(const struct xt_norm_spec *spec)
{
    return spec->eps == 0 ? XT_BN_EPS : spec->eps;
}

static void fit_window(struct xt_window *window, const struct xt_tensor *in)
{
    int h = in->h + 2 * window->pad_h - window->kernel_h;
    int w = in->w + 2 * window->pad_w - window->kernel_w;
    window->out_h = h < 0 ? 0 : h / window->stride_h + 1;
    window->out_w = w < 0 ? 0 : w / window->stride_w + 1;
}

/* A pool's output, if any. */
static struct xt_tensor *write_pool(struct xt_graph *graph, struct xt_norm_op *norm,
                                    struct xt_window *window, const char *which,
                                    enum xt_dtype dtype)
{
    char name[64];
    const struct xt_tensor *in = xt_op_in(&norm->op, 0);
    if (!window->kernel_h) {
        xt_op_write_none(&norm->op);
        return NULL;
    }
    fit_window(window, in);
    snprintf(name, sizeof name, "%.50s %s", norm->op.name, which);
    return xt_op_write(&norm->op, graph, name, in->n, window->out_h, window->out_w, in->c, dtype);
}

static struct xt_norm_outputs write_outputs(struct xt_graph *graph, struct xt_norm_op *norm)
{
    const struct xt_tensor *in = xt_op_in(&norm->op, 0);
    struct xt_norm_outputs out = {0};
    if (norm->spec.full)
        out.full =
            xt_op_write(&norm->op, graph, norm->op.name, in->n, in->h, in->w, in->c, in->dtype);
    else
        xt_op_write_none(&norm->op);
    out.max = write_pool(graph, norm, &norm->spec.max, "max", in->dtype);
    out.average = write_pool(graph, norm, &norm->spec.average, "average", XT_F32);
    if (out.average)
        out.average->one_reader = true;
    norm->op.dtype = in->dtype;
    return out;
}

bool xt_norm_can_activate(const struct xt_activation *activation)
{
    return activation->kind == XT_ACT_CLIP || activation->kind == XT_ACT_HARD_SWISH ||
           activation->kind == XT_ACT_SILU;
}

static bool check_activation(struct xt_graph *graph, const struct xt_tensor *in,
                             const struct xt_norm_spec *spec)
{
    const struct xt_window *average = &spec->average;
    bool whole = !average->kernel_h || (average->kernel_h == in->h && average->kernel_w == in->w);
    if (spec->activation && (!xt_norm_can_activate(spec->activation) || spec->relu ||
                             spec->residual || spec->max.kernel_h || !whole))
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "%s: an activation that a batch norm cannot take in", spec->name);
    return true;
}

static bool check_windows(struct xt_graph *graph, const struct xt_norm_spec *spec)
{
    if (spec->max.kernel_h && (!spec->relu || spec->max.kernel_h != 3 || spec->max.kernel_w != 3))
        return xt_graph_refuse(
            graph, XT_ERR_RUN,
            "%s: a max pool without a ReLU before it, or of another size than 3x3", spec->name);
    if (spec->average.kernel_h && (spec->average.stride_h != spec->average.kernel_h ||
                                   spec->average.pad_h || spec->average.pad_w))
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "%s: an average pool with overlapping or padded rows", spec->name);
    return true;
}

static struct xt_norm_outputs add(struct xt_graph *graph, struct xt_tensor *in,
                                  const struct xt_norm_spec *spec,
                                  const struct xt_norm_params *params)
{
    const struct xt_norm_outputs none = {0};
    struct xt_norm_op *norm = xt_graph_add_op(graph, &xt_kind_norm, spec->name);
    if (!norm || !xt_op_read(&norm->op, graph, in))
        return none;
    norm->spec = *spec;
    norm->spec.params = NULL;
    if (spec->activation) {
        norm->activation = *spec->activation;
        norm->spec.activation = &norm->activation;
    }
    norm->spec.eps = eps_of(spec);
    norm->spec.momentum = spec->momentum == 0 ? XT_BN_MOMENTUM : spec->momentum;
    norm->param = *params;
    const struct xt_tensor *residual = spec->residual;
    if (residual && (!xt_op_read(&norm->op, graph, spec->residual) ||
                     xt_tensor_count(residual) != xt_tensor_count(in) || residual->c != in->c)) {
        xt_graph_refuse(graph, XT_ERR_RUN, "%s: the residual %s has another shape", spec->name,
                        residual->name);
        return none;
    }
    xt_norm_take_params(&norm->op, graph, params);
    return write_outputs(graph, norm);
}

static struct xt_tensor *add_pool(struct xt_graph *graph, struct xt_tensor *in,
                                  const struct xt_norm_spec *spec, bool average)
{
    char name[64];
    struct xt_window window = average ? spec->average : spec->max;
    if (!window.kernel_h)
        return NULL;
    fit_window(&window, in);
    snprintf(name, sizeof name, "%.50s %s", spec->name, average ? "average" : "max");
    return xt_graph_pool(graph, in, &window, average, name);
}

/* Folds all but the pools into the preceding convolution. */
static struct xt_norm_outputs fuse(struct xt_graph *graph, struct xt_tensor *in,
                                   const struct xt_norm_spec *spec,
                                   const struct xt_norm_params *params)
{
    struct xt_fold fold = {.params = *params,
                           .eps = eps_of(spec),
                           .residual = spec->residual,
                           .relu = spec->relu,
                           .activation = spec->activation};
    xt_conv_absorb(graph, in, &fold);
    struct xt_norm_outputs out = {.max = add_pool(graph, in, spec, false)};
    out.average = add_pool(graph, in, spec, true);
    out.full = spec->full && !xt_graph_fails(graph) ? in : NULL;
    return out;
}

struct xt_norm_outputs xt_graph_norm(struct xt_graph *graph, struct xt_tensor *in,
                                     const struct xt_norm_spec *spec)
{
    const struct xt_norm_outputs none = {0};
    if (!in) {
        xt_graph_refuse(graph, XT_ERR_RUN, "%s reads a tensor that does not exist", spec->name);
        return none;
    }
    if (xt_graph_fails(graph) || !check_windows(graph, spec) || !check_activation(graph, in, spec))
        return none;
    struct xt_norm_params params = spec->params ? *spec->params : add_params(graph, spec, in->c);
    if (xt_graph_fails(graph))
        return none;
    if (graph->options.fuse && !spec->keeps_in && xt_conv_can_absorb(graph, in, spec->residual))
        return fuse(graph, in, spec, &params);
    struct xt_norm_spec own = *spec;
    own.residual = xt_graph_dequantise(graph, spec->residual);
    return add(graph, xt_graph_dequantise(graph, in), &own, &params);
}

void xt_graph_count_batches(const struct xt_graph *graph, int batches)
{
    if (graph->options.bn_frozen)
        return;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        if (op->kind == &xt_kind_norm && !op->frozen)
            graph->options.params->tracked[((const struct xt_norm_op *)op)->param.count] += batches;
    }
}
