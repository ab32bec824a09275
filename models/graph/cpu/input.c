/* The batch slot's bytes, or numbers that are normalised already, as the network's input. */
#include "models/graph/cpu/cpu.h"

void xt_cpu_input_prepare(struct xt_op *op, struct xt_graph *graph)
{
    xt_graph_use(op, graph, 0, 0);
}

static void take_floats(const struct xt_input_op *input, const struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(&input->op, 0);
    const float *from = graph->pass.floats;
    size_t count = xt_tensor_count(out);
    int8_t *to = out->value->data;
    if (out->dtype != XT_S8) {
        graph->loops->convert(out->dtype, from, count, out->value->data);
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = (int8_t)xt_input_quantised(input, from[i]);
}

enum xt_status xt_cpu_input_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_input_op *input = (const struct xt_input_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t sample = xt_tensor_count(out) / (size_t)out->n;
    const uint8_t *pixels = graph->pass.pixels;
    bool centred = out->dtype == XT_S8 && xt_normalise_is_uniform(&input->normalise);
    float scale[3];
    for (int k = 0; k < 3; k++)
        scale[k] = input->normalise.scale[k] / out->scale;
    (void)err;
    if (!pixels) {
        take_floats(input, graph);
        return XT_OK;
    }
#pragma omp parallel for schedule(static)
    for (int n = 0; n < out->n; n++) {
        const uint8_t *from = pixels + (size_t)n * sample;
        void *to = xt_tensor_sample(out, out->value, n);
        if (centred)
            graph->loops->centre(from, sample, to);
        else
            graph->loops->normalise(out->dtype, from, sample, input->normalise.mean, scale, to);
    }
    return XT_OK;
}
