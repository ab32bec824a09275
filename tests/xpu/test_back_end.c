/* OpenCL (the double of a GPU; run through double.sh) and Level Zero (ze_driver.c) beside each
 * other: which one a device is reached over, and who tells its figures. Each case runs in a process
 * of its own, because a process starts its drivers once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/probe.h"
#include "support.h"
#include "ze_play.h"

struct seen {
    enum xt_status status;
    char chosen[256];
    char selector[2][32]; /* while it is open, and after */
    char backend[24];
    bool opens_level_zero; /* the runtime does */
    struct xt_telemetry telemetry;
};

/* From "two xpu:0 *:gpu": the GPUs of Level Zero, --device, the user's selector. */
struct play {
    char gpus[16];
    char spec[16];
    char selector[32];
};

static bool is_mapped(const char *library)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof line, file))
        found |= strstr(line, library) != NULL;
    if (file)
        fclose(file);
    return found;
}

static void keep_selector(char *out)
{
    const char *selector = getenv("ONEAPI_DEVICE_SELECTOR");
    snprintf(out, 32, "%.31s", selector ? selector : "");
}

static void prepare(const struct play *play)
{
    setenv("XT_ZE_TEST", play->gpus, 1);
    setenv("XT_LAYER_UUID", "1", 1);
    unsetenv("ONEAPI_DEVICE_SELECTOR");
    if (*play->selector)
        setenv("ONEAPI_DEVICE_SELECTOR", play->selector, 1);
}

static void look(const void *argument, void *result)
{
    char words[64];
    struct play play = {0};
    struct seen *seen = result;
    struct xt_device device;
    struct xt_err err = {0};
    snprintf(words, sizeof words, "%s", (const char *)argument);
    (void)sscanf(words, "%15s %15s %31s", play.gpus, play.spec, play.selector);
    prepare(&play);
    const struct xt_device_options options = {.spec = play.spec, .threads = 1, .no_cache = true};
    seen->status = xt_device_open_with(&device, &options, &err);
    if (seen->status)
        return;
    snprintf(seen->chosen, sizeof seen->chosen, "%.255s", device.chosen);
    snprintf(seen->backend, sizeof seen->backend, "%.23s", device.xpu.backend);
    keep_selector(seen->selector[0]);
    xt_device_read(&device, &seen->telemetry);
    seen->opens_level_zero = is_mapped("libur_adapter_level_zero");
    xt_device_close(&device);
    keep_selector(seen->selector[1]);
}

static struct seen play(const char *what)
{
    struct seen seen;
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    ze_play(look, what, &seen, sizeof seen);
    assert_int_equal(seen.status, XT_OK);
    assert_string_equal(seen.backend, "OpenCL");
    return seen;
}

static void opencl_is_taken_and_said_to_be(void **state)
{
    (void)state;
    struct seen seen = play("one xpu");
    assert_non_null(
        strstr(seen.chosen, ", the only one; through OpenCL, where the program's own kernels run"));
    assert_false(seen.opens_level_zero);
    assert_string_equal(seen.selector[0], "opencl:gpu");
    assert_string_equal(seen.selector[1], "");
    seen = play("one xpu:0");
    assert_string_equal(seen.chosen, "through OpenCL, where the program's own kernels run");
}

static void level_zero_still_tells_the_figures(void **state)
{
    (void)state;
    struct seen seen = play("one xpu");
    assert_true(seen.telemetry.memory_free.known);
    assert_true(seen.telemetry.memory_free.value == 13.0 * (1 << 30));
    assert_string_equal(seen.telemetry.memory_free.source, "sysman");
}

/* That the double of its driver runs nothing, so that SYCL takes OpenCL in the end, is not a choice
 * to be spoken of. */
static void level_zero_stays_where_it_has_more_gpus(void **state)
{
    (void)state;
    struct seen seen = play("two xpu:0");
    assert_true(seen.opens_level_zero);
    assert_string_equal(seen.selector[0], "");
    assert_string_equal(seen.chosen, "");
}

static void what_the_user_has_selected_is_law(void **state)
{
    (void)state;
    struct seen seen = play("one xpu:0 *:gpu");
    assert_true(seen.opens_level_zero);
    assert_string_equal(seen.selector[0], "*:gpu");
    assert_string_equal(seen.selector[1], "*:gpu");
    assert_string_equal(seen.chosen, "");
    seen = play("one xpu:0 opencl:gpu");
    assert_string_equal(seen.chosen, "");
    assert_string_equal(seen.selector[1], "opencl:gpu");
    assert_false(seen.telemetry.memory_free.known);
}

static void list(const void *argument, void *result)
{
    const struct play play = {.gpus = "one"};
    (void)argument;
    prepare(&play);
    xt_probe_xpus(result, NULL);
}

/* `xtrain devices` has the numbers that --device takes. */
static void the_list_is_of_the_same_back_end(void **state)
{
    (void)state;
    static struct xt_probe probe;
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    ze_play(list, NULL, &probe, sizeof probe);
    assert_int_equal(probe.status, XT_OK);
    assert_int_equal(probe.xpus.count, 1);
    assert_string_equal(probe.xpus.items[0].backend, "OpenCL");
    assert_int_equal(probe.xpus.items[0].zero_index, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opencl_is_taken_and_said_to_be),
        cmocka_unit_test(level_zero_still_tells_the_figures),
        cmocka_unit_test(level_zero_stays_where_it_has_more_gpus),
        cmocka_unit_test(what_the_user_has_selected_is_law),
        cmocka_unit_test(the_list_is_of_the_same_back_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
