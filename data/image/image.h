/* Images as the rest of the program sees them: 8-bit pixels of three channels, rows without
 * padding.
 *
 * Decoding takes JPEG (libjpeg-turbo) and PNG (libpng), told apart by content and not by name:
 * grey, palette, CMYK, 16-bit and alpha (over black) all become three channels. Sizes come from
 * files and are checked before anything is allocated: at most XT_IMAGE_PIXELS_MAX pixels.
 */
#ifndef XT_DATA_IMAGE_IMAGE_H
#define XT_DATA_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    XT_IMAGE_PIXELS_MAX = 64 * 1000 * 1000,
    XT_IMAGE_BYTES_MAX = 256 * 1024 * 1024,
    XT_IMAGE_SLACK = 2,
};

/* The order of the three bytes of a pixel: LPRNet reads BGR, ResNet-50 RGB. */
enum xt_pixel_order { XT_PIXEL_RGB, XT_PIXEL_BGR };

/* A growing pixel buffer: zeroed is empty, reuse keeps the memory, xt_image_clear releases it. */
struct xt_image {
    int width;
    int height;
    uint8_t *pixels; /* [height][width][3] and XT_IMAGE_SLACK bytes that may be read */
    size_t capacity;
};

/* Whether it is how an image's name ends, .jpg, .jpeg or .png, in any case; whether a file's name
 * ends so. */
bool xt_image_is_ending(const char *ending);
bool xt_image_is_name(const char *name);

/* Whether an image may be so large: XT_ERR_DATA where not. */
enum xt_status xt_image_check(int width, int height, struct xt_err *err);
enum xt_status xt_image_reserve(struct xt_image *image, int width, int height, struct xt_err *err);
void xt_image_clear(struct xt_image *image);

/* A thread's decoding state (library handles, scratch), reused from image to image. One per thread.
 */
struct xt_decoder;
enum xt_status xt_decoder_create(struct xt_decoder **out, struct xt_err *err);
void xt_decoder_destroy(struct xt_decoder *decoder);

/* A part of an image, in pixels; its edges may lie between pixels. */
struct xt_box {
    double left;
    double top;
    double width;
    double height;
};

/* What will be used of the images that are decoded: a part, resized to width x height. A JPEG's
 * decoder then leaves out what it can. */
struct xt_want {
    int width;
    int height;
    /* The part of an image of this size; called once an image. */
    struct xt_box (*part)(void *context, int width, int height);
    void *context;
    uint8_t *into; /* [height][width][3], or NULL: where a JPEG that has this size already, and of
                      which all is wanted, is decoded to, instead of into an image */
};

/* From here on images are decoded for this (borrowed); NULL, as at first: whole. */
void xt_decoder_want(struct xt_decoder *decoder, const struct xt_want *want);
/* Where the wanted part lies in the image that was decoded last; false where none was, or none with
 * a want, since xt_decoder_want. */
bool xt_decoder_part(const struct xt_decoder *decoder, struct xt_box *part);
/* Whether the image that was decoded last went into `want->into`; its xt_image then is as it
 * was. */
bool xt_decoder_went_into(const struct xt_decoder *decoder);

/* The decoder's own buffer, of at least `size` bytes: what is read into it can be decoded. Valid
 * until the next call with this decoder. */
enum xt_status xt_decoder_buffer(struct xt_decoder *decoder, size_t size, uint8_t **bytes,
                                 struct xt_err *err);

/* An image of the decoder's own, for what a source cuts a sample's out of; used again by the next
 * sample. */
struct xt_image *xt_decoder_scratch(struct xt_decoder *decoder);

/* Decodes a whole file's bytes. `name` is for messages. XT_ERR_DATA for anything that is not a
 * whole, sane image. */
enum xt_status xt_image_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                               enum xt_pixel_order order, const char *name, struct xt_image *out,
                               struct xt_err *err);

/* Reads a file into the decoder's own byte buffer, as xt_decoder_buffer gives it. */
enum xt_status xt_image_read(struct xt_decoder *decoder, const char *path, const uint8_t **bytes,
                             size_t *size, struct xt_err *err);
/* Reads and decodes a file. */
enum xt_status xt_image_load(struct xt_decoder *decoder, const char *path,
                             enum xt_pixel_order order, struct xt_image *out, struct xt_err *err);
/* Appends the image as an 8-bit PNG. */
enum xt_status xt_image_encode_png(const struct xt_image *image, enum xt_pixel_order order,
                                   struct xt_str *out, struct xt_err *err);
/* Writes an 8-bit PNG (order says what the pixels hold), under a temporary name, then renamed. */
enum xt_status xt_image_save_png(const char *path, const struct xt_image *image,
                                 enum xt_pixel_order order, struct xt_err *err);

#endif
