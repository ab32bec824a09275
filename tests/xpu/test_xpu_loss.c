/* The losses on the test double of a GPU, against the definition in double precision and beside the
 * host's own. */
#include "train/losses/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/executor.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "support.h"

enum { BATCH = 6, T_MAX = 40, CLASSES_MAX = 600 };

/* ---- the definition ---- */

static double add(double a, double b)
{
    double max = fmax(a, b);
    return isinf(max) && max < 0 ? max : max + log(exp(a - max) + exp(b - max));
}

/* The symbol of a state, the blank between two symbols. */
static int symbol_of(const int *label, int blank, int s)
{
    return s % 2 ? label[s / 2] : blank;
}

static bool may_skip(const int *label, int s)
{
    return s % 2 && s > 1 && label[s / 2] != label[s / 2 - 1];
}

/* From a sample's logits: ln P(label), and its gradient by the logits. */
static double exact_ctc(const double *logits, int t_count, int classes, int blank, const int *label,
                        int length, double *grad)
{
    enum { STATES = 2 * XT_LABEL_MAX + 1 };
    static double p[T_MAX][CLASSES_MAX], alpha[T_MAX][STATES], beta[T_MAX][STATES];
    int states = 2 * length + 1;
    for (int t = 0; t < t_count; t++) {
        double sum = -HUGE_VAL;
        for (int k = 0; k < classes; k++)
            sum = add(sum, logits[t * classes + k]);
        for (int k = 0; k < classes; k++)
            p[t][k] = logits[t * classes + k] - sum;
    }
    for (int t = 0; t < t_count; t++)
        for (int s = 0; s < states; s++) {
            double before = t == 0 && s < 2 ? 0 : -HUGE_VAL;
            for (int from = s; t && from >= 0 && from >= s - 1 - may_skip(label, s); from--)
                before = add(before, alpha[t - 1][from]);
            alpha[t][s] = before + p[t][symbol_of(label, blank, s)];
        }
    for (int t = t_count - 1; t >= 0; t--)
        for (int s = states - 1; s >= 0; s--) {
            beta[t][s] = t == t_count - 1 && s >= states - 2 ? 0 : -HUGE_VAL;
            for (int to = s; t < t_count - 1 && to < states && to <= s + 2; to++)
                if (to < s + 2 || may_skip(label, to))
                    beta[t][s] =
                        add(beta[t][s], beta[t + 1][to] + p[t + 1][symbol_of(label, blank, to)]);
        }
    double total = alpha[t_count - 1][states - 1];
    if (states > 1)
        total = add(total, alpha[t_count - 1][states - 2]);
    for (int t = 0; t < t_count; t++) {
        for (int k = 0; k < classes; k++)
            grad[t * classes + k] = isinf(total) ? 0 : exp(p[t][k]);
        for (int s = 0; s < states && !isinf(total); s++)
            grad[t * classes + symbol_of(label, blank, s)] -= exp(alpha[t][s] + beta[t][s] - total);
    }
    return total;
}

/* ---- a graph whose logits are written ---- */

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_alphabet *alphabet;
    struct xt_network network;
    struct xt_loss *loss;
    int t, classes;
    size_t count;
    float *logits, *grad, *host_grad;
    int labels[BATCH * XT_LABEL_MAX], lengths[BATCH];
    struct xt_batch batch;
};

/* As many symbols as classes. */
static void open_alphabet(struct bench *bench, enum xt_blank blank)
{
    char text[2 * CLASSES_MAX];
    struct xt_err err = {0};
    for (int i = 0; i < bench->classes; i++) {
        text[2 * i] = (char)(0xC4 + i / 64);
        text[2 * i + 1] = (char)(0x80 + i % 64);
    }
    if (xt_alphabet_create_blank(&bench->alphabet, text, 2 * (size_t)bench->classes, blank, "it",
                                 &err))
        fail_msg("%s", err.text);
    bench->network.alphabet = bench->alphabet;
}

