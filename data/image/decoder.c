#include "data/image/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

void xt_decoder_clear(struct xt_decoder *decoder)
{
    xt_jpeg_clear(&decoder->jpeg);
    xt_png_clear(&decoder->png);
    xt_image_clear(&decoder->picture.image);
    free(decoder->bytes);
    *decoder = (struct xt_decoder){0};
}

/* The name of a format that people do have but that is not read, or NULL. */
static const char *other_format(const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *start;
        size_t size;
        const char *name;
    } formats[] = {
        {"GIF8", 4, "a GIF"},   {"RIFF", 4, "a WebP"},  {"BM", 2, "a BMP"},
        {"II*\0", 4, "a TIFF"}, {"MM\0*", 4, "a TIFF"}, {"\0\0\0\x0cjP", 6, "a JPEG 2000"},
        {"<", 1, "a web page"}, {"%PDF", 4, "a PDF"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (size >= formats[i].size && memcmp(bytes, formats[i].start, formats[i].size) == 0)
            return formats[i].name;
    return NULL;
}

static enum xt_status not_an_image(const uint8_t *bytes, size_t size, const char *name,
                                   struct xt_err *err)
{
    if (size == 0)
        return xt_err_set(err, XT_ERR_DATA, "%s is empty (zero bytes)", name);
    const char *format = other_format(bytes, size);
    if (format)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is neither a JPEG nor a PNG but looks like %s; convert it first",
                          name, format);
    return xt_err_set(err, XT_ERR_DATA, "%s is neither a JPEG nor a PNG, whatever its name says",
                      name);
}

enum xt_status xt_decoder_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                                 enum xt_pixel_order order, const struct xt_want *want,
                                 const char *name, struct xt_picture *out, struct xt_err *err)
{
    if (xt_jpeg_is(bytes, size))
        return xt_jpeg_decode(&decoder->jpeg, bytes, size, order, want, name, out, err);
    if (!xt_png_is(bytes, size))
        return not_an_image(bytes, size, name, err);
    enum xt_status status =
        xt_png_decode(&decoder->png, bytes, size, order, name, &out->image, err);
    if (!status)
        xt_picture_whole(out, want);
    return status;
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
