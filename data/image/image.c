#include "data/image/image.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/image/jpeg.h"
#include "data/image/png.h"

struct xt_decoder {
    uint8_t *bytes;
    size_t capacity;
    struct xt_jpeg jpeg;
    struct xt_png png;
    const struct xt_want *want;
    struct xt_box part;
    bool has_part;
    bool went_into;
    struct xt_image scratch;
};

bool xt_image_is_ending(const char *ending)
{
    return strcasecmp(ending, ".jpg") == 0 || strcasecmp(ending, ".jpeg") == 0 ||
           strcasecmp(ending, ".png") == 0;
}

bool xt_image_is_name(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && xt_image_is_ending(ending);
}

enum xt_status xt_image_check(int width, int height, struct xt_err *err)
{
    if (width < 1 || height < 1)
        return xt_err_set(err, XT_ERR_DATA, "the image has no pixels (%d x %d)", width, height);
    if (width > XT_IMAGE_PIXELS_MAX / height)
        return xt_err_set(err, XT_ERR_DATA,
                          "the image says it has %d x %d pixels, more than the %d million that are "
                          "read; make it smaller or leave it out",
                          width, height, XT_IMAGE_PIXELS_MAX / 1000000);
    return XT_OK;
}

enum xt_status xt_image_reserve(struct xt_image *image, int width, int height, struct xt_err *err)
{
    enum xt_status status = xt_image_check(width, height, err);
    if (status)
        return status;
    size_t bytes = (size_t)width * (size_t)height * 3 + XT_IMAGE_SLACK;
    status = xt_mem_grow(&image->pixels, &image->capacity, bytes, 1, "an image", err);
    if (status)
        return status;
    image->width = width;
    image->height = height;
    return XT_OK;
}

void xt_image_clear(struct xt_image *image)
{
    free(image->pixels);
    *image = (struct xt_image){0};
}

enum xt_status xt_decoder_create(struct xt_decoder **out, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "an image decoder", err);
    if (status)
        return status;
    status = xt_jpeg_init(&(*out)->jpeg, err);
    if (status) {
        xt_decoder_destroy(*out);
        *out = NULL;
    }
    return status;
}

void xt_decoder_destroy(struct xt_decoder *decoder)
{
    if (!decoder)
        return;
    xt_jpeg_clear(&decoder->jpeg);
    xt_png_clear(&decoder->png);
    xt_image_clear(&decoder->scratch);
    free(decoder->bytes);
    free(decoder);
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

enum xt_status xt_image_decode(struct xt_decoder *decoder, const uint8_t *bytes, size_t size,
                               enum xt_pixel_order order, const char *name, struct xt_image *out,
                               struct xt_err *err)
{
    const struct xt_want *want = decoder->want;
    enum xt_status status = XT_OK;
    decoder->went_into = false;
    if (xt_jpeg_is(bytes, size)) {
        status = xt_jpeg_decode(&decoder->jpeg, bytes, size, order, want, name, out, &decoder->part,
                                err);
        decoder->went_into = !status && decoder->jpeg.went_into;
    } else if (xt_png_is(bytes, size)) {
        status = xt_png_decode(&decoder->png, bytes, size, order, name, out, err);
        if (!status && want)
            decoder->part = want->part(want->context, out->width, out->height);
    } else {
        status = not_an_image(bytes, size, name, err);
    }
    decoder->has_part = !status && want;
    return status;
}

void xt_decoder_want(struct xt_decoder *decoder, const struct xt_want *want)
{
    decoder->want = want;
    decoder->has_part = false;
    decoder->went_into = false;
}

bool xt_decoder_part(const struct xt_decoder *decoder, struct xt_box *part)
{
    if (decoder->has_part)
        *part = decoder->part;
    return decoder->has_part;
}

struct xt_image *xt_decoder_scratch(struct xt_decoder *decoder)
{
    return &decoder->scratch;
}

bool xt_decoder_went_into(const struct xt_decoder *decoder)
{
    return decoder->went_into;
}

enum xt_status xt_decoder_buffer(struct xt_decoder *decoder, size_t size, uint8_t **bytes,
                                 struct xt_err *err)
{
    enum xt_status status =
        xt_mem_grow(&decoder->bytes, &decoder->capacity, size, 1, "an image file", err);
    *bytes = decoder->bytes;
    return status;
}

enum xt_status xt_image_read(struct xt_decoder *decoder, const char *path, const uint8_t **bytes,
                             size_t *size, struct xt_err *err)
{
    enum xt_status status =
        xt_file_read(path, XT_IMAGE_BYTES_MAX, &decoder->bytes, &decoder->capacity, size, err);
    *bytes = decoder->bytes;
    return status;
}

enum xt_status xt_image_load(struct xt_decoder *decoder, const char *path,
                             enum xt_pixel_order order, struct xt_image *out, struct xt_err *err)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    enum xt_status status = xt_image_read(decoder, path, &bytes, &size, err);
    return status ? status : xt_image_decode(decoder, bytes, size, order, path, out, err);
}
