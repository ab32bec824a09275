/* The safetensors format (https://huggingface.co/docs/safetensors): eight bytes of header length,
 * a JSON header, then the tensors' bytes without holes. Errors leave the file's name to the caller.
 */
#pragma once

#include "models/weights/weight_input.h"
#include "models/weights/weight_store.h"

/* Fills `file`. After a failure the caller clears it. */
enum xt_status xt_safetensors_parse(struct xt_weight_file *file,
                                    const struct xt_weight_input *input, struct xt_err *err);

/* The header with its length before it, padded with spaces so that the data begins on a multiple of
 * eight; `*header` is released with free. */
enum xt_status xt_safetensors_header(uint8_t **header, size_t *size,
                                     const struct xt_file_tensor *tensors, size_t count,
                                     const struct xt_file_meta *meta, size_t meta_count,
                                     struct xt_err *err);
