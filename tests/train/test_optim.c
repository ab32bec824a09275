/* Updates against PyTorch's formulas, as reference loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "base/rng.h"
#include "train/optim/loops/update.h"
#include "train/optim/optim.h"

enum { COUNT = 1537, STEPS = 5 };

struct reference {
    double value;
    double first; /* momentum buffer, mean */
    double square;
};

static void reference_sgd(struct reference *p, const struct xt_optim *o, double g, double wd,
                          double lr, int step)
{
    g += wd * p->value;
    if (o->momentum != 0) {
        p->first = step == 0 ? g : o->momentum * p->first + g;
        g = o->nesterov ? g + o->momentum * p->first : p->first;
    }
    p->value -= lr * g;
}

static void reference_adam(struct reference *p, const struct xt_optim *o, double g, double wd,
                           double lr, int step)
{
    if (o->kind == XT_OPTIM_ADAMW)
        p->value *= 1 - lr * wd;
    else
        g += wd * p->value;
    p->first = 0.9 * p->first + 0.1 * g;
    p->square = 0.999 * p->square + 0.001 * g * g;
    double mean = p->first / (1 - pow(0.9, step + 1));
    double square = p->square / (1 - pow(0.999, step + 1));
    p->value -= lr * mean / (sqrt(square) + 1e-8);
}

static void reference_rmsprop(struct reference *p, const struct xt_optim *o, double g, double wd,
                              double lr)
{
    g += wd * p->value;
    p->square = 0.9 * p->square + 0.1 * g * g;
    double scaled = g / (sqrt(p->square) + 1e-8);
    if (o->momentum != 0)
        scaled = p->first = o->momentum * p->first + scaled;
    p->value -= lr * scaled;
}

static void reference_update(struct reference *p, const struct xt_optim *o, double g, double wd,
                             double lr, int step)
{
    if (o->kind == XT_OPTIM_SGD)
        reference_sgd(p, o, g, wd, lr, step);
    else if (o->kind == XT_OPTIM_RMSPROP)
        reference_rmsprop(p, o, g, wd, lr);
    else
        reference_adam(p, o, g, wd, lr, step);
}

static void fill(float *out, size_t count, uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 0);
    for (size_t i = 0; i < count; i++)
        out[i] = 2 * xt_rng_uniform(&rng) - 1;
}

/* Three ranges: with decay; without, at a tenth of the rate; frozen. */
static const struct xt_optim_range ranges[3] = {
    {.offset = 0, .count = 1200, .decay = true, .lr_factor = 1},
    {.offset = 1200, .count = 300, .decay = false, .lr_factor = 0.1f},
    {.offset = 1500, .count = COUNT - 1500, .decay = true, .lr_factor = 0},
};

static void follows_the_formula(struct xt_optim optim)
{
    float values[COUNT];
    float grads[COUNT];
    float state[2][COUNT] = {{0}};
    struct reference reference[COUNT] = {{0}};
    const float scale = 0.5f;
    for (int i = 0; i < xt_optim_states(optim.kind, optim.momentum); i++)
        optim.state[i] = state[i];
    fill(values, COUNT, 1);
    for (int i = 0; i < COUNT; i++)
        reference[i].value = (double)values[i];
    for (int step = 0; step < STEPS; step++) {
        double lr = 0.01 * (step + 1);
        fill(grads, COUNT, (uint64_t)step + 2);
        xt_optim_update(&optim, values, grads, ranges, 3, lr, scale);
        for (int r = 0; r < 2; r++)
            for (size_t i = ranges[r].offset; i < ranges[r].offset + ranges[r].count; i++)
                reference_update(&reference[i], &optim, (double)(grads[i] * scale),
                                 ranges[r].decay ? optim.weight_decay : 0,
                                 lr * (double)ranges[r].lr_factor, step);
    }
    assert_int_equal(optim.step, STEPS);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabs((double)values[i] - reference[i].value) < 2e-6);
}

static void sgd_follows_its_formula(void **state)
{
    (void)state;
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_SGD});
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_SGD, .weight_decay = 0.1});
    follows_the_formula(
        (struct xt_optim){.kind = XT_OPTIM_SGD, .momentum = 0.9, .weight_decay = 0.1});
    follows_the_formula((struct xt_optim){
        .kind = XT_OPTIM_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
}

static void adam_follows_its_formula(void **state)
{
    (void)state;
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_ADAM});
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_ADAM, .weight_decay = 0.1});
}

static void adamw_decays_apart_from_the_gradient(void **state)
{
    (void)state;
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_ADAMW, .weight_decay = 0.1});
}

static void rmsprop_follows_its_formula(void **state)
{
    (void)state;
    follows_the_formula((struct xt_optim){.kind = XT_OPTIM_RMSPROP, .weight_decay = 0.1});
    follows_the_formula(
        (struct xt_optim){.kind = XT_OPTIM_RMSPROP, .momentum = 0.9, .weight_decay = 0.1});
}

static void states_have_names(void **state)
{
    (void)state;
    assert_int_equal(xt_optim_states(XT_OPTIM_SGD, 0), 0);
    assert_int_equal(xt_optim_states(XT_OPTIM_SGD, 0.9), 1);
    assert_int_equal(xt_optim_states(XT_OPTIM_ADAMW, 0), 2);
    assert_int_equal(xt_optim_states(XT_OPTIM_RMSPROP, 0), 1);
    assert_int_equal(xt_optim_states(XT_OPTIM_RMSPROP, 0.9), 2);
    assert_string_equal(xt_optim_state_name(XT_OPTIM_SGD, 0), "momentum");
    assert_string_equal(xt_optim_state_name(XT_OPTIM_ADAM, 0), "momentum");
    assert_string_equal(xt_optim_state_name(XT_OPTIM_ADAM, 1), "square");
    assert_string_equal(xt_optim_state_name(XT_OPTIM_RMSPROP, 0), "square");
    assert_string_equal(xt_optim_state_name(XT_OPTIM_RMSPROP, 1), "momentum");
}

