/* A label of L symbols has 2L + 1 states: blank, symbol, blank, ..., blank. alpha[t][s] is the log
 * probability of all ways to be in state s at step t; beta is the same seen from the end, and is
 * computed as the alpha of the mirrored problem. The inner loops carry their own exp and log, so
 * that they become vector code and give the same bits with every C library.
 */
#include "train/losses/ctc.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

/* Two states of probability zero stand before state 0 in every row, so that s - 1 and s - 2 need no
 * test. */
enum { PAD = 2 };

/* What a step's softmax subtracts from its logits: kept in two parts, because their sum would lose
 * the small one where logits are large. */
struct row_norm {
    float max;
    float log_sum;
};

/* A label read from its start (step 1) or, mirrored, from its end (step -1). */
struct reading {
    const int *first;
    ptrdiff_t step;
    int length;
};

struct xt_ctc {
    int n_max;
    int t;
    int classes;
    int states_max;
    size_t floats; /* of scratch a sample */
    float *scratch;
};

/* A sample's scratch, cut up. */
struct workspace {
    struct row_norm *norms; /* [t] */
    float *softmax;         /* [classes], where no gradient is wanted */
    float *skip;            /* [states] */
    float *skip_mirrored;
    float *emit;
    float *weights;
    float *alpha; /* [t][PAD + states] */
    float *beta;  /* [2][PAD + states] */
};

/* e^x for x <= 0 (or not a number), to 2 units in the last place: 2^n times the Taylor series of
 * e^r, |r| <= ln 2 / 2. Below -87 it is 0. Choices
 * are arithmetic, here and below, because a branch would keep loops from becoming vector code. */
static inline float exp_of_negative(float x)
{
    const float to_integer = 0x1.8p23f;
    float shifted = x * 0x1.715476p+0f + to_integer;
    float n = shifted - to_integer;
    float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t bits = xt_float_bits(shifted) - 0x4B400000u + 127u;
    uint32_t kept = (uint32_t)(x < -87.0f) - 1u;
    return xt_float_of_bits(xt_float_bits(p * xt_float_of_bits(bits << 23)) & kept);
}

/* ln x for x in [1, 3] (something finite for 0), by the series of 2 artanh((x - 1) / (x + 1)); x
 * above sqrt 3 is divided by 3 first. */
static inline float log_of_1_to_3(float x)
{
    uint32_t large = (uint32_t)(x < 1.7320508f) - 1u;
    float y = x - x * xt_float_of_bits(xt_float_bits(2.0f / 3) & large);
    float z = (y - 1.0f) / (y + 1.0f);
    float w = z * z;
    float p = 1.0f / 13;
    p = p * w + 1.0f / 11;
    p = p * w + 1.0f / 9;
    p = p * w + 1.0f / 7;
    p = p * w + 1.0f / 5;
    p = p * w + 1.0f / 3;
    return 2.0f * (z + z * w * p) + xt_float_of_bits(xt_float_bits(1.0986123f) & large);
}

static inline int symbol_at(const struct reading *label, int index)
{
    return label->first[index * label->step];
}

/* A label needs a step a symbol and one for the blank between two equal ones. */
static bool can_align(const int *label, int length, int t)
{
    if (length > t)
        return false;
    int steps = length;
    for (int i = 1; i < length; i++)
        steps += label[i] == label[i - 1];
    return steps <= t;
}

/* The largest of `count` values, found in lanes side by side. */
static float max_of(const float *values, int count)
{
    enum { LANES = 8 };
    float max[LANES];
    for (int j = 0; j < LANES; j++)
        max[j] = values[0];
    int i = 0;
    for (; i + LANES <= count; i += LANES)
#pragma omp simd
        for (int j = 0; j < LANES; j++)
            max[j] = values[i + j] > max[j] ? values[i + j] : max[j];
    for (; i < count; i++)
        max[0] = values[i] > max[0] ? values[i] : max[0];
    for (int j = 1; j < LANES; j++)
        max[0] = max[j] > max[0] ? max[j] : max[0];
    return max[0];
}

