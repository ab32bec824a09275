/* The struct xtrain of xtrain.h: a session on a thread of its own, and the pictures that wait for
 * it. Here is how the program opens one: it has more settings than the library's options, and wants
 * to know the network before it knows the batch. All else it does by xtrain.h, as everybody.
 *
 * The pass takes what waits: at once where that is a full batch, where a flush asked for it or the
 * oldest has waited for `wait`, else as soon as one of these is so.
 */
#ifndef XT_INFER_SESSION_ENGINE_H
#define XT_INFER_SESSION_ENGINE_H

#include <stdbool.h>

#include "base/err.h"
#include "infer/session/session.h"
#include "infer/session/xtrain.h"

struct xt_engine_plan {
    struct xt_session_plan session;
    double wait;           /* seconds; INFINITY: until the batch is full */
    int queue;             /* most that wait; 0: four batches. At least a batch */
    bool refuse;           /* where as many do: XTRAIN_BUSY */
    double decode_seconds; /* CPU time that a picture's decoding may take, else XTRAIN_COSTLY; 0: no
                              limit */
    /* Called on the engine's thread after each pass; NULL: nobody is. */
    void (*passed)(void *context, int images, double seconds);
    void *context;
};

/* Opens the weights network.init; the strings of the settings stay until it is started or closed.
 */
enum xt_status xt_engine_open(struct xtrain **out, const struct xt_infer_settings *settings,
                              struct xt_err *err);
/* Builds the network; then it answers. */
enum xt_status xt_engine_start(struct xtrain *engine, const struct xt_engine_plan *plan,
                               struct xt_err *err);
/* What it opened. */
const struct xt_network *xt_engine_network(const struct xtrain *engine);
/* How many wait for a pass now. */
int xt_engine_waiting(struct xtrain *engine);

/* Whether the reserved fields of a struct of xtrain.h are zero; they have to be, since they will
 * mean something. */
bool xt_engine_reserved_is_zero(void *const reserved[8]);

/* An error of the program's as one of the library's; NULL: nobody reads it. */
void xt_engine_fail(const struct xt_err *err, struct xtrain_error *error);
/* The other way round. */
enum xt_status xt_engine_err(const struct xtrain_error *error, struct xt_err *err);

#endif
