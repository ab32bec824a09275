/* PyTorch's .pth files, both forms: the zip archive of PyTorch 1.6 and later, and the stream of
 * pickles before it (protocol 1001). torch/serialization.py describes both. Errors leave the file's
 * name to the caller.
 */
#ifndef XT_MODELS_WEIGHTS_PTH_H
#define XT_MODELS_WEIGHTS_PTH_H

#include "models/weights/weight_file.h"

/* Fill `file`. Tensors of the legacy form point into `bytes` (or into the file's own memory where
 * they had to be made dense); those of the zip form never do. After a failure the caller clears
 * `file`. */
enum xt_status xt_pth_parse_zip(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                struct xt_err *err);
enum xt_status xt_pth_parse_legacy(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                   struct xt_err *err);

#endif
