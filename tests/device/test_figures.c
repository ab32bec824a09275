/* A GPU's figures from folders that stand for machines, with no driver beside them. */
#include "device/gpu/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

#define CARD "sys/bus/pci/devices/0000:03:00.0/hwmon/"
static const struct xt_gpu_facts arc = {.pci = {.known = true, .bus = 3}, .memory = 16ull << 30};

static void put(const char *root, const char *name, const char *text)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", support_path(root, name));
    *strrchr(folder, '/') = '\0';
    assert_int_equal(xt_file_make_folder(folder, NULL), XT_OK);
    support_write_file(support_path(root, name), text, strlen(text));
}

static void the_kernel_counts_energy_power_and_temperature(void **state)
{
    struct xt_figures figures;
    struct xt_telemetry now;
    put(*state, CARD "hwmon2/name", "i915_gt0\n");
    put(*state, CARD "hwmon2/energy1_input", "1\n");
    put(*state, CARD "hwmon3/name", "xe\n");
    put(*state, CARD "hwmon3/energy1_input", "5000000\n");
    put(*state, CARD "hwmon3/power1_max", "190000000\n");
    put(*state, CARD "hwmon3/temp2_input", "48500\n");
    xt_figures_init(&figures, NULL, -1, &arc, *state);
    xt_figures_read(&figures, &now);
    assert_true(now.energy.known && now.energy.value == 0);
    assert_false(now.power.known);
    put(*state, CARD "hwmon3/energy1_input", "8000000\n");
    xt_figures_read(&figures, &now);
    assert_true(now.energy.value == 3);
    assert_true(now.power.known && now.power.value > 0);
    assert_true(now.power_limit.value == 190);
    assert_true(now.temperature.value == 48.5);
    const struct xt_reading *all[] = {&now.energy, &now.power, &now.power_limit, &now.temperature};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_equal(all[i]->source, "hwmon");
    assert_string_equal(now.memory_total.source, "driver");
}

/* On some cards the package alone is counted, as the second one. */
static void the_packages_counter_serves_where_there_is_no_cards(void **state)
{
    struct xt_figures figures;
    struct xt_telemetry now;
    put(*state, CARD "hwmon0/name", "xe\n");
    put(*state, CARD "hwmon0/energy2_input", "5000000\n");
    xt_figures_init(&figures, NULL, -1, &arc, *state);
    xt_figures_read(&figures, &now);
    assert_true(now.energy.known);
    /* A driver that was loaded anew counts from 0: nothing is made up. */
    put(*state, CARD "hwmon0/energy2_input", "4000000\n");
    xt_figures_read(&figures, &now);
    assert_true(now.energy.value == 0);
    put(*state, CARD "hwmon0/energy2_input", "4500000\n");
    xt_figures_read(&figures, &now);
    assert_true(now.energy.value == 0.5);
}

static void odd_files_are_no_figures(void **state)
{
    static const char *const odd[] = {"", "x", "nan", "-1", "1e400", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct xt_figures figures;
        struct xt_telemetry now;
        put(*state, CARD "hwmon3/name", "xe\n");
        put(*state, CARD "hwmon3/energy1_input", odd[i]);
        put(*state, CARD "hwmon3/power1_max", odd[i]);
        put(*state, CARD "hwmon3/temp1_input", "999999\n");
        xt_figures_init(&figures, NULL, -1, &arc, *state);
        xt_figures_read(&figures, &now);
        xt_figures_read(&figures, &now);
        assert_false(now.energy.known || now.power.known || now.power_limit.known ||
                     now.temperature.known);
    }
}

static void busy_time_is_that_between_two_readings(void **state)
{
    struct xt_figures figures;
    struct xt_telemetry now;
    char text[256];
    static const char form[] = "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\n"
                               "drm-resident-vram0: 1 GiB\ndrm-cycles-ccs: %d\n"
                               "drm-total-cycles-ccs: %d\n";
    snprintf(text, sizeof text, form, 100, 1000);
    put(*state, "proc/self/fdinfo/3", text);
    xt_figures_init(&figures, NULL, -1, &arc, *state);
    xt_figures_read(&figures, &now);
    assert_false(now.busy.known);
    snprintf(text, sizeof text, form, 400, 2000);
    put(*state, "proc/self/fdinfo/3", text);
    xt_figures_read(&figures, &now);
    assert_true(now.busy.known);
    assert_float_equal((float)now.busy.value, 0.3F, 1e-6);
    assert_string_equal(now.busy.source, "fdinfo");
    assert_true(now.memory_used.value == 1 << 30);
    assert_false(now.memory_free.known);
    char sources[128];
    xt_figures_describe_sources(&now, sources, sizeof sources);
    assert_string_equal(sources, "memory, busy time by fdinfo, only this process");
    char all[256];
    xt_figures_describe_all(&now, all, sizeof all);
    assert_string_equal(all, "memory, busy time by fdinfo, only this process; free memory, "
                             "power, energy, frequency not readable: no Level Zero device "
                             "matches; temperature not readable: nobody tells it here");
}

static void another_gpus_figures_are_not_taken(void **state)
{
    struct xt_figures figures;
    struct xt_telemetry now;
    put(*state, "sys/bus/pci/devices/0000:04:00.0/hwmon/hwmon1/name", "xe\n");
    put(*state, "sys/bus/pci/devices/0000:04:00.0/hwmon/hwmon1/energy1_input", "1\n");
    put(*state, "proc/self/fdinfo/3",
        "drm-client-id: 1\ndrm-pdev: 0000:04:00.0\ndrm-resident-vram0: 1 GiB\n");
    put(*state, CARD "hwmon1/name", "nvme\n");
    put(*state, CARD "hwmon1/energy1_input", "1\n");
    xt_figures_init(&figures, NULL, -1, &arc, *state);
    xt_figures_read(&figures, &now);
    assert_false(now.energy.known || now.memory_used.known);
    assert_string_equal(now.memory_used.why, "no Level Zero device matches");
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_kernel_counts_energy_power_and_temperature),
        IN_FOLDER(the_packages_counter_serves_where_there_is_no_cards),
        IN_FOLDER(odd_files_are_no_figures),
        IN_FOLDER(busy_time_is_that_between_two_readings),
        IN_FOLDER(another_gpus_figures_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
