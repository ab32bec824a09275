/* Stochastic depth (Huang et al. 2016): whole samples are dropped, the others scaled up; dropout of
 * channels (Tompson et al. 2015): whole channels of a sample are. The choice is a function of seed,
 * step, op, the sample's index in the step's batch and the channel, so it does not depend on
 * threads or processes.
 */

#include "base/rng.h"
#include "engine/ops/ops.h"

/* ---- the program ---- */

/* Factors of a sample. */
static int factors_each(const struct xt_drop_path_op *drop)
{
    return drop->by_channel ? xt_op_out(&drop->op, 0)->c : 1;
}

/* Each sample becomes a channel, since oneDNN has kernels for factors per channel. */
static struct xt_operand numbers_of(const struct xt_op *op, struct xt_location place,
                                    dnnl_data_type_t dtype)
{
    const struct xt_tensor *t = xt_op_out(op, 0);
    int64_t each = (int64_t)(xt_tensor_count(t) / (size_t)t->n);
    struct xt_operand image = xt_operand_tensor(t, NULL);
    image.place = place;
    image.dtype = dtype;
    return ((const struct xt_drop_path_op *)op)->by_channel
               ? image
               : xt_operand_dense(place, dtype, 4, (int64_t[]){1, t->n, 1, each});
}

/* to = from * factor */
static void add_scaling(struct xt_op *op, enum xt_phase phase, const struct xt_operand *from,
                        const struct xt_buffer *to, const struct xt_operand *factor)
{
    struct xt_operand x = numbers_of(op, from->place, from->dtype);
    struct xt_operand y = numbers_of(op, xt_in_buffer(to), xt_dtype_dnnl(xt_op_out(op, 0)->dtype));
    xt_program_binary(&op->program, phase, dnnl_binary_mul, &x, factor, &y, NULL);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_drop_path_op *drop = (struct xt_drop_path_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t count = (size_t)out->n * (size_t)factors_each(drop);
    int64_t of_samples[] = {1, out->n, 1, 1};
    int64_t of_channels[] = {out->n, out->c, 1, 1};
    struct xt_operand host = xt_operand_dense(xt_in_memory(&drop->factors), dnnl_f32, 4,
                                              drop->by_channel ? of_channels : of_samples);
    xt_graph_use_inputs(op, graph, 0);
    xt_op_share_memory(op, graph, true);
    xt_graph_use_outputs(op, graph, 0);
    xt_graph_pin(graph, &host, "factors of 0 where dropped", &drop->factors);
    struct xt_operand factor =
        host; /* in the tensor's type: oneDNN's CPU kernels do not mix types */
    factor.dtype = xt_dtype_dnnl(out->dtype);
    factor.place =
        xt_in_buffer(xt_graph_permanent(graph, op->name, "factors", count * sizeof(float)));
    struct xt_operand x = xt_op_numbers(op, graph, 0);
    xt_program_reorder(&op->program, XT_FORWARD, &host, &factor);
    add_scaling(op, XT_FORWARD, &x, out->value, &factor);
    if (!xt_op_learns(op, graph) || !xt_op_in(op, 0)->wants_grad)
        return;
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    add_scaling(op, XT_BACKWARD, &dy, xt_op_in_grad(op, 0), &factor);
}

static double factor_of(const struct xt_op *op, const struct xt_graph_pass *pass, int n, int k)
{
    const struct xt_drop_path_op *drop = (const struct xt_drop_path_op *)op;
    double p = pass->training ? (double)drop->p : 0;
    uint32_t key = xt_dropout_key(op, pass, n);
    if (drop->by_channel)
        key = (uint32_t)xt_rng_mix((uint64_t)key << 32 | (uint32_t)k);
    return (double)key < p * 0x1p32 ? 0 : 1 / (1 - p);
}

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err)
{
    const struct xt_drop_path_op *drop = (const struct xt_drop_path_op *)op;
    float *factors = drop->factors.host;
    int each = factors_each(drop);
    (void)err;
    *runs = true;
    for (int i = 0; i < xt_op_out(op, 0)->n * each && !backward; i++)
        factors[i] = (float)factor_of(op, &graph->pass, i / each, i % each);
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
        to[i] = from[i] * factor_of(reference->op, &reference->graph->pass, (int)(i / sample),
                                    (int)(i % (size_t)t->c));
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

#define KIND(called)                                                                               \
    {                                                                                              \
        .name = called, .size = sizeof(struct xt_drop_path_op), .describe = describe,              \
        .before = before, .what = {xt_what_binary, xt_what_binary},                                \
        .reference = {.forward = reference_forward,                                                \
                      .backward = reference_backward,                                              \
                      .roundings = 2,                                                              \
                      .terms_summed = 1},                                                          \
        .destroy = destroy,                                                                        \
    }
const struct xt_op_kind xt_kind_drop_path = KIND("stochastic depth");
const struct xt_op_kind xt_kind_drop_channels = KIND("dropout of channels");

static struct xt_tensor *add_drop(struct xt_graph *graph, const struct xt_op_kind *kind,
                                  struct xt_tensor *in, float p, const char *name)
{
    if (!graph->options.training)
        return in;
    struct xt_drop_path_op *drop = xt_graph_add_op(graph, kind, name);
    if (!drop || !xt_op_read(&drop->op, graph, in))
        return NULL;
    if (!(p >= 0 && p < 1))
        return xt_graph_refuse(graph, XT_ERR_USAGE, "%s: %s cannot be with a probability of %g",
                               name, kind->name, (double)p);
    drop->p = p;
    drop->by_channel = kind == &xt_kind_drop_channels;
    struct xt_tensor *out = xt_op_write(&drop->op, graph, name, in->n, in->h, in->w, in->c,
                                        xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = in->above_0;
    return out;
}

struct xt_tensor *xt_graph_drop_path(struct xt_graph *graph, struct xt_tensor *in, float p,
                                     const char *name)
{
    return add_drop(graph, &xt_kind_drop_path, in, p, name);
}

struct xt_tensor *xt_graph_drop_channels(struct xt_graph *graph, struct xt_tensor *in, float p,
                                         const char *name)
{
    return add_drop(graph, &xt_kind_drop_channels, in, p, name);
}
