#include "models/weights/weight_tensor.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian");

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [XT_FILE_F32] = {"F32", 4},   [XT_FILE_F64] = {"F64", 8}, [XT_FILE_F16] = {"F16", 2},
    [XT_FILE_BF16] = {"BF16", 2}, [XT_FILE_I64] = {"I64", 8}, [XT_FILE_I32] = {"I32", 4},
    [XT_FILE_I16] = {"I16", 2},   [XT_FILE_I8] = {"I8", 1},   [XT_FILE_U8] = {"U8", 1},
    [XT_FILE_BOOL] = {"BOOL", 1},
};

const char *xt_file_dtype_name(enum xt_file_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t xt_file_dtype_size(enum xt_file_dtype dtype)
{
    return dtypes[dtype].size;
}

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor)
{
    return tensor->bytes / xt_file_dtype_size(tensor->dtype);
}

bool xt_file_tensor_measure(const struct xt_file_tensor *tensor, size_t *bytes)
{
    /* Zero-sized dimensions last, so that the others must not overflow either. */
    int64_t product = (int64_t)xt_file_dtype_size(tensor->dtype);
    bool empty = false;
    for (int i = 0; i < tensor->ndims; i++) {
        if (tensor->dims[i] < 0)
            return false;
        if (tensor->dims[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, tensor->dims[i], &product))
            return false;
    }
    *bytes = empty ? 0 : (size_t)product;
    return true;
}

static float float_from_bits(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1F;
    uint32_t fraction = half & 0x3FF;
    if (exponent == 0x1F)
        return float_from_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent)
        return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24F;
    return sign ? -small : small;
}

/* Data from a file lies at any address: each element is copied out. */
static float element(const struct xt_file_tensor *tensor, size_t index)
{
    const uint8_t *from = tensor->data;
    if (tensor->dtype == XT_FILE_F64) {
        double value = 0;
        memcpy(&value, from + index * sizeof value, sizeof value);
        return (float)value;
    }
    uint16_t bits = 0;
    memcpy(&bits, from + index * sizeof bits, sizeof bits);
    return tensor->dtype == XT_FILE_F16 ? half_to_float(bits)
                                        : float_from_bits((uint32_t)bits << 16);
}

enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err)
{
    if (count != xt_file_tensor_count(tensor))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s has %zu elements where %zu are wanted",
                          tensor->name, xt_file_tensor_count(tensor), count);
    switch (tensor->dtype) {
    case XT_FILE_F32:
        if (count)
            memcpy(out, tensor->data, count * sizeof *out);
        return XT_OK;
    case XT_FILE_F64:
    case XT_FILE_F16:
    case XT_FILE_BF16:
        for (size_t i = 0; i < count; i++)
            out[i] = element(tensor, i);
        return XT_OK;
    default:
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s holds %s where floating-point numbers are wanted",
                          tensor->name, xt_file_dtype_name(tensor->dtype));
    }
}
