/* A parameter as a tensor of one sample, the same for all. Its readers sum its gradient over the
 * samples.
 */
#include <stdio.h>
#include <string.h>

#include "engine/ops/ops.h"

static struct xt_operand row_of(struct xt_location place, enum xt_dtype dtype, size_t count)
{
    return xt_operand_matrix(place, xt_dtype_dnnl(dtype), 1, count);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t count = xt_tensor_count(out);
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand from = row_of(xt_graph_value_of(graph, op->params[0]), XT_F32, count);
    struct xt_operand to = row_of(xt_in_buffer(out->value), out->dtype, count);
    xt_program_reorder(&op->program, XT_FORWARD, &from, &to);
    if (!xt_op_learns(op, graph))
        return;
    from = row_of(xt_in_buffer(out->grad[0]), out->dtype, count);
    to = row_of(xt_graph_grad_of(graph, op->params[0]), XT_F32, count);
    xt_program_reorder(&op->program, XT_BACKWARD, &from, &to);
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    memcpy(reference->out[0], reference->param[0],
           xt_tensor_count(xt_op_out(reference->op, 0)) * sizeof(double));
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    memcpy(reference->param_grad[0], reference->out_grad[0],
           xt_tensor_count(xt_op_out(reference->op, 0)) * sizeof(double));
    return XT_OK;
}

const struct xt_op_kind xt_kind_parameter = {
    .name = "parameter",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {xt_what_change, xt_what_change},
    .reference = {.forward = reference_forward, .backward = reference_backward, .roundings = 1},
};

struct xt_tensor *xt_graph_parameter(struct xt_graph *graph, const struct xt_parameter_spec *spec)
{
    struct xt_op *op = xt_graph_add_op(graph, &xt_kind_parameter, spec->name);
    struct xt_param param = {.role = XT_PARAM_OTHER,
                             .ndims = 3,
                             .dims = {spec->h, spec->w, spec->c},
                             .init = spec->init};
    int64_t elements = 1;
    if (!op)
        return NULL;
    for (int i = 0; i < spec->ndims; i++)
        elements *= spec->dims[i];
    if (spec->ndims && elements != (int64_t)spec->h * spec->w * spec->c)
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "parameter %s: %dx%dx%d elements, but %lld in a file", spec->name,
                               spec->h, spec->w, spec->c, (long long)elements);
    if (spec->ndims) {
        param.ndims = spec->ndims;
        memcpy(param.dims, spec->dims, sizeof param.dims);
    }
    memcpy(param.file_dims, param.dims, sizeof param.dims);
    snprintf(param.name, sizeof param.name, "%s", spec->name);
    if (spec->declared)
        xt_op_take_param(op, graph, *spec->declared);
    else if (xt_op_param(op, graph, &param) < 0)
        return NULL;
    op->of_parameters = true;
    struct xt_tensor *out = xt_op_write(op, graph, spec->name, 1, spec->h, spec->w, spec->c,
                                        spec->f32 ? XT_F32 : graph->options.dtype);
    if (out)
        out->one_reader = true;
    return out;
}
