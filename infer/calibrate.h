/* Post-training quantisation to int8: sample images go through the fused network in float32, and
 * the range of each convolution's values there gives its int8 scales. Labels are not read. One
 * thread at a time.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "infer/network/network.h"

/* What the ranges came from. */
struct xt_calibration {
    size_t images; /* read */
    size_t all;    /* in the source */
    char source[256];
};

/* Refuses settings that exclude int8. */
enum xt_status xt_calibrate_check(const struct xt_network_settings *settings, struct xt_err *err);

/* Calibrates, then builds the int8 graph for `batch`; only calibrates where the settings'
 * layout is not the program's own. */
enum xt_status xt_calibrate_int8(struct xt_network *network,
                                 const struct xt_infer_settings *settings, const char *spec,
                                 int batch, struct xt_calibration *out, struct xt_err *err);

/* Builds the int8 graph for `batch`, in place of a fused one, with placeholder ranges: only to
 * compile its kernels. They are those of a calibrated graph, except where oneDNN compiles a
 * residual's scale into a kernel (its OpenCL C does; its machine code is not cached anyway). */
enum xt_status xt_calibrate_blank(struct xt_network *network,
                                  const struct xt_network_settings *settings, int batch,
                                  struct xt_err *err);
