/* WebP through libwebp, for decoder.c: still pictures. Stateless; thread-safe. */
#pragma once

#include "data/image/image.h"

bool xt_webp_is(const uint8_t *bytes, size_t size);
/* The size in its header; 0: unknown. */
uint64_t xt_webp_pixels(const uint8_t *bytes, size_t size);
/* The whole picture, blended over black. */
enum xt_status xt_webp_decode(const uint8_t *bytes, size_t size, enum xt_pixel_order order,
                              const char *name, struct xt_image *out, struct xt_err *err);
