/* Layer normalisation over the channels (Ba, Kiros & Hinton 2016), with scale and shift or without.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>

#include "engine/ops/ops.h"

static const char what_forward[] = "the layer norm";
static const char what_backward[] = "the layer norm's gradient";

static bool is_scaled(const struct xt_op *op)
{
    return op->param_count > 0;
}

static unsigned flags_of(const struct xt_op *op)
{
    return is_scaled(op) ? dnnl_use_scale | dnnl_use_shift : dnnl_normalization_flags_none;
}

/* ---- the program ---- */

struct description {
    const struct xt_layer_norm_op *norm;
    struct xt_graph *graph;
    struct xt_program *program;
    struct xt_operand x, y;      /* [rows][c] */
    struct xt_operand mean, var; /* [rows]; in training */
};

static struct xt_operand rows_of(const struct xt_tensor *t, const struct xt_buffer *buffer,
                                 dnnl_data_type_t dtype)
{
    return xt_operand_matrix(xt_in_buffer(buffer), dtype, xt_tensor_count(t) / (size_t)t->c,
                             (size_t)t->c);
}

static struct xt_operand add_statistic(const struct description *m, const char *kind)
{
    int64_t rows = m->x.dims[0];
    struct xt_buffer *buffer =
        xt_graph_saved(m->graph, &m->norm->op, kind, (size_t)rows * sizeof(float));
    return xt_operand_dense(xt_in_buffer(buffer), dnnl_f32, 1, &rows);
}

/* oneDNN's reference kernels on a GPU are compiled with a number that nobody sets
 * (src/gpu/intel/lnorm/ref.cpp: vect_dt_n; still in 3.13). They do not use it, but with other
 * leftovers on the heap the driver's cache takes them for other kernels, and a warm start compiles.
 * So glibc clears what is allocated while their descriptors are made. */
static void clear_allocations(const struct xt_program *p, bool on)
{
#ifdef M_PERTURB
    if (p->device->compiles)
        mallopt(M_PERTURB, on ? 0xff : 0);
#else
    (void)p, (void)on;
#endif
}

static dnnl_primitive_desc_t make_forward(const struct description *m, bool training)
{
    struct xt_program *p = m->program;
    dnnl_memory_desc_t from = xt_program_layout(p, &m->x);
    dnnl_memory_desc_t to = xt_program_layout(p, &m->y);
    dnnl_memory_desc_t statistics = xt_program_layout_as(p, dnnl_f32, 1, m->x.dims, dnnl_a);
    dnnl_primitive_attr_t attr = xt_program_attr(p, NULL);
    dnnl_primitive_desc_t pd = NULL;
    clear_allocations(p, true);
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.layer_normalization_forward_primitive_desc_create(
                             &pd, p->device->engine,
                             training ? dnnl_forward_training : dnnl_forward_inference, from, to,
                             statistics, m->norm->eps, flags_of(&m->norm->op), attr),
                         what_forward);
    clear_allocations(p, false);
    return pd;
}

static void add_forward(struct description *m, bool training)
{
    const struct xt_op *op = &m->norm->op;
    struct xt_step *step =
        xt_program_add(m->program, XT_FORWARD, make_forward(m, training), what_forward);
    xt_step_arg(step, DNNL_ARG_SRC, m->x.place);
    xt_step_arg(step, DNNL_ARG_DST, m->y.place);
    if (is_scaled(op)) {
        xt_step_arg(step, DNNL_ARG_SCALE, xt_graph_value_of(m->graph, op->params[0]));
        xt_step_arg(step, DNNL_ARG_SHIFT, xt_graph_value_of(m->graph, op->params[1]));
    }
    if (!training)
        return;
    xt_step_arg(step, DNNL_ARG_MEAN, m->mean.place);
    xt_step_arg(step, DNNL_ARG_VARIANCE, m->var.place);
}

