/* The inner loops have their own exp and log, so that they vectorise and give the same bits with
 * every C library.
 */
#include "infer/answer/ctc_recursion.h"

#include <assert.h>
#include <float.h>
#include <math.h>

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

bool xt_ctc_can_align(const int *label, int length, int t)
{
    if (length > t)
        return false;
    int steps = length;
    for (int i = 1; i < length; i++)
        steps += label[i] == label[i - 1];
    return steps <= t;
}

/* The largest of `count` values, WIDTH at a time. */
static float max_of(const float *values, int count)
{
    enum { WIDTH = 8 };
    float max[WIDTH];
    for (int j = 0; j < WIDTH; j++)
        max[j] = values[0];
    int i = 0;
    for (; i + WIDTH <= count; i += WIDTH)
#pragma omp simd
        for (int j = 0; j < WIDTH; j++)
            max[j] = values[i + j] > max[j] ? values[i + j] : max[j];
    for (; i < count; i++)
        max[0] = values[i] > max[0] ? values[i] : max[0];
    for (int j = 1; j < WIDTH; j++)
        max[0] = max[j] > max[0] ? max[j] : max[0];
    return max[0];
}

struct xt_ctc_norm xt_ctc_softmax(const float *logits, int classes, float *softmax, float *sum)
{
    float max = max_of(logits, classes);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int k = 0; k < classes; k++) {
        float e = xt_ctc_exp(logits[k] - max);
        softmax[k] = e;
        total += e;
    }
    *sum = total;
    return (struct xt_ctc_norm){.max = max, .log_sum = logf(total)};
}

/* The same without the exponentials. */
static struct xt_ctc_norm norm_of(const float *logits, int classes)
{
    float max = max_of(logits, classes);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int k = 0; k < classes; k++)
        total += xt_ctc_exp(logits[k] - max);
    return (struct xt_ctc_norm){.max = max, .log_sum = logf(total)};
}

void xt_ctc_fill_skip(const struct xt_ctc_reading *label, float *skip)
{
    int states = 2 * label->length + 1;
    for (int s = 0; s < states; s++)
        skip[s] = -INFINITY;
    for (int i = 1; i < label->length; i++)
        if (xt_ctc_symbol(label, i) != xt_ctc_symbol(label, i - 1))
            skip[2 * i + 1] = 0;
}

void xt_ctc_fill_emit(const struct xt_ctc_reading *label, const float *logits,
                      struct xt_ctc_norm norm, int blank, float *emit)
{
    float of_blank = (logits[blank] - norm.max) - norm.log_sum;
    for (int i = 0; i < label->length; i++) {
        emit[2 * i] = of_blank;
        emit[2 * i + 1] = (logits[xt_ctc_symbol(label, i)] - norm.max) - norm.log_sum;
    }
    emit[2 * label->length] = of_blank;
}

void xt_ctc_start_row(const float *emit, int states, float *row)
{
    for (int s = -XT_CTC_PAD; s < states; s++)
        row[s] = -INFINITY;
    row[0] = emit[0];
    if (states > 1)
        row[1] = emit[1];
}

/* Each state's probability is the sum of three of the step before. */
void xt_ctc_advance_row(const float *restrict before, const float *restrict skip,
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
        /* -inf minus -inf is NaN: where all three are impossible, the sum is 0. */
        float base = max > -FLT_MAX ? max : -FLT_MAX;
        float sum = xt_ctc_exp(stay - base) + xt_ctc_exp(next - base) + xt_ctc_exp(jump - base);
        after[s] = max + log_of_1_to_3(sum) + emit[s];
    }
}

/* A path may end in the last blank or the last symbol. */
double xt_ctc_row_total(const float *row, int states)
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
    if (!xt_ctc_can_align(label, length, t))
        return -HUGE_VAL;
    enum { STATES = 2 * XT_CTC_STEPS_MAX + 1 };
    float skip[STATES];
    float emit[STATES];
    float rows[2][XT_CTC_PAD + STATES] = {{0}};
    struct xt_ctc_reading reading = {.first = label, .step = 1, .length = length};
    int states = 2 * length + 1;
    xt_ctc_fill_skip(&reading, skip);
    for (int i = 0; i < t; i++) {
        const float *at = logits + (size_t)i * (size_t)classes;
        xt_ctc_fill_emit(&reading, at, norm_of(at, classes), blank, emit);
        if (i == 0)
            xt_ctc_start_row(emit, states, rows[0] + XT_CTC_PAD);
        else
            xt_ctc_advance_row(rows[(i + 1) % 2] + XT_CTC_PAD, skip, emit, states,
                               rows[i % 2] + XT_CTC_PAD);
    }
    return xt_ctc_row_total(rows[(t + 1) % 2] + XT_CTC_PAD, states);
}
