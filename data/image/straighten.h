/* Rectifies a plate that was photographed at an angle: the perspective transform that maps its four
 * corners to a rectangle's (Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989).
 *
 * Thread-safe. The same bytes on every machine.
 */
#pragma once

#include "data/image/image.h"

struct xt_point {
    double x;
    double y;
};

/* The corners of the upright plate. */
struct xt_corners {
    struct xt_point left_top;
    struct xt_point right_top;
    struct xt_point right_bottom;
    struct xt_point left_bottom;
};

/* Whether they form, in this order, a convex quadrilateral: only such can be the view of a
 * rectangle. */
bool xt_corners_are_convex(const struct xt_corners *corners);

/* The part of `in` between the corners (in its pixels; convex) into `out`, which gets the longer
 * ones of the opposite edges as its size: so each pixel is about one of `in`, and linear
 * interpolation is enough. Outside of `in` its border is repeated. */
enum xt_status xt_straighten(const struct xt_image *in, const struct xt_corners *corners,
                             struct xt_image *out, struct xt_err *err);
