#include "support.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <zlib.h>

#include "base/str.h"
#include "data/image/decoder.h"

static struct xt_decoder decoder;
static struct xt_picture decoded;
static struct xt_err err;

static int setup(void **state)
{
    err.text[0] = '\0';
    return support_make_folder(state);
}

static int teardown(void **state)
{
    xt_decoder_clear(&decoder);
    xt_image_clear(&decoded.image);
    return support_remove_folder(state);
}

static const char *fixture(const char *name)
{
    return support_path("tests/fuzz/corpus/image", name);
}

static void assert_pixel(int x, int y, int r, int g, int b, int tolerance)
{
    const uint8_t *pixel =
        decoded.image.pixels + ((size_t)y * (size_t)decoded.image.width + (size_t)x) * 3;
    const int wanted[3] = {r, g, b};
    for (int c = 0; c < 3; c++)
        if (abs(pixel[c] - wanted[c]) > tolerance)
            fail_msg("pixel (%d, %d) is %d %d %d, not %d %d %d", x, y, pixel[0], pixel[1], pixel[2],
                     r, g, b);
}

/* The fixtures are 24 x 16 pixels of (200, 100, 50). */
static void assert_flat(const char *name)
{
    assert_int_equal(xt_decoder_load(&decoder, fixture(name), XT_PIXEL_RGB, NULL, &decoded, &err),
                     XT_OK);
    assert_int_equal(decoded.image.width, 24);
    assert_int_equal(decoded.image.height, 16);
    assert_pixel(0, 0, 200, 100, 50, 3);
    assert_pixel(23, 15, 200, 100, 50, 3);
    assert_int_equal(xt_decoder_load(&decoder, fixture(name), XT_PIXEL_BGR, NULL, &decoded, &err),
                     XT_OK);
    assert_pixel(12, 8, 50, 100, 200, 3);
}

static void jpeg_of_any_chroma_sampling_is_read(void **state)
{
    (void)state;
    assert_flat("ycc_444.jpg");
    assert_flat("ycc_420.jpg");
    assert_flat("ycc_410.jpg");
    assert_flat("ycc_3x1.jpg");
    assert_flat("rgb_adobe.jpg");
}

static void cmyk_jpeg_is_turned_into_light_whichever_way_its_inks_run(void **state)
{
    (void)state;
    assert_flat("cmyk_adobe.jpg");
    assert_flat("cmyk_plain.jpg");
    assert_flat("ycck_adobe.jpg");
}

static void grey_jpeg_has_three_equal_channels(void **state)
{
    (void)state;
    assert_int_equal(
        xt_decoder_load(&decoder, fixture("grey.jpg"), XT_PIXEL_RGB, NULL, &decoded, &err), XT_OK);
    assert_pixel(5, 5, 90, 90, 90, 1);
}

struct bytes {
    uint8_t data[8192];
    size_t size;
};

static void collect(png_structp png, png_bytep data, size_t size)
{
    struct bytes *bytes = png_get_io_ptr(png);
    assert_true(bytes->size + size <= sizeof bytes->data);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static void no_flush(png_structp png)
{
    (void)png;
}

struct picture {
    int width;
    int height;
    int depth;
    int type;
    int interlace;
    const png_color *palette;
    int colours;
    const png_byte *transparent;
    int transparents;
};

/* A PNG of `rows` (packed as PNG packs them). */
static struct bytes make_png(const struct picture *picture, uint8_t *rows, size_t stride)
{
    struct bytes bytes = {.size = 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &bytes, collect, no_flush);
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->depth, picture->type, picture->interlace, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    if (picture->palette)
        png_set_PLTE(png, info, picture->palette, picture->colours);
    if (picture->transparent)
        png_set_tRNS(png, info, picture->transparent, picture->transparents, NULL);
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < picture->height; y++)
            png_write_row(png, rows + (size_t)y * stride);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return bytes;
}