static void open_bench(struct bench *bench, int t, int classes, enum xt_blank blank,
                       double smoothing)
{
    static struct xt_model_info model;
    struct xt_err err = {0};
    *bench = (struct bench){.t = t, .classes = classes};
    if (xt_device_open(&bench->device, "xpu", 0, &err))
        fail_msg("%s", err.text);
    const struct xt_graph_options options = {
        .device = &bench->device, .params = &bench->params, .batch = BATCH, .training = true};
    const struct xt_normalise same = {.scale = {1, 1, 1}};
    const struct xt_conv_spec spec = {
        .name = "head", .channels = classes, .kernel_h = 1, .kernel_w = 1};
    int steps = t ? t : 1;
    assert_int_equal(xt_graph_create(&bench->graph, &options, &err), XT_OK);
    struct xt_tensor *logits =
        xt_graph_conv(bench->graph, xt_graph_input(bench->graph, 1, steps, 3, &same), &spec);
    if (xt_graph_build(bench->graph, logits, &err))
        fail_msg("%s", err.text);
    model = (struct xt_model_info){.time_steps = t};
    bench->network = (struct xt_network){.task = t ? XT_TASK_PLATES : XT_TASK_CLASSES,
                                         .batch = BATCH,
                                         .classes = classes,
                                         .model = &model};
    if (t)
        open_alphabet(bench, blank);
    if (xt_loss_create(&bench->loss, &bench->network, smoothing, &err) ||
        xt_loss_place(bench->loss, bench->graph, &err))
        fail_msg("%s", err.text);
    assert_true(xt_loss_is_on_device(bench->loss));
    bench->count = (size_t)BATCH * (size_t)steps * (size_t)classes;
    float **arrays[] = {&bench->logits, &bench->grad, &bench->host_grad};
    for (int i = 0; i < 3; i++) {
        *arrays[i] = calloc(bench->count, sizeof(float));
        assert_non_null(*arrays[i]);
    }
    bench->batch =
        (struct xt_batch){.count = BATCH, .labels = bench->labels, .label_lengths = bench->lengths};
}

static void close_bench(struct bench *bench)
{
    xt_loss_destroy(bench->loss);
    xt_graph_destroy(bench->graph);
    xt_params_clear(&bench->params);
    xt_alphabet_destroy(bench->alphabet);
    xt_device_close(&bench->device);
    free(bench->logits);
    free(bench->grad);
    free(bench->host_grad);
}

static void fill(struct bench *bench, uint64_t seed, float scale)
{
    struct xt_rng rng = xt_rng_begin(seed, 0);
    for (size_t i = 0; i < bench->count; i++)
        bench->logits[i] = scale * (2 * xt_rng_uniform(&rng) - 1);
}

static const struct xt_buffer *grad_of(const struct bench *bench)
{
    return bench->graph->logits->grad[bench->graph->logits->readers - 1];
}

/* The device's mean; its gradient in bench->grad. */
static double compute(struct bench *bench, float scale)
{
    struct xt_err err = {0};
    double mean = NAN;
    if (xt_graph_write(bench->graph, bench->graph->logits->value, XT_F32, bench->logits,
                       bench->count, &err) ||
        xt_loss_begin(bench->loss, &bench->batch, scale, &err) ||
        xt_loss_wait(bench->loss, &bench->batch, &mean, &err) ||
        xt_graph_read_back(bench->graph, grad_of(bench), XT_F32, bench->grad, bench->count, &err))
        fail_msg("%s", err.text);
    return mean;
}

/* Labels that count and can be aligned add to the mean; what is infinite makes it infinite. */
static void check_ctc(struct bench *bench, int blank, float scale)
{
    /* Logarithms are rounded relative to their size, and add up over the steps. */
    const double rounding = 4 * 0x1p-23;
    size_t image = (size_t)bench->t * (size_t)bench->classes;
    double *logits = calloc(image, sizeof *logits);
    double *grad = calloc(image, sizeof *grad);
    assert_non_null(logits);
    assert_non_null(grad);
    int counted = 0;
    double wanted = 0;
    for (int i = 0; i < bench->batch.count; i++)
        counted += bench->lengths[i] != 0;
    double mean = compute(bench, scale);
    for (int i = 0; i < BATCH; i++) {
        int length = bench->lengths[i] > 0 ? bench->lengths[i] : 0;
        bool counts = i < bench->batch.count && bench->lengths[i] != 0;
        double share = length ? length : bench->t;
        double weight = counts ? (double)scale / (share * counted) : 0;
        for (size_t k = 0; k < image; k++)
            logits[k] = (double)bench->logits[(size_t)i * image + k];
        double log_p = exact_ctc(logits, bench->t, bench->classes, blank,
                                 bench->labels + i * XT_LABEL_MAX, length, grad);
        wanted -= counts ? log_p / share / counted : 0;
        double tolerance = isinf(log_p) ? 0 : rounding * (1 + fabs(log_p)) * weight;
        for (size_t k = 0; k < image; k++) {
            double got = (double)bench->grad[(size_t)i * image + k];
            if (!(fabs(got - weight * grad[k]) <= tolerance))
                fail_msg("sample %d, element %zu: %g, not %g", i, k, got, weight * grad[k]);
        }
    }
    double host = xt_loss_mean(bench->loss, &bench->batch, bench->logits, bench->host_grad);
    if (isinf(wanted))
        assert_true(isinf(mean) && isinf(host));
    else if (!(fabs(mean - wanted) <= rounding * (1 + fabs(wanted))) ||
             !(fabs(mean - host) <= rounding * (1 + fabs(wanted))))
        fail_msg("the mean is %.9g, not %.9g; the host's is %.9g", mean, wanted, host);
    free(logits);
    free(grad);
}

