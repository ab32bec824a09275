/* Which rows of a batch belong to one of several processes.
 *
 * Each has a contiguous range, or with mixup, which blends rows i and of - 1 - i, a range of these
 * pairs, in the batch's order; the middle row of an odd batch then belongs to the last process.
 */
#pragma once

#include <stdbool.h>

/* Zeroed: the whole batch, of any size. */
struct xt_rows {
    int first; /* row, or pair: the batch row of the share's row 0 */
    int count; /* rows of the share */
    int of;    /* rows of the batch; 0: the share is the whole batch */
    bool in_pairs;
};

/* The share of `count` rows, or pairs, from number `first` on. */
static inline struct xt_rows xt_rows_cut(int of, int first, int count, bool in_pairs)
{
    int middle = in_pairs && first + count == of / 2 ? of % 2 : 0;
    return (struct xt_rows){.first = first,
                            .count = in_pairs ? 2 * count + middle : count,
                            .of = of,
                            .in_pairs = in_pairs};
}

/* The share of process `rank` of `ranks`; shares differ by one row or pair at most, but for the
 * middle row. At least two rows each if the batch has 2 * ranks. */
static inline struct xt_rows xt_rows_share(int of, int rank, int ranks, bool in_pairs)
{
    int units = in_pairs ? of / 2 : of;
    int more = units % ranks; /* the first processes have one more */
    int first = units / ranks * rank + (rank < more ? rank : more);
    return xt_rows_cut(of, first, units / ranks + (rank < more), in_pairs);
}

/* The batch row of the share's row i. */
static inline int xt_rows_at(const struct xt_rows *rows, int i)
{
    bool second_half = rows->in_pairs && i >= (rows->count + 1) / 2;
    return second_half ? rows->of - rows->first - rows->count + i : rows->first + i;
}
