/* Images out of files: JPEG (libjpeg-turbo), PNG (libpng) and WebP (libwebp), told apart by content
 * and not by name, turned as their Exif orientation says. Grey, palette, CMYK, 16-bit and alpha
 * (over black) all become three channels.
 */
#ifndef XT_DATA_IMAGE_DECODER_H
#define XT_DATA_IMAGE_DECODER_H

#include "data/image/jpeg.h"
#include "data/image/png.h"
#include "data/image/webp.h"

/* A thread's tools, used again from image to image: nothing in them is an answer. Zeroed is
 * ready. */
struct xt_decoder {
    struct xt_jpeg jpeg;
    struct xt_png png;
    double cpu_seconds; /* that a JPEG or PNG may take; 0: no limit */
    bool is_late;       /* the last one would have taken longer, and was given up */
    uint8_t *bytes;     /* of a file */
    size_t capacity;
    struct xt_image stored;    /* before it is turned */
    struct xt_picture picture; /* for what a sample's image is cut out of */
};
void xt_decoder_clear(struct xt_decoder *decoder);

/* Whether a file that begins with these bytes (12 of them are enough) is an image that is read; the
 * name of what else it is ("a GIF"), NULL where that is not known. */
bool xt_decoder_reads(const uint8_t *start, size_t size);
const char *xt_decoder_other_format(const uint8_t *start, size_t size);
/* How many pixels a whole file's header says it has; 0 where it cannot be told. */
uint64_t xt_decoder_pixels(const uint8_t *bytes, size_t size);

/* Decodes a whole file's bytes for what is wanted (NULL: all of it). `name` is for messages.
 * XT_ERR_DATA for anything that is not a whole, sane image. */
enum xt_status xt_decoder_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                                 enum xt_pixel_order order, const struct xt_want *want,
                                 const char *name, struct xt_picture *out, struct xt_err *err);
/* Reads a file; *bytes are the decoder's, and stay until it reads the next one. */
enum xt_status xt_decoder_read(struct xt_decoder *decoder, const char *path, const uint8_t **bytes,
                               size_t *size, struct xt_err *err);
/* Reads and decodes a file. */
enum xt_status xt_decoder_load(struct xt_decoder *decoder, const char *path,
                               enum xt_pixel_order order, const struct xt_want *want,
                               struct xt_picture *out, struct xt_err *err);

#endif
