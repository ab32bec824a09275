#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "data/image/augment.h"

enum { W = 94, H = 24, SIZE = W * H * 3 };

static struct xt_image scratch;
static struct xt_err err;

static int teardown(void **state)
{
    (void)state;
    xt_image_clear(&scratch);
    return 0;
}

/* Black, with a white square of 3 x 3 pixels whose middle is (x, y). */
static void draw_dot(uint8_t *pixels, int x, int y)
{
    memset(pixels, 0, SIZE);
    for (int j = y - 1; j <= y + 1; j++)
        memset(pixels + (j * W + x - 1) * 3, 255, 9);
}

static void augment(uint8_t *pixels, uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 1);
    assert_int_equal(xt_augment_plate(pixels, W, H, &rng, &scratch, pixels, &err), XT_OK);
}

static void the_generator_alone_decides(void **state)
{
    (void)state;
    uint8_t a[SIZE];
    uint8_t b[SIZE];
    uint8_t c[SIZE];
    draw_dot(a, 40, 12);
    memcpy(b, a, SIZE);
    memcpy(c, a, SIZE);
    augment(a, 7);
    augment(c, 8);
    augment(b, 7);
    assert_memory_equal(a, b, SIZE);
    assert_memory_not_equal(a, c, SIZE);
}

/* The middle of the brightest 3 x 3 pixels. */
static void find_dot(const uint8_t *pixels, int *x, int *y)
{
    int best = -1;
    for (int j = 0; j < H; j++)
        for (int i = 0; i < W; i++) {
            int sum = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    if (j + dy >= 0 && j + dy < H && i + dx >= 0 && i + dx < W)
                        sum += pixels[((j + dy) * W + i + dx) * 3];
            if (sum > best) {
                best = sum;
                *x = i;
                *y = j;
            }
        }
}

static void what_stands_where_characters_end_stays_inside_and_near(void **state)
{
    (void)state;
    static const int places[][2] = {{6, 6}, {87, 6}, {6, 17}, {87, 17}, {47, 12}};
    uint8_t pixels[SIZE];
    int moved = 0;
    for (uint64_t seed = 0; seed < 400; seed++)
        for (int i = 0; i < 5; i++) {
            draw_dot(pixels, places[i][0], places[i][1]);
            augment(pixels, seed);
            int x = 0;
            int y = 0;
            find_dot(pixels, &x, &y);
            assert_in_range(x, places[i][0] > 6 ? places[i][0] - 6 : 0, places[i][0] + 6);
            assert_in_range(y, places[i][1] > 5 ? places[i][1] - 5 : 0, places[i][1] + 5);
            assert_in_range(x, 0, W - 1);
            assert_true(y > 0 && y < H - 1);
            moved += x != places[i][0] || y != places[i][1];
        }
    assert_true(moved > 1000);
}

static void the_border_is_repeated_and_not_black(void **state)
{
    (void)state;
    uint8_t pixels[SIZE];
    for (uint64_t seed = 0; seed < 50; seed++) {
        memset(pixels, 128, SIZE);
        augment(pixels, seed);
        for (int i = 1; i < SIZE; i++)
            assert_int_equal(pixels[i], pixels[0]);
    }
}

static void light_changes_both_ways_and_never_to_one_tone(void **state)
{
    (void)state;
    int brighter = 0;
    int darker = 0;
    uint8_t pixels[SIZE];
    for (uint64_t seed = 0; seed < 200; seed++) {
        memset(pixels, 80, SIZE / 2);
        memset(pixels + SIZE / 2, 180, SIZE / 2);
        augment(pixels, seed);
        const uint8_t *first = pixels + (W / 2) * 3;
        const uint8_t *last = pixels + ((H - 1) * W + W / 2) * 3;
        assert_true(*last - *first >= 60);
        brighter += *first > 90;
        darker += *first < 70;
    }
    assert_true(brighter > 30 && darker > 30);
}

static void any_size_is_taken(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 1}, {1, 9}, {2, 2}, {9, 1}, {224, 224}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            uint8_t *pixels = calloc((size_t)(sizes[i][0] * sizes[i][1]), 3);
            struct xt_rng rng = xt_rng_begin(seed, 2);
            assert_int_equal(
                xt_augment_plate(pixels, sizes[i][0], sizes[i][1], &rng, &scratch, pixels, &err),
                XT_OK);
            free(pixels);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_alone_decides),
        cmocka_unit_test(what_stands_where_characters_end_stays_inside_and_near),
        cmocka_unit_test(the_border_is_repeated_and_not_black),
        cmocka_unit_test(light_changes_both_ways_and_never_to_one_tone),
        cmocka_unit_test_teardown(any_size_is_taken, teardown),
    };
    return cmocka_run_group_tests_name("augment", tests, NULL, NULL);
}
