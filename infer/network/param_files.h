/* A network's parameters as the tensors of a weight file, and back: published names, shapes and
 * order. Not thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "engine/params.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"

/* The file's tensors, one for each name: shapes and freshly allocated data. Release with
 * xt_params_free_tensors. */
struct xt_params_tensors {
    struct xt_file_tensor *items;
    int count;
};
enum xt_status xt_params_to_tensors(const struct xt_params *params, struct xt_device *device,
                                    const struct xt_params_view *view,
                                    struct xt_params_tensors *out, struct xt_err *err);
void xt_params_free_tensors(struct xt_params_tensors *tensors);

/* Takes the values from a weight file. Missing, extra and mis-shaped tensors are listed in the
 * error, unless `partial`: then what fits is loaded and the rest is logged. Parameters and tensors
 * of the heads in `except` (NULL: none) are skipped. Non-finite weights and negative
 * variances are XT_ERR_DATA, by tensor and element. */
enum xt_status xt_params_from_file(struct xt_params *params, struct xt_device *device,
                                   const struct xt_params_view *view,
                                   const struct xt_weight_file *file, const char *file_name,
                                   bool partial, const struct xt_class_layer *except,
                                   struct xt_err *err);
