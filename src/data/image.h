/* Images as the rest of the program sees them: 8-bit pixels of three channels, rows without
 * padding.
 *
 * Decoding takes JPEG (TurboJPEG) and PNG (libpng), told apart by content and not by name: grey,
 * palette, CMYK, 16-bit and alpha (over black) all become three channels. Sizes come from files and
 * are checked before anything is allocated: at most XT_IMAGE_PIXELS_MAX pixels.
 */
#ifndef XT_DATA_IMAGE_H
#define XT_DATA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_IMAGE_PIXELS_MAX = 64 * 1000 * 1000, XT_IMAGE_BYTES_MAX = 256 * 1024 * 1024 };

/* The order of the three bytes of a pixel: LPRNet reads BGR, ResNet-50 RGB. */
enum xt_pixel_order { XT_PIXEL_RGB, XT_PIXEL_BGR };

/* A growing pixel buffer: zeroed is empty, reuse keeps the memory, xt_image_clear releases it. */
struct xt_image {
    int width;
    int height;
    uint8_t *pixels; /* [height][width][3] */
    size_t capacity;
};

enum xt_status xt_image_reserve(struct xt_image *image, int width, int height, struct xt_err *err);
void xt_image_clear(struct xt_image *image);

/* A thread's decoding state (library handles, scratch), reused from image to image. One per thread.
 */
struct xt_decoder;
enum xt_status xt_decoder_create(struct xt_decoder **out, struct xt_err *err);
void xt_decoder_destroy(struct xt_decoder *decoder);

/* Decodes a whole file's bytes. `name` is for messages. XT_ERR_DATA for anything that is not a
 * whole, sane image. */
enum xt_status xt_image_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                               enum xt_pixel_order order, const char *name, struct xt_image *out,
                               struct xt_err *err);

/* Reads and decodes a file, through the decoder's own byte buffer. */
enum xt_status xt_image_load(struct xt_decoder *decoder, const char *path,
                             enum xt_pixel_order order, struct xt_image *out, struct xt_err *err);

/* Writes an 8-bit PNG (order says what the pixels hold), under a temporary name, then renamed. */
enum xt_status xt_image_save_png(const char *path, const struct xt_image *image,
                                 enum xt_pixel_order order, struct xt_err *err);

#endif
