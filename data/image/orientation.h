/* How a picture must be rotated to be upright: the Orientation tag of its Exif data (Exif 2.32, tag
 * 0x0112; exif.h reads it), which cameras write instead of rotating the pixels. Thread-safe.
 */
#pragma once

#include "data/image/image.h"

/* The upright pixel (x, y) is stored at (x, y) with x and y exchanged if `transpose`, then mirrored
 * in the stored width and height. Zeroed: stored upright. */
struct xt_orientation {
    bool transpose, mirror_x, mirror_y;
};

bool xt_orientation_is_stored(const struct xt_orientation *orientation);

/* Maps a part of the upright picture to stored pixels (width x height of them); and back. */
struct xt_box xt_orientation_to_stored(const struct xt_orientation *orientation, struct xt_box seen,
                                       double width, double height);
struct xt_box xt_orientation_to_seen(const struct xt_orientation *orientation, struct xt_box stored,
                                     double width, double height);

/* Writes `stored` upright to `out`. */
enum xt_status xt_orientation_apply(const struct xt_orientation *orientation,
                                    const struct xt_image *stored, struct xt_image *out,
                                    struct xt_err *err);
