/* Crops, mirrored images, colours: the choice of a part, a JPEG's partial decoding, resizing it;
 * and that the loops of every instruction set give the same bytes. */
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image/augment.h"
#include "data/image/decoder.h"
#include "data/image/loops/pixels.h"
#include "data/image/resize.h"

static struct xt_err err;

static void a_random_part_lies_within_and_has_area_and_shape(void **state)
{
    (void)state;
    double least = 1;
    double most = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        const struct xt_want want = {
            .width = 224, .height = 224, .fit = XT_FIT_RANDOM_CROP, .crop = xt_rng_begin(i, 0)};
        struct xt_box box = xt_want_part(&want, 500, 375);
        double area = box.width * box.height / (500 * 375);
        double ratio = box.width / box.height;
        assert_true(box.left >= 0 && box.top >= 0);
        assert_true(box.left + box.width <= 500 && box.top + box.height <= 375);
        assert_true(area > 0.078 && area <= 1.01);
        assert_true(ratio > 0.74 && ratio < 1.35);
        least = fmin(least, area);
        most = fmax(most, area);
    }
    assert_true(least < 0.1 && most > 0.9);
}

static void a_long_image_gives_its_middle(void **state)
{
    (void)state;
    const struct xt_want want = {.width = 224,
                                 .height = 224,
                                 .fit = XT_FIT_RANDOM_CROP,
                                 .crop_least = 0.9F,
                                 .crop = xt_rng_begin(1, 0)};
    struct xt_box box = xt_want_part(&want, 1000, 10);
    assert_true(box.height <= 10 && box.width < 14 && box.left > 490);
}

static void the_centre_crop_has_the_target_s_shape(void **state)
{
    (void)state;
    const struct xt_want want = {.width = 200, .height = 100, .fit = XT_FIT_CENTRE_CROP};
    struct xt_box box = xt_want_part(&want, 500, 400);
    assert_true(fabs(box.width - 437.5) < 1e-9 && fabs(box.height - 218.75) < 1e-9);
    assert_true(fabs(box.left - 31.25) < 1e-9);
}

static struct xt_decoder decoder;
static struct xt_resizer resizer;
static struct xt_picture whole;
static struct xt_picture part;

static int teardown(void **state)
{
    (void)state;
    xt_decoder_clear(&decoder);
    xt_resizer_clear(&resizer);
    xt_image_clear(&whole.image);
    xt_image_clear(&part.image);
    return 0;
}

static void first_photo(char *path, size_t size)
{
    DIR *dir = opendir(support_shared("data/photos"));
    struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir)) && !strstr(entry->d_name, ".JPEG"))
        ;
    if (entry)
        snprintf(path, size, "%s/%s", support_shared("data/photos"), entry->d_name);
    if (dir)
        closedir(dir);
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += abs(a[i] - b[i]);
    return sum / (double)count;
}

static void assert_part_as_of_the_whole(const char *path, struct xt_box box, double limit)
{
    enum { SIDE = 64 };
    static uint8_t from_whole[SIDE * SIDE * 3];
    static uint8_t from_part[SIDE * SIDE * 3];
    const struct xt_want want = {.width = SIDE, .height = SIDE, .box = &box};
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &whole, &err), XT_OK);
    assert_true(whole.part.left == 0 && whole.part.width == whole.image.width);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, &want, &part, &err), XT_OK);
    assert_int_equal(part.width, whole.image.width);
    assert_int_equal(
        xt_resize_part(&resizer, &whole.image, &box, false, SIDE, SIDE, from_whole, &err), XT_OK);
    assert_int_equal(
        xt_resize_part(&resizer, &part.image, &part.part, false, SIDE, SIDE, from_part, &err),
        XT_OK);
    double difference = mean_difference(from_whole, from_part, sizeof from_part);
    if (difference > limit)
        fail_msg("%s: the part at %g, %g differs by %g on average", path, box.left, box.top,
                 difference);
}

