/* Threads that decode pictures, away from those that hold connections: a picture that takes long
 * keeps nobody from being heard. First come, first served; but large pictures never take the last
 * thread, so that small ones pass them by. All functions but create and destroy are thread-safe.
 */
#ifndef XT_CLI_SERVE_DECODERS_H
#define XT_CLI_SERVE_DECODERS_H

#include <stdbool.h>

#include "base/err.h"

struct xt_decoders;

/* The caller's, until `run` begins. */
struct xt_decode_job {
    struct xt_decode_job *next;
    bool large;
    void (*run)(struct xt_decode_job *job); /* on one of the threads */
};

/* At least two threads. */
enum xt_status xt_decoders_create(struct xt_decoders **out, int threads, struct xt_err *err);
/* Runs what waits, then ends the threads. NULL is allowed. */
void xt_decoders_destroy(struct xt_decoders *decoders);

void xt_decoders_put(struct xt_decoders *decoders, struct xt_decode_job *job);

#endif
