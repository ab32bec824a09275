#include "data/image/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/system/thread.h"
#include "data/image/exif.h"

void xt_decoder_clear(struct xt_decoder *decoder)
{
    xt_jpeg_clear(&decoder->jpeg);
    xt_png_clear(&decoder->png);
    xt_image_clear(&decoder->stored);
    xt_image_clear(&decoder->picture.image);
    free(decoder->bytes);
    *decoder = (struct xt_decoder){0};
}

bool xt_decoder_reads(const uint8_t *start, size_t size)
{
    return xt_jpeg_is(start, size) || xt_png_is(start, size) || xt_webp_is(start, size);
}

const char *xt_decoder_other_format(const uint8_t *start, size_t size)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t size;
        const char *name;
    } formats[] = {
        {0, "GIF8", 4, "a GIF"},
        {0, "BM", 2, "a BMP"},
        {0, "II*\0", 4, "a TIFF"},
        {0, "MM\0*", 4, "a TIFF"},
        {4, "ftypheic", 8, "a HEIC"},
        {4, "ftypheix", 8, "a HEIC"},
        {4, "ftypmif1", 8, "a HEIF"},
        {4, "ftypavif", 8, "an AVIF"},
        {0, "\0\0\0\x0cjP", 6, "a JPEG 2000"},
        {0, "\xff\x0a", 2, "a JPEG XL"},
        {0, "\0\0\0\x0cJXL ", 8, "a JPEG XL"},
        {0, "%PDF", 4, "a PDF"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (size >= formats[i].at + formats[i].size &&
            memcmp(start + formats[i].at, formats[i].bytes, formats[i].size) == 0)
            return formats[i].name;
    return NULL;
}

uint64_t xt_decoder_pixels(const uint8_t *bytes, size_t size)
{
    if (xt_jpeg_is(bytes, size))
        return xt_jpeg_pixels(bytes, size);
    if (xt_webp_is(bytes, size))
        return xt_webp_pixels(bytes, size);
    return xt_png_is(bytes, size) ? xt_png_pixels(bytes, size) : 0;
}

static enum xt_status not_an_image(const uint8_t *bytes, size_t size, const char *name,
                                   struct xt_err *err)
{
    if (size == 0)
        return xt_err_set(err, XT_ERR_DATA, "%s is empty (zero bytes)", name);
    const char *format = bytes[0] == '<' ? "a web page" : xt_decoder_other_format(bytes, size);
    if (format)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is not a JPEG, PNG or WebP but looks like %s; convert it first", name,
                          format);
    return xt_err_set(err, XT_ERR_DATA, "%s is not a JPEG, PNG or WebP, despite its name", name);
}

static enum xt_status decode_stored(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                                    const struct xt_orientation *orientation,
                                    enum xt_pixel_order order, const struct xt_want *want,
                                    const char *name, struct xt_picture *out, struct xt_err *err)
{
    if (xt_jpeg_is(bytes, size))
        return xt_jpeg_decode(&decoder->jpeg, bytes, size, orientation, order, want, name, out,
                              err);
    enum xt_status status =
        xt_webp_is(bytes, size)
            ? xt_webp_decode(bytes, size, order, name, &out->image, err)
            : xt_png_decode(&decoder->png, bytes, size, order, name, &out->image, err);
    if (status)
        return status;
    out->width = out->image.width;
    out->height = out->image.height;
    bool transpose = orientation->transpose;
    struct xt_box part = xt_want_part(want, transpose ? out->height : out->width,
                                      transpose ? out->width : out->height);
    out->part = xt_orientation_to_stored(orientation, part, out->width, out->height);
    out->in_place = false;
    return XT_OK;
}

/* From stored to upright orientation. */
static enum xt_status turn(struct xt_decoder *decoder, const struct xt_orientation *orientation,
                           struct xt_picture *picture, struct xt_err *err)
{
    picture->turned = !xt_orientation_is_stored(orientation);
    if (!picture->turned)
        return XT_OK;
    struct xt_image stored = picture->image;
    picture->image = decoder->stored;
    decoder->stored = stored;
    picture->part = xt_orientation_to_seen(orientation, picture->part, stored.width, stored.height);
    if (orientation->transpose) {
        int width = picture->width;
        picture->width = picture->height;
        picture->height = width;
    }
    return xt_orientation_apply(orientation, &stored, &picture->image, err);
}

enum xt_status xt_decoder_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                                 enum xt_pixel_order order, const struct xt_want *want,
                                 const char *name, struct xt_picture *out, struct xt_err *err)
{
    if (!xt_decoder_reads(bytes, size))
        return not_an_image(bytes, size, name, err);
    struct xt_orientation orientation = xt_exif_orientation(bytes, size);
    double until = decoder->cpu_seconds > 0 ? xt_thread_cpu_seconds() + decoder->cpu_seconds : 0;
    decoder->jpeg.until = decoder->png.until = until;
    decoder->jpeg.is_late = decoder->png.is_late = false;
    enum xt_status status =
        decode_stored(decoder, bytes, size, &orientation, order, want, name, out, err);
    decoder->is_late = decoder->jpeg.is_late || decoder->png.is_late;
    return status ? status : turn(decoder, &orientation, out, err);
}

enum xt_status xt_decoder_read(struct xt_decoder *decoder, const char *path, const uint8_t **bytes,
                               size_t *size, struct xt_err *err)
{
    enum xt_status status =
        xt_file_read(path, XT_IMAGE_BYTES_MAX, &decoder->bytes, &decoder->capacity, size, err);
    *bytes = decoder->bytes;
    return status;
}

enum xt_status xt_decoder_load(struct xt_decoder *decoder, const char *path,
                               enum xt_pixel_order order, const struct xt_want *want,
                               struct xt_picture *out, struct xt_err *err)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    enum xt_status status = xt_decoder_read(decoder, path, &bytes, &size, err);
    return status ? status : xt_decoder_decode(decoder, bytes, size, order, want, path, out, err);
}
