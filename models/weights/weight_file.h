/* Weight files: named tensors and text metadata. Reads safetensors and PyTorch's .pth (the zip
 * format and the legacy one, protocol 1001, distinguished by content); writes safetensors.
 *
 * The pickle reader executes nothing: it knows the opcodes and the handful of globals that a
 * state_dict of tensors needs, and refuses any other by name. Every size that comes from a file is
 * checked against the file before use, and memory stays within a multiple of the file's size.
 *
 * Header first: tensors are read after everything that the header claims has been checked. After a
 * failure the file is empty; after success clear it when done (weight_store.h). Different files may
 * be used from different threads. Formats: https://huggingface.co/docs/safetensors ;
 * torch/serialization.py for .pth.
 */
#pragma once

#include "models/weights/weight_store.h"

/* Reads any of the formats. In a .pth, tensors wrapped in a dictionary under `state_dict`,
 * `model_state_dict`, `model`, `net` or `network`, also nested, are taken from there, values that
 * are not tensors are skipped, strided tensors are copied to dense ones. Prefixes of all names that
 * wrappers add ("module.", "_orig_mod.", "model.", "net.", also nested) are removed, and counted.
 * XT_ERR_DATA names the file, and tensor or offset, for anything damaged (weight_hash.h: a flipped
 * bit), and for a file whose tensors take more than `most` bytes, which is refused before they are
 * read. */
enum xt_status xt_weight_file_read(struct xt_weight_file *file, const char *path, size_t most,
                                   struct xt_err *err);

/* Gives the names their removed prefixes back. */
void xt_weight_file_restore_prefix(struct xt_weight_file *file);

/* The file to read: `path` itself, or in a run's folder its best weights, else its last ones; into
 * *out (release with free). XT_ERR_DATA for a folder that has neither. */
enum xt_status xt_weight_file_locate(char **out, const char *path, struct xt_err *err);

/* As xt_weight_file_read, from memory (fuzzing, tests). `name` is for messages. */
enum xt_status xt_weight_file_parse(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                    const char *name, struct xt_err *err);

/* Writes safetensors: temporary name, synced, renamed. Tensors are in the order given, without
 * holes; the first begins on a multiple of eight bytes. Adds their hashes to the metadata, in
 * place of those of the file that `meta` was read from. */
enum xt_status xt_weight_file_write(const char *path, const struct xt_file_tensor *tensors,
                                    size_t count, const struct xt_file_meta *meta,
                                    size_t meta_count, struct xt_err *err);
