/* The tensors of an ONNX file: in one of several fields, or in a file beside it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "models/onnx/read/file.h"

/* How a type is called in a file, and which field holds it where raw_data does not. */
enum field { FLOATS, INTS32, INTS64, DOUBLES };
static const struct type {
    int onnx;
    enum xt_dtype dtype;
    enum field field;
} types[] = {
    {ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, XT_F32, FLOATS},
    {ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, XT_F64, DOUBLES},
    {ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, XT_F16, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16, XT_BF16, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__INT64, XT_I64, INTS64},
    {ONNX__TENSOR_PROTO__DATA_TYPE__INT32, XT_I32, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__INT16, XT_I16, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__INT8, XT_S8, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, XT_U8, INTS32},
    {ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, XT_BOOL, INTS32},
};

static const struct type *type_of(const Onnx__TensorProto *proto)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].onnx == proto->data_type)
            return &types[i];
    return NULL;
}

static enum xt_status refuse(const Onnx__TensorProto *proto, const char *why, struct xt_err *err)
{
    const char *name = proto->name ? proto->name : "";
    return xt_err_set(err, XT_ERR_DATA, "the tensor \"%s\" %s",
                      xt_str_quote(name, strlen(name)).text, why);
}

/* ---- in a file of its own ---- */

static const char *external(const Onnx__TensorProto *proto, const char *key)
{
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        if (entry->key && entry->value && strcmp(entry->key, key) == 0)
            return entry->value;
    }
    return NULL;
}

/* The file's whole path, links resolved, where that lies in the model's folder. */
static char *resolve(const char *folder, const char *location)
{
    char *joined = NULL;
    char *base = realpath(folder, NULL);
    char *whole = NULL;
    if (base && location[0] != '/' && !xt_file_join(&joined, base, location, NULL))
        whole = realpath(joined, NULL);
    size_t length = base ? strlen(base) : 0;
    bool inside = whole && strncmp(whole, base, length) == 0 &&
                  (whole[length] == '/' || (length && base[length - 1] == '/'));
    free(joined);
    free(base);
    if (inside)
        return whole;
    free(whole);
    return NULL;
}

static bool climbs(const char *location)
{
    return strcmp(location, "..") == 0 || xt_str_starts(location, "../") ||
           strstr(location, "/../") || xt_str_ends(location, "/..");
}

