/* How a process finds out that it is one of several, and which CPUs it takes; several of them are
 * run by tests/mpi. */
#include "support.h"

#include <string.h>

#include "base/rows.h"
#include "ranks/launch.h"
#include "ranks/place.h"
#include "ranks/shares.h"

static const char *const *environment; /* name, value, name, value, NULL */

static char *get(const char *name)
{
    for (const char *const *at = environment; *at; at += 2)
        if (strcmp(*at, name) == 0)
            return (char *)(uintptr_t)at[1];
    return NULL;
}

static struct xt_launch read_launch(const char *const *variables)
{
    environment = variables;
    return xt_launch_read(get);
}

static void a_process_knows_whether_it_was_started_alone(void **state)
{
    (void)state;
    assert_int_equal(read_launch((const char *[]){NULL}).tasks, 1);
    assert_int_equal(
        read_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "1", "PMI_SIZE", "x", NULL}).tasks, 1);
    /* A batch script is no task of srun's. */
    assert_int_equal(
        read_launch((const char *[]){"SLURM_NTASKS", "8", "SLURM_PROCID", "0", NULL}).tasks, 1);
    struct xt_launch srun =
        read_launch((const char *[]){"SLURM_STEP_NUM_TASKS", "8", "SLURM_PROCID", "3", NULL});
    assert_int_equal(srun.tasks, 8);
    assert_int_equal(srun.task, 3);
    assert_false(srun.binds);
    struct xt_launch mpich = read_launch((const char *[]){"PMI_SIZE", "2", "PMI_RANK", "1", NULL});
    assert_int_equal(mpich.tasks, 2);
    assert_int_equal(mpich.task, 1);
    assert_true(mpich.by_pmi);
    assert_false(srun.by_pmi);
    assert_true(srun.unmet);
    assert_false(
        read_launch((const char *[]){"SLURM_STEP_NUM_TASKS", "2", "PMIX_RANK", "0", NULL}).unmet);
}

static void open_mpi_binds_by_its_own_default_where_nobody_asked(void **state)
{
    (void)state;
    const char *bound[] = {
        "OMPI_COMM_WORLD_SIZE", "2", "OMPI_MCA_orte_bound_at_launch", "1", NULL, "set", NULL};
    assert_true(read_launch(bound).binds);
    const char *const by_user[] = {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_orte_rankfile",
                                   "OMPI_MCA_hwloc_base_cpu_set"};
    for (size_t i = 0; i < sizeof by_user / sizeof *by_user; i++) {
        bound[4] = by_user[i];
        assert_false(read_launch(bound).binds);
    }
    assert_false(read_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "2", NULL}).binds);
}

static struct xt_rank_cpus place_of(const char *own, const char *allowed)
{
    struct xt_rank_cpus place;
    assert_true(xt_numa_parse_cpus(own, &place.own));
    assert_true(xt_numa_parse_cpus(allowed, &place.allowed));
    return place;
}

static void a_rank_s_affinity_mask_holds_unless_all_have_the_whole_host(void **state)
{
    (void)state;
    const struct xt_rank_cpus whole[] = {place_of("0-7", "0-7"), place_of("0-7", "0-7")};
    assert_true(xt_place_is_free(whole, 2));
    assert_int_equal(xt_place_threads(whole, 2, 1), 4);
    const struct xt_rank_cpus fenced[] = {place_of("1", "0-7"), place_of("1", "0-7")};
    assert_false(xt_place_is_free(fenced, 2));
    assert_int_equal(xt_place_threads(fenced, 2, 0), 1);
    assert_int_equal(xt_place_idle(fenced, 2), 7);
    /* Two ranks of a socket, and one with the rest. */
    const struct xt_rank_cpus sockets[] = {place_of("0-3", "0-7"), place_of("0-3", "0-7"),
                                           place_of("4-7", "0-7")};
    assert_false(xt_place_is_free(sockets, 3));
    assert_int_equal(xt_place_threads(sockets, 3, 0), 2);
    assert_int_equal(xt_place_threads(sockets, 3, 2), 4);
    assert_int_equal(xt_place_idle(sockets, 3), 0);
}

static void open_mpi_announces_its_end_unless_it_forwards_job_control(void **state)
{
    (void)state;
    assert_true(read_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "2", NULL}).announces);
    assert_false(read_launch((const char *[]){"OMPI_COMM_WORLD_SIZE", "2",
                                              "OMPI_MCA_orte_forward_job_control", "1", NULL})
                     .announces);
    assert_false(read_launch((const char *[]){"PMI_SIZE", "2", NULL}).announces);
}

static void set_node(struct xt_numa *numa, int node, const char *cpus)
{
    numa->nodes[node].number = node;
    assert_true(xt_numa_parse_cpus(cpus, &numa->nodes[node].cpus));
    numa->count = node + 1;
}

