/* The network's input on an XPU: bytes become numbers there. The bytes are on the device already,
 * or are read over the bus from pinned memory that they are copied to. */
#include <string.h>

#include "models/xpu_ops.h"

static struct xt_xpu_operand pixels_of(const struct input *input)
{
    struct xt_xpu_operand operand = xt_xpu_tensor(input->out, NULL);
    operand.place = xt_xpu_in_memory(&input->pixels);
    operand.dtype = dnnl_u8;
    return operand;
}

/* Rounding to a 16-bit type comes last, as it does on the CPU: bytes are exact in all of them. */
static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct input *input = (struct input *)op;
    struct xt_xpu_operand pixels = pixels_of(input);
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    if (!status)
        status = xt_graph_use_value(graph, input->out, xt_op_forward_time(op), err);
    if (!status)
        status = xt_xpu_pin(graph, &pixels, "the batch's images", &input->pixels, err);
    if (status)
        return status;
    struct xt_xpu_operand out = xt_xpu_tensor(input->out, input->out->value);
    status = xt_xpu_reorder(op->program, XT_XPU_FORWARD, &pixels, &out, err);
    if (!status)
        status = xt_xpu_eltwise(op->program, XT_XPU_FORWARD, dnnl_eltwise_linear, input->scale,
                                -input->mean * input->scale, &out, &out, err);
    return status;
}

/* Where the pixels are; they are brought to pinned memory where they are on neither side of it. */
static struct xt_xpu_place find_pixels(struct input *input, struct xt_graph *graph)
{
    const struct xt_graph_pass *pass = &graph->pass;
    if (pass->uploaded)
        return xt_xpu_in_memory(pass->uploaded);
    memcpy(input->pixels.host, pass->pixels, input->pixels.bytes);
    xt_traffic_add(graph->options.device, XT_CAUSE_IMAGES, true, input->pixels.bytes);
    return xt_xpu_in_memory(&input->pixels);
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    enum { CONVERSION = 0 };
    struct input *input = (struct input *)op;
    const struct xt_graph_pass *pass = &graph->pass;
    if (!pass->uploaded && !pass->pixels)
        return xt_graph_write(graph, input->out->value, input->out->dtype, pass->floats,
                              xt_tensor_count(input->out), err);
    struct xt_xpu_place place = find_pixels(input, graph);
    enum xt_status status =
        xt_xpu_program_point(op->program, XT_XPU_FORWARD, CONVERSION, DNNL_ARG_FROM, &place, err);
    return status ? status : xt_xpu_op_forward(op, graph, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return is_backward ? ""
                       : xt_xpu_program_implementation(op->program, XT_XPU_FORWARD,
                                                       "an operation on each element");
}

static void destroy(struct xt_op *op)
{
    xt_device_memory_destroy(&((struct input *)op)->pixels);
}

const struct xt_op_class xt_xpu_input = {
    .kind = "input",
    .prepare = prepare,
    .forward = forward,
    .backward = xt_xpu_op_backward,
    .implementation = implementation,
    .destroy = destroy,
};
