#include "models/plan.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int larger_first(const void *a, const void *b)
{
    const struct xt_plan_item *x = *(struct xt_plan_item *const *)a;
    const struct xt_plan_item *y = *(struct xt_plan_item *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int lower_first(const void *a, const void *b)
{
    const struct xt_plan_item *x = *(struct xt_plan_item *const *)a;
    const struct xt_plan_item *y = *(struct xt_plan_item *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool meet(const struct xt_plan_item *a, const struct xt_plan_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset where the item fits between those placed (sorted by offset) that live at the
 * same time. */
static size_t lowest_gap(const struct xt_plan_item *item, struct xt_plan_item *const *placed,
                         size_t count)
{
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        if (!meet(item, placed[i]))
            continue;
        if (placed[i]->offset >= offset + aligned(item->bytes))
            return offset;
        size_t end = placed[i]->offset + aligned(placed[i]->bytes);
        if (end > offset)
            offset = end;
    }
    return offset;
}

enum xt_status xt_plan_layout(struct xt_plan_item *items, size_t count, size_t *total,
                              struct xt_err *err)
{
    struct xt_plan_item **order = NULL;
    enum xt_status status = xt_mem_calloc(&order, count, sizeof *order, "the memory plan", err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        order[i] = &items[i];
    qsort(order, count, sizeof *order, larger_first);
    *total = 0;
    for (size_t i = 0; i < count; i++) {
        order[i]->offset = lowest_gap(order[i], order, i);
        size_t end = order[i]->offset + aligned(order[i]->bytes);
        if (end > *total)
            *total = end;
        qsort(order, i + 1, sizeof *order, lower_first);
    }
    free(order);
    return XT_OK;
}
