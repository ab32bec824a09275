/* The network's input: the bytes of the batch slot as numbers, (v - mean) * scale. */
#include <math.h>
#include <string.h>

#include "models/graph/xpu_ops.h"

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct input *input = (struct input *)op;
    return xt_graph_use_value(graph, input->out, xt_op_forward_time(op), err);
}

/* q = v - 128 of the byte v = x / scale + mean. */
float xt_input_quantised(const struct input *input, float x)
{
    float byte = rintf(x / input->scale + input->mean);
    return (byte < 0 ? 0 : byte > 255 ? 255 : byte) - 128;
}

static void quantise(const struct input *input, const float *from, int8_t *to)
{
    size_t count = xt_tensor_count(input->out);
    for (size_t i = 0; i < count; i++)
        to[i] = (int8_t)xt_input_quantised(input, from[i]);
}

static void convert_sample(const struct input *input, const struct xt_loops *loops,
                           const uint8_t *pixels, size_t count, void *to)
{
    if (input->out->dtype == XT_S8)
        loops->centre(pixels, count, to);
    else
        loops->normalise(input->out->dtype, pixels, count, input->mean, input->scale, to);
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct input *input = (struct input *)op;
    const struct xt_tensor *out = input->out;
    size_t sample = (size_t)out->h * (size_t)out->w * (size_t)out->c;
    size_t bytes = sample * xt_dtype_size(out->dtype);
    const uint8_t *pixels = graph->pass.pixels;
    char *to = out->value->data;
    if (!pixels && out->dtype == XT_S8) {
        quantise(input, graph->pass.floats, out->value->data);
        return XT_OK;
    }
    if (!pixels) {
        graph->loops->convert(out->dtype, graph->pass.floats, xt_tensor_count(out), to);
        return XT_OK;
    }
#pragma omp parallel for schedule(static)
    for (int n = 0; n < out->n; n++)
        convert_sample(input, graph->loops, pixels + (size_t)n * sample, sample,
                       to + (size_t)n * bytes);
    return XT_OK;
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)op;
    (void)graph;
    (void)err;
    return XT_OK;
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    (void)op;
    return is_backward ? "" : "xtrain loops";
}

static const struct xt_op_class class_input = {
    .kind = "input",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .implementation = implementation,
};

struct xt_tensor *xt_graph_input(struct xt_graph *graph, int h, int w, float mean, float scale,
                                 struct xt_err *err)
{
    struct input *input = xt_graph_add_op(
        graph, sizeof *input, xt_on_xpu(graph) ? &xt_xpu_input : &class_input, "input", err);
    if (!input)
        return NULL;
    input->mean = mean;
    input->scale = scale;
    input->out = xt_graph_add_tensor(graph, "input", graph->options.batch, h, w, 3,
                                     graph->options.dtype, err);
    if (!input->out)
        return NULL;
    input->out->wants_grad = false;
    if (graph->options.int8) {
        input->out->dtype = XT_S8;
        input->out->scale = scale;
        input->out->offset = 128 - mean;
    }
    input->op.dtype = input->out->dtype;
    input->op.out_bytes = xt_tensor_bytes(input->out);
    return input->out;
}
