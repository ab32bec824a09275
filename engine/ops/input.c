/* The network's input: the bytes of the batch slot as numbers, (v - mean) * scale of each channel.
 * The bytes are on the device already, or are copied to pinned memory that the device reads.
 *
 * A network of one channel reads grey levels, ITU-R BT.601's luma as an integer: the numbers of
 * Pillow's convert("L") but for exact halves, which become even.
 *
 * An int8 tensor has one scale: if all channels are normalised alike, it holds bytes as v - 128;
 * else normalised numbers, with a scale set by their largest magnitude. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"

bool xt_normalise_is_uniform(const struct xt_normalise *normalise)
{
    for (int k = 1; k < 3; k++)
        if (normalise->mean[k] != normalise->mean[0] || normalise->scale[k] != normalise->scale[0])
            return false;
    return true;
}

/* Parts of 65536, of red, green and blue. */
enum { RED = 19595, GREEN = 38470, BLUE = 7471 };
const float xt_input_luma[XT_PIXEL_BYTES] = {RED / 65536.0f, GREEN / 65536.0f, BLUE / 65536.0f};

uint8_t xt_input_grey(const uint8_t *pixel)
{
    enum { HALF = 1 << 15 };
    uint32_t sum = (uint32_t)(RED * pixel[0] + GREEN * pixel[1] + BLUE * pixel[2]);
    /* A half becomes even, as the devices round. */
    return (uint8_t)((sum + HALF - 1 + (sum >> 16 & 1)) >> 16);
}

/* The tensor holds bytes minus 128. */
float xt_input_quantised(const struct xt_input_op *input, float x)
{
    const struct xt_tensor *out = xt_op_out(&input->op, 0);
    float byte = rintf(x / out->scale + (128 - out->offset));
    return (byte < 0 ? 0 : byte > 255 ? 255 : byte) - 128;
}

/* The largest magnitude of a normalised byte. */
static float farthest(const struct xt_normalise *normalise)
{
    float most = 0;
    for (int k = 0; k < 3; k++)
        most =
            fmaxf(most, fmaxf(normalise->mean[k], 255 - normalise->mean[k]) * normalise->scale[k]);
    return most;
}

/* ---- the program ---- */

/* Rounding to a 16-bit type comes last, as it does on the CPU: bytes are exact in all of them. */
static void add_normalise(struct xt_input_op *input, const struct xt_operand *pixels,
                          const struct xt_operand *out)
{
    struct xt_program *program = &input->op.program;
    xt_program_reorder(program, XT_FORWARD, pixels, out);
    xt_program_eltwise(program, XT_FORWARD, dnnl_eltwise_linear, input->normalise.scale[0],
                       -input->normalise.mean[0] * input->normalise.scale[0], out, out);
}

/* One number for each channel of [n][c][h][w]. */
static struct xt_operand of_channels(const struct xt_device_memory *memory,
                                     const size_t *floats_before)
{
    static const int64_t dims[] = {1, 3, 1, 1};
    return xt_operand_dense(xt_in_arena(memory, floats_before), dnnl_f32, 4, dims);
}

static void write_factors(struct xt_input_op *input, struct xt_graph *graph, const float *factors,
                          size_t bytes)
{
    if (!xt_graph_fails(graph) &&
        !xt_device_memory_create_bytes(graph->options.device, bytes, XT_ON_DEVICE,
                                       "the pixels' normalisation", &input->factors, &graph->err))
        xt_device_memory_write(&input->factors, factors, bytes, XT_CAUSE_OTHER, &graph->err);
}

