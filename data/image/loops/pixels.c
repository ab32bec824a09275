#include "data/image/loops/pixels.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define NAME_OF(isa) xt_pixel_loops_##isa
#define NAME(isa) NAME_OF(isa)

enum { HALF_WEIGHT = 1 << (XT_FILTER_FRACTION - 1) };

/* Weights sum to one up to a few millionths, so no sum leaves the range of a byte. */
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

/* The windows of four output pixels, one in each 128-bit part of a register. */
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

/* Four outputs from four windows: a pair of taps at a time, its channels interleaved as 16 bits,
 * times both halves of the weights. */
static inline __m512i weigh_windows(__m512i windows, const uint32_t *packed)
{
    const __m512i indices = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
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
        __m512i lower = _mm512_permutexvar_epi32(indices, both);
        __m512i upper =
            _mm512_permutexvar_epi32(_mm512_add_epi32(indices, _mm512_set1_epi32(4)), both);
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

/* Pixels are read and written as four bytes, the last of which belongs to the next one: so near the
 * row's end, and for the last output, the scalar loop takes over. */
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
 * 16-bit arithmetic: pixels and positions have 6 fractional bits. 256-bit vectors only, also where
 * wider ones exist: those would slow down the decoder, which alternates with this. */

enum { PIXEL_ONE = 64 };

/* a * b / 2^15, rounded: a single instruction. */
static inline int scaled(int a, int b)
{
    return (a * b + (1 << 14)) >> 15;
}

static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* Added after the contrast. */
static int warp_light(const struct xt_warp_row *row)
{
    return 128 + row->brightness - scaled(128 * PIXEL_ONE, row->contrast);
}

/* The last position on an axis of `size` pixels that has a right neighbour. */
static int64_t last_place(int size)
{
    int64_t last = ((int64_t)(size - 1) << 16) - (1 << 16) / PIXEL_ONE;
    return last < 0 ? 0 : last;
}

static void warp_pixels(const struct xt_warp_row *row)
{
    int64_t most_x = last_place(row->width);
    int64_t most_y = last_place(row->height);
    ptrdiff_t stride = (ptrdiff_t)row->width * 3;
    int light = warp_light(row);
    for (int i = 0; i < row->count; i++) {
        int64_t x = clamp(row->x + i * row->step_x, most_x);
        int64_t y = clamp(row->y + i * row->step_y, most_y);
        int fx = (int)(x >> 10) & (PIXEL_ONE - 1);
        int fy = (int)(y >> 10) & (PIXEL_ONE - 1);
        const uint8_t *top = row->in + (y >> 16) * stride + (x >> 16) * 3;
        const uint8_t *bottom = top + stride;
        for (int c = 0; c < 3; c++) {
            int above = top[c] * (PIXEL_ONE - fx) + top[c + 3] * fx;
            int below = bottom[c] * (PIXEL_ONE - fx) + bottom[c + 3] * fx;
            int value = above + scaled(below - above, fy << 9);
            row->out[i * 3 + c] = (uint8_t)clamp(scaled(value, row->contrast) + light, 255);
        }
    }
}

static void blend_bytes(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                        uint8_t *restrict out, size_t bytes)
{
    uint16_t outer = (uint16_t)side;
    uint16_t inner = (uint16_t)(128 - 2 * side);
    for (size_t i = 0; i < bytes; i++) {
        uint16_t sum = (uint16_t)(before[i] * outer + after[i] * outer + now[i] * inner + 64);
        out[i] = (uint8_t)(sum >> 7);
    }
}

#ifdef __AVX2__
#define XT_INLINE static inline __attribute__((always_inline))

enum { WARP_PIXELS = 8 };

/* The positions of eight output pixels in the input, in 1 / 65536 of a pixel. */
struct warp_places {
    __m256i x;
    __m256i y;
};

/* Constants of a row. */
struct warp_constants {
    struct warp_places most;
    __m256i strides; /* pairs of 16 bits: the byte strides of a row and a pixel */
    __m256i contrast;
    __m256i light;
};

/* Whether all positions and offsets fit in 32 bits. */
static int is_warped_by_vectors(const struct xt_warp_row *row)
{
    const int64_t most = 1 << 30;
    int64_t last_x = row->x + row->count * row->step_x;
    int64_t last_y = row->y + row->count * row->step_y;
    return row->count >= WARP_PIXELS && row->width < 1 << 13 && row->height < 1 << 14 &&
           row->x > -most && row->x < most && last_x > -most && last_x < most && row->y > -most &&
           row->y < most && last_y > -most && last_y < most;
}

/* The positions after 0, 1, 2... steps from `from`. */
XT_INLINE __m256i ramp(int64_t from, int64_t step)
{
    const __m256i steps = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_add_epi32(_mm256_set1_epi32((int)from),
                            _mm256_mullo_epi32(steps, _mm256_set1_epi32((int)step)));
}

XT_INLINE struct warp_places ramps_at(const struct xt_warp_row *row, int at)
{
    return (struct warp_places){ramp(row->x + at * row->step_x, row->step_x),
                                ramp(row->y + at * row->step_y, row->step_y)};
}

/* Broadcasts eight bytes to every 64-bit element. */
XT_INLINE __m256i expand(const uint8_t *bytes)
{
    int64_t value;
    memcpy(&value, bytes, sizeof value);
    return _mm256_set1_epi64x(value);
}

/* A pixel and its right neighbour from each of four places, interleaved by channel. Broadcasting
 * loads and blends are faster here than gather instructions. */
XT_INLINE __m256i take_pairs(const uint8_t *in, int a, int b, int c, int d)
{
    const __m256i by_channel = _mm256_broadcastsi128_si256(
        _mm_set_epi8(-1, -1, 13, 10, 12, 9, 11, 8, -1, -1, 5, 2, 4, 1, 3, 0));
    __m256i low = _mm256_blend_epi32(expand(in + a), expand(in + b), 0x0C);
    __m256i high = _mm256_blend_epi32(expand(in + c), expand(in + d), 0xC0);
    return _mm256_shuffle_epi8(_mm256_blend_epi32(low, high, 0xF0), by_channel);
}

/* Four pixels, 16 bits a channel. */
XT_INLINE __m256i weigh_pairs(const struct warp_constants *constants, __m256i top, __m256i bottom,
                              __m256i across, __m256i down)
{
    __m256i above = _mm256_maddubs_epi16(top, across);
    __m256i below = _mm256_maddubs_epi16(bottom, across);
    __m256i value =
        _mm256_add_epi16(above, _mm256_mulhrs_epi16(_mm256_sub_epi16(below, above), down));
    return _mm256_add_epi16(_mm256_mulhrs_epi16(value, constants->contrast), constants->light);
}

/* Four bytes a pixel, then three. */
XT_INLINE void store_pixels(__m256i pixels, uint8_t *out)
{
    const __m256i three_of_four = _mm256_broadcastsi128_si256(
        _mm_set_epi8(-1, -1, -1, -1, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0));
    const __m256i three_words = _mm256_set_epi32(7, 3, 6, 5, 4, 2, 1, 0);
    pixels = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, three_of_four), three_words);
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(pixels));
    _mm_storel_epi64((void *)(out + 16), _mm256_extracti128_si256(pixels, 1));
}

