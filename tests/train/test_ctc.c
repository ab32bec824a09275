/* CTC against the definition: the sum over every path of t steps that collapses to the label. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "models/weights/weight_file.h"
#include "support.h"
#include "infer/answer/ctc_recursion.h"
#include "train/losses/ctc.h"

enum { BLANK = 0, MAX_T = 6, MAX_C = 4 };

static void fill(float *out, size_t count, uint64_t seed, float scale)
{
    struct xt_rng rng = xt_rng_begin(seed, 0);
    for (size_t i = 0; i < count; i++)
        out[i] = scale * (2 * xt_rng_uniform(&rng) - 1);
}

static struct xt_ctc *loss_for(int n, int t, int classes, int label_max)
{
    struct xt_ctc *ctc = NULL;
    struct xt_err err;
    assert_int_equal(xt_ctc_create(&ctc, n, t, classes, label_max, &err), XT_OK);
    return ctc;
}

static int collapse(const int *path, int t, int blank, int *out)
{
    int length = 0;
    for (int i = 0; i < t; i++)
        if (path[i] != blank && (i == 0 || path[i] != path[i - 1]))
            out[length++] = path[i];
    return length;
}

static double log_softmax(const double *row, int classes, int k)
{
    double max = row[0];
    for (int i = 1; i < classes; i++)
        max = fmax(max, row[i]);
    double sum = 0;
    for (int i = 0; i < classes; i++)
        sum += exp(row[i] - max);
    return row[k] - max - log(sum);
}

/* -ln P(label), by enumeration of all classes^t paths. */
static double enumerated_loss(const double *logits, int t, int classes, int blank, const int *label,
                              int length)
{
    double log_p[MAX_T][MAX_C];
    long paths = 1;
    for (int i = 0; i < t; i++) {
        paths *= classes;
        for (int k = 0; k < classes; k++)
            log_p[i][k] = log_softmax(logits + i * classes, classes, k);
    }
    double p = 0;
    for (long code = 0; code < paths; code++) {
        int path[MAX_T];
        int found[MAX_T];
        long rest = code;
        double log_path = 0;
        for (int i = 0; i < t; i++, rest /= classes) {
            path[i] = (int)(rest % classes);
            log_path += log_p[i][path[i]];
        }
        if (collapse(path, t, blank, found) == length &&
            memcmp(found, label, (size_t)length * sizeof *label) == 0)
            p += exp(log_path);
    }
    return -log(p);
}

static double enumerated_floats(const float *logits, int t, int classes, int blank,
                                const int *label, int length)
{
    double wide[MAX_T * MAX_C];
    for (int i = 0; i < t * classes; i++)
        wide[i] = (double)logits[i];
    return enumerated_loss(wide, t, classes, blank, label, length);
}

static void the_loss_is_the_sum_over_all_alignments(void **state)
{
    (void)state;
    for (int t = 1; t <= MAX_T; t++)
        for (int classes = 2; classes <= MAX_C; classes++)
            for (int length = 1; length <= t && length <= 4; length++)
                for (int trial = 0; trial < 6; trial++) {
                    uint64_t seed = (uint64_t)(((t * 10 + classes) * 10 + length) * 10 + trial);
                    struct xt_rng rng = xt_rng_begin(seed, 1);
                    int blank = trial % classes;
                    int label[4];
                    for (int i = 0; i < length; i++) {
                        int k = (int)xt_rng_below(&rng, (uint64_t)classes - 1);
                        label[i] = k < blank ? k : k + 1;
                    }
                    float logits[MAX_T * MAX_C];
                    fill(logits, (size_t)(t * classes), seed, 4);
                    double expected = enumerated_floats(logits, t, classes, blank, label, length);
                    struct xt_ctc *ctc = loss_for(1, t, classes, 4);
                    float loss = 0;
                    double mean =
                        xt_ctc_loss(ctc, logits, label, 4, &length, 1, blank, &loss, NULL);
                    if (isinf(expected))
                        assert_true(isinf(loss) && isinf(mean));
                    else {
                        assert_true(fabs((double)loss - expected) < 2e-5 * (1 + expected));
                        assert_true(fabs(mean * length - expected) < 2e-5 * (1 + expected));
                    }
                    double log_p = xt_ctc_log_probability(logits, t, classes, label, length, blank);
                    assert_true(isinf(expected) ? isinf(log_p)
                                                : fabs(-log_p - (double)loss) < 1e-5);
                    xt_ctc_destroy(ctc);
                }
}

/* Three samples, so that the mean's weights count too: three symbols, repeated ones before another,
 * one symbol. */
static const int three_labels[3][3] = {{1, 2, 3}, {2, 2, 1}, {3, 0, 0}};
static const int three_lengths[3] = {3, 3, 1};

static double enumerated_mean(const double *logits)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += enumerated_loss(logits + i * MAX_T * MAX_C, MAX_T, MAX_C, BLANK, three_labels[i],
                               three_lengths[i]) /
               three_lengths[i];
    return sum / 3;
}

