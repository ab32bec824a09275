/* A tensor of a weight file: its name, type, shape and bytes. The base of this folder's readers.
 * All functions are thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

enum { XT_FILE_DIMS_MAX = 8 };

/* Row-major and dense. `data` points into memory that the xt_weight_file owns (or, when writing,
 * the caller); in a file that was read it may be unaligned, so read floats through
 * xt_file_tensor_floats. */
struct xt_file_tensor {
    const char *name;
    enum xt_dtype dtype;
    int ndims; /* 0: a scalar */
    int64_t dims[XT_FILE_DIMS_MAX];
    const void *data;
    size_t bytes;
};

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor);
/* The bytes that its shape and type take, false where a dimension is negative or they overflow. */
bool xt_file_tensor_measure(const struct xt_file_tensor *tensor, size_t *bytes);
/* The tensor's elements as float32 (F32, F64, F16, BF16 are converted; integers are an error) into
 * `out`, of `count`. */
enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err);
