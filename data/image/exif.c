#include "data/image/exif.h"

#include <stdlib.h>
#include <string.h>

#include <libexif/exif-data.h>

#include "base/number.h"
#include "data/image/jpeg.h"
#include "data/image/png.h"
#include "data/image/webp.h"

/* A part of a file. */
struct span {
    const uint8_t *at;
    size_t size;
};

static const char exif_header[6] = "Exif\0";

static uint32_t little_endian(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* The APP1 segment that holds Exif. */
static struct span in_jpeg(const uint8_t *bytes, size_t size)
{
    enum { APP1 = 0xE1 };
    struct xt_jpeg_segment s;
    for (size_t at = 0; xt_jpeg_next_segment(bytes, size, &at, &s);)
        if (s.marker == APP1 && s.size > sizeof exif_header &&
            memcmp(s.data, exif_header, sizeof exif_header) == 0)
            return (struct span){s.data + sizeof exif_header, s.size - sizeof exif_header};
    return (struct span){0};
}

static struct span in_png(const uint8_t *bytes, size_t size)
{
    enum { SIGNATURE = 8, AROUND = 12 };
    for (size_t at = SIGNATURE; at + AROUND <= size;) {
        size_t length = xt_number_be32(bytes + at);
        if (length > size - at - AROUND)
            break;
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0)
            return (struct span){bytes + at + 8, length};
        at += AROUND + length;
    }
    return (struct span){0};
}

/* Some writers put JPEG's header before the data. */
static struct span in_webp(const uint8_t *bytes, size_t size)
{
    enum { RIFF_HEADER = 12, CHUNK_HEADER = 8 };
    for (size_t at = RIFF_HEADER; at + CHUNK_HEADER <= size;) {
        size_t length = little_endian(bytes + at + 4);
        struct span data = {bytes + at + CHUNK_HEADER, length};
        if (length > size - at - CHUNK_HEADER)
            break;
        if (memcmp(bytes + at, "EXIF", 4) == 0) {
            bool headed = length > sizeof exif_header &&
                          memcmp(data.at, exif_header, sizeof exif_header) == 0;
            size_t skip = headed ? sizeof exif_header : 0;
            return (struct span){data.at + skip, length - skip};
        }
        at += CHUNK_HEADER + length + length % 2;
    }
    return (struct span){0};
}

static struct span find_exif(const uint8_t *bytes, size_t size)
{
    if (xt_jpeg_is(bytes, size))
        return in_jpeg(bytes, size);
    if (xt_png_is(bytes, size))
        return in_png(bytes, size);
    if (xt_webp_is(bytes, size))
        return in_webp(bytes, size);
    return (struct span){0};
}

/* 1 to 8 as in the tag; 0: no such tag. */
static int tag_of(ExifData *data)
{
    const ExifEntry *entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
    if (!entry || entry->format != EXIF_FORMAT_SHORT || entry->size < 2)
        return 0;
    return exif_get_short(entry->data, exif_data_get_byte_order(data));
}

/* libexif expects JPEG's header before the data, whatever the format of the file. */
static int read_tag(struct span exif)
{
    enum { EXIF_MOST = 1 << 20 };
    if (exif.size < 8 || exif.size > EXIF_MOST)
        return 0;
    uint8_t *headed = malloc(sizeof exif_header + exif.size);
    ExifData *data = headed ? exif_data_new() : NULL;
    int tag = 0;
    if (data) {
        memcpy(headed, exif_header, sizeof exif_header);
        memcpy(headed + sizeof exif_header, exif.at, exif.size);
        exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);
        exif_data_load_data(data, headed, (unsigned)(sizeof exif_header + exif.size));
        tag = tag_of(data);
        exif_data_unref(data);
    }
    free(headed);
    return tag;
}

struct xt_orientation xt_exif_orientation(const uint8_t *bytes, size_t size)
{
    static const struct xt_orientation by_tag[] = {
        [1] = {0},
        [2] = {.mirror_x = true},
        [3] = {.mirror_x = true, .mirror_y = true},
        [4] = {.mirror_y = true},
        [5] = {.transpose = true},
        [6] = {.transpose = true, .mirror_y = true},
        [7] = {.transpose = true, .mirror_x = true, .mirror_y = true},
        [8] = {.transpose = true, .mirror_x = true},
    };
    struct span exif = find_exif(bytes, size);
    int tag = exif.at ? read_tag(exif) : 0;
    bool known = tag > 0 && tag < (int)(sizeof by_tag / sizeof by_tag[0]);
    return by_tag[known ? tag : 1];
}
