/* Level Zero on the test double of its driver. Each case runs in a process of its own, because a
 * process starts its drivers once. */
#include "device/gpu/level_zero.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/process.h"
#include "support.h"
#include "ze_play.h"

struct seen {
    enum xt_status status;
    char why[512];
    int count;
    struct xt_gpu_facts facts[2];
    struct xt_telemetry first;
    struct xt_telemetry second;
    enum xt_yes_no bar[2];
    char bar_why[96];
    int by_pci;
    int by_uuid;
    int by_stranger;
};

static void look(const void *argument, void *result)
{
    struct seen *seen = result;
    struct xt_level_zero *zero = NULL;
    struct xt_err err = {0};
    setenv("XT_ZE_TEST", argument, 1);
    seen->status = xt_level_zero_open(&zero, &err);
    snprintf(seen->why, sizeof seen->why, "%.511s", err.text);
    seen->count = xt_level_zero_count(zero);
    for (int i = 0; i < seen->count && i < 2; i++) {
        seen->facts[i] = *xt_level_zero_facts(zero, i);
        seen->bar[i] = xt_level_zero_resizable_bar(zero, i, seen->bar_why);
    }
    if (seen->count > 0) {
        const struct xt_uuid nobody = {.known = true};
        const struct xt_pci_address none = {0};
        xt_level_zero_read(zero, 0, &seen->first);
        xt_level_zero_read(zero, 0, &seen->second);
        seen->by_uuid = xt_level_zero_find(zero, &seen->facts[1].uuid, &none);
        seen->by_pci = xt_level_zero_find(zero, &(struct xt_uuid){0}, &seen->facts[1].pci);
        seen->by_stranger = xt_level_zero_find(zero, &nobody, &seen->facts[1].pci);
    }
    xt_level_zero_close(zero);
}

static void play(const char *what, struct seen *seen)
{
    ze_play(look, what, seen, sizeof *seen);
    if (strstr(seen->why, "libze_loader.so.1) is not here"))
        support_skip("the Level Zero loader is not installed: run \"make deps XPU=1\"");
}

static void two_devices_are_described(void **state)
{
    (void)state;
    struct seen seen;
    play("two", &seen);
    assert_int_equal(seen.status, XT_OK);
    assert_int_equal(seen.count, 2);
    const struct xt_gpu_facts *arc = &seen.facts[0];
    assert_string_equal(arc->name, "Double of an Arc A770");
    assert_string_equal(arc->driver, "1.3.31294");
    assert_string_equal(xt_pci_format(&arc->pci).text, "0000:03:00.0");
    assert_string_equal(xt_uuid_format(&arc->uuid).text, "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0");
    assert_int_equal(arc->units, 512);
    assert_int_equal(arc->memory, 16ull << 30);
    assert_int_equal(arc->allocation_max, 4ull << 30);
    assert_false(arc->integrated);
    assert_true(arc->fp16);
    assert_false(arc->fp64);
    assert_true(seen.facts[1].integrated);
    assert_string_equal(xt_pci_format(&seen.facts[1].pci).text, "0000:00:02.0");
}

static void a_device_is_found_by_uuid_and_by_pci_address(void **state)
{
    (void)state;
    struct seen seen;
    play("two", &seen);
    assert_int_equal(seen.by_uuid, 1);
    assert_int_equal(seen.by_pci, 1);
    assert_int_equal(seen.by_stranger, -1);
}

static void sysman_figures_are_read_right(void **state)
{
    (void)state;
    struct seen seen;
    play("two", &seen);
    assert_true(seen.first.memory_used.known);
    assert_true(seen.first.memory_used.value == 3.0 * (1 << 30));
    assert_true(seen.first.memory_total.value == 16.0 * (1 << 30));
    assert_false(seen.first.busy.known);
    assert_string_equal(seen.first.busy.why, "this is the first reading");
    assert_true(seen.second.busy.known && seen.second.busy.value == 0.25);
    assert_true(seen.second.power.known && seen.second.power.value == 50);
    assert_true(seen.first.energy.known && seen.first.energy.value == 0);
    assert_true(seen.second.energy.value == 50);
    assert_true(seen.second.memory_free.value == 13.0 * (1 << 30));
    assert_string_equal(seen.second.memory_used.source, "sysman");
    assert_true(seen.second.power_limit.value == 190);
    assert_true(seen.second.frequency.value == 2100);
    assert_int_equal(seen.bar[0], XT_YES);
    assert_int_equal(seen.bar[1], XT_NO);
}

