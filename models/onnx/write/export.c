#include "models/onnx/write/export.h"

#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

/* Each kind of op and its writer. */
static const struct {
    const struct xt_op_kind *kind;
    void (*write)(struct xt_exporter *exporter, const struct xt_op *op);
} kinds[] = {
    {&xt_kind_input, xt_export_input},
    {&xt_kind_conv, xt_export_conv},
    {&xt_kind_conv_transpose, xt_export_conv_transpose},
    {&xt_kind_conv_by, xt_export_conv_by},
    {&xt_kind_norm, xt_export_norm},
    {&xt_kind_pool, xt_export_pool_op},
    {&xt_kind_eltwise, xt_export_eltwise},
    {&xt_kind_dropout, xt_export_dropout},
    {&xt_kind_context, xt_export_context},
    {&xt_kind_slice, xt_export_slice},
    {&xt_kind_shuffle, xt_export_shuffle},
    {&xt_kind_transpose, xt_export_transpose},
    {&xt_kind_reshape, xt_export_reshape},
    {&xt_kind_axis_map, xt_export_axis_map},
    {&xt_kind_grid_sample, xt_export_grid_sample},
    {&xt_kind_recurrence, xt_export_recurrence},
    {&xt_kind_cast, xt_export_cast},
    {&xt_kind_parameter, xt_export_parameter},
    {&xt_kind_constant, xt_export_numbers},
    {&xt_kind_concat, xt_export_concat},
    {&xt_kind_window_pool, xt_export_window_pool},
    {&xt_kind_add, xt_export_binary},
    {&xt_kind_mul, xt_export_binary},
    {&xt_kind_matmul, xt_export_matmul},
    {&xt_kind_softmax, xt_export_softmax},
    {&xt_kind_channel_mean, xt_export_channel_mean},
    {&xt_kind_layer_norm, xt_export_layer_norm},
};

static void write_op(struct xt_exporter *exporter, const struct xt_op *op)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == op->kind) {
            kinds[i].write(exporter, op);
            return;
        }
    xt_onnx_refuse(exporter->onnx, XT_ERR_USAGE,
                   "%s is a %s, which xtrain cannot write as ONNX: this network cannot be exported",
                   op->name, op->kind->name);
}

/* [n][c][1][w] becomes [n][w][c], or [n][c] where w is 1. */
static void write_logits(struct xt_exporter *exporter, const struct xt_tensor *logits)
{
    static const int64_t rows[] = {2};
    static const int64_t classes_last[] = {0, 2, 1};
    struct xt_onnx *onnx = exporter->onnx;
    const char *x = xt_export_in(exporter, logits, XT_F32);
    if (logits->w == 1) {
        xt_onnx_add_last(onnx, "logits", &(struct xt_onnx_node){.type = "Flatten", .inputs = {x}});
        xt_onnx_output(onnx, "logits",
                       &(struct xt_onnx_shape){XT_F32, 2, {exporter->batch, logits->c}});
        return;
    }
    const char *axes = xt_export_axes(exporter, "logits/rows", rows, 1);
    x = xt_onnx_add(onnx, "logits/Squeeze",
                    &(struct xt_onnx_node){.type = "Squeeze", .inputs = {x, axes}});
    xt_onnx_add_last(onnx, "logits",
                     &(struct xt_onnx_node){.type = "Transpose",
                                            .inputs = {x},
                                            .attributes = {{"perm", classes_last, 3, 0, NULL}}});
    xt_onnx_output(onnx, "logits",
                   &(struct xt_onnx_shape){XT_F32, 3, {exporter->batch, logits->w, logits->c}});
}

enum xt_status xt_export_onnx(const struct xt_graph *graph, const struct xt_export_options *options,
                              const char *path, struct xt_exported *out, struct xt_err *err)
{
    struct xt_exporter *exporter = NULL;
    enum xt_status status = xt_mem_calloc(&exporter, 1, sizeof *exporter, "the export", err);
    if (!status)
        status = xt_onnx_create(&exporter->onnx, options->name, err);
    if (!status) {
        exporter->graph = graph;
        exporter->batch = options->batch;
        exporter->with_preprocess = options->with_preprocess;
        exporter->for_onnxruntime = options->for_onnxruntime;
        for (int i = 0; i < graph->op_count && !xt_onnx_fails(exporter->onnx); i++)
            if (!xt_export_is_in_recurrence(graph, graph->ops[i]))
                write_op(exporter, graph->ops[i]);
        if (!xt_onnx_fails(exporter->onnx))
            write_logits(exporter, options->logits);
        for (size_t i = 0; i < options->meta_count; i++)
            xt_onnx_meta(exporter->onnx, options->meta[i].key, options->meta[i].value);
        struct xt_onnx_version version = xt_onnx_version(exporter->onnx);
        *out = (struct xt_exported){.opset = version.opset, .ir = version.ir};
        status = xt_onnx_save(exporter->onnx, path, &out->bytes, err);
    }
    if (exporter)
        xt_onnx_destroy(exporter->onnx);
    free(exporter);
    return status;
}
