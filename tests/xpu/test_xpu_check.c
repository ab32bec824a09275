/* What a device's check leaves beside the kernels, on the test double of a GPU (run through
 * double.sh; skipped elsewhere). */
#include "infer/device_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static struct timespec changed(const char *path)
{
    struct stat info = {0};
    stat(path, &info);
    return info.st_mtim;
}

/* Whether the check was made: what it leaves is written anew. */
static bool looks(struct xt_device *device, const char *path)
{
    struct xt_err err = {0};
    int64_t when = 0;
    const struct timespec before = changed(path);
    if (xt_device_check(device, XT_F32, &when, &err))
        fail_msg("%s", err.text);
    assert_true(when > 0);
    const struct timespec after = changed(path);
    return memcmp(&before, &after, sizeof before) != 0;
}

static void what_passed_is_kept_for_a_day_by_device_and_driver(void **state)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    unsetenv("NEO_CACHE_DIR");
    unsetenv("NEO_CACHE_PERSISTENT");
    struct xt_device device;
    struct xt_err err = {0};
    char path[4096];
    const struct xt_device_options options = {.spec = "xpu",
                                              .cache_folder = support_path(*state, "cache")};
    if (xt_device_open_with(&device, &options, &err))
        fail_msg("%s", err.text);
    assert_non_null(device.cache.folder);
    snprintf(path, sizeof path, "%s/checked-f32.txt", device.cache.folder);
    assert_true(looks(&device, path));
    assert_false(looks(&device, path));

    snprintf(device.xpu.facts.driver, sizeof device.xpu.facts.driver, "another");
    assert_true(looks(&device, path));
    assert_false(looks(&device, path));

    struct timespec long_ago[2];
    clock_gettime(CLOCK_REALTIME, &long_ago[0]);
    long_ago[0].tv_sec -= 2L * 24 * 3600;
    long_ago[1] = long_ago[0];
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    assert_true(looks(&device, path));
    xt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_passed_is_kept_for_a_day_by_device_and_driver,
                                        support_make_folder, support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
