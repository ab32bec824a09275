/* One part of a convolution's weight gradient by AMX; weight_grad_job.h says how it is divided. */
#include "engine/loops/table.h"

#ifdef __AMX_BF16__
#include <string.h>

#include "engine/loops/ahead.h"
#include "engine/loops/tiles.h"
#include "engine/loops/weight_grad_tile.h"

enum {
    PIXELS = XT_TILE_PIXELS,
    TILE = PIXELS * CHANNELS /* elements of a tile of either matrix */
};

/* A part in progress. */
struct part {
    const struct xt_weight_grad *job;
    int share;
    int left_first, left_tiles;
    int right_first, right_tiles;
    bool narrow; /* tiles of the left matrix have fewer rows than 16 */
    uint16_t *left, *right;
    const uint16_t **pointers;
    const uint16_t *zeros;
    float *bias; /* NULL: another part computes the sums, or they are not needed */
    float *sums;
    struct xt_ahead ahead;
    bool first;      /* nothing has been added to the sums yet */
    int unit, units; /* of this chunk */
};

/* ---- pixel addresses ---- */

/* `count` pixels of a row, every `step`-th from column `first` on; `row` NULL: outside the
 * image. */
static void point_row(const struct part *part, const uint16_t *row, int w, int c, int first,
                      int step, int count, const uint16_t **to)
{
    int before = first < 0 ? (-first + step - 1) / step : 0;
    int end = w > first ? (w - first + step - 1) / step : 0;
    end = row && end < count ? end : row ? count : 0;
    for (int i = 0; i < before && i < count; i++)
        to[i] = part->zeros;
    for (int i = before; i < end; i++)
        to[i] = row + (ptrdiff_t)(first + i * step) * c;
    for (int i = end > before ? end : before; i < count; i++)
        to[i] = part->zeros;
}

static void point_flat(const struct part *part, bool out, int unit)
{
    const struct xt_weight_grad *job = part->job;
    const uint16_t *from = out ? job->out_grad : job->in;
    size_t c = (size_t)(out ? job->out_c : job->in_c);
    size_t first = (size_t)unit * PIXELS;
    size_t left = (size_t)job->n * (size_t)job->h * (size_t)job->w - first;
    for (size_t i = 0; i < PIXELS; i++)
        part->pointers[i] = i < left ? from + (first + i) * c : part->zeros;
}

/* A unit's pixels in rows of `pitch`; of the input those of a plane. */
static void point(const struct part *part, bool out, int plane, int unit, int count)
{
    const struct xt_weight_grad *job = part->job;
    if (job->flat) {
        point_flat(part, out, unit);
        return;
    }
    int planes_w = job->kernel_w < job->stride_w ? job->kernel_w : job->stride_w;
    int first = unit % job->image_units * job->unit_rows;
    int h = out ? job->out_h : job->h;
    int w = out ? job->out_w : job->w;
    int c = out ? job->out_c : job->in_c;
    int step = out ? 1 : job->stride_w;
    int column = out ? 0 : plane % planes_w - job->pad_w;
    const uint16_t *image = out ? job->out_grad : job->in;
    image += (size_t)(unit / job->image_units) * (size_t)h * (size_t)w * (size_t)c;
    for (int i = 0, row = first; i < count; row++, i += job->pitch) {
        int y = out ? row : row * job->stride_h + plane / planes_w - job->pad_h;
        bool within = y >= 0 && y < h && (!out || row < first + job->unit_rows);
        point_row(part, within ? image + (size_t)y * (size_t)w * (size_t)c : NULL, w, c, column,
                  step, count - i < job->pitch ? count - i : job->pitch, part->pointers + i);
    }
}

/* ---- the two matrices ---- */

static __m512bh ones(void)
{
    return (__m512bh)_mm512_set1_epi16(0x3F80);
}

XT_INLINE __m128i load_8(const uint16_t *from, __mmask8 mask, bool whole)
{
    return whole ? _mm_loadu_si128((const __m128i *)(const void *)from)
                 : _mm_maskz_loadu_epi16(mask, from);
}

/* 8 channels of 32 pixels become 8 rows of 32 pixels: quarter q of a register has pixels 8q to
 * 8q + 7. */