static void decode(const struct bytes *bytes)
{
    enum xt_status status = xt_decoder_decode(&decoder, bytes->data, bytes->size, XT_PIXEL_RGB,
                                              NULL, "a test", &decoded, &err);
    if (status)
        fail_msg("%s", err.text);
}

static void grey_png_of_every_depth_is_stretched_to_8_bits(void **state)
{
    (void)state;
    static const struct {
        int depth;
        uint8_t row[4];
        int first;
        int second;
    } cases[] = {
        {1, {0x80}, 255, 0},
        {2, {0x60}, 85, 170},
        {4, {0x2F}, 34, 255},
        {8, {77, 200}, 77, 200},
        {16, {0x80, 0xFF, 0x10, 0x00}, 128, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct picture picture = {
            .width = 2, .height = 1, .depth = cases[i].depth, .type = PNG_COLOR_TYPE_GRAY};
        uint8_t row[4];
        memcpy(row, cases[i].row, sizeof row);
        struct bytes bytes = make_png(&picture, row, sizeof row);
        decode(&bytes);
        /* 0x80FF is 128.5 of 255 and may go either way. */
        assert_pixel(0, 0, cases[i].first, cases[i].first, cases[i].first, cases[i].depth == 16);
        assert_pixel(1, 0, cases[i].second, cases[i].second, cases[i].second, 0);
    }
}

static void palette_png_gives_its_colours_and_transparency_is_black(void **state)
{
    (void)state;
    const png_color palette[] = {{10, 20, 30}, {200, 100, 50}, {255, 255, 255}};
    const png_byte transparent[] = {255, 128, 0};
    struct picture picture = {.width = 3,
                              .height = 1,
                              .depth = 2,
                              .type = PNG_COLOR_TYPE_PALETTE,
                              .palette = palette,
                              .colours = 3};
    uint8_t row[] = {0x18};
    struct bytes bytes = make_png(&picture, row, 1);
    decode(&bytes);
    assert_pixel(1, 0, 200, 100, 50, 0);
    assert_pixel(2, 0, 255, 255, 255, 0);
    picture.transparent = transparent;
    picture.transparents = 3;
    bytes = make_png(&picture, row, 1);
    decode(&bytes);
    assert_pixel(0, 0, 10, 20, 30, 0);
    assert_pixel(1, 0, 100, 50, 25, 0);
    assert_pixel(2, 0, 0, 0, 0, 0);
}

static void alpha_is_laid_over_black_also_when_interlaced(void **state)
{
    (void)state;
    enum { W = 11, H = 9 };
    uint8_t rows[H][W][4];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const uint8_t pixel[4] = {(uint8_t)(x * 20), (uint8_t)(y * 25), 99,
                                      (uint8_t)(255 - x * 23)};
            memcpy(rows[y][x], pixel, 4);
        }
    for (int interlace = 0; interlace < 2; interlace++) {
        struct picture picture = {.width = W,
                                  .height = H,
                                  .depth = 8,
                                  .type = PNG_COLOR_TYPE_RGBA,
                                  .interlace = interlace ? PNG_INTERLACE_ADAM7 : 0};
        struct bytes bytes = make_png(&picture, rows[0][0], sizeof rows[0]);
        decode(&bytes);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int alpha = 255 - x * 23;
                assert_pixel(x, y, (x * 20 * alpha + 127) / 255, (y * 25 * alpha + 127) / 255,
                             (99 * alpha + 127) / 255, 0);
            }
    }
}

static void a_saved_png_is_read_back(void **state)
{
    const char *path = support_path(*state, "out.png");
    uint8_t pixels[2 * 3 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 13);
    struct xt_image saved = {.width = 3, .height = 2, .pixels = pixels};
    assert_int_equal(xt_png_save(path, &saved, XT_PIXEL_BGR, &err), XT_OK);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_BGR, NULL, &decoded, &err), XT_OK);
    assert_memory_equal(decoded.image.pixels, pixels, sizeof pixels);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &decoded, &err), XT_OK);
    assert_int_equal(decoded.image.pixels[0], pixels[2]);
}

