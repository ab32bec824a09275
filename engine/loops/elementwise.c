/* Element-wise loops: the ReLU's gradient, GELU, the network's input. */
#include "engine/loops/activation_value.h"
#include "engine/loops/table.h"

XT_INLINE void add_masked(const void *y, void *dy, const void *more, size_t count,
                          enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = load(dy, i, dtype) + load(more, i, dtype);
        store(dy, i, load(y, i, dtype) > 0 ? g : 0, dtype);
    }
}

/* A bf16 is above zero when its sign bit is clear and the rest is not zero: the mask needs no
 * conversion. */
static void mask_bf16(const int16_t *y, int16_t *dy, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void mask_f32(const float *y, float *dy, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

void XT_LOOPS_NAME(relu_backward)(enum xt_dtype dtype, const void *y, void *dy, const void *more,
                                  size_t count)
{
    if (dtype == XT_F32 && more)
        add_masked(y, dy, more, count, XT_F32);
    else if (dtype == XT_F32)
        mask_f32(y, dy, count);
    else if (more)
        add_masked(y, dy, more, count, XT_BF16);
    else
        mask_bf16(y, dy, count);
}

static const struct limits none;

XT_INLINE void gelu(const void *in, size_t count, void *out, enum xt_dtype dtype)
{
    size_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH)
        store_vec(out, i, activation_value(load_vec(in, i, dtype), XT_ACT_GELU, none, dtype),
                  dtype);
    vec rest = load_part(in, i, count - i, dtype);
    store_part(out, i, count - i, activation_value(rest, XT_ACT_GELU, none, dtype), dtype);
}

XT_INLINE void gelu_backward(const void *in, const void *dy, size_t count, void *dx,
                             enum xt_dtype dtype)
{
    size_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
        vec g = load_vec(dy, i, dtype);
        g = activation_grad(load_vec(in, i, dtype), g, XT_ACT_GELU, none, dtype);
        store_vec(dx, i, g, dtype);
    }
    vec g = load_part(dy, i, count - i, dtype);
    g = activation_grad(load_part(in, i, count - i, dtype), g, XT_ACT_GELU, none, dtype);
    store_part(dx, i, count - i, g, dtype);
}

void XT_LOOPS_NAME(gelu)(enum xt_dtype dtype, const void *in, size_t count, void *out)
{
    if (dtype == XT_F32)
        gelu(in, count, out, XT_F32);
    else
        gelu(in, count, out, XT_BF16);
}

void XT_LOOPS_NAME(gelu_backward)(enum xt_dtype dtype, const void *in, const void *dy, size_t count,
                                  void *dx)
{
    if (dtype == XT_F32)
        gelu_backward(in, dy, count, dx, XT_F32);
    else
        gelu_backward(in, dy, count, dx, XT_BF16);
}

XT_INLINE void narrow(const float *in, size_t count, void *out, enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        store(out, i, in[i], dtype);
}

/* In blocks of whole vectors and whole pixels, so that the channels have the same positions in
 * each. */
XT_INLINE void normalise(const uint8_t *in, size_t count, const float mean[3], const float scale[3],
                         void *out, enum xt_dtype dtype)
{
    enum { SEGMENT = 48 };
    float means[SEGMENT];
    float scales[SEGMENT];
    for (size_t k = 0; k < SEGMENT; k++) {
        means[k] = mean[k % 3];
        scales[k] = scale[k % 3];
    }
    size_t whole = count - count % SEGMENT;
    for (size_t i = 0; i < whole; i += SEGMENT) {
#pragma omp simd
        for (size_t k = 0; k < SEGMENT; k++)
            store(out, i + k, ((float)in[i + k] - means[k]) * scales[k], dtype);
    }
    for (size_t i = whole; i < count; i++)
        store(out, i, ((float)in[i] - mean[i % 3]) * scale[i % 3], dtype);
}

void XT_LOOPS_NAME(convert)(enum xt_dtype dtype, const float *in, size_t count, void *out)
{
    if (dtype == XT_F32) {
        memcpy(out, in, count * sizeof *in);
        return;
    }
    if (dtype == XT_F16)
        narrow(in, count, out, XT_F16);
    else
        narrow(in, count, out, XT_BF16);
}

void XT_LOOPS_NAME(normalise)(enum xt_dtype dtype, const uint8_t *in, size_t count,
                              const float mean[3], const float scale[3], void *out)
{
    if (dtype == XT_F32)
        normalise(in, count, mean, scale, out, XT_F32);
    else if (dtype == XT_F16)
        normalise(in, count, mean, scale, out, XT_F16);
    else if (dtype == XT_S8)
        normalise(in, count, mean, scale, out, XT_S8);
    else
        normalise(in, count, mean, scale, out, XT_BF16);
}

void XT_LOOPS_NAME(centre)(const uint8_t *in, size_t count, int8_t *out)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = (int8_t)(in[i] ^ 0x80);
}

float XT_LOOPS_NAME(largest)(const float *in, size_t count)
{
    float most = 0;
    float nothing = 0; /* NaN if any value is infinite or NaN */
#pragma omp simd reduction(max : most) reduction(+ : nothing)
    for (size_t i = 0; i < count; i++) {
        float size = in[i] < 0 ? -in[i] : in[i];
        most = size > most ? size : most;
        nothing += in[i] * 0;
    }
    return most + nothing;
}
