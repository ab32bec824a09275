/* 1x1 convolutions of inference, defined in pointwise_infer_job.h. */
#include "engine/loops/table.h"

#ifdef XT_LOOPS_HAVE_POINTWISE_INFER
#include <immintrin.h>

#include "engine/loops/activation_value.h"
#include "engine/loops/pixels.h"

enum {
    LANES = 16,
    PAIR = XT_POINTWISE_INFER_OUT, /* channels of the output, in registers */
    WORD = XT_POINTWISE_INFER_WORD,
    ROWS = XT_POINTWISE_INFER_ROWS,
    CHUNK = 56, /* pixels whose input is read from the caches for all channels of the output */
    UNROLLED = XT_POINTWISE_INFER_BYTES / WORD,
    LINE = 64
};

struct chunk {
    const void *in[CHUNK]; /* a pixel's channels */
    int count;
};

static void find_pixels(const struct xt_pointwise_infer *job, int first, int end,
                        struct chunk *chunk)
{
    const struct xt_pixels pixels = {job->in,       (size_t)job->in_c * xt_dtype_size(job->dtype),
                                     job->h,        job->w,
                                     job->out_h,    job->out_w,
                                     job->stride_h, job->stride_w};
    chunk->count = end - first < CHUNK ? end - first : CHUNK;
    xt_find_pixels(&pixels, first, chunk->count, chunk->in);
}

/* ---- from sums to the output ---- */

/* int8: what turns sums into bytes; it is constant where it is used, but for the vectors. */
struct ending {
    __m512 scale[2], bias[2], residual_scale;
    bool out_signed;
    enum { NOTHING, UNSIGNED, SIGNED } adds;
};

/* PAIR channels of a pixel, in the order of their places. */
XT_INLINE void add_residual(const struct ending *ending, const uint8_t *out, __m512 value[2])
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)out);
    __m512i numbers =
        ending->adds == SIGNED ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
    __m512i high = ending->adds == SIGNED ? _mm512_srai_epi16(numbers, 15) : _mm512_setzero_si512();
    value[0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(numbers, high)),
                               ending->residual_scale, value[0]);
    value[1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(numbers, high)),
                               ending->residual_scale, value[1]);
}

/* PAIR channels of a pixel, as 16 bits. */
XT_INLINE __m512i finish(const struct ending *ending, const uint8_t *out, const __m512i sums[2])
{
    const __m512 most = _mm512_set1_ps(UINT8_MAX); /* what is far more would not convert */
    __m512 value[2];
    for (int v = 0; v < 2; v++)
        value[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[v]), ending->scale[v], ending->bias[v]);
    if (ending->adds != NOTHING)
        add_residual(ending, out, value);
    return _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_min_ps(value[0], most)),
                              _mm512_cvtps_epi32(_mm512_min_ps(value[1], most)));
}

XT_INLINE void store_two(const struct ending *ending, uint8_t *out, size_t row, bool two,
                         const __m512i first[2], const __m512i second[2])
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i left = finish(ending, out, first);
    __m512i right = two ? finish(ending, out + row, second) : left;
    __m512i bytes =
        _mm512_permutexvar_epi64(order, ending->out_signed ? _mm512_packs_epi16(left, right)
                                                           : _mm512_packus_epi16(left, right));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(bytes));
    if (two)
        _mm256_storeu_si256((__m256i *)(void *)(out + row), _mm512_extracti64x4_epi64(bytes, 1));
}

XT_INLINE void store_pixels(const struct ending *ending, uint8_t *out, size_t row, int rows,
                            __m512i sums[ROWS][2])
{
#pragma GCC unroll 4
    for (int r = 0; r < rows; r += 2)
        store_two(ending, out + (size_t)r * row, row, r + 1 < rows, sums[r], sums[(r + 1) % ROWS]);
}

XT_INLINE void end_bytes(const struct xt_pointwise_infer *job, int channel, uint8_t *out, int rows,
                         __m512i sums[ROWS][2])
{
    struct ending ending = {.residual_scale = _mm512_set1_ps(job->residual_scale)};
    size_t row = (size_t)job->row;
    for (int v = 0; v < 2; v++) {
        ending.scale[v] = _mm512_loadu_ps(job->scale + channel + v * LANES);
        ending.bias[v] = _mm512_loadu_ps(job->bias + channel + v * LANES);
    }
    if (job->adds && job->residual_signed) {
        ending.adds = SIGNED;
        store_pixels(&ending, out, row, rows, sums);
    } else if (job->adds) {
        ending.adds = UNSIGNED;
        store_pixels(&ending, out, row, rows, sums);
    } else if (job->out_signed) {
        ending.out_signed = true;
        store_pixels(&ending, out, row, rows, sums);
    } else {
        store_pixels(&ending, out, row, rows, sums);
    }
}

/* PAIR channels of a few pixels, from memory: few convolutions have these activations. */
static void activate_pairs(const struct xt_pointwise_infer *job, uint16_t *out, int rows,
                           const vec sums[ROWS][2])
{
    bool hard = job->activation->kind == XT_ACT_HARD_SWISH;
    for (int r = 0; r < rows; r++, out += job->row)
        for (int v = 0; v < 2; v++) {
            vec value = sums[r][v];
            if (job->adds)
                value += load_vec(out, (size_t)v * LANES, XT_BF16);
            store_vec(out, (size_t)v * LANES, swish_value(value, hard, XT_BF16), XT_BF16);
        }
}

