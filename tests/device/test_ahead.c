/* Kernels that were compiled in advance, and their folder. Files stand for kernels; what tells the
 * driver to take itself for a GPU is the environment alone. */
#include "device/kernels/ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/gpu/capture.h"
#include "support.h"

static const char library[] = "libdnnl.so.3";

static void forget(void)
{
    static const char *const names[] = {"NEO_CACHE_DIR",
                                        "NEO_CACHE_PERSISTENT",
                                        "NEO_CACHE_MAX_SIZE",
                                        "cl_cache_dir",
                                        "NEOReadDebugKeys",
                                        "ForceDeviceId",
                                        "HardwareInfoOverride",
                                        "ProductFamilyOverride",
                                        "OverrideRevision",
                                        "OCL_ICD_FILENAMES",
                                        "ONEAPI_DEVICE_SELECTOR",
                                        "AUBDumpCaptureFileName",
                                        "SetCommandStreamReceiver",
                                        "UseAubStream"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* As `warmup --for-gpu` tells the driver; any file stands for that. */
static void take_itself_for(uint32_t gpu, const char *root)
{
    struct xt_err err = {0};
    forget();
    support_write_file(support_path(root, "driver.so"), "", 0);
    setenv("OCL_ICD_FILENAMES", support_path(root, "driver.so"), 1);
    if (xt_capture_begin(gpu, NULL, &err))
        fail_msg("%s", err.text);
    setenv("OCL_ICD_FILENAMES", "", 1);
}

static void about(uint32_t device, const char *driver, char *text, size_t size)
{
    snprintf(text, size,
             "# onednn: 3.13.2 c\n# runtime: SYCL, OpenCL\n# device id: 0x%04x\n# driver: "
             "%s\n%s%s",
             device, driver, xt_ahead_mark, xt_ahead_never_run);
}

static void begin(struct xt_kernel_cache *cache, const char *root)
{
    struct xt_err err = {0};
    unsetenv("NEO_CACHE_DIR");
    unsetenv("cl_cache_dir");
    if (xt_kernel_cache_begin(cache, support_path(root, "cache"), false, library, &err))
        fail_msg("%s", err.text);
    assert_non_null(cache->folder);
}

static void make_kernels(const char *root, uint32_t gpu, const char *driver)
{
    struct xt_kernel_cache cache;
    uint32_t device = 0;
    char text[512];
    take_itself_for(gpu, root);
    begin(&cache, root);
    assert_true(xt_capture_device(&device));
    support_write_file(support_path(cache.folder, "a.cl_cache"), "kernel a", 8);
    support_write_file(support_path(cache.folder, "checked-f32.txt"), "x", 1);
    about(device, driver, text, sizeof text);
    assert_int_equal(xt_kernel_cache_record(&cache, text, NULL), XT_OK);
    xt_kernel_cache_end(&cache);
}

static bool there(const struct xt_kernel_cache *cache, const char *name)
{
    return access(support_path(cache->folder, name), F_OK) == 0;
}

static void those_that_match_their_record_stay_and_the_device_is_asked_anew(void **state)
{
    struct xt_kernel_cache cache;
    char text[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&cache, *state);
    assert_int_equal(cache.valid, 1);
    about(0x56a0, "22.43", text, sizeof text);
    assert_int_equal(xt_ahead_check(&cache, text, NULL), XT_OK);
    assert_int_equal(cache.valid, 1);
    assert_true(there(&cache, "a.cl_cache"));
    assert_false(there(&cache, "checked-f32.txt"));
    xt_kernel_cache_end(&cache);
}

static void those_of_another_driver_are_removed(void **state)
{
    struct xt_kernel_cache cache;
    char text[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&cache, *state);
    about(0x56a0, "24.1", text, sizeof text);
    assert_int_equal(xt_ahead_check(&cache, text, NULL), XT_OK);
    assert_int_equal(cache.valid, 0);
    assert_false(there(&cache, "a.cl_cache"));
    xt_kernel_cache_end(&cache);
}

static void where_they_cannot_be_removed_nothing_runs_by_them(void **state)
{
    struct xt_kernel_cache cache;
    struct xt_err err = {0};
    char text[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&cache, *state);
    cache.writable = false;
    about(0x56a0, "24.1", text, sizeof text);
    assert_int_equal(xt_ahead_check(&cache, text, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "made for driver 22.43, and here it is 24.1");
    xt_kernel_cache_end(&cache);
}

/* It does not read them: they stay, and so does what is recorded of them. */
static void level_zero_leaves_them_for_opencl(void **state)
{
    struct xt_kernel_cache cache;
    char text[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&cache, *state);
    static const char level_zero[] = "# onednn: 3.13.2 c\n# runtime: SYCL, Level Zero\n"
                                     "# device id: 0x56a0\n# driver: 22.43\n";
    assert_int_equal(xt_ahead_check(&cache, level_zero, NULL), XT_OK);
    assert_int_equal(cache.valid, 1);
    assert_false(cache.ahead);
    assert_int_equal(xt_kernel_cache_record(&cache, level_zero, NULL), XT_OK);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    about(0x56a0, "22.43", text, sizeof text);
    assert_int_equal(xt_ahead_check(&cache, text, NULL), XT_OK);
    assert_true(cache.ahead);
    xt_kernel_cache_end(&cache);
}

/* Once a GPU has run them they are kernels like others, of which it is known how they came. */
static void that_a_gpu_has_run_them_is_recorded(void **state)
{
    struct xt_kernel_cache cache;
    char text[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&cache, *state);
    about(0x56a0, "22.43", text, sizeof text);
    *strstr(text, xt_ahead_never_run) = '\0';
    xt_str_append_to(text, sizeof text, "%s", xt_ahead_run);
    assert_int_equal(xt_ahead_check(&cache, text, NULL), XT_OK);
    assert_true(cache.ahead);
    assert_int_equal(xt_kernel_cache_record(&cache, text, NULL), XT_OK);
    support_write_file(support_path(cache.folder, "checked-f32.txt"), "x", 1);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    assert_int_equal(xt_ahead_check(&cache, text, NULL), XT_OK);
    assert_true(cache.ahead);
    assert_true(there(&cache, "checked-f32.txt"));
    xt_kernel_cache_end(&cache);
}

/* Its folder follows from the GPU and not from the machine; the record says from what. */
static void each_gpu_has_a_folder_of_its_own_on_every_machine(void **state)
{
    struct xt_kernel_cache one;
    struct xt_kernel_cache two;
    char key[512];
    make_kernels(*state, 0x56a0, "22.43");
    begin(&one, *state);
    xt_cache_about(xt_str_get(&one.about), "key", key, sizeof key);
    assert_non_null(strstr(key, "libdnnl.so.3"));
    assert_non_null(strstr(key, "gpu 56a0"));
    take_itself_for(0x56a1, *state);
    begin(&two, *state);
    assert_string_not_equal(one.folder, two.folder);
    assert_int_equal(two.valid, 0);
    xt_kernel_cache_end(&two);
    xt_kernel_cache_end(&one);
}

static void what_is_told_to_the_driver_is_read_with_care(void **state)
{
    (void)state;
    static const char *const odd[] = {"", "x", "0", "0x56a0x", "0x156a0", "-1", "56a0 "};
    uint32_t device = 0;
    forget();
    assert_false(xt_capture_device(&device));
    setenv("NEOReadDebugKeys", "1", 1);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        setenv("ForceDeviceId", odd[i], 1);
        assert_false(xt_capture_device(&device));
    }
    setenv("ForceDeviceId", "0x56a0", 1);
    assert_true(xt_capture_device(&device));
    assert_int_equal(device, 0x56a0);
    setenv("NEOReadDebugKeys", "0", 1);
    assert_false(xt_capture_device(&device));
}

static void without_the_driver_it_is_said_how_to_install_it(void **state)
{
    struct xt_err err = {0};
    forget();
    setenv("OCL_ICD_FILENAMES", support_path(*state, "none.so"), 1);
    assert_int_equal(xt_capture_begin(0x56a0, NULL, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "install intel-opencl-icd");
    assert_null(getenv("ForceDeviceId"));
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(those_that_match_their_record_stay_and_the_device_is_asked_anew),
        IN_FOLDER(those_of_another_driver_are_removed),
        IN_FOLDER(where_they_cannot_be_removed_nothing_runs_by_them),
        IN_FOLDER(level_zero_leaves_them_for_opencl),
        IN_FOLDER(that_a_gpu_has_run_them_is_recorded),
        IN_FOLDER(each_gpu_has_a_folder_of_its_own_on_every_machine),
        IN_FOLDER(without_the_driver_it_is_said_how_to_install_it),
        cmocka_unit_test(what_is_told_to_the_driver_is_read_with_care),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
