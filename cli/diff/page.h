/* The page of xtrain diff: the images that two models answer differently, with their pictures and
 * what each said of them, and the tensors that differ.
 */
#ifndef XT_CLI_DIFF_PAGE_H
#define XT_CLI_DIFF_PAGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/report.h"
#include "runs/report/findings.h"

enum { XT_DIFF_PICTURES = 100 }; /* of each kind */

/* An image, and of each model: its answer as findings.h describes an error, in JSON. */
struct xt_diff_image {
    size_t index; /* in the source */
    const char *answers[2];
    double confidence[2];
    bool right[2];
};

/* What the page shows of them into *out (cJSON_Delete): where A alone is right, where B alone is,
 * then where neither is; of each the surest of what is wrong first. Reorders the images. The
 * findings are of the second model; they lend objective, source and data settings, and say how many
 * images of each kind have pictures. */
enum xt_status xt_diff_page_images(struct xt_diff_image *images, size_t count,
                                   const struct xt_findings *findings, cJSON **out,
                                   struct xt_err *err);
/* Takes both, also after a failure. */
enum xt_status xt_diff_page_write(const char *path, struct xt_report *report, cJSON *images,
                                  struct xt_err *err);

#endif
