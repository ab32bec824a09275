#include "base/number.h"

#include <math.h>
#include <stdint.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "support.h"

static uint16_t half_of(enum xt_dtype dtype, float value)
{
    uint16_t half = 0;
    xt_number_from_float(dtype, &value, 1, &half);
    return half;
}

static float float_of(enum xt_dtype dtype, uint16_t half)
{
    float value = 0;
    xt_number_to_float(dtype, &half, 1, &value);
    return value;
}

static void every_half_comes_back_as_it_was(void **state)
{
    (void)state;
    const enum xt_dtype dtypes[] = {XT_BF16, XT_F16};
    for (int d = 0; d < 2; d++)
        for (uint32_t half = 0; half <= UINT16_MAX; half++) {
            float value = float_of(dtypes[d], (uint16_t)half);
            if (!isnan(value))
                assert_int_equal(half_of(dtypes[d], value), half);
        }
}

static void fp16_has_the_values_of_the_standard(void **state)
{
    (void)state;
    assert_int_equal(half_of(XT_F16, 1), 0x3C00);
    assert_int_equal(half_of(XT_F16, -2), 0xC000);
    assert_int_equal(half_of(XT_F16, 65504), 0x7BFF);
    assert_int_equal(half_of(XT_F16, 0x1p-14f), 0x0400);
    assert_int_equal(half_of(XT_F16, 0x1p-24f), 0x0001);
    assert_true(float_of(XT_F16, 0x3555) == 0.333251953125f);
}

/* The standard's words in double precision: steps of 2^(exponent - 10), the exponent at least -14.
 */
static double nearest_fp16(float value)
{
    int exponent = 0;
    frexp((double)value, &exponent);
    double step = ldexp(1, (exponent - 1 < -14 ? -14 : exponent - 1) - 10);
    return rint((double)value / step) * step;
}

/* As in every thread that computes: float32's own smallest numbers count as zero. */
static void fp16_is_exact_down_to_its_smallest_numbers(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static float values[COUNT], back[COUNT];
    static uint16_t halves[COUNT];
    for (int i = 0; i < COUNT; i++) {
        float size = 0x1p-26f * powf(2, 42 * (float)i / COUNT);
        values[i] = i % 2 ? -size : size;
    }
#ifdef __SSE__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON | 0x0040);
#endif
    xt_number_from_float(XT_F16, values, COUNT, halves);
    xt_number_to_float(XT_F16, halves, COUNT, back);
#ifdef __SSE__
    _mm_setcsr(before);
#endif
    for (int i = 0; i < COUNT; i++)
        if (fabsf(values[i]) < 65504 && (double)back[i] != nearest_fp16(values[i]))
            fail_msg("%a became %a, the nearest is %a", (double)values[i], (double)back[i],
                     nearest_fp16(values[i]));
}

static void ties_go_to_the_even_neighbour(void **state)
{
    (void)state;
    assert_int_equal(half_of(XT_F16, 1 + 0x1p-11f), 0x3C00);
    assert_int_equal(half_of(XT_F16, 1 + 3 * 0x1p-11f), 0x3C02);
    assert_int_equal(half_of(XT_F16, 0x1p-25f), 0);
    assert_int_equal(half_of(XT_F16, 3 * 0x1p-25f), 2);
    assert_int_equal(half_of(XT_BF16, 1 + 0x1p-8f), 0x3F80);
    assert_int_equal(half_of(XT_BF16, 1 + 3 * 0x1p-8f), 0x3F82);
}

static void what_fp16_cannot_hold_is_infinite_and_nan_stays_nan(void **state)
{
    (void)state;
    assert_int_equal(half_of(XT_F16, 65519.996f), 0x7BFF);
    assert_int_equal(half_of(XT_F16, 65520), 0x7C00);
    assert_int_equal(half_of(XT_F16, -INFINITY), 0xFC00);
    assert_true(isnan(float_of(XT_F16, half_of(XT_F16, NAN))));
    assert_true(isnan(float_of(XT_BF16, half_of(XT_BF16, NAN))));
}

/* Whose bits lie in the lower half, which bf16 does not have. */
static void a_nan_of_few_bits_stays_nan_in_bf16(void **state)
{
    (void)state;
    assert_true(isnan(float_of(XT_BF16, half_of(XT_BF16, xt_float_of_bits(0x7F800001)))));
}

static void doubles_become_floats(void **state)
{
    (void)state;
    const double from[] = {0.1, -1e300, 3};
    float to[3];
    xt_number_to_float(XT_F64, from, 3, to);
    assert_true(to[0] == 0.1f && to[1] == -INFINITY && to[2] == 3);
}

static void eight_bits_hold_whole_numbers_to_their_ends(void **state)
{
    (void)state;
    static const float values[] = {0, -3.4f, 2.5f, 3.5f, 127.4f, 300, -300, INFINITY, NAN};
    static const float as_s8[] = {0, -3, 2, 4, 127, 127, -128, 127, -128};
    static const float as_u8[] = {0, 0, 2, 4, 127, 255, 0, 255, 0};
    enum { COUNT = sizeof values / sizeof values[0] };
    char held[COUNT];
    float back[COUNT];
    for (int sign = 0; sign < 2; sign++) {
        xt_number_from_float(sign ? XT_S8 : XT_U8, values, COUNT, held);
        xt_number_to_float(sign ? XT_S8 : XT_U8, held, COUNT, back);
        assert_memory_equal(back, sign ? as_s8 : as_u8, sizeof back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_comes_back_as_it_was),
        cmocka_unit_test(fp16_has_the_values_of_the_standard),
        cmocka_unit_test(fp16_is_exact_down_to_its_smallest_numbers),
        cmocka_unit_test(ties_go_to_the_even_neighbour),
        cmocka_unit_test(what_fp16_cannot_hold_is_infinite_and_nan_stays_nan),
        cmocka_unit_test(a_nan_of_few_bits_stays_nan_in_bf16),
        cmocka_unit_test(doubles_become_floats),
        cmocka_unit_test(eight_bits_hold_whole_numbers_to_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
