/* The struct xtrain of xtrain.h: sessions on threads of their own, with a queue of pictures. The
 * program opens one by this header: it has more settings than the library's options, and needs the
 * network before it chooses the batch. Everything else goes through xtrain.h.
 *
 * A pass over the queue starts as soon as it holds a full batch, a flush was requested, or the
 * oldest picture has waited for `wait`.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "infer/session/session.h"
#include "infer/session/xtrain.h"

struct xt_engine_plan {
    struct xt_session_plan session;
    double wait;           /* seconds; INFINITY: until the batch is full */
    int queue;             /* its capacity; 0: four batches. At least a batch */
    bool refuse;           /* when the queue is full: XTRAIN_BUSY */
    double decode_seconds; /* CPU time that a picture's decoding may take, else XTRAIN_COSTLY; 0: no
                              limit */
    /* Called on the engine's threads after each pass; may be NULL. */
    void (*passed)(void *context, int images, double seconds);
    void *context;
};

/* Opens the weights network.init; the strings of the settings must live until it is started or
 * closed.
 */
enum xt_status xt_engine_open(struct xtrain **out, const struct xt_infer_settings *settings,
                              struct xt_err *err);
/* Builds the network and starts computing. */
enum xt_status xt_engine_start(struct xtrain *engine, const struct xt_engine_plan *plan,
                               struct xt_err *err);
/* The opened network. */
const struct xt_network *xt_engine_network(const struct xtrain *engine);
/* Most pictures that are computed together, once it is started. */
int xt_engine_batch(const struct xtrain *engine);
/* The number of pictures in the queue. */
int xt_engine_waiting(struct xtrain *engine);

/* Whether the reserved fields of a struct of xtrain.h are zero; they must be, since later versions
 * give them a meaning. */
bool xt_engine_reserved_is_zero(void *const *reserved, size_t count);

/* Converts the program's error to the library's; `error` may be NULL. */
void xt_engine_fail(const struct xt_err *err, struct xtrain_error *error);
/* The reverse. */
enum xt_status xt_engine_err(const struct xtrain_error *error, struct xt_err *err);
