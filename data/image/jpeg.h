/* JPEG through libjpeg-turbo, for decoder.c. One per thread; zeroed is empty.
 *
 * If only a part is requested, or the image will be reduced, only that is decoded: at a half, a
 * quarter or an eighth of its size (the cosine transform's own scaling), and only the rows and
 * blocks of the part.
 */
#pragma once

#include "data/image/orientation.h"
#include "data/image/transform.h"

struct xt_jpeg_state;

struct xt_jpeg {
    struct xt_jpeg_state *state;
    double until;  /* the thread's CPU time, s, at which decoding fails; 0: no limit */
    bool is_late;  /* the limit was exceeded */
    uint8_t *inks; /* [height][width][4] of a CMYK image */
    size_t inks_capacity;
};

void xt_jpeg_clear(struct xt_jpeg *jpeg);

bool xt_jpeg_is(const uint8_t *bytes, size_t size);
/* A segment before the image data: the code after 0xFF, and its bytes after the length. */
struct xt_jpeg_segment {
    int marker;
    const uint8_t *data;
    size_t size;
};
/* The segment at *at (0: the first), and advances; false at the image data, or if damaged. */
bool xt_jpeg_next_segment(const uint8_t *bytes, size_t size, size_t *at,
                          struct xt_jpeg_segment *segment);
/* The size in its header; 0: unknown. */
uint64_t xt_jpeg_pixels(const uint8_t *bytes, size_t size);
/* Pixels are in stored orientation, and so is out->part; the request refers to the upright picture,
 * by `orientation`. */
enum xt_status xt_jpeg_decode(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                              const struct xt_orientation *orientation, enum xt_pixel_order order,
                              const struct xt_want *want, const char *name, struct xt_picture *out,
                              struct xt_err *err);
