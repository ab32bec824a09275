/* Images through a network for their own sake: no labels, no score. Some of a source's, spread over
 * it by the settings' seed. One thread at a time.
 */
#ifndef XT_INFER_IMAGE_PASS_H
#define XT_INFER_IMAGE_PASS_H

#include <stddef.h>

#include "base/err.h"
#include "data/sources/source.h"
#include "infer/network/network.h"
#include "infer/settings.h"

struct xt_image_pass {
    const struct xt_source *source;
    size_t most;        /* images */
    const char *option; /* that named the source, for warnings */
    const char *what;   /* a signal ends: "while ..." */
    /* After each pass, of `count` samples that matter: their pixels, [count][h][w][3]. NULL: nobody
     * asks. */
    enum xt_status (*see)(void *context, const uint8_t *pixels, int count, struct xt_err *err);
    void *context;
};

/* *done gets how many were looked at. Images that cannot be read are left out with a warning. */
enum xt_status xt_image_pass_run(struct xt_network *network,
                                 const struct xt_data_settings *settings,
                                 const struct xt_image_pass *look, size_t *done,
                                 struct xt_err *err);

#endif
