#include "infer/session/cutter.h"

#include <math.h>
#include <string.h>

#include "data/image/straighten.h"

/* A cutter's buffers are freed after a picture that needed more than this. */
enum { CACHED_BYTES = 16 * 1024 * 1024 };

static struct xt_corners corners_of(const struct xt_region *region)
{
    const double *at = region->numbers;
    return (struct xt_corners){.left_top = {at[0], at[1]},
                               .right_top = {at[2], at[3]},
                               .right_bottom = {at[4], at[5]},
                               .left_bottom = {at[6], at[7]}};
}

enum xt_status xt_region_check(const struct xt_region *region, struct xt_err *err)
{
    if (region->count != 0 && region->count != 4 && region->count != 8)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "a region is 4 numbers (x y width height) or 8 (x and y of four corners), not %d",
            region->count);
    for (int i = 0; i < region->count; i++)
        if (!isfinite(region->numbers[i]))
            return xt_err_set(err, XT_ERR_USAGE, "a region's numbers are finite");
    struct xt_corners corners = corners_of(region);
    if (region->count == 4 && (region->numbers[2] <= 0 || region->numbers[3] <= 0))
        return xt_err_set(err, XT_ERR_USAGE,
                          "the region has no size: it is x y width height, and here %g wide and %g "
                          "high",
                          region->numbers[2], region->numbers[3]);
    if (region->count == 8 && !xt_corners_are_convex(&corners))
        return xt_err_set(err, XT_ERR_USAGE,
                          "the four corners are not in clockwise order: give left top, right top, "
                          "right bottom, left bottom");
    return XT_OK;
}

void xt_cutter_clear(struct xt_cutter *cutter)
{
    xt_decoder_clear(&cutter->decoder);
    xt_resizer_clear(&cutter->resizer);
    xt_image_clear(&cutter->picture.image);
    xt_image_clear(&cutter->upright);
}

void xt_cutter_trim(struct xt_cutter *cutter)
{
    const struct xt_decoder *decoder = &cutter->decoder;
    if (cutter->picture.image.capacity + cutter->upright.capacity + decoder->capacity +
            decoder->jpeg.inks_capacity + decoder->png.rows_capacity >
        CACHED_BYTES)
        xt_cutter_clear(cutter);
}

/* Clips a box to the picture. */
static enum xt_status clip(const struct xt_region *region, const struct xt_image *image,
                           struct xt_box *box, struct xt_err *err)
{
    const double *at = region->numbers;
    double left = fmax(at[0], 0);
    double top = fmax(at[1], 0);
    double right = fmin(at[0] + at[2], image->width);
    double bottom = fmin(at[1] + at[3], image->height);
    *box = (struct xt_box){left, top, right - left, bottom - top};
    if (right > left && bottom > top)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "the region %g %g %g %g lies outside the picture, which has %d x %d pixels",
                      at[0], at[1], at[2], at[3], image->width, image->height);
}

/* Corners may lie outside, as with a plate at the picture's edge, but not so far that hardly any of
 * the region remains. */
static enum xt_status check_corners(const struct xt_region *region, const struct xt_image *image,
                                    struct xt_err *err)
{
    for (int i = 0; i < 8; i += 2) {
        double x = region->numbers[i];
        double y = region->numbers[i + 1];
        if (x < -image->width || x > 2.0 * image->width || y < -image->height ||
            y > 2.0 * image->height)
            return xt_err_set(err, XT_ERR_DATA,
                              "the corner %g %g lies far outside the picture, which has %d x %d "
                              "pixels",
                              x, y, image->width, image->height);
    }
    return XT_OK;
}

static enum xt_status cut(struct xt_cutter *cutter, const struct xt_feed_size *size,
                          const struct xt_region *region, uint8_t *out, struct xt_err *err)
{
    const struct xt_image *image = &cutter->picture.image;
    struct xt_box box = {.width = image->width, .height = image->height};
    enum xt_status status = XT_OK;
    if (region->count == 8) {
        struct xt_corners corners = corners_of(region);
        status = check_corners(region, image, err);
        if (!status)
            status = xt_straighten(image, &corners, &cutter->upright, err);
        image = &cutter->upright;
        box = (struct xt_box){.width = image->width, .height = image->height};
    } else if (region->count == 4) {
        status = clip(region, image, &box, err);
    }
    return status ? status
                  : xt_resize_part(&cutter->resizer, image, &box, false, size->width, size->height,
                                   out, err);
}

static enum xt_pixel_order order_of(const struct xt_feed_size *size)
{
    return size->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB;
}

enum xt_status xt_cutter_file(struct xt_cutter *cutter, const struct xt_feed_size *size,
                              const char *path, const struct xt_region *region, uint8_t *out,
                              struct xt_err *err)
{
    enum xt_status status =
        xt_decoder_load(&cutter->decoder, path, order_of(size), NULL, &cutter->picture, err);
    if (status)
        return status;
    status = cut(cutter, size, region, out, err);
    return status ? xt_err_prefix(err, "%s: ", path) : XT_OK;
}

enum xt_status xt_cutter_encoded(struct xt_cutter *cutter, const struct xt_feed_size *size,
                                 const uint8_t *bytes, size_t count, const char *name,
                                 const struct xt_region *region, uint8_t *out, struct xt_err *err)
{
    enum xt_status status = xt_decoder_decode(&cutter->decoder, bytes, count, order_of(size), NULL,
                                              name, &cutter->picture, err);
    if (status)
        return status;
    status = cut(cutter, size, region, out, err);
    return status ? xt_err_prefix(err, "%s: ", name) : XT_OK;
}

static void copy_row(const struct xt_pixels *pixels, const uint8_t *from, uint8_t *to)
{
    size_t width = (size_t)pixels->width;
    if (!pixels->grey && !pixels->is_swapped) {
        memcpy(to, from, 3 * width);
        return;
    }
    for (size_t i = 0; i < width; i++, to += 3) {
        const uint8_t *pixel = from + (pixels->grey ? i : 3 * i);
        to[0] = pixels->grey ? pixel[0] : pixel[2];
        to[1] = pixels->grey ? pixel[0] : pixel[1];
        to[2] = pixel[0];
    }
}

enum xt_status xt_cutter_pixels(struct xt_cutter *cutter, const struct xt_feed_size *size,
                                const struct xt_pixels *pixels, const struct xt_region *region,
                                uint8_t *out, struct xt_err *err)
{
    struct xt_image *image = &cutter->picture.image;
    enum xt_status status = xt_image_reserve(image, pixels->width, pixels->height, err);
    if (status)
        return status;
    for (int row = 0; row < pixels->height; row++)
        copy_row(pixels, pixels->bytes + (size_t)row * pixels->stride,
                 image->pixels + (size_t)row * (size_t)pixels->width * 3);
    return cut(cutter, size, region, out, err);
}