static void a_jpeg_of_the_wanted_size_is_decoded_to_where_it_is_wanted(void **state)
{
    (void)state;
    static uint8_t row[24 * 16 * 3];
    const char *path = support_path("tests/fuzz/corpus/image", "ycc_420.jpg");
    struct xt_box box = {0, 0, 24, 16};
    struct xt_want want = {.width = 24, .height = 16, .box = &box, .into = row};
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_BGR, NULL, &whole, &err), XT_OK);
    assert_false(whole.in_place);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_BGR, &want, &part, &err), XT_OK);
    assert_true(part.in_place);
    assert_memory_equal(row, whole.image.pixels, sizeof row);
    /* A part of it, or an image that is not a JPEG, is decoded into the image. */
    box.width = 23;
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_BGR, &want, &part, &err), XT_OK);
    assert_false(part.in_place);
    part.in_place = true;
    box = (struct xt_box){0, 0, 7, 5};
    want.width = 7;
    want.height = 5;
    path = support_path("tests/fuzz/corpus/image", "rgba.png");
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_BGR, &want, &part, &err), XT_OK);
    assert_false(part.in_place);
}

static void a_part_that_is_decoded_alone_looks_as_in_the_whole(void **state)
{
    (void)state;
    char path[1024];
    first_photo(path, sizeof path);
    assert_int_equal(xt_decoder_load(&decoder, path, XT_PIXEL_RGB, NULL, &whole, &err), XT_OK);
    int width = whole.width;
    int height = whole.height;
    /* At full size exact but for the edges of the blocks; at a half and a quarter but for the
     * filter. */
    assert_part_as_of_the_whole(path, (struct xt_box){33, 41, 100, 90}, 0.6);
    assert_part_as_of_the_whole(path, (struct xt_box){0, 0, 70, height}, 0.6);
    assert_part_as_of_the_whole(path, (struct xt_box){width - 65, height - 64, 65, 64}, 0.6);
    assert_part_as_of_the_whole(path, (struct xt_box){17, 3, 150, 150}, 4);
    assert_part_as_of_the_whole(path, (struct xt_box){7, 5, width - 20, height - 9}, 5);
}

static void a_part_is_resized_as_if_it_was_cut_out(void **state)
{
    (void)state;
    uint8_t of_part[20 * 12 * 3];
    uint8_t of_cut[20 * 12 * 3];
    struct xt_image cut = {0};
    assert_int_equal(xt_image_reserve(&whole.image, 61, 43, &err), XT_OK);
    assert_int_equal(xt_image_reserve(&cut, 37, 26, &err), XT_OK);
    for (int i = 0; i < 61 * 43 * 3; i++)
        whole.image.pixels[i] = (uint8_t)(i * i * 7 + i);
    for (int y = 0; y < 26; y++)
        memcpy(cut.pixels + (size_t)y * 37 * 3, whole.image.pixels + ((y + 9) * 61 + 11) * 3,
               37 * 3);
    struct xt_box box = {11, 9, 37, 26};
    assert_int_equal(xt_resize_part(&resizer, &whole.image, &box, false, 20, 12, of_part, &err),
                     XT_OK);
    assert_int_equal(xt_resize(&resizer, &cut, 20, 12, of_cut, &err), XT_OK);
    assert_memory_equal(of_part, of_cut, sizeof of_cut);
    xt_image_clear(&cut);
}

static void a_mirrored_image_is_the_image_backwards(void **state)
{
    (void)state;
    static const int sizes[] = {50, 37, 20};
    for (int s = 0; s < 3; s++) {
        int width = sizes[s];
        static uint8_t reference[37 * 21 * 3];
        static uint8_t mirrored[37 * 21 * 3];
        assert_int_equal(xt_image_reserve(&whole.image, width, 21, &err), XT_OK);
        for (int i = 0; i < width * 21 * 3; i++)
            whole.image.pixels[i] = (uint8_t)(i * i * 7 + i);
        struct xt_box box = {.width = width, .height = 21};
        xt_resize_part(&resizer, &whole.image, &box, false, 37, 21, reference, &err);
        xt_resize_part(&resizer, &whole.image, &box, true, 37, 21, mirrored, &err);
        for (int y = 0; y < 21; y++)
            for (int x = 0; x < 37; x++)
                for (int c = 0; c < 3; c++)
                    assert_in_range(reference[(y * 37 + x) * 3 + c] + 1 -
                                        mirrored[(y * 37 + 36 - x) * 3 + c],
                                    0, 2);
    }
}

