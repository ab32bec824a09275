/* Separate pools and the sums of LPRNet's context: for inference, where the preceding norms are
 * folded into convolutions.
 */
#include "engine/loops/element.h"
#include "engine/loops/table.h"

enum { KERNEL = 3 };

static int clamp(int value, int end)
{
    return value < 0 ? 0 : value < end ? value : end - 1;
}

/* The maximum of three rows of n numbers; of three columns, c apart, of those. */
#define MAX_OF_THREE(name, type)                                                                   \
    static void name(const void *first, const void *second, const void *third, size_t n, void *to) \
    {                                                                                              \
        const type *a = first;                                                                     \
        const type *b = second;                                                                    \
        const type *c = third;                                                                     \
        type *restrict out = to;                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            type most = b[i] > a[i] ? b[i] : a[i];                                                 \
            out[i] = c[i] > most ? c[i] : most;                                                    \
        }                                                                                          \
    }

MAX_OF_THREE(max_f32, float)
/* Bits of bf16 and of fp16 numbers that are not negative order like integers. */
MAX_OF_THREE(max_16_bits, int16_t)
MAX_OF_THREE(max_u8, uint8_t)

XT_INLINE void max_of_three(enum xt_dtype dtype, const void *a, const void *b, const void *c,
                            size_t n, void *out)
{
    if (dtype == XT_F32)
        max_f32(a, b, c, n, out);
    else if (dtype == XT_BF16 || dtype == XT_F16)
        max_16_bits(a, b, c, n, out);
    else
        max_u8(a, b, c, n, out);
}

/* A sample that is pooled, and its output; rows and pixels in bytes. */
struct max_pool {
    enum xt_dtype dtype;
    const struct xt_window *window;
    int h, w;
    size_t c, pixel;
    const char *in;
    char *out;
};

/* Output columns [left, right) of row `oy`. A place in the padding reads its neighbour in the
 * image, which is in the window too and so does not change the maximum. `down` holds the input's
 * columns. */
static void max_of_stripe(const struct max_pool *p, int oy, int left, int right, char *down)
{
    const struct xt_window *window = p->window;
    int first = clamp(left * window->stride_w - window->pad_w, p->w);
    int last = clamp((right - 1) * window->stride_w - window->pad_w + KERNEL - 1, p->w);
    const char *rows[KERNEL];
    for (int i = 0; i < KERNEL; i++) {
        int y = clamp(oy * window->stride_h - window->pad_h + i, p->h);
        rows[i] = p->in + ((size_t)y * (size_t)p->w + (size_t)first) * p->pixel;
    }
    char *out = p->out + ((size_t)oy * (size_t)window->out_w + (size_t)left) * p->pixel;
    max_of_three(p->dtype, rows[0], rows[1], rows[2], (size_t)(last + 1 - first) * p->c, down);
    if (window->stride_w == 1 && window->pad_w == 0) {
        max_of_three(p->dtype, down, down + p->pixel, down + 2 * p->pixel,
                     (size_t)(right - left) * p->c, out);
        return;
    }
    for (int ox = left; ox < right; ox++, out += p->pixel) {
        const char *columns[KERNEL];
        for (int i = 0; i < KERNEL; i++)
            columns[i] =
                down +
                (size_t)(clamp(ox * window->stride_w - window->pad_w + i, p->w) - first) * p->pixel;
        max_of_three(p->dtype, columns[0], columns[1], columns[2], p->c, out);
    }
}

/* Stripe by stripe, so that a row stays in L1 for its three readers. */
void XT_LOOPS_NAME(max_pool)(enum xt_dtype dtype, const void *in, int h, int w, int c,
                             const struct xt_window *window, const int rows[2], float *scratch,
                             void *out)
{
    enum { STRIPE_BYTES = 6144 }; /* of a row of the input */
    struct max_pool p = {.dtype = dtype,
                         .window = window,
                         .h = h,
                         .w = w,
                         .c = (size_t)c,
                         .pixel = (size_t)c * xt_dtype_size(dtype),
                         .in = in,
                         .out = out};
    int columns = (int)(STRIPE_BYTES / p.pixel) / window->stride_w;
    columns = columns < 1 ? 1 : columns;
    for (int left = 0; left < window->out_w; left += columns) {
        int right = left + columns < window->out_w ? left + columns : window->out_w;
        for (int oy = rows[0]; oy < rows[1]; oy++)
            max_of_stripe(&p, oy, left, right, (char *)scratch);
    }
}

XT_INLINE float load_any(const void *in, size_t i, enum xt_dtype dtype)
{
    if (dtype == XT_U8)
        return (float)((const uint8_t *)in)[i];
    return dtype == XT_S8 ? (float)((const int8_t *)in)[i] : load(in, i, dtype);
}

