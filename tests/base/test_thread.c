#include "support.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/system/thread.h"

static void at_least_one_thread_and_no_more_than_the_machine_has(void **state)
{
    (void)state;
    unsetenv("SLURM_CPUS_PER_TASK");
    const char *why = NULL;
    int count = xt_thread_available(&why);
    assert_in_range(count, 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_non_null(why);
    assert_int_equal(xt_thread_available(NULL), count);
}

static void the_affinity_of_the_process_binds(void **state)
{
    (void)state;
    unsetenv("SLURM_CPUS_PER_TASK");
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all))
        support_skip("the affinity of this process cannot be read");
    size_t first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int count = xt_thread_available(NULL);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(count, 1);
}

static void slurm_binds_where_it_gives_less(void **state)
{
    (void)state;
    const char *why = NULL;
    unsetenv("SLURM_CPUS_PER_TASK");
    int without = xt_thread_available(NULL);

    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    assert_int_equal(xt_thread_available(&why), 1);
    if (without > 1)
        assert_string_equal(why, "SLURM_CPUS_PER_TASK");

    const char *ignored[] = {"100000", "0", "-3", "many", ""};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        setenv("SLURM_CPUS_PER_TASK", ignored[i], 1);
        assert_int_equal(xt_thread_available(NULL), without);
    }
    unsetenv("SLURM_CPUS_PER_TASK");
}

static void the_memory_limit_is_at_most_the_machine(void **state)
{
    (void)state;
    unsigned long long limit = xt_thread_memory_limit();
    unsigned long long machine =
        (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGE_SIZE);
    assert_true(limit > 0);
    assert_true(limit <= machine);
}

static void the_available_memory_is_what_the_limit_leaves_at_most(void **state)
{
    (void)state;
    unsigned long long available = xt_thread_memory_available();
    assert_true(available > 0);
    assert_true(available < xt_thread_memory_limit());
}

static void a_limit_of_addresses_is_one_of_memory(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    support_skip("sanitizers address terabytes");
#endif
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit small = {(rlim_t)4 << 30, before.rlim_max};
    if (xt_thread_memory_available() < small.rlim_cur || setrlimit(RLIMIT_AS, &small))
        support_skip("no more than 4 GB may be addressed here");
    unsigned long long limit = xt_thread_memory_limit();
    unsigned long long available = xt_thread_memory_available();
    setrlimit(RLIMIT_AS, &before);
    assert_true(limit == small.rlim_cur);
    assert_true(available > 0 && available < limit);
}

static void seconds_go_forward(void **state)
{
    (void)state;
    double before = xt_thread_seconds();
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    double passed = xt_thread_seconds() - before;
    assert_true(passed >= 0.02 && passed < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_least_one_thread_and_no_more_than_the_machine_has),
        cmocka_unit_test(the_affinity_of_the_process_binds),
        cmocka_unit_test(slurm_binds_where_it_gives_less),
        cmocka_unit_test(the_memory_limit_is_at_most_the_machine),
        cmocka_unit_test(the_available_memory_is_what_the_limit_leaves_at_most),
        cmocka_unit_test(a_limit_of_addresses_is_one_of_memory),
        cmocka_unit_test(seconds_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
