/* Which rows of a batch belong to one of several processes.
 *
 * A batch is split by pairs: rows i and of - 1 - i, which mixup blends, stay on one process. A
 * process has its rows in the batch's order. The middle row of an odd batch belongs to the last
 * process.
 */
#ifndef XT_BASE_ROWS_H
#define XT_BASE_ROWS_H

/* Zeroed: the whole batch, of any size. */
struct xt_rows {
    int first; /* pair; the batch row of the share's row 0 */
    int count; /* rows of the share */
    int of;    /* rows of the batch; 0: the share is the whole batch */
};

/* The share of process `rank` of `ranks`: at least two rows each if the batch has 2 * ranks. */
static inline struct xt_rows xt_rows_share(int of, int rank, int ranks)
{
    long long pairs = of / 2;
    int first = (int)(pairs * rank / ranks);
    int end = (int)(pairs * (rank + 1) / ranks);
    int middle = rank == ranks - 1 ? of % 2 : 0;
    return (struct xt_rows){.first = first, .count = 2 * (end - first) + middle, .of = of};
}

/* The batch row of the share's row i. */
static inline int xt_rows_at(const struct xt_rows *rows, int i)
{
    if (!rows->of)
        return i;
    return i < (rows->count + 1) / 2 ? rows->first + i : rows->of - rows->first - rows->count + i;
}

#endif
