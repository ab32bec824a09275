/* Images: 8-bit pixels of three channels, rows without padding. Sizes come from files and are
 * checked before anything is allocated: at most XT_IMAGE_PIXELS_MAX pixels.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    XT_IMAGE_PIXELS_MAX = 64 * 1000 * 1000,
    XT_IMAGE_BYTES_MAX = 256 * 1024 * 1024,
    XT_IMAGE_SLACK = 2,
};

/* The order of the three bytes of a pixel: LPRNet reads BGR, ResNet-50 RGB. */
enum xt_pixel_order { XT_PIXEL_RGB, XT_PIXEL_BGR };

/* A growing pixel buffer: zeroed is empty, its memory is reused, xt_image_clear releases it. */
struct xt_image {
    int width;
    int height;
    uint8_t *pixels; /* [height][width][3] and XT_IMAGE_SLACK bytes that may be read */
    size_t capacity;
};

/* Whether it is an image's suffix, .jpg, .jpeg, .png or .webp, in any case; whether a file's name
 * has one. */
bool xt_image_is_ending(const char *ending);
bool xt_image_is_name(const char *name);
/* Whether it is the suffix of a format of pictures that is not read. */
bool xt_image_is_unread_ending(const char *ending);

/* XT_ERR_DATA if an image may not have this size. */
enum xt_status xt_image_check(int width, int height, struct xt_err *err);
enum xt_status xt_image_reserve(struct xt_image *image, int width, int height, struct xt_err *err);
void xt_image_clear(struct xt_image *image);

/* A part of an image, in pixels; its edges may be fractional. */
struct xt_box {
    double left;
    double top;
    double width;
    double height;
};
