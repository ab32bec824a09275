/* Softmax cross entropy against reference sums in double and against finite differences. */
#include <math.h>
#include <omp.h>

#include "support.h"
#include "infer/answer/softmax.h"
#include "train/losses/softmax.h"

enum { N = 5, CLASSES = 7 };

static const int labels[N] = {3, 0, 6, 3, 1};
static const int seconds[N] = {2, 0, 1, 6, 5};
static const float share[N] = {0.25f, 0.5f, 1, 0, 0.7f};

static void fill(float *logits, int count)
{
    unsigned state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        logits[i] = (float)(state >> 8) / (1 << 22) - 2;
    }
}

static double chance(int label, int k)
{
    return label == XT_SOFTMAX_UNIFORM ? 1.0 / CLASSES : label == k;
}

/* The definition: minus the sum of q ln p. */
static double reference_loss(const float *logits, int sample, const struct xt_softmax_targets *t)
{
    const float *z = logits + sample * CLASSES;
    double sum = 0;
    for (int k = 0; k < CLASSES; k++)
        sum += exp((double)z[k]);
    double loss = 0;
    for (int k = 0; k < CLASSES; k++) {
        double first = t->seconds ? (double)t->share[sample] : 1;
        double q = first * chance(t->labels[sample], k);
        if (t->seconds)
            q += (1 - first) * chance(t->seconds[sample], k);
        q = (1 - t->smoothing) * q + t->smoothing / CLASSES;
        loss -= q * ((double)z[k] - log(sum));
    }
    return loss;
}

static void check_against_plain(const struct xt_softmax_targets *targets)
{
    float logits[N * CLASSES];
    float losses[N];
    fill(logits, N * CLASSES);
    double mean = xt_softmax_loss(logits, N, CLASSES, targets, losses, NULL);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double wanted = reference_loss(logits, i, targets);
        assert_true(fabs((double)losses[i] - wanted) < 1e-5);
        sum += wanted;
    }
    assert_true(fabs(mean - sum / N) < 1e-5);
}

static void check_gradient(const struct xt_softmax_targets *targets)
{
    float logits[N * CLASSES];
    float grad[N * CLASSES];
    float losses[N];
    fill(logits, N * CLASSES);
    xt_softmax_loss(logits, N, CLASSES, targets, losses, grad);
    for (int i = 0; i < N * CLASSES; i++) {
        float old = logits[i];
        float step = 1e-2f;
        logits[i] = old + step;
        double above = reference_loss(logits, i / CLASSES, targets);
        logits[i] = old - step;
        double below = reference_loss(logits, i / CLASSES, targets);
        logits[i] = old;
        double wanted = (above - below) / (2 * (double)step) / N;
        assert_true(fabs((double)grad[i] - wanted) < 1e-5);
    }
}

static const struct xt_softmax_targets hard = {.labels = labels, .stride = 1};
static const struct xt_softmax_targets smooth = {.labels = labels, .stride = 1, .smoothing = 0.1};
static const struct xt_softmax_targets mixed = {
    .labels = labels, .stride = 1, .seconds = seconds, .share = share, .smoothing = 0.1};

static void the_loss_is_the_cross_entropy(void **state)
{
    (void)state;
    check_against_plain(&hard);
}

static void labels_can_be_smoothed(void **state)
{
    (void)state;
    check_against_plain(&smooth);
}

static void labels_can_be_a_mixture(void **state)
{
    (void)state;
    check_against_plain(&mixed);
}

/* With mixup too, where either of the two may be one. */
static void a_negative_is_of_all_classes_alike(void **state)
{
    (void)state;
    const int own[N] = {XT_SOFTMAX_UNIFORM, 0, 6, XT_SOFTMAX_UNIFORM, 1};
    const int other[N] = {2, XT_SOFTMAX_UNIFORM, 1, XT_SOFTMAX_UNIFORM, 5};
    const struct xt_softmax_targets alone = {.labels = own, .stride = 1, .smoothing = 0.1};
    const struct xt_softmax_targets pairs = {
        .labels = own, .stride = 1, .seconds = other, .share = share};
    check_against_plain(&alone);
    check_gradient(&alone);
    check_against_plain(&pairs);
    check_gradient(&pairs);
}

