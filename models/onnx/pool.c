/* Max and average pools. */
#include <float.h>

#include "models/onnx/exporter.h"

const char *xt_export_pool(struct xt_exporter *exporter, const struct xt_op *op, const char *value,
                           const struct xt_window *window, bool average)
{
    const int64_t kernel[] = {window->kernel_h, window->kernel_w};
    const int64_t strides[] = {window->stride_h, window->stride_w};
    const int64_t pads[] = {window->pad_h, window->pad_w, window->pad_h, window->pad_w};
    bool is_copy = kernel[0] == 1 && kernel[1] == 1 && strides[0] == 1 && strides[1] == 1;
    if (is_copy)
        return value;
    /* What is outside counts in neither, as ONNX has it unless told otherwise. */
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = average ? "AveragePool" : "MaxPool",
                                                 .inputs = {value},
                                                 .attributes = {{"kernel_shape", kernel, 2, 0},
                                                                {"strides", strides, 2, 0},
                                                                {"pads", pads, 4, 0}}});
}

void xt_export_pool_op(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *in = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    /* A mean of int8 numbers is none. OpenVINO would take it in int8, rounding down, were there not
     * something between that it leaves in float32: this, which changes nothing. */
    if (pool->average && xt_dtype_is_int8(xt_op_in(op, 0)->dtype))
        in = xt_export_with_number(exporter, op, "Max", in, dtype, -FLT_MAX);
    xt_export_out(exporter, out, xt_export_pool(exporter, op, in, &pool->window, pool->average),
                  dtype);
}
