/* Which network weights are of that do not say it: PyTorch's own files have tensors alone. */
#pragma once

#include "models/registry.h"
#include "models/weights/weight_store.h"

/* The network whose parameters the file's tensors are, by names and shapes, whatever their classes;
 * NULL in *out: none here. */
enum xt_status xt_model_recognise(const struct xt_weight_file *weights,
                                  const struct xt_model_info **out, struct xt_err *err);
