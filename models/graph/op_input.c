/* The network's input: the bytes of the batch slot as numbers, (v - mean) * scale. The bytes are on
 * the device already, or are read over the bus from pinned memory that they are copied to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/graph/executor.h"
#include "models/graph/ops.h"

/* q = v - 128 of the byte v = x / scale + mean. */
float xt_input_quantised(const struct xt_input_op *input, float x)
{
    float byte = rintf(x / input->scale + input->mean);
    return (byte < 0 ? 0 : byte > 255 ? 255 : byte) - 128;
}

/* ---- the program ---- */

/* Rounding to a 16-bit type comes last, as it does on the CPU: bytes are exact in all of them. */
static void add_normalise(struct xt_input_op *input, const struct xt_operand *pixels,
                          const struct xt_operand *out)
{
    struct xt_program *program = &input->op.program;
    xt_program_reorder(program, XT_FORWARD, pixels, out);
    xt_program_eltwise(program, XT_FORWARD, dnnl_eltwise_linear, input->scale,
                       -input->mean * input->scale, out, out);
}

/* int8: a byte v becomes v - 128. */
static void add_centre(struct xt_input_op *input, struct xt_graph *graph,
                       const struct xt_operand *pixels, const struct xt_operand *out)
{
    float shift = -(xt_op_out(&input->op, 0)->offset + input->mean);
    if (xt_graph_fails(graph) ||
        xt_device_memory_create_bytes(graph->options.device, sizeof shift, XT_ON_DEVICE,
                                      "what bytes are moved by", &input->shift, &graph->err) ||
        xt_device_memory_write(&input->shift, &shift, sizeof shift, XT_CAUSE_OTHER, &graph->err))
        return;
    struct xt_operand by = xt_operand_scalar(xt_in_memory(&input->shift), 4);
    xt_program_binary(&input->op.program, XT_FORWARD, dnnl_binary_add, pixels, &by, out, NULL);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_input_op *input = (struct xt_input_op *)op;
    const struct xt_tensor *tensor = xt_op_out(op, 0);
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand pixels = xt_operand_tensor(tensor, NULL);
    pixels.place = xt_in_memory(&input->pixels);
    pixels.dtype = dnnl_u8;
    xt_graph_pin(graph, &pixels, "the batch's images", &input->pixels);
    struct xt_operand out = xt_operand_tensor(tensor, tensor->value);
    if (xt_dtype_is_int8(tensor->dtype))
        add_centre(input, graph, &pixels, &out);
    else
        add_normalise(input, &pixels, &out);
}

/* Where the pixels are; they are brought to pinned memory where they are on neither side of it. */
static struct xt_location find_pixels(struct xt_input_op *input, struct xt_graph *graph)
{
    const struct xt_graph_pass *pass = &graph->pass;
    if (pass->uploaded)
        return xt_in_memory(pass->uploaded);
    memcpy(input->pixels.host, pass->pixels, input->pixels.bytes);
    xt_traffic_add(graph->options.device, XT_CAUSE_IMAGES, true, input->pixels.bytes);
    return xt_in_memory(&input->pixels);
}

/* Numbers that are normalised already. */
static enum xt_status write_floats(const struct xt_input_op *input, struct xt_graph *graph,
                                   struct xt_err *err)
{
    const struct xt_tensor *out = xt_op_out(&input->op, 0);
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

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err)
{
    enum { CONVERSION = 0 };
    struct xt_input_op *input = (struct xt_input_op *)op;
    const struct xt_graph_pass *pass = &graph->pass;
    if (backward)
        return XT_OK;
    *runs = pass->uploaded || pass->pixels;
    if (!*runs)
        return write_floats(input, graph, err);
    struct xt_location place = find_pixels(input, graph);
    return xt_program_point(&op->program, XT_FORWARD, CONVERSION, DNNL_ARG_SRC, &place, err);
}

static void destroy(struct xt_op *op)
{
    struct xt_input_op *input = (struct xt_input_op *)op;
    xt_device_memory_destroy(&input->pixels);
    xt_device_memory_destroy(&input->shift);
}

/* ---- in double precision ---- */

static enum xt_status plain_forward(struct xt_plain *plain)
{
    const struct xt_input_op *input = (const struct xt_input_op *)plain->op;
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(plain->op, 0)); i++)
        plain->out[0][i] =
            ((double)plain->graph->pass.pixels[i] - (double)input->mean) * (double)input->scale;
    return XT_OK;
}

static struct xt_bound bound(const struct xt_plain *plain, enum xt_part part, int which)
{
    (void)part;
    (void)which;
    return (struct xt_bound){.relative = xt_plain_relative(plain->op->dtype, 2, 1)};
}

const struct xt_op_kind xt_kind_input = {
    .name = "input",
    .size = sizeof(struct xt_input_op),
    .describe = describe,
    .before = before,
    .what = {xt_what_eltwise, NULL},
    .plain = {.forward = plain_forward, .bound = bound},
    .destroy = destroy,
};

struct xt_tensor *xt_graph_input(struct xt_graph *graph, int h, int w, float mean, float scale)
{
    struct xt_input_op *input = xt_graph_add_op(graph, &xt_kind_input, "input");
    struct xt_tensor *out = xt_op_write(&input->op, graph, "input", graph->options.batch, h, w, 3,
                                        graph->options.dtype);
    if (!out)
        return NULL;
    input->mean = mean;
    input->scale = scale;
    out->wants_grad = false;
    if (graph->options.int8) {
        out->dtype = XT_S8;
        out->scale = scale;
        out->offset = 128 - mean;
        input->op.dtype = XT_S8;
        input->op.out_bytes = xt_tensor_bytes(out);
    }
    return out;
}