/* v * scale - mean * scale, rounded once; for int8 in units of the tensor's scale. */
static void add_normalise_channels(struct xt_input_op *input, struct xt_graph *graph,
                                   const struct xt_operand *pixels, const struct xt_operand *out)
{
    enum { LINE = 16 }; /* floats: each array begins a cache line */
    static const size_t added_at = LINE;
    const struct xt_tensor *tensor = xt_op_out(&input->op, 0);
    const struct xt_normalise *normalise = &input->normalise;
    struct xt_program *program = &input->op.program;
    float factors[2 * LINE] = {0};
    for (int k = 0; k < 3; k++) {
        factors[k] = normalise->scale[k] / tensor->scale;
        factors[LINE + k] = -normalise->mean[k] * factors[k];
    }
    write_factors(input, graph, factors, sizeof factors);
    const struct xt_operand scales = of_channels(&input->factors, NULL);
    struct xt_post_ops post_ops = {
        1, {xt_then_with(dnnl_binary_add, of_channels(&input->factors, &added_at))}};
    bool is_int8 = xt_dtype_is_int8(tensor->dtype);
    if (!is_int8)
        xt_program_reorder(program, XT_FORWARD, pixels, out);
    xt_program_binary(program, XT_FORWARD, dnnl_binary_mul, is_int8 ? pixels : out, &scales, out,
                      &post_ops);
}

/* int8: a byte v becomes v - 128. */
static void add_centre(struct xt_input_op *input, struct xt_graph *graph,
                       const struct xt_operand *pixels, const struct xt_operand *out)
{
    float shift = -(xt_op_out(&input->op, 0)->offset + input->normalise.mean[0]);
    if (xt_graph_fails(graph) ||
        xt_device_memory_create_bytes(graph->options.device, sizeof shift, XT_ON_DEVICE,
                                      "the bytes' zero point", &input->shift, &graph->err) ||
        xt_device_memory_write(&input->shift, &shift, sizeof shift, XT_CAUSE_OTHER, &graph->err))
        return;
    struct xt_operand by = xt_operand_scalar(xt_in_memory(&input->shift), 4);
    xt_program_binary(&input->op.program, XT_FORWARD, dnnl_binary_add, pixels, &by, out, NULL);
}

/* The grey levels of bytes, in float32. Products and sums are exact, so that the order of the sum
 * does not matter. */
static struct xt_operand add_grey(struct xt_input_op *input, struct xt_graph *graph,
                                  const struct xt_operand *pixels)
{
    static const int64_t column[] = {XT_PIXEL_BYTES, 1};
    struct xt_op *op = &input->op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const int time = xt_op_forward_time(op);
    size_t count = xt_tensor_count(out);
    struct xt_operand of_colours = *pixels;
    struct xt_operand grey =
        xt_operand_tensor(out, xt_graph_temporary(graph, out, count * sizeof(float), time));
    of_colours.place =
        xt_in_buffer(xt_graph_temporary(graph, out, XT_PIXEL_BYTES * count * sizeof(float), time));
    of_colours.dtype = grey.dtype = dnnl_f32;
    write_factors(input, graph, xt_input_luma, sizeof xt_input_luma);
    xt_program_reorder(&op->program, XT_FORWARD, pixels, &of_colours);
    const struct xt_operand from =
        xt_operand_matrix(of_colours.place, dnnl_f32, count, XT_PIXEL_BYTES);
    const struct xt_operand to = xt_operand_matrix(grey.place, dnnl_f32, count, 1);
    const struct xt_operand luma =
        xt_operand_dense(xt_in_memory(&input->factors), dnnl_f32, 2, column);
    const struct xt_post_ops rounded = {1, {xt_then(dnnl_eltwise_round, 0, 0)}};
    xt_program_matmul(&op->program, XT_FORWARD, &from, &luma, &to, &rounded);
    return grey;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_input_op *input = (struct xt_input_op *)op;
    const struct xt_tensor *tensor = xt_op_out(op, 0);
    const struct xt_tensor colours = {
        .n = tensor->n, .h = tensor->h, .w = tensor->w, .c = XT_PIXEL_BYTES};
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand pixels = xt_operand_tensor(&colours, NULL);
    pixels.place = xt_in_memory(&input->pixels);
    pixels.dtype = dnnl_u8;
    xt_graph_pin(graph, &pixels, "the batch's images", &input->pixels);
    if (tensor->c == 1)
        pixels = add_grey(input, graph, &pixels);
    struct xt_operand out = xt_operand_tensor(tensor, tensor->value);
    if (!xt_normalise_is_uniform(&input->normalise))
        add_normalise_channels(input, graph, &pixels, &out);
    else if (xt_dtype_is_int8(tensor->dtype))
        add_centre(input, graph, &pixels, &out);
    else
        add_normalise(input, &pixels, &out);
}

