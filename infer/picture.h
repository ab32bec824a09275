/* A sample of a source as the network reads it, as a small PNG: for pages and TensorBoard's events.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "data/sources/source.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Larger ones are scaled down. */
enum { XT_PICTURE_MOST = 128 };

struct xt_small_picture {
    int width;
    int height;
    struct xt_str png; /* owned */
};

/* Zeroed is empty; clear it also after a failure. */
enum xt_status xt_small_picture_make(struct xt_small_picture *picture,
                                     const struct xt_network *network,
                                     const struct xt_data_settings *data,
                                     const struct xt_source *source, size_t index,
                                     struct xt_err *err);
void xt_small_picture_clear(struct xt_small_picture *picture);

/* Appends it as "data:image/png;base64,...". */
enum xt_status xt_small_picture_url(const struct xt_small_picture *picture, struct xt_str *out,
                                    struct xt_err *err);
