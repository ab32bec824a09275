/* The phases of a start, by name. Measures nothing. Not thread-safe. */
#pragma once

#include <stdio.h>

#include "cli/bench/start.h"

enum { XT_START_PHASES = 5 };

struct xt_start_phase {
    const char *name; /* "library load" */
    const char *key;  /* in JSON */
    struct xt_span span;
};

/* The last phase is the rest of xt_start's `all`; XT_START_PHASES is the total. */
struct xt_start_phase xt_start_phase(const struct xt_start *start, int phase);

/* For a training run: one line for each phase longer than `least` seconds. */
void xt_start_print(const struct xt_start *start, double least, FILE *out);
