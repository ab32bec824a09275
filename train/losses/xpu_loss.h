/* The losses as kernels of the program's own (device/kernels/own.h): the logits and their gradient
 * stay on the device. A work-group computes a sample, in float32 and without atomics, so that each
 * run gives the same bits. Labels go up with the step, each sample's loss comes down.
 *
 * Not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "engine/graph.h"

struct xt_xpu_loss;

/* What a kernel is told of a sample, in 32-bit words. */
enum {
    XT_CTC_LENGTH, /* of the label, or one of the two below */
    XT_CTC_WEIGHT, /* a float: of its gradient */
    XT_CTC_SYMBOLS,
    XT_CTC_NOT_COUNTED = -1, /* its loss and gradient are 0 */
    XT_CTC_IMPOSSIBLE = -2,  /* its loss is infinite, its gradient 0 */
};
enum {
    XT_SOFTMAX_FIRST, /* its class; negative: its loss and gradient are 0 */
    XT_SOFTMAX_SECOND,
    XT_SOFTMAX_FIRST_WEIGHT, /* from here on floats */
    XT_SOFTMAX_SECOND_WEIGHT,
    XT_SOFTMAX_EVERY,  /* the weight of each class */
    XT_SOFTMAX_WEIGHT, /* of its gradient */
    XT_SOFTMAX_WORDS,
};

struct xt_xpu_loss_config {
    int steps;  /* CTC's; 0: cross entropy */
    int blank;  /* CTC's */
    int labels; /* the longest label that the steps can align */
};

/* For a graph that is built for training, which outlives it. *out is NULL if its device has no
 * kernels of the program's own. */
enum xt_status xt_xpu_loss_create(struct xt_xpu_loss **out, struct xt_graph *graph,
                                  const struct xt_xpu_loss_config *config, struct xt_err *err);
void xt_xpu_loss_destroy(struct xt_xpu_loss *loss);

/* The words of a sample of the next batch, to be written when the last one has been waited for. */
int32_t *xt_xpu_loss_words(struct xt_xpu_loss *loss, int sample);
/* Starts the loss behind a pass that keeps its logits. What is launched behind it runs on while the
 * host waits for the samples' losses. */
enum xt_status xt_xpu_loss_begin(struct xt_xpu_loss *loss, struct xt_err *err);
enum xt_status xt_xpu_loss_wait(struct xt_xpu_loss *loss, const float **losses, struct xt_err *err);
