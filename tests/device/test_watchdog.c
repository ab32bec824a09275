/* When a device that does not answer is spoken of, and when it is lost. */
#include "device/faults/watchdog.h"

#include "support.h"

static void the_limits_follow_from_the_steps_or_from_what_was_given(void **state)
{
    (void)state;
    const struct xt_watchdog_limits quick = xt_watchdog_limits(0.05, 0);
    assert_true(quick.say == 60 && quick.end == 600);
    const struct xt_watchdog_limits slow = xt_watchdog_limits(20, 0);
    assert_true(slow.say == 200 && slow.end == 2000);
    const struct xt_watchdog_limits given = xt_watchdog_limits(20, 5);
    assert_true(given.say == 0.5 && given.end == 5);
}

static void a_cpu_is_not_watched(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_watchdog *watchdog = NULL;
    const struct xt_device cpu = {.kind = XT_DEVICE_CPU};
    assert_int_equal(xt_watchdog_start(&watchdog, &cpu, 1, &err), XT_OK);
    assert_null(watchdog);
    xt_watchdog_step(watchdog, 1);
    xt_watchdog_stop(watchdog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_follow_from_the_steps_or_from_what_was_given),
        cmocka_unit_test(a_cpu_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
