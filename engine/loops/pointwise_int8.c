/* 1x1 convolutions in int8, defined in pointwise_int8_job.h. */
#include "engine/loops/table.h"

#ifdef XT_LOOPS_HAVE_POINTWISE_INT8
#include <immintrin.h>

/* The builds for AVX-512 are for CPUs without VNNI too. */
#define WITH_VNNI __attribute__((target("avx512vnni")))

enum {
    LANES = 16,
    PAIR = XT_POINTWISE_INT8_OUT, /* channels of the output, in registers */
    WORD = XT_POINTWISE_INT8_WORD,
    ROWS = 8,   /* pixels, in registers */
    CHUNK = 56, /* pixels whose input is read from the caches for all channels of the output */
    UNROLLED = XT_POINTWISE_INT8_IN / WORD,
    LINE = 64
};

struct chunk {
    const uint8_t *in[CHUNK]; /* a pixel's channels */
    int count;
};

static void find_pixels(const struct xt_pointwise_int8 *job, int first, int end,
                        struct chunk *chunk)
{
    int x = first % job->out_w;
    int y = first / job->out_w % job->out_h;
    int n = first / job->out_w / job->out_h;
    chunk->count = end - first < CHUNK ? end - first : CHUNK;
    for (int i = 0; i < chunk->count; i++) {
        size_t row = (size_t)n * (size_t)job->h + (size_t)(y * job->stride_h);
        chunk->in[i] =
            job->in + (row * (size_t)job->w + (size_t)(x * job->stride_w)) * (size_t)job->in_c;
        x = x + 1 < job->out_w ? x + 1 : 0;
        y += x == 0;
        n += y == job->out_h;
        y = y < job->out_h ? y : 0;
    }
}

/* What turns sums into bytes; it is constant where it is used, but for the vectors. */
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

XT_INLINE void end_pixels(const struct xt_pointwise_int8 *job, int channel, uint8_t *out, int rows,
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

/* PAIR channels of `rows` pixels; meanwhile the weights of the next ones are fetched, and these
 * channels of the next chunk. */
WITH_VNNI XT_INLINE void multiply(const struct xt_pointwise_int8 *job, const uint8_t *const *in,
                                  int channel, uint8_t *out, int rows)
{
    const int8_t *weights = job->weights + (size_t)channel * (size_t)job->in_c;
    const int8_t *ahead =
        channel + PAIR < job->out_c ? weights + (size_t)PAIR * (size_t)job->in_c : job->weights;
    __m512i sums[ROWS][2];
    for (int r = 0; r < rows; r++) {
        sums[r][0] = sums[r][1] = _mm512_setzero_si512();
        __builtin_prefetch(out + (size_t)r * (size_t)job->row, 1);
        __builtin_prefetch(out + (size_t)(r + CHUNK) * (size_t)job->row, 0, 2);
    }
    for (int i = 0; i < job->in_c; i += UNROLLED * WORD)
        for (int k = 0; k < UNROLLED; k++, weights += PAIR * WORD, ahead += PAIR * WORD) {
            __m512i left = _mm512_loadu_si512(weights);
            __m512i right = _mm512_loadu_si512(weights + LINE);
            __builtin_prefetch(ahead, 0, 2);
            __builtin_prefetch(ahead + LINE, 0, 2);
            for (int r = 0; r < rows; r++) {
                int32_t word;
                memcpy(&word, in[r] + i + k * WORD, sizeof word);
                __m512i one = _mm512_set1_epi32(word);
                sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], one, left);
                sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], one, right);
            }
        }
    end_pixels(job, channel, out, rows, sums);
}

WITH_VNNI static void multiply_some(const struct xt_pointwise_int8 *job, const uint8_t *const *in,
                                    int channel, uint8_t *out, int rows)
{
    switch (rows) {
    case 1:
        multiply(job, in, channel, out, 1);
        return;
    case 2:
        multiply(job, in, channel, out, 2);
        return;
    case 3:
        multiply(job, in, channel, out, 3);
        return;
    case 4:
        multiply(job, in, channel, out, 4);
        return;
    case 5:
        multiply(job, in, channel, out, 5);
        return;
    case 6:
        multiply(job, in, channel, out, 6);
        return;
    case 7:
        multiply(job, in, channel, out, 7);
        return;
    default:
        multiply(job, in, channel, out, ROWS);
    }
}

/* So many of the pixels that are left that few are never alone. */
static int rows_of(int left)
{
    if (left > ROWS && left < 2 * ROWS)
        return (left + 1) / 2;
    return left < ROWS ? left : ROWS;
}

void XT_LOOPS_NAME(pointwise_int8)(const struct xt_pointwise_int8 *job, int first, int end)
{
    struct chunk chunk;
    for (; first < end; first += chunk.count) {
        find_pixels(job, first, end, &chunk);
        for (int channel = 0; channel < job->out_c; channel += PAIR)
            for (int i = 0, rows = 0; i < chunk.count; i += rows) {
                rows = rows_of(chunk.count - i);
                multiply_some(job, chunk.in + i, channel,
                              job->out + (size_t)(first + i) * (size_t)job->row + channel, rows);
            }
    }
}

#endif
