/* Exif orientation: all eight values, in each format. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include <stdio.h>
#include <jpeglib.h>
#include <webp/encode.h>

#include "base/str.h"
#include "data/image/decoder.h"

enum { WIDTH = 48, HEIGHT = 32 };

static struct xt_decoder decoder;
static struct xt_picture decoded;
static struct xt_err err;
static struct xt_str file;

static int teardown(void **state)
{
    (void)state;
    xt_decoder_clear(&decoder);
    xt_image_clear(&decoded.image);
    xt_str_clear(&file);
    return 0;
}

/* Exif data of one tag. */
static size_t exif(int orientation, bool headed, uint8_t out[64])
{
    static const char tiff[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0";
    size_t at = 0;
    if (headed) {
        memcpy(out, "Exif\0", 6);
        at = 6;
    }
    memcpy(out + at, tiff, sizeof tiff - 1);
    at += sizeof tiff - 1;
    memset(out + at, 0, 8);
    out[at] = (uint8_t)orientation;
    return at + 8;
}

/* The corners are red, green, blue and white, from the top left clockwise, in stored
 * orientation. */
static void draw(uint8_t *pixels)
{
    static const uint8_t corner[4][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            bool right = x >= WIDTH / 2;
            int k = y < HEIGHT / 2 ? right : 3 - right;
            memcpy(pixels + (y * WIDTH + x) * 3, corner[k], 3);
        }
}

static void append(const void *bytes, size_t size)
{
    assert_int_equal(xt_str_append(&file, bytes, size, &err), XT_OK);
}

static void make_jpeg(int orientation)
{
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    uint8_t data[64];
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    draw(pixels);
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &bytes, &size);
    library.image_width = WIDTH;
    library.image_height = HEIGHT;
    library.input_components = 3;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, 95, TRUE);
    jpeg_start_compress(&library, TRUE);
    jpeg_write_marker(&library, JPEG_APP0 + 1, data, (unsigned)exif(orientation, true, data));
    for (int y = 0; y < HEIGHT; y++)
        jpeg_write_scanlines(&library, &(JSAMPROW){pixels + y * WIDTH * 3}, 1);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    file.length = 0;
    append(bytes, size);
    free(bytes);
}