/* softmax[k] becomes e^(logits[k] - max); their sum goes to *sum. */
static struct row_norm normalise(const float *logits, int classes, float *softmax, float *sum)
{
    float max = max_of(logits, classes);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int k = 0; k < classes; k++) {
        float e = exp_of_negative(logits[k] - max);
        softmax[k] = e;
        total += e;
    }
    *sum = total;
    return (struct row_norm){.max = max, .log_sum = logf(total)};
}

/* The same where the exponentials are not wanted. */
static struct row_norm norm_of(const float *logits, int classes)
{
    float max = max_of(logits, classes);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int k = 0; k < classes; k++)
        total += exp_of_negative(logits[k] - max);
    return (struct row_norm){.max = max, .log_sum = logf(total)};
}

/* 0 where a state may be entered from two before it (a symbol that differs from the last one),
 * minus infinity elsewhere. */
static void fill_skip(const struct reading *label, float *skip)
{
    int states = 2 * label->length + 1;
    for (int s = 0; s < states; s++)
        skip[s] = -INFINITY;
    for (int i = 1; i < label->length; i++)
        if (symbol_at(label, i) != symbol_at(label, i - 1))
            skip[2 * i + 1] = 0;
}

/* Each state's log probability of its own symbol at one step. */
static void fill_emit(const struct reading *label, const float *logits, struct row_norm norm,
                      int blank, float *emit)
{
    float of_blank = (logits[blank] - norm.max) - norm.log_sum;
    for (int i = 0; i < label->length; i++) {
        emit[2 * i] = of_blank;
        emit[2 * i + 1] = (logits[symbol_at(label, i)] - norm.max) - norm.log_sum;
    }
    emit[2 * label->length] = of_blank;
}

/* The row of the first step: `row` is state 0, with its padding before it. */
static void start_row(const float *emit, int states, float *row)
{
    for (int s = -PAD; s < states; s++)
        row[s] = -INFINITY;
    row[0] = emit[0];
    if (states > 1)
        row[1] = emit[1];
}

/* Each state's probability is the sum of three of the step before. */
static void advance_row(const float *restrict before, const float *restrict skip,
                        const float *restrict emit, int states, float *restrict after)
{
    after[-1] = after[-2] = -INFINITY;
#pragma omp simd
    for (int s = 0; s < states; s++) {
        float stay = before[s];
        float next = before[s - 1];
        float jump = before[s - 2] + skip[s];
        float max = stay > next ? stay : next;
        max = jump > max ? jump : max;
        /* -inf less -inf is not a number: where all three are impossible, the sum is 0. */
        float base = max > -FLT_MAX ? max : -FLT_MAX;
        float sum = exp_of_negative(stay - base) + exp_of_negative(next - base) +
                    exp_of_negative(jump - base);
        after[s] = max + log_of_1_to_3(sum) + emit[s];
    }
}

/* A path may end in the last blank or the last symbol. */
static double row_total(const float *row, int states)
{
    double last = row[states - 1];
    double before = states > 1 ? (double)row[states - 2] : -HUGE_VAL;
    double max = last > before ? last : before;
    double min = last > before ? before : last;
    return isinf(max) ? max : max + log1p(exp(min - max));
}

double xt_ctc_log_probability(const float *logits, int t, int classes, const int *label, int length,
                              int blank)
{
    assert(t > 0 && t <= XT_CTC_STEPS_MAX);
    if (!can_align(label, length, t))
        return -HUGE_VAL;
    enum { STATES = 2 * XT_CTC_STEPS_MAX + 1 };
    float skip[STATES];
    float emit[STATES];
    float rows[2][PAD + STATES];
    struct reading reading = {.first = label, .step = 1, .length = length};
    int states = 2 * length + 1;
    fill_skip(&reading, skip);
    for (int i = 0; i < t; i++) {
        const float *at = logits + (size_t)i * (size_t)classes;
        fill_emit(&reading, at, norm_of(at, classes), blank, emit);
        if (i == 0)
            start_row(emit, states, rows[0] + PAD);
        else
            advance_row(rows[(i + 1) % 2] + PAD, skip, emit, states, rows[i % 2] + PAD);
    }
    return row_total(rows[(t + 1) % 2] + PAD, states);
}

