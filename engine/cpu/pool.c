/* The pools of a fused graph, row by row. */
#include "engine/cpu/cpu.h"

void xt_cpu_pool_prepare(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    xt_graph_want_scratch(graph, (size_t)in->w * (size_t)in->c);
    xt_graph_use(op, graph, 0, 0);
}

/* Rows [first, end) of a sample's output. */
static void run_rows(const struct xt_op *op, const struct xt_graph *graph, int n, int first,
                     int end)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const void *from = xt_tensor_sample(in, in->value, n);
    void *to = xt_tensor_sample(out, out->value, n);
    float *scratch = xt_graph_loop_scratch(graph);
    if (!pool->average)
        graph->loops->max_pool(in->dtype, from, in->h, in->w, in->c, &pool->window,
                               (int[]){first, end}, scratch, to);
    for (int oy = first; oy < end && pool->average; oy++)
        graph->loops->average_pool_row(in->dtype, from, in->w, in->c, &pool->window, oy, in->scale,
                                       scratch,
                                       (float *)to + (size_t)oy * (size_t)out->w * (size_t)out->c);
}

/* Parallel over samples, or over rows if there are fewer samples than threads. */
enum xt_status xt_cpu_pool_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    int threads = graph->options.device->threads;
    int parts = out->n % threads == 0 ? 1 : out->h < threads ? out->h : threads;
    (void)err;
#pragma omp parallel for collapse(2) schedule(static)
    for (int n = 0; n < out->n; n++)
        for (int part = 0; part < parts; part++)
            run_rows(op, graph, n, out->h * part / parts, out->h * (part + 1) / parts);
    return XT_OK;
}

static void run_sample(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n)
{
    (void)backward;
    (void)second;
    run_rows(op, graph, n, 0, xt_op_out(op, 0)->h);
}

const struct xt_by_slices xt_cpu_pool_by_slices = {.sample = run_sample};
