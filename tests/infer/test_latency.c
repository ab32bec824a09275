#include <math.h>

#include "support.h"
#include "infer/latency.h"

static struct xt_latency_summary sum_up(const double *seconds, const int *images, size_t count)
{
    struct xt_err err;
    struct xt_latency latency = {0};
    struct xt_latency_summary summary;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(xt_latency_add(&latency, seconds[i], images[i], &err), XT_OK);
    assert_int_equal(xt_latency_sum_up(&latency, &summary, &err), XT_OK);
    xt_latency_clear(&latency);
    return summary;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void fewer_than_seven_batches_are_not_measured(void **state)
{
    (void)state;
    const double seconds[6] = {1, 1, 1, 1, 1, 1};
    const int images[6] = {2, 2, 2, 2, 2, 2};
    assert_false(sum_up(seconds, images, 6).measured);
    assert_false(sum_up(seconds, images, 0).measured);
}

static void the_first_and_last_three_batches_are_left_out(void **state)
{
    (void)state;
    const double seconds[8] = {9, 9, 9, 0.002, 0.004, 9, 9, 9};
    const int images[8] = {2, 2, 2, 2, 2, 2, 2, 1};
    struct xt_latency_summary summary = sum_up(seconds, images, 8);
    assert_true(summary.measured);
    assert_int_equal(summary.batches, 2);
    assert_true(near(summary.batch.mean, 3));
    assert_true(near(summary.image.mean, 1.5));
}

static void percentiles_are_values_that_occurred(void **state)
{
    (void)state;
    double seconds[106];
    int images[106];
    for (int i = 0; i < 106; i++) {
        seconds[i] = i < 3 || i > 102 ? 50 : 1e-3 * (103 - i); /* 100 ms down to 1 ms */
        images[i] = 1;
    }
    struct xt_latency_summary summary = sum_up(seconds, images, 106);
    assert_true(near(summary.batch.p50, 50));
    assert_true(near(summary.batch.p95, 95));
    assert_true(near(summary.batch.p99, 99));
}

static void each_image_counts_in_the_figures_of_images(void **state)
{
    (void)state;
    const double seconds[8] = {9, 9, 9, 0.003, 0.003, 9, 9, 9};
    const int images[8] = {1, 1, 1, 3, 1, 1, 1, 1};
    struct xt_latency_summary summary = sum_up(seconds, images, 8);
    assert_true(near(summary.image.mean, (3 * 1 + 3) / 4.0));
    assert_true(near(summary.image.p50, 1));
    assert_true(near(summary.image.p95, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_than_seven_batches_are_not_measured),
        cmocka_unit_test(the_first_and_last_three_batches_are_left_out),
        cmocka_unit_test(percentiles_are_values_that_occurred),
        cmocka_unit_test(each_image_counts_in_the_figures_of_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
