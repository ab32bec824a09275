#include "data/loops/pixels.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define NAME_OF(isa) xt_pixel_loops_##isa
#define NAME(isa) NAME_OF(isa)

enum { HALF_WEIGHT = 1 << (XT_FILTER_FRACTION - 1) };

/* Weights sum to one but for a few millionths, so no sum leaves the range of a byte. */
static uint8_t rounded(int32_t sum)
{
    return (uint8_t)((sum + HALF_WEIGHT) >> XT_FILTER_FRACTION);
}

static void filter_pixel(const struct xt_row_filter *filter, int i, const uint8_t *in, uint8_t *out)
{
    const uint8_t *pixel = in + (size_t)filter->first[i] * 3;
    const int32_t *weights = filter->weights + (size_t)i * (size_t)filter->taps;
    int32_t sum[3] = {0};
    for (int k = 0; k < filter->count[i]; k++, pixel += 3)
        for (int c = 0; c < 3; c++)
            sum[c] += weights[k] * pixel[c];
    for (int c = 0; c < 3; c++)
        out[i * 3 + c] = rounded(sum[c]);
}

#if defined(__AVX512BW__) || !defined(__AVX2__)
/* Outputs `from` to `end` - 1. */
static void filter_pixels(const struct xt_row_filter *filter, int from, int end, const uint8_t *in,
                          uint8_t *out)
{
    for (int i = from; i < end; i++)
        filter_pixel(filter, i, in, out);
}
#endif

#if defined(__AVX512BW__) && defined(__AVX512VL__)

enum { WINDOW_BYTES = 16 };

/* The windows of four output pixels, one in each 128-bit lane. */
static inline __m512i load_windows(const uint8_t *in, const int *first)
{
    __m512i windows =
        _mm512_castsi128_si512(_mm_loadu_si128((const void *)(in + (size_t)first[0] * 3)));
    windows =
        _mm512_inserti32x4(windows, _mm_loadu_si128((const void *)(in + (size_t)first[1] * 3)), 1);
    windows =
        _mm512_inserti32x4(windows, _mm_loadu_si128((const void *)(in + (size_t)first[2] * 3)), 2);
    return _mm512_inserti32x4(windows, _mm_loadu_si128((const void *)(in + (size_t)first[3] * 3)),
                              3);
}

/* Four outputs from four windows: a pair of taps at a time, its channels side by side as 16 bits,
 * times the weights' halves. */
static inline __m512i weigh_windows(__m512i windows, const uint32_t *packed)
{
    const __m512i lanes = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i pairs[XT_FILTER_PAIRS] = {
        _mm512_broadcast_i32x4(
            _mm_set_epi8(-1, -1, -1, -1, -1, 5, -1, 2, -1, 4, -1, 1, -1, 3, -1, 0)),
        _mm512_broadcast_i32x4(
            _mm_set_epi8(-1, -1, -1, -1, -1, 11, -1, 8, -1, 10, -1, 7, -1, 9, -1, 6)),
        _mm512_broadcast_i32x4(
            _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, 14, -1, -1, -1, 13, -1, -1, -1, 12)),
    };
    __m512i low = _mm512_set1_epi32(HALF_WEIGHT);
    __m512i high = _mm512_setzero_si512();
    for (int p = 0; p < XT_FILTER_PAIRS; p++, packed += 2 * XT_FILTER_PACK) {
        __m512i pixels = _mm512_shuffle_epi8(windows, pairs[p]);
        __m512i both = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)packed));
        __m512i lower = _mm512_permutexvar_epi32(lanes, both);
        __m512i upper =
            _mm512_permutexvar_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32(4)), both);
        low = _mm512_add_epi32(low, _mm512_madd_epi16(pixels, lower));
        high = _mm512_add_epi32(high, _mm512_madd_epi16(pixels, upper));
    }
    low = _mm512_add_epi32(low, _mm512_slli_epi32(high, XT_FILTER_SPLIT));
    return _mm512_srli_epi32(low, XT_FILTER_FRACTION);
}

