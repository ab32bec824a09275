/* Dropout (Srivastava et al. 2014), in place if the input has no other reader. The mask is a
 * function of seed, step, op and element. The device generates it, once for each direction, if
 * oneDNN supports that; else, and on the CPU, the host computes it by a hash, and the program
 * copies it to the device as bytes and stores it for the backward pass. The two masks differ.
 */
#include <math.h>

#include "base/rng.h"
#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

uint32_t xt_dropout_key(const struct xt_op *op, const struct xt_graph_pass *pass, int n)
{
    uint64_t key = xt_rng_at(pass->seed, pass->step, (uint64_t)op->index);
    return (uint32_t)xt_rng_mix(key ^ (uint64_t)(pass->first + xt_rows_at(&pass->rows, n)));
}

uint32_t xt_dropout_threshold(double probability)
{
    return (uint32_t)(probability * 4294967296.0);
}

double xt_dropout_probability(const struct xt_op *op, const struct xt_graph_pass *pass)
{
    double own = (double)((const struct xt_dropout_op *)op)->p;
    return pass->training ? (own > 0 ? own : pass->dropout) : 0;
}

/* ---- the program ---- */

/* In its backward pass the producer reads only the tensor's sign: a dropped element's gradient is 0
 * anyway. */
static bool is_read_for_signs(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    const struct xt_op *op = xt_graph_writer(graph, tensor);
    if (op && op->kind == &xt_kind_eltwise)
        return ((const struct xt_eltwise_op *)op)->activation.kind == XT_ACT_RELU;
    return op && (op->kind == &xt_kind_conv || op->kind == &xt_kind_norm);
}

static bool can_write_over(const struct xt_graph *graph, const struct xt_tensor *in)
{
    return !graph->options.training ||
           (in->readers == 1 && !in->shared &&
            (!in->value->backward_first || is_read_for_signs(graph, in)));
}

void xt_dropout_use(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use_inputs(op, graph, 0);
    if (xt_graph_fails(graph))
        return;
    if (can_write_over(graph, xt_op_in(op, 0)))
        out->value = xt_op_in(op, 0)->value;
    else
        xt_graph_use_value(graph, out, xt_op_forward_time(op));
    if (!xt_op_learns(op, graph))
        return;
    out->grad[0] = xt_op_in_grad(op, 0);
    if (!out->grad[0])
        xt_graph_use_grad(graph, out, 0, xt_op_backward_time(graph, op));
}

static bool is_in_place(const struct xt_op *op)
{
    return xt_op_out(op, 0)->value == xt_op_in(op, 0)->value;
}

static bool hands_back(const struct xt_op *op)
{
    return !op->frozen && xt_op_in(op, 0)->wants_grad;
}

/* to = from * mask * factor */
static void add_drop(struct xt_op *op, enum xt_phase phase, const struct xt_buffer *from,
                     const struct xt_buffer *to, const struct xt_operand *mask,
                     const struct xt_operand *factor)
{
    struct xt_operand x = xt_operand_tensor(xt_op_in(op, 0), from);
    struct xt_operand y = xt_operand_tensor(xt_op_in(op, 0), to);
    struct xt_post_ops post_ops = {.count = 1, .items = {xt_then_with(dnnl_binary_mul, *factor)}};
    xt_program_binary(&op->program, phase, dnnl_binary_mul, &x, mask, &y, &post_ops);
}

/* The tensor as a dense vector, for a kernel that supports no other layout. */
static struct xt_operand flat(const struct xt_tensor *t, const struct xt_buffer *data)
{
    return xt_operand_matrix(xt_in_buffer(data), xt_dtype_dnnl(t->dtype), (size_t)t->n,
                             xt_tensor_count(t) / (size_t)t->n);
}

/* False if oneDNN does not generate masks on this device. */
static bool describe_drawn(struct xt_dropout_op *dropout, struct xt_graph *graph)
{
    struct xt_op *op = &dropout->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_operand from = flat(in, in->value);
    struct xt_operand values = flat(in, xt_op_out(op, 0)->value);
    struct xt_operand grads = flat(in, xt_op_in_grad(op, 0));
    if (!graph->options.device->own_memory || !xt_device_dropout_create(&dropout->numbers))
        return false;
    if (!is_in_place(op))
        xt_program_reorder(&op->program, XT_FORWARD, &from, &values);
    return xt_program_dropout(&op->program, XT_FORWARD, &values, &dropout->numbers) &&
           (!hands_back(op) ||
            xt_program_dropout(&op->program, XT_BACKWARD, &grads, &dropout->numbers));
}

static void describe_made(struct xt_dropout_op *dropout, struct xt_graph *graph)
{
    struct xt_op *op = &dropout->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_operand keep = xt_operand_tensor(in, NULL);
    keep.dtype = dnnl_u8;
    keep.place = xt_in_memory(&dropout->keep);
    struct xt_operand host_factor = xt_operand_scalar(xt_in_memory(&dropout->factor), 4);
    xt_graph_pin(graph, &keep, "a dropout mask", &dropout->keep);
    xt_graph_pin(graph, &host_factor, "a dropout factor", &dropout->factor);
    struct xt_operand mask =
        xt_operand_tensor(in, xt_graph_saved(graph, op, "mask", xt_tensor_bytes(in)));
    struct xt_operand factor = xt_operand_scalar(
        xt_in_buffer(xt_graph_permanent(graph, op->name, "factor", sizeof(float))), 4);
    xt_program_reorder(&op->program, XT_FORWARD, &host_factor, &factor);
    xt_program_reorder(&op->program, XT_FORWARD, &keep, &mask);
    const struct xt_buffer *grad = xt_op_in_grad(op, 0);
    add_drop(op, XT_FORWARD, in->value, xt_op_out(op, 0)->value, &mask, &factor);
    if (hands_back(op))
        add_drop(op, XT_BACKWARD, grad, grad, &mask, &factor);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_dropout_op *dropout = (struct xt_dropout_op *)op;
    xt_dropout_use(op, graph);
    if (!graph->options.training)
        return;
    dropout->draws = describe_drawn(dropout, graph);
    if (!dropout->draws)
        describe_made(dropout, graph);
}

