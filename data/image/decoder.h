/* Decodes image files: JPEG (libjpeg-turbo), PNG (libpng) and WebP (libwebp), recognised by content
 * and not by name, rotated as their Exif orientation says. Grey, palette, CMYK, 16-bit and alpha
 * (over black) all become three channels.
 */
#pragma once

#include "data/image/jpeg.h"
#include "data/image/png.h"
#include "data/image/webp.h"

/* Per-thread buffers and library state, reused from image to image; carries no results. Zeroed is
 * ready. */
struct xt_decoder {
    struct xt_jpeg jpeg;
    struct xt_png png;
    double cpu_seconds; /* limit for a JPEG or PNG; 0: no limit */
    bool is_late;       /* the last image exceeded the limit and was abandoned */
    uint8_t *bytes;     /* of a file */
    size_t capacity;
    struct xt_image stored;    /* before rotation */
    struct xt_picture picture; /* the picture that a sample's image is cropped from */
};
void xt_decoder_clear(struct xt_decoder *decoder);

/* Whether a file that begins with these bytes (12 are enough) is a supported image; the name of a
 * format that is not ("a GIF"), NULL if unknown. */
bool xt_decoder_reads(const uint8_t *start, size_t size);
const char *xt_decoder_other_format(const uint8_t *start, size_t size);
/* The number of pixels according to the header of a whole file; 0 if unknown. */
uint64_t xt_decoder_pixels(const uint8_t *bytes, size_t size);

/* Decodes a whole file's bytes as requested (NULL: all of the image). `name` is for messages.
 * XT_ERR_DATA for anything but a complete, valid image. */
enum xt_status xt_decoder_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                                 enum xt_pixel_order order, const struct xt_want *want,
                                 const char *name, struct xt_picture *out, struct xt_err *err);
/* Reads a file; *bytes belong to the decoder and stay valid until its next read. */
enum xt_status xt_decoder_read(struct xt_decoder *decoder, const char *path, const uint8_t **bytes,
                               size_t *size, struct xt_err *err);
/* Reads and decodes a file. */
enum xt_status xt_decoder_load(struct xt_decoder *decoder, const char *path,
                               enum xt_pixel_order order, const struct xt_want *want,
                               struct xt_picture *out, struct xt_err *err);
