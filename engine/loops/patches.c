/* The input under a convolution's kernel as channels (patches_job.h). */
#include "engine/loops/table.h"

#ifdef __AMX_BF16__
#include <immintrin.h>

enum { LINE = 32 /* numbers */ };

/* Bits [first, end). */
static uint64_t bits(int first, int end)
{
    uint64_t below = end < XT_PATCH_MAX ? ((uint64_t)1 << end) - 1 : UINT64_MAX;
    return first < end ? below & ~(((uint64_t)1 << first) - 1) : 0;
}

/* The numbers of each of the kernel's rows that lie within the image, at output (oy, ox). */
static void mask_rows(const struct xt_patches *job, int oy, int ox, uint64_t *masks)
{
    int top = oy * job->stride_h - job->pad_h;
    int left = ox * job->stride_w - job->pad_w;
    int first = left < 0 ? -left : 0;
    int end = job->w - left < job->kernel_w ? job->w - left : job->kernel_w;
    for (int y = 0; y < job->kernel_h; y++) {
        int row = y * job->kernel_w;
        bool is_within = top + y >= 0 && top + y < job->h;
        masks[y] = is_within ? bits((row + first) * job->c, (row + end) * job->c) : 0;
    }
}

/* Places that a patch has in the image, of some columns that have the same. */
struct run {
    const uint16_t *from; /* where the kernel's first row begins at the first of them */
    ptrdiff_t row;        /* numbers of the image's row less those of the kernel's */
    size_t step;          /* numbers from a column to the next */
    const uint64_t *masks;
    int columns;
};

/* Each row of the kernel is loaded to its place in a line, the rest is masked. */
XT_INLINE void write_run(const struct run *run, int kernel_h, int width, uint16_t *to)
{
    const uint16_t *from = run->from;
    for (int x = 0; x < run->columns; x++, from += run->step, to += width)
        for (int i = 0; i < width; i += LINE) {
            __m512i line = _mm512_setzero_si512();
            for (int y = 0; y < kernel_h; y++)
                line = _mm512_mask_loadu_epi16(line, (__mmask32)(run->masks[y] >> i),
                                               from + y * run->row + i);
            _mm512_storeu_si512(to + i, line);
        }
}

/* Constants for the commonest kernel. */
static void write_columns(const struct xt_patches *job, const struct run *run, uint16_t *to)
{
    if (job->kernel_h == 3 && job->width == LINE)
        write_run(run, 3, LINE, to);
    else
        write_run(run, job->kernel_h, job->width, to);
}

/* Columns whose kernel lies within the image are one run, each of the others is one. */
void XT_LOOPS_NAME(patches)(const struct xt_patches *job, const void *in, void *out)
{
    ptrdiff_t row = (ptrdiff_t)job->w * job->c;
    uint64_t masks[XT_PATCH_MAX];
    int first = (job->pad_w + job->stride_w - 1) / job->stride_w;
    int end = job->w + job->pad_w < job->kernel_w
                  ? 0
                  : (job->w + job->pad_w - job->kernel_w) / job->stride_w + 1;
    uint16_t *to = out;
    for (int oy = 0; oy < job->out_h; oy++)
        for (int ox = 0, columns = 1; ox < job->out_w; ox += columns) {
            ptrdiff_t at = (oy * job->stride_h - job->pad_h) * row +
                           (ox * job->stride_w - job->pad_w) * job->c;
            columns = ox >= first && ox < end ? end - ox : 1;
            mask_rows(job, oy, ox, masks);
            const struct run run = {.from = (const uint16_t *)in + at,
                                    .row = row - job->kernel_w * job->c,
                                    .step = (size_t)(job->stride_w * job->c),
                                    .masks = masks,
                                    .columns = columns};
            write_columns(job, &run, to);
            to += columns * job->width;
        }
}
#endif
