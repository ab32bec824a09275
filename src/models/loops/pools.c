/* Pools by themselves, and the sums that LPRNet's context is made of: for inference, where the
 * norms before them are part of convolutions.
 */
#include "models/loops/element.h"
#include "models/loops/table.h"

enum { KERNEL = 3, TAPS = KERNEL * KERNEL };

static int clamp(int value, int end)
{
    return value < 0 ? 0 : value < end ? value : end - 1;
}

/* What an output pixel's window holds. A place in the padding takes its neighbour in the image
 * instead, which is in the window anyhow and so changes no maximum. */
static void find_taps(const void *in, int h, int w, int c, const struct xt_window *window, int oy,
                      int ox, size_t bytes, const char *taps[TAPS])
{
    for (int i = 0; i < TAPS; i++) {
        int y = clamp(oy * window->stride_h - window->pad_h + i / KERNEL, h);
        int x = clamp(ox * window->stride_w - window->pad_w + i % KERNEL, w);
        taps[i] = (const char *)in + ((size_t)y * (size_t)w + (size_t)x) * (size_t)c * bytes;
    }
}

#define MAX_OF_TAPS(name, type)                                                                    \
    static void name(const char *const taps[TAPS], size_t c, type *restrict out)                   \
    {                                                                                              \
        const type *t[TAPS];                                                                       \
        for (int i = 0; i < TAPS; i++)                                                             \
            t[i] = (const type *)(const void *)taps[i];                                            \
        for (size_t k = 0; k < c; k++) {                                                           \
            type most = t[0][k];                                                                   \
            for (int i = 1; i < TAPS; i++)                                                         \
                most = t[i][k] > most ? t[i][k] : most;                                            \
            out[k] = most;                                                                         \
        }                                                                                          \
    }

MAX_OF_TAPS(max_f32, float)
/* Bits of bf16 numbers that are not negative order like integers. */
MAX_OF_TAPS(max_bf16, int16_t)
MAX_OF_TAPS(max_u8, uint8_t)

void XT_LOOPS_NAME(max_pool_row)(enum xt_dtype dtype, const void *in, int h, int w, int c,
                                 const struct xt_window *window, int oy, void *out)
{
    size_t bytes = xt_dtype_size(dtype);
    for (int ox = 0; ox < window->out_w; ox++) {
        const char *taps[TAPS];
        find_taps(in, h, w, c, window, oy, ox, bytes, taps);
        void *to = (char *)out + (size_t)ox * (size_t)c * bytes;
        if (dtype == XT_F32)
            max_f32(taps, (size_t)c, to);
        else if (dtype == XT_BF16)
            max_bf16(taps, (size_t)c, to);
        else
            max_u8(taps, (size_t)c, to);
    }
}

XT_INLINE float load_any(const void *in, size_t i, enum xt_dtype dtype)
{
    if (dtype == XT_U8)
        return (float)((const uint8_t *)in)[i];
    return dtype == XT_S8 ? (float)((const int8_t *)in)[i] : load(in, i, dtype);
}

XT_INLINE void add_rows(const void *in, size_t count, int rows, float *sum, enum xt_dtype dtype)
{
    const char *from = in;
    size_t bytes = count * xt_dtype_size(dtype);
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        sum[i] = load_any(from, i, dtype);
    for (int r = 1; r < rows; r++) {
        from += bytes;
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            sum[i] += load_any(from, i, dtype);
    }
}

void XT_LOOPS_NAME(average_pool_row)(enum xt_dtype dtype, const void *in, int w, int c,
                                     const struct xt_window *window, int oy, float factor,
                                     float *scratch, float *out)
{
    size_t row = (size_t)w * (size_t)c;
    size_t first = (size_t)(oy * window->stride_h) * row * xt_dtype_size(dtype);
    const char *from = (const char *)in + first;
    if (dtype == XT_F32)
        add_rows(from, row, window->kernel_h, scratch, XT_F32);
    else if (dtype == XT_BF16)
        add_rows(from, row, window->kernel_h, scratch, XT_BF16);
    else if (dtype == XT_U8)
        add_rows(from, row, window->kernel_h, scratch, XT_U8);
    else
        add_rows(from, row, window->kernel_h, scratch, XT_S8);
    float share = factor / (float)(window->kernel_h * window->kernel_w);
    for (int ox = 0; ox < window->out_w; ox++) {
        const float *column = scratch + (size_t)(ox * window->stride_w) * (size_t)c;
        float *to = out + (size_t)ox * (size_t)c;
#pragma omp simd
        for (int k = 0; k < c; k++) {
            float sum = column[k];
            for (int kx = 1; kx < window->kernel_w; kx++)
                sum += column[(size_t)kx * (size_t)c + (size_t)k];
            to[k] = sum * share;
        }
    }
}

double XT_LOOPS_NAME(square_sum)(const float *in, size_t count)
{
    enum { STRETCH = 1024 };
    double sum = 0;
    for (size_t first = 0; first < count; first += STRETCH) {
        size_t end = count - first < STRETCH ? count : first + STRETCH;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = first; i < end; i++)
            part += in[i] * in[i];
        sum += (double)part;
    }
    return sum;
}

void XT_LOOPS_NAME(sum_rows)(const float *in, int h, int w, int c, float factor, float *out,
                             size_t stride)
{
    size_t row = (size_t)w * (size_t)c;
    for (int x = 0; x < w; x++) {
        const float *column = in + (size_t)x * (size_t)c;
        float *to = out + (size_t)x * stride;
#pragma omp simd
        for (int k = 0; k < c; k++) {
            float sum = column[k];
            for (int y = 1; y < h; y++)
                sum += column[(size_t)y * row + (size_t)k];
            to[k] = sum * factor;
        }
    }
}
