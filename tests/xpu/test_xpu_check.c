/* What a device's check leaves beside the kernels, on the test double of a GPU (run through
 * double.sh; skipped elsewhere). */
#include "infer/device_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <dirent.h>
#include <fcntl.h>

#include "engine/executor.h"
#include "engine/selftest/selftest.h"
#include "support.h"

struct fixture {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    char path[4096]; /* of the file that a pass leaves */
};

static void build(struct fixture *f, int batch)
{
    struct xt_err err = {0};
    struct xt_graph_options options = {
        .device = &f->device, .params = &f->params, .batch = batch, .training = true};
    xt_graph_destroy(f->graph);
    if (xt_graph_create(&f->graph, &options, &err))
        fail_msg("%s", err.text);
    struct xt_tensor *logits = xt_selftest_known.describe(f->graph, NULL);
    if (xt_graph_build(f->graph, logits, &err))
        fail_msg("%s", err.text);
}

/* Whether the check was made, and not taken from the cache. */
static bool checks(struct fixture *f, bool afresh)
{
    struct xt_err err = {0};
    struct xt_device_verdict verdict = {.when = 0};
    if (xt_device_check(f->graph, NULL, afresh, &verdict, &err))
        fail_msg("%s", err.text);
    assert_true(verdict.when > 0);
    assert_true((verdict.passes > 0) == (verdict.seconds > 0));
    return verdict.passes > 0;
}

static void find_file(struct fixture *f)
{
    DIR *folder = opendir(f->device.cache.folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, "checked-", 8) == 0)
            snprintf(f->path, sizeof f->path, "%s/%s", f->device.cache.folder, entry->d_name);
    closedir(folder);
    assert_true(*f->path);
}

static void what_passed_is_kept_for_a_day_by_graph_device_and_driver(void **state)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    unsetenv("NEO_CACHE_DIR");
    unsetenv("NEO_CACHE_PERSISTENT");
    struct fixture f = {.graph = NULL};
    struct xt_err err = {0};
    const struct xt_device_options options = {.spec = "xpu",
                                              .cache_folder = support_path(*state, "cache")};
    if (xt_device_open_with(&f.device, &options, &err))
        fail_msg("%s", err.text);
    assert_non_null(f.device.cache.folder);
    build(&f, 2);
    size_t floats = f.params.value_floats;
    for (size_t i = 0; i < floats; i++)
        f.params.values[i] = (float)i;
    f.params.version++;
    assert_true(checks(&f, false));
    assert_false(checks(&f, false));
    assert_true(checks(&f, true));
    /* The run's weights are as before. */
    for (size_t i = 0; i < floats; i++)
        assert_float_equal(f.params.values[i], (float)i, 0);

    find_file(&f);
    struct timespec long_ago[2];
    clock_gettime(CLOCK_REALTIME, &long_ago[0]);
    long_ago[0].tv_sec -= 2L * 24 * 3600;
    long_ago[1] = long_ago[0];
    assert_int_equal(utimensat(AT_FDCWD, f.path, long_ago, 0), 0);
    assert_true(checks(&f, false));
    assert_false(checks(&f, false));

    snprintf(f.device.xpu.facts.driver, sizeof f.device.xpu.facts.driver, "another");
    assert_true(checks(&f, false));
    assert_false(checks(&f, false));

    build(&f, 3);
    assert_true(checks(&f, false));
    assert_false(checks(&f, false));
    xt_graph_destroy(f.graph);
    xt_params_clear(&f.params);
    xt_device_close(&f.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_passed_is_kept_for_a_day_by_graph_device_and_driver,
                                        support_make_folder, support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