XT_INLINE void warp_vector(const struct xt_warp_row *row, const struct warp_constants *constants,
                           struct warp_places at, uint8_t *out)
{
    const __m256i twice = _mm256_broadcastsi128_si256(
        _mm_set_epi8(13, 12, 13, 12, 9, 8, 9, 8, 5, 4, 5, 4, 1, 0, 1, 0));
    const __m256i one = _mm256_set1_epi32(PIXEL_ONE);
    const __m256i fraction = _mm256_set1_epi32(PIXEL_ONE - 1);
    const __m256i zero = _mm256_setzero_si256();
    __m256i x = _mm256_min_epi32(_mm256_max_epi32(at.x, zero), constants->most.x);
    __m256i y = _mm256_min_epi32(_mm256_max_epi32(at.y, zero), constants->most.y);
    __m256i whole = _mm256_blend_epi16(_mm256_srli_epi32(y, 16), x, 0xAA);
    __m256i offsets = _mm256_madd_epi16(whole, constants->strides);
    _Alignas(32) int o[WARP_PIXELS];
    _mm256_store_si256((void *)o, offsets);
    /* Through memory: extracting vector elements costs more. */
    __asm__("" : "+m"(o));
    const uint8_t *next = row->in + (ptrdiff_t)row->width * 3;
    /* The order in which 16 bits are packed to 8 below. */
    __m256i top_a = take_pairs(row->in, o[0], o[1], o[4], o[5]);
    __m256i top_b = take_pairs(row->in, o[2], o[3], o[6], o[7]);
    __m256i bottom_a = take_pairs(next, o[0], o[1], o[4], o[5]);
    __m256i bottom_b = take_pairs(next, o[2], o[3], o[6], o[7]);
    /* Weights: of left and right as bytes, of the lower row with 15 fractional bits. */
    __m256i fx = _mm256_and_si256(_mm256_srli_epi32(x, 10), fraction);
    __m256i across = _mm256_add_epi32(_mm256_slli_epi32(fx, 8), _mm256_sub_epi32(one, fx));
    __m256i down = _mm256_and_si256(_mm256_srli_epi32(y, 1), _mm256_slli_epi32(fraction, 9));
    across = _mm256_shuffle_epi8(across, twice);
    down = _mm256_shuffle_epi8(down, twice);
    __m256i a = weigh_pairs(constants, top_a, bottom_a, _mm256_unpacklo_epi32(across, across),
                            _mm256_unpacklo_epi32(down, down));
    __m256i b = weigh_pairs(constants, top_b, bottom_b, _mm256_unpackhi_epi32(across, across),
                            _mm256_unpackhi_epi32(down, down));
    store_pixels(_mm256_packus_epi16(a, b), out);
}