XT_INLINE void end_halves(const struct xt_pointwise_infer *job, uint16_t *out, int rows,
                          __m512i sums[ROWS][2])
{
    const struct limits limits = limits_behind(job->relu, job->activation);
    if (job->activation && job->activation->kind != XT_ACT_CLIP) {
        vec copy[ROWS][2];
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2; v++)
                copy[r][v] = (vec)sums[r][v];
        activate_pairs(job, out, rows, copy);
        return;
    }
    for (int r = 0; r < rows; r++, out += job->row) {
        vec value[2] = {(vec)sums[r][0], (vec)sums[r][1]};
        for (int v = 0; v < 2; v++) {
            if (job->adds)
                value[v] += load_vec(out, (size_t)v * LANES, XT_BF16);
            value[v] = vec_least(limits.most, vec_most(limits.least, value[v]));
        }
        _mm512_storeu_si512(out, line_of_two(value[0], value[1]));
    }
}

/* ---- products ---- */

/* gcc 12 copies the sums of the builtins between registers. */
XT_INLINE __m512i add_products(__m512i sum, __m512i pixel, __m512i weights, bool int8)
{
    if (int8)
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(pixel), "v"(weights));
    else
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pixel), "v"(weights));
    return sum;
}

/* PAIR channels of `rows` pixels; meanwhile the weights of the next ones are fetched, and these
 * channels of the next chunk. */
XT_INLINE void multiply(const struct xt_pointwise_infer *job, const void *const *in, int channel,
                        char *out, int rows, bool int8)
{
    size_t number = int8 ? 1 : 2;
    size_t bytes = (size_t)job->in_c * number;
    size_t row = (size_t)job->row * number;
    const char *weights = (const char *)job->weights + (size_t)channel * bytes;
    const char *ahead = channel + PAIR < job->out_c ? weights + PAIR * bytes : job->weights;
    __m512i sums[ROWS][2];
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < 2; v++)
            sums[r][v] =
                int8 ? _mm512_setzero_si512() : _mm512_loadu_si512(job->bias + channel + v * LANES);
        __builtin_prefetch(out + (size_t)r * row, 1);
        __builtin_prefetch(out + (size_t)(r + CHUNK) * row, 0, 2);
    }
    for (size_t i = 0; i < bytes; i += UNROLLED * WORD)
        for (int k = 0; k < UNROLLED; k++, weights += 2 * LINE, ahead += 2 * LINE) {
            __m512i left = _mm512_loadu_si512(weights);
            __m512i right = _mm512_loadu_si512(weights + LINE);
            __builtin_prefetch(ahead, 0, 2);
            __builtin_prefetch(ahead + LINE, 0, 2);
            for (int r = 0; r < rows; r++) {
                int32_t word;
                memcpy(&word, (const char *)in[r] + i + k * WORD, sizeof word);
                __m512i one = _mm512_set1_epi32(word);
                sums[r][0] = add_products(sums[r][0], one, left, int8);
                sums[r][1] = add_products(sums[r][1], one, right, int8);
            }
        }
    if (int8)
        end_bytes(job, channel, (uint8_t *)out, rows, sums);
    else
        end_halves(job, (uint16_t *)(void *)out, rows, sums);
}

XT_INLINE void multiply_some(const struct xt_pointwise_infer *job, const void *const *in,
                             int channel, char *out, int rows, bool int8)
{
    switch (rows) {
    case 1:
        multiply(job, in, channel, out, 1, int8);
        return;
    case 2:
        multiply(job, in, channel, out, 2, int8);
        return;
    case 3:
        multiply(job, in, channel, out, 3, int8);
        return;
    case 4:
        multiply(job, in, channel, out, 4, int8);
        return;
    case 5:
        multiply(job, in, channel, out, 5, int8);
        return;
    case 6:
        multiply(job, in, channel, out, 6, int8);
        return;
    case 7:
        multiply(job, in, channel, out, 7, int8);
        return;
    default:
        multiply(job, in, channel, out, ROWS, int8);
    }
}

/* Of `left` pixels, so that none of their tiles is much smaller than the others. */
static int rows_of(int left)
{
    int tiles = (left + ROWS - 1) / ROWS;
    return (left + tiles - 1) / tiles;
}

XT_INLINE void run(const struct xt_pointwise_infer *job, int first, int end, bool int8)
{
    size_t number = int8 ? 1 : 2;
    struct chunk chunk;
    for (; first < end; first += chunk.count) {
        find_pixels(job, first, end, &chunk);
        for (int channel = 0; channel < job->out_c; channel += PAIR)
            for (int i = 0, rows = 0; i < chunk.count; i += rows) {
                size_t place = (size_t)(first + i) * (size_t)job->row + (size_t)channel;
                rows = rows_of(chunk.count - i);
                multiply_some(job, chunk.in + i, channel, (char *)job->out + place * number, rows,
                              int8);
            }
    }
}

void XT_LOOPS_NAME(pointwise_int8)(const struct xt_pointwise_infer *job, int first, int end)
{
    run(job, first, end, true);
}

#ifdef __AVX512BF16__
void XT_LOOPS_NAME(pointwise_bf16)(const struct xt_pointwise_infer *job, int first, int end)
{
    run(job, first, end, false);
}
#endif

#endif
