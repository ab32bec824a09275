/* Products with matrices of a few nonzero elements in each row: an axis that is resized or padded.
 */
#include "engine/loops/lanes.h"
#include "engine/loops/table.h"

enum { BLOCK = 4 };

/* `inner` numbers of one row; of what is read each row of the matrix's columns is as long. */
struct row {
    const struct xt_sparse_rows *of;
    int index;
    float fill;
    const void *from;
    size_t inner;
    void *to;
};

/* From number i on, `vectors` of them; with less than a whole one, `count` numbers. */
XT_INLINE void add_up(const struct row *row, size_t i, int vectors, size_t count,
                      enum xt_dtype dtype)
{
    vec sums[BLOCK];
    const int *first = row->of->first + row->index;
    for (int v = 0; v < vectors; v++)
        sums[v] = vec_of(row->fill);
    for (int k = first[0]; k < first[1]; k++) {
        const void *x = at(row->from, (size_t)row->of->at[k] * row->inner, dtype);
        vec weight = vec_of(row->of->weight[k]);
        for (int v = 0; v < vectors; v++)
            sums[v] += weight * (count < WIDTH ? load_part(x, i, count, dtype)
                                               : load_vec(x, i + (size_t)v * WIDTH, dtype));
    }
    for (int v = 0; v < vectors; v++)
        if (count < WIDTH)
            store_part(row->to, i, count, sums[v], dtype);
        else
            store_vec(row->to, i + (size_t)v * WIDTH, sums[v], dtype);
}

XT_INLINE void product(const struct xt_sparse_rows *rows, const int part[2], const float *fill,
                       const void *from, size_t inner, void *to, enum xt_dtype dtype)
{
    for (int index = part[0]; index < part[1]; index++) {
        const struct row row = {rows, index, fill ? fill[index] : 0,
                                from, inner, at_out(to, (size_t)index * inner, dtype)};
        size_t i = 0;
        for (; i + BLOCK * WIDTH <= inner; i += BLOCK * WIDTH)
            add_up(&row, i, BLOCK, WIDTH, dtype);
        for (; i + WIDTH <= inner; i += WIDTH)
            add_up(&row, i, 1, WIDTH, dtype);
        if (i < inner)
            add_up(&row, i, 1, inner - i, dtype);
    }
}

void XT_LOOPS_NAME(sparse_product)(enum xt_dtype dtype, const struct xt_sparse_rows *rows,
                                   const int part[2], const float *fill, const void *from,
                                   size_t inner, void *to)
{
    if (dtype == XT_F32)
        product(rows, part, fill, from, inner, to, XT_F32);
    else
        product(rows, part, fill, from, inner, to, XT_BF16);
}
