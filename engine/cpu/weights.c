/* The weights' copies for kernels of matrix tiles: all copies of one weight while it is in cache.
 */
#include "engine/cpu/cpu.h"

bool xt_cpu_weights_are(const struct xt_conv_op *conv, struct xt_graph *graph,
                        dnnl_format_tag_t format)
{
    const struct xt_params *params = graph->options.params;
    const struct xt_param *weight = &params->items[conv->weight];
    int64_t dims[] = {xt_op_out(&conv->op, 0)->c, xt_op_in(&conv->op, 0)->c, conv->kernel[0],
                      conv->kernel[1]};
    struct xt_program program;
    if (!params->values)
        return graph->backend->master_format && !xt_param_is_shared(graph, conv->weight);
    xt_program_init(&program, graph->options.device, conv->op.name, &graph->err);
    const_dnnl_memory_desc_t md = xt_program_layout_as(&program, dnnl_f32, 4, dims, format);
    bool same = weight->md && md && xt_dnnl.memory_desc_equal(weight->md, md);
    xt_program_clear(&program);
    return same;
}

struct xt_buffer *xt_cpu_add_weight_copy(struct xt_conv_op *conv, struct xt_graph *graph,
                                         const struct xt_weight_copy *copy)
{
    struct xt_buffer *to =
        xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS, xt_weight_copy_bytes(copy));
    conv->copied_from = xt_graph_value_of(graph, conv->weight);
    conv->copied_to[conv->copy_count] = xt_in_buffer(to);
    conv->copies[conv->copy_count++] = *copy;
    return to;
}

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

static void copy_blocks(const struct xt_graph *graph, const struct xt_conv_op *conv, size_t first,
                        size_t end)
{
    for (int k = 0; k < conv->copy_count; k++)
        graph->loops->copy_weights(&conv->copies[k], first, end);
}

enum xt_status xt_cpu_copy_weights(struct xt_graph *graph, struct xt_err *err)
{
    enum { SOME = 64 /* blocks that are all copied while they are in cache */ };
    for (int i = 0; i < graph->op_count; i++)
        if (copied(graph, i) && place(copied(graph, i), err))
            return err->status;
#pragma omp parallel
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_conv_op *conv = copied(graph, i);
        size_t blocks = conv ? xt_weight_copy_blocks(&conv->copies[0]) : 0;
#pragma omp for schedule(static) nowait
        for (size_t first = 0; first < blocks; first += SOME)
            copy_blocks(graph, conv, first, blocks - first < SOME ? blocks : first + SOME);
    }
    return XT_OK;
}

void xt_cpu_copy_values(struct xt_graph *graph, size_t offset, size_t count)
{
    enum { BLOCK = 16 * 16 };
    const float *values = graph->options.params->values + offset;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_conv_op *conv = copied(graph, i);
        const float *from = conv ? conv->copies[0].from : NULL;
        size_t blocks = conv ? xt_weight_copy_blocks(&conv->copies[0]) : 0;
        if (values >= from && values < from + blocks * BLOCK) {
            size_t first = (size_t)(values - from) / BLOCK;
            copy_blocks(graph, conv, first, first + count / BLOCK);
        }
    }
}
