/* The network's input on an XPU: bytes become numbers there. The bytes are on the device already,
 * or are read over the bus from pinned memory that they are copied to. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/graph/xpu_ops.h"

static const char what_bytes[] = "an operation on two tensors";
static const char what_numbers[] = "an operation on each element";

static struct xt_xpu_operand pixels_of(const struct input *input)
{
    struct xt_xpu_operand operand = xt_xpu_tensor(input->out, NULL);
    operand.place = xt_xpu_in_memory(&input->pixels);
    operand.dtype = dnnl_u8;
    return operand;
}

/* Rounding to a 16-bit type comes last, as it does on the CPU: bytes are exact in all of them. */
static enum xt_status add_normalise(struct input *input, const struct xt_xpu_operand *pixels,
                                    const struct xt_xpu_operand *out, struct xt_err *err)
{
    struct xt_xpu_program *program = input->op.program;
    enum xt_status status = xt_xpu_reorder(program, XT_XPU_FORWARD, pixels, out, err);
    return status ? status
                  : xt_xpu_eltwise(program, XT_XPU_FORWARD, dnnl_eltwise_linear, input->scale,
                                   -input->mean * input->scale, out, out, err);
}

/* int8: a byte v becomes v - 128. */
static enum xt_status add_centre(struct input *input, struct xt_device *device,
                                 const struct xt_xpu_operand *pixels,
                                 const struct xt_xpu_operand *out, struct xt_err *err)
{
    float shift = -(input->out->offset + input->mean);
    enum xt_status status = xt_device_memory_create_bytes(
        device, sizeof shift, XT_ON_DEVICE, "what bytes are moved by", &input->shift, err);
    if (!status)
        status = xt_device_memory_write(&input->shift, &shift, sizeof shift, XT_CAUSE_OTHER, err);
    struct xt_xpu_operand by = xt_xpu_scalar(xt_xpu_in_memory(&input->shift), 4);
    return status ? status
                  : xt_xpu_binary(input->op.program, XT_XPU_FORWARD, dnnl_binary_add, pixels, &by,
                                  out, NULL, err);
}

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
    return xt_dtype_is_int8(input->out->dtype)
               ? add_centre(input, graph->options.device, &pixels, &out, err)
               : add_normalise(input, &pixels, &out, err);
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

/* Numbers that are normalised already. */
static enum xt_status write_floats(const struct input *input, struct xt_graph *graph,
                                   struct xt_err *err)
{
    const struct xt_tensor *out = input->out;
    const float *floats = graph->pass.floats;
    size_t count = xt_tensor_count(out);
    if (!xt_dtype_is_int8(out->dtype))
        return xt_graph_write(graph, out->value, out->dtype, floats, count, err);
    float *held = NULL;
    enum xt_status status = xt_mem_calloc(&held, count, sizeof *held, out->name, err);
    for (size_t i = 0; i < count && !status; i++)
        held[i] = xt_input_quantised(input, floats[i]);
    if (!status)
        status = xt_graph_write(graph, out->value, out->dtype, held, count, err);
    free(held);
    return status;
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    enum { CONVERSION = 0 };
    struct input *input = (struct input *)op;
    const struct xt_graph_pass *pass = &graph->pass;
    if (!pass->uploaded && !pass->pixels)
        return write_floats(input, graph, err);
    struct xt_xpu_place place = find_pixels(input, graph);
    enum xt_status status =
        xt_xpu_program_point(op->program, XT_XPU_FORWARD, CONVERSION, DNNL_ARG_SRC, &place, err);
    return status ? status : xt_xpu_op_forward(op, graph, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    bool is_int8 = xt_dtype_is_int8(((const struct input *)op)->out->dtype);
    return is_backward ? ""
                       : xt_xpu_program_implementation(op->program, XT_XPU_FORWARD,
                                                       is_int8 ? what_bytes : what_numbers);
}

static void destroy(struct xt_op *op)
{
    struct input *input = (struct input *)op;
    xt_device_memory_destroy(&input->pixels);
    xt_device_memory_destroy(&input->shift);
}

const struct xt_op_class xt_xpu_input = {
    .kind = "input",
    .prepare = prepare,
    .forward = forward,
    .backward = xt_xpu_op_backward,
    .implementation = implementation,
    .destroy = destroy,
};
