/* Start-up time by phase: library, device engine, network with primitives and kernels, first step.
 * And a bench that starts, takes one step and exits. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/span.h"
#include "train/trainer.h"

struct xt_start {
    char device[128];
    enum xt_dtype dtype;
    struct xt_span library;    /* loading oneDNN and its dependencies */
    struct xt_span engine;     /* finding and opening the device */
    struct xt_span network;    /* memory, weights, primitives; also the optimizer's and batches' */
    struct xt_span first_step; /* until it is complete */
    struct xt_span all;        /* from the call of xt_start_measure; zero from xt_start_read */
    bool has_cache;            /* kernels are cached between starts, and counted below */
    char no_cache[320];        /* why not; "" on the CPU, which needs no cache */
    int compiled;              /* kernels that were not in the cache before */
    int cached;                /* kernels that were */
};

/* For a trainer that has taken a step. */
void xt_start_read(const struct xt_run_summary *run, struct xt_start *out);

/* Opens what training opens and takes one step on random images; leaves nothing but cached kernels.
 */
enum xt_status xt_start_measure(struct xt_start *out, const struct xt_train_settings *settings,
                                struct xt_err *err);

/* The phases by name. */
enum { XT_START_PHASES = 5 };

struct xt_start_phase {
    const char *name; /* "library load" */
    const char *key;  /* in JSON */
    struct xt_span span;
};

/* The last phase is the rest of xt_start's `all`; XT_START_PHASES is the total. */
struct xt_start_phase xt_start_phase(const struct xt_start *start, int phase);

/* For a training run: prints one line for each phase longer than `least` seconds. */
void xt_start_print(const struct xt_start *start, double least, FILE *out);
