/* A plate that was photographed from the side, made upright: the perspective that takes its four
 * corners to a rectangle's (Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989).
 *
 * Thread-safe. The same bytes on every machine.
 */
#ifndef XT_DATA_IMAGE_STRAIGHTEN_H
#define XT_DATA_IMAGE_STRAIGHTEN_H

#include "data/image/image.h"

struct xt_point {
    double x;
    double y;
};

/* The corners as seen upright. */
struct xt_corners {
    struct xt_point left_top;
    struct xt_point right_top;
    struct xt_point right_bottom;
    struct xt_point left_bottom;
};

/* Whether they go round, in this order, without a dent: only such can be a rectangle seen from
 * somewhere. */
bool xt_corners_are_convex(const struct xt_corners *corners);

/* The part of `in` between the corners (in its pixels; convex) into `out`, which gets the size of
 * the longer ones of the opposite edges: so each pixel is about one of `in`, and a linear
 * interpolation is enough. What lies outside of `in` has the colour of its edge. */
enum xt_status xt_straighten(const struct xt_image *in, const struct xt_corners *corners,
                             struct xt_image *out, struct xt_err *err);

#endif
