/* The memory plan of a graph: buffers with lifetimes share an arena, which may have several
 * segments if the device limits the size of an allocation. Pure arithmetic, no state. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { XT_PLAN_SEGMENTS_MAX = 256 };

/* One buffer: alive from time `first` to time `last`, both included; if `recompute` is not 0,
 * except between `rest`, its last read, and `recompute`, when it is computed a second time. */
struct xt_plan_item {
    size_t bytes;
    int first;
    int last;
    int rest;
    int recompute;
    size_t segment; /* out */
    size_t offset;  /* out: in the segment, a multiple of 64 */
};

struct xt_plan {
    size_t segments;
    size_t segment_bytes[XT_PLAN_SEGMENTS_MAX]; /* each an allocation of its own */
    size_t bytes;                               /* of all */
};

/* Places each item within one segment, so that no two with overlapping lifetimes overlap (largest
 * first, each at the lowest gap that fits). A segment has at most `segment_most` bytes (0: there is
 * one, of any size), which no item may exceed. */
enum xt_status xt_plan_layout(struct xt_plan_item *items, size_t count, size_t segment_most,
                              struct xt_plan *plan, struct xt_err *err);
