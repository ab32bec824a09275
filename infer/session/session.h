/* A trained network that answers: opened, built for its device, run batch by batch. What predict,
 * serve and libxtrain have in common; engine.h puts a queue and a thread before it. One thread at a
 * time, the same one all along: OpenMP's threads are the caller's.
 */
#ifndef XT_INFER_SESSION_SESSION_H
#define XT_INFER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "infer/answer/objective.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Quarters of the largest batch, 65536, down to 1. */
enum { XT_SESSION_GRAPHS = 9, XT_SESSION_BATCH = 16 };

struct xt_session_plan {
    int batch;      /* most images in a pass; 0: what fits the memory, for `images` */
    size_t images;  /* that there will be, where batch is 0 */
    bool any_count; /* passes of fewer images are to be quick too: they get smaller graphs */
};

/* Zeroed is empty; the caller clears it, also after a failure. */
struct xt_session {
    struct xt_network network;
    struct xt_objective *objective;
    /* Over the same parameters, of growing batch; the last one is the network's own. */
    struct xt_graph *graphs[XT_SESSION_GRAPHS];
    int graph_count;
    uint8_t *pixels; /* [batch][height][width][3]: what the next pass reads */
};

/* What the network is, once it is open: device, task, size. The weights are network.init. */
enum xt_status xt_session_open(struct xt_session *session, const struct xt_infer_settings *settings,
                               struct xt_err *err);
/* Builds it and runs each graph once, on blank images, so that the first answer is as quick as the
 * others. */
enum xt_status xt_session_build(struct xt_session *session,
                                const struct xt_infer_settings *settings,
                                const struct xt_session_plan *plan, struct xt_err *err);
/* How many of so many waiting images are best taken into the next pass: those that fill a graph, or
 * nearly; what a graph lacks it computes all the same. */
int xt_session_take(const struct xt_session *session, int waiting);
/* A pass over the first `count` images. */
enum xt_status xt_session_run(struct xt_session *session, int count, struct xt_err *err);
/* What the pass says of an image. */
enum xt_status xt_session_answer(const struct xt_session *session, int image,
                                 struct xt_decoded *out, struct xt_err *err);
void xt_session_clear(struct xt_session *session);

/* Bytes of one image at the network's size. */
size_t xt_session_image_bytes(const struct xt_session *session);

#endif
