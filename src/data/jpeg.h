/* JPEG through TurboJPEG, for image.c. One per thread; zeroed is empty. */
#ifndef XT_DATA_JPEG_H
#define XT_DATA_JPEG_H

#include <stdbool.h>

#include "data/image.h"

struct xt_jpeg {
    void *handle;
    uint8_t *inks; /* [height][width][4] of a CMYK image */
    size_t inks_capacity;
};

enum xt_status xt_jpeg_init(struct xt_jpeg *jpeg, struct xt_err *err);
void xt_jpeg_clear(struct xt_jpeg *jpeg);

bool xt_jpeg_is(const uint8_t *bytes, size_t size);
enum xt_status xt_jpeg_decode(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                              enum xt_pixel_order order, const char *name, struct xt_image *out,
                              struct xt_err *err);

#endif
