/* Max and average pools. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

static bool is_copy(const struct xt_window *w)
{
    return w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1;
}

const char *xt_export_pool(struct xt_exporter *exporter, const struct xt_op *op, const char *value,
                           const struct xt_window *window, bool average)
{
    const int64_t kernel[] = {window->kernel_h, window->kernel_w};
    const int64_t strides[] = {window->stride_h, window->stride_w};
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_window_ends ends = xt_window_ends(window, in->h, in->w);
    const int64_t pads[] = {window->pad_h, window->pad_w, ends.h, ends.w};
    if (is_copy(window))
        return value;
    /* Padding is not counted in either, ONNX's default. */
    return xt_export_node(
        exporter, op,
        &(struct xt_onnx_node){.type = average ? "AveragePool" : "MaxPool",
                               .inputs = {value},
                               .attributes = {{"kernel_shape", kernel, 2, 0, NULL},
                                              {"strides", strides, 2, 0, NULL},
                                              {"pads", pads, 4, 0, NULL}}});
}

void xt_export_pool_op(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *in = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    /* The mean of int8 values is not an int8 value. OpenVINO would compute it in int8, rounding
     * down; this op, an identity that it leaves in float32, prevents that. */
    if (pool->average && xt_dtype_is_int8(xt_op_in(op, 0)->dtype) && out->dtype == XT_F32 &&
        !is_copy(&pool->window) && !exporter->for_onnxruntime)
        in = xt_export_with_number(exporter, op, "Max", in, dtype, -FLT_MAX);
    xt_export_out(exporter, out, xt_export_pool(exporter, op, in, &pool->window, pool->average),
                  dtype);
}

/* [1][1][h][w] */
static const char *shares_of(struct xt_exporter *exporter, const struct xt_window_pool_op *pool,
                             enum xt_dtype dtype)
{
    const struct xt_tensor *out = xt_op_out(&pool->op, 0);
    const int64_t dims[] = {1, 1, out->h, out->w};
    struct xt_err err = {0};
    float *shares = NULL;
    size_t count = (size_t)out->h * (size_t)out->w;
    if (xt_mem_aligned(&shares, count, sizeof *shares, pool->op.name, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int i = 0; i < out->h * out->w; i++)
        shares[i] = (float)xt_window_pool_share(pool, i / out->w, i % out->w);
    const char *value = xt_export_constant(exporter, xt_export_name(pool->op.name, "/shares").text,
                                           dtype, 4, dims, shares);
    free(shares);
    return value;
}

void xt_export_window_pool(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_window_pool_op *pool = (const struct xt_window_pool_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    x = xt_export_pool(exporter, op, x, &pool->window, pool->average);
    if (pool->counts_padding)
        x = xt_export_node(
            exporter, op,
            &(struct xt_onnx_node){.type = "Mul", .inputs = {x, shares_of(exporter, pool, dtype)}});
    xt_export_out(exporter, out, x, dtype);
}
