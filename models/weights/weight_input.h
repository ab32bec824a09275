/* The input of the weight readers: an open file, or memory (fuzzing, tests).
 *
 * A file is read by calls, not mapped, since a mapped file that shrinks kills the process; only
 * requested parts take memory. Readers read the header first, of at most XT_WEIGHT_HEADER_MAX
 * bytes, and check its claims against `size` and `most` before they request a tensor's bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Room for a hundred thousand tensors; a JSON tree takes up to 40 times its text. */
enum { XT_WEIGHT_HEADER_MAX = 16 << 20 };

struct xt_weight_input {
    size_t size;
    size_t most;          /* the bytes of tensors that the caller can use */
    const uint8_t *bytes; /* NULL: a file */
    int fd;
};

/* Reads `count` bytes at `at` into `out`; the caller has checked that they lie within `size`.
 * XT_ERR_DATA where the file cannot be read or has become shorter. */
enum xt_status xt_weight_input_read(const struct xt_weight_input *input, size_t at, void *out,
                                    size_t count, struct xt_err *err);

/* XT_ERR_DATA where `tensor_bytes` exceeds what the caller can use. */
enum xt_status xt_weight_input_check(const struct xt_weight_input *input, size_t tensor_bytes,
                                     struct xt_err *err);
