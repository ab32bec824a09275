/* What confidence is worth: temperatures, thresholds and their bounds against their definitions. */
#include "infer/answer/reliability.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "infer/evaluate.h"
#include "support.h"

enum { MANY = 600 };

/* ---- a network of two classes: one logit against 0 ---- */

static enum xt_status confide(const struct xt_predictor *predictor, const float *logits,
                              struct xt_decoded *answer, struct xt_err *err)
{
    (void)predictor;
    (void)err;
    answer->probability = 1 / (1 + exp(-(double)logits[0]));
    return XT_OK;
}

static const struct xt_predictor_class two_classes = {.confide = confide};
static struct xt_network network;
static float scaled[1];
static struct xt_predictor predictor = {
    .class = &two_classes, .network = &network, .sample_logits = 1, .scaled = scaled};

/* Predictions whose logit is `factor` times the true one; those of length 8 another factor's. */
static void observe(struct xt_observations *out, double factor, double factor_of_8)
{
    struct xt_err err;
    struct xt_rng rng = xt_rng_begin(3, 4);
    assert_int_equal(xt_observations_init(out, &predictor, MANY, &err), XT_OK);
    for (size_t i = 0; i < MANY; i++) {
        double logit = 4 * (double)xt_rng_uniform(&rng);
        struct xt_decoded said = {.length = i % 3 ? 7 : 8};
        float seen = (float)(logit * (said.length == 7 ? factor : factor_of_8));
        bool right = (double)xt_rng_uniform(&rng) < 1 / (1 + exp(-logit));
        xt_observations_add(
            out, &(struct xt_answer){.index = i, .said = &said, .logits = &seen, .right = right});
    }
}

static struct xt_reliability at(const struct xt_observations *seen, const struct xt_confidence *by)
{
    static struct xt_outcome outcomes[MANY];
    struct xt_err err;
    assert_int_equal(xt_observations_outcomes(seen, by, outcomes, &err), XT_OK);
    return xt_reliability_of(outcomes, seen->count);
}

static void the_temperature_that_is_found_is_the_one_that_was_lost(void **state)
{
    (void)state;
    const double factors[] = {3, 1, 0.4};
    network.task = XT_TASK_CLASSES;
    for (int i = 0; i < 3; i++) {
        struct xt_observations seen;
        struct xt_confidence found;
        struct xt_err err;
        observe(&seen, factors[i], factors[i]);
        assert_int_equal(xt_observations_calibrate(&seen, &found, &err), XT_OK);
        assert_true(found.temperature > 0.8 * factors[i] && found.temperature < 1.25 * factors[i]);
        struct xt_reliability before = at(&seen, NULL);
        struct xt_reliability after = at(&seen, &found);
        assert_true(after.nll <= before.nll + 1e-4);
        assert_true(i == 1 || after.nll < before.nll);
        assert_true(i == 1 || after.ece < before.ece);
        xt_observations_clear(&seen);
    }
}

static void plates_have_a_temperature_for_each_length(void **state)
{
    (void)state;
    struct xt_observations seen;
    struct xt_confidence found;
    struct xt_err err;
    network.task = XT_TASK_PLATES;
    observe(&seen, 3, 0.5);
    assert_int_equal(xt_observations_calibrate(&seen, &found, &err), XT_OK);
    double of_7 = xt_confidence_temperature(&found, 7);
    double of_8 = xt_confidence_temperature(&found, 8);
    assert_true(of_7 > 2.2 && of_7 < 4 && of_8 > 0.35 && of_8 < 0.7);
    assert_true(xt_confidence_temperature(&found, 6) == found.temperature);
    struct xt_confidence pooled = {.temperature = found.temperature};
    assert_true(at(&seen, &found).nll < at(&seen, &pooled).nll);
    xt_observations_clear(&seen);
}

