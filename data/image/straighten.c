#include "data/image/straighten.h"

#include <math.h>

/* x = (a u + b v + c) / (g u + h v + 1), y = (d u + e v + f) / (g u + h v + 1), where u and v go
 * from 0 to 1 along the upright plate. */
struct perspective {
    double a, b, c, d, e, f, g, h;
};

/* Twice the signed area of the triangle. */
static double turn(struct xt_point a, struct xt_point b, struct xt_point c)
{
    return (b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x);
}

bool xt_corners_are_convex(const struct xt_corners *corners)
{
    const struct xt_corners *q = corners;
    return turn(q->left_top, q->right_top, q->right_bottom) > 0 &&
           turn(q->right_top, q->right_bottom, q->left_bottom) > 0 &&
           turn(q->right_bottom, q->left_bottom, q->left_top) > 0 &&
           turn(q->left_bottom, q->left_top, q->right_top) > 0;
}

static struct perspective solve(const struct xt_corners *q)
{
    struct xt_point p0 = q->left_top;
    struct xt_point p1 = q->right_top;
    struct xt_point p2 = q->right_bottom;
    struct xt_point p3 = q->left_bottom;
    double dx1 = p1.x - p2.x;
    double dy1 = p1.y - p2.y;
    double dx2 = p3.x - p2.x;
    double dy2 = p3.y - p2.y;
    double sx = p0.x - p1.x + p2.x - p3.x;
    double sy = p0.y - p1.y + p2.y - p3.y;
    double whole = dx1 * dy2 - dx2 * dy1;
    double g = (sx * dy2 - dx2 * sy) / whole;
    double h = (dx1 * sy - sx * dy1) / whole;
    return (struct perspective){
        .a = p1.x - p0.x + g * p1.x,
        .b = p3.x - p0.x + h * p3.x,
        .c = p0.x,
        .d = p1.y - p0.y + g * p1.y,
        .e = p3.y - p0.y + h * p3.y,
        .f = p0.y,
        .g = g,
        .h = h,
    };
}

static double between(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* The colour at a point, between the centres of four pixels. */
static void sample(const struct xt_image *in, double x, double y, uint8_t *pixel)
{
    x = between(x - 0.5, 0, in->width - 1);
    y = between(y - 0.5, 0, in->height - 1);
    int left = (int)x;
    int top = (int)y;
    size_t right = left + 1 < in->width ? 3 : 0;
    size_t below = top + 1 < in->height ? (size_t)in->width * 3 : 0;
    double u = x - left;
    double v = y - top;
    const uint8_t *from = in->pixels + ((size_t)top * (size_t)in->width + (size_t)left) * 3;
    for (int c = 0; c < 3; c++, from++) {
        double upper = from[0] + u * (from[right] - from[0]);
        double lower = from[below] + u * (from[below + right] - from[below]);
        pixel[c] = (uint8_t)(upper + v * (lower - upper) + 0.5);
    }
}

static double distance(struct xt_point a, struct xt_point b)
{
    return sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
}

static double longer(double one, double other)
{
    return between(ceil(one > other ? one : other), 1, XT_IMAGE_PIXELS_MAX);
}

enum xt_status xt_straighten(const struct xt_image *in, const struct xt_corners *corners,
                             struct xt_image *out, struct xt_err *err)
{
    const struct xt_corners *q = corners;
    double wide =
        longer(distance(q->left_top, q->right_top), distance(q->left_bottom, q->right_bottom));
    double high =
        longer(distance(q->left_top, q->left_bottom), distance(q->right_top, q->right_bottom));
    /* Corners may lie outside, but what they enclose has no more pixels to show than the picture.
     */
    double scale = fmin(1, sqrt((double)in->width * in->height / (wide * high)));
    int width = (int)fmax(1, wide * scale);
    int height = (int)fmax(1, high * scale);
    enum xt_status status = xt_image_reserve(out, width, height, err);
    if (status)
        return status;
    struct perspective p = solve(corners);
    uint8_t *pixel = out->pixels;
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++, pixel += 3) {
            double u = (column + 0.5) / width;
            double v = (row + 0.5) / height;
            double depth = p.g * u + p.h * v + 1;
            sample(in, (p.a * u + p.b * v + p.c) / depth, (p.d * u + p.e * v + p.f) / depth, pixel);
        }
    return XT_OK;
}
