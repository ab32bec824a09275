/* How a picture has to be turned to be looked at: the Orientation tag of its Exif data (Exif 2.32,
 * tag 0x0112; exif.h reads it), which cameras write instead of turning the pixels. Thread-safe.
 */
#ifndef XT_DATA_IMAGE_ORIENTATION_H
#define XT_DATA_IMAGE_ORIENTATION_H

#include "data/image/image.h"

/* The pixel that is seen at (x, y) is stored at (x, y), first with x and y exchanged where
 * `transpose`, then mirrored in the stored width and height. Zeroed: stored as it is seen. */
struct xt_orientation {
    bool transpose, mirror_x, mirror_y;
};

bool xt_orientation_is_stored(const struct xt_orientation *orientation);

/* A part of the picture as it is seen, in the pixels that are stored (width x height of them); and
 * back. */
struct xt_box xt_orientation_to_stored(const struct xt_orientation *orientation, struct xt_box seen,
                                       double width, double height);
struct xt_box xt_orientation_to_seen(const struct xt_orientation *orientation, struct xt_box stored,
                                     double width, double height);

/* `out` becomes `stored` as it is seen. */
enum xt_status xt_orientation_apply(const struct xt_orientation *orientation,
                                    const struct xt_image *stored, struct xt_image *out,
                                    struct xt_err *err);

#endif
