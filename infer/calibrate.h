/* From trained weights to int8 without training: sample images go through the fused network in
 * float32, and how large each convolution's numbers get there decides the steps of its int8 ones.
 * Labels are not read. One thread at a time.
 */
#ifndef XT_INFER_CALIBRATE_H
#define XT_INFER_CALIBRATE_H

#include <stddef.h>

#include "base/err.h"
#include "infer/network/network.h"

/* What the ranges came from. */
struct xt_calibration {
    size_t images; /* looked at */
    size_t all;    /* that there were */
    char source[256];
};

/* Refuses settings that int8 cannot be had with. */
enum xt_status xt_calibrate_check(const struct xt_network_settings *settings, struct xt_err *err);

/* Finds the network's ranges with up to answer.calibrate_images images of `spec`, spread over
 * it by data.seed, and leaves a float32 graph of some batch: rebuild it. XT_ERR_DATA where
 * there is no image, or the network gives what is no number. */
enum xt_status xt_calibrate(struct xt_network *network, const struct xt_infer_settings *settings,
                            const char *spec, struct xt_calibration *out, struct xt_err *err);

/* Calibrates, then builds the int8 graph for `batch`. */
enum xt_status xt_calibrate_int8(struct xt_network *network,
                                 const struct xt_infer_settings *settings, const char *spec,
                                 int batch, struct xt_calibration *out, struct xt_err *err);

/* Builds the int8 graph for `batch`, in place of a fused one, with ranges that say nothing: for its
 * kernels alone. They are those of a calibrated graph, but where a kernel of oneDNN's has a
 * residual's step written into it (its OpenCL C does, its machine code is not kept anyway). */
enum xt_status xt_calibrate_blank(struct xt_network *network,
                                  const struct xt_network_settings *settings, int batch,
                                  struct xt_err *err);

#endif