static void warp_row(const struct xt_warp_row *given)
{
    struct xt_warp_row row = *given; /* a copy that the stores cannot alias */
    if (!is_warped_by_vectors(&row)) {
        warp_pixels(&row);
        return;
    }
    struct warp_constants constants = {
        .most = {_mm256_set1_epi32((int)last_place(row.width)),
                 _mm256_set1_epi32((int)last_place(row.height))},
        .strides = _mm256_set1_epi32(row.width * 3 + (3 << 16)),
        .contrast = _mm256_set1_epi16((int16_t)row.contrast),
        .light = _mm256_set1_epi16((int16_t)warp_light(&row)),
    };
    const __m256i step_x = _mm256_set1_epi32((int)row.step_x * WARP_PIXELS);
    const __m256i step_y = _mm256_set1_epi32((int)row.step_y * WARP_PIXELS);
    struct warp_places at = ramps_at(&row, 0);
    int i = 0;
    for (; i + WARP_PIXELS <= row.count; i += WARP_PIXELS) {
        warp_vector(&row, &constants, at, row.out + (size_t)i * 3);
        at.x = _mm256_add_epi32(at.x, step_x);
        at.y = _mm256_add_epi32(at.y, step_y);
    }
    /* The last vector overlaps the one before. */
    i = row.count - WARP_PIXELS;
    if (row.count % WARP_PIXELS)
        warp_vector(&row, &constants, ramps_at(&row, i), row.out + (size_t)i * 3);
}

/* Sixteen bytes: the two outer rows interleaved, the inner one as 16 bits. */
XT_INLINE __m256i blend_half(__m256i sides, __m256i now, __m256i outer, __m256i inner)
{
    __m256i sum =
        _mm256_add_epi16(_mm256_maddubs_epi16(sides, outer), _mm256_mullo_epi16(now, inner));
    return _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(64)), 7);
}

static void blend(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                  uint8_t *out, size_t bytes)
{
    const __m256i outer = _mm256_set1_epi8((int8_t)side);
    const __m256i inner = _mm256_set1_epi16((int16_t)(128 - 2 * side));
    const __m256i zero = _mm256_setzero_si256();
    enum { BLENDED = 32 };
    size_t i = 0;
    for (; i + BLENDED <= bytes; i += BLENDED) {
        __m256i a = _mm256_loadu_si256((const void *)(before + i));
        __m256i b = _mm256_loadu_si256((const void *)(after + i));
        __m256i c = _mm256_loadu_si256((const void *)(now + i));
        __m256i low =
            blend_half(_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, zero), outer, inner);
        __m256i high =
            blend_half(_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, zero), outer, inner);
        _mm256_storeu_si256((void *)(out + i), _mm256_packus_epi16(low, high));
    }
    blend_bytes(before + i, now + i, after + i, side, out + i, bytes - i);
}
#else
static void warp_row(const struct xt_warp_row *row)
{
    warp_pixels(row);
}

static void blend(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                  uint8_t *out, size_t bytes)
{
    blend_bytes(before, now, after, side, out, bytes);
}
#endif

/* ITU-R BT.601's weights of red, green and blue, in 1 / 256. */
static inline int grey_of(const uint8_t *pixel, int red)
{
    return (pixel[red] * 77 + pixel[1] * 150 + pixel[2 - red] * 29 + 128) >> 8;
}

static uint64_t sum_grey_from(const uint8_t *pixels, size_t count, int red)
{
    uint64_t all = 0;
    enum { BLOCK = 1 << 16 };
    for (size_t from = 0; from < count; from += BLOCK) {
        size_t end = count - from < BLOCK ? count : from + BLOCK;
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

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

static inline int larger(int a, int b)
{
    return a > b ? a : b;
}

static inline int apart(int a, int b)
{
    return larger(a - b, b - a);
}

/* With hues in 1 / (6 * span) of the circle, span being the largest channel minus the smallest, no
 * division and no loss. Green is at a third of the circle, blue at two thirds; at the half, cyan,
 * red is 0. */
static inline void turn_from(uint8_t *pixels, size_t count, int red, int turn)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *pixel = pixels + 3 * i;
        int r = pixel[red];
        int g = pixel[1];
        int b = pixel[2 - red];
        int low = smaller(r, smaller(g, b));
        int high = larger(r, larger(g, b));
        int span = high - low;
        int circle = 6 * span;
        int green = 2 * span + b - r;
        int blue = 4 * span + r - g;
        int hue = high == g ? green : blue;
        hue = high == r ? g - b : hue;
        hue += (circle * turn + (1 << 15)) >> 16;
        hue += hue < 0 ? circle : 0;
        hue -= hue >= circle ? circle : 0;
        int of_red = apart(hue, 3 * span) - span;
        int of_green = 2 * span - apart(hue, 2 * span);
        int of_blue = 2 * span - apart(hue, 4 * span);
        pixel[red] = (uint8_t)(low + smaller(larger(of_red, 0), span));
        pixel[1] = (uint8_t)(low + smaller(larger(of_green, 0), span));
        pixel[2 - red] = (uint8_t)(low + smaller(larger(of_blue, 0), span));
    }
}

static void turn_hue(uint8_t *pixels, size_t count, int red, int turn)
{
    if (red == 0)
        turn_from(pixels, count, 0, turn);
    else
        turn_from(pixels, count, 2, turn);
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
    .turn_hue = turn_hue,
};