static void the_gradient_is_that_of_the_mean(void **state)
{
    (void)state;
    float logits[3 * MAX_T * MAX_C];
    float grad[3 * MAX_T * MAX_C];
    float losses[3];
    double wide[3 * MAX_T * MAX_C];
    fill(logits, 3 * MAX_T * MAX_C, 7, 2);
    for (int i = 0; i < 3 * MAX_T * MAX_C; i++)
        wide[i] = (double)logits[i];
    struct xt_ctc *ctc = loss_for(3, MAX_T, MAX_C, 3);
    double mean =
        xt_ctc_loss(ctc, logits, three_labels[0], 3, three_lengths, 3, BLANK, losses, grad);
    assert_true(fabs(mean - enumerated_mean(wide)) < 1e-5);
    for (int i = 0; i < 3 * MAX_T * MAX_C; i++) {
        const double eps = 1e-5;
        double at = wide[i];
        wide[i] = at + eps;
        double above = enumerated_mean(wide);
        wide[i] = at - eps;
        double below = enumerated_mean(wide);
        wide[i] = at;
        assert_true(fabs((above - below) / (2 * eps) - (double)grad[i]) < 1e-6);
    }
    xt_ctc_destroy(ctc);
}

static void all_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(values[i] == 0);
}

static void a_label_that_cannot_be_aligned_has_an_infinite_loss_and_no_gradient(void **state)
{
    (void)state;
    enum { T = 4, C = 4, IMAGE = T * C };
    /* Two pairs of equal symbols need 5 steps; 6 symbols need 6; the last one fits. */
    const int labels[3][6] = {{1, 1, 2, 2}, {1, 2, 3, 1, 2, 3}, {1, 2, 3, 1}};
    const int lengths[3] = {4, 6, 4};
    float logits[3 * IMAGE];
    float grad[3 * IMAGE];
    float losses[3];
    fill(logits, 3 * IMAGE, 3, 1);
    struct xt_ctc *ctc = loss_for(3, T, C, 6);
    double mean = xt_ctc_loss(ctc, logits, labels[0], 6, lengths, 3, BLANK, losses, grad);
    assert_true(isinf(mean) && isinf(losses[0]) && isinf(losses[1]) && isfinite(losses[2]));
    all_zero(grad, 2 * IMAGE);
    assert_true(grad[2 * IMAGE] != 0);
    assert_true(isinf(xt_ctc_log_probability(logits, T, C, labels[0], 4, BLANK)));
    xt_ctc_destroy(ctc);
}

static void an_empty_label_is_not_part_of_the_mean(void **state)
{
    (void)state;
    enum { T = 5, C = 3, IMAGE = T * C };
    const int labels[2][2] = {{0, 0}, {1, 2}};
    const int lengths[2] = {0, 2};
    float logits[2 * IMAGE];
    float grad[2 * IMAGE];
    float losses[2];
    fill(logits, 2 * IMAGE, 9, 1);
    struct xt_ctc *ctc = loss_for(2, T, C, 2);
    double mean = xt_ctc_loss(ctc, logits, labels[0], 2, lengths, 2, BLANK, losses, grad);
    assert_true(fabs(mean - (double)losses[1] / 2) < 1e-12);
    assert_true(fabs((double)losses[0] - enumerated_floats(logits, T, C, BLANK, labels[0], 0)) <
                1e-5);
    all_zero(grad, IMAGE);
    float alone[IMAGE];
    xt_ctc_loss(ctc, logits + IMAGE, labels[1], 2, &lengths[1], 1, BLANK, losses, alone);
    assert_memory_equal(grad + IMAGE, alone, sizeof alone);
    assert_true(xt_ctc_loss(ctc, logits, labels[0], 2, lengths, 1, BLANK, losses, NULL) == 0);
    xt_ctc_destroy(ctc);
}

/* Beside a plate: its loss is that all steps are blank, and counts as one of two. */
static void a_negative_wants_blanks_alone(void **state)
{
    (void)state;
    enum { T = 5, C = 3, IMAGE = T * C };
    const int labels[2][2] = {{0, 0}, {1, 2}};
    const int lengths[2] = {-1, 2};
    float logits[2 * IMAGE];
    float grad[2 * IMAGE];
    float losses[2];
    fill(logits, 2 * IMAGE, 9, 1);
    struct xt_ctc *ctc = loss_for(2, T, C, 2);
    double mean = xt_ctc_loss(ctc, logits, labels[0], 2, lengths, 2, BLANK, losses, grad);
    assert_true(fabs((double)losses[0] - enumerated_floats(logits, T, C, BLANK, labels[0], 0)) <
                1e-5);
    assert_true(fabs(mean - ((double)losses[0] / T + (double)losses[1] / 2) / 2) < 1e-6);
    for (int i = 0; i < IMAGE; i++) {
        const float *row = logits + i / C * C;
        double sum = 0;
        for (int k = 0; k < C; k++)
            sum += exp((double)row[k]);
        double wanted = (exp((double)logits[i]) / sum - (i % C == BLANK)) / (2 * T);
        assert_true(fabs((double)grad[i] - wanted) < 1e-6);
    }
    xt_ctc_destroy(ctc);
}

