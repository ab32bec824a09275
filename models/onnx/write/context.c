/* LPRNet's global context. The mean of a tap of several tensors is the mean of their means,
 * weighted by their share of the elements, so that any batch is possible. */

#include "models/onnx/write/exporter.h"

/* The mean of a tensor's squares, over each sample or over all. */
static const char *mean_square(struct xt_exporter *exporter, const struct xt_op *op,
                               const char *value, bool over_batch)
{
    static const int64_t axes[] = {0, 1, 2, 3};
    const char *squares = xt_export_node(
        exporter, op, &(struct xt_onnx_node){.type = "Mul", .inputs = {value, value}});
    return xt_export_node(
        exporter, op,
        &(struct xt_onnx_node){
            .type = "ReduceMean",
            .inputs = {squares},
            .attributes = {{"axes", over_batch ? axes : axes + 1, over_batch ? 4 : 3, 0, NULL}}});
}

/* The divisor of one group: the mean over its tensors plus epsilon. */
static const char *divisor(struct xt_exporter *exporter, const struct xt_op *op, int group)
{
    const struct xt_context_op *context = (const struct xt_context_op *)op;
    const char *sum = NULL;
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *t = xt_op_in(op, i);
        if (context->spec.group[i] != group)
            continue;
        double share = (double)t->h * t->w * t->c / context->group_count[group];
        const char *mean =
            mean_square(exporter, op, xt_export_in(exporter, t, XT_F32), context->spec.over_batch);
        if (share < 1)
            mean = xt_export_with_number(exporter, op, "Mul", mean, XT_F32, (float)share);
        sum = sum ? xt_export_node(exporter, op,
                                   &(struct xt_onnx_node){.type = "Add", .inputs = {sum, mean}})
                  : mean;
    }
    return sum ? xt_export_with_number(exporter, op, "Add", sum, XT_F32, (float)XT_CONTEXT_EPS)
               : "";
}

void xt_export_context(struct xt_exporter *exporter, const struct xt_op *op)
{
    static const int64_t height[] = {2};
    const struct xt_context_op *context = (const struct xt_context_op *)op;
    struct xt_onnx_node concat = {.type = "Concat", .attributes = {{"axis", .number = 1}}};
    const char *divisors[XT_TAPS_MAX];
    for (int g = 0; g < context->groups; g++)
        divisors[g] = divisor(exporter, op, g);
    for (int i = 0; i < context->spec.count; i++) {
        const struct xt_tensor *t = xt_op_in(op, i);
        const char *x = xt_export_in(exporter, t, XT_F32);
        if (t->h > 1)
            x = xt_export_node(
                exporter, op,
                &(struct xt_onnx_node){.type = "ReduceMean",
                                       .inputs = {x},
                                       .attributes = {{"axes", height, 1, 0, NULL}}});
        concat.inputs[i] = xt_export_node(
            exporter, op,
            &(struct xt_onnx_node){.type = "Div", .inputs = {x, divisors[context->spec.group[i]]}});
    }
    xt_export_out(exporter, xt_op_out(op, 0), xt_export_node(exporter, op, &concat), XT_F32);
}
_Static_assert((int)XT_TAPS_MAX <= (int)XT_ONNX_INPUTS_MAX, "a tap is an input of Concat");