static void a_temperature_never_makes_the_log_loss_larger(void **state)
{
    (void)state;
    network.task = XT_TASK_CLASSES;
    for (int wrong = 0; wrong < 4; wrong++) {
        struct xt_observations seen;
        struct xt_confidence found;
        struct xt_err err;
        assert_int_equal(xt_observations_init(&seen, &predictor, 90, &err), XT_OK);
        for (int i = 0; i < 90; i++) {
            const struct xt_decoded said = {.length = 7};
            const float logit = i < wrong ? -0.5F : 6;
            xt_observations_add(&seen, &(struct xt_answer){.index = (size_t)i,
                                                           .said = &said,
                                                           .logits = &logit,
                                                           .right = i >= wrong});
        }
        assert_int_equal(xt_observations_calibrate(&seen, &found, &err), XT_OK);
        assert_true(at(&seen, &found).nll <= at(&seen, NULL).nll);
        xt_observations_clear(&seen);
    }
}

static void no_more_predictions_are_held_than_fit(void **state)
{
    (void)state;
    struct xt_observations seen;
    struct xt_err err;
    const float logit = 0;
    const struct xt_decoded said = {.length = 7};
    assert_int_equal(xt_observations_init(&seen, &predictor, 12001, &err), XT_OK);
    for (size_t i = 0; i < 12001; i++)
        xt_observations_add(&seen,
                            &(struct xt_answer){.index = i, .said = &said, .logits = &logit});
    assert_int_equal(seen.count, 4001);
    xt_observations_clear(&seen);
}

static void reliability_is_counted_by_bins(void **state)
{
    (void)state;
    const struct xt_outcome outcomes[] = {
        {0.95, true, 0}, {0.91, false, 0}, {0.2, false, 0}, {1, true, 0}};
    struct xt_reliability r = xt_reliability_of(outcomes, 4);
    assert_int_equal(r.bins[9].images, 3);
    assert_int_equal(r.bins[9].right, 2);
    assert_int_equal(r.bins[2].images, 1);
    assert_true(fabs(r.bins[9].confidence - 2.86 / 3) < 1e-9);
    assert_true(fabs(r.ece - (0.86 + 0.2) / 4) < 1e-9);
    assert_int_equal(xt_reliability_of(outcomes, 0).images, 0);
}

/* ---- bounds ---- */

/* P(at least `right` of `count`), added up term by term. */
static double at_least(int right, int count, double p)
{
    double sum = 0;
    for (int k = right; k <= count; k++) {
        double term = 1;
        for (int i = 0; i < k; i++)
            term *= p * (count - i) / (k - i);
        for (int i = k; i < count; i++)
            term *= 1 - p;
        sum += term;
    }
    return sum;
}

static void the_bound_is_the_one_that_adding_up_finds(void **state)
{
    (void)state;
    const int cases[][2] = {{150, 150}, {98, 100}, {1, 3}, {20, 40}, {299, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double found = xt_binomial_bound((size_t)cases[i][0], (size_t)cases[i][1]);
        double step = 1e-4;
        double p = step;
        while (at_least(cases[i][0], cases[i][1], p) < 0.05)
            p += step;
        assert_true(found > p - 2 * step && found <= p + step);
    }
    assert_true(xt_binomial_bound(0, 10) == 0 && xt_binomial_bound(0, 0) == 0);
    assert_int_equal(xt_binomial_needed(0.995), 598);
    assert_true(xt_binomial_bound(598, 598) >= 0.995 && xt_binomial_bound(597, 597) < 0.995);
}

/* ---- thresholds ---- */

static void fill(struct xt_outcome *outcomes, int count, uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 1);
    for (int i = 0; i < count; i++) {
        double p = round((double)xt_rng_uniform(&rng) * 100) / 100;
        bool right = (double)xt_rng_uniform(&rng) < sqrt(sqrt(p));
        outcomes[i] = (struct xt_outcome){p, right, xt_rng_below(&rng, 9) == 0};
        if (xt_rng_below(&rng, 20) == 0)
            outcomes[i].odd = XT_OUTCOME_EMPTY;
    }
}

