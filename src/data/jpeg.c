#include "data/jpeg.h"

#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "base/mem.h"

/* What the markers before the first scan say. TurboJPEG's own header call refuses samplings that
 * its decoder reads well, and does not tell whether there is an Adobe marker. */
struct header {
    int width;
    int height;
    int components;
    bool adobe;
};

enum {
    MARKER_PREFIX = 0xFF,
    MARKER_TEM = 0x01,
    MARKER_SOF0 = 0xC0,
    MARKER_DHT = 0xC4,
    MARKER_JPG = 0xC8,
    MARKER_DAC = 0xCC,
    MARKER_SOF15 = 0xCF,
    MARKER_RST0 = 0xD0,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_APP14 = 0xEE,
};

static int big_endian16(const uint8_t *bytes)
{
    return bytes[0] << 8 | bytes[1];
}

static bool stands_alone(int marker)
{
    return marker == 0 || marker == MARKER_TEM || (marker >= MARKER_RST0 && marker <= MARKER_SOI);
}

static bool is_frame(int marker)
{
    return marker >= MARKER_SOF0 && marker <= MARKER_SOF15 && marker != MARKER_DHT &&
           marker != MARKER_JPG && marker != MARKER_DAC;
}

/* The code of the next marker after `*at`, and `*at` behind it; -1 at the end. */
static int next_marker(const uint8_t *bytes, size_t size, size_t *at)
{
    while (*at < size && bytes[*at] != MARKER_PREFIX)
        ++*at;
    while (*at < size && bytes[*at] == MARKER_PREFIX)
        ++*at;
    return *at < size ? bytes[(*at)++] : -1;
}

/* False where the bytes end, or a segment is cut, before the first scan. */
static bool read_header(const uint8_t *bytes, size_t size, struct header *header)
{
    *header = (struct header){0};
    for (size_t at = 0;;) {
        int marker = next_marker(bytes, size, &at);
        if (marker < 0 || marker == MARKER_EOI)
            return false;
        if (stands_alone(marker))
            continue;
        if (marker == MARKER_SOS)
            return header->components > 0;
        if (size - at < 2)
            return false;
        size_t length = (size_t)big_endian16(bytes + at);
        if (length < 2 || length > size - at)
            return false;
        const uint8_t *body = bytes + at + 2;
        if (is_frame(marker) && length >= 8) {
            header->height = big_endian16(body + 1);
            header->width = big_endian16(body + 3);
            header->components = body[5];
        }
        if (marker == MARKER_APP14 && length >= 14 && memcmp(body, "Adobe", 5) == 0)
            header->adobe = true;
        at += length;
    }
}

enum xt_status xt_jpeg_init(struct xt_jpeg *jpeg, struct xt_err *err)
{
    *jpeg = (struct xt_jpeg){.handle = tjInitDecompress()};
    return jpeg->handle ? XT_OK : xt_err_no_memory(err, "a JPEG decoder", 0);
}

void xt_jpeg_clear(struct xt_jpeg *jpeg)
{
    if (jpeg->handle)
        tjDestroy(jpeg->handle);
    free(jpeg->inks);
    *jpeg = (struct xt_jpeg){0};
}

bool xt_jpeg_is(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == MARKER_PREFIX && bytes[1] == MARKER_SOI &&
           bytes[2] == MARKER_PREFIX;
}

static enum xt_status bad_jpeg(struct xt_err *err, const char *name, const char *reason)
{
    /* The only way that TurboJPEG tells an exhausted memory from a damaged file. */
    if (strncmp(reason, "Insufficient memory", 19) == 0 ||
        strstr(reason, "emory allocation failure"))
        return xt_err_set(err, XT_ERR_MEMORY, "out of memory decoding %s", name);
    return xt_err_set(err, XT_ERR_DATA, "%s is a damaged or incomplete JPEG: %s", name, reason);
}

/* A warning counts as an error: a truncated file would be grey from where it ends. */
static enum xt_status decompress(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                                 const struct header *header, int format, uint8_t *out,
                                 const char *name, struct xt_err *err)
{
    int failed = tjDecompress2(jpeg->handle, bytes, (unsigned long)size, out, header->width, 0,
                               header->height, format, TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
    return failed ? bad_jpeg(err, name, tjGetErrorStr2(jpeg->handle)) : XT_OK;
}

/* Inks to light, one pixel. With an Adobe marker 255 is no ink; without, 0 is. */
static void pixel_from_inks(const uint8_t *inks, bool inverted, enum xt_pixel_order order,
                            uint8_t *pixel)
{
    int flip = inverted ? 0 : 255;
    int black = inks[3] ^ flip;
    for (int c = 0; c < 3; c++) {
        int light = inks[c] ^ flip;
        pixel[order == XT_PIXEL_RGB ? c : 2 - c] = (uint8_t)((light * black + 127) / 255);
    }
}

static enum xt_status decode_cmyk(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                                  const struct header *header, enum xt_pixel_order order,
                                  const char *name, struct xt_image *out, struct xt_err *err)
{
    size_t pixels = (size_t)header->width * (size_t)header->height;
    enum xt_status status =
        xt_mem_grow(&jpeg->inks, &jpeg->inks_capacity, pixels * 4, 1, name, err);
    if (!status)
        status = decompress(jpeg, bytes, size, header, TJPF_CMYK, jpeg->inks, name, err);
    for (size_t i = 0; !status && i < pixels; i++)
        pixel_from_inks(jpeg->inks + i * 4, header->adobe, order, out->pixels + i * 3);
    return status;
}

enum xt_status xt_jpeg_decode(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                              enum xt_pixel_order order, const char *name, struct xt_image *out,
                              struct xt_err *err)
{
    struct header header;
    if (!read_header(bytes, size, &header))
        return bad_jpeg(err, name, "it ends, or a marker is broken, before the pixels");
    if (xt_image_reserve(out, header.width, header.height, err))
        return xt_err_prefix(err, "%s: ", name);
    if (header.components == 4)
        return decode_cmyk(jpeg, bytes, size, &header, order, name, out, err);
    int format = order == XT_PIXEL_RGB ? TJPF_RGB : TJPF_BGR;
    return decompress(jpeg, bytes, size, &header, format, out->pixels, name, err);
}
