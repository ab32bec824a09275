/* Watches of a run: patience, and spikes of the loss. */
#include <math.h>

#include "support.h"
#include "train/watch/patience.h"
#include "train/watch/spikes.h"

/* How many evaluations in a row were without gain in the end. */
static int64_t since_of(const struct xt_selection_metric *metrics, size_t count, double min_delta)
{
    struct xt_patience patience = {0};
    for (size_t i = 0; i < count; i++)
        xt_patience_see(&patience, &metrics[i], min_delta);
    return patience.since;
}

static void patience_counts_evaluations_without_gain(void **state)
{
    (void)state;
    const struct xt_selection_metric metrics[] = {{0.5, 0.8, 2}, {0.6, 0.7, 3},   {0.6, 0.7, 3},
                                                  {0.5, 0.9, 1}, {0.6, 0.6, 2.9}, {0.6, 0.7, NAN}};
    assert_int_equal(since_of(metrics, 2, 0), 0);
    assert_int_equal(since_of(metrics, 3, 0), 1);
    assert_int_equal(since_of(metrics, 6, 0), 4);
    struct xt_patience patience = {.begun = true, .since = 4};
    assert_true(xt_patience_is_over(&patience, 4));
    assert_false(xt_patience_is_over(&patience, 5));
    assert_false(xt_patience_is_over(&patience, 0));
}

/* Small gains that add up are one once they are large enough. */
static void a_gain_is_larger_than_min_delta_since_the_last_one(void **state)
{
    (void)state;
    const struct xt_selection_metric metrics[] = {
        {0.50, 0, 2}, {0.51, 1, 1}, {0.515, 1, 1}, {0.521, 1, 1}};
    assert_int_equal(since_of(metrics, 3, 0.02), 2);
    assert_int_equal(since_of(metrics, 4, 0.02), 0);
    assert_int_equal(since_of(metrics, 3, 0), 0);
}

/* A run from scratch has no correct prediction for long, but learns. */
static void while_nothing_is_right_a_smaller_loss_is_a_gain(void **state)
{
    (void)state;
    const struct xt_selection_metric metrics[] = {
        {0, 0.02, 9}, {0, 0.01, 8}, {0, 0.01, 8.5}, {0, 0.03, 9}};
    assert_int_equal(since_of(metrics, 2, 0.1), 0);
    assert_int_equal(since_of(metrics, 3, 0.1), 1);
    assert_int_equal(since_of(metrics, 4, 0.1), 0);
}

/* Around `level`, a tenth up and down. */
static void see_steady(struct xt_spikes *spikes, double level, int steps)
{
    for (int i = 0; i < steps; i++)
        assert_false(xt_spikes_see(spikes, level * (1 + 0.1 * sin(i))));
}

static void a_loss_far_above_those_before_is_a_spike_once(void **state)
{
    (void)state;
    struct xt_spikes spikes = {0};
    see_steady(&spikes, 2, 100);
    assert_true(xt_spikes_see(&spikes, 4));
    assert_false(xt_spikes_see(&spikes, 5)); /* still the same one */
    see_steady(&spikes, 2, 20);
    assert_true(xt_spikes_see(&spikes, 4));
    assert_int_equal(spikes.count, 2);
}

static void losses_that_fall_or_begin_have_no_spikes(void **state)
{
    (void)state;
    struct xt_spikes spikes = {0};
    assert_false(xt_spikes_see(&spikes, 1));
    assert_false(xt_spikes_see(&spikes, 100));
    spikes = (struct xt_spikes){0};
    for (int i = 0; i < 1000; i++)
        assert_false(xt_spikes_see(&spikes, 30 * exp(-0.01 * i) * (1 + 0.2 * sin(3 * i))));
}

/* A new level does not remain a spike. */
static void a_loss_that_stays_up_becomes_the_level(void **state)
{
    (void)state;
    struct xt_spikes spikes = {0};
    see_steady(&spikes, 2, 100);
    for (int i = 0; i < 400; i++)
        xt_spikes_see(&spikes, 6 + 0.1 * sin(i));
    assert_int_equal(spikes.count, 1);
    assert_false(spikes.within);
    assert_true(fabs(spikes.level - 6) < 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_counts_evaluations_without_gain),
        cmocka_unit_test(a_gain_is_larger_than_min_delta_since_the_last_one),
        cmocka_unit_test(while_nothing_is_right_a_smaller_loss_is_a_gain),
        cmocka_unit_test(a_loss_far_above_those_before_is_a_spike_once),
        cmocka_unit_test(losses_that_fall_or_begin_have_no_spikes),
        cmocka_unit_test(a_loss_that_stays_up_becomes_the_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
