/* The softmax over classes: a network's probabilities. Stateless, thread-safe. */
#pragma once

/* The largest logit, and the sum of e^(logit - max) over all of them. */
struct xt_softmax_norm {
    float max;
    double sum;
};
struct xt_softmax_norm xt_softmax_norm(const float *logits, int classes);

/* The softmax of one sample's logits: out[classes], which may be logits itself. */
void xt_softmax(const float *logits, int classes, float *out);
