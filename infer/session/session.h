/* Inference with a trained network: opened, built for its device, run batch by batch. Shared by
 * predict, serve and libxtrain; engine.h adds a queue and threads. All calls from one thread,
 * since OpenMP's threads belong to the caller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "infer/answer/predictor.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Quarters of the largest batch, 65536, down to 1. */
enum { XT_SESSION_GRAPHS = 9, XT_SESSION_BATCH = 16 };

struct xt_session_plan {
    int batch;      /* most images in a pass; 0: what fits the memory, for `images` */
    size_t images;  /* expected in all, where batch is 0 */
    bool any_count; /* smaller graphs are built too, so that passes of few images are quick */
};

/* Zeroed is empty; the caller clears it, also after a failure. */
struct xt_session {
    struct xt_network network; /* beside another session: a copy, over that one's parameters */
    bool is_beside;
    struct xt_predictor *predictor;
    /* Over the same parameters, in order of batch size; the last one is the network's own. */
    struct xt_graph *graphs[XT_SESSION_GRAPHS];
    int graph_count;
    uint8_t *pixels; /* [batch][height][width][3]: what the next pass reads */
};

/* Opens the network: device, task and size are then known. The weights are network.init. */
enum xt_status xt_session_open(struct xt_session *session, const struct xt_infer_settings *settings,
                               struct xt_err *err);
/* Builds it and runs each graph once, on blank images, so that the first pass is as quick as later
 * ones. */
enum xt_status xt_session_build(struct xt_session *session,
                                const struct xt_infer_settings *settings,
                                const struct xt_session_plan *plan, struct xt_err *err);
/* Builds another session over the same parameters, with fewer of the device's threads, for passes
 * of any count on a CPU. `of` is built, and cleared last; each may then run on a thread of its own,
 * at the same time. */
enum xt_status xt_session_build_beside(struct xt_session *session, const struct xt_session *of,
                                       const struct xt_infer_settings *settings, int threads,
                                       int batch, struct xt_err *err);
/* The best number of the `waiting` images for the next pass: those that fill a graph, or nearly; a
 * graph computes its full batch in any case. */
int xt_session_take(const struct xt_session *session, int waiting);
/* A pass over the first `count` images. */
enum xt_status xt_session_run(struct xt_session *session, int count, struct xt_err *err);
void xt_session_clear(struct xt_session *session);