static void large_logits_stay_numbers(void **state)
{
    (void)state;
    enum { T = 18, C = 68, N = 4, IMAGE = T * C };
    const int labels[N][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {5, 5, 5}, {66, 0}, {9}};
    const int lengths[N] = {8, 3, 2, 1};
    static float logits[N * IMAGE];
    static float grad[N * IMAGE];
    float losses[N];
    struct xt_rng rng = xt_rng_begin(1, 2);
    for (int i = 0; i < N * IMAGE; i++)
        logits[i] = xt_rng_uniform(&rng) < 0.5f ? -1e4f : 1e4f;
    struct xt_ctc *ctc = loss_for(N, T, C, 8);
    double mean = xt_ctc_loss(ctc, logits, labels[0], 8, lengths, N, C - 1, losses, grad);
    assert_true(isfinite(mean) && mean > 0);
    for (int i = 0; i < N * T; i++) {
        double sum = 0;
        for (int k = 0; k < C; k++) {
            assert_true(fabsf(grad[i * C + k]) <= 1);
            sum += (double)grad[i * C + k];
        }
        assert_true(fabs(sum) < 1e-6);
    }
    xt_ctc_destroy(ctc);
}

static void a_certain_answer_costs_nothing(void **state)
{
    (void)state;
    enum { T = 3, C = 3 };
    const float logits[T * C] = {0, 1e4f, 0, 1e4f, 0, 0, 0, 0, 1e4f};
    const int label[2] = {1, 2};
    const int length = 2;
    float grad[T * C];
    float loss = 1;
    struct xt_ctc *ctc = loss_for(1, T, C, 2);
    xt_ctc_loss(ctc, logits, label, 2, &length, 1, BLANK, &loss, grad);
    assert_true(loss == 0);
    all_zero(grad, T * C);
    xt_ctc_destroy(ctc);
}

static void a_logit_that_is_not_a_number_shows_in_the_loss(void **state)
{
    (void)state;
    float logits[12];
    fill(logits, 12, 5, 1);
    logits[7] = NAN;
    const int label[1] = {1};
    const int length = 1;
    float loss = 0;
    struct xt_ctc *ctc = loss_for(1, 4, 3, 1);
    assert_true(isnan(xt_ctc_loss(ctc, logits, label, 1, &length, 1, BLANK, &loss, NULL)));
    assert_true(isnan(loss));
    xt_ctc_destroy(ctc);
}

/* PyTorch's logits and loss; its logits are [n][classes][t], its labels concatenated. */
static void the_golden_loss_comes_out(void **state)
{
    (void)state;
    enum { N = 4, T = 18, C = 68, LABEL = 8 };
    struct xt_weight_file file = {0};
    struct xt_err err;
    assert_int_equal(
        xt_weight_file_read(&file, support_shared("golden/lprnet.safetensors"), SIZE_MAX, &err),
        XT_OK);
    const struct xt_file_tensor *given = xt_weight_file_find(&file, "sample.train.logits");
    const struct xt_file_tensor *expected = xt_weight_file_find(&file, "sample.train.losses");
    const struct xt_file_tensor *symbols = xt_weight_file_find(&file, "labels");
    const struct xt_file_tensor *lengths = xt_weight_file_find(&file, "label_lengths");
    assert_true(given && expected && symbols && lengths);
    assert_int_equal(xt_file_tensor_count(given), N * T * C);
    const float *theirs = given->data;
    static float logits[N * T * C];
    for (int n = 0; n < N; n++)
        for (int t = 0; t < T; t++)
            for (int k = 0; k < C; k++)
                logits[(n * T + t) * C + k] = theirs[(n * C + k) * T + t];
    int labels[N][LABEL];
    const int32_t *next = symbols->data;
    const int *label_lengths = lengths->data;
    for (int n = 0; n < N; next += label_lengths[n++])
        memcpy(labels[n], next, (size_t)label_lengths[n] * sizeof *next);
    float losses[N];
    struct xt_ctc *ctc = loss_for(N, T, C, LABEL);
    double mean = xt_ctc_loss(ctc, logits, labels[0], LABEL, label_lengths, N, C - 1, losses, NULL);
    double golden = (double)*(const float *)expected->data;
    assert_true(fabs(mean - golden) < 1e-6 * golden);
    xt_ctc_destroy(ctc);
    xt_weight_file_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_sum_over_all_alignments),
        cmocka_unit_test(the_gradient_is_that_of_the_mean),
        cmocka_unit_test(a_label_that_cannot_be_aligned_has_an_infinite_loss_and_no_gradient),
        cmocka_unit_test(an_empty_label_is_not_part_of_the_mean),
        cmocka_unit_test(a_negative_wants_blanks_alone),
        cmocka_unit_test(large_logits_stay_numbers),
        cmocka_unit_test(a_certain_answer_costs_nothing),
        cmocka_unit_test(a_logit_that_is_not_a_number_shows_in_the_loss),
        cmocka_unit_test(the_golden_loss_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