static void filter_row(const struct xt_row_filter *filter, const uint8_t *in, uint8_t *out)
{
    enum { PACK = XT_FILTER_PACK, PACKED = 2 * XT_FILTER_PAIRS * XT_FILTER_PACK };
    const __m128i three_of_four =
        _mm_set_epi8(-1, -1, -1, -1, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
    if (!filter->packed) {
        filter_pixels(filter, 0, filter->out, in, out);
        return;
    }
    /* A window is read as 16 bytes, which must lie within the row. */
    int most = (filter->in * 3 - WINDOW_BYTES) / 3;
    if (filter->in * 3 < WINDOW_BYTES)
        most = -1;
    int i = 0;
    for (; i + PACK <= filter->out; i += PACK) {
        const int *first = filter->first + i;
        if (first[0] > most || first[PACK - 1] > most) {
            filter_pixels(filter, i, i + PACK, in, out);
            continue;
        }
        __m512i sums =
            weigh_windows(load_windows(in, first), filter->packed + (size_t)(i / PACK) * PACKED);
        __m128i bytes = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(sums), three_of_four);
        _mm_mask_storeu_epi8(out + (size_t)i * 3, 0xFFF, bytes);
    }
    filter_pixels(filter, i, filter->out, in, out);
}

#elif defined(__AVX2__)

static inline __m128i load_pixel(const uint8_t *bytes)
{
    int value;
    memcpy(&value, bytes, sizeof value);
    return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(value));
}

/* Pixels are read and written as four bytes, the last of which is the next one's: so where a window
 * reaches the row's end, and for the last output, the plain loop takes over. */
static void filter_row(const struct xt_row_filter *filter, const uint8_t *in, uint8_t *out)
{
    const __m128i low_bytes =
        _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 12, 8, 4, 0);
    int last = filter->out - 1;
    for (int i = 0; i <= last; i++) {
        int count = filter->count[i];
        if (i == last || filter->first[i] + count >= filter->in) {
            filter_pixel(filter, i, in, out);
            continue;
        }
        const uint8_t *pixel = in + (size_t)filter->first[i] * 3;
        const int32_t *weights = filter->weights + (size_t)i * (size_t)filter->taps;
        __m128i sum = _mm_set1_epi32(HALF_WEIGHT);
        for (int k = 0; k < count; k++)
            sum = _mm_add_epi32(sum, _mm_mullo_epi32(_mm_set1_epi32(weights[k]),
                                                     load_pixel(pixel + (size_t)k * 3)));
        sum = _mm_shuffle_epi8(_mm_srli_epi32(sum, XT_FILTER_FRACTION), low_bytes);
        int value = _mm_cvtsi128_si32(sum);
        memcpy(out + (size_t)i * 3, &value, sizeof value);
    }
}

#else

static void filter_row(const struct xt_row_filter *filter, const uint8_t *in, uint8_t *out)
{
    filter_pixels(filter, 0, filter->out, in, out);
}

#endif

#if defined(__AVX512BW__) && defined(__AVX512VL__)

enum { MIXED = 16 };

static inline void mix_block(const uint8_t *const *rows, const int32_t *weights, int row_count,
                             size_t at, uint8_t *out)
{
    __m512i sum = _mm512_set1_epi32(HALF_WEIGHT);
    for (int k = 0; k < row_count; k++) {
        __m512i row = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(rows[k] + at)));
        sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(row, _mm512_set1_epi32(weights[k])));
    }
    sum = _mm512_srli_epi32(sum, XT_FILTER_FRACTION);
    _mm_storeu_si128((void *)(out + at), _mm512_cvtepi32_epi8(sum));
}

#elif defined(__AVX2__)

enum { MIXED = 8 };

