/* Gates: a factor for each channel of a sample. */
#include "engine/loops/lanes.h"
#include "engine/loops/table.h"

/* `pixels` of one vector of channels. */
XT_INLINE void multiply(const void *x, vec gate, void *dy, size_t pixels, size_t c, size_t lanes,
                        float *sums, enum xt_dtype dtype)
{
    vec sum = load_part(sums, 0, lanes, XT_F32);
    for (size_t i = 0; i < pixels * c; i += c) {
        vec g = load_part(dy, i, lanes, dtype);
        sum += g * load_part(x, i, lanes, dtype);
        store_part(dy, i, lanes, g * gate, dtype);
    }
    store_part(sums, 0, lanes, sum, XT_F32);
}

/* A few pixels at a time, since memory is read fastest sequentially; what they will read and write
 * next is fetched meanwhile. */
XT_INLINE void backward(const void *x, const void *gate, void *dy, size_t pixels, size_t c,
                        float *sums, enum xt_dtype dtype)
{
    enum { TURN = 16, LINE = 64 };
    memset(sums, 0, c * sizeof *sums);
    for (size_t first = 0; first < pixels; first += TURN) {
        size_t end = first + TURN < pixels ? first + TURN : pixels;
        for (size_t k = 0; k < c; k += WIDTH) {
            const char *next[2] = {at(x, end * c + k * TURN, dtype),
                                   at(dy, end * c + k * TURN, dtype)};
            for (size_t i = 0; i < TURN * WIDTH * xt_dtype_size(dtype); i += LINE) {
                __builtin_prefetch(next[0] + i);
                __builtin_prefetch(next[1] + i, 1);
            }
            size_t lanes = c - k < WIDTH ? c - k : WIDTH;
            size_t here = first * c + k;
            vec factor = load_part(gate, k, lanes, dtype);
            if (lanes == WIDTH)
                multiply(at(x, here, dtype), factor, at_out(dy, here, dtype), end - first, c, WIDTH,
                         sums + k, dtype);
            else
                multiply(at(x, here, dtype), factor, at_out(dy, here, dtype), end - first, c, lanes,
                         sums + k, dtype);
        }
    }
}

void XT_LOOPS_NAME(gate_backward)(enum xt_dtype dtype, const void *x, const void *gate, void *dy,
                                  size_t pixels, int c, float *sums)
{
    if (dtype == XT_F32)
        backward(x, gate, dy, pixels, (size_t)c, sums, XT_F32);
    else
        backward(x, gate, dy, pixels, (size_t)c, sums, XT_BF16);
}
