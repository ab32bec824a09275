/* The forward recursion of connectionist temporal classification (Graves et al. 2006), in float32
 * and log space: the probability of a label over all its alignments with the time steps. A label of
 * L symbols has 2L + 1 states: blank, symbol, blank, ..., blank; alpha[t][s] is the log probability
 * of all ways to be in state s at step t. Decoding needs the probability of a string; the loss
 * (train/losses/ctc.h) needs each row. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"

enum { XT_CTC_STEPS_MAX = 64 };

/* ln P(label | logits) of one sample over all alignments; minus infinity where the label cannot be
 * aligned. logits: [t][classes], t at most XT_CTC_STEPS_MAX. Needs no scratch. */
double xt_ctc_log_probability(const float *logits, int t, int classes, const int *label, int length,
                              int blank);

/* ---- row by row ---- */

/* Two states of probability zero stand before state 0 in every row, so that s - 1 and s - 2 need no
 * test. */
enum { XT_CTC_PAD = 2 };

/* What a step's softmax subtracts from its logits: stored in two parts, because their sum would
 * lose the small one where logits are large. */
struct xt_ctc_norm {
    float max;
    float log_sum;
};

/* A label read from its start (step 1) or, mirrored, from its end (step -1). */
struct xt_ctc_reading {
    const int *first;
    ptrdiff_t step;
    int length;
};

/* e^x for x <= 0 (or NaN), to 2 units in the last place: 2^n times the Taylor series of e^r, |r| <=
 * ln 2 / 2. Below -87 it is 0. Choices are arithmetic, here and below, because a branch would
 * prevent vectorisation. */
static inline float xt_ctc_exp(float x)
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
    uint32_t mask = (uint32_t)(x < -87.0f) - 1u;
    return xt_float_of_bits(xt_float_bits(p * xt_float_of_bits(bits << 23)) & mask);
}

static inline int xt_ctc_symbol(const struct xt_ctc_reading *label, int index)
{
    return label->first[index * label->step];
}

/* An alignment needs a step for each symbol and one for the blank between two equal ones. */
bool xt_ctc_can_align(const int *label, int length, int t);
/* One step's softmax, not yet divided by its sum: softmax[k] becomes e^(logits[k] - max). */
struct xt_ctc_norm xt_ctc_softmax(const float *logits, int classes, float *softmax, float *sum);
/* skip[states]: 0 where a state may be entered from two before it (a symbol that differs from the
 * last one), minus infinity elsewhere. */
void xt_ctc_fill_skip(const struct xt_ctc_reading *label, float *skip);
/* emit[states]: each state's log probability of its own symbol at one step. */
void xt_ctc_fill_emit(const struct xt_ctc_reading *label, const float *logits,
                      struct xt_ctc_norm norm, int blank, float *emit);
/* The row of the first step, and a row from the one before it. Rows point to state 0; XT_CTC_PAD
 * floats stand before it. */
void xt_ctc_start_row(const float *emit, int states, float *row);
void xt_ctc_advance_row(const float *restrict before, const float *restrict skip,
                        const float *restrict emit, int states, float *restrict after);
/* ln P(label), of the last step's row. */
double xt_ctc_row_total(const float *row, int states);
