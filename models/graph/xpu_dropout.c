/* Dropout on an XPU, in place: the mask is the CPU's, made on the host as bytes, read by the device
 * over the bus and kept there for the backward pass. */
#include "models/graph/xpu_ops.h"

/* Pinned memory for one byte an element, and for the factor. */
static enum xt_status create_host(struct dropout *dropout, struct xt_graph *graph,
                                  const struct xt_xpu_operand *keep,
                                  const struct xt_xpu_operand *factor, struct xt_err *err)
{
    enum xt_status status = xt_xpu_pin(graph, keep, "a dropout mask", &dropout->keep, err);
    return status ? status : xt_xpu_pin(graph, factor, "a dropout factor", &dropout->factor, err);
}

/* data = data * mask * factor */
static enum xt_status add_drop(struct dropout *dropout, enum xt_xpu_phase phase,
                               const struct xt_buffer *data, const struct xt_xpu_operand *mask,
                               const struct xt_xpu_operand *factor, struct xt_err *err)
{
    struct xt_xpu_operand operand = xt_xpu_tensor(dropout->in, data);
    struct xt_xpu_posts posts = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_mul, *factor)}};
    return xt_xpu_binary(dropout->op.program, phase, dnnl_binary_mul, &operand, mask, &operand,
                         &posts, err);
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct dropout *dropout = (struct dropout *)op;
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    if (!status)
        status = xt_dropout_use_buffers(dropout, graph, err);
    if (status || !graph->options.training)
        return status;
    struct xt_xpu_operand keep = xt_xpu_tensor(dropout->in, NULL);
    keep.dtype = dnnl_u8;
    keep.place = xt_xpu_in_memory(&dropout->keep);
    struct xt_xpu_operand host_factor = xt_xpu_scalar(xt_xpu_in_memory(&dropout->factor), 4);
    status = create_host(dropout, graph, &keep, &host_factor, err);
    struct xt_buffer *mask_buffer = status ? NULL
                                           : xt_graph_add_buffer(graph, dropout->op.name, "mask",
                                                                 xt_tensor_bytes(dropout->in), err);
    struct xt_buffer *factor_buffer =
        mask_buffer ? xt_xpu_permanent(graph, op->name, "factor", sizeof(float), err) : NULL;
    if (!factor_buffer)
        return err->status;
    xt_buffer_use(mask_buffer, xt_op_forward_time(op));
    xt_buffer_use(mask_buffer, xt_op_backward_time(graph, op));
    struct xt_xpu_operand mask = xt_xpu_tensor(dropout->in, mask_buffer);
    struct xt_xpu_operand factor = xt_xpu_scalar(xt_xpu_in_buffer(factor_buffer), 4);
    status = xt_xpu_reorder(op->program, XT_XPU_FORWARD, &host_factor, &factor, err);
    if (!status)
        status = xt_xpu_reorder(op->program, XT_XPU_FORWARD, &keep, &mask, err);
    if (!status)
        status = add_drop(dropout, XT_XPU_FORWARD, dropout->in->value, &mask, &factor, err);
    if (!status && !op->frozen)
        status = add_drop(dropout, XT_XPU_BACKWARD, dropout->in->grad[dropout->reader], &mask,
                          &factor, err);
    return status;
}

static void fill_mask(const struct dropout *dropout, const struct xt_graph *graph)
{
    const struct xt_tensor *t = dropout->in;
    size_t sample = xt_tensor_count(t) / (size_t)t->n;
    uint8_t *keep = dropout->keep.host;
    float *factor = dropout->factor.host;
    *factor = (float)(1 / (1 - graph->pass.dropout));
#pragma omp parallel for schedule(static)
    for (int n = 0; n < t->n; n++)
        graph->loops->keep(keep + (size_t)n * sample, sample,
                           xt_dropout_key(dropout, &graph->pass, n), 0,
                           xt_dropout_threshold(&graph->pass));
    xt_traffic_add(graph->options.device, XT_CAUSE_MASKS, true, dropout->keep.bytes);
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    if (!graph->pass.training || !(graph->pass.dropout > 0))
        return XT_OK;
    fill_mask((struct dropout *)op, graph);
    return xt_xpu_op_forward(op, graph, err);
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    return graph->pass.dropout > 0 ? xt_xpu_op_backward(op, graph, err) : XT_OK;
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return xt_xpu_program_implementation(
        op->program, is_backward ? XT_XPU_BACKWARD : XT_XPU_FORWARD, "an operation on two tensors");
}

static void destroy(struct xt_op *op)
{
    struct dropout *dropout = (struct dropout *)op;
    xt_device_memory_destroy(&dropout->keep);
    xt_device_memory_destroy(&dropout->factor);
}

const struct xt_op_class xt_xpu_dropout = {
    .kind = "dropout",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .implementation = implementation,
    .destroy = destroy,
};
