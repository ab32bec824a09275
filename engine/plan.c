#include "engine/plan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
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

/* Largest product of memory and lifetime first. */
static int most_first(const void *a, const void *b)
{
    const struct xt_plan_item *x = *(struct xt_plan_item *const *)a;
    const struct xt_plan_item *y = *(struct xt_plan_item *const *)b;
    double of_x = (double)x->bytes * (x->last - x->first + 1);
    double of_y = (double)y->bytes * (y->last - y->first + 1);
    return of_x > of_y ? -1 : of_x < of_y ? 1 : larger_first(a, b);
}

/* While they are laid out, items have addresses in a row of whole segments. */
struct row {
    struct xt_plan_item **items; /* largest first; those that have a place by address */
    size_t segment;              /* bytes */
};

static size_t address(const struct row *row, const struct xt_plan_item *item)
{
    return item->segment * row->segment + item->offset;
}

/* The item's first and, where it rests in between, second life. */
struct life {
    int first, last;
};

static int lives_of(const struct xt_plan_item *item, struct life lives[2])
{
    lives[0] = (struct life){item->first, item->recompute ? item->rest : item->last};
    lives[1] = (struct life){item->recompute, item->last};
    return item->recompute ? 2 : 1;
}

static bool meet(const struct xt_plan_item *a, const struct xt_plan_item *b)
{
    struct life of_a[2];
    struct life of_b[2];
    int a_count = lives_of(a, of_a);
    int b_count = lives_of(b, of_b);
    for (int i = 0; i < a_count; i++)
        for (int k = 0; k < b_count; k++)
            if (of_a[i].first <= of_b[k].last && of_b[k].first <= of_a[i].last)
                return true;
    return false;
}

/* `from`, or the next segment's start if the item would overlap it. */
static size_t within_segment(const struct row *row, size_t from, size_t bytes)
{
    size_t next = (from / row->segment + 1) * row->segment;
    return from + aligned(bytes) <= next ? from : next;
}

/* The lowest address where item `index` fits between those before it (sorted by address) that live
 * at the same time. */
static size_t lowest_gap(const struct row *row, size_t index)
{
    const struct xt_plan_item *item = row->items[index];
    size_t from = 0;
    for (size_t i = 0; i < index; i++) {
        const struct xt_plan_item *placed = row->items[i];
        if (!meet(item, placed))
            continue;
        if (address(row, placed) >= from + aligned(item->bytes))
            return from;
        size_t end = address(row, placed) + aligned(placed->bytes);
        if (end > from)
            from = within_segment(row, end, item->bytes);
    }
    return from;
}

/* Insertion step: item `index`, now placed, is sorted into those before it. */
static void sort_in(const struct row *row, size_t index)
{
    struct xt_plan_item *item = row->items[index];
    for (; index > 0 && address(row, row->items[index - 1]) > address(row, item); index--)
        row->items[index] = row->items[index - 1];
    row->items[index] = item;
}

static enum xt_status measure(const struct row *row, size_t count, struct xt_plan *plan,
                              struct xt_err *err)
{
    *plan = (struct xt_plan){.segments = 0};
    for (size_t i = 0; i < count; i++) {
        const struct xt_plan_item *item = row->items[i];
        if (item->segment >= XT_PLAN_SEGMENTS_MAX)
            return xt_err_set(err, XT_ERR_MEMORY,
                              "the activations need more than %d allocations of at most %.1f MB",
                              XT_PLAN_SEGMENTS_MAX, (double)row->segment / 1e6);
        size_t *bytes = &plan->segment_bytes[item->segment];
        size_t end = item->offset + aligned(item->bytes);
        if (end > *bytes)
            *bytes = end;
        if (item->segment >= plan->segments)
            plan->segments = item->segment + 1;
    }
    for (size_t i = 0; i < plan->segments; i++)
        plan->bytes += plan->segment_bytes[i];
    return XT_OK;
}

static void lay_out(const struct row *row, struct xt_plan_item *items, size_t count,
                    int (*order)(const void *, const void *))
{
    for (size_t i = 0; i < count; i++) {
        assert(aligned(items[i].bytes) <= row->segment);
        row->items[i] = &items[i];
    }
    qsort(row->items, count, sizeof *row->items, order);
    for (size_t i = 0; i < count; i++) {
        size_t at = lowest_gap(row, i);
        row->items[i]->segment = at / row->segment;
        row->items[i]->offset = at % row->segment;
        sort_in(row, i);
    }
}

/* Tries both orders and uses the smaller result. */
enum xt_status xt_plan_layout(struct xt_plan_item *items, size_t count, size_t segment_most,
                              struct xt_plan *plan, struct xt_err *err)
{
    /* A single segment has no limit. */
    struct row row = {.segment = segment_most ? segment_most / 64 * 64 : SIZE_MAX / 128 * 64};
    enum xt_status status =
        xt_mem_calloc(&row.items, count, sizeof *row.items, "the memory plan", err);
    if (status)
        return status;
    size_t least = SIZE_MAX;
    int (*const orders[])(const void *, const void *) = {larger_first, most_first, larger_first};
    for (int i = 0; i < 3 && !status; i++) {
        if (i == 2 && plan->bytes == least)
            break;
        lay_out(&row, items, count, orders[i]);
        status = measure(&row, count, plan, err);
        least = plan->bytes < least ? plan->bytes : least;
    }
    free(row.items);
    return status;
}