enum { LARGE = 300007 };

static const struct xt_optim_range large_ranges[3] = {
    {.offset = 0, .count = 100003, .decay = true, .lr_factor = 1},
    {.offset = 100003, .count = 17, .decay = false, .lr_factor = 1},
    {.offset = 100020, .count = LARGE - 100020, .decay = true, .lr_factor = 1},
};

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    int threads_before = omp_get_max_threads();
    float *grads = malloc(LARGE * sizeof *grads);
    float *values[2];
    float *first = calloc(LARGE, sizeof *first);
    float *second = calloc(LARGE, sizeof *second);
    double norms[2];
    fill(grads, LARGE, 3);
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 3);
        values[i] = malloc(LARGE * sizeof *values[i]);
        fill(values[i], LARGE, 4);
        memset(first, 0, LARGE * sizeof *first);
        memset(second, 0, LARGE * sizeof *second);
        struct xt_optim optim = {
            .kind = XT_OPTIM_ADAMW, .weight_decay = 0.1, .state = {first, second}};
        for (int step = 0; step < 2; step++)
            xt_optim_update(&optim, values[i], grads, large_ranges, 3, 0.01, 1);
        norms[i] = xt_optim_grad_norm(grads, large_ranges, 3);
    }
    omp_set_num_threads(threads_before);
    assert_memory_equal(values[0], values[1], LARGE * sizeof *values[0]);
    assert_true(norms[0] == norms[1]);
    double sum = 0;
    for (int i = 0; i < LARGE; i++)
        sum += (double)grads[i] * (double)grads[i];
    assert_true(fabs(norms[0] - sqrt(sum)) < 1e-9 * sqrt(sum));
    free(values[0]);
    free(values[1]);
    free(grads);
    free(first);
    free(second);
}

static void the_norm_leaves_out_frozen_ranges_and_gaps(void **state)
{
    (void)state;
    const float grads[6] = {3, 100, 4, 100, 12, NAN};
    const struct xt_optim_range some[4] = {
        {.offset = 0, .count = 1, .lr_factor = 1},
        {.offset = 1, .count = 1, .lr_factor = 0},
        {.offset = 2, .count = 1, .lr_factor = 1},
        {.offset = 4, .count = 1, .lr_factor = 0.5f},
    };
    assert_true(fabs(xt_optim_grad_norm(grads, some, 4) - 13) < 1e-12);
    assert_true(xt_optim_grad_norm(grads, some, 0) == 0);
}

static void the_norm_takes_squares_that_are_known(void **state)
{
    (void)state;
    const float grads[3] = {NAN, 4, NAN};
    const double squares[3] = {9, NAN, 100};
    const struct xt_optim_range some[3] = {
        {.offset = 0, .count = 1, .lr_factor = 1, .square = &squares[0]},
        {.offset = 1, .count = 1, .lr_factor = 1, .square = &squares[1]},
        {.offset = 2, .count = 1, .lr_factor = 0, .square = &squares[2]},
    };
    assert_true(fabs(xt_optim_grad_norm(grads, some, 3) - 5) < 1e-12);
}

extern const struct xt_update_loops xt_loops_update_base, xt_loops_update_avx2,
    xt_loops_update_avx512;

/* Checkpoints, and what ranks of a job have, do not depend on the CPU. */
static void every_instruction_set_computes_the_same_bits(void **state)
{
    enum { SOME = 1003 };
    const struct xt_update_loops *builds[] = {
        &xt_loops_update_base, __builtin_cpu_supports("avx2") ? &xt_loops_update_avx2 : NULL,
        __builtin_cpu_supports("avx512dq") ? &xt_loops_update_avx512 : NULL};
    const struct xt_optim_rule rule = {.grad_scale = 0.3f,
                                       .decay = 0.01f,
                                       .keep = 0.99f,
                                       .lr = 0.1f,
                                       .momentum = 0.9f,
                                       .root_scale = 0.7f};
    float grads[SOME];
    float numbers[3][3][SOME]; /* of a build: values, both states */
    (void)state;
    fill(grads, SOME, 1);
    for (int kind = 0; kind < XT_OPTIM_KINDS; kind++)
        for (size_t i = 0; i < 3 && builds[i]; i++) {
            fill(numbers[i][0], 3 * SOME, 2);
            for (size_t k = 0; k < SOME; k++)
                numbers[i][1][k] = fabsf(numbers[i][1][k]);
            for (size_t k = 0; k < SOME; k++)
                numbers[i][2][k] = fabsf(numbers[i][2][k]);
            float *const states[] = {numbers[i][1], numbers[i][2]};
            builds[i]->update[kind](&rule, SOME, numbers[i][0], grads, states);
            assert_memory_equal(numbers[i], numbers[0], sizeof numbers[0]);
            assert_true(builds[i]->square_sum(grads, SOME) == builds[0]->square_sum(grads, SOME));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_its_formula),
        cmocka_unit_test(adam_follows_its_formula),
        cmocka_unit_test(adamw_decays_apart_from_the_gradient),
        cmocka_unit_test(rmsprop_follows_its_formula),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(the_norm_leaves_out_frozen_ranges_and_gaps),
        cmocka_unit_test(the_norm_takes_squares_that_are_known),
        cmocka_unit_test(every_instruction_set_computes_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