XT_INLINE void turn(const uint16_t *const *pixels, size_t channel, __mmask8 mask, bool whole,
                    uint16_t *to, size_t stride, float *bias)
{
    __m512i x[8];
    __m512i y[8];
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_castsi128_si512(load_8(pixels[i] + channel, mask, whole));
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[8 + i] + channel, mask, whole), 1);
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[16 + i] + channel, mask, whole), 2);
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[24 + i] + channel, mask, whole), 3);
    }
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi16(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi16(x[i], x[i + 1]);
    }
    if (bias) {
        __m512 low = _mm512_loadu_ps(bias);
        __m512 high = _mm512_loadu_ps(bias + 16);
        for (int i = 0; i < 8; i += 2) {
            low = _mm512_dpbf16_ps(low, (__m512bh)y[i], ones());
            high = _mm512_dpbf16_ps(high, (__m512bh)y[i + 1], ones());
        }
        _mm512_storeu_ps(bias, low);
        _mm512_storeu_ps(bias + 16, high);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm512_unpacklo_epi32(y[i + k], y[i + 2 + k]);
            x[i + 2 * k + 1] = _mm512_unpackhi_epi32(y[i + k], y[i + 2 + k]);
        }
    for (size_t i = 0; i < 4; i++) {
        _mm512_storeu_si512(to + 2 * i * stride, _mm512_unpacklo_epi64(x[i], x[i + 4]));
        _mm512_storeu_si512(to + (2 * i + 1) * stride, _mm512_unpackhi_epi64(x[i], x[i + 4]));
    }
}

static __mmask8 mask_8(int channels)
{
    return (__mmask8)(channels >= 8 ? 0xFF : channels <= 0 ? 0 : (1 << channels) - 1);
}

/* 32 pixels of the left matrix's tiles. */
static void turn_tiles(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to,
                       float *bias)
{
    size_t stride = (size_t)part->job->left_stride;
    int first = part->left_first * CHANNELS;
    int end = first + part->left_tiles * CHANNELS;
    for (int k = first; k < end; k += 8) {
        float *sums = bias ? bias + 4 * k : NULL;
        if (k + 8 <= c)
            turn(pixels, (size_t)k, 0xFF, true, to, stride, sums);
        else
            turn(pixels, (size_t)k, mask_8(c - k), false, to, stride, sums);
        to += 8 * stride;
        fetch(&part->ahead);
    }
}

static void make_left(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    bool out = job->turned;
    int c = out ? job->out_c : job->in_c;
    size_t plane_size = (size_t)(part->left_tiles * CHANNELS) * (size_t)job->left_stride;
    for (int plane = 0; plane < job->planes; plane++)
        for (int u = 0; u < part->units; u++) {
            uint16_t *to = part->left + (size_t)plane * plane_size + u * job->unit_pixels;
            point(part, out, plane, part->unit + u, job->unit_pixels);
            for (int i = 0; i < job->unit_pixels; i += PIXELS)
                turn_tiles(part, part->pointers + i, c, to + i, out ? part->bias : NULL);
        }
}

XT_INLINE void pair_tile(const uint16_t *const *pixels, size_t channel, __mmask16 mask, bool whole,
                         uint16_t *to, float *bias)
{
    static const uint16_t places[PIXELS] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i place = _mm512_loadu_si512(places);
    __m512 sum = bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps();
    for (int i = 0; i < PIXELS; i += 2) {
        const void *a = pixels[i] + channel;
        const void *b = pixels[i + 1] + channel;
        __m256i low = whole ? _mm256_loadu_si256(a) : _mm256_maskz_loadu_epi16(mask, a);
        __m256i high = whole ? _mm256_loadu_si256(b) : _mm256_maskz_loadu_epi16(mask, b);
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        both = _mm512_permutexvar_epi16(place, both);
        _mm512_storeu_si512(to + i * CHANNELS, both);
        if (bias)
            sum = _mm512_dpbf16_ps(sum, (__m512bh)both, ones());
    }
    if (bias)
        _mm512_storeu_ps(bias, sum);
}

static void pair_tiles(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to,
                       float *bias)
{
    size_t column = (size_t)(part->job->chunk_units * part->job->unit_blocks) * TILE;
    for (int t = 0; t < part->right_tiles; t++) {
        int k = (part->right_first + t) * CHANNELS;
        float *sums = bias ? bias + k : NULL;
        if (k + CHANNELS <= c)
            pair_tile(pixels, (size_t)k, 0xFFFF, true, to, sums);
        else
            pair_tile(pixels, (size_t)k, (__mmask16)((1 << (c - k)) - 1), false, to, sums);
        to += column;
        fetch(&part->ahead);
    }
}

