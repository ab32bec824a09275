/* A mixture's file: the sources that a training set is mixed of, each with its weight.
 *
 *   epoch: 20000                        # samples in an epoch; without it, as many as there are
 *   sources:
 *     - data: plates/real               # as for --data; relative paths start at the file's folder
 *       weight: 3                       # 1 if omitted
 *     - data: synth:plates?count=5000
 *
 * An epoch has samples of each source in proportion to its weight. A source
 * goes through all of its samples, in an order of its own, before any comes again, over the ends of
 * epochs. Errors of the file are XT_ERR_USAGE with its name and line.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_MIX_SOURCES_MAX = 256 };

struct xt_mix_part {
    char *data;
    double weight; /* above 0 */
    int line;
};

struct xt_mix_plan {
    struct xt_mix_part *parts;
    size_t count;
    uint64_t epoch; /* 0: not given */
};

/* Parses the file's text into a zeroed plan. Clear it also after a failure. */
enum xt_status xt_mix_parse(struct xt_mix_plan *plan, const char *name, const uint8_t *bytes,
                            size_t size, struct xt_err *err);
/* As above, of the file at `path`. */
enum xt_status xt_mix_read(struct xt_mix_plan *plan, const char *path, struct xt_err *err);
void xt_mix_plan_clear(struct xt_mix_plan *plan);

/* A permutation of the numbers below `count`, selected by `key`; computed for one number at a
 * time. */
uint64_t xt_mix_permute(uint64_t number, uint64_t count, uint64_t key);