static inline void mix_block(const uint8_t *const *rows, const int32_t *weights, int row_count,
                             size_t at, uint8_t *out)
{
    __m256i sum = _mm256_set1_epi32(HALF_WEIGHT);
    for (int k = 0; k < row_count; k++) {
        __m256i row = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(rows[k] + at)));
        sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(row, _mm256_set1_epi32(weights[k])));
    }
    sum = _mm256_srli_epi32(sum, XT_FILTER_FRACTION);
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storel_epi64((void *)(out + at), _mm_packus_epi16(words, words));
}

#else

enum { MIXED = 16 };

static inline void mix_block(const uint8_t *const *rows, const int32_t *weights, int row_count,
                             size_t at, uint8_t *out)
{
    int32_t sum[MIXED] = {0};
    for (int k = 0; k < row_count; k++)
        for (int i = 0; i < MIXED; i++)
            sum[i] += weights[k] * rows[k][at + (size_t)i];
    for (int i = 0; i < MIXED; i++)
        out[at + (size_t)i] = rounded(sum[i]);
}

#endif

static void mix_rows(const uint8_t *const *rows, const int32_t *weights, int row_count,
                     size_t bytes, uint8_t *out)
{
    size_t i = 0;
    for (; i + MIXED <= bytes; i += MIXED)
        mix_block(rows, weights, row_count, i, out);
    for (; i < bytes; i++) {
        int32_t sum = 0;
        for (int k = 0; k < row_count; k++)
            sum += weights[k] * rows[k][i];
        out[i] = rounded(sum);
    }
}

static void add_row(int32_t *restrict sums, const uint8_t *restrict row, int32_t weight,
                    size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sums[i] += weight * row[i];
}

/* ---- warp ----
 * 16-bit arithmetic: pixels have 6 fractional bits, positions too. */

enum { PIXEL_ONE = 64, MIDDLE = 128 * PIXEL_ONE };

/* a * b / 2^15, rounded: what one instruction does. */
static inline int scaled(int a, int b)
{
    return (a * b + (1 << 14)) >> 15;
}

static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static void warp_pixels(const struct xt_warp_row *row, int from)
{
    int64_t most_x = (int64_t)(row->width - 1) << 16;
    int64_t most_y = (int64_t)(row->height - 1) << 16;
    ptrdiff_t stride = (ptrdiff_t)row->width * 3;
    for (int i = from; i < row->count; i++) {
        int64_t x = clamp(row->x + i * row->step_x, most_x);
        int64_t y = clamp(row->y + i * row->step_y, most_y);
        int fx = (int)(x >> 10) & (PIXEL_ONE - 1);
        int fy = (int)(y >> 10) & (PIXEL_ONE - 1);
        const uint8_t *top = row->in + (y >> 16) * stride + (x >> 16) * 3;
        /* Where there is no next row or column, its part is nothing. */
        const uint8_t *bottom = (y >> 16) + 1 < row->height ? top + stride : top;
        for (int c = 0; c < 3; c++) {
            int above = top[c] * (PIXEL_ONE - fx) + top[c + 3] * fx;
            int below = bottom[c] * (PIXEL_ONE - fx) + bottom[c + 3] * fx;
            int value = above + scaled(below - above, fy << 9);
            int light = scaled((value - MIDDLE) * 2, row->contrast) + MIDDLE +
                        row->brightness * PIXEL_ONE + PIXEL_ONE / 2;
            row->out[i * 3 + c] = (uint8_t)clamp(light >> 6, 255);
        }
    }
}

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
enum { WARP_PIXELS = 8 };

/* Eight pixels, one in each 64-bit lane. A lane's two neighbours are six bytes, put side by side by
 * channel, so that one instruction weighs and adds them. */
