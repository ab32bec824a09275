/* PNG through libpng, for image.c. One per thread; zeroed is empty. */
#ifndef XT_DATA_IMAGE_PNG_H
#define XT_DATA_IMAGE_PNG_H

#include <stdbool.h>

#include "data/image/image.h"

struct xt_png {
    uint8_t *rows; /* RGBA rows before they are laid over black */
    size_t rows_capacity;
};

void xt_png_clear(struct xt_png *state);

bool xt_png_is(const uint8_t *bytes, size_t size);
enum xt_status xt_png_decode(struct xt_png *state, const uint8_t *bytes, size_t size,
                             enum xt_pixel_order order, const char *name, struct xt_image *out,
                             struct xt_err *err);

#endif
