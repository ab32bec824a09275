#include "train/optim/scaler.h"

#include "support.h"

static void it_begins_at_65536_and_is_exact(void **state)
{
    (void)state;
    struct xt_scaler scaler;
    float gradient[] = {1.0f / 3, -1e-7f, 0};
    xt_scaler_init(&scaler, true);
    xt_scaler_apply(&scaler, gradient, 3);
    assert_true(gradient[0] / 65536 == 1.0f / 3);
    assert_true(gradient[1] / 65536 == -1e-7f);
    assert_true(gradient[2] == 0);
}

static void off_changes_nothing(void **state)
{
    (void)state;
    struct xt_scaler scaler;
    float gradient[] = {0.25f};
    xt_scaler_init(&scaler, false);
    xt_scaler_apply(&scaler, gradient, 1);
    assert_true(gradient[0] == 0.25f && scaler.scale == 1);
    assert_int_equal(xt_scaler_judge(&scaler, true), XT_SCALER_USE);
    assert_int_equal(xt_scaler_judge(&scaler, false), XT_SCALER_FAIL);
    assert_int_equal(scaler.skipped, 0);
}

static void a_gradient_that_is_not_finite_skips_the_step_and_halves_the_scale(void **state)
{
    (void)state;
    struct xt_scaler scaler;
    xt_scaler_init(&scaler, true);
    assert_int_equal(xt_scaler_judge(&scaler, true), XT_SCALER_USE);
    assert_int_equal(xt_scaler_judge(&scaler, false), XT_SCALER_SKIP);
    assert_int_equal(xt_scaler_judge(&scaler, false), XT_SCALER_SKIP);
    assert_true(scaler.scale == 16384);
    assert_int_equal(scaler.skipped, 2);
}

static void two_thousand_fine_steps_in_a_row_double_the_scale(void **state)
{
    (void)state;
    struct xt_scaler scaler;
    xt_scaler_init(&scaler, true);
    for (int i = 0; i < 1999; i++)
        assert_int_equal(xt_scaler_judge(&scaler, true), XT_SCALER_USE);
    assert_true(scaler.scale == 65536);
    xt_scaler_judge(&scaler, false);
    for (int i = 0; i < 1999; i++)
        xt_scaler_judge(&scaler, true);
    assert_true(scaler.scale == 32768);
    xt_scaler_judge(&scaler, true);
    assert_true(scaler.scale == 65536);
    for (int i = 0; i < 40 * 2000; i++) {
        xt_scaler_judge(&scaler, true);
        assert_true(scaler.scale <= 16777216);
    }
    assert_true(scaler.scale == 16777216);
}

static void what_is_not_finite_at_a_scale_of_1_is_not_the_scale_s_doing(void **state)
{
    (void)state;
    struct xt_scaler scaler;
    xt_scaler_init(&scaler, true);
    for (int i = 0; i < 16; i++)
        assert_int_equal(xt_scaler_judge(&scaler, false), XT_SCALER_SKIP);
    assert_true(scaler.scale == 1);
    assert_int_equal(xt_scaler_judge(&scaler, false), XT_SCALER_FAIL);
    assert_int_equal(scaler.skipped, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_at_65536_and_is_exact),
        cmocka_unit_test(off_changes_nothing),
        cmocka_unit_test(a_gradient_that_is_not_finite_skips_the_step_and_halves_the_scale),
        cmocka_unit_test(two_thousand_fine_steps_in_a_row_double_the_scale),
        cmocka_unit_test(what_is_not_finite_at_a_scale_of_1_is_not_the_scale_s_doing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
