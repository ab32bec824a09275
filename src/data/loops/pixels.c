#include "data/loops/pixels.h"

#include <string.h>

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>
#endif

#define NAME_OF(isa) xt_pixel_loops_##isa
#define NAME(isa) NAME_OF(isa)

enum { HALF_WEIGHT = 1 << (XT_FILTER_FRACTION - 1) };

/* Vectors of the compiler's own, as wide as the instruction set's registers. */
#if defined(__AVX512BW__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));
typedef uint8_t narrow __attribute__((vector_size(LANES)));
typedef int32_t four __attribute__((vector_size(16)));
typedef uint8_t four_bytes __attribute__((vector_size(4)));

static inline lanes load_lanes(const uint8_t *bytes)
{
    narrow value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_convertvector(value, lanes);
}

static inline void store_lanes(uint8_t *bytes, lanes value)
{
    narrow small = __builtin_convertvector(value, narrow);
    memcpy(bytes, &small, sizeof small);
}

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

static inline four load_pixel(const uint8_t *bytes)
{
    four_bytes value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_convertvector(value, four);
}

static inline void store_pixel(uint8_t *out, four sum)
{
    four_bytes small =
        __builtin_convertvector((sum + HALF_WEIGHT) >> XT_FILTER_FRACTION, four_bytes);
    memcpy(out, &small, sizeof small);
}

/* Pixels are read and written as four bytes, the last of which is the next one's: so where a window
 * reaches the row's end, and for the last output, the plain loop takes over. */
static void filter_row(const struct xt_row_filter *filter, const uint8_t *in, uint8_t *out)
{
    int last = filter->out - 1;
    for (int i = 0; i <= last; i++) {
        int count = filter->count[i];
        if (i == last || filter->first[i] + count >= filter->in) {
            filter_pixel(filter, i, in, out);
            continue;
        }
        const uint8_t *pixel = in + (size_t)filter->first[i] * 3;
        const int32_t *weights = filter->weights + (size_t)i * (size_t)filter->taps;
        four sum = weights[0] * load_pixel(pixel);
        for (int k = 1; k < count; k++)
            sum += weights[k] * load_pixel(pixel + (size_t)k * 3);
        store_pixel(out + (size_t)i * 3, sum);
    }
}

static void mix_rows(const uint8_t *const *rows, const int32_t *weights, int row_count,
                     size_t bytes, uint8_t *out)
{
    size_t i = 0;
    for (; i + LANES <= bytes; i += LANES) {
        lanes sum = weights[0] * load_lanes(rows[0] + i) + HALF_WEIGHT;
        for (int k = 1; k < row_count; k++)
            sum += weights[k] * load_lanes(rows[k] + i);
        store_lanes(out + i, sum >> XT_FILTER_FRACTION);
    }
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
