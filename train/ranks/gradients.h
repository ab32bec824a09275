/* All-reduce of the gradients, overlapped with the backward pass: as soon as every op of a bucket
 * has written its gradients, the bucket is sent. Which ops are in which bucket follows from the
 * graph alone, so that the same ranks give the same bits.
 *
 * It is the graph's communicator (graph.h): with sync_bn norms are over all ranks' samples; else
 * the ranks' running statistics are averaged.
 */
#pragma once

#include "engine/executor.h"
#include "ranks/ranks.h"

struct xt_gradient_reduction;

struct xt_gradient_reduction_config {
    struct xt_ranks *ranks; /* borrowed */
    struct xt_graph *graph; /* borrowed, built for training; its communicator is set */
    struct xt_rows rows;    /* of the batch, on this rank */
    bool sync_bn;
    size_t bucket; /* bytes of gradients; holds at least one op's */
    bool bf16;     /* what is sent is rounded to bf16 */
    /* With bf16: what rounding took off this rank's gradients, which the next step adds; in their
     * layout, borrowed. */
    float *residual;
    bool at_once; /* gradients are complete only at xt_gradient_reduction_finish: sums of batches */
};

/* XT_ERR_USAGE for what an XPU does not support. */
enum xt_status xt_gradient_reduction_create(struct xt_gradient_reduction **out,
                                            const struct xt_gradient_reduction_config *config,
                                            struct xt_err *err);
void xt_gradient_reduction_destroy(struct xt_gradient_reduction *reduction);

/* This rank's weight in the mean over all images, by which the loss and its gradient are
 * multiplied. */
double xt_gradient_reduction_weight(const struct xt_gradient_reduction *reduction);
void xt_gradient_reduction_weigh(const struct xt_gradient_reduction *reduction, float *grad,
                                 size_t count);

/* After the backward pass (`at_once`: after a step's last one): waits for the reduction of all
 * buckets. */
enum xt_status xt_gradient_reduction_finish(struct xt_gradient_reduction *reduction,
                                            struct xt_err *err);

/* Gives each rank the mean of all residuals, so that a checkpoint needs one and any number of ranks
 * can resume from it. */
enum xt_status xt_gradient_residual_level(struct xt_ranks *ranks, float *residual, size_t count,
                                          struct xt_err *err);

int xt_gradient_reduction_buckets(const struct xt_gradient_reduction *reduction);
/* Bytes that a rank sends of its gradients in a step. */
double xt_gradient_reduction_bytes(const struct xt_gradient_reduction *reduction);
