#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

enum { IN = 48, OUT = 112, LANES = 16 };

/* Where a matrix of IN columns has row o, column i. */
static size_t at(size_t o, size_t i)
{
    return o / LANES * LANES * IN + i * LANES + o % LANES;
}

struct arrays {
    float weights[IN * OUT], products[IN * OUT], squares[IN * IN], sums[IN], factors[3 * OUT];
    float weight_grad[IN * OUT], scaled[IN * OUT], through[IN * IN], shift[IN];
};

static void fill(struct xt_rng *rng, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        random_number(rng, XT_F32, &to[i]);
}

static void assert_near(float got, double wanted)
{
    if (!(fabs((double)got - wanted) <= 1e-4))
        fail_msg("%g, not %g", (double)got, wanted);
}

/* dW = a P + b W S + d (the sum of x)', and a W; returns the sum of dW's squares. */
static double check_weights(const struct arrays *arrays)
{
    double square = 0;
    for (size_t o = 0; o < OUT; o++)
        for (size_t i = 0; i < IN; i++) {
            double a = (double)arrays->factors[o];
            double b = (double)arrays->factors[OUT + o];
            double d = (double)arrays->factors[2 * OUT + o];
            double more = 0;
            for (size_t k = 0; k < IN; k++)
                more += (double)arrays->weights[at(o, k)] * (double)arrays->squares[at(k, i)];
            double grad =
                a * (double)arrays->products[at(o, i)] + b * more + d * (double)arrays->sums[i];
            assert_near(arrays->weight_grad[at(o, i)], grad);
            assert_near(arrays->scaled[at(o, i)], a * (double)arrays->weights[at(o, i)]);
            square += grad * grad;
        }
    return square;
}

/* W' b W and W' d. */
static void check_through(const struct arrays *arrays)
{
    for (size_t i = 0; i < IN; i++) {
        double shift = 0;
        for (size_t o = 0; o < OUT; o++)
            shift += (double)arrays->weights[at(o, i)] * (double)arrays->factors[2 * OUT + o];
        assert_near(arrays->shift[i], shift);
        for (size_t k = 0; k < IN; k++) {
            double sum = 0;
            for (size_t o = 0; o < OUT; o++)
                sum += (double)arrays->weights[at(o, i)] * (double)arrays->factors[OUT + o] *
                       (double)arrays->weights[at(o, k)];
            assert_near(arrays->through[at(i, k)], sum);
        }
    }
}

static void the_matrices_are_what_plain_loops_make(void **state)
{
    static struct arrays arrays;
    const struct xt_loops *all[BUILDS_MAX];
    struct xt_rng rng = xt_rng_begin(5, 0);
    const struct xt_norm_product job = {.in_c = IN,
                                        .out_c = OUT,
                                        .weights = arrays.weights,
                                        .products = arrays.products,
                                        .squares = arrays.squares,
                                        .sums = arrays.sums,
                                        .factors = arrays.factors,
                                        .weight_grad = arrays.weight_grad,
                                        .scaled = arrays.scaled,
                                        .through = arrays.through,
                                        .shift = arrays.shift};
    (void)state;
    for (int b = builds(all) - 1; b >= 0; b--) {
        double square = 0;
        memset(&arrays, 0xFF, sizeof arrays);
        fill(&rng, arrays.weights, IN * OUT);
        fill(&rng, arrays.products, IN * OUT);
        fill(&rng, arrays.squares, IN * IN);
        fill(&rng, arrays.sums, IN);
        fill(&rng, arrays.factors, 3 * OUT);
        for (size_t i = 0; i < IN; i++)
            for (size_t k = 0; k < i; k++)
                arrays.squares[at(i, k)] = arrays.squares[at(k, i)];
        for (int part = xt_norm_product_parts(&job) - 1; part >= 0; part--)
            square += all[b]->norm_product(&job, part);
        double wanted = check_weights(&arrays);
        assert_true(fabs(square - wanted) <= 1e-5 * wanted);
        check_through(&arrays);
    }
}

/* Of z = W x: the sum of each channel, and of its square. */
static void statistics_follow_from_sums_of_the_input(void **state)
{
    static float weights[IN * OUT];
    static double squares[IN * IN], sums[IN], totals[2][OUT];
    const struct xt_loops *all[BUILDS_MAX];
    struct xt_rng rng = xt_rng_begin(6, 0);
    (void)state;
    fill(&rng, weights, IN * OUT);
    for (size_t i = 0; i < IN; i++) {
        sums[i] = (double)xt_rng_uniform(&rng);
        for (size_t k = 0; k <= i; k++)
            squares[at(i, k)] = squares[at(k, i)] = (double)xt_rng_uniform(&rng);
    }
    const struct xt_norm_statistics job = {.in_c = IN,
                                           .weights = weights,
                                           .squares = squares,
                                           .sums = sums,
                                           .totals = {totals[0], totals[1]}};
    for (int b = builds(all) - 1; b >= 0; b--) {
        memset(totals, 0xFF, sizeof totals);
        for (int part = OUT / LANES - 1; part >= 0; part--)
            all[b]->norm_statistics(&job, part);
        for (size_t o = 0; o < OUT; o++) {
            double wanted[2] = {0};
            for (size_t i = 0; i < IN; i++) {
                wanted[0] += (double)weights[at(o, i)] * sums[i];
                for (size_t k = 0; k < IN; k++)
                    wanted[1] +=
                        (double)weights[at(o, i)] * (double)weights[at(o, k)] * squares[at(i, k)];
            }
            assert_true(fabs(totals[0][o] - wanted[0]) <= 1e-12 * IN);
            assert_true(fabs(totals[1][o] - wanted[1]) <= 1e-12 * IN * IN);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrices_are_what_plain_loops_make),
        cmocka_unit_test(statistics_follow_from_sums_of_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
