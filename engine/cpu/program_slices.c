/* Sums, products, functions of each element and casts run their program by slices too, in
 * inference. */
#include "engine/cpu/cpu.h"

/* Of int8 it also reads the float32 numbers that it becomes. */
bool xt_cpu_program_can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward,
                              int samples)
{
    size_t bytes = xt_tensor_sample_bytes(xt_op_out(op, 0));
    for (int i = 0; i < op->input_count; i++) {
        size_t own = xt_tensor_sample_bytes(xt_op_in(op, i));
        bytes += xt_dtype_is_int8(xt_op_in(op, i)->dtype) ? own * (1 + sizeof(float)) : own;
    }
    return !graph->options.training && !backward &&
           bytes * (size_t)samples <= graph->slices.bytes_most;
}

enum xt_status xt_cpu_program_forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                            const struct xt_slice *slice, struct xt_err *err)
{
    (void)graph;
    (void)second;
    return xt_program_run_slice(&op->program, XT_FORWARD, slice->worker, slice->first, err);
}

const struct xt_by_slices xt_cpu_program_by_slices = {.can = xt_cpu_program_can_slice,
                                                      .forward = xt_cpu_program_forward_slice};
