/* Where the pixels that a strided 1x1 convolution reads lie, for the loops that read them there. */
#pragma once

#include <stddef.h>

/* An input of h by w pixels of `bytes` each, dense N, H, W, C. */
struct xt_pixels {
    const void *in;
    size_t bytes;
    int h, w;
    int out_h, out_w;
    int stride_h, stride_w;
};

/* Of `count` pixels of the output, from `first` on. */
static inline void xt_find_pixels(const struct xt_pixels *pixels, int first, int count,
                                  const void **found)
{
    int x = first % pixels->out_w;
    int y = first / pixels->out_w % pixels->out_h;
    int n = first / pixels->out_w / pixels->out_h;
    for (int i = 0; i < count; i++) {
        size_t row = (size_t)n * (size_t)pixels->h + (size_t)(y * pixels->stride_h);
        size_t at = row * (size_t)pixels->w + (size_t)(x * pixels->stride_w);
        found[i] = (const char *)pixels->in + at * pixels->bytes;
        x = x + 1 < pixels->out_w ? x + 1 : 0;
        y += x == 0;
        n += y == pixels->out_h;
        y = y < pixels->out_h ? y : 0;
    }
}
