/* Threads that wait for the next parallel loop. Each case is a process of its own: a runtime reads
 * its environment once. Runs alone: it counts the CPU time of waiting. */
#include "support.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/system/openmp.h"
#include "base/system/process.h"
#include "base/system/thread.h"

struct waited {
    int threads;
    double cpu_seconds; /* of all threads, while there was nothing to compute */
    bool unchanged;     /* the environment */
    char says[64];
};

static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* With "NAME=VALUE" in the environment, or NULL. */
static void pause_between_loops(const void *argument, void *result)
{
    enum { LOOPS = 10 };
    const struct timespec pause = {.tv_nsec = 50000000};
    const char *const *variable = argument;
    struct waited *waited = result;
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("KMP_BLOCKTIME");
    if (*variable)
        setenv(variable[0], variable[1], 1);
    omp_set_num_threads(2);
    for (int i = 0; i < LOOPS; i++) {
#pragma omp parallel
#pragma omp critical
        waited->threads = omp_get_num_threads();
        double before = cpu_seconds();
        nanosleep(&pause, NULL);
        waited->cpu_seconds += cpu_seconds() - before;
    }
    const char *spins = getenv("GOMP_SPINCOUNT");
    waited->unchanged = *variable ? spins && strcmp(spins, variable[1]) == 0 : !spins;
    strncpy(waited->says, xt_openmp_waiting(), sizeof waited->says - 1);
}

static struct waited wait_with(const char *name, const char *value)
{
    struct xt_err err = {0};
    struct waited waited = {0};
    const char *const variable[] = {name, value};
    const struct xt_process process = {.work = pause_between_loops, .argument = variable};
    assert_int_equal(xt_process_run(&process, &waited, sizeof waited, NULL, &err), XT_OK);
    assert_int_equal(waited.threads, 2);
    assert_true(waited.unchanged);
    return waited;
}

static void waiting_threads_soon_sleep_unless_the_user_says_otherwise(void **state)
{
    (void)state;
    if (xt_thread_available(NULL) < 2)
        support_skip("this process may use one CPU, where libgomp never spins for long");
    struct waited usual = wait_with(NULL, NULL);
    struct waited given = wait_with("GOMP_SPINCOUNT", "3000000");
    assert_string_equal(usual.says, "GOMP_SPINCOUNT=600");
    assert_string_equal(given.says, "GOMP_SPINCOUNT");
    assert_true(usual.cpu_seconds < given.cpu_seconds / 4);
}

/* The program that is started where the runtime cannot be loaded. */
static int loop_alone(void)
{
    int sum = 0;
    omp_set_num_threads(2);
#pragma omp parallel
    {
#pragma omp single
        sum += 10 * omp_get_num_threads();
#pragma omp critical
        sum += 1 + omp_get_thread_num();
    }
    return sum;
}

static void without_a_runtime_a_team_is_one_thread(void **state)
{
    char self[PATH_MAX] = "";
    char folder[PATH_MAX];
    int sum = 0;
    struct xt_err err = {0};
    struct xt_process_end end;
    struct xt_str said = {0};
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    support_write_file(support_path(*state, "libgomp.so.1"), "", 0);
    snprintf(folder, sizeof folder, "LD_LIBRARY_PATH=%s", (const char *)*state);
    const char *const argv[] = {"env", folder, self, "alone", NULL};
    const struct xt_process_program program = {.argv = argv, .seconds = 60};
    assert_int_equal(xt_process_run_program(&program, &said, &sum, &end, &err), XT_OK);
    xt_str_clear(&said);
    assert_int_equal(sum, 11);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        return loop_alone();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_threads_soon_sleep_unless_the_user_says_otherwise),
        cmocka_unit_test_setup_teardown(without_a_runtime_a_team_is_one_thread, support_make_folder,
                                        support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