static void saving_where_there_is_no_folder_says_so(void **state)
{
    uint8_t pixels[3] = {0};
    struct xt_image saved = {.width = 1, .height = 1, .pixels = pixels};
    xt_png_save(support_path(*state, "none/out.png"), &saved, XT_PIXEL_RGB, &err);
    support_assert_error(&err, XT_ERR_RUN, "none/out.png");
}

static void read_fixture(const char *name, struct bytes *bytes)
{
    FILE *file = fopen(fixture(name), "rb");
    assert_non_null(file);
    bytes->size = fread(bytes->data, 1, sizeof bytes->data, file);
    fclose(file);
}

static void a_file_cut_anywhere_is_an_error_and_not_grey(void **state)
{
    (void)state;
    static const char *const names[] = {"ycc_420.jpg", "cmyk_adobe.jpg", "rgba.png", "grey16.png"};
    struct bytes bytes;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        read_fixture(names[i], &bytes);
        bool jpeg = xt_str_ends(names[i], ".jpg");
        /* A JPEG that lacks only its end marker is complete. */
        for (size_t size = 0; size < bytes.size - (jpeg ? 3 : 0); size++) {
            err.status = XT_OK;
            enum xt_status status = xt_decoder_decode(&decoder, bytes.data, size, XT_PIXEL_RGB,
                                                      NULL, names[i], &decoded, &err);
            if (status != XT_ERR_DATA)
                fail_msg("%s cut to %zu bytes was taken", names[i], size);
            support_assert_error(&err, XT_ERR_DATA, names[i]);
        }
    }
}

static void a_flipped_byte_in_the_pixels_of_a_png_is_seen(void **state)
{
    (void)state;
    struct bytes bytes;
    read_fixture("rgba.png", &bytes);
    bytes.data[bytes.size - 20] ^= 0x10;
    xt_decoder_decode(&decoder, bytes.data, bytes.size, XT_PIXEL_RGB, NULL, "x.png", &decoded,
                      &err);
    support_assert_error(&err, XT_ERR_DATA, "x.png is a damaged or incomplete PNG");
}

/* A grey progressive JPEG: one scan per coefficient, and another for its next bit. */
static uint8_t *write_scans(int side, int count, unsigned long *size)
{
    static jpeg_scan_info scans[256];
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    uint8_t *bytes = NULL;
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &bytes, size);
    library.image_width = library.image_height = (unsigned)side;
    library.input_components = 1;
    library.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&library);
    scans[0] = (jpeg_scan_info){.comps_in_scan = 1};
    for (int i = 1; i < count; i++) {
        int bit = 3 - (i - 1) / 63;
        int place = 1 + (i - 1) % 63;
        scans[i] = (jpeg_scan_info){1, {0}, place, place, bit == 3 ? 0 : bit + 1, bit};
    }
    library.scan_info = scans;
    library.num_scans = count;
    jpeg_start_compress(&library, TRUE);
    uint8_t *row = calloc((size_t)side, 1);
    assert_non_null(row);
    while (library.next_scanline < library.image_height)
        jpeg_write_scanlines(&library, &row, 1);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    free(row);
    return bytes;
}

