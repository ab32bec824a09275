/* Products with matrices of a few nonzero elements in each row: an axis that is resized or padded.
 */
#include "engine/loops/lanes.h"
#include "engine/loops/table.h"

enum { BLOCK = 4 };

/* One row's numbers from i on, of which the last vector may have only `count`. */
XT_INLINE void add_up(const struct xt_sparse_rows *rows, int row, float fill, const void *from,
                      size_t inner, size_t i, size_t count, int vectors, void *to,
                      enum xt_dtype dtype)
{
    vec sums[BLOCK];
    for (int v = 0; v < vectors; v++)
        sums[v] = vec_of(fill);
    for (int k = rows->first[row]; k < rows->first[row + 1]; k++) {
        const void *x = at(from, (size_t)rows->at[k] * inner, dtype);
        vec weight = vec_of(rows->weight[k]);
        for (int v = 0; v < vectors; v++)
            sums[v] += weight * (count < WIDTH ? load_part(x, i, count, dtype)
                                               : load_vec(x, i + (size_t)v * WIDTH, dtype));
    }
    for (int v = 0; v < vectors; v++)
        if (count < WIDTH)
            store_part(to, i, count, sums[v], dtype);
        else
            store_vec(to, i + (size_t)v * WIDTH, sums[v], dtype);
}

XT_INLINE void product(const struct xt_sparse_rows *rows, const int part[2], const float *fill,
                       const void *from, size_t inner, void *to, enum xt_dtype dtype)
{
    for (int row = part[0]; row < part[1]; row++) {
        void *y = at_out(to, (size_t)row * inner, dtype);
        float add = fill ? fill[row] : 0;
        size_t i = 0;
        for (; i + BLOCK * WIDTH <= inner; i += BLOCK * WIDTH)
            add_up(rows, row, add, from, inner, i, WIDTH, BLOCK, y, dtype);
        for (; i + WIDTH <= inner; i += WIDTH)
            add_up(rows, row, add, from, inner, i, WIDTH, 1, y, dtype);
        if (i < inner)
            add_up(rows, row, add, from, inner, i, inner - i, 1, y, dtype);
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
