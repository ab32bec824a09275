/* Checks an exported model against its network: onnxruntime runs the file, in a separate Python
 * process, on the same images. Not thread-safe. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "data/sources/source.h"
#include "infer/network/network.h"
#include "cli/settings.h"

struct xt_export_check {
    char why_not[512]; /* why it was not checked; "" if it was */
    char runtime[64];  /* "onnxruntime 1.20.1" */
    size_t images, all;
    size_t same;      /* images with the same prediction */
    double largest;   /* largest difference of two logits */
    double magnitude; /* the largest logit */
    bool passed;
};

/* Opens the images of --check for this network; labels are not needed. */
enum xt_status xt_export_check_open(const struct xt_network *network,
                                    const struct xt_settings *settings, struct xt_source **out,
                                    struct xt_err *err);
/* `network` is built, in float32 or, for an int8 model, in int8. XT_ERR_RUN if onnxruntime cannot
 * run the file; different results are reported in *out. */
enum xt_status xt_export_check(struct xt_network *network, const struct xt_settings *settings,
                               const struct xt_source *source, const char *model,
                               struct xt_export_check *out, struct xt_err *err);
