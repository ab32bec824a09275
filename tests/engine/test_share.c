/* Work that threads take part by part: each part once, and a slow thread's by the others. */
#include "support.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

enum { PARTS = 40 };

struct seen {
    atomic_int times[PARTS];
    atomic_int by_slow;
    int slow; /* the thread that sleeps in each part; -1: none */
};

static void see(const void *context, const struct xt_graph *graph, int part)
{
    struct seen *seen = (struct seen *)(uintptr_t)context;
    const struct timespec pause = {.tv_nsec = 5000000};
    (void)graph;
    seen->times[part]++;
    if (omp_get_thread_num() != seen->slow)
        return;
    seen->by_slow++;
    nanosleep(&pause, NULL);
}

/* Of PARTS or fewer, by so many threads. */
static void share_out(struct seen *seen, int parts, int threads)
{
    struct xt_device device = {.threads = threads};
    struct xt_graph *graph = NULL;
    struct xt_err err;
    assert_int_equal(xt_mem_calloc(&graph, 1, sizeof *graph, "graph", &err), XT_OK);
    graph->options.device = &device;
    assert_int_equal(
        xt_mem_aligned(&graph->turns, (size_t)threads, sizeof *graph->turns, "turns", &err), XT_OK);
    omp_set_num_threads(threads);
    xt_cpu_share_out(graph, parts, see, seen);
    free(graph->turns);
    free(graph);
    for (int part = 0; part < PARTS; part++)
        assert_int_equal(seen->times[part], part < parts);
}

static void each_part_is_computed_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++)
        for (int parts = 0; parts <= PARTS; parts++) {
            struct seen seen = {.slow = -1};
            share_out(&seen, parts, threads);
        }
}

static void others_compute_what_a_slow_thread_has_not_begun(void **state)
{
    struct seen seen = {.slow = 1};
    (void)state;
    share_out(&seen, PARTS, 2);
    assert_true(seen.by_slow < PARTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_computed_once),
        cmocka_unit_test(others_compute_what_a_slow_thread_has_not_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