static void a_jpeg_of_very_many_scans_is_refused(void **state)
{
    (void)state;
    static const struct {
        int side;
        int scans;
        const char *part; /* NULL: it is accepted */
    } cases[] = {{16, 64, NULL},
                 {16, 253, "x.jpg is a damaged or incomplete JPEG: it has more than 100 scans"},
                 {8000, 40, "it has more than 31 scans"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned long size = 0;
        uint8_t *bytes = write_scans(cases[i].side, cases[i].scans, &size);
        enum xt_status status =
            xt_decoder_decode(&decoder, bytes, size, XT_PIXEL_RGB, NULL, "x.jpg", &decoded, &err);
        if (cases[i].part)
            support_assert_error(&err, XT_ERR_DATA, cases[i].part);
        assert_int_equal(status, cases[i].part ? XT_ERR_DATA : XT_OK);
        free(bytes);
    }
}

static void a_bomb_is_refused_before_memory_is_asked_for(void **state)
{
    (void)state;
    struct bytes bytes;
    read_fixture("ycc_444.jpg", &bytes);
    /* The frame header: FF C0, length, precision, height, width. */
    uint8_t *frame = memmem(bytes.data, bytes.size, "\xFF\xC0", 2);
    assert_non_null(frame);
    memcpy(frame + 5, "\x75\x30\x75\x30", 4);
    xt_decoder_decode(&decoder, bytes.data, bytes.size, XT_PIXEL_RGB, NULL, "bomb.jpg", &decoded,
                      &err);
    support_assert_error(&err, XT_ERR_DATA, "bomb.jpg: it says it has 30000 x 30000");
    uint8_t row[30000 / 8] = {0};
    struct picture picture = {.width = 30000, .height = 1, .depth = 1, .type = PNG_COLOR_TYPE_GRAY};
    bytes = make_png(&picture, row, sizeof row);
    memcpy(bytes.data + 20, "\0\0\x75\x30", 4);
    /* Updates the header's checksum (CRC-32). */
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 12; i < 29; i++) {
        crc ^= bytes.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    crc = ~crc;
    for (size_t i = 0; i < 4; i++)
        bytes.data[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    xt_decoder_decode(&decoder, bytes.data, bytes.size, XT_PIXEL_RGB, NULL, "bomb.png", &decoded,
                      &err);
    support_assert_error(&err, XT_ERR_DATA, "bomb.png: it says it has 30000 x 30000");
}

/* Bytes that libjpeg skips before a marker hide no size from who checks it before decoding. */
static void the_size_is_known_before_decoding_whatever_precedes_the_header(void **state)
{
    (void)state;
    static const char *const skipped[] = {"", "\xFF\xFF\xFF", "\xFF\x01", "\xFF\xD3\xFF\xFF\x01"};
    struct bytes plain;
    read_fixture("ycc_444.jpg", &plain);
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++) {
        size_t more = strlen(skipped[i]);
        uint8_t *bytes = malloc(plain.size + more);
        assert_non_null(bytes);
        memcpy(bytes, plain.data, 2);
        memcpy(bytes + 2, skipped[i], more);
        memcpy(bytes + 2 + more, plain.data + 2, plain.size - 2);
        assert_int_equal(xt_decoder_decode(&decoder, bytes, plain.size + more, XT_PIXEL_RGB, NULL,
                                           "x.jpg", &decoded, &err),
                         XT_OK);
        assert_int_equal(xt_decoder_pixels(bytes, plain.size + more),
                         decoded.width * decoded.height);
        free(bytes);
    }
}

static void put_chunk(struct bytes *out, const char *type, const uint8_t *data, size_t size)
{
    uint8_t *at = out->data + out->size;
    assert_true(out->size + size + 12 <= sizeof out->data);
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(size >> (24 - 8 * i));
    memcpy(at + 4, type, 4);
    if (size)
        memcpy(at + 8, data, size);
    unsigned long crc = crc32(0, at + 4, (unsigned)size + 4);
    for (int i = 0; i < 4; i++)
        at[8 + size + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    out->size += size + 12;
}

/* The stream of a pixel followed by zeros, which compress to a thousandth, in IDAT chunks that the
 * file repeats without a limit. */
static void a_png_whose_data_goes_on_after_the_last_row_is_refused_at_once(void **state)
{
    (void)state;
    enum { INFLATED = 40 * 1000 * 1000 };
    static const uint8_t header[] = {0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0};
    uint8_t *zeros = calloc(1, INFLATED);
    uint8_t *packed = malloc(INFLATED / 100);
    unsigned long size = INFLATED / 100;
    struct xt_str png = {0};
    struct bytes part = {.size = 0};
    assert_true(zeros && packed);
    assert_int_equal(compress(packed, &size, zeros, INFLATED), Z_OK);
    assert_true(size > 32 * 1024);
    memcpy(part.data, "\x89PNG\r\n\x1a\n", 8);
    part.size = 8;
    put_chunk(&part, "IHDR", header, sizeof header);
    for (size_t at = 0; at < size; at += 4096) {
        put_chunk(&part, "IDAT", packed + at, size - at < 4096 ? size - at : 4096);
        assert_int_equal(xt_str_append(&png, (char *)part.data, part.size, &err), XT_OK);
        part.size = 0;
    }
    put_chunk(&part, "IEND", NULL, 0);
    assert_int_equal(xt_str_append(&png, (char *)part.data, part.size, &err), XT_OK);
    xt_decoder_decode(&decoder, (uint8_t *)png.data, png.length, XT_PIXEL_RGB, NULL, "bomb.png",
                      &decoded, &err);
    support_assert_error(&err, XT_ERR_DATA, "continue after the last row");
    xt_str_clear(&png);
    free(packed);
    free(zeros);
}

static void the_content_decides_and_not_the_name(void **state)
{
    struct bytes bytes;
    read_fixture("ycc_444.jpg", &bytes);
    const char *path = support_path(*state, "plate.png");
    support_write_file(path, bytes.data, bytes.size);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &decoded, &err), XT_OK);
}

