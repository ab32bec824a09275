/* The monitor of an XPU on the test double of a Level Zero driver, whose counters advance by a
 * second with each reading. Each case runs in a process of its own, because a process starts its
 * drivers once. */
#include "device/gpu/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "ze_play.h"

struct seen {
    bool zero;
    bool started;
    struct xt_monitor_figures early;
    struct xt_monitor_figures late;
    struct xt_monitor_figures after; /* as late, a while after the end */
    char run[160];
    char unreadable[512];
};

static void look(const void *argument, void *result)
{
    struct seen *seen = result;
    struct xt_device device = {.kind = XT_DEVICE_XPU, .own_memory = true};
    struct xt_monitor *monitor = NULL;
    setenv("XT_ZE_TEST", argument, 1);
    if (xt_level_zero_open(&device.zero, NULL))
        return;
    seen->zero = true;
    seen->started = xt_monitor_start(&monitor, &device, 0.01, NULL) == XT_OK;
    xt_monitor_read(monitor, &seen->early);
    usleep(100000);
    xt_monitor_stop(monitor);
    xt_monitor_read(monitor, &seen->late);
    usleep(30000);
    xt_monitor_read(monitor, &seen->after);
    xt_monitor_format_run(&seen->late, seen->run, sizeof seen->run);
    xt_monitor_describe_unreadable(&seen->late, seen->unreadable, sizeof seen->unreadable);
    xt_monitor_destroy(monitor);
    xt_level_zero_close(device.zero);
}

static void play(const char *what, struct seen *seen)
{
    ze_play(look, what, seen, sizeof *seen);
    if (!seen->zero)
        support_skip("the Level Zero loader is not installed: run \"make deps XPU=1\"");
}

static void figures_are_read_at_intervals_and_kept(void **state)
{
    (void)state;
    struct seen seen;
    play("two", &seen);
    assert_true(seen.started);
    assert_true(seen.early.readings >= 1);
    assert_true(seen.late.readings >= 3);
    assert_int_equal(seen.after.readings, seen.late.readings);
    assert_true(seen.late.memory_peak.value == 3.0 * (1 << 30));
    assert_true(seen.late.busy.known && seen.late.busy.value == 0.25);
    assert_true(seen.late.power.value == 50);
    assert_string_equal(seen.run, "memory at most 3.2 of 17.2 GB, 25 % busy, 50 W, 2100 MHz");
    assert_string_equal(seen.unreadable, "");
}

static void what_is_refused_is_said_once_for_all_and_left_out(void **state)
{
    (void)state;
    struct seen seen;
    play("refused", &seen);
    assert_string_equal(seen.run, "");
    assert_string_equal(
        seen.unreadable,
        "the device's memory, busy time, power, frequency: not readable: no permission");
}

static void figures_that_cannot_be_are_left_out_and_named(void **state)
{
    (void)state;
    struct seen seen;
    play("odd", &seen);
    assert_string_equal(seen.run, "50 W");
    assert_string_equal(seen.unreadable,
                        "the device's memory, busy time: not readable: the driver's figures cannot "
                        "be; frequency: not readable: not supported by this driver");
}

static void a_driver_without_devices_has_no_figures(void **state)
{
    (void)state;
    struct seen seen;
    play("none", &seen);
    assert_true(seen.started);
    assert_string_equal(seen.run, "");
    assert_non_null(strstr(seen.unreadable, "not readable: no Level Zero device matches"));
}

static void on_the_cpu_there_is_nothing_to_watch(void **state)
{
    (void)state;
    struct xt_device device = {.kind = XT_DEVICE_CPU};
    struct xt_monitor *monitor = NULL;
    struct xt_monitor_figures figures;
    assert_int_equal(xt_monitor_start(&monitor, &device, 0.01, NULL), XT_OK);
    assert_null(monitor);
    xt_monitor_read(monitor, &figures);
    assert_int_equal(figures.readings, 0);
    xt_monitor_stop(monitor);
    xt_monitor_destroy(monitor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_read_at_intervals_and_kept),
        cmocka_unit_test(what_is_refused_is_said_once_for_all_and_left_out),
        cmocka_unit_test(figures_that_cannot_be_are_left_out_and_named),
        cmocka_unit_test(a_driver_without_devices_has_no_figures),
        cmocka_unit_test(on_the_cpu_there_is_nothing_to_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
