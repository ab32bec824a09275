/* The gradient is that of the forward and the backward variable: beta is computed as the alpha of
 * the mirrored label.
 */
#include "train/losses/ctc.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "infer/answer/ctc_recursion.h"

struct xt_ctc {
    int n_max;
    int t;
    int classes;
    int states_max;
    size_t floats; /* of scratch a sample */
    float *scratch;
    float *weights; /* [n_max] of the samples' gradients */
};

/* The parts of a sample's scratch. */
struct workspace {
    struct xt_ctc_norm *norms; /* [t] */
    float *softmax;            /* [classes], used if no gradient is computed */
    float *skip;               /* [states] */
    float *skip_mirrored;
    float *emit;
    float *weights;
    float *alpha; /* [t][XT_CTC_PAD + states] */
    float *beta;  /* [2][XT_CTC_PAD + states] */
};

enum xt_status xt_ctc_create(struct xt_ctc **out, int n_max, int t, int classes, int label_max,
                             struct xt_err *err)
{
    assert(n_max > 0 && t > 0 && classes > 0 && label_max >= 0);
    *out = NULL;
    struct xt_ctc *ctc = NULL;
    enum xt_status status = xt_mem_calloc(&ctc, 1, sizeof *ctc, "the CTC loss", err);
    if (status)
        return status;
    /* Labels longer than t cannot be aligned and need no states. */
    size_t states = 2 * (size_t)(label_max < t ? label_max : t) + 1;
    size_t row = states + XT_CTC_PAD;
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
    if (!status)
        status =
            xt_mem_calloc(&ctc->weights, (size_t)n_max, sizeof *ctc->weights, "the CTC loss", err);
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
    free(ctc->weights);
    free(ctc);
}

static struct workspace workspace_of(const struct xt_ctc *ctc, int sample)
{
    float *at = ctc->scratch + (size_t)sample * ctc->floats;
    size_t states = (size_t)ctc->states_max;
    struct workspace work = {.norms = (struct xt_ctc_norm *)at};
    at += 2 * (size_t)ctc->t;
    work.softmax = at;
    at += ctc->classes;
    work.skip = at;
    work.skip_mirrored = at + states;
    work.emit = at + 2 * states;
    work.weights = at + 3 * states;
    at += 4 * states;
    work.beta = at;
    work.alpha = at + 2 * (states + XT_CTC_PAD);
    return work;
}

/* Alpha of every step, and the softmax times `scale` into grad. Returns ln P(label). */
static double forward(const struct xt_ctc *ctc, const struct workspace *work, const float *logits,
                      const struct xt_ctc_reading *label, int blank, float *grad, float scale)
{
    int states = 2 * label->length + 1;
    size_t row = (size_t)states + XT_CTC_PAD;
    size_t classes = (size_t)ctc->classes;
    xt_ctc_fill_skip(label, work->skip);
    for (int t = 0; t < ctc->t; t++) {
        const float *at = logits + (size_t)t * classes;
        float *softmax = grad ? grad + (size_t)t * classes : work->softmax;
        float sum = 0;
        work->norms[t] = xt_ctc_softmax(at, ctc->classes, softmax, &sum);
        if (grad) {
            float factor = scale / sum;
#pragma omp simd
            for (size_t k = 0; k < classes; k++)
                softmax[k] *= factor;
        }
        xt_ctc_fill_emit(label, at, work->norms[t], blank, work->emit);
        float *alpha = work->alpha + (size_t)t * row + XT_CTC_PAD;
        if (t == 0)
            xt_ctc_start_row(work->emit, states, alpha);
        else
            xt_ctc_advance_row(alpha - row, work->skip, work->emit, states, alpha);
    }
    return xt_ctc_row_total(work->alpha + (size_t)(ctc->t - 1) * row + XT_CTC_PAD, states);
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
        weights[s] = xt_ctc_exp(weights[s] - max);
        sum += weights[s];
    }
    return sum;
}

/* Subtracts the expected alignment, times `scale`, from the softmax that forward wrote to grad.
 * Each step's weights are divided by their own sum and not by P(label): the sums are equal but for
 * rounding, and so every step's gradient sums to zero. */
