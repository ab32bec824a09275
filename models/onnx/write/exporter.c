#include "models/onnx/write/exporter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum xt_dtype xt_export_dtype(const struct xt_tensor *out)
{
    return out->dtype == XT_F16 ? XT_F16 : XT_F32;
}

struct xt_export_name xt_export_name(const char *owner, const char *rest)
{
    struct xt_export_name name;
    snprintf(name.text, sizeof name.text, "%s%s", owner, rest);
    return name;
}

/* The types as numbered by TensorProto, for Cast. */
static int64_t cast_to(enum xt_dtype dtype)
{
    return dtype == XT_F16 ? 10 : 1;
}

static const char *cast(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                        const char *value, enum xt_dtype from, enum xt_dtype to)
{
    if (from == to)
        return value;
    return xt_onnx_add(exporter->onnx, xt_export_name(tensor->name, "/Cast").text,
                       &(struct xt_onnx_node){.type = "Cast",
                                              .inputs = {value},
                                              .attributes = {{"to", .number = cast_to(to)}}});
}

/* By what is subtracted from an int8 tensor's numbers before they are quantised. */
static const char *moved(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                         const char *value, const char *type)
{
    char name[96];
    if (tensor->offset == 0)
        return value;
    const char *by = xt_onnx_number(exporter->onnx, xt_export_name(tensor->name, "/offset").text,
                                    tensor->offset * tensor->scale);
    snprintf(name, sizeof name, "%s/%s", tensor->name, type);
    return xt_onnx_add(exporter->onnx, name,
                       &(struct xt_onnx_node){.type = type, .inputs = {value, by}});
}

const char *xt_export_in(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                         enum xt_dtype dtype)
{
    return moved(exporter, tensor, xt_export_held(exporter, tensor, dtype), "Add");
}

const char *xt_export_held(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                           enum xt_dtype dtype)
{
    const char *value = exporter->values[tensor->index].name;
    if (!value) {
        xt_onnx_refuse(exporter->onnx, XT_ERR_RUN, "%s is read before it is written", tensor->name);
        return "";
    }
    return cast(exporter, tensor, value, exporter->values[tensor->index].dtype, dtype);
}

/* Quantises by the tensor's scale, and dequantises. */
static const char *quantise(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                            const char *value)
{
    struct xt_onnx *onnx = exporter->onnx;
    uint8_t *zero = NULL;
    bool shifted = exporter->for_onnxruntime && tensor->dtype == XT_S8;
    const char *scale =
        xt_onnx_number(onnx, xt_export_name(tensor->name, "/scale").text, tensor->scale);
    const char *zero_point =
        xt_onnx_constant(onnx, xt_export_name(tensor->name, "/zero").text,
                         &(struct xt_onnx_shape){.dtype = shifted ? XT_U8 : tensor->dtype}, &zero);
    if (zero && shifted)
        *zero = 128;
    const char *held = xt_onnx_add(
        onnx, xt_export_name(tensor->name, "/QuantizeLinear").text,
        &(struct xt_onnx_node){.type = "QuantizeLinear", .inputs = {value, scale, zero_point}});
    return xt_onnx_add(
        onnx, xt_export_name(tensor->name, "/DequantizeLinear").text,
        &(struct xt_onnx_node){.type = "DequantizeLinear", .inputs = {held, scale, zero_point}});
}

void xt_export_out(struct xt_exporter *exporter, const struct xt_tensor *tensor, const char *value,
                   enum xt_dtype dtype)
{
    enum xt_dtype own = xt_export_dtype(tensor);
    exporter->values[tensor->index].name =
        xt_dtype_is_int8(tensor->dtype)
            ? quantise(exporter, tensor, moved(exporter, tensor, value, "Sub"))
            : cast(exporter, tensor, value, dtype, own);
    exporter->values[tensor->index].dtype = own;
}

const char *xt_export_node(struct xt_exporter *exporter, const struct xt_op *op,
                           const struct xt_onnx_node *node)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s", op->name, node->type);
    return xt_onnx_add(exporter->onnx, name, node);
}

static bool fits_fp16(const float *numbers, size_t count)
{
    static const float most = 65504;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(numbers[i]) <= most))
            return false;
    return true;
}

const char *xt_export_constant(struct xt_exporter *exporter, const char *name, enum xt_dtype dtype,
                               int ndims, const int64_t *dims, const float *numbers)
{
    struct xt_onnx_shape shape = {.dtype = dtype, .ndims = ndims};
    size_t count = 1;
    void *data = NULL;
    for (int i = 0; i < ndims; i++) {
        shape.dims[i] = dims[i];
        count *= (size_t)dims[i];
    }
    if (dtype == XT_F16 && !fits_fp16(numbers, count))
        xt_onnx_refuse(exporter->onnx, XT_ERR_DATA,
                       "%s holds a number above 65504, the largest in fp16; export with --type f32",
                       name);
    const char *out = xt_onnx_constant(exporter->onnx, name, &shape, &data);
    if (data)
        exporter->graph->loops->convert(dtype, numbers, count, data);
    return out;
}

const char *xt_export_axes(struct xt_exporter *exporter, const char *name, const int64_t *axes,
                           int count)
{
    int64_t *data = NULL;
    const char *out = xt_onnx_constant(
        exporter->onnx, name, &(struct xt_onnx_shape){.dtype = XT_I64, .ndims = 1, .dims = {count}},
        &data);
    if (data)
        memcpy(data, axes, (size_t)count * sizeof *axes);
    return out;
}

const char *xt_export_with_number(struct xt_exporter *exporter, const struct xt_op *op,
                                  const char *type, const char *value, enum xt_dtype dtype,
                                  float number)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s/by", op->name, type);
    const char *by = xt_export_constant(exporter, name, dtype, 0, NULL, &number);
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = type, .inputs = {value, by}});
}

const char *xt_export_reshaped(struct xt_exporter *exporter, const struct xt_op *op,
                               const char *value, const int64_t *dims, int count)
{
    const char *shape =
        xt_export_axes(exporter, xt_export_name(op->name, "/shape").text, dims, count);
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = "Reshape", .inputs = {value, shape}});
}

const char *xt_export_transposed(struct xt_exporter *exporter, const struct xt_op *op,
                                 const char *value, const int64_t *from, int count)
{
    return xt_export_node(
        exporter, op,
        &(struct xt_onnx_node){.type = "Transpose",
                               .inputs = {value},
                               .attributes = {{"perm", from, (size_t)count, 0, NULL}}});
}

const char *xt_export_channels_last(struct xt_exporter *exporter, const struct xt_op *op,
                                    const char *value)
{
    return xt_export_transposed(exporter, op, value, (const int64_t[]){0, 2, 3, 1}, 4);
}

const char *xt_export_channels_first(struct xt_exporter *exporter, const struct xt_op *op,
                                     const char *value)
{
    return xt_export_transposed(exporter, op, value, (const int64_t[]){0, 3, 1, 2}, 4);
}

int64_t xt_export_axis(enum xt_axis axis)
{
    return axis == XT_AXIS_C ? 1 : axis == XT_AXIS_H ? 2 : 3;
}

void xt_export_moved(struct xt_exporter *exporter, const struct xt_op *op, const char *value)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    exporter->values[out->index].name = value;
    exporter->values[out->index].dtype = xt_export_dtype(out);
}