enum xt_status xt_ctc_create(struct xt_ctc **out, int n_max, int t, int classes, int label_max,
                             struct xt_err *err)
{
    assert(n_max > 0 && t > 0 && classes > 0 && label_max >= 0);
    *out = NULL;
    struct xt_ctc *ctc = NULL;
    enum xt_status status = xt_mem_calloc(&ctc, 1, sizeof *ctc, "the CTC loss", err);
    if (status)
        return status;
    /* Longer labels than t cannot be aligned, and are never laid out. */
    size_t states = 2 * (size_t)(label_max < t ? label_max : t) + 1;
    size_t row = states + PAD;
    size_t count = 0;
    if (__builtin_mul_overflow((size_t)t, row, &count) ||
        __builtin_add_overflow(count, 2 * (size_t)t + (size_t)classes + 4 * states + 2 * row,
                               &ctc->floats) ||
        __builtin_mul_overflow(ctc->floats, (size_t)n_max, &count) || states > INT32_MAX) {
        status = xt_err_no_memory(err, "the CTC loss", SIZE_MAX);
        goto out;
    }
    ctc->n_max = n_max;
    ctc->t = t;
    ctc->classes = classes;
    ctc->states_max = (int)states;
    status = xt_mem_aligned(&ctc->scratch, count, sizeof *ctc->scratch, "the CTC loss", err);
out:
    if (status)
        xt_ctc_destroy(ctc);
    else
        *out = ctc;
    return status;
}

void xt_ctc_destroy(struct xt_ctc *ctc)
{
    if (!ctc)
        return;
    free(ctc->scratch);
    free(ctc);
}

static struct workspace workspace_of(const struct xt_ctc *ctc, int sample)
{
    float *at = ctc->scratch + (size_t)sample * ctc->floats;
    size_t states = (size_t)ctc->states_max;
    struct workspace work = {.norms = (struct row_norm *)at};
    at += 2 * (size_t)ctc->t;
    work.softmax = at;
    at += ctc->classes;
    work.skip = at;
    work.skip_mirrored = at + states;
    work.emit = at + 2 * states;
    work.weights = at + 3 * states;
    at += 4 * states;
    work.beta = at;
    work.alpha = at + 2 * (states + PAD);
    return work;
}

/* Alpha of every step, and the softmax times `scale` into grad. Returns ln P(label). */
static double forward(const struct xt_ctc *ctc, const struct workspace *work, const float *logits,
                      const struct reading *label, int blank, float *grad, float scale)
{
    int states = 2 * label->length + 1;
    size_t row = (size_t)states + PAD;
    size_t classes = (size_t)ctc->classes;
    fill_skip(label, work->skip);
    for (int t = 0; t < ctc->t; t++) {
        const float *at = logits + (size_t)t * classes;
        float *softmax = grad ? grad + (size_t)t * classes : work->softmax;
        float sum = 0;
        work->norms[t] = normalise(at, ctc->classes, softmax, &sum);
        if (grad) {
            float factor = scale / sum;
#pragma omp simd
            for (size_t k = 0; k < classes; k++)
                softmax[k] *= factor;
        }
        fill_emit(label, at, work->norms[t], blank, work->emit);
        float *alpha = work->alpha + (size_t)t * row + PAD;
        if (t == 0)
            start_row(work->emit, states, alpha);
        else
            advance_row(alpha - row, work->skip, work->emit, states, alpha);
    }
    return row_total(work->alpha + (size_t)(ctc->t - 1) * row + PAD, states);
}

/* weights[s] becomes the probability, up to their sum that is returned, that an alignment of the
 * label is in state s at this step. beta and emit are mirrored; emit counts once, but is in both
 * alpha and beta. */
