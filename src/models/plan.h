/* The memory plan of a graph: buffers with lifetimes share one arena. Pure arithmetic, no state. */
#ifndef XT_MODELS_PLAN_H
#define XT_MODELS_PLAN_H

#include <stddef.h>

#include "base/err.h"

/* One buffer: alive from time `first` to time `last`, both included. */
struct xt_plan_item {
    size_t bytes;
    int first;
    int last;
    size_t offset; /* out: a multiple of 64 */
};

/* Gives each item an offset so that no two that are alive at the same time overlap (largest first,
 * each at the lowest gap that fits); *total is the arena's size. */
enum xt_status xt_plan_layout(struct xt_plan_item *items, size_t count, size_t *total,
                              struct xt_err *err);

#endif