/* Column sums of `rows` rows (a constant) of n numbers. */
XT_INLINE void add_few_rows(const void *in, size_t n, int rows, float *sum, enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float s = load_any(in, i, dtype);
        for (int r = 1; r < rows; r++)
            s += load_any(in, (size_t)r * n + i, dtype);
        sum[i] = s;
    }
}

XT_INLINE void add_rows(const void *in, size_t n, int rows, float *sum, enum xt_dtype dtype)
{
    if (rows == 4) {
        add_few_rows(in, n, 4, sum, dtype);
        return;
    }
    if (rows == 5) {
        add_few_rows(in, n, 5, sum, dtype);
        return;
    }
    add_few_rows(in, n, 1, sum, dtype);
    for (int r = 1; r < rows; r++) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += load_any(in, (size_t)r * n + i, dtype);
    }
}

/* An output pixel: `width` columns of sums, c apart, times `share`. */
XT_INLINE void add_columns(const float *sum, size_t c, int width, float share, float *out)
{
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float s = sum[k];
        for (int x = 1; x < width; x++)
            s += sum[(size_t)x * c + k];
        out[k] = s * share;
    }
}

/* bf16: two adjacent numbers are a word, whose halves are summed separately; the second sums are
 * `pairs` after the first. */
XT_INLINE void add_rows_bf16(const void *in, size_t pairs, int rows, float *sum)
{
    const uint32_t *words = in;
#pragma omp simd
    for (size_t i = 0; i < pairs; i++) {
        float first = xt_float_of_bits(words[i] << 16);
        float second = xt_float_of_bits(words[i] & 0xFFFF0000u);
        for (int r = 1; r < rows; r++) {
            uint32_t word = words[(size_t)r * pairs + i];
            first += xt_float_of_bits(word << 16);
            second += xt_float_of_bits(word & 0xFFFF0000u);
        }
        sum[i] = first;
        sum[pairs + i] = second;
    }
}

XT_INLINE void add_columns_bf16(const float *sum, size_t pairs, size_t c, int width, float share,
                                float *out)
{
#pragma omp simd
    for (size_t k = 0; k < c / 2; k++) {
        float first = sum[k];
        float second = sum[pairs + k];
        for (int x = 1; x < width; x++) {
            first += sum[(size_t)x * (c / 2) + k];
            second += sum[(size_t)x * (c / 2) + pairs + k];
        }
        out[2 * k] = first * share;
        out[2 * k + 1] = second * share;
    }
}

/* A row of an even number of channels. */
static void average_bf16(const void *in, size_t n, size_t c, const struct xt_window *window,
                         float share, float *sum, float *out)
{
    size_t pairs = n / 2;
    if (window->kernel_h == 4)
        add_rows_bf16(in, pairs, 4, sum);
    else if (window->kernel_h == 5)
        add_rows_bf16(in, pairs, 5, sum);
    else if (window->kernel_h == 7)
        add_rows_bf16(in, pairs, 7, sum);
    else
        add_rows_bf16(in, pairs, window->kernel_h, sum);
    for (int ox = 0; ox < window->out_w; ox++) {
        const float *from = sum + (size_t)(ox * window->stride_w) * (c / 2);
        float *to = out + (size_t)ox * c;
        if (window->kernel_w == 5)
            add_columns_bf16(from, pairs, c, 5, share, to);
        else if (window->kernel_w == 7)
            add_columns_bf16(from, pairs, c, 7, share, to);
        else if (window->kernel_w == 10)
            add_columns_bf16(from, pairs, c, 10, share, to);
        else
            add_columns_bf16(from, pairs, c, window->kernel_w, share, to);
    }
}

XT_INLINE void add_rows_u8(const uint8_t *in, size_t n, int rows, uint16_t *sum)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        uint16_t s = in[i];
        for (int r = 1; r < rows; r++)
            s = (uint16_t)(s + in[(size_t)r * n + i]);
        sum[i] = s;
    }
}

XT_INLINE void add_columns_u8(const uint16_t *sum, size_t c, int width, float share, float *out)
{
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        uint16_t s = sum[k];
        for (int x = 1; x < width; x++)
            s = (uint16_t)(s + sum[(size_t)x * c + k]);
        out[k] = (float)s * share;
    }
}

/* A row of bytes, summed exactly in 16 bits. */
static void average_u8(const uint8_t *in, size_t n, size_t c, const struct xt_window *window,
                       float share, uint16_t *sum, float *out)
{
    if (window->kernel_h == 4)
        add_rows_u8(in, n, 4, sum);
    else if (window->kernel_h == 5)
        add_rows_u8(in, n, 5, sum);
    else if (window->kernel_h == 7)
        add_rows_u8(in, n, 7, sum);
    else
        add_rows_u8(in, n, window->kernel_h, sum);
    for (int ox = 0; ox < window->out_w; ox++) {
        const uint16_t *from = sum + (size_t)(ox * window->stride_w) * c;
        float *to = out + (size_t)ox * c;
        if (window->kernel_w == 5)
            add_columns_u8(from, c, 5, share, to);
        else if (window->kernel_w == 7)
            add_columns_u8(from, c, 7, share, to);
        else if (window->kernel_w == 10)
            add_columns_u8(from, c, 10, share, to);
        else
            add_columns_u8(from, c, window->kernel_w, share, to);
    }
}

