/* Exports a described network with its parameters as an ONNX file for other runtimes.
 *
 * The graph is an inference graph described (xt_model_describe) over loaded parameters; it need not
 * be built. Its options select the variant: norms folded or not (fuse), float32 or fp16 (dtype),
 * int8 with the ranges that it was described with (int8). The model's input is "input", float32
 * [batch][3][height][width], normalised, or "images", u8 [batch][height][width][3]; its output is
 * "logits", float32, [batch][classes] or [batch][time][classes]. Thread-safe for different graphs.
 */
#pragma once

#include "base/err.h"
#include "engine/graph.h"
#include "models/weights/weight_store.h"

struct xt_export_options {
    const char *name; /* of the network */
    const struct xt_tensor *logits;
    int batch;            /* 0: any */
    bool with_preprocess; /* the model takes bytes and normalises them */
    bool for_onnxruntime; /* int8: all activations are u8, with a zero point where they have a sign
                           */
    const struct xt_file_meta *meta; /* metadata_props */
    size_t meta_count;
};

/* The written file. */
struct xt_exported {
    size_t bytes;
    int opset, ir;
};

/* XT_ERR_USAGE names an op without an ONNX counterpart. The file is written whole or not at all. */
enum xt_status xt_export_onnx(const struct xt_graph *graph, const struct xt_export_options *options,
                              const char *path, struct xt_exported *out, struct xt_err *err);