/* The pixels' location; copies them to pinned memory if the device cannot read them. */
static struct xt_location find_pixels(struct xt_input_op *input, struct xt_graph *graph)
{
    const struct xt_graph_pass *pass = &graph->pass;
    if (pass->uploaded)
        return xt_in_memory(pass->uploaded);
    memcpy(input->pixels.host, pass->pixels, input->pixels.bytes);
    xt_traffic_add(graph->options.device, XT_CAUSE_IMAGES, true, input->pixels.bytes);
    return xt_in_memory(&input->pixels);
}

/* Numbers are normalised already. */
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
    xt_device_memory_destroy(&input->factors);
}

/* ---- in double precision ---- */

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    const struct xt_normalise *by = &((const struct xt_input_op *)reference->op)->normalise;
    const uint8_t *pixels = reference->graph->pass.pixels;
    for (size_t i = 0; i < xt_tensor_count(out); i++) {
        double byte = out->c == 1 ? xt_input_grey(pixels + XT_PIXEL_BYTES * i) : pixels[i];
        reference->out[0][i] = (byte - (double)by->mean[i % 3]) * (double)by->scale[i % 3];
    }
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    (void)part;
    (void)which;
    const struct xt_input_op *input = (const struct xt_input_op *)reference->op;
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    bool is_rounded = xt_dtype_is_int8(out->dtype) && !xt_normalise_is_uniform(&input->normalise);
    return (struct xt_bound){.relative = xt_reference_op_relative(reference->op->dtype, 2, 1),
                             .absolute = is_rounded ? 0.501 * (double)out->scale : 0};
}

const struct xt_op_kind xt_kind_input = {
    .name = "input",
    .size = sizeof(struct xt_input_op),
    .describe = describe,
    .before = before,
    .reference = {.forward = reference_forward, .bound = bound},
    .destroy = destroy,
};

static struct xt_normalise of_first(const struct xt_normalise *normalise)
{
    struct xt_normalise out;
    for (int k = 0; k < 3; k++) {
        out.mean[k] = normalise->mean[0];
        out.scale[k] = normalise->scale[0];
    }
    return out;
}

size_t xt_graph_slot_bytes(const struct xt_graph *graph)
{
    struct xt_tensor pixels = *graph->tensors[0];
    pixels.c = XT_PIXEL_BYTES;
    return xt_tensor_count(&pixels);
}

struct xt_tensor *xt_graph_input(struct xt_graph *graph, int h, int w, int c,
                                 const struct xt_normalise *normalise)
{
    if (c != 1 && c != XT_PIXEL_BYTES)
        return xt_graph_refuse(graph, XT_ERR_DATA,
                               "a network that reads images of %d channels: 3, red, green and "
                               "blue, or 1, grey, are supported",
                               c);
    struct xt_input_op *input = xt_graph_add_op(graph, &xt_kind_input, "input");
    struct xt_tensor *out = xt_op_write(&input->op, graph, "input", graph->options.batch, h, w, c,
                                        graph->options.dtype);
    if (!out)
        return NULL;
    input->normalise = c == 1 ? of_first(normalise) : *normalise;
    out->wants_grad = false;
    if (graph->options.int8) {
        out->dtype = XT_S8;
        const struct xt_normalise *by = &input->normalise;
        bool is_uniform = xt_normalise_is_uniform(by);
        out->scale = is_uniform ? by->scale[0] : farthest(by) / 127;
        out->offset = is_uniform ? 128 - by->mean[0] : 0;
        input->op.dtype = XT_S8;
        input->op.out_bytes = xt_tensor_bytes(out);
    }
    return out;
}
