/* From logits to symbols: greedy (best class a step, repeats collapsed, blanks dropped) and prefix
 * beam search (Hannun et al. 2014, without a language model). Stateless, allocates nothing;
 * thread-safe.
 */
#pragma once

#include "base/err.h"
#include "infer/settings.h"

enum { XT_DECODE_MAX = 64, XT_BEAM_WIDTH = 16 };

struct xt_decoded {
    int symbols[XT_DECODE_MAX];
    float confidence[XT_DECODE_MAX]; /* of a symbol: its largest softmax probability over the steps
                                        that spell it in the likeliest alignment */
    int length;
    double probability; /* CTC probability of the whole string, over all its alignments */
};

/* logits: [t][classes] of one sample, t at most XT_DECODE_MAX. Beam search returns the likeliest of
 * its final beam and the greedy string, so its probability is never below greedy's. XT_ERR_DATA for
 * too many steps, XT_ERR_RUN for non-finite logits. */
enum xt_status xt_decode(enum xt_decode_kind kind, const float *logits, int t, int classes,
                         int blank, struct xt_decoded *out, struct xt_err *err);

/* The confidences of the string in *out, by these logits. */
enum xt_status xt_decode_confidence(const float *logits, int t, int classes, int blank,
                                    struct xt_decoded *out, struct xt_err *err);

/* The likeliest symbol of a single time step, which may be the blank. */
struct xt_decode_step {
    int symbol;
    float probability;
};
/* All `t` of them into `out` ([t]); the errors of xt_decode. */
enum xt_status xt_decode_steps(const float *logits, int t, int classes, struct xt_decode_step *out,
                               struct xt_err *err);
