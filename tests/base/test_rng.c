#include "support.h"

#include "base/rng.h"

static void the_numbers_are_the_same_everywhere(void **state)
{
    (void)state;
    /* splitmix64 from state 0: the published first outputs. */
    assert_true(xt_rng_mix(0) == 0xE220A8397B1DCDAFu);
    assert_true(xt_rng_mix(0x9E3779B97F4A7C15u) == 0x6E789E6AA1B965F4u);
    assert_true(xt_rng_mix(2 * 0x9E3779B97F4A7C15u) == 0x06C45D188009454Fu);
}

static void a_place_has_one_number(void **state)
{
    (void)state;
    uint64_t once = xt_rng_at(1, 2, 3);
    assert_true(once == xt_rng_at(1, 2, 3));
    assert_true(once != xt_rng_at(2, 2, 3));
    assert_true(once != xt_rng_at(1, 3, 3));
    assert_true(once != xt_rng_at(1, 2, 4));
    assert_true(once != xt_rng_at(2, 1, 3));
    assert_true(once != xt_rng_at(3, 2, 1));
}

static void a_sequence_is_that_of_its_counter(void **state)
{
    (void)state;
    struct xt_rng rng = xt_rng_begin(7, 9);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(xt_rng_next(&rng) == xt_rng_at(7, 9, i));
}

static void integers_stay_below_and_are_even(void **state)
{
    (void)state;
    enum { BELOW = 10, DRAWS = 100000 };
    int counts[BELOW] = {0};
    struct xt_rng rng = xt_rng_begin(1, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t n = xt_rng_below(&rng, BELOW);
        assert_true(n < BELOW);
        counts[n]++;
    }
    /* Six standard deviations of a binomial count, sqrt(n p (1 - p)) = 95. */
    for (int i = 0; i < BELOW; i++)
        assert_in_range(counts[i], DRAWS / BELOW - 570, DRAWS / BELOW + 570);
    assert_true(xt_rng_below(&rng, 1) == 0);
    assert_true(xt_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

static void floats_lie_in_zero_to_one_with_the_right_moments(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    struct xt_rng rng = xt_rng_begin(3, 4);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        float x = xt_rng_uniform(&rng);
        assert_true(x >= 0.0F && x < 1.0F);
        sum += x;
        squares += (double)x * x;
    }
    double mean = sum / DRAWS;
    double variance = squares / DRAWS - mean * mean;
    assert_true(mean > 0.494 && mean < 0.506);
    assert_true(variance > 0.0813 && variance < 0.0853);
}

static void each_bit_is_set_half_the_time(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    int counts[64] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t value = xt_rng_at(5, i, 0);
        for (int bit = 0; bit < 64; bit++)
            counts[bit] += (int)(value >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++)
        assert_in_range(counts[bit], DRAWS / 2 - 430, DRAWS / 2 + 430);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_the_same_everywhere),
        cmocka_unit_test(a_place_has_one_number),
        cmocka_unit_test(a_sequence_is_that_of_its_counter),
        cmocka_unit_test(integers_stay_below_and_are_even),
        cmocka_unit_test(floats_lie_in_zero_to_one_with_the_right_moments),
        cmocka_unit_test(each_bit_is_set_half_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