static void a_part_outside_is_refused(void **state)
{
    (void)state;
    uint8_t out[3];
    xt_image_reserve(&whole.image, 4, 4, &err);
    struct xt_box box = {2, 0, 3, 4};
    assert_int_equal(xt_resize_part(&resizer, &whole.image, &box, false, 1, 1, out, &err),
                     XT_ERR_DATA);
}

static void colours_stay_where_the_change_is_nothing_and_grey_stays_grey(void **state)
{
    (void)state;
    uint8_t pixels[300];
    uint8_t before[300];
    for (int i = 0; i < 300; i++)
        before[i] = pixels[i] = (uint8_t)(i * 37);
    struct xt_rng rng = xt_rng_begin(1, 0);
    xt_augment_colours(pixels, 100, XT_PIXEL_RGB, 0, &rng);
    assert_memory_equal(pixels, before, sizeof before);
    for (int i = 0; i < 300; i++)
        pixels[i] = (uint8_t)(i / 3);
    xt_augment_colours(pixels, 100, XT_PIXEL_BGR, 0.5F, &rng);
    for (int i = 0; i < 100; i++)
        assert_true(pixels[3 * i] == pixels[3 * i + 1] && pixels[3 * i] == pixels[3 * i + 2]);
}

/* The textbook conversion: to hue, saturation and value, and back. */
static void turn_reference(const uint8_t *rgb, double turn, double *out)
{
    double high = fmax(rgb[0], fmax(rgb[1], rgb[2]));
    double span = high - fmin(rgb[0], fmin(rgb[1], rgb[2]));
    double hue = 0;
    if (span > 0 && high == rgb[0])
        hue = (rgb[1] - rgb[2]) / span / 6;
    else if (span > 0 && high == rgb[1])
        hue = ((rgb[2] - rgb[0]) / span + 2) / 6;
    else if (span > 0)
        hue = ((rgb[0] - rgb[1]) / span + 4) / 6;
    hue += turn;
    hue -= floor(hue);
    double rise = 6 * hue - floor(6 * hue);
    double p = high - span;
    double q = high - span * rise;
    double t = high - span * (1 - rise);
    const double sectors[6][3] = {{high, t, p}, {q, high, p}, {p, high, t},
                                  {p, q, high}, {t, p, high}, {high, p, q}};
    memcpy(out, sectors[(int)(6 * hue) % 6], sizeof sectors[0]);
}

static void the_hue_turns_and_nothing_else(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static uint8_t before[3 * COUNT];
    static uint8_t pixels[3 * COUNT];
    double least = 1;
    double most = -1;
    struct xt_rng random = xt_rng_begin(3, 1);
    for (int i = 0; i < 3 * COUNT; i++)
        before[i] = (uint8_t)xt_rng_next(&random);
    /* Grey, and each of the corners of the colour cube. */
    for (int i = 0; i < 3 * 9; i++)
        before[i] = i < 3 ? 90 : (i / 3 - 1) >> i % 3 & 1 ? 255 : 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        bool bgr = seed % 2;
        struct xt_rng rng = xt_rng_begin(seed, 2);
        struct xt_rng same = rng;
        double turn = 0.5 * (2 * (double)xt_rng_uniform(&same) - 1);
        least = fmin(least, turn);
        most = fmax(most, turn);
        memcpy(pixels, before, sizeof pixels);
        xt_augment_hue(pixels, COUNT, bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB, 0.5F, &rng);
        for (int i = 0; i < 3 * COUNT; i += 3) {
            const uint8_t rgb[3] = {before[i + 2 * bgr], before[i + 1], before[i + 2 - 2 * bgr]};
            double wanted[3];
            turn_reference(rgb, turn, wanted);
            for (int c = 0; c < 3; c++)
                assert_true(fabs(pixels[i + (bgr ? 2 - c : c)] - wanted[c]) < 0.55);
        }
    }
    assert_true(least < -0.4 && most > 0.4);
}