static void random_labels(struct bench *bench, uint64_t seed, int blank, int most)
{
    for (int i = 0; i < BATCH; i++) {
        bench->lengths[i] = (int)(xt_rng_at(seed, (uint64_t)i, 99) % (unsigned)most) + 1;
        for (int k = 0; k < bench->lengths[i]; k++) {
            int symbol =
                (int)(xt_rng_at(seed, (uint64_t)i, (uint64_t)k) % (unsigned)(bench->classes - 1));
            bench->labels[i * XT_LABEL_MAX + k] = symbol + (symbol >= blank);
        }
    }
}

static void need_double(void)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
}

static void set_label(struct bench *bench, int i, int length, const char *digits)
{
    bench->lengths[i] = length;
    for (int k = 0; digits[k]; k++)
        bench->labels[i * XT_LABEL_MAX + k] = digits[k] - '0';
}

static void ctc_is_the_definition(void **state)
{
    (void)state;
    need_double();
    /* LPRNet's; more steps than a work-group has lines; one step; one symbol and the blank. */
    static const struct {
        int t, classes, most;
    } shapes[] = {{18, 68, 8}, {T_MAX, 37, XT_LABEL_MAX}, {1, 5, 1}, {7, 2, 4}, {18, 600, 18}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct bench bench;
        open_bench(&bench, shapes[i].t, shapes[i].classes, i % 2 ? XT_BLANK_FIRST : XT_BLANK_LAST,
                   0);
        int blank = xt_alphabet_blank(bench.alphabet);
        for (uint64_t seed = 1; seed <= 4; seed++) {
            random_labels(&bench, seed, blank, shapes[i].most);
            fill(&bench, seed, seed == 4 ? 30 : 3);
            bench.batch.count = seed == 2 ? BATCH - 2 : BATCH;
            check_ctc(&bench, blank, seed == 3 ? 1024 : 1);
        }
        close_bench(&bench);
    }
}

static void ctc_of_hard_labels_is_the_definition(void **state)
{
    (void)state;
    need_double();
    struct bench bench;
    open_bench(&bench, 6, 4, XT_BLANK_FIRST, 0);
    int blank = xt_alphabet_blank(bench.alphabet);
    assert_int_equal(blank, 0);
    fill(&bench, 9, 4);
    set_label(&bench, 0, 3, "111");              /* it just fits */
    set_label(&bench, 1, 6, "123123");           /* each step is a symbol */
    set_label(&bench, 2, XT_LABEL_NEGATIVE, ""); /* blanks alone */
    set_label(&bench, 3, 0, "1");                /* does not count */
    set_label(&bench, 4, 4, "1221");
    set_label(&bench, 5, 1, "3");
    check_ctc(&bench, blank, 1);
    /* Twice the same bits. */
    float *before = malloc(bench.count * sizeof *before);
    assert_non_null(before);
    memcpy(before, bench.grad, bench.count * sizeof *before);
    compute(&bench, 1);
    assert_memory_equal(before, bench.grad, bench.count * sizeof *before);
    free(before);
    set_label(&bench, 4, 4, "1111"); /* wants seven steps */
    check_ctc(&bench, blank, 1);
    set_label(&bench, 4, 8, "12312312"); /* longer than the steps */
    check_ctc(&bench, blank, 1);
    /* A probability of 0, and numbers that are none. */
    set_label(&bench, 4, 1, "2");
    bench.logits[5 * 24] = INFINITY;
    assert_true(!isfinite(compute(&bench, 1)));
    bench.logits[5 * 24] = NAN;
    assert_true(isnan(compute(&bench, 1)));
    assert_true(isnan(bench.grad[5 * 24]));
    for (int t = 0; t < 6; t++)
        bench.logits[5 * 24 + t * 4 + 3] = -INFINITY;
    bench.logits[5 * 24] = 0;
    assert_true(isinf(compute(&bench, 1)));
    for (int k = 0; k < 24; k++)
        assert_true(bench.grad[5 * 24 + k] == 0);
    close_bench(&bench);
}

