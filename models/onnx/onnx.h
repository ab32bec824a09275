/* Builder of an ONNX model (https://onnx.ai/onnx/repo-docs/IR.html): nodes, constants, inputs and
 * outputs, metadata; and its file. Independent of our networks.
 *
 * Opset 13 of the default domain, IR version 7 (ONNX 1.8, 2020), if no operator wants a later one:
 * the oldest with per-channel scales, so the most widely readable. Arguments are copied, and
 * results live as long as the model. The first failure sticks: later functions do nothing and
 * return dummy names, and xt_onnx_save returns it. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

enum {
    XT_ONNX_OPSET = 13,
    XT_ONNX_IR = 7,
    XT_ONNX_INPUTS_MAX = 64,
    XT_ONNX_OUTPUTS_MAX = 4,
    XT_ONNX_NAME_MAX = 160,
    XT_ONNX_DIMS_MAX = 4
};

struct xt_onnx;

/* An attribute of a node: an integer, `count` of them where `list` is given, a float, or text,
 * where `count` is 1 as a list. */
struct xt_onnx_attribute {
    const char *name;
    const int64_t *list;
    size_t count;
    int64_t number;
    const float *real;
    const char *text;
};

/* A node's type, inputs and attributes. Inputs end with the first NULL, attributes with the first
 * without a name. */
struct xt_onnx_node {
    const char *type; /* "Conv" */
    const char *inputs[XT_ONNX_INPUTS_MAX + 1];
    struct xt_onnx_attribute attributes[8];
    int more_outputs; /* called NAME:1, NAME:2, ... */
};

/* A tensor's type and shape; a dimension of 0 is any batch. */
struct xt_onnx_shape {
    enum xt_dtype dtype;
    int ndims;
    int64_t dims[XT_ONNX_DIMS_MAX];
};

enum xt_status xt_onnx_create(struct xt_onnx **out, const char *name, struct xt_err *err);
void xt_onnx_destroy(struct xt_onnx *onnx);

/* Records a failure; the first one is retained. */
void xt_onnx_refuse(struct xt_onnx *onnx, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether a failure was recorded. */
bool xt_onnx_fails(const struct xt_onnx *onnx);

/* The versions that the model is written in: those above, or what was wanted. */
struct xt_onnx_version {
    int opset, ir;
};
void xt_onnx_want(struct xt_onnx *onnx, struct xt_onnx_version least);
struct xt_onnx_version xt_onnx_version(const struct xt_onnx *onnx);

/* Adds a node; returns the name of its single output: `name`, made unique. */
const char *xt_onnx_add(struct xt_onnx *onnx, const char *name, const struct xt_onnx_node *node);
/* The same with exactly that name: an output of the model. */
const char *xt_onnx_add_last(struct xt_onnx *onnx, const char *name,
                             const struct xt_onnx_node *node);
/* Adds a constant, which the caller fills at *data (NULL after a failure); returns its name. */
const char *xt_onnx_constant(struct xt_onnx *onnx, const char *name,
                             const struct xt_onnx_shape *shape, void *data);
/* A scalar constant. */
const char *xt_onnx_number(struct xt_onnx *onnx, const char *name, float value);

void xt_onnx_input(struct xt_onnx *onnx, const char *name, const struct xt_onnx_shape *shape);
void xt_onnx_output(struct xt_onnx *onnx, const char *name, const struct xt_onnx_shape *shape);
/* Adds an entry of metadata_props. */
void xt_onnx_meta(struct xt_onnx *onnx, const char *key, const char *value);

/* Writes the file: temporary name, synced, renamed. Its size goes to *bytes. */
enum xt_status xt_onnx_save(struct xt_onnx *onnx, const char *path, size_t *bytes,
                            struct xt_err *err);
