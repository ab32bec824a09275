/* The contents of a weight file: its tensors and texts; and what its readers share: allocation and
 * checked names.
 *
 * Everything allocated here belongs to the file and is freed by xt_weight_file_clear, also after a
 * failure. Messages leave the file's name to xt_weight_file_parse. Different files may be used from
 * different threads.
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

struct xt_file_meta {
    const char *key;
    const char *value;
};

/* A zeroed struct is empty. It owns its names, its metadata and its tensors' bytes. */
struct xt_weight_file {
    struct xt_file_tensor
        *tensors; /* in file order (safetensors: by offset; .pth: dictionary order) */
    size_t count;
    struct xt_file_meta *meta;
    size_t meta_count;
    size_t prefix_length; /* of the wrappers' prefixes, removed from all names */
    void *owned;          /* memory that the tensors point into; released by xt_weight_file_clear */
};

void xt_weight_file_clear(struct xt_weight_file *file);

/* NULL where no tensor has that name. */
const struct xt_file_tensor *xt_weight_file_find(const struct xt_weight_file *file,
                                                 const char *name);
const char *xt_weight_file_meta(const struct xt_weight_file *file, const char *key);

/* count * size zeroed bytes into *out; `what` names them in the error. */
enum xt_status xt_weight_store_alloc(struct xt_weight_file *file, void *out, size_t count,
                                     size_t size, const char *what, struct xt_err *err);

/* A NUL-terminated copy of a tensor's name. Names are UTF-8 without control characters (so that
 * they can be printed), not empty, and at most a few hundred bytes. */
enum xt_status xt_weight_store_name(struct xt_weight_file *file, const char **out,
                                    const char *bytes, size_t length, struct xt_err *err);

/* Replaces the metadata by a copy of another file's. */
enum xt_status xt_weight_store_copy_meta(struct xt_weight_file *file,
                                         const struct xt_weight_file *from, struct xt_err *err);

/* Refuses duplicate names. */
enum xt_status xt_weight_store_check_unique(const struct xt_weight_file *file, struct xt_err *err);

/* Copies at most `size - 1` bytes of untrusted text, escaped for a terminal. */
const char *xt_weight_store_printable(char *out, size_t size, const void *bytes, size_t length);

bool xt_weight_store_is_text(const char *bytes, size_t length, bool allow_controls);