static dnnl_primitive_desc_t make_backward(const struct description *m)
{
    struct xt_program *p = m->program;
    dnnl_primitive_desc_t hint = make_forward(m, true);
    dnnl_memory_desc_t md = xt_program_layout(p, &m->x);
    dnnl_memory_desc_t statistics = xt_program_layout(p, &m->mean);
    dnnl_primitive_attr_t attr = xt_program_attr(p, NULL);
    dnnl_primitive_desc_t pd = NULL;
    bool scaled = is_scaled(&m->norm->op);
    clear_allocations(p, true);
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.layer_normalization_backward_primitive_desc_create(
                             &pd, p->device->engine, scaled ? dnnl_backward : dnnl_backward_data,
                             md, md, md, statistics, m->norm->eps, flags_of(&m->norm->op), hint,
                             attr),
                         what_backward);
    clear_allocations(p, false);
    xt_program_keep(p, hint);
    return pd;
}

static void add_backward(const struct description *m)
{
    const struct xt_op *op = &m->norm->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_buffer *before = xt_op_in_grad(op, 0);
    if (!before) /* the primitive writes it anyway */
        before = xt_graph_temporary(m->graph, in, xt_tensor_bytes(in),
                                    xt_op_backward_time(m->graph, op));
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, make_backward(m), what_backward);
    xt_step_arg(step, DNNL_ARG_SRC, m->x.place);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, xt_in_buffer(out->grad[0]));
    xt_step_arg(step, DNNL_ARG_MEAN, m->mean.place);
    xt_step_arg(step, DNNL_ARG_VARIANCE, m->var.place);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, xt_in_buffer(before));
    if (!is_scaled(op))
        return;
    xt_step_arg(step, DNNL_ARG_SCALE, xt_graph_value_of(m->graph, op->params[0]));
    xt_step_arg(step, DNNL_ARG_SHIFT, xt_graph_value_of(m->graph, op->params[1]));
    xt_step_arg(step, DNNL_ARG_DIFF_SCALE, xt_graph_grad_of(m->graph, op->params[0]));
    xt_step_arg(step, DNNL_ARG_DIFF_SHIFT, xt_graph_grad_of(m->graph, op->params[1]));
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    bool learns = xt_op_learns(op, graph);
    xt_graph_use(op, graph, 1, 0);
    struct xt_operand numbers = xt_op_numbers(op, graph, 0);
    struct description m = {.norm = (const struct xt_layer_norm_op *)op,
                            .graph = graph,
                            .program = &op->program,
                            .x = rows_of(out, numbers.place.buffer, numbers.dtype),
                            .y = rows_of(out, out->value, xt_dtype_dnnl(out->dtype))};
    if (learns) {
        m.mean = add_statistic(&m, "means");
        m.var = add_statistic(&m, "variances");
    }
    add_forward(&m, learns);
    if (learns)
        add_backward(&m);
}

/* ---- in double precision ---- */

/* Normalises a row; returns 1 / its standard deviation. */
static double normalise(const struct xt_layer_norm_op *norm, const double *x, int count, double *z)
{
    double mean = 0, square = 0;
    for (int k = 0; k < count; k++)
        mean += x[k] / count;
    for (int k = 0; k < count; k++)
        square += (x[k] - mean) * (x[k] - mean) / count;
    double inverse = 1 / sqrt(square + (double)norm->eps);
    for (int k = 0; k < count; k++)
        z[k] = (x[k] - mean) * inverse;
    return inverse;
}

/* Rows of few numbers may be nearly equal, so that x - mean cancels: the largest |x| / deviation,
 * and what goes into the gradient's sums, |dy scale| / deviation. */
struct reference_work {
    double cancels, gradient;
};

static double largest_scale(const struct xt_reference_op *reference)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    return is_scaled(reference->op) ? xt_reference_op_largest(reference->param[0], (size_t)t->c)
                                    : 1;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_layer_norm_op *norm = (const struct xt_layer_norm_op *)reference->op;
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    struct reference_work *work =
        (void *)xt_reference_op_take(reference, sizeof *work / sizeof(double));
    if (!work)
        return reference->err->status;
    reference->work = work;
    for (size_t i = 0; i < xt_tensor_count(t); i += (size_t)t->c) {
        double *y = reference->out[0] + i;
        double inverse = normalise(norm, reference->in[0] + i, t->c, y);
        double largest = xt_reference_op_largest(reference->in[0] + i, (size_t)t->c);
        work->cancels = fmax(work->cancels, largest * inverse);
        for (int k = 0; k < t->c && is_scaled(reference->op); k++)
            y[k] = y[k] * reference->param[0][k] + reference->param[1][k];
    }
    return XT_OK;
}

