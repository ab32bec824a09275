/* The gradients of all ranks, added up while the backward pass still runs: as soon as every op of a
 * bucket has written its gradients, the bucket goes on its way. Which ops are in which bucket
 * follows from the graph alone, so that the same ranks give the same bits.
 *
 * It is the graph's team (graph.h): norms are over all ranks' samples too, where that is asked for;
 * else the running statistics that each rank found are averaged, as gradients are added up.
 */
#ifndef XT_TRAIN_RANKS_GRADIENTS_H
#define XT_TRAIN_RANKS_GRADIENTS_H

#include "engine/executor.h"
#include "ranks/ranks.h"

struct xt_gradient_reduction;

struct xt_gradient_reduction_config {
    struct xt_ranks *ranks; /* borrowed */
    struct xt_graph *graph; /* borrowed, built for training; the team becomes its own */
    struct xt_rows rows;    /* of the batch, here */
    bool sync_bn;
    size_t bucket; /* bytes of gradients; at least one op's */
    bool bf16;     /* what is sent is rounded to bf16 */
    bool at_once; /* what is sent is there only when xt_gradient_reduction_finish is called: sums of
                     batches */
};

/* XT_ERR_USAGE for what an XPU has not. */
enum xt_status xt_gradient_reduction_create(struct xt_gradient_reduction **out,
                                            const struct xt_gradient_reduction_config *config,
                                            struct xt_err *err);
void xt_gradient_reduction_destroy(struct xt_gradient_reduction *team);

/* A mean over this rank's images, as its part of the mean over all: what the loss's gradient and
 * the loss are multiplied by. */
double xt_gradient_reduction_weight(const struct xt_gradient_reduction *team);
void xt_gradient_reduction_weigh(const struct xt_gradient_reduction *team, float *grad,
                                 size_t count);

/* After the backward pass, after a step's last one where it is `at_once`: waits until the gradients
 * of all are added up. */
enum xt_status xt_gradient_reduction_finish(struct xt_gradient_reduction *team, struct xt_err *err);

int xt_gradient_reduction_buckets(const struct xt_gradient_reduction *team);
/* Bytes that a rank sends of its gradients in a step. */
double xt_gradient_reduction_bytes(const struct xt_gradient_reduction *team);

#endif