static void assert_share(const struct xt_numa *numa, const int *core, int rank, int ranks,
                         const char *cpus)
{
    struct xt_cpus expected;
    struct xt_cpus share;
    assert_true(xt_numa_parse_cpus(cpus, &expected));
    xt_place_share(numa, core, rank, ranks, &share);
    assert_memory_equal(&share, &expected, sizeof share);
}

static void ranks_share_the_cores_within_numa_nodes(void **state)
{
    (void)state;
    static struct xt_numa numa;
    static int core[XT_NUMA_CPUS];
    /* Two nodes of four cores with two threads each: CPU n + 8 is n's neighbour. */
    for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++)
        core[cpu] = cpu < 16 ? cpu % 8 : cpu;
    set_node(&numa, 0, "0-3,8-11");
    set_node(&numa, 1, "4-7,12-15");
    assert_share(&numa, core, 0, 1, "0-15");
    assert_share(&numa, core, 0, 2, "0-3,8-11");
    assert_share(&numa, core, 1, 2, "4-7,12-15");
    assert_share(&numa, core, 1, 4, "2-3,10-11");
    assert_share(&numa, core, 2, 4, "4-5,12-13");
    assert_share(&numa, core, 0, 3, "0-1,8-9");
    assert_share(&numa, core, 2, 3, "4-7,12-15");
    assert_share(&numa, core, 5, 16, "10");
    assert_share(&numa, core, 39, 40, "15");
}

/* In pairs the partner of mixup is in the share too, at the other end. */
static void check_shares(int batch, int ranks, bool in_pairs)
{
    uint8_t seen[40] = {0};
    for (int rank = 0; rank < ranks; rank++) {
        struct xt_rows rows = xt_rows_share(batch, rank, ranks, in_pairs);
        assert_in_range(rows.count, 2, in_pairs ? batch / ranks + 3 : (batch + ranks - 1) / ranks);
        for (int i = 0; i < rows.count; i++) {
            int row = xt_rows_at(&rows, i);
            seen[row]++;
            if (in_pairs)
                assert_int_equal(xt_rows_at(&rows, rows.count - 1 - i), batch - 1 - row);
        }
    }
    for (int row = 0; row < batch; row++)
        assert_int_equal(seen[row], 1);
}

static void shares_of_a_batch_are_even_and_whole(void **state)
{
    (void)state;
    for (int batch = 8; batch < 40; batch++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            check_shares(batch, ranks, false);
            check_shares(batch, ranks, true);
        }
    static const int of_ten[] = {3, 3, 2, 2};
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(xt_rows_share(10, rank, 4, false).count, of_ten[rank]);
}

/* The slowest rank computes as briefly as it can, within what each may have. */
static void shares_follow_the_speeds(void **state)
{
    (void)state;
    static const struct {
        struct xt_share_speed speeds[3];
        int images, least, shares[3];
    } cases[] = {
        {{{1, 99}, {1, 99}, {1, 99}}, 10, 2, {4, 3, 3}},
        {{{1, 99}, {3, 99}, {1, 99}}, 14, 2, {6, 2, 6}},
        {{{1, 5}, {3, 99}, {1, 99}}, 14, 2, {5, 2, 7}},
        {{{1, 99}, {1000, 99}, {1, 99}}, 14, 2, {6, 2, 6}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int shares[3] = {0};
        xt_shares_cut(cases[i].speeds, 3, cases[i].images, cases[i].least, shares);
        assert_memory_equal(shares, cases[i].shares, sizeof shares);
    }
    assert_true(xt_shares_seconds(cases[1].speeds, cases[1].shares, 3) == 6);
}

/* Any cut covers the batch once, the middle row of an odd one too. */
static void rows_of_any_cut_are_whole(void **state)
{
    (void)state;
    static const int shares[] = {1, 4, 2};
    for (int in_pairs = 0; in_pairs < 2; in_pairs++) {
        int seen[15] = {0};
        int batch = in_pairs ? 15 : 7;
        for (int rank = 0, first = 0; rank < 3; first += shares[rank++]) {
            const struct xt_rows rows = xt_rows_cut(batch, first, shares[rank], in_pairs);
            for (int i = 0; i < rows.count; i++)
                seen[xt_rows_at(&rows, i)]++;
        }
        for (int row = 0; row < batch; row++)
            assert_int_equal(seen[row], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_knows_whether_it_was_started_alone),
        cmocka_unit_test(open_mpi_binds_by_its_own_default_where_nobody_asked),
        cmocka_unit_test(a_rank_s_affinity_mask_holds_unless_all_have_the_whole_host),
        cmocka_unit_test(open_mpi_announces_its_end_unless_it_forwards_job_control),
        cmocka_unit_test(ranks_share_the_cores_within_numa_nodes),
        cmocka_unit_test(shares_of_a_batch_are_even_and_whole),
        cmocka_unit_test(shares_follow_the_speeds),
        cmocka_unit_test(rows_of_any_cut_are_whole),
    };
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