static void make_right(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    bool out = !job->turned;
    int c = out ? job->out_c : job->in_c;
    for (int u = 0; u < part->units; u++) {
        point(part, out, 0, part->unit + u, job->unit_blocks * PIXELS);
        for (int i = 0; i < job->unit_blocks; i++)
            pair_tiles(part, part->pointers + i * PIXELS, c,
                       part->right + (size_t)(u * job->unit_blocks + i) * TILE,
                       out ? part->bias : NULL);
    }
}

/* ---- their product ---- */

/* Up to two rows of tiles by two columns of tiles. */
struct block {
    const uint16_t *left[2], *right[2];
    float *sums[2][2];
};

XT_INLINE void add_block(struct part *part, const struct block *block, int rows, int columns)
{
    const struct xt_weight_grad *job = part->job;
    size_t stride = (size_t)job->left_stride * sizeof(uint16_t);
    const uint16_t *right0 = block->right[0];
    const uint16_t *right1 = block->right[1];
    if (part->first && !part->narrow) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, block->sums[0][0], 64);
        if (columns > 1)
            _tile_loadd(1, block->sums[0][1], 64);
        if (rows > 1)
            _tile_loadd(2, block->sums[1][0], 64);
        if (rows > 1 && columns > 1)
            _tile_loadd(3, block->sums[1][1], 64);
    }
    for (int u = 0; u < part->units; u++) {
        const uint16_t *left0 = block->left[0] + u * job->unit_pixels;
        const uint16_t *left1 = block->left[1] + u * job->unit_pixels;
        for (int i = 0; i < job->unit_blocks; i++) {
            _tile_loadd(6, right0, 64);
            _tile_loadd(4, left0, stride);
            _tile_dpbf16ps(0, 4, 6);
            if (columns > 1) {
                _tile_loadd(7, right1, 64);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (rows > 1) {
                _tile_loadd(5, left1, stride);
                _tile_dpbf16ps(2, 5, 6);
                if (columns > 1)
                    _tile_dpbf16ps(3, 5, 7);
            }
            left0 += PIXELS;
            left1 += PIXELS;
            right0 += TILE;
            right1 += TILE;
            fetch(&part->ahead);
        }
    }
    _tile_stored(0, block->sums[0][0], 64);
    if (columns > 1)
        _tile_stored(1, block->sums[0][1], 64);
    if (rows > 1)
        _tile_stored(2, block->sums[1][0], 64);
    if (rows > 1 && columns > 1)
        _tile_stored(3, block->sums[1][1], 64);
}

/* Row `row` of the product's tiles: a tile of the left matrix at a tap. */
static void take_row(const struct part *part, int row, int place, struct block *block)
{
    const struct xt_weight_grad *job = part->job;
    int tile = row / job->taps;
    int tap = row % job->taps;
    int y = tap / job->kernel_w;
    int x = tap % job->kernel_w;
    int planes_w = job->kernel_w < job->stride_w ? job->kernel_w : job->stride_w;
    int plane = y % job->stride_h * planes_w + x % job->stride_w;
    size_t channel = (size_t)(plane * part->left_tiles + tile) * CHANNELS;
    int moved = y / job->stride_h * job->pitch + x / job->stride_w;
    block->left[place] = part->left + channel * (size_t)job->left_stride + moved;
}

static float *sums_at(const struct part *part, int row, int column)
{
    const struct xt_weight_grad *job = part->job;
    size_t tap = (size_t)(row % job->taps);
    size_t left = (size_t)(part->left_first + row / job->taps);
    size_t right = (size_t)(part->right_first + column);
    size_t tile = job->turned ? left * (size_t)job->right_tiles + right
                              : right * (size_t)job->left_tiles + left;
    return part->sums + (tile * (size_t)job->taps + tap) * SUMS;
}

