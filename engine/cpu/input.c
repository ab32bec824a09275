/* The batch slot's bytes, or numbers that are normalised already, as the network's input. */
#include "engine/cpu/cpu.h"

void xt_cpu_input_prepare(struct xt_op *op, struct xt_graph *graph)
{
    xt_graph_use(op, graph, 0, 0);
}

/* Of numbers that are normalised already. */
static void take_floats(const struct xt_input_op *input, const struct xt_graph *graph,
                        const float *from, size_t count, void *out)
{
    enum xt_dtype dtype = xt_op_out(&input->op, 0)->dtype;
    int8_t *to = out;
    if (dtype != XT_S8) {
        graph->loops->convert(dtype, from, count, out);
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = (int8_t)xt_input_quantised(input, from[i]);
}

static void take_bytes(const struct xt_input_op *input, const struct xt_graph *graph,
                       const uint8_t *from, size_t count, void *to)
{
    const struct xt_tensor *out = xt_op_out(&input->op, 0);
    float scale[3];
    if (out->dtype == XT_S8 && xt_normalise_is_uniform(&input->normalise)) {
        graph->loops->centre(from, count, to);
        return;
    }
    for (int k = 0; k < 3; k++)
        scale[k] = input->normalise.scale[k] / out->scale;
    graph->loops->normalise(out->dtype, from, count, input->normalise.mean, scale, to);
}

/* `count` pixels as their grey levels. */
static void take_grey(const struct xt_input_op *input, const struct xt_graph *graph,
                      const uint8_t *from, size_t count, void *out)
{
    enum { SOME = 1024 };
    uint8_t grey[SOME];
    char *to = out;
    size_t size = xt_dtype_size(xt_op_out(&input->op, 0)->dtype);
    for (size_t some = 0; count; count -= some, to += some * size) {
        some = count < SOME ? count : SOME;
        for (size_t i = 0; i < some; i++, from += XT_PIXEL_BYTES)
            grey[i] = xt_input_grey(from);
        take_bytes(input, graph, grey, some, to);
    }
}

static void take_sample(const struct xt_op *op, const struct xt_graph *graph, int n)
{
    const struct xt_input_op *input = (const struct xt_input_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t pixels = (size_t)out->h * (size_t)out->w;
    size_t count = pixels * (size_t)out->c;
    void *to = xt_tensor_sample(out, out->value, n);
    if (!graph->pass.pixels) {
        take_floats(input, graph, graph->pass.floats + (size_t)n * count, count, to);
        return;
    }
    const uint8_t *bytes = graph->pass.pixels + (size_t)n * pixels * XT_PIXEL_BYTES;
    if (out->c == 1)
        take_grey(input, graph, bytes, pixels, to);
    else
        take_bytes(input, graph, bytes, count, to);
}

enum xt_status xt_cpu_input_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_out(op, 0)->n; n++)
        take_sample(op, graph, n);
    return XT_OK;
}

static bool can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward, int samples)
{
    (void)samples;
    (void)op;
    return !graph->options.training && !backward;
}

static void run_sample(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n)
{
    (void)backward;
    (void)second;
    take_sample(op, graph, n);
}

const struct xt_by_slices xt_cpu_input_by_slices = {.can = can_slice, .sample = run_sample};
