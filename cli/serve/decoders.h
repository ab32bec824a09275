/* Threads that decode images, separate from those that serve connections, so that slow images block
 * no client. First come, first served; but large images never take the last thread, so that small
 * ones can overtake them, and wait for each other where memory is short. All functions but create
 * and destroy are thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct xt_decoders;

/* Owned by the caller until `run` starts. */
struct xt_decode_job {
    struct xt_decode_job *next;
    bool large;
    uint64_t bytes;                         /* of memory that a large one may need */
    void (*run)(struct xt_decode_job *job); /* on one of the threads */
};

/* At least two threads. Large images run together if they need no more than `room` bytes. */
enum xt_status xt_decoders_create(struct xt_decoders **out, int threads, uint64_t room,
                                  struct xt_err *err);
/* Runs the queued jobs, then stops the threads. NULL is allowed. */
void xt_decoders_destroy(struct xt_decoders *decoders);

void xt_decoders_put(struct xt_decoders *decoders, struct xt_decode_job *job);
