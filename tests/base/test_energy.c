#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system/energy.h"
#include "support.h"

/* A zone as the kernel shows it, with its counter. */
static void put_zone(const char *root, const char *name, const char *microjoules)
{
    char path[128];
    assert_in_range(snprintf(path, sizeof path, "%s", name), 1, sizeof path - 1);
    mkdir(support_path(root, path), 0777);
    snprintf(path, sizeof path, "%s/energy_uj", name);
    support_write_file(support_path(root, path), microjoules, strlen(microjoules));
    snprintf(path, sizeof path, "%s/max_energy_range_uj", name);
    support_write_file(support_path(root, path), "10000000\n", 9);
}

static void packages_are_added_up_and_parts_of_them_are_not(void **state)
{
    struct xt_energy energy;
    put_zone(*state, "intel-rapl:0", "1000000\n");
    put_zone(*state, "intel-rapl:0:0", "500000\n");
    put_zone(*state, "intel-rapl:1", "9000000\n");
    xt_energy_open(&energy, *state);
    assert_int_equal(energy.count, 2);
    assert_string_equal(energy.why, "");
    put_zone(*state, "intel-rapl:0", "3500000\n");
    xt_energy_read(&energy);
    assert_float_equal((float)energy.joules, 2.5F, 1e-6);
}

static void a_counter_that_begins_again_goes_on(void **state)
{
    struct xt_energy energy;
    put_zone(*state, "intel-rapl:0", "9000000\n");
    xt_energy_open(&energy, *state);
    put_zone(*state, "intel-rapl:0", "500000\n");
    xt_energy_read(&energy);
    assert_float_equal((float)energy.joules, 1.5F, 1e-6);
}

static void where_nothing_is_counted_it_says_why(void **state)
{
    struct xt_energy energy;
    xt_energy_open(&energy, support_path(*state, "nowhere"));
    assert_int_equal(energy.count, 0);
    assert_non_null(strstr(energy.why, "nowhere names no CPU package"));
    mkdir(support_path(*state, "intel-rapl:0"), 0777);
    xt_energy_open(&energy, *state);
    assert_non_null(strstr(energy.why, "energy_uj cannot be read (No such file"));
}

#define TEST_IN_FOLDER(test)                                                                       \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(packages_are_added_up_and_parts_of_them_are_not),
        TEST_IN_FOLDER(a_counter_that_begins_again_goes_on),
        TEST_IN_FOLDER(where_nothing_is_counted_it_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
