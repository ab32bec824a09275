/* Stochastic depth (Huang et al. 2016): whole samples are dropped, the others scaled up. The choice
 * is a function of seed, step, op and the sample's index in the step's batch, so it does not depend
 * on threads or processes.
 */
#include <math.h>

#include "engine/ops/ops.h"

/* ---- the program ---- */

/* Each sample becomes a channel, since oneDNN has kernels for factors per channel. */
static struct xt_operand channels_of(const struct xt_tensor *t, struct xt_location place,
                                     dnnl_data_type_t dtype)
{
    int64_t each = (int64_t)(xt_tensor_count(t) / (size_t)t->n);
    return xt_operand_dense(place, dtype, 4, (int64_t[]){1, t->n, 1, each});
}

/* to = from * factor, one factor per sample */
static void add_scaling(struct xt_op *op, enum xt_phase phase, const struct xt_operand *from,
                        const struct xt_buffer *to, const struct xt_operand *factor)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_operand x = channels_of(out, from->place, from->dtype);
    struct xt_operand y = channels_of(out, xt_in_buffer(to), xt_dtype_dnnl(out->dtype));
    xt_program_binary(&op->program, phase, dnnl_binary_mul, &x, factor, &y, NULL);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_drop_path_op *drop = (struct xt_drop_path_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    int64_t dims[] = {1, out->n, 1, 1};
    struct xt_operand host = xt_operand_dense(xt_in_memory(&drop->factors), dnnl_f32, 4, dims);
    xt_graph_use_inputs(op, graph, 0);
    xt_op_share_memory(op, graph, true);
    xt_graph_use_outputs(op, graph, 0);
    xt_graph_pin(graph, &host, "the samples' factors", &drop->factors);
    struct xt_operand factor =
        host; /* in the tensor's type: oneDNN's CPU kernels do not mix types */
    factor.dtype = xt_dtype_dnnl(out->dtype);
    factor.place = xt_in_buffer(
        xt_graph_permanent(graph, op->name, "factors", (size_t)out->n * sizeof(float)));
    struct xt_operand x = xt_op_numbers(op, graph, 0);
    xt_program_reorder(&op->program, XT_FORWARD, &host, &factor);
    add_scaling(op, XT_FORWARD, &x, out->value, &factor);
    if (!xt_op_learns(op, graph) || !xt_op_in(op, 0)->wants_grad)
        return;
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    add_scaling(op, XT_BACKWARD, &dy, xt_op_in_grad(op, 0), &factor);
}

static double factor_of(const struct xt_op *op, const struct xt_graph_pass *pass, int n)
{
    double p = pass->training ? (double)((const struct xt_drop_path_op *)op)->p : 0;
    bool falls = (double)xt_dropout_key(op, pass, n) < p * 0x1p32;
    return falls ? 0 : 1 / (1 - p);
}

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err)
{
    const struct xt_drop_path_op *drop = (const struct xt_drop_path_op *)op;
    float *factors = drop->factors.host;
    (void)err;
    *runs = true;
    for (int n = 0; n < xt_op_out(op, 0)->n && !backward; n++)
        factors[n] = (float)factor_of(op, &graph->pass, n);
    return XT_OK;
}

static void destroy(struct xt_op *op)
{
    xt_device_memory_destroy(&((struct xt_drop_path_op *)op)->factors);
}

/* ---- in double precision ---- */

static void scale(const struct xt_reference_op *reference, const double *from, double *to)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    size_t sample = xt_tensor_count(t) / (size_t)t->n;
    for (size_t i = 0; i < xt_tensor_count(t); i++)
        to[i] = from[i] * factor_of(reference->op, &reference->graph->pass, (int)(i / sample));
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    scale(reference, reference->in[0], reference->out[0]);
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    scale(reference, reference->out_grad[0], reference->in_grad[0]);
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    (void)part;
    (void)which;
    return (struct xt_bound){.relative = xt_reference_op_relative(reference->op->dtype, 2, 1)};
}

const struct xt_op_kind xt_kind_drop_path = {
    .name = "stochastic depth",
    .size = sizeof(struct xt_drop_path_op),
    .describe = describe,
    .before = before,
    .what = {xt_what_binary, xt_what_binary},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
    .destroy = destroy,
};

struct xt_tensor *xt_graph_drop_path(struct xt_graph *graph, struct xt_tensor *in, float p,
                                     const char *name)
{
    if (!graph->options.training)
        return in;
    struct xt_drop_path_op *drop = xt_graph_add_op(graph, &xt_kind_drop_path, name);
    if (!drop || !xt_op_read(&drop->op, graph, in))
        return NULL;
    if (!(p >= 0 && p < 1))
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: samples cannot be dropped with the probability %g", name,
                               (double)p);
    drop->p = p;
    struct xt_tensor *out = xt_op_write(&drop->op, graph, name, in->n, in->h, in->w, in->c,
                                        xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = in->above_0;
    return out;
}
