#include "models/weights/weight_tensor.h"

#include "base/number.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian");

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor)
{
    return tensor->bytes / xt_dtype_size(tensor->dtype);
}

bool xt_file_tensor_measure(const struct xt_file_tensor *tensor, size_t *bytes)
{
    /* Zero-sized dimensions last, so that the others must not overflow either. */
    int64_t product = (int64_t)xt_dtype_size(tensor->dtype);
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

enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err)
{
    if (count != xt_file_tensor_count(tensor))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s has %zu elements where %zu are wanted",
                          tensor->name, xt_file_tensor_count(tensor), count);
    if (!xt_dtype_is_float(tensor->dtype))
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s holds %s where floating-point numbers are expected",
                          tensor->name, xt_dtype_file_name(tensor->dtype));
    xt_number_to_float(tensor->dtype, tensor->data, count, out);
    return XT_OK;
}
