/* What a start took, by phase: the library, the device's engine, the network with its primitives
 * and kernels, the first step. And a bench that starts, takes one step and ends.
 */
#ifndef XT_CLI_BENCH_START_H
#define XT_CLI_BENCH_START_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"
#include "cli/settings.h"
#include "train/trainer.h"

struct xt_start {
    char device[128];
    enum xt_dtype dtype;
    struct xt_span library;    /* oneDNN and what it needs, loaded */
    struct xt_span engine;     /* the device found and opened */
    struct xt_span network;    /* memory, weights, primitives; the optimizer's and batches' too */
    struct xt_span first_step; /* to its end */
    struct xt_span all;        /* from the call of xt_start_measure; zero from xt_start_read */
    bool has_cache;            /* kernels are kept from one start to the next, and counted below */
    char no_cache[320];        /* why not; "" on the CPU, which needs none */
    int compiled;              /* kernels that were not in the cache before */
    int kept;                  /* that were */
};

/* Of a trainer that has taken a step. */
void xt_start_read(const struct xt_run_summary *run, struct xt_start *out);

/* Opens what training opens and takes one step on random pictures; nothing is kept but kernels. */
enum xt_status xt_start_measure(struct xt_start *out, const struct xt_train_settings *settings,
                                struct xt_err *err);

#endif
