/* One training step's loss and gradients on synthetic images, without dropout: what two devices
 * that have the same weights compare.
 *
 * Of each gradient its norm, and sums of its elements with random signs: the root of the mean
 * square of the sums' differences is, in the mean, the norm of the gradients' difference. Not
 * thread-safe.
 */
#pragma once

#include "base/err.h"
#include "infer/network/network.h"
#include "train/losses/loss.h"

enum { XT_GRADIENT_SUMS = 4 };

struct xt_gradient_sums {
    const char *name; /* of the parameter; borrowed */
    double norm;
    double sums[XT_GRADIENT_SUMS];
};

struct xt_synthetic_step {
    struct xt_network *network;
    struct xt_graph *graph;
    struct xt_loss *loss;
    uint8_t *pixels;
    int *labels, *label_lengths;
    float *chances;                  /* of the graph's dropouts, by op */
    struct xt_graph_pass pass;       /* of the graph before */
    struct xt_graph_watch watch;     /* likewise */
    float scale;                     /* of the loss, in fp16 */
    double mean;                     /* the loss */
    struct xt_gradient_sums *params; /* of those that learn, in their order */
    size_t count;
};

/* `graph` is built for training, of the network's parameters. Clear it also after a failure, before
 * either is cleared: then the graph's pass is as before. */
enum xt_status xt_synthetic_step_init(struct xt_synthetic_step *step, struct xt_network *network,
                                      struct xt_graph *graph, struct xt_err *err);
void xt_synthetic_step_clear(struct xt_synthetic_step *step);

/* Forward, loss and backward; does not wait for the gradients. */
enum xt_status xt_synthetic_step_run(struct xt_synthetic_step *step, struct xt_err *err);
/* The same, and the sums; in fp16 with the largest scale whose gradients are finite. The gradients
 * are in params.grads then, times the scale. */
enum xt_status xt_synthetic_step_sum(struct xt_synthetic_step *step, struct xt_err *err);

/* Where the device computes the loss: how far its mean and its gradient are off the host's, of the
 * same logits, relative to the gradient's norm. Else 0. */
enum xt_status xt_synthetic_step_check_loss(struct xt_synthetic_step *step, double *mean,
                                            double *gradient, struct xt_err *err);

/* Random pixels, `bytes` of them, and labels for a network's batch: [batch][XT_LABEL_MAX] and
 * [batch]. */
void xt_synthetic_batch(const struct xt_network *network, int batch, uint8_t *pixels, size_t bytes,
                        int *labels, int *lengths);