static float occupy(const float *restrict alpha, const float *restrict beta,
                    const float *restrict emit, int states, float *restrict weights)
{
    float max = -INFINITY;
    for (int s = 0; s < states; s++) {
        float both = alpha[s] + (beta[states - 1 - s] - emit[states - 1 - s]);
        weights[s] = alpha[s] == -INFINITY ? -INFINITY : both;
        max = weights[s] > max ? weights[s] : max;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int s = 0; s < states; s++) {
        weights[s] = exp_of_negative(weights[s] - max);
        sum += weights[s];
    }
    return sum;
}

/* Takes the expected alignment, times `scale`, from the softmax that forward left in grad. Each
 * step's weights are divided by their own sum and not by P(label): the sums are equal but for
 * rounding, and so every step's gradient sums to zero. */
static void backward(const struct xt_ctc *ctc, const struct workspace *work, const float *logits,
                     const struct reading *label, int blank, float *grad, float scale)
{
    int states = 2 * label->length + 1;
    size_t row = (size_t)states + PAD;
    struct reading mirrored = {
        .first = label->first + label->length - 1, .step = -1, .length = label->length};
    fill_skip(&mirrored, work->skip_mirrored);
    for (int t = ctc->t - 1; t >= 0; t--) {
        const float *at = logits + (size_t)t * (size_t)ctc->classes;
        fill_emit(&mirrored, at, work->norms[t], blank, work->emit);
        float *beta = work->beta + (size_t)(t % 2) * row + PAD;
        float *after = work->beta + (size_t)((t + 1) % 2) * row + PAD;
        if (t == ctc->t - 1)
            start_row(work->emit, states, beta);
        else
            advance_row(after, work->skip_mirrored, work->emit, states, beta);
        float sum =
            occupy(work->alpha + (size_t)t * row + PAD, beta, work->emit, states, work->weights);
        float factor = scale / sum;
        float *to = grad + (size_t)t * (size_t)ctc->classes;
        float of_blank = work->weights[0];
        for (int i = 0; i < label->length; i++) {
            to[symbol_at(label, i)] -= factor * work->weights[2 * i + 1];
            of_blank += work->weights[2 * i + 2];
        }
        to[blank] -= factor * of_blank;
    }
}

/* The loss of one sample; `scale` (0 for none) is the weight of its gradient. */
static float sample_loss(const struct xt_ctc *ctc, int sample, const float *logits,
                         const int *label, int length, int blank, float *grad, float scale)
{
    double log_p = -HUGE_VAL;
    if (can_align(label, length, ctc->t)) {
        assert(2 * length + 1 <= ctc->states_max);
        struct workspace work = workspace_of(ctc, sample);
        struct reading reading = {.first = label, .step = 1, .length = length};
        float *wanted = length > 0 ? grad : NULL;
        log_p = forward(ctc, &work, logits, &reading, blank, wanted, scale);
        if (wanted && !(isinf(log_p) && log_p < 0)) {
            backward(ctc, &work, logits, &reading, blank, wanted, scale);
            return (float)-log_p;
        }
    }
    if (grad)
        memset(grad, 0, (size_t)ctc->t * (size_t)ctc->classes * sizeof *grad);
    return (float)-log_p;
}

double xt_ctc_loss(struct xt_ctc *ctc, const float *logits, const int *labels, size_t label_stride,
                   const int *label_lengths, int n, int blank, float *losses, float *grad)
{
    assert(n <= ctc->n_max);
    int counted = 0;
    for (int i = 0; i < n; i++)
        counted += label_lengths[i] > 0;
    size_t image = (size_t)ctc->t * (size_t)ctc->classes;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        int length = label_lengths[i];
        float scale = length > 0 ? (float)(1.0 / ((double)length * counted)) : 0;
        losses[i] =
            sample_loss(ctc, i, logits + (size_t)i * image, labels + (size_t)i * label_stride,
                        length, blank, grad ? grad + (size_t)i * image : NULL, scale);
    }
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (label_lengths[i] > 0)
            sum += (double)losses[i] / label_lengths[i];
    return counted ? sum / counted : 0;
}