/* dx = (g - mean(g) - z mean(g z)) / deviation, of g = dy * scale. */
static void row_gradient(struct xt_reference_op *reference, size_t i, int count, double *z)
{
    const struct xt_layer_norm_op *norm = (const struct xt_layer_norm_op *)reference->op;
    const double *dy = reference->out_grad[0] + i;
    const double *scale = is_scaled(reference->op) ? reference->param[0] : NULL;
    double inverse = normalise(norm, reference->in[0] + i, count, z);
    double mean = 0, along = 0;
    struct reference_work *work = reference->work;
    for (int k = 0; k < count; k++) {
        double g = scale ? dy[k] * scale[k] : dy[k];
        work->gradient = fmax(work->gradient, fabs(g) * inverse);
        mean += g / count;
        along += g * z[k] / count;
        if (!scale)
            continue;
        reference->param_grad[0][k] += dy[k] * z[k];
        reference->param_grad[1][k] += dy[k];
    }
    for (int k = 0; k < count; k++)
        reference->in_grad[0][i + (size_t)k] =
            ((scale ? dy[k] * scale[k] : dy[k]) - mean - z[k] * along) * inverse;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    double *z = xt_reference_op_take(reference, (size_t)t->c);
    if (!z)
        return reference->err->status;
    for (size_t i = 0; i < xt_tensor_count(t); i += (size_t)t->c)
        row_gradient(reference, i, t->c, z);
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    const struct reference_work *work = reference->work;
    bool of_param = part == XT_PART_PARAM_GRAD;
    enum xt_dtype dtype = of_param ? XT_F32 : t->dtype;
    double rows = (double)xt_tensor_count(t) / t->c;
    double term = part == XT_PART_OUTPUT ? largest_scale(reference)
                  : of_param ? xt_reference_op_largest(reference->out_grad[0], xt_tensor_count(t))
                             : work->gradient;
    (void)which;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(dtype, 2, 4 * (of_param ? rows : t->c)),
        .absolute = 4 * xt_reference_op_rounding(XT_F32) * work->cancels * term};
}

const struct xt_op_kind xt_kind_layer_norm = {
    .name = "layer norm",
    .size = sizeof(struct xt_layer_norm_op),
    .describe = describe,
    .what = {what_forward, what_backward},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
};

static void add_param(struct xt_op *op, struct xt_graph *graph, const char *name,
                      const char *suffix, enum xt_param_role role, int channels)
{
    struct xt_param param = {.role = role, .ndims = 1, .dims = {channels}, .file_dims = {channels}};
    snprintf(param.name, sizeof param.name, "%s.%s", name, suffix);
    xt_op_param(op, graph, &param);
}

struct xt_tensor *xt_graph_layer_norm(struct xt_graph *graph, struct xt_tensor *in,
                                      const struct xt_layer_norm_spec *spec)
{
    struct xt_layer_norm_op *norm = xt_graph_add_op(graph, &xt_kind_layer_norm, spec->name);
    if (!norm || !xt_op_read(&norm->op, graph, in))
        return NULL;
    norm->eps = spec->eps > 0 ? spec->eps : 1e-6F;
    if (spec->params) {
        xt_op_take_param(&norm->op, graph, spec->params->scale);
        xt_op_take_param(&norm->op, graph, spec->params->shift);
    } else if (!spec->unscaled) {
        add_param(&norm->op, graph, spec->name, "weight", XT_PARAM_BN_SCALE, in->c);
        add_param(&norm->op, graph, spec->name, "bias", XT_PARAM_BN_SHIFT, in->c);
    }
    struct xt_tensor *out = xt_op_write(&norm->op, graph, spec->name, in->n, in->h, in->w, in->c,
                                        xt_op_numbers_type(graph, in));
    if (out)
        out->one_reader = true;
    return out;
}