static int warp_vectors(const struct xt_warp_row *row)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i most_x = _mm512_set1_epi64((int64_t)(row->width - 1) << 16);
    const __m512i most_y = _mm512_set1_epi64((int64_t)(row->height - 1) << 16);
    const __m512i last_row = _mm512_set1_epi64(row->height - 1);
    const __m512i stride = _mm512_set1_epi64((int64_t)row->width * 3);
    const __m512i fraction = _mm512_set1_epi64(PIXEL_ONE - 1);
    const __m512i one = _mm512_set1_epi64(PIXEL_ONE);
    const __m512i pairs = _mm512_broadcast_i32x4(
        _mm_set_epi8(-1, -1, 13, 10, 12, 9, 11, 8, -1, -1, 5, 2, 4, 1, 3, 0));
    const __m512i words =
        _mm512_broadcast_i32x4(_mm_set_epi8(9, 8, 9, 8, 9, 8, 9, 8, 1, 0, 1, 0, 1, 0, 1, 0));
    const __m512i steps = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i contrast = _mm512_set1_epi16((int16_t)row->contrast);
    const __m512i middle = _mm512_set1_epi16(MIDDLE);
    const __m512i light =
        _mm512_set1_epi16((int16_t)(MIDDLE + row->brightness * PIXEL_ONE + PIXEL_ONE / 2));
    __m512i x = _mm512_add_epi64(_mm512_set1_epi64(row->x),
                                 _mm512_mullo_epi64(steps, _mm512_set1_epi64(row->step_x)));
    __m512i y = _mm512_add_epi64(_mm512_set1_epi64(row->y),
                                 _mm512_mullo_epi64(steps, _mm512_set1_epi64(row->step_y)));
    const __m512i step_x = _mm512_set1_epi64(WARP_PIXELS * row->step_x);
    const __m512i step_y = _mm512_set1_epi64(WARP_PIXELS * row->step_y);
    int i = 0;
    for (; i + WARP_PIXELS <= row->count; i += WARP_PIXELS) {
        __m512i at_x = _mm512_min_epi64(_mm512_max_epi64(x, zero), most_x);
        __m512i at_y = _mm512_min_epi64(_mm512_max_epi64(y, zero), most_y);
        x = _mm512_add_epi64(x, step_x);
        y = _mm512_add_epi64(y, step_y);
        __m512i column = _mm512_srli_epi64(at_x, 16);
        __m512i line = _mm512_srli_epi64(at_y, 16);
        /* Positions are below 2^32, so the 32-bit product is enough. */
        __m512i top_at = _mm512_add_epi64(_mm512_mul_epu32(line, stride),
                                          _mm512_add_epi64(column, _mm512_slli_epi64(column, 1)));
        __mmask8 has_next = _mm512_cmplt_epi64_mask(line, last_row);
        __m512i bottom_at = _mm512_mask_add_epi64(top_at, has_next, top_at, stride);
        __m512i top = _mm512_i64gather_epi64(top_at, row->in, 1);
        __m512i bottom = _mm512_i64gather_epi64(bottom_at, row->in, 1);
        top = _mm512_shuffle_epi8(top, pairs);
        bottom = _mm512_shuffle_epi8(bottom, pairs);
        __m512i fx = _mm512_and_si512(_mm512_srli_epi64(at_x, 10), fraction);
        __m512i fy = _mm512_and_si512(_mm512_srli_epi64(at_y, 10), fraction);
        __m512i across = _mm512_or_si512(_mm512_sub_epi64(one, fx), _mm512_slli_epi64(fx, 8));
        across = _mm512_shuffle_epi8(across, words);
        __m512i down = _mm512_shuffle_epi8(_mm512_slli_epi64(fy, 9), words);
        __m512i above = _mm512_maddubs_epi16(top, across);
        __m512i below = _mm512_maddubs_epi16(bottom, across);
        __m512i value =
            _mm512_add_epi16(above, _mm512_mulhrs_epi16(_mm512_sub_epi16(below, above), down));
        value = _mm512_slli_epi16(_mm512_sub_epi16(value, middle), 1);
        value = _mm512_add_epi16(_mm512_mulhrs_epi16(value, contrast), light);
        value = _mm512_srai_epi16(value, 6);
        value = _mm512_max_epi16(_mm512_min_epi16(value, _mm512_set1_epi16(255)), zero);
        /* Four bytes a pixel, then three. */
        __m256i bytes = _mm512_cvtepi16_epi8(value);
        bytes = _mm256_shuffle_epi8(
            bytes, _mm256_broadcastsi128_si256(
                       _mm_set_epi8(-1, -1, -1, -1, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0)));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 5, 4, 2, 1, 0));
        _mm256_mask_storeu_epi8(row->out + (size_t)i * 3, 0xFFFFFF, bytes);
    }
    return i;
}

