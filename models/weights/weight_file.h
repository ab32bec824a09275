/* Weight files: named tensors and text metadata. Reads safetensors and PyTorch's .pth (the zip
 * format and the legacy one, protocol 1001, told apart by content); writes safetensors.
 *
 * The pickle reader executes nothing: it knows the opcodes and the handful of globals that a
 * state_dict of tensors needs, and refuses any other by name. Every size that comes from a file is
 * checked against the file before use, and memory stays within a multiple of the file's size.
 *
 * A file owns its names, its metadata and, after xt_weight_file_read, its tensors' bytes; clear it
 * when done. After a failure it is empty. Different files may be used from different threads.
 * Formats: https://huggingface.co/docs/safetensors ; torch/serialization.py for .pth.
 */
#ifndef XT_MODELS_WEIGHTS_WEIGHT_FILE_H
#define XT_MODELS_WEIGHTS_WEIGHT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

enum { XT_FILE_DIMS_MAX = 8 };

/* Row-major and dense. `data` points into memory that the xt_weight_file owns (or, when writing,
 * the caller); in a file that was read it may lie at any address, so take floats from it through
 * xt_file_tensor_floats. */
struct xt_file_tensor {
    const char *name;
    enum xt_dtype dtype;
    int ndims; /* 0: a scalar */
    int64_t dims[XT_FILE_DIMS_MAX];
    const void *data;
    size_t bytes;
};

struct xt_file_meta {
    const char *key;
    const char *value;
};

struct xt_weight_file {
    struct xt_file_tensor
        *tensors; /* in file order (safetensors: by offset; .pth: dictionary order) */
    size_t count;
    struct xt_file_meta *meta;
    size_t meta_count;
    void *owned; /* what the tensors point into; released by xt_weight_file_clear */
};

/* Reads any of the formats. In a .pth, tensors wrapped in a dictionary under `state_dict`,
 * `model_state_dict` or `model` are taken from there, values that are no tensors are left out,
 * strided tensors are made dense. What DataParallel ("module.") and torch.compile ("_orig_mod.")
 * put before every name is taken off. XT_ERR_DATA names the file, and tensor or offset, for
 * anything damaged. */
enum xt_status xt_weight_file_read(struct xt_weight_file *file, const char *path,
                                   struct xt_err *err);

/* As above from memory (fuzzing, tests). `name` is for messages. The bytes must outlive the file.
 */
enum xt_status xt_weight_file_parse(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                    const char *name, struct xt_err *err);
void xt_weight_file_clear(struct xt_weight_file *file);

/* NULL where there is none. */
const struct xt_file_tensor *xt_weight_file_find(const struct xt_weight_file *file,
                                                 const char *name);
const char *xt_weight_file_meta(const struct xt_weight_file *file, const char *key);

/* The tensor's elements as float32 (F32, F64, F16, BF16 are converted; integers are an error) into
 * `out`, of `count`. */
enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err);
size_t xt_file_tensor_count(const struct xt_file_tensor *tensor);

/* Writes safetensors: temporary name, synced, renamed. Tensors keep the order given, without holes;
 * the first begins on a multiple of eight bytes. */
enum xt_status xt_weight_file_write(const char *path, const struct xt_file_tensor *tensors,
                                    size_t count, const struct xt_file_meta *meta,
                                    size_t meta_count, struct xt_err *err);

#endif
