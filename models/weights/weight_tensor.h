/* A tensor of a weight file: its name, type, shape and bytes. At the bottom of this folder: the
 * readers of each format stand on it. All functions are thread-safe.
 */
#ifndef XT_MODELS_WEIGHTS_WEIGHT_TENSOR_H
#define XT_MODELS_WEIGHTS_WEIGHT_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_FILE_DIMS_MAX = 8 };

enum xt_file_dtype {
    XT_FILE_F32,
    XT_FILE_F64,
    XT_FILE_F16,
    XT_FILE_BF16,
    XT_FILE_I64,
    XT_FILE_I32,
    XT_FILE_I16,
    XT_FILE_I8,
    XT_FILE_U8,
    XT_FILE_BOOL,
};

/* Row-major and dense. `data` points into memory that the xt_weight_file owns (or, when writing,
 * the caller); in a file that was read it may lie at any address, so take floats from it through
 * xt_file_tensor_floats. */
struct xt_file_tensor {
    const char *name;
    enum xt_file_dtype dtype;
    int ndims; /* 0: a scalar */
    int64_t dims[XT_FILE_DIMS_MAX];
    const void *data;
    size_t bytes;
};

const char *xt_file_dtype_name(enum xt_file_dtype dtype); /* "F32", as in safetensors */
size_t xt_file_dtype_size(enum xt_file_dtype dtype);

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor);
/* The bytes that its shape and type take, false where a dimension is negative or they overflow. */
bool xt_file_tensor_measure(const struct xt_file_tensor *tensor, size_t *bytes);
/* The tensor's elements as float32 (F32, F64, F16, BF16 are converted; integers are an error) into
 * `out`, of `count`. */
enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err);

#endif
