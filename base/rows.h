/* Which rows of a batch one of several processes has.
 *
 * A batch is dealt out in pairs: row i and row of - 1 - i, which mixup blends, stay together, so
 * that no process needs a row of another's. The rows of one are in the batch's order. The middle
 * row of an odd batch is the last process's.
 */
#ifndef XT_BASE_ROWS_H
#define XT_BASE_ROWS_H

/* Zeroed: a whole batch, of whatever size. */
struct xt_rows {
    int first; /* pair; the row of the batch that row 0 here is */
    int count; /* rows here */
    int of;    /* rows of the batch; 0: all are here */
};

/* The share of process `rank` of `ranks`, each of which has two rows at least where the batch has
 * two for each. */
static inline struct xt_rows xt_rows_share(int of, int rank, int ranks)
{
    long long pairs = of / 2;
    int first = (int)(pairs * rank / ranks);
    int end = (int)(pairs * (rank + 1) / ranks);
    int middle = rank == ranks - 1 ? of % 2 : 0;
    return (struct xt_rows){.first = first, .count = 2 * (end - first) + middle, .of = of};
}

/* The row of the batch that row i here is. */
static inline int xt_rows_at(const struct xt_rows *rows, int i)
{
    if (!rows->of)
        return i;
    return i < (rows->count + 1) / 2 ? rows->first + i : rows->of - rows->first - rows->count + i;
}

#endif