XT_INLINE void widen_one_type(const void *in, size_t n, float factor, float *out,
                              enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = load_any(in, i, dtype) * factor;
}

/* A 1x1 pool. */
static void widen(enum xt_dtype dtype, const void *in, size_t n, float factor, float *out)
{
    if (dtype == XT_F32)
        widen_one_type(in, n, factor, out, XT_F32);
    else if (dtype == XT_BF16)
        widen_one_type(in, n, factor, out, XT_BF16);
    else if (dtype == XT_F16)
        widen_one_type(in, n, factor, out, XT_F16);
    else if (dtype == XT_U8)
        widen_one_type(in, n, factor, out, XT_U8);
    else
        widen_one_type(in, n, factor, out, XT_S8);
}

void XT_LOOPS_NAME(average_pool_row)(enum xt_dtype dtype, const void *in, int w, int c,
                                     const struct xt_window *window, int oy, float factor,
                                     float *scratch, float *out)
{
    size_t n = (size_t)w * (size_t)c;
    const void *from =
        (const char *)in + (size_t)(oy * window->stride_h) * n * xt_dtype_size(dtype);
    int area = window->kernel_h * window->kernel_w;
    float share = factor / (float)area;
    if (area == 1 && window->stride_w == 1) {
        widen(dtype, from, n, share, out);
        return;
    }
    if (dtype == XT_U8 && area * UINT8_MAX <= UINT16_MAX) {
        average_u8(from, n, (size_t)c, window, share, (uint16_t *)scratch, out);
        return;
    }
    if (dtype == XT_BF16 && c % 2 == 0) {
        average_bf16(from, n, (size_t)c, window, share, scratch, out);
        return;
    }
    if (dtype == XT_F32)
        add_rows(from, n, window->kernel_h, scratch, XT_F32);
    else if (dtype == XT_BF16)
        add_rows(from, n, window->kernel_h, scratch, XT_BF16);
    else if (dtype == XT_F16)
        add_rows(from, n, window->kernel_h, scratch, XT_F16);
    else if (dtype == XT_U8)
        add_rows(from, n, window->kernel_h, scratch, XT_U8);
    else
        add_rows(from, n, window->kernel_h, scratch, XT_S8);
    for (int ox = 0; ox < window->out_w; ox++) {
        const float *column = scratch + (size_t)(ox * window->stride_w) * (size_t)c;
        float *to = out + (size_t)ox * (size_t)c;
        if (window->kernel_w == 5)
            add_columns(column, (size_t)c, 5, share, to);
        else if (window->kernel_w == 10)
            add_columns(column, (size_t)c, 10, share, to);
        else
            add_columns(column, (size_t)c, window->kernel_w, share, to);
    }
}

/* Column sums of h pixels of c numbers, a row apart, and of all squares. */
XT_INLINE float sum_few_rows(const float *in, int h, size_t row, int c, float *out)
{
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int k = 0; k < c; k++) {
        float sum = in[k];
        float square = in[k] * in[k];
        for (int y = 1; y < h; y++) {
            float v = in[(size_t)y * row + (size_t)k];
            sum += v;
            square += v * v;
        }
        out[k] = sum;
        squares += square;
    }
    return squares;
}

static float sum_more_rows(const float *in, int h, size_t row, int c, float *out)
{
    float squares = sum_few_rows(in, 1, row, c, out);
    for (int y = 1; y < h; y++) {
        const float *from = in + (size_t)y * row;
#pragma omp simd reduction(+ : squares)
        for (int k = 0; k < c; k++) {
            out[k] += from[k];
            squares += from[k] * from[k];
        }
    }
    return squares;
}

double XT_LOOPS_NAME(sum_rows)(const float *in, int h, int w, int c, float *out, size_t stride)
{
    size_t row = (size_t)w * (size_t)c;
    double squares = 0;
    for (int x = 0; x < w; x++) {
        const float *column = in + (size_t)x * (size_t)c;
        float *to = out + (size_t)x * stride;
        squares += (double)(h == 4 ? sum_few_rows(column, 4, row, c, to)
                                   : sum_more_rows(column, h, row, c, to));
    }
    return squares;
}

void XT_LOOPS_NAME(scale_rows)(float *numbers, int w, int c, size_t stride, float factor)
{
    for (int x = 0; x < w; x++) {
        float *pixel = numbers + (size_t)x * stride;
#pragma omp simd
        for (int k = 0; k < c; k++)
            pixel[k] *= factor;
    }
}
