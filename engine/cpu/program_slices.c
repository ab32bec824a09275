/* Sums, products and functions of each element run their program by slices too, in inference. */
#include "engine/cpu/cpu.h"

/* Not of int8, whose numbers are computed first, of the whole batch. */
bool xt_cpu_program_can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward,
                              int samples)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t bytes = xt_tensor_bytes(out);
    for (int i = 0; i < op->input_count; i++) {
        if (xt_op_in(op, i)->dtype != out->dtype)
            return false;
        bytes += xt_tensor_bytes(xt_op_in(op, i));
    }
    return !graph->options.training && !backward && graph->slices.even &&
           !xt_dtype_is_int8(out->dtype) &&
           bytes / (size_t)out->n * (size_t)samples <= graph->slices.bytes_most;
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
