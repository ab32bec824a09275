/* Sums, products and functions of each element run their program by slices too, in inference. */
#include "engine/cpu/cpu.h"

/* The bytes of a sample that an op reads: of int8 also the float32 numbers that they become. */
static size_t reads(const struct xt_tensor *in)
{
    size_t numbers = xt_tensor_count(in) / (size_t)in->n;
    return xt_dtype_is_int8(in->dtype) ? numbers * (1 + sizeof(float))
                                       : numbers * xt_dtype_size(in->dtype);
}

bool xt_cpu_program_can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward,
                              int samples)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t bytes = xt_tensor_bytes(out) / (size_t)out->n;
    for (int i = 0; i < op->input_count; i++)
        bytes += reads(xt_op_in(op, i));
    return !graph->options.training && !backward && graph->slices.even &&
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
