/* NUMA nodes as a folder like /sys/devices/system/node shows them. */
#include "support.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/numa.h"

static int count_cpus(const struct xt_cpus *cpus)
{
    int count = 0;
    for (int i = 0; i < XT_NUMA_CPUS; i++)
        count += (int)(cpus->bits[i / 64] >> (i % 64) & 1);
    return count;
}

static void lists_of_cpus_are_read(void **state)
{
    (void)state;
    struct xt_cpus cpus;
    assert_true(xt_numa_parse_cpus("0-3,8,10-11\n", &cpus));
    assert_int_equal(count_cpus(&cpus), 7);
    assert_int_equal(cpus.bits[0], 0xD0F);
    assert_true(xt_numa_parse_cpus("63-64,4095", &cpus));
    assert_int_equal(cpus.bits[0], 1ULL << 63);
    assert_int_equal(cpus.bits[1], 1);
    assert_int_equal(count_cpus(&cpus), 3);
    assert_true(xt_numa_parse_cpus("\n", &cpus));
    assert_int_equal(count_cpus(&cpus), 0);
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"a",    "1-",  "-1",           "3-1", "1,,2", "1,",
                                        "4096", "1 2", "0-9999999999", ",1",  "0x1"};
    struct xt_cpus cpus;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (xt_numa_parse_cpus(texts[i], &cpus))
            fail_msg("\"%s\" was taken", texts[i]);
}

static void add_node(const char *folder, const char *name, const char *cpus)
{
    char path[64];
    mkdir(support_path(folder, name), 0777);
    snprintf(path, sizeof path, "%s/cpulist", name);
    support_write_file(support_path(folder, path), cpus, strlen(cpus));
}

/* The first CPU that this process may use. */
static int first_cpu(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        support_skip("the affinity of this process cannot be read");
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &set))
        cpu++;
    return cpu;
}

static void nodes_without_cpus_that_may_be_used_are_left_out(void **state)
{
    static struct xt_numa numa;
    char cpus[32];
    snprintf(cpus, sizeof cpus, "%d\n", first_cpu());
    add_node(*state, "node10", cpus);
    add_node(*state, "node2", cpus);
    add_node(*state, "node3", "\n");     /* memory alone */
    add_node(*state, "node4", "4000\n"); /* not this process's */
    add_node(*state, "node5", "all\n");  /* no list */
    add_node(*state, "nodes", cpus);
    xt_numa_read(&numa, *state);
    assert_int_equal(numa.count, 2);
    assert_int_equal(numa.nodes[0].number, 2);
    assert_int_equal(numa.nodes[1].number, 10);
    assert_int_equal(count_cpus(&numa.nodes[1].cpus), 1);
}

static void a_machine_that_shows_no_nodes_is_one(void **state)
{
    static struct xt_numa numa;
    xt_numa_read(&numa, support_path(*state, "none"));
    assert_int_equal(numa.count, 1);
    assert_true(count_cpus(&numa.nodes[0].cpus) >= 1);
    xt_numa_read(&numa, NULL);
    assert_in_range(numa.count, 1, XT_NUMA_NODES_MAX);
}

static void a_thread_stays_where_it_is_bound(void **state)
{
    (void)state;
    struct xt_numa_node node = {.number = 0};
    cpu_set_t before;
    cpu_set_t after;
    int cpu = first_cpu();
    sched_getaffinity(0, sizeof before, &before);
    node.cpus.bits[cpu / 64] = 1ULL << (cpu % 64);
    xt_numa_bind_thread(&node);
    sched_getaffinity(0, sizeof after, &after);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_true(CPU_ISSET((size_t)cpu, &after));
}

static void memory_keeps_its_bytes_when_it_is_bound(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    struct xt_numa_node node = {.number = 0};
    uint8_t *bytes = malloc(SIZE);
    memset(bytes, 7, SIZE);
    xt_numa_bind_memory(&node, bytes, SIZE);
    node.number = 1000;
    xt_numa_bind_memory(&node, bytes, SIZE);
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(bytes[i], 7);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_cpus_are_read),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test_setup_teardown(nodes_without_cpus_that_may_be_used_are_left_out,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(a_machine_that_shows_no_nodes_is_one, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test(a_thread_stays_where_it_is_bound),
        cmocka_unit_test(memory_keeps_its_bytes_when_it_is_bound),
    };
    return cmocka_run_group_tests_name("numa", tests, NULL, NULL);
}
