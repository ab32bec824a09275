/* What ranks do about weights that are no longer the same: rounding is told from drift. Started
 * alone it starts two ranks of itself.
 */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "train/ranks/state.h"

static struct xt_ranks *ranks;

struct fixture {
    struct xt_params params;
    struct xt_optim optim;
    struct xt_rank_state state;
};

static void add(struct xt_params *params, const char *name, enum xt_param_role role, int count)
{
    struct xt_param param = {.role = role, .ndims = 1, .dims = {count, 1, 1, 1}};
    struct xt_err err;
    snprintf(param.name, sizeof param.name, "%s", name);
    assert_true(xt_params_add(params, &param, &err) >= 0);
}

static void fill(struct fixture *f)
{
    for (size_t i = 0; i < f->params.value_floats; i++)
        f->params.values[i] = f->optim.state[0][i] = 1 + (float)(i % 7);
    for (size_t i = 0; i < f->params.stat_floats; i++)
        f->params.stats[i] = 2;
}

static int begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct xt_err err;
    assert_non_null(f);
    add(&f->params, "conv.weight", XT_PARAM_OTHER, 100);
    add(&f->params, "fc.weight", XT_PARAM_OTHER, 50);
    add(&f->params, "bn.running_mean", XT_PARAM_BN_MEAN, 20);
    xt_params_lay_out(&f->params);
    assert_int_equal(xt_params_allocate(&f->params, false, &err), XT_OK);
    f->optim.state[0] = calloc(f->params.value_floats, sizeof(float));
    assert_non_null(f->optim.state[0]);
    f->state = (struct xt_rank_state){.params = &f->params, .optim = &f->optim};
    fill(f);
    *state = f;
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;
    xt_params_clear(&f->params);
    free(f->optim.state[0]);
    free(f);
    return 0;
}

/* The second rank's. */
static float *other(struct fixture *f, const char *name, size_t at)
{
    static float nowhere;
    for (int i = 0; i < f->params.count; i++)
        if (strcmp(f->params.items[i].name, name) == 0 && ranks->rank == 1)
            return xt_params_value(&f->params, &f->params.items[i]) + at;
    return &nowhere;
}

static void the_same_bits_pass(void **state)
{
    struct fixture *f = *state;
    struct xt_err err = {0};
    uint64_t version = f->params.version;
    assert_int_equal(xt_rank_state_check(ranks, &f->state, &err), XT_OK);
    assert_int_equal(xt_rank_state_check_initial(ranks, &f->params, &err), XT_OK);
    assert_true(f->params.version == version);
}

static void rounding_is_taken_back(void **state)
{
    struct fixture *f = *state;
    struct xt_err err = {0};
    *other(f, "fc.weight", 3) *= 1.000001F;
    *other(f, "bn.running_mean", 3) *= 1.000001F;
    assert_int_equal(xt_rank_state_check_initial(ranks, &f->params, &err), XT_OK);
    assert_int_equal(xt_rank_state_check(ranks, &f->state, &err), XT_OK);
    assert_true(f->params.version > 0);
    for (size_t i = 0; i < f->params.stat_floats && i < 20; i++)
        assert_true(f->params.stats[i] == 2);
}

static void drift_names_the_first_tensor_and_the_rank(void **state)
{
    struct fixture *f = *state;
    struct xt_err err = {0};
    *other(f, "fc.weight", 7) = 30;
    *other(f, "bn.running_mean", 0) = 3;
    assert_int_equal(xt_rank_state_check(ranks, &f->state, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "is fc.weight, among the weights, on rank 1 (");
    assert_int_equal(xt_rank_state_check_initial(ranks, &f->params, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "is fc.weight, among the weights, on rank 1 (");
}

static void an_optimizer_that_drifts_is_found_too(void **state)
{
    struct fixture *f = *state;
    struct xt_err err = {0};
    if (ranks->rank == 1)
        f->optim.state[0][1] = 100;
    assert_int_equal(xt_rank_state_check(ranks, &f->state, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN,
                         "is conv.weight, among the optimizer's state, on rank 1");
}

static void a_weight_that_is_nan_on_one_rank_is_drift(void **state)
{
    struct fixture *f = *state;
    struct xt_err err = {0};
    *other(f, "conv.weight", 0) = NAN;
    assert_int_equal(xt_rank_state_check(ranks, &f->state, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "is conv.weight");
}

static int start_ranks(const char *program)
{
    char *folder = NULL;
    char library[4096];
    struct xt_err err;
    if (xt_file_program_folder(&folder, &err))
        return 1;
    snprintf(library, sizeof library, "%s/../../libxtrain_mpi.so", folder);
    free(folder);
    if (!xt_file_exists(library))
        return 77;
    setenv("XTRAIN_MPI", library, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    execlp("mpirun", "mpirun", "-n", "2", program, (char *)NULL);
    return 77;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_bits_pass, begin, end),
        cmocka_unit_test_setup_teardown(rounding_is_taken_back, begin, end),
        cmocka_unit_test_setup_teardown(drift_names_the_first_tensor_and_the_rank, begin, end),
        cmocka_unit_test_setup_teardown(an_optimizer_that_drifts_is_found_too, begin, end),
        cmocka_unit_test_setup_teardown(a_weight_that_is_nan_on_one_rank_is_drift, begin, end),
    };
    struct xt_err err = {0};
    if (argc > 0 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return start_ranks(argv[0]);
    if (xt_ranks_open(&ranks, &err) || !ranks)
        return 1;
    ranks->timeout = 0;
    if (ranks->rank && !freopen("/dev/null", "w", stdout))
        return 1;
    int failed = cmocka_run_group_tests_name("drift", tests, NULL, NULL);
    if (failed)
        xt_err_set(&err, XT_ERR_RUN, "%d tests of rank %d failed", failed, ranks->rank);
    return (int)xt_ranks_end(ranks, failed ? XT_ERR_RUN : XT_OK, &err);
}