static void backward(const struct xt_ctc *ctc, const struct workspace *work, const float *logits,
                     const struct xt_ctc_reading *label, int blank, float *grad, float scale)
{
    int states = 2 * label->length + 1;
    size_t row = (size_t)states + XT_CTC_PAD;
    struct xt_ctc_reading mirrored = {.first =
                                          label->first + (label->length ? label->length - 1 : 0),
                                      .step = -1,
                                      .length = label->length};
    xt_ctc_fill_skip(&mirrored, work->skip_mirrored);
    for (int t = ctc->t - 1; t >= 0; t--) {
        const float *at = logits + (size_t)t * (size_t)ctc->classes;
        xt_ctc_fill_emit(&mirrored, at, work->norms[t], blank, work->emit);
        float *beta = work->beta + (size_t)(t % 2) * row + XT_CTC_PAD;
        float *after = work->beta + (size_t)((t + 1) % 2) * row + XT_CTC_PAD;
        if (t == ctc->t - 1)
            xt_ctc_start_row(work->emit, states, beta);
        else
            xt_ctc_advance_row(after, work->skip_mirrored, work->emit, states, beta);
        float sum = occupy(work->alpha + (size_t)t * row + XT_CTC_PAD, beta, work->emit, states,
                           work->weights);
        float factor = scale / sum;
        float *to = grad + (size_t)t * (size_t)ctc->classes;
        float of_blank = work->weights[0];
        for (int i = 0; i < label->length; i++) {
            to[xt_ctc_symbol(label, i)] -= factor * work->weights[2 * i + 1];
            of_blank += work->weights[2 * i + 2];
        }
        to[blank] -= factor * of_blank;
    }
}

/* The loss of one sample; `scale` (0: no gradient) is the weight of its gradient. */
static float sample_loss(const struct xt_ctc *ctc, int sample, const float *logits,
                         const int *label, int length, int blank, float *grad, float scale)
{
    double log_p = -HUGE_VAL;
    if (xt_ctc_can_align(label, length, ctc->t)) {
        assert(2 * length + 1 <= ctc->states_max);
        struct workspace work = workspace_of(ctc, sample);
        struct xt_ctc_reading reading = {.first = label, .step = 1, .length = length};
        float *wanted = scale > 0 ? grad : NULL;
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

/* What a label's loss is divided by. */
static double share_of(int length, int t)
{
    return length > 0 ? length : t;
}

static int count(const int *label_lengths, int n)
{
    int counted = 0;
    for (int i = 0; i < n; i++)
        counted += label_lengths[i] != 0;
    return counted;
}

void xt_ctc_weights(const int *label_lengths, int n, int t, float *weights)
{
    int counted = count(label_lengths, n);
    for (int i = 0; i < n; i++)
        weights[i] =
            label_lengths[i] ? (float)(1.0 / (share_of(label_lengths[i], t) * counted)) : 0;
}

double xt_ctc_mean(const float *losses, const int *label_lengths, int n, int t)
{
    int counted = count(label_lengths, n);
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (label_lengths[i])
            sum += (double)losses[i] / share_of(label_lengths[i], t);
    return counted ? sum / counted : 0;
}

double xt_ctc_loss(struct xt_ctc *ctc, const float *logits, const int *labels, size_t label_stride,
                   const int *label_lengths, int n, int blank, float *losses, float *grad)
{
    assert(n <= ctc->n_max);
    size_t image = (size_t)ctc->t * (size_t)ctc->classes;
    xt_ctc_weights(label_lengths, n, ctc->t, ctc->weights);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        int length = label_lengths[i] > 0 ? label_lengths[i] : 0;
        losses[i] =
            sample_loss(ctc, i, logits + (size_t)i * image, labels + (size_t)i * label_stride,
                        length, blank, grad ? grad + (size_t)i * image : NULL, ctc->weights[i]);
    }
    return xt_ctc_mean(losses, label_lengths, n, ctc->t);
}