static void put_big(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

/* With the eXIf chunk behind the header, which is 33 bytes long with the signature. */
static void make_png(int orientation)
{
    uint8_t chunk[128];
    struct xt_image image = {0};
    struct xt_str whole = {0};
    assert_int_equal(xt_image_reserve(&image, WIDTH, HEIGHT, &err), XT_OK);
    draw(image.pixels);
    assert_int_equal(xt_png_encode(&image, XT_PIXEL_RGB, &whole, &err), XT_OK);
    size_t size = exif(orientation, false, chunk + 8);
    put_big(chunk, (uint32_t)size);
    memcpy(chunk + 4, "eXIf", 4);
    put_big(chunk + 8 + size, crc_of(chunk + 4, size + 4));
    file.length = 0;
    append(whole.data, 33);
    append(chunk, size + 12);
    append(whole.data + 33, whole.length - 33);
    xt_str_clear(&whole);
    xt_image_clear(&image);
}

static void put_little(uint8_t *out, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

/* The encoder's file, of one chunk, in the extended form that can hold Exif. */
static void make_webp(int orientation)
{
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    uint8_t *encoded = NULL;
    uint8_t extended[18] = "VP8X", chunk[128] = "EXIF";
    draw(pixels);
    size_t size = WebPEncodeLosslessRGB(pixels, WIDTH, HEIGHT, WIDTH * 3, &encoded);
    assert_true(size > 12);
    put_little(extended + 4, 10, 4);
    extended[8] = 8; /* it has Exif */
    put_little(extended + 12, WIDTH - 1, 3);
    put_little(extended + 15, HEIGHT - 1, 3);
    size_t data = exif(orientation, false, chunk + 8);
    put_little(chunk + 4, data, 4);
    file.length = 0;
    append(encoded, 12);
    append(extended, sizeof extended);
    append(encoded + 12, size - 12);
    append(chunk, 8 + data);
    put_little((uint8_t *)file.data + 4, file.length - 8, 4);
    WebPFree(encoded);
}

static enum xt_status decode(const struct xt_want *want)
{
    return xt_decoder_decode(&decoder, (const uint8_t *)file.data, file.length, XT_PIXEL_RGB, want,
                             "it", &decoded, &err);
}

/* Which corner's colour the pixel has: 0 red, 1 green, 2 blue, 3 white. */
static int colour_at(int x, int y)
{
    const uint8_t *p = decoded.image.pixels + (y * decoded.image.width + x) * 3;
    if (p[0] > 200 && p[1] > 200)
        return 3;
    return p[0] > 200 ? 0 : p[1] > 200 ? 1 : 2;
}

/* The upright corners, from the top left clockwise (Exif 2.32, 4.6.4 A). */
static const int seen[9][4] = {
    [1] = {0, 1, 2, 3}, [2] = {1, 0, 3, 2}, [3] = {2, 3, 0, 1}, [4] = {3, 2, 1, 0},
    [5] = {0, 3, 2, 1}, [6] = {3, 0, 1, 2}, [7] = {2, 1, 0, 3}, [8] = {1, 2, 3, 0},
};

static void assert_seen(int orientation)
{
    bool turned = orientation >= 5;
    assert_int_equal(decode(NULL), XT_OK);
    assert_int_equal(decoded.image.width, turned ? HEIGHT : WIDTH);
    assert_int_equal(decoded.image.height, turned ? WIDTH : HEIGHT);
    int right = decoded.image.width - 3, bottom = decoded.image.height - 3;
    assert_int_equal(colour_at(2, 2), seen[orientation][0]);
    assert_int_equal(colour_at(right, 2), seen[orientation][1]);
    assert_int_equal(colour_at(right, bottom), seen[orientation][2]);
    assert_int_equal(colour_at(2, bottom), seen[orientation][3]);
}

static void each_orientation_is_seen_in_each_format(void **state)
{
    (void)state;
    void (*const make[])(int) = {make_jpeg, make_png, make_webp};
    for (size_t format = 0; format < 3; format++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            make[format](orientation);
            assert_seen(orientation);
        }
}

static void a_value_that_is_not_valid_turns_nothing(void **state)
{
    (void)state;
    static const int odd[] = {0, 9, 255};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        make_jpeg(odd[i]);
        assert_seen(1);
    }
}

/* A part refers to the upright picture, also if only that part is decoded. */
static void a_part_is_of_the_picture_as_it_is_seen(void **state)
{
    (void)state;
    void (*const make[])(int) = {make_jpeg, make_png};
    for (size_t format = 0; format < 2; format++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            bool turned = orientation >= 5;
            int width = turned ? HEIGHT : WIDTH, height = turned ? WIDTH : HEIGHT;
            /* within the lower left quarter */
            struct xt_box box = {2, height / 2 + 2, width / 2 - 4, height / 2 - 4};
            struct xt_want want = {.width = (int)box.width, .height = (int)box.height, .box = &box};
            make[format](orientation);
            assert_int_equal(decode(&want), XT_OK);
            assert_int_equal(decoded.width, width);
            assert_int_equal(decoded.height, height);
            assert_true(decoded.part.left >= 0 && decoded.part.top >= 0);
            assert_true(decoded.part.left + decoded.part.width <= decoded.image.width);
            assert_true(decoded.part.top + decoded.part.height <= decoded.image.height);
            assert_int_equal(decoded.part.width, box.width);
            assert_int_equal(decoded.part.height, box.height);
            assert_int_equal(colour_at((int)(decoded.part.left + decoded.part.width / 2),
                                       (int)(decoded.part.top + decoded.part.height / 2)),
                             seen[orientation][3]);
        }
}

static void a_webp_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    make_webp(1);
    size_t whole = file.length;
    for (size_t size = 12; size < whole - 40; size += 7) {
        file.length = size;
        assert_int_equal(decode(NULL), XT_ERR_DATA);
        support_assert_error(&err, XT_ERR_DATA, "it is a damaged or incomplete WebP");
    }
}

#define orientation_test(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        orientation_test(each_orientation_is_seen_in_each_format),
        orientation_test(a_value_that_is_not_valid_turns_nothing),
        orientation_test(a_part_is_of_the_picture_as_it_is_seen),
        orientation_test(a_webp_cut_anywhere_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
