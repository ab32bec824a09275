/* From a picture to the network's pixels: decoded, cropped to the requested region, resized. Shared
 * by the program and the library. One cutter per thread.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "data/image/decoder.h"
#include "data/image/resize.h"
#include "infer/feed.h"

/* The part of a picture that is read, in its pixels. */
struct xt_region {
    int count;         /* 0: the whole picture. 4: x, y, width, height. 8: the corners' x and y as
                          seen upright, from the left top clockwise */
    double numbers[8]; /* finite */
};

/* XT_ERR_USAGE for an invalid region: another count, no size, corners in another order. */
enum xt_status xt_region_check(const struct xt_region *region, struct xt_err *err);

/* Pixels in memory. */
struct xt_pixels {
    const uint8_t *bytes;
    int width, height;
    size_t stride;   /* from row to row, bytes */
    bool grey;       /* one byte a pixel, else three */
    bool is_swapped; /* their channel order is not the network's */
};

/* Zeroed is ready. */
struct xt_cutter {
    struct xt_decoder decoder;
    struct xt_resizer resizer;
    struct xt_picture picture;
    struct xt_image upright; /* rectified from four corners */
};
void xt_cutter_clear(struct xt_cutter *cutter);
/* Frees memory that only a large picture needs. */
void xt_cutter_trim(struct xt_cutter *cutter);

/* Each fills [height][width][3] at `out`, in the network's channel order; the region has been
 * checked. `name` is for messages. XT_ERR_DATA for a file that is not a picture, and for a region
 * outside it. */
enum xt_status xt_cutter_file(struct xt_cutter *cutter, const struct xt_feed_size *size,
                              const char *path, const struct xt_region *region, uint8_t *out,
                              struct xt_err *err);
enum xt_status xt_cutter_encoded(struct xt_cutter *cutter, const struct xt_feed_size *size,
                                 const uint8_t *bytes, size_t count, const char *name,
                                 const struct xt_region *region, uint8_t *out, struct xt_err *err);
enum xt_status xt_cutter_pixels(struct xt_cutter *cutter, const struct xt_feed_size *size,
                                const struct xt_pixels *pixels, const struct xt_region *region,
                                uint8_t *out, struct xt_err *err);
