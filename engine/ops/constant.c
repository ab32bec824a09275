/* Numbers of the network's description as a tensor of one sample, the same for all: coordinates, a
 * state that begins with zeros. Nothing learns here.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/ops/ops.h"

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_constant_op *constant = (struct xt_constant_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t count = xt_tensor_count(out);
    xt_graph_use(op, graph, 0, 0);
    struct xt_location place = xt_op_follow_host(op, graph, "numbers", count, &constant->host);
    struct xt_operand from = xt_operand_matrix(place, dnnl_f32, 1, count);
    struct xt_operand to =
        xt_operand_matrix(xt_in_buffer(out->value), xt_dtype_dnnl(out->dtype), 1, count);
    xt_program_reorder(&op->program, XT_FORWARD, &from, &to);
}

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_constant_op *constant = (struct xt_constant_op *)op;
    (void)graph;
    (void)err;
    memcpy(constant->host.host, constant->numbers,
           xt_tensor_count(xt_op_out(op, 0)) * sizeof *constant->numbers);
    return XT_OK;
}

static void destroy(struct xt_op *op)
{
    struct xt_constant_op *constant = (struct xt_constant_op *)op;
    free(constant->numbers);
    xt_device_memory_destroy(&constant->host);
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_constant_op *constant = (const struct xt_constant_op *)reference->op;
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++)
        reference->out[0][i] = (double)constant->numbers[i];
    return XT_OK;
}

const struct xt_op_kind xt_kind_constant = {
    .name = "constant",
    .size = sizeof(struct xt_constant_op),
    .describe = describe,
    .refresh = refresh,
    .what = {xt_what_change, NULL},
    .reference = {.forward = reference_forward, .roundings = 1},
    .destroy = destroy,
};

/* As a finite one of that type: a mask of float32's lowest number would be -infinity in 16 bits,
 * and a softmax of nothing else NaN. */
static float within(enum xt_dtype dtype, float number)
{
    const float most = dtype == XT_BF16 ? 0x1.FEp127F : dtype == XT_F16 ? 65504 : FLT_MAX;
    return isfinite(number) ? fminf(fmaxf(number, -most), most) : number;
}

struct xt_tensor *xt_graph_constant(struct xt_graph *graph, const struct xt_constant_spec *spec)
{
    struct xt_constant_op *constant = xt_graph_add_op(graph, &xt_kind_constant, spec->name);
    if (!constant)
        return NULL;
    constant->op.frozen = constant->op.of_parameters = true;
    struct xt_tensor *out = xt_op_write(&constant->op, graph, spec->name, 1, spec->h, spec->w,
                                        spec->c, spec->f32 ? XT_F32 : graph->options.dtype);
    size_t count = out ? xt_tensor_count(out) : 0;
    if (!out || (spec->count != 1 && spec->count != count))
        return xt_graph_refuse(graph, XT_ERR_RUN, "%s: %zu numbers are not %dx%dx%d", spec->name,
                               spec->count, spec->h, spec->w, spec->c);
    if (xt_mem_calloc(&constant->numbers, count, sizeof *constant->numbers, spec->name,
                      &graph->err))
        return NULL;
    for (size_t i = 0; i < count; i++)
        constant->numbers[i] = within(out->dtype, spec->numbers[spec->count == 1 ? 0 : i]);
    out->one_reader = true;
    return out;
}
