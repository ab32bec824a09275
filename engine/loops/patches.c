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

/* Each row of the kernel is loaded to its place in a line, the rest is masked. `from` is where the
 * kernel's first row begins, `row` the numbers of the image's, less those of the kernel's. */
XT_INLINE void write_patch(const struct xt_patches *job, const uint16_t *from, size_t row,
                           const uint64_t *masks, uint16_t *to)
{
    for (int i = 0; i < job->width; i += LINE) {
        __m512i line = _mm512_setzero_si512();
        for (int y = 0; y < job->kernel_h; y++)
            line = _mm512_mask_loadu_epi16(line, (__mmask32)(masks[y] >> i),
                                           from + (size_t)y * row + i);
        _mm512_storeu_si512(to + i, line);
    }
}

void XT_LOOPS_NAME(patches)(const struct xt_patches *job, const void *in, void *out)
{
    size_t row = (size_t)(job->w * job->c);
    size_t covered = (size_t)(job->kernel_w * job->c);
    uint16_t *to = out;
    uint64_t masks[XT_PATCH_MAX];
    for (int oy = 0; oy < job->out_h; oy++)
        for (int ox = 0, were_whole = false; ox < job->out_w; ox++, to += job->width) {
            int x = ox * job->stride_w - job->pad_w;
            bool whole = x >= 0 && x + job->kernel_w <= job->w;
            ptrdiff_t first = (ptrdiff_t)(oy * job->stride_h - job->pad_h) * (ptrdiff_t)row;
            if (!whole || !were_whole)
                mask_rows(job, oy, ox, masks);
            were_whole = whole;
            write_patch(job, (const uint16_t *)in + first + x * job->c, row - covered, masks, to);
        }
}
#endif
