/* A forward pass over images without labels or score: a random sample of a source's, by the
 * settings' seed. One thread at a time.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "data/sources/source.h"
#include "infer/network/network.h"
#include "infer/settings.h"

struct xt_image_pass {
    const struct xt_source *source;
    size_t most;        /* images */
    const char *option; /* that named the source, for warnings */
    const char *what;   /* for the message after a signal: "while ..." */
    /* After each batch: the pixels of its `count` samples, [count][h][w][3]. May be NULL. */
    enum xt_status (*observe)(void *context, const uint8_t *pixels, int count, struct xt_err *err);
    void *context;
};

/* *done gets the number of images used. Images that cannot be read are skipped with a warning. */
enum xt_status xt_image_pass_run(struct xt_network *network,
                                 const struct xt_data_settings *settings,
                                 const struct xt_image_pass *pass, size_t *done,
                                 struct xt_err *err);
