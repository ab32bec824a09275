/* The weights' copies for bf16 kernels: all that are made of one weight while it is in the cache.
 */
#include "models/graph/cpu/cpu.h"

static struct xt_conv_op *copied(struct xt_graph *graph, int i)
{
    struct xt_conv_op *conv =
        graph->ops[i]->kind == &xt_kind_conv ? (struct xt_conv_op *)graph->ops[i] : NULL;
    return conv && conv->copy_count ? conv : NULL;
}

static enum xt_status place(struct xt_conv_op *conv, struct xt_err *err)
{
    const struct xt_program *program = &conv->op.program;
    const float *from = xt_program_address(program, &conv->copied_from, err);
    for (int k = 0; k < conv->copy_count && from; k++) {
        conv->copies[k].from = from;
        conv->copies[k].to = xt_program_address(program, &conv->copied_to[k], err);
        if (!conv->copies[k].to)
            return err->status;
    }
    return from ? XT_OK : err->status;
}

static void copy_row(const struct xt_graph *graph, const struct xt_conv_op *conv, int row)
{
    for (int k = 0; k < conv->copy_count; k++)
        graph->loops->copy_weights(&conv->copies[k], row);
}

enum xt_status xt_cpu_copy_weights(struct xt_graph *graph, struct xt_err *err)
{
    enum { ROW = 16 };
    for (int i = 0; i < graph->op_count; i++)
        if (copied(graph, i) && place(copied(graph, i), err))
            return err->status;
#pragma omp parallel
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_conv_op *conv = copied(graph, i);
        int rows = conv ? conv->copies[0].out / ROW : 0;
#pragma omp for schedule(static) nowait
        for (int row = 0; row < rows; row++)
            copy_row(graph, conv, row);
    }
    return XT_OK;
}