static void multiply(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    size_t column_size = (size_t)(job->chunk_units * job->unit_blocks) * TILE;
    int rows = part->left_tiles * job->taps;
    /* A compiler barrier: tile loads must not pass the stores before them. */
    __asm__ volatile("" ::: "memory");
    for (int j = 0; j < part->right_tiles; j += 2)
        for (int i = 0; i < rows; i += 2) {
            struct block block;
            int high = rows - i > 1 ? 2 : 1;
            int wide = part->right_tiles - j > 1 ? 2 : 1;
            for (int k = 0; k < 2; k++) {
                take_row(part, k < high ? i + k : i, k, &block);
                block.right[k] = part->right + (size_t)(k < wide ? j + k : j) * column_size;
                for (int l = 0; l < 2; l++)
                    block.sums[k][l] = sums_at(part, k < high ? i + k : i, l < wide ? j + l : j);
            }
            if (high > 1 && wide > 1)
                add_block(part, &block, 2, 2);
            else if (high > 1)
                add_block(part, &block, 2, 1);
            else if (wide > 1)
                add_block(part, &block, 1, 2);
            else
                add_block(part, &block, 1, 1);
        }
    __asm__ volatile("" ::: "memory");
    part->first = false;
}

/* ---- a part ---- */

/* Rows of the left matrix's tiles. */
static int tile_rows(const struct part *part)
{
    if (!part->narrow)
        return CHANNELS;
    return part->job->turned ? part->job->out_c : part->job->in_c;
}

/* Transposed tiles count twice, blocks of products once. */
static size_t turns_of(const struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int blocks = part->units * job->unit_blocks;
    int turned = part->units * job->unit_pixels / PIXELS * job->planes * part->left_tiles * 2;
    int products = (part->left_tiles * job->taps + 1) / 2 * (part->right_tiles + 1) / 2;
    return (size_t)(turned + blocks * (part->right_tiles + products));
}

/* Adds the four quarter sums of each channel, four channels at a time. */
static void finish_bias(const struct part *part)
{
    int first = part->left_first * CHANNELS;
    int end = first + part->left_tiles * CHANNELS;
    for (int k = first; k < end; k += 4) {
        float sum[4];
        for (int i = 0; i < 4; i++) {
            const float *quarters = part->bias + 4 * k + i;
            sum[i] = (quarters[0] + quarters[4]) + (quarters[8] + quarters[12]);
        }
        /* Later channels have not been overwritten yet. */
        memcpy(part->bias + k, sum, sizeof sum);
    }
}

/* Narrow tiles do not write all rows. */
static void clear_sums(const struct part *part)
{
    for (int i = 0; i < part->left_tiles * part->job->taps; i++)
        for (int j = 0; j < part->right_tiles; j++)
            memset(sums_at(part, i, j), 0, SUMS * sizeof(float));
}

void XT_LOOPS_NAME(weight_grad)(const struct xt_weight_grad *job, int number)
{
    char *scratch = (char *)job->scratch + (size_t)number * job->part_bytes;
    int group = number / job->shares;
    int left_c = job->turned ? job->out_c : job->in_c;
    struct part part = {
        .job = job,
        .share = number % job->shares,
        .narrow = left_c < CHANNELS,
        .left = (uint16_t *)(void *)scratch,
        .right = (uint16_t *)(void *)(scratch + job->right_at),
        .pointers = (const uint16_t **)(void *)(scratch + job->pointers_at),
        .zeros = (const uint16_t *)(const void *)(scratch + job->zeros_at),
        .bias = xt_weight_grad_bias(job, number),
        .sums = xt_weight_grad_sums(job, group),
        .first = !job->adds,
    };
    part.left_tiles = xt_weight_grad_share(job, part.share, true, &part.left_first);
    part.right_tiles = xt_weight_grad_share(job, part.share, false, &part.right_first);
    /* The zeros and the sums of the bias. */
    if (!job->adds)
        memset(scratch + job->zeros_at, 0, job->part_bytes - job->zeros_at);
    if (!job->bias_grad || (part.share > 0 && job->turned != job->shares_left))
        part.bias = NULL;
    if (part.narrow && !job->adds)
        clear_sums(&part);
    int end = xt_weight_grad_units(job, number, &part.unit);
    configure_tiles(tile_rows(&part));
    for (; part.unit < end; part.unit += part.units) {
        part.units = end - part.unit < job->chunk_units ? end - part.unit : job->chunk_units;
        int next = part.unit + part.units;
        look_ahead(&part.ahead, job, next,
                   end - next < job->chunk_units ? end : next + job->chunk_units, turns_of(&part));
        make_left(&part);
        make_right(&part);
        multiply(&part);
    }
    _tile_release();
    if (part.bias && job->turned && !job->more)
        finish_bias(&part);
}

#endif