static struct xt_acceptance accept(const struct xt_outcome *outcomes, int count, double threshold,
                                   int slack)
{
    struct xt_acceptance a = {.threshold = threshold, .images = (size_t)count};
    for (int i = 0; i < count; i++)
        if (outcomes[i].confidence >= threshold && outcomes[i].odd <= slack) {
            a.accepted++;
            a.right += outcomes[i].right;
        }
    return a;
}

/* Every threshold is tried. */
static void the_threshold_is_the_one_that_trying_all_finds(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    struct xt_outcome outcomes[COUNT];
    for (uint64_t seed = 0; seed < 8; seed++) {
        const struct xt_reject_rule asked = {XT_REJECT_AUTO, seed % 2 ? 0.97 : 0.9};
        /* Without those of an odd length not so many are left. */
        const struct xt_reject_rule keep = {XT_REJECT_KEEP, seed % 2 ? 0.9 : 0.7};
        fill(outcomes, COUNT, seed);
        struct xt_acceptance promised = {0};
        struct xt_acceptance by_share = {0};
        struct xt_acceptance kept = {0};
        for (int t = 100; t > 0; t--) {
            struct xt_acceptance a = accept(outcomes, COUNT, t / 100.0, 0);
            if (a.accepted && xt_binomial_bound(a.right, a.accepted) >= asked.value)
                promised = a;
            if (a.accepted && (double)a.right >= asked.value * (double)a.accepted)
                by_share = a;
            a = accept(outcomes, COUNT, t / 100.0, seed % 2);
            if (!kept.accepted && (double)a.accepted >= keep.value * COUNT)
                kept = a;
        }
        const struct xt_acceptance *wanted = promised.accepted ? &promised : &by_share;
        struct xt_acceptance a = xt_acceptance_choose(&asked, outcomes, COUNT);
        assert_int_equal(a.accepted, wanted->accepted);
        assert_int_equal(a.right, wanted->right);
        assert_true(a.promised == (promised.accepted > 0) || !a.accepted);
        assert_int_equal(accept(outcomes, COUNT, a.threshold, 0).accepted, a.accepted);
        a = xt_acceptance_choose(&keep, outcomes, COUNT);
        assert_int_equal(a.accepted, kept.accepted);
        assert_int_equal(a.slack, seed % 2);
    }
}

static void too_few_images_promise_nothing_and_say_so(void **state)
{
    (void)state;
    struct xt_outcome outcomes[100];
    char text[200];
    const struct xt_reject_rule rule = {XT_REJECT_AUTO, 0.995};
    for (int i = 0; i < 100; i++)
        outcomes[i] = (struct xt_outcome){0.5 + i / 250.0, i > 9, 0};
    struct xt_acceptance a = xt_acceptance_choose(&rule, outcomes, 100);
    assert_int_equal(a.accepted, 90);
    assert_false(a.promised);
    xt_acceptance_describe(&a, &rule, text, sizeof text);
    assert_string_equal(text, "90 of 100 images accepted, 90 of them right: at least 96.73 % with "
                              "95 % confidence, too few to promise 99.5 % (that takes 598 or more "
                              "accepted)");
    /* The surest one is wrong: nothing can be accepted. */
    const struct xt_outcome sure = {0.99, false, 0};
    outcomes[0] = sure;
    for (int i = 1; i < 100; i++)
        outcomes[i] = (struct xt_outcome){0.5, i > 50, 0};
    a = xt_acceptance_choose(&rule, outcomes, 100);
    assert_int_equal(a.accepted, 0);
    assert_true(a.threshold == 1);
    xt_acceptance_describe(&a, &rule, text, sizeof text);
    assert_string_equal(text, "none of 100 images accepted: above no confidence are 99.5 % of the "
                              "answers right; --reject none accepts all");
}

/* ---- rules and metadata ---- */

