/* Software prefetch of the next chunk of a weight gradient, interleaved with the work on this one.
 * For the files of this folder that are built for AVX-512 or AVX2. */
#pragma once

#include <immintrin.h>

#include "engine/loops/element.h"
#include "engine/loops/weight_grad_job.h"

/* Two memory ranges in sequence; `rate` is lines per turn, times 256. */
struct xt_ahead {
    const char *at[2], *end[2];
    size_t rate, due;
    int which;
};

XT_INLINE void fetch(struct xt_ahead *ahead)
{
    for (ahead->due += ahead->rate; ahead->due >= 256; ahead->due -= 256) {
        int i = ahead->which;
        if (ahead->at[i] < ahead->end[i]) {
            _mm_prefetch(ahead->at[i], _MM_HINT_T1);
            ahead->at[i] += 64;
        } else {
            ahead->which = 1;
        }
    }
}

/* Units [unit, end), over `turns` turns. */
static inline void look_ahead(struct xt_ahead *ahead, const struct xt_weight_grad *job, int unit,
                              int end, size_t turns)
{
    size_t lines = 2;
    for (int i = 0; i < 2; i++) {
        bool out = i == 0;
        const char *tensor = out ? job->out_grad : job->in;
        size_t pixel = (size_t)(out ? job->out_c : job->in_c) * (job->f32 ? 4 : 2);
        ahead->at[i] = tensor + xt_weight_grad_pixel(job, out, unit) * pixel;
        ahead->end[i] = tensor + xt_weight_grad_pixel(job, out, end) * pixel;
        if (job->near[i])
            ahead->end[i] = ahead->at[i];
        lines += (size_t)(ahead->end[i] - ahead->at[i]) / 64;
    }
    ahead->rate = (lines * 256 + turns - 1) / turns;
    ahead->due = 0;
    ahead->which = 0;
}