static void warp_row(const struct xt_warp_row *row)
{
    /* Offsets are products of 32 bits. */
    int done = (int64_t)row->width * row->height < (1 << 29) ? warp_vectors(row) : 0;
    warp_pixels(row, done);
}
#else
static void warp_row(const struct xt_warp_row *row)
{
    warp_pixels(row, 0);
}
#endif

static void blend(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                  uint8_t *restrict out, size_t bytes)
{
    uint16_t outer = (uint16_t)side;
    uint16_t inner = (uint16_t)(256 - 2 * side);
    for (size_t i = 0; i < bytes; i++) {
        uint16_t sum = (uint16_t)(before[i] * outer + after[i] * outer + now[i] * inner + 128);
        out[i] = (uint8_t)(sum >> 8);
    }
}

/* ITU-R BT.601's weights of red, green and blue, in 1 / 256. */
static inline int grey_of(const uint8_t *pixel, int red)
{
    return (pixel[red] * 77 + pixel[1] * 150 + pixel[2 - red] * 29 + 128) >> 8;
}

static uint64_t sum_grey_from(const uint8_t *pixels, size_t count, int red)
{
    uint64_t all = 0;
    enum { STRETCH = 1 << 16 };
    for (size_t from = 0; from < count; from += STRETCH) {
        size_t end = count - from < STRETCH ? count : from + STRETCH;
        uint32_t sum = 0;
        for (size_t i = from; i < end; i++)
            sum += (uint32_t)grey_of(pixels + 3 * i, red);
        all += sum;
    }
    return all;
}

static uint64_t sum_grey(const uint8_t *pixels, size_t count, int red)
{
    return red == 0 ? sum_grey_from(pixels, count, 0) : sum_grey_from(pixels, count, 2);
}

static inline uint8_t as_byte(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline void change_from(uint8_t *pixels, size_t count, int red,
                               const struct xt_colour_change *change)
{
    int own = change->own;
    int grey = change->grey;
    int shift = change->shift + 128;
    for (size_t i = 0; i < count; i++) {
        uint8_t *pixel = pixels + 3 * i;
        int common = grey_of(pixel, red) * grey + shift;
        int first = pixel[0] * own + common;
        int second = pixel[1] * own + common;
        int third = pixel[2] * own + common;
        pixel[0] = as_byte(first >> 8);
        pixel[1] = as_byte(second >> 8);
        pixel[2] = as_byte(third >> 8);
    }
}

static void change_colours(uint8_t *pixels, size_t count, int red,
                           const struct xt_colour_change *change)
{
    if (red == 0)
        change_from(pixels, count, 0, change);
    else
        change_from(pixels, count, 2, change);
}

#define STRING_OF(isa) #isa
#define STRING(isa) STRING_OF(isa)

extern const struct xt_pixel_loops NAME(XT_LOOPS_ISA);
const struct xt_pixel_loops NAME(XT_LOOPS_ISA) = {
    .isa = STRING(XT_LOOPS_ISA),
    .filter_row = filter_row,
    .mix_rows = mix_rows,
    .add_row = add_row,
    .warp_row = warp_row,
    .blend = blend,
    .sum_grey = sum_grey,
    .change_colours = change_colours,
};