static void check_classes(struct bench *bench)
{
    double mean = compute(bench, 8);
    double host = xt_loss_mean(bench->loss, &bench->batch, bench->logits, bench->host_grad);
    if (!(fabs(mean - host) <= 2e-6 * (1 + fabs(host))))
        fail_msg("the mean is %.9g, the host's %.9g", mean, host);
    size_t classes = (size_t)bench->classes;
    for (size_t i = 0; i < (size_t)bench->batch.count * classes; i++)
        if (!(fabs((double)bench->grad[i] - 8 * (double)bench->host_grad[i]) <= 2e-6))
            fail_msg("element %zu: %g, not %g", i, (double)bench->grad[i],
                     8 * (double)bench->host_grad[i]);
    for (size_t i = (size_t)bench->batch.count * classes; i < bench->count; i++)
        assert_true(bench->grad[i] == 0);
}

/* The host's is computed in double precision. */
static void cross_entropy_is_the_hosts(void **state)
{
    (void)state;
    need_double();
    static const int classes[] = {2, 10, CLASSES_MAX};
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
        struct bench bench;
        open_bench(&bench, 0, classes[c], XT_BLANK_LAST, c == 1 ? 0 : 0.1);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            fill(&bench, seed, seed == 3 ? 40 : 4);
            for (int i = 0; i < BATCH; i++) {
                bench.lengths[i] = 1;
                bench.labels[i * XT_LABEL_MAX] =
                    (int)(xt_rng_at(seed, 7, (uint64_t)i) % (unsigned)classes[c]);
            }
            bench.batch.mixup = (struct xt_mixup){0};
            bench.batch.count = BATCH;
            check_classes(&bench);
            bench.batch.mixup =
                (struct xt_mixup){.alpha = 1, .seed = seed, .step = 5, .count = BATCH};
            check_classes(&bench);
            bench.batch.mixup = (struct xt_mixup){0};
            bench.lengths[1] = 0;
            bench.lengths[2] = XT_LABEL_NEGATIVE;
            bench.batch.count = BATCH - 1;
            check_classes(&bench);
        }
        bench.logits[0] = NAN;
        assert_true(isnan(compute(&bench, 1)));
        close_bench(&bench);
    }
}

/* ---- on the logits of real networks, from the golden files ---- */

enum { GOLDEN_BATCH = 4, SYMBOLS = 67, STEPS = 18, TARGETS = 10 };

static const struct xt_file_tensor *golden(const struct xt_weight_file *file, const char *prefix,
                                           const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct xt_file_tensor *tensor = xt_weight_file_find(file, full);
    assert_non_null(tensor);
    return tensor;
}

static void read_golden(struct xt_weight_file *file, const char *name)
{
    struct xt_err err = {0};
    if (xt_weight_file_read(file, support_shared(name), XT_MODEL_BYTES_MAX, &err))
        fail_msg("%s", err.text);
}

/* A network's logits are off by 1e-6 from what its reference's loss is of; the loss itself is not.
 */
static void assert_reference(const struct xt_weight_file *file, const char *prefix, double mean)
{
    float losses[5];
    assert_int_equal(xt_file_tensor_floats(golden(file, prefix, "train.losses"), losses, 5, NULL),
                     XT_OK);
    if (!(fabs(mean - (double)losses[0]) <= 1e-6 * (double)losses[0]))
        fail_msg("%s: the mean is %.9g, the reference's %.9g", prefix, mean, (double)losses[0]);
}

