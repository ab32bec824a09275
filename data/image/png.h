/* PNG through libpng, read and written. One per thread; zeroed is empty. */
#pragma once

#include "base/str.h"
#include "data/image/image.h"

struct xt_png {
    double until;  /* the thread's CPU time, s, at which decoding fails; 0: no limit */
    bool is_late;  /* the limit was exceeded */
    uint8_t *rows; /* RGBA rows before they are blended over black */
    size_t rows_capacity;
};

void xt_png_clear(struct xt_png *state);

bool xt_png_is(const uint8_t *bytes, size_t size);
/* The size in its header; 0: unknown. */
uint64_t xt_png_pixels(const uint8_t *bytes, size_t size);
enum xt_status xt_png_decode(struct xt_png *state, const uint8_t *bytes, size_t size,
                             enum xt_pixel_order order, const char *name, struct xt_image *out,
                             struct xt_err *err);

/* Appends the image as an 8-bit PNG; `order` is that of the pixels. */
enum xt_status xt_png_encode(const struct xt_image *image, enum xt_pixel_order order,
                             struct xt_str *out, struct xt_err *err);
/* Writes the file under a temporary name, then renames it. */
enum xt_status xt_png_save(const char *path, const struct xt_image *image,
                           enum xt_pixel_order order, struct xt_err *err);
