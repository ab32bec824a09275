#include "support.h"

#include <math.h>
#include <string.h>

#include "data/image/mixup.h"

static void check_shares(double alpha)
{
    enum { COUNT = 40000 };
    double sum = 0;
    double square = 0;
    for (int i = 0; i < COUNT; i++) {
        struct xt_mixup mixup = {.alpha = alpha, .seed = 4, .step = (uint64_t)i, .count = 2};
        double share = (double)xt_mixup_row(&mixup, 0).own / XT_MIXUP_ONE;
        assert_true(share >= 0 && share <= 1);
        sum += share;
        square += (share - 0.5) * (share - 0.5);
    }
    double variance = 1 / (4 * (2 * alpha + 1));
    assert_true(fabs(sum / COUNT - 0.5) < 4 * sqrt(variance / COUNT));
    if (!(fabs(square / COUNT / variance - 1) < 0.04))
        fail_msg("the variance is %.4f at alpha %g, not %.4f", square / COUNT, alpha, variance);
}

static void shares_have_the_mean_and_variance_of_beta(void **state)
{
    (void)state;
    check_shares(0.2);
    check_shares(0.4);
    check_shares(1);
    check_shares(8);
}

/* The uniform distribution. */
static void shares_of_alpha_1_are_uniform(void **state)
{
    (void)state;
    enum { COUNT = 40000, PARTS = 8 };
    int parts[PARTS] = {0};
    for (int i = 0; i < COUNT; i++) {
        struct xt_mixup mixup = {.alpha = 1, .step = (uint64_t)i, .count = 2};
        int part = xt_mixup_row(&mixup, 0).own * PARTS / XT_MIXUP_ONE;
        parts[part < PARTS ? part : PARTS - 1]++;
    }
    for (int i = 0; i < PARTS; i++)
        assert_in_range(parts[i], COUNT / PARTS * 9 / 10, COUNT / PARTS * 11 / 10);
}

static void a_tiny_alpha_takes_one_image_or_the_other(void **state)
{
    (void)state;
    int own = 0;
    for (uint64_t step = 0; step < 400; step++) {
        struct xt_mixup mixup = {.alpha = 1e-6, .step = step, .count = 2};
        int share = xt_mixup_row(&mixup, 0).own;
        assert_true(share == 0 || share == XT_MIXUP_ONE);
        own += share == XT_MIXUP_ONE;
    }
    assert_in_range(own, 150, 250);
}

static void both_rows_of_a_pair_keep_the_same_share(void **state)
{
    (void)state;
    struct xt_mixup mixup = {.alpha = 1, .seed = 1, .step = 7, .count = 5};
    int differ = 0;
    for (int row = 0; row < mixup.count; row++) {
        struct xt_mix mix = xt_mixup_row(&mixup, row);
        assert_int_equal(mix.other, 4 - row);
        assert_int_equal(mix.own, xt_mixup_row(&mixup, mix.other).own);
        differ += mix.own != xt_mixup_row(&mixup, 0).own;
    }
    assert_int_equal(differ, 3);
    assert_int_equal(xt_mixup_row(&mixup, 2).own, XT_MIXUP_ONE);
    struct xt_mixup off = {.count = 5};
    assert_int_equal(xt_mixup_row(&off, 1).other, 1);
    assert_int_equal(xt_mixup_row(&off, 1).own, XT_MIXUP_ONE);
}

static void pixels_are_mixed_by_the_shares(void **state)
{
    (void)state;
    enum { ROWS = 3, BYTES = 5000 };
    static uint8_t before[ROWS][BYTES];
    static uint8_t after[ROWS][BYTES];
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < BYTES; i++)
            before[row][i] = (uint8_t)(i * (row + 3) + 90 * row);
    for (uint64_t step = 0; step < 50; step++) {
        struct xt_mixup mixup = {.alpha = 0.5, .seed = 2, .step = step, .count = ROWS};
        memcpy(after, before, sizeof after);
        xt_mixup_pixels(&mixup, after[0], BYTES);
        for (int row = 0; row < ROWS; row++) {
            struct xt_mix mix = xt_mixup_row(&mixup, row);
            double share = (double)mix.own / XT_MIXUP_ONE;
            for (int i = 0; i < BYTES; i++) {
                double wanted = share * before[row][i] + (1 - share) * before[mix.other][i];
                assert_true(fabs(after[row][i] - wanted) <= 0.5);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_have_the_mean_and_variance_of_beta),
        cmocka_unit_test(shares_of_alpha_1_are_uniform),
        cmocka_unit_test(a_tiny_alpha_takes_one_image_or_the_other),
        cmocka_unit_test(both_rows_of_a_pair_keep_the_same_share),
        cmocka_unit_test(pixels_are_mixed_by_the_shares),
    };
    return cmocka_run_group_tests_name("mixup", tests, NULL, NULL);
}