static bool to_offset(const char *text, size_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out = (size_t)number;
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static enum xt_status read_external(const struct xt_onnx_file *file, const Onnx__TensorProto *proto,
                                    struct xt_weight_file *store, struct xt_file_tensor *out,
                                    struct xt_err *err)
{
    const char *location = external(proto, "location");
    const char *at = external(proto, "offset");
    const char *length = external(proto, "length");
    size_t offset = 0;
    size_t bytes = out->bytes;
    size_t size = 0;
    int fd = -1;
    void *data = NULL;
    if (!location || !file->folder)
        return refuse(proto, "has its data in a file that is not named", err);
    if ((at && !to_offset(at, &offset)) || (length && !to_offset(length, &bytes)) ||
        bytes != out->bytes)
        return refuse(proto, "has external data of another size than its shape", err);
    char *path = climbs(location) ? NULL : resolve(file->folder, location);
    if (!path)
        return refuse(
            proto, "has its data in a file that is not in the model's folder, or not there", err);
    enum xt_status status = xt_file_open(path, &fd, &size, err);
    free(path);
    if (status)
        return status;
    if (offset > size || bytes > size - offset)
        status = refuse(proto, "goes beyond the end of its data's file", err);
    if (!status)
        status = xt_weight_store_alloc(store, &data, bytes, 1, "a tensor of the ONNX model", err);
    if (!status && !xt_file_read_at(fd, offset, data, bytes))
        status = refuse(proto, "cannot be read from its data's file", err);
    close(fd);
    out->data = data;
    return status;
}

/* ---- in the model ---- */

/* int32_data holds a number of any small type in each element. */
static enum xt_status narrow(const Onnx__TensorProto *proto, struct xt_weight_file *store,
                             struct xt_file_tensor *out, struct xt_err *err)
{
    size_t size = xt_dtype_size(out->dtype);
    uint8_t *data = NULL;
    enum xt_status status =
        xt_weight_store_alloc(store, &data, out->bytes, 1, "a tensor of the ONNX model", err);
    for (size_t i = 0; i < proto->n_int32_data && !status; i++)
        memcpy(data + i * size, &proto->int32_data[i], size);
    out->data = data;
    return status;
}

static enum xt_status read_fields(const Onnx__TensorProto *proto, const struct type *type,
                                  struct xt_weight_file *store, struct xt_file_tensor *out,
                                  struct xt_err *err)
{
    size_t count = out->bytes / xt_dtype_size(out->dtype);
    const struct {
        size_t count;
        const void *data;
    } fields[] = {
        [FLOATS] = {proto->n_float_data, proto->float_data},
        [INTS32] = {proto->n_int32_data, proto->int32_data},
        [INTS64] = {proto->n_int64_data, proto->int64_data},
        [DOUBLES] = {proto->n_double_data, proto->double_data},
    };
    if (fields[type->field].count != count)
        return refuse(proto, "has another number of elements than its shape says", err);
    out->data = fields[type->field].data;
    return type->field == INTS32 ? narrow(proto, store, out, err) : XT_OK;
}

enum xt_status xt_onnx_tensor(const struct xt_onnx_file *file, const Onnx__TensorProto *proto,
                              struct xt_weight_file *store, struct xt_file_tensor *out,
                              struct xt_err *err)
{
    const struct type *type = type_of(proto);
    *out = (struct xt_file_tensor){.name = proto->name ? proto->name : "",
                                   .ndims = (int)proto->n_dims};
    if (!type)
        return refuse(proto,
                      "is of a type that cannot be read: float, double, float16, bfloat16, "
                      "whole numbers and bool can",
                      err);
    if (proto->n_dims > XT_FILE_DIMS_MAX)
        return refuse(proto, "has more than 8 dimensions", err);
    if (proto->segment)
        return refuse(proto, "is a part of a tensor, which cannot be read", err);
    out->dtype = type->dtype;
    for (int i = 0; i < out->ndims; i++)
        out->dims[i] = proto->dims[i];
    if (!xt_file_tensor_measure(out, &out->bytes))
        return refuse(proto, "has a shape that cannot be", err);
    if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return read_external(file, proto, store, out, err);
    if (!proto->has_raw_data)
        return read_fields(proto, type, store, out, err);
    if (proto->raw_data.len != out->bytes)
        return refuse(proto, "has more or fewer bytes than its shape takes", err);
    out->data = proto->raw_data.data;
    return XT_OK;
}

double xt_onnx_tensor_number(const struct xt_file_tensor *tensor, size_t index)
{
    const uint8_t *at = (const uint8_t *)tensor->data + index * xt_dtype_size(tensor->dtype);
    struct xt_file_tensor one = {.dtype = tensor->dtype, .data = at};
    float number = 0;
    double wide = 0;
    int64_t i64 = 0;
    int32_t i32 = 0;
    int16_t i16 = 0;
    switch (tensor->dtype) {
    case XT_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case XT_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case XT_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case XT_I16:
        memcpy(&i16, at, sizeof i16);
        return i16;
    case XT_S8:
        return *(const int8_t *)at;
    case XT_U8:
    case XT_BOOL:
        return *at;
    case XT_F32:
    case XT_BF16:
    case XT_F16:
    case XT_DTYPE_COUNT:
        break;
    }
    xt_file_tensor_measure(&one, &one.bytes);
    xt_file_tensor_floats(&one, &number, 1, NULL);
    return number;
}
