/* PyTorch's .pth files, both forms: the zip archive of PyTorch 1.6 and later, and the stream of
 * pickles before it (protocol 1001). torch/serialization.py describes both. Errors leave the file's
 * name to the caller.
 */
#pragma once

#include "base/pickle.h"
#include "models/weights/weight_input.h"
#include "models/weights/weight_store.h"

/* The names that torch.save writes. */
extern const struct xt_pickle_rules xt_pth_pickles;

/* Fill `file`; only the storages of its tensors are read. After a failure the caller clears `file`.
 */
enum xt_status xt_pth_parse_zip(struct xt_weight_file *file, const struct xt_weight_input *input,
                                struct xt_err *err);
enum xt_status xt_pth_parse_legacy(struct xt_weight_file *file, const struct xt_weight_input *input,
                                   struct xt_err *err);