extern const struct xt_pixel_loops xt_pixel_loops_base;
#ifdef __x86_64__
extern const struct xt_pixel_loops xt_pixel_loops_avx2;
extern const struct xt_pixel_loops xt_pixel_loops_avx512;
#endif

enum { WIDTH = 71, HEIGHT = 19, ROW = WIDTH * 3, BYTES = ROW * HEIGHT };

/* All loops on a picture, one after the other. */
static void run_loops(const struct xt_pixel_loops *loops, uint8_t *out)
{
    static uint8_t in[BYTES + XT_WARP_SLACK];
    const uint8_t *rows[3] = {in, in + ROW, in + (ptrdiff_t)5 * ROW};
    const int32_t weights[3] = {1000000, 2000001, (1 << XT_FILTER_FRACTION) - 3000001};
    for (int i = 0; i < BYTES; i++)
        in[i] = (uint8_t)(i * i * 31 + i);
    loops->mix_rows(rows, weights, 3, ROW, out);
    out += ROW;
    for (int i = 0; i < HEIGHT; i++, out += ROW) {
        struct xt_warp_row row = {
            .in = in,
            .width = WIDTH,
            .height = HEIGHT,
            .x = (i - 9) * 70001,
            .y = (i - 4) * 65536 - 3000,
            .step_x = 61234 + i,
            .step_y = 4321 - 900 * i,
            .contrast = 375 + 16 * i,
            .brightness = 3 * i - 30,
            .count = WIDTH,
        };
        row.out = out;
        loops->warp_row(&row);
    }
    loops->blend(in, in + 3, in + 6, 40, out, ROW);
    out += ROW;
    memcpy(out, in, ROW);
    struct xt_colour_change change = {.own = 300, .grey = -60, .shift = 700};
    loops->change_colours(out, WIDTH, 2, &change);
    out += ROW;
    memcpy(out, in, ROW);
    loops->turn_hue(out, WIDTH, 0, 40000);
}

static void every_instruction_set_gives_the_same_bytes(void **state)
{
    (void)state;
    static uint8_t base[BYTES + 4 * ROW];
    run_loops(&xt_pixel_loops_base, base);
#ifdef __x86_64__
    static uint8_t other[BYTES + 4 * ROW];
    if (__builtin_cpu_supports("avx2")) {
        run_loops(&xt_pixel_loops_avx2, other);
        assert_memory_equal(base, other, sizeof base);
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
        run_loops(&xt_pixel_loops_avx512, other);
        assert_memory_equal(base, other, sizeof base);
    }
#endif
}

#define transform_test(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        transform_test(a_random_part_lies_within_and_has_area_and_shape),
        transform_test(a_long_image_gives_its_middle),
        transform_test(the_centre_crop_has_the_target_s_shape),
        transform_test(a_jpeg_of_the_wanted_size_is_decoded_to_where_it_is_wanted),
        transform_test(a_part_that_is_decoded_alone_looks_as_in_the_whole),
        transform_test(a_part_is_resized_as_if_it_was_cut_out),
        transform_test(a_mirrored_image_is_the_image_backwards),
        transform_test(a_part_outside_is_refused),
        transform_test(colours_stay_where_the_change_is_nothing_and_grey_stays_grey),
        transform_test(the_hue_turns_and_nothing_else),
        transform_test(every_instruction_set_gives_the_same_bytes),
    };
    return cmocka_run_group_tests_name("transform", tests, NULL, NULL);
}
