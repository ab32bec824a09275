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
    char run[320];
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
    /* A folder that stands for the machine's /proc and /sys. */
    device.figures.root = getenv("XT_TEST_ROOT");
    if (device.figures.root)
        device.xpu.facts = *xt_level_zero_facts(device.zero, 0);
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
    assert_true(seen.late.run.memory_used.value == 3.0 * (1 << 30));
    assert_true(seen.late.run.busy.known && seen.late.run.busy.value == 0.25);
    assert_true(seen.late.run.power.value == 50);
    assert_string_equal(seen.run,
                        "memory at most 3.2 of 17.2 GB, 25 % busy, 50 W, 2100 MHz (memory, busy "
                        "time, power, frequency by sysman)");
    assert_true(seen.late.run.energy.value == 50.0 * (seen.late.readings - 1));
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
    assert_string_equal(seen.run, "50 W (power by sysman)");
    assert_string_equal(seen.unreadable,
                        "the device's memory, busy time: not readable: the driver's figures cannot "
                        "be; frequency: not readable: not supported by this driver");
}

static void put(const char *root, const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(xt_file_make_folder(support_path(root, folder), NULL), XT_OK);
    support_write_file(support_path(root, path), text, strlen(text));
}

/* i915 without CAP_PERFMON: Sysman says that all memory is free; the kernel counts for everybody.
 */
static void what_the_kernel_tells_comes_before_what_the_driver_tells(void **state)
{
    static const char hwmon[] = "sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon3";
    struct seen seen;
    put(*state, "proc/self/fdinfo", "7",
        "drm-driver: i915\ndrm-client-id: 4\ndrm-pdev: 0000:03:00.0\n"
        "drm-resident-local0: 2097152 KiB\n");
    put(*state, hwmon, "name", "i915\n");
    put(*state, hwmon, "energy1_input", "7000000\n");
    put(*state, hwmon, "temp1_input", "61000\n");
    setenv("XT_TEST_ROOT", *state, 1);
    play("unprivileged", &seen);
    unsetenv("XT_TEST_ROOT");
    assert_false(seen.late.now.memory_free.known);
    assert_true(seen.late.run.memory_used.value == 2.0 * (1 << 30));
    assert_string_equal(seen.late.run.energy.source, "hwmon");
    assert_true(seen.late.run.energy.value == 0);
    assert_string_equal(seen.run,
                        "memory at most 2.1 of 17.2 GB, 25 % busy, 0 W, 2100 MHz, at most 61 "
                        "degrees (memory by fdinfo, only this process; busy time, frequency "
                        "by sysman; power, temperature by hwmon)");
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
        cmocka_unit_test_setup_teardown(what_the_kernel_tells_comes_before_what_the_driver_tells,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test(a_driver_without_devices_has_no_figures),
        cmocka_unit_test(on_the_cpu_there_is_nothing_to_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