static void the_gradient_is_exact(void **state)
{
    (void)state;
    check_gradient(&hard);
    check_gradient(&smooth);
    check_gradient(&mixed);
}

static void a_negative_label_does_not_count(void **state)
{
    (void)state;
    static const int some[N] = {3, -1, 6, -1, 1};
    struct xt_softmax_targets targets = {.labels = some, .stride = 1};
    float logits[N * CLASSES];
    float grad[N * CLASSES];
    float losses[N];
    fill(logits, N * CLASSES);
    double mean = xt_softmax_loss(logits, N, CLASSES, &targets, losses, grad);
    double wanted = (reference_loss(logits, 0, &hard) + reference_loss(logits, 2, &hard) +
                     reference_loss(logits, 4, &hard)) /
                    3;
    assert_true(fabs(mean - wanted) < 1e-5);
    for (int k = 0; k < CLASSES; k++)
        assert_true(grad[CLASSES + k] == 0);
}

static void a_batch_where_nothing_counts_has_no_loss(void **state)
{
    (void)state;
    static const int none[1] = {-1};
    struct xt_softmax_targets targets = {.labels = none, .stride = 1};
    float logits[2] = {1, 2};
    float grad[2];
    float loss;
    assert_true(xt_softmax_loss(logits, 1, 2, &targets, &loss, grad) == 0);
    assert_true(grad[0] == 0 && grad[1] == 0);
}

static void large_logits_overflow_nothing(void **state)
{
    (void)state;
    static const int second[1] = {1};
    struct xt_softmax_targets targets = {.labels = second, .stride = 1};
    float logits[3] = {1e30f, -1e30f, 1e30f};
    float grad[3];
    float loss;
    double mean = xt_softmax_loss(logits, 1, 3, &targets, &loss, grad);
    assert_true(isfinite(mean) && mean > 1e29);
    assert_true(grad[1] == -1);
}

static void a_logit_that_is_not_a_number_shows_in_the_loss(void **state)
{
    (void)state;
    static const int first[1] = {0};
    struct xt_softmax_targets targets = {.labels = first, .stride = 1};
    float logits[2] = {1, NAN};
    float loss;
    assert_true(isnan(xt_softmax_loss(logits, 1, 2, &targets, &loss, NULL)));
}

static void the_number_of_threads_changes_nothing(void **state)
{
    (void)state;
    float logits[N * CLASSES];
    float one[N * CLASSES];
    float three[N * CLASSES];
    float losses[N];
    fill(logits, N * CLASSES);
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    double first = xt_softmax_loss(logits, N, CLASSES, &mixed, losses, one);
    omp_set_num_threads(3);
    double second = xt_softmax_loss(logits, N, CLASSES, &mixed, losses, three);
    omp_set_num_threads(before);
    assert_true(first == second);
    assert_memory_equal(one, three, sizeof one);
}

static void the_softmax_sums_to_one(void **state)
{
    (void)state;
    float values[CLASSES];
    fill(values, CLASSES);
    xt_softmax(values, CLASSES, values);
    double sum = 0;
    for (int k = 0; k < CLASSES; k++)
        sum += (double)values[k];
    assert_true(fabs(sum - 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_cross_entropy),
        cmocka_unit_test(labels_can_be_smoothed),
        cmocka_unit_test(labels_can_be_a_mixture),
        cmocka_unit_test(the_gradient_is_exact),
        cmocka_unit_test(a_negative_is_of_all_classes_alike),
        cmocka_unit_test(a_negative_label_does_not_count),
        cmocka_unit_test(a_batch_where_nothing_counts_has_no_loss),
        cmocka_unit_test(large_logits_overflow_nothing),
        cmocka_unit_test(a_logit_that_is_not_a_number_shows_in_the_loss),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(the_softmax_sums_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