static void fill_mask(const struct xt_dropout_op *dropout, const struct xt_graph *graph)
{
    const struct xt_tensor *t = xt_op_in(&dropout->op, 0);
    size_t sample = xt_tensor_count(t) / (size_t)t->n;
    uint8_t *keep = dropout->keep.host;
    float *factor = dropout->factor.host;
    double p = xt_dropout_probability(&dropout->op, &graph->pass);
    *factor = (float)(1 / (1 - p));
#pragma omp parallel for schedule(static)
    for (int n = 0; n < t->n; n++)
        graph->loops->keep(keep + (size_t)n * sample, sample,
                           xt_dropout_key(&dropout->op, &graph->pass, n), 0,
                           xt_dropout_threshold(p));
    xt_traffic_add(graph->options.device, XT_CAUSE_MASKS, true, dropout->keep.bytes);
}

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err)
{
    struct xt_dropout_op *dropout = (struct xt_dropout_op *)op;
    const struct xt_graph_pass *pass = &graph->pass;
    double p = xt_dropout_probability(op, pass);
    *runs = p > 0 || !is_in_place(op);
    if (!*runs || backward)
        return XT_OK;
    if (dropout->draws)
        return xt_device_dropout_set(
            &dropout->numbers, p, xt_rng_at(pass->seed, pass->step, (uint64_t)op->index),
            (uint64_t)pass->first + (uint64_t)xt_rows_at(&pass->rows, 0), err);
    fill_mask(dropout, graph);
    return XT_OK;
}

static void destroy(struct xt_op *op)
{
    struct xt_dropout_op *dropout = (struct xt_dropout_op *)op;
    xt_device_dropout_destroy(&dropout->numbers);
    xt_device_memory_destroy(&dropout->keep);
    xt_device_memory_destroy(&dropout->factor);
}

/* ---- in double precision ---- */

/* Whether an element is retained: by the hash, or by the output if the device generated the
 * mask. */
static bool keeps(const struct xt_reference_op *reference, size_t i)
{
    const struct xt_graph_pass *pass = &reference->graph->pass;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    size_t sample = xt_tensor_count(in) / (size_t)in->n;
    double p = xt_dropout_probability(reference->op, pass);
    if (p <= 0)
        return true;
    if (((const struct xt_dropout_op *)reference->op)->draws)
        return reference->came[0][i] != 0;
    return xt_reference_dropout_keeps(pass->seed, pass->step, reference->op->index,
                                      (int)(i / sample), i % sample, p);
}

static double element(const struct xt_reference_op *reference, enum xt_part part, int which,
                      size_t i)
{
    double p = xt_dropout_probability(reference->op, &reference->graph->pass);
    double value = (part == XT_PART_OUTPUT ? reference->in[0] : reference->out_grad[0])[i];
    (void)which;
    return keeps(reference, i) ? value / (1 - p) : 0;
}

static enum xt_status nothing(struct xt_reference_op *reference)
{
    (void)reference;
    return XT_OK;
}

/* Whether the number of dropped elements is within six standard deviations. */
static bool is_likely(const struct xt_reference_op *reference)
{
    double p = xt_dropout_probability(reference->op, &reference->graph->pass);
    size_t count = xt_tensor_count(xt_op_in(reference->op, 0));
    double fell = 0;
    for (size_t i = 0; i < count; i++)
        fell += !keeps(reference, i);
    return fabs(fell - p * (double)count) <= 6 * sqrt(p * (1 - p) * (double)count);
}

/* An implausible mask fails whatever the errors. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    (void)which;
    double relative = xt_reference_op_relative(xt_op_in(reference->op, 0)->dtype, 2, 1);
    bool fine = part != XT_PART_OUTPUT || is_likely(reference);
    return (struct xt_bound){.relative = fine ? relative : -1};
}

const struct xt_op_kind xt_kind_dropout = {
    .name = "dropout",
    .size = sizeof(struct xt_dropout_op),
    .describe = describe,
    .before = before,
    .what = {xt_what_binary, xt_what_binary},
    .reference = {.forward = nothing, .backward = nothing, .element = element, .bound = bound},
    .destroy = destroy,
};

struct xt_tensor *xt_graph_dropout(struct xt_graph *graph, struct xt_tensor *in, float p,
                                   const char *name)
{
    struct xt_dropout_op *dropout = xt_graph_add_op(graph, &xt_kind_dropout, name);
    if (!dropout || !xt_op_read(&dropout->op, graph, in))
        return NULL;
    if (!(p >= 0 && p < 1))
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: elements cannot be dropped with the probability %g", name,
                               (double)p);
    dropout->p = p;
    struct xt_tensor *out =
        xt_op_write(&dropout->op, graph, name, in->n, in->h, in->w, in->c, in->dtype);
    if (!out)
        return NULL;
    out->scale = in->scale;
    out->above_0 = in->above_0;
    out->one_reader = true;
    in->shared = out->shared = !graph->options.training;
    dropout->op.out_bytes = 0; /* usually the input's memory */
    return out;
}