static void what_is_no_image_is_named_with_the_reason(void **state)
{
    static const struct {
        const char *content;
        const char *reason;
    } cases[] = {
        {"", "is empty (zero bytes)"},
        {"GIF89a....", "looks like a GIF"},
        {"<html>", "looks like a web page"},
        {"hello", "is not a JPEG, PNG or WebP"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = support_path(*state, "a.jpg");
        support_write_file(path, cases[i].content, strlen(cases[i].content));
        xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &decoded, &err);
        support_assert_error(&err, XT_ERR_DATA, cases[i].reason);
        support_assert_error(&err, XT_ERR_DATA, "a.jpg");
    }
    xt_decoder_load(&decoder, support_path(*state, "gone.jpg"), XT_PIXEL_RGB, NULL, &decoded, &err);
    support_assert_error(&err, XT_ERR_DATA, "gone.jpg: No such file");
}

/* The published weights' counts hold only for these pixels: TurboJPEG's accurate transform and
 * smooth upsampling, as OpenCV and Pillow use them. */
static void a_plate_has_the_pixels_that_other_readers_see(void **state)
{
    (void)state;
    const char *path = support_shared("data/plates/train/川JK0707.jpg");
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &decoded, &err), XT_OK);
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < 94 * 24 * 3; i++)
        hash = (hash ^ decoded.image.pixels[i]) * 1099511628211u;
    assert_int_equal(hash, 0x6ec58240ba577f2eu);
}

#define image_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        image_test(jpeg_of_any_chroma_sampling_is_read),
        image_test(cmyk_jpeg_is_turned_into_light_whichever_way_its_inks_run),
        image_test(grey_jpeg_has_three_equal_channels),
        image_test(grey_png_of_every_depth_is_stretched_to_8_bits),
        image_test(palette_png_gives_its_colours_and_transparency_is_black),
        image_test(alpha_is_laid_over_black_also_when_interlaced),
        image_test(a_saved_png_is_read_back),
        image_test(saving_where_there_is_no_folder_says_so),
        image_test(a_file_cut_anywhere_is_an_error_and_not_grey),
        image_test(a_flipped_byte_in_the_pixels_of_a_png_is_seen),
        image_test(a_jpeg_of_very_many_scans_is_refused),
        image_test(a_bomb_is_refused_before_memory_is_asked_for),
        image_test(the_size_is_known_before_decoding_whatever_precedes_the_header),
        image_test(a_png_whose_data_goes_on_after_the_last_row_is_refused_at_once),
        image_test(the_content_decides_and_not_the_name),
        image_test(what_is_no_image_is_named_with_the_reason),
        image_test(a_plate_has_the_pixels_that_other_readers_see),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
