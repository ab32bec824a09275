#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/image/resize.h"

static struct xt_resizer resizer;
static struct xt_err err;

static int teardown(void **state)
{
    (void)state;
    xt_resizer_clear(&resizer);
    return 0;
}

static struct xt_image pattern(int width, int height)
{
    struct xt_image image = {0};
    assert_int_equal(xt_image_reserve(&image, width, height, &err), XT_OK);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                image.pixels[(y * width + x) * 3 + c] = (uint8_t)(x * 37 + y * 91 + c * 53);
    return image;
}

static double weight(int out, int in_size, int out_size, int k)
{
    double scale = (double)in_size / out_size;
    double half = fmax(scale, 1);
    return fmax(0, 1 - fabs((k + 0.5) - (out + 0.5) * scale) / half);
}

static double reference(const struct xt_image *in, int width, int height, int x, int y, int c)
{
    double sum = 0;
    double all = 0;
    for (int j = 0; j < in->height; j++)
        for (int i = 0; i < in->width; i++) {
            double w = weight(x, in->width, width, i) * weight(y, in->height, height, j);
            sum += w * in->pixels[(j * in->width + i) * 3 + c];
            all += w;
        }
    return sum / all;
}

static void assert_like_reference(int in_width, int in_height, int width, int height)
{
    struct xt_image in = pattern(in_width, in_height);
    uint8_t *out = malloc((size_t)width * (size_t)height * 3);
    double sum = 0;
    assert_int_equal(xt_resize(&resizer, &in, width, height, out, &err), XT_OK);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                double error =
                    out[(y * width + x) * 3 + c] - reference(&in, width, height, x, y, c);
                /* Half a level for each of the two passes. */
                assert_true(fabs(error) < 1.01);
                sum += error;
            }
    /* Rounded to nearest: over many pixels no pass makes the image darker or brighter. */
    if (width * height >= 100)
        assert_true(fabs(sum / (width * height * 3)) < 0.1);
    free(out);
    xt_image_clear(&in);
}

static void every_size_is_as_in_double_precision(void **state)
{
    (void)state;
    assert_like_reference(47, 31, 20, 12);
    assert_like_reference(47, 31, 94, 24);
    assert_like_reference(10, 40, 33, 7);
    assert_like_reference(3, 2, 17, 19);
    assert_like_reference(1, 1, 5, 4);
    assert_like_reference(200, 3, 1, 1);
    assert_like_reference(20, 9, 20, 5);
    assert_like_reference(20, 9, 6, 9);
}

static void the_same_size_is_a_copy(void **state)
{
    (void)state;
    struct xt_image in = pattern(13, 7);
    uint8_t out[13 * 7 * 3];
    assert_int_equal(xt_resize(&resizer, &in, 13, 7, out, &err), XT_OK);
    assert_memory_equal(out, in.pixels, sizeof out);
    xt_image_clear(&in);
}

/* The result of Pillow's BILINEAR for the same picture. */
static void stored_values_come_out(void **state)
{
    (void)state;
    static const uint8_t smaller[] = {80,  118, 149, 109, 152, 124, 154, 157, 150, 127, 131, 123,
                                      98,  106, 137, 115, 128, 125, 100, 122, 133, 116, 140, 128,
                                      133, 155, 138, 127, 141, 137, 149, 157, 145, 124, 128, 120,
                                      99,  102, 132, 103, 146, 143, 137, 175, 118};
    static const uint8_t mixed[] = {41,  94,  147, 130, 176, 187, 144, 96,  88,  70,  123,
                                    150, 143, 166, 152, 121, 99,  111, 120, 173, 156, 166,
                                    150, 92,  83,  105, 149, 136, 148, 123, 127, 131, 112};
    uint8_t out[3 * 11 * 3];
    struct xt_image in = pattern(8, 6);
    assert_int_equal(xt_resize(&resizer, &in, 5, 3, out, &err), XT_OK);
    assert_memory_equal(out, smaller, sizeof smaller);
    assert_int_equal(xt_resize(&resizer, &in, 3, 11, out, &err), XT_OK);
    assert_memory_equal(out, mixed, sizeof mixed);
    xt_image_clear(&in);
}

static void a_flat_image_stays_flat(void **state)
{
    (void)state;
    struct xt_image in = {0};
    assert_int_equal(xt_image_reserve(&in, 333, 77, &err), XT_OK);
    memset(in.pixels, 255, 333 * 77 * 3);
    uint8_t out[94 * 24 * 3];
    assert_int_equal(xt_resize(&resizer, &in, 94, 24, out, &err), XT_OK);
    for (size_t i = 0; i < sizeof out; i++)
        assert_int_equal(out[i], 255);
    xt_image_clear(&in);
}

static void a_very_tall_image_needs_no_memory_of_its_height(void **state)
{
    (void)state;
    struct xt_image in = {0};
    assert_int_equal(xt_image_reserve(&in, 2, 1000000, &err), XT_OK);
    memset(in.pixels, 100, 2 * 1000000 * 3);
    uint8_t out[94 * 24 * 3];
    assert_int_equal(xt_resize(&resizer, &in, 94, 24, out, &err), XT_OK);
    assert_in_range(out[sizeof out / 2], 99, 101);
    xt_image_clear(&in);
}

#define resize_test(f) cmocka_unit_test_setup_teardown(f, NULL, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        resize_test(every_size_is_as_in_double_precision),
        resize_test(the_same_size_is_a_copy),
        resize_test(stored_values_come_out),
        resize_test(a_flat_image_stays_flat),
        resize_test(a_very_tall_image_needs_no_memory_of_its_height),
    };
    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