/* The file has a sample's logits by class, then step. */
static void take_plates(struct bench *bench, const struct xt_weight_file *file, const char *prefix)
{
    float logits[GOLDEN_BATCH * STEPS * (SYMBOLS + 1)];
    const size_t image = (size_t)STEPS * (SYMBOLS + 1);
    assert_int_equal(xt_file_tensor_floats(golden(file, prefix, "train.logits"), logits,
                                           sizeof logits / sizeof *logits, NULL),
                     XT_OK);
    for (size_t i = 0; i < GOLDEN_BATCH; i++)
        for (size_t t = 0; t < STEPS; t++)
            for (size_t k = 0; k <= SYMBOLS; k++)
                bench->logits[i * image + t * (SYMBOLS + 1) + k] =
                    logits[i * image + k * STEPS + t];
}

static void take_labels(struct bench *bench, const struct xt_weight_file *file)
{
    const int32_t *symbol = golden(file, "", "labels")->data;
    const int32_t *lengths = golden(file, "", "label_lengths")->data;
    for (int i = 0; i < GOLDEN_BATCH; i++) {
        bench->lengths[i] = lengths[i];
        for (int k = 0; k < lengths[i]; k++)
            bench->labels[i * XT_LABEL_MAX + k] = *symbol++;
    }
}

static void ctc_of_lprnets_logits_is_the_definition_and_the_references(void **state)
{
    (void)state;
    need_double();
    static const char *const prefixes[] = {"sample.", "batch."};
    struct bench bench;
    struct xt_weight_file file;
    read_golden(&file, "golden/lprnet.safetensors");
    open_bench(&bench, STEPS, SYMBOLS + 1, XT_BLANK_LAST, 0);
    take_labels(&bench, &file);
    bench.batch.count = GOLDEN_BATCH;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        take_plates(&bench, &file, prefixes[i]);
        check_ctc(&bench, SYMBOLS, 1);
        assert_reference(&file, prefixes[i], compute(&bench, 1));
    }
    close_bench(&bench);
    xt_weight_file_clear(&file);
}

/* -ln p of the target, and the gradient of the mean, in double precision. */
static double exact_classes(const float *logits, int target, double *grad)
{
    double sum = 0;
    for (int k = 0; k < TARGETS; k++)
        sum += exp((double)logits[k]);
    for (int k = 0; k < TARGETS; k++)
        grad[k] = (exp((double)logits[k]) / sum - (k == target)) / GOLDEN_BATCH;
    return log(sum) - (double)logits[target];
}

static void cross_entropy_of_resnets_logits_is_the_definition_and_the_references(void **state)
{
    (void)state;
    need_double();
    struct bench bench;
    struct xt_weight_file file;
    double wanted = 0;
    read_golden(&file, "golden/resnet50.safetensors");
    const int32_t *target = golden(&file, "", "target")->data;
    open_bench(&bench, 0, TARGETS, XT_BLANK_LAST, 0);
    bench.batch.count = GOLDEN_BATCH;
    assert_int_equal(xt_file_tensor_floats(golden(&file, "", "train.logits"), bench.logits,
                                           (size_t)GOLDEN_BATCH * TARGETS, NULL),
                     XT_OK);
    for (int i = 0; i < GOLDEN_BATCH; i++) {
        bench.lengths[i] = 1;
        bench.labels[i * XT_LABEL_MAX] = target[i];
    }
    double mean = compute(&bench, 1);
    for (int i = 0; i < GOLDEN_BATCH; i++) {
        double grad[TARGETS];
        wanted += exact_classes(bench.logits + i * TARGETS, target[i], grad) / GOLDEN_BATCH;
        for (int k = 0; k < TARGETS; k++)
            if (!(fabs((double)bench.grad[i * TARGETS + k] - grad[k]) <= 2e-7))
                fail_msg("sample %d, class %d: %g, not %g", i, k,
                         (double)bench.grad[i * TARGETS + k], grad[k]);
    }
    if (!(fabs(mean - wanted) <= 4e-7 * (1 + wanted)))
        fail_msg("the mean is %.9g, not %.9g", mean, wanted);
    assert_reference(&file, "", mean);
    close_bench(&bench);
    xt_weight_file_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctc_is_the_definition),
        cmocka_unit_test(ctc_of_hard_labels_is_the_definition),
        cmocka_unit_test(cross_entropy_is_the_hosts),
        cmocka_unit_test(ctc_of_lprnets_logits_is_the_definition_and_the_references),
        cmocka_unit_test(cross_entropy_of_resnets_logits_is_the_definition_and_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
