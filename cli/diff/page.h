/* The page of xtrain diff: the images with different predictions, and the tensors that differ. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/report.h"
#include "runs/report/findings.h"

enum { XT_DIFF_PICTURES = 100 }; /* of each kind */

/* An image with each model's prediction, as JSON in the form of findings.h. */
struct xt_diff_image {
    size_t index; /* in the source */
    const char *answers[2];
    double confidence[2];
    bool right[2];
};

/* Builds the page's image list in *out (cJSON_Delete): only A correct, only B correct, then
 * neither; within each the most confident errors first. Reorders the images. The findings are the
 * second model's; they provide predictor, source and data settings, and the number of images of
 * each kind with pictures. */
enum xt_status xt_diff_page_images(struct xt_diff_image *images, size_t count,
                                   const struct xt_findings *findings, cJSON **out,
                                   struct xt_err *err);
/* Takes ownership of both, also after a failure. */
enum xt_status xt_diff_page_write(const char *path, struct xt_report *report, cJSON *images,
                                  struct xt_err *err);