static void refused_figures_say_why_and_are_never_made_up(void **state)
{
    (void)state;
    struct seen seen;
    play("refused", &seen);
    assert_int_equal(seen.count, 2);
    const struct xt_reading *all[] = {&seen.second.memory_used, &seen.second.memory_free,
                                      &seen.second.busy,        &seen.second.power,
                                      &seen.second.energy,      &seen.second.frequency};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_false(all[i]->known);
        assert_string_equal(all[i]->why, "no permission");
    }
    assert_int_equal(seen.bar[0], XT_NOT_KNOWN);
    assert_string_equal(seen.bar_why, "no permission");
}

static void figures_that_cannot_be_are_not_shown(void **state)
{
    (void)state;
    struct seen seen;
    play("odd", &seen);
    assert_false(seen.second.memory_used.known);
    assert_false(seen.second.busy.known);
    assert_false(seen.second.frequency.known);
    assert_true(strlen(seen.second.memory_used.why) > 0);
}

static void memory_of_which_all_is_said_to_be_free_is_not_known(void **state)
{
    (void)state;
    struct seen seen;
    play("unprivileged", &seen);
    assert_false(seen.second.memory_used.known);
    assert_false(seen.second.memory_free.known);
    assert_true(seen.second.memory_total.known);
    assert_non_null(strstr(seen.second.memory_used.why, "CAP_PERFMON"));
}

/* Memory adds up, busy time and frequency are means; each tile has its own. */
static void every_tile_of_a_device_counts(void **state)
{
    (void)state;
    struct seen seen;
    play("tiles", &seen);
    assert_int_equal(seen.facts[0].tiles, 2);
    assert_int_equal(seen.facts[1].tiles, 0);
    assert_true(seen.second.memory_total.value == 16.0 * (1 << 30));
    assert_true(seen.second.memory_used.value == 3.0 * (1 << 30));
    assert_true(seen.second.memory_free.value == 13.0 * (1 << 30));
    assert_float_equal((float)seen.second.busy.value, 0.45F, 1e-6);
    assert_true(seen.second.frequency.value == 2000);
    assert_int_equal(seen.second.tile_count, 2);
    assert_true(seen.second.tiles[1].memory_used == 2.0 * (1 << 30));
    assert_true(seen.second.tiles[0].memory_total == 8.0 * (1 << 30));
    assert_float_equal((float)seen.second.tiles[1].busy, 0.6F, 1e-6);
}

static void a_driver_without_devices_gives_an_empty_list(void **state)
{
    (void)state;
    struct seen seen;
    play("none", &seen);
    assert_int_equal(seen.status, XT_OK);
    assert_int_equal(seen.count, 0);
}

static void a_driver_that_does_not_start_is_named(void **state)
{
    (void)state;
    struct seen seen;
    play("fail", &seen);
    assert_int_equal(seen.status, XT_ERR_DEVICE);
    assert_non_null(strstr(seen.why, "Level Zero"));
}

static void a_driver_that_crashes_ends_its_own_process_alone(void **state)
{
    (void)state;
    struct seen seen;
    struct xt_err err = {0};
    play("two", &seen);
    const struct xt_process process = {.work = look, .argument = "crash", .seconds = 60};
    assert_int_equal(xt_process_run(&process, &seen, sizeof seen, NULL, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "it crashed (Aborted)");
}

static void hang(const void *argument, void *result)
{
    (void)argument;
    (void)result;
    for (;;)
        pause();
}

static void a_driver_that_hangs_is_stopped(void **state)
{
    (void)state;
    int result;
    struct xt_err err = {0};
    struct xt_process_end end;
    const struct xt_process process = {.work = hang, .seconds = 1};
    assert_int_equal(xt_process_run(&process, &result, sizeof result, &end, &err), XT_ERR_DEVICE);
    assert_true(end.timed_out);
    support_assert_error(&err, XT_ERR_DEVICE, "within 1 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_devices_are_described),
        cmocka_unit_test(a_device_is_found_by_uuid_and_by_pci_address),
        cmocka_unit_test(sysman_figures_are_read_right),
        cmocka_unit_test(refused_figures_say_why_and_are_never_made_up),
        cmocka_unit_test(memory_of_which_all_is_said_to_be_free_is_not_known),
        cmocka_unit_test(figures_that_cannot_be_are_not_shown),
        cmocka_unit_test(every_tile_of_a_device_counts),
        cmocka_unit_test(a_driver_without_devices_gives_an_empty_list),
        cmocka_unit_test(a_driver_that_does_not_start_is_named),
        cmocka_unit_test(a_driver_that_crashes_ends_its_own_process_alone),
        cmocka_unit_test(a_driver_that_hangs_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
