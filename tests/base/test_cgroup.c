#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/cgroup.h"
#include "base/file.h"

/* The folder of the test is the root of a machine: its /proc/self/cgroup, then FILE, TEXT pairs. */
static void machine(void **state, const char *group, const char *const (*files)[2], size_t count)
{
    struct xt_err err = {0};
    assert_int_equal(xt_file_make_folder(support_path(*state, "proc/self"), &err), XT_OK);
    support_write_file(support_path(*state, "proc/self/cgroup"), group, strlen(group));
    for (size_t i = 0; i < count; i++) {
        char *path = NULL;
        assert_int_equal(
            xt_file_join(&path, support_path(*state, "sys/fs/cgroup"), files[i][0], &err), XT_OK);
        char *slash = strrchr(path, '/');
        *slash = '\0';
        assert_int_equal(xt_file_make_folder(path, &err), XT_OK);
        *slash = '/';
        support_write_file(path, files[i][1], strlen(files[i][1]));
        free(path);
    }
}

static void assert_number(double got, double wanted)
{
    if (!(got == wanted))
        fail_msg("got %g, wanted %g", got, wanted);
}

static void without_groups_there_is_no_limit(void **state)
{
    assert_number(xt_cgroup_cpus(*state), INFINITY);
    assert_number(xt_cgroup_memory_limit(*state), INFINITY);
    assert_number(xt_cgroup_memory_left(*state), INFINITY);
}

static void max_is_no_limit(void **state)
{
    const char *const files[][2] = {{"job/cpu.max", "max 100000\n"},
                                    {"job/memory.max", "max\n"},
                                    {"job/memory.current", "4096\n"}};
    machine(state, "0::/job\n", files, 3);
    assert_number(xt_cgroup_cpus(*state), INFINITY);
    assert_number(xt_cgroup_memory_limit(*state), INFINITY);
    assert_number(xt_cgroup_memory_left(*state), INFINITY);
}

static void what_is_left_counts_every_process_of_the_group(void **state)
{
    const char *const files[][2] = {
        {"job/memory.max", "1000000\n"},
        {"job/memory.current", "900000\n"},
    };
    machine(state, "0::/job\n", files, 2);
    assert_number(xt_cgroup_memory_limit(*state), 1e6);
    assert_number(xt_cgroup_memory_left(*state), 1e5);
}

static void pages_of_files_that_lie_idle_count_as_left(void **state)
{
    const char *const files[][2] = {
        {"job/memory.max", "1000000\n"},
        {"job/memory.current", "900000\n"},
        {"job/memory.stat", "anon 300000\nfile 600000\ninactive_anon 7\ninactive_file 500000\n"},
    };
    machine(state, "0::/job\n", files, 3);
    assert_number(xt_cgroup_memory_left(*state), 6e5);
}

static void a_group_over_its_limit_has_nothing_left(void **state)
{
    const char *const files[][2] = {
        {"job/memory.max", "1000\n"},
        {"job/memory.current", "1500\n"},
    };
    machine(state, "0::/job\n", files, 2);
    assert_number(xt_cgroup_memory_left(*state), 0);
}

/* The group above has the larger limit, and less left of it: its other children took the rest. */
static void a_group_above_binds_too(void **state)
{
    const char *const files[][2] = {
        {"user/cpu.max", "150000 100000\n"}, {"user/job/cpu.max", "400000 100000\n"},
        {"user/memory.max", "1000000\n"},    {"user/job/memory.max", "800000\n"},
        {"user/memory.current", "950000\n"}, {"user/job/memory.current", "100000\n"},
    };
    machine(state, "0::/user/job\n", files, 6);
    assert_number(xt_cgroup_cpus(*state), 1.5);
    assert_number(xt_cgroup_memory_limit(*state), 8e5);
    assert_number(xt_cgroup_memory_left(*state), 5e4);
}

static const char v1_groups[] = "9:cpuset:/pinned\n5:memory:/job\n3:cpuacct,cpu:/job\n";

static void cpuset_is_not_the_group_of_cpu(void **state)
{
    const char *const files[][2] = {
        {"cpu/pinned/cpu.cfs_quota_us", "900000\n"},
        {"cpu/pinned/cpu.cfs_period_us", "100000\n"},
        {"cpu/job/cpu.cfs_quota_us", "200000\n"},
        {"cpu/job/cpu.cfs_period_us", "100000\n"},
        {"cpu/cpu.cfs_quota_us", "-1\n"},
        {"cpu/cpu.cfs_period_us", "100000\n"},
    };
    machine(state, v1_groups, files, 6);
    assert_number(xt_cgroup_cpus(*state), 2);
}

static void the_first_version_counts_memory_alike(void **state)
{
    const char *const files[][2] = {
        {"memory/job/memory.limit_in_bytes", "1000000\n"},
        {"memory/job/memory.usage_in_bytes", "900000\n"},
        {"memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n"},
        {"memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"memory/memory.usage_in_bytes", "7000000000\n"},
    };
    machine(state, v1_groups, files, 5);
    assert_number(xt_cgroup_memory_limit(*state), 1e6);
    assert_number(xt_cgroup_memory_left(*state), 3e5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_groups_there_is_no_limit),
        TEST(max_is_no_limit),
        TEST(what_is_left_counts_every_process_of_the_group),
        TEST(pages_of_files_that_lie_idle_count_as_left),
        TEST(a_group_over_its_limit_has_nothing_left),
        TEST(a_group_above_binds_too),
        TEST(cpuset_is_not_the_group_of_cpu),
        TEST(the_first_version_counts_memory_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