static void rules_are_read_and_spelt(void **state)
{
    (void)state;
    const char *const good[] = {"stored", "none",       "0",         "0.5",   "1",
                                "0.25",   "auto:0.995", "keep:0.98", "keep:1"};
    const char *const bad[] = {"",       "2",      "-1",     "nan",  "0x1", "auto",  "auto:",
                               "auto:1", "auto:0", "keep:0", "0.5 ", "inf", "none ", "keep:2"};
    struct xt_reject_rule rule;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(xt_reject_parse(good[i], &rule));
        assert_string_equal(xt_reject_spell(&rule).text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(xt_reject_parse(bad[i], &rule));
}

static bool rejects(const struct xt_confidence *confidence, int length, double probability)
{
    return xt_confidence_rejects(
        confidence, &(struct xt_decoded){.length = length, .probability = probability});
}

static void nothing_and_odd_lengths_are_rejected_where_there_is_a_threshold(void **state)
{
    (void)state;
    const struct xt_confidence none = {.shortest = 7, .longest = 8};
    const struct xt_confidence half = {.threshold = 0.5};
    const struct xt_confidence of_7 = {.threshold = 0.5, .shortest = 7, .longest = 8};
    assert_false(rejects(&none, 0, 0.1) || rejects(&none, 7, 0.1));
    assert_true(rejects(&half, 0, 0.9) && rejects(&half, 7, 0.4));
    assert_false(rejects(&half, 7, 0.5) || rejects(&half, 6, 0.9));
    assert_true(rejects(&of_7, 6, 0.9) && rejects(&of_7, 9, 0.9));
    assert_false(rejects(&of_7, 8, 0.9));
}

static void metadata_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct xt_confidence_text text;
    struct xt_confidence read;
    struct xt_err err;
    struct xt_confidence wrote = {
        .temperature = 1.4502, .threshold = 0.941953, .shortest = 7, .longest = 8};
    wrote.by_length[0] = 0.3;
    wrote.by_length[7] = 1.2434;
    strcpy(wrote.rule, "auto:0.98");
    strcpy(wrote.evidence, "100 of 150 images accepted");
    xt_confidence_meta(&wrote, &text);
    assert_int_equal(text.count, XT_CONFIDENCE_META);
    const struct xt_weight_file file = {.meta = text.items, .meta_count = text.count};
    assert_int_equal(xt_confidence_read(&read, &file, &err), XT_OK);
    assert_memory_equal(&read, &wrote, sizeof read);
    const struct xt_weight_file none = {.meta_count = 0};
    assert_int_equal(xt_confidence_read(&read, &none, &err), XT_OK);
    assert_true(xt_confidence_temperature(&read, 7) == 1 && read.threshold == 0);
}

static void damaged_metadata_is_refused(void **state)
{
    (void)state;
    const char *const cases[][2] = {{"temperature", "0"},
                                    {"temperature", "hot"},
                                    {"temperature", "nan"},
                                    {"reject", "2"},
                                    {"reject", ""},
                                    {"temperature_by_length", "7"},
                                    {"temperature_by_length", "65:1"},
                                    {"temperature_by_length", "7:-1"},
                                    {"reject_lengths", "8-7"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_confidence read;
        struct xt_err err;
        struct xt_file_meta item = {cases[i][0], cases[i][1]};
        const struct xt_weight_file file = {.meta = &item, .meta_count = 1};
        assert_int_equal(xt_confidence_read(&read, &file, &err), XT_ERR_DATA);
        assert_non_null(strstr(err.text, cases[i][0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_temperature_that_is_found_is_the_one_that_was_lost),
        cmocka_unit_test(plates_have_a_temperature_for_each_length),
        cmocka_unit_test(a_temperature_never_makes_the_log_loss_larger),
        cmocka_unit_test(no_more_predictions_are_held_than_fit),
        cmocka_unit_test(reliability_is_counted_by_bins),
        cmocka_unit_test(the_bound_is_the_one_that_adding_up_finds),
        cmocka_unit_test(the_threshold_is_the_one_that_trying_all_finds),
        cmocka_unit_test(too_few_images_promise_nothing_and_say_so),
        cmocka_unit_test(rules_are_read_and_spelt),
        cmocka_unit_test(nothing_and_odd_lengths_are_rejected_where_there_is_a_threshold),
        cmocka_unit_test(metadata_is_read_as_it_was_written),
        cmocka_unit_test(damaged_metadata_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
