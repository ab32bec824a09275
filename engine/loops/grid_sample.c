/* Bilinear samples of an image, channels as vectors: each point reads four pixels, of which those
 * outside of the image are left out.
 */
#include <math.h>

#include "engine/loops/lanes.h"
#include "engine/loops/table.h"

/* A point: the four pixels' places in the image and their weights, or 0 where they are outside. */
struct corners {
    size_t pixel[4];
    bool inside[4];
    float weight[4];
    float part[2];  /* of the way from the first pixel to the next, along x and y */
    float slope[2]; /* of the place in pixels, by the coordinate */
    bool is_number;
};

/* The pixel before a place; far outside it is any other that is outside. */
static int whole_below(float at, int length, float *part)
{
    if (!(at >= -1 && at < (float)length)) {
        *part = 0;
        return -2;
    }
    int whole = (int)(at + 1) - 1;
    *part = at - (float)whole;
    return whole;
}

static struct corners corners_of(const struct xt_grid_points *points, size_t i)
{
    const int length[] = {points->w, points->h};
    struct corners out = {.is_number = true};
    int first[2];
    for (int axis = 0; axis < 2; axis++) {
        float end = (float)(length[axis] - 1);
        float at = points->grid[2 * i + (size_t)axis] * points->scale[axis] + points->offset[axis];
        out.slope[axis] = points->scale[axis];
        out.is_number = out.is_number && at == at;
        if (points->border && !(at > 0 && at < end)) {
            out.slope[axis] = 0;
            at = at > 0 ? end : 0;
        }
        first[axis] = whole_below(at, length[axis], &out.part[axis]);
    }
    for (int k = 0; k < 4; k++) {
        int x = first[0] + k % 2;
        int y = first[1] + k / 2;
        out.inside[k] = x >= 0 && x < points->w && y >= 0 && y < points->h;
        if (!out.inside[k])
            continue;
        out.pixel[k] = ((size_t)y * (size_t)points->w + (size_t)x) * (size_t)points->c;
        out.weight[k] =
            (k % 2 ? out.part[0] : 1 - out.part[0]) * (k / 2 ? out.part[1] : 1 - out.part[1]);
    }
    return out;
}

XT_INLINE void sample(const struct xt_grid_points *points, const void *image, void *out,
                      enum xt_dtype dtype)
{
    size_t c = (size_t)points->c;
    for (size_t i = 0; i < points->count; i++) {
        struct corners of = corners_of(points, i);
        for (size_t k = 0; k < c; k += WIDTH) {
            size_t lanes = c - k < WIDTH ? c - k : WIDTH;
            vec sum = vec_of(of.is_number ? 0 : NAN);
            for (int corner = 0; corner < 4; corner++)
                if (of.inside[corner])
                    sum += vec_of(of.weight[corner]) *
                           load_part(image, of.pixel[corner] + k, lanes, dtype);
            store_part(out, i * c + k, lanes, sum, dtype);
        }
    }
}

/* What the output's gradient at a point gives one pixel; the product of both over the channels. */
XT_INLINE float spread(const void *image, const void *dout, size_t c, float weight, float *dimage,
                       enum xt_dtype dtype)
{
    float each[WIDTH];
    float sum = 0;
    vec products = {0};
    for (size_t k = 0; k < c; k += WIDTH) {
        size_t lanes = c - k < WIDTH ? c - k : WIDTH;
        vec dy = load_part(dout, k, lanes, dtype);
        products += dy * load_part(image, k, lanes, dtype);
        if (dimage)
            store_part(dimage, k, lanes, load_part(dimage, k, lanes, XT_F32) + vec_of(weight) * dy,
                       XT_F32);
    }
    store_vec(each, 0, products, XT_F32);
    for (int k = 0; k < WIDTH; k++)
        sum += each[k];
    return sum;
}

/* Adds to the image's gradient; either gradient may be NULL. */
XT_INLINE void backward(const struct xt_grid_points *points, const void *image, const void *dout,
                        float *dimage, float *dgrid, enum xt_dtype dtype)
{
    size_t c = (size_t)points->c;
    for (size_t i = 0; i < points->count; i++) {
        struct corners of = corners_of(points, i);
        float products[4] = {0};
        for (int k = 0; k < 4; k++)
            if (of.inside[k])
                products[k] = spread(at(image, of.pixel[k], dtype), at(dout, i * c, dtype), c,
                                     of.weight[k], dimage ? dimage + of.pixel[k] : NULL, dtype);
        if (!dgrid)
            continue;
        float along_x = (products[1] - products[0]) * (1 - of.part[1]) +
                        (products[3] - products[2]) * of.part[1];
        float along_y = (products[2] - products[0]) * (1 - of.part[0]) +
                        (products[3] - products[1]) * of.part[0];
        dgrid[2 * i] = of.is_number ? along_x * of.slope[0] : NAN;
        dgrid[2 * i + 1] = of.is_number ? along_y * of.slope[1] : NAN;
    }
}

void XT_LOOPS_NAME(grid_sample)(const struct xt_grid_points *points, enum xt_dtype dtype,
                                const void *image, void *out)
{
    if (dtype == XT_F32)
        sample(points, image, out, XT_F32);
    else
        sample(points, image, out, XT_BF16);
}

void XT_LOOPS_NAME(grid_sample_backward)(const struct xt_grid_points *points, enum xt_dtype dtype,
                                         const void *image, const void *dout, float *dimage,
                                         float *dgrid)
{
    if (dtype == XT_F32)
        backward(points, image, dout, dimage, dgrid, XT_F32);
    else
        backward(points, image, dout, dimage, dgrid, XT_BF16);
}
