/* Which of Level Zero and OpenCL doctor would take, from made-up trials. */

#include "cli/doctor/backends.h"
#include "support.h"

static const struct xt_device_try missing = {.status = XT_ERR_DEVICE};
static const struct xt_device_try broken = {.status = XT_ERR_DEVICE, .there = true};

static struct xt_device_try right(double pass_s)
{
    return (struct xt_device_try){.there = true, .pass_s = pass_s};
}

static void assert_choice(struct xt_device_try zero, struct xt_device_try opencl, int choice,
                          const char *advice)
{
    char text[256];
    const struct xt_backend_tried tried[XT_BACKENDS] = {
        {.name = "Level Zero", .selector = "level_zero:gpu", .result = zero},
        {.name = "OpenCL", .selector = "opencl:gpu", .result = opencl},
    };
    assert_int_equal(xt_backends_choose(tried), choice);
    xt_backends_advise(tried, text, sizeof text);
    assert_string_equal(text, advice);
}

static void the_only_one_is_said_to_be(void **state)
{
    (void)state;
    assert_choice(missing, right(0.002), 1, "OpenCL is the only one here");
    assert_choice(right(0.002), missing, 0, "Level Zero is the only one here");
    assert_choice(missing, missing, -1, "none: neither has a GPU here");
    assert_choice(broken, missing, -1, "no back end computes correctly here");
}

static void one_that_fails_or_crashes_is_passed_over(void **state)
{
    (void)state;
    assert_choice(
        broken, right(0.002), 1,
        "OpenCL, since Level Zero does not work: export ONEAPI_DEVICE_SELECTOR=opencl:gpu");
    assert_choice(
        right(0.002), broken, 0,
        "Level Zero, since OpenCL does not work: export ONEAPI_DEVICE_SELECTOR=level_zero:gpu");
}

static void of_two_the_faster_one_and_of_near_equals_the_default(void **state)
{
    (void)state;
    assert_choice(right(0.002), right(0.003), 0,
                  "Level Zero, which takes 2.00 ms where OpenCL takes 3.00: export "
                  "ONEAPI_DEVICE_SELECTOR=level_zero:gpu");
    assert_choice(
        right(0.002), right(0.00205), 1,
        "OpenCL, which takes 2.05 ms where Level Zero takes 2.00 (the default; to be sure "
        "of it: export ONEAPI_DEVICE_SELECTOR=opencl:gpu)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_one_is_said_to_be),
        cmocka_unit_test(one_that_fails_or_crashes_is_passed_over),
        cmocka_unit_test(of_two_the_faster_one_and_of_near_equals_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
