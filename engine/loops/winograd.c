/* Winograd convolutions by AVX-512 or AVX2, defined in winograd_job.h. Works on a chunk of tiles at
 * a time. */
#include "engine/loops/lanes.h"
#include "engine/loops/table.h"
#include "engine/loops/turn.h"

#ifdef XT_LOOPS_HAVE_VECTORS
#include <stdbool.h>
#include <string.h>

#include "engine/loops/winograd_tiles.h"

enum {
    TAPS_MOST = 4, /* along a side */
    LANES = XT_LANES,
    PAIR = 2 * LANES,            /* columns of a product, in registers */
    ROWS = LANES == 16 ? 12 : 6, /* of a product, in registers */
    FEW_ROWS = 4,                /* with fewer, sums wait for each other */
    GRAD_ROWS = LANES == 16 ? 8 : 5,
    TAPS = 9,
    LINE = 16,           /* floats of a cache line */
    EDGE = XT_TURN_EDGE, /* of a block of weights */
    BLOCK = EDGE * EDGE  /* of one tap */
};

/* The points of a side of six are 0, +-NEAR, +-FAR and infinity: sums have a third of the error
 * that
 * +-1 and +-2 give. */
static const float NEAR = 0.75F;
static const float FAR = 1.5F;
static const float NEAR_SQUARE = 0.75F * 0.75F;
static const float FAR_SQUARE = 1.5F * 1.5F;

/* The transform of taps to a side of six: their polynomial at each point, divided by the product of
 * the point's differences from the others; at infinity (the last) its highest coefficient. */
static const float six_from_taps[SIDE][TAPS_MOST] = {
    {64 / 81.0F, 0, 0, 0},
    {-128 / 243.0F, -32 / 81.0F, -8 / 27.0F, -2 / 9.0F},
    {-128 / 243.0F, 32 / 81.0F, -8 / 27.0F, 2 / 9.0F},
    {32 / 243.0F, 16 / 81.0F, 8 / 27.0F, 4 / 9.0F},
    {32 / 243.0F, -16 / 81.0F, 8 / 27.0F, -4 / 9.0F},
};
/* The same to a side of four, by the points 0, +-1 and infinity; and to one of one. */
static const float four_from_taps[4][TAPS_MOST] = {
    {1, 0, 0, 0}, {0.5F, 0.5F, 0.5F, 0.5F}, {0.5F, -0.5F, 0.5F, -0.5F}};
static const float one_from_taps[1][TAPS_MOST] = {{1, 0, 0, 0}};

XT_INLINE float from_taps(int side, int taps, int point, int tap)
{
    if (side > 1 && point == side - 1)
        return tap == taps - 1 ? 1 : 0;
    return side == SIDE ? six_from_taps[point][tap]
           : side == 1  ? one_from_taps[point][tap]
                        : four_from_taps[point][tap];
}

/* Transformed weights of a place and a panel are [WIDE / PAIR][channels][PAIR], so that a product
 * reads consecutive memory: where channel k has that of output channel o. */
XT_INLINE size_t weight_at(size_t channels, size_t k, size_t o)
{
    return (o / PAIR * channels + k) * PAIR + o % PAIR;
}

/* The input transform along a side. */
XT_INLINE void transform_input(const xt_vector from[SIDE], xt_vector to[SIDE], int side)
{
    if (side == 1) {
        to[0] = from[0];
        return;
    }
    if (side != SIDE) {
        to[0] = from[0] - from[2];
        to[1] = from[1] + from[2];
        to[2] = from[2] - from[1];
        to[3] = from[3] - from[1];
        return;
    }
    xt_vector near = NEAR * (from[3] - FAR_SQUARE * from[1]);
    xt_vector far = FAR * (from[3] - NEAR_SQUARE * from[1]);
    xt_vector near_even = from[4] - FAR_SQUARE * from[2];
    xt_vector far_even = from[4] - NEAR_SQUARE * from[2];
    to[0] = near_even + NEAR_SQUARE * (FAR_SQUARE * from[0] - from[2]);
    to[1] = near_even + near;
    to[2] = near_even - near;
    to[3] = far_even + far;
    to[4] = far_even - far;
    to[5] = from[5] - (NEAR_SQUARE + FAR_SQUARE) * from[3] + NEAR_SQUARE * FAR_SQUARE * from[1];
}

/* Of all channels. */
XT_INLINE void transform_inputs(const struct chunk *chunk, const struct images *in,
                                const int pads[2], const float *zeros, float *sums,
                                enum xt_winograd_form form, enum xt_dtype dtype)
{
    int high = xt_winograd_high(form);
    int wide = xt_winograd_wide(form);
    int together = xt_winograd_is_paired(form, dtype) ? 2 : 1;
    int channels = in->c / together;
    struct walk walk = {
        chunk, in, form, -pads[0], -pads[1], high, wide, zeros, corner_of(chunk, 0, form)};
    find_tile(&walk, 0);
    for (int i = 0; i < chunk->count; i++) {
        find_tile(&walk, i + 1);
        const void *const *from = walk.found[i % 2];
        const void *const *next = walk.found[(i + 1) % 2];
        float *to = sums + tile_of(i, channels, high * wide);
        for (int k = 0; k < in->c; to += step_of(k / together, LANES / together), k += LANES) {
            xt_vector columns[SIDE][SIDE];
            xt_vector rows[SIDE];
            for (int x = 0; x < wide; x++) {
                xt_vector pixels[SIDE];
                for (int y = 0; y < high; y++) {
                    pixels[y] = load_vec(from[wide * y + x], (size_t)k, dtype);
                    __builtin_prefetch(at(next[wide * y + x], (size_t)k, dtype));
                }
                transform_input(pixels, rows, high);
                for (int y = 0; y < high; y++)
                    columns[y][x] = rows[y];
            }
            for (int y = 0; y < high; y++) {
                transform_input(columns[y], rows, wide);
                for (int x = 0; x < wide; x++)
                    store_vec(to + (size_t)(wide * y + x) * place_of(channels), 0, rows[x],
                              together == 2 ? XT_BF16 : XT_F32);
            }
        }
    }
}

/* ---- forward ---- */

/* Of two bf16 in each lane: the sum of both products. */
XT_INLINE xt_vector add_products_of_pairs(xt_vector a, xt_vector b, xt_vector sum)
{
#ifdef __AVX512BF16__
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    const bits second = (bits){0} + 0xFFFF0000;
    sum = xt_vector_add_product((xt_vector)((bits)a << 16), (xt_vector)((bits)b << 16), sum);
    return xt_vector_add_product((xt_vector)((bits)a & second), (xt_vector)((bits)b & second), sum);
#endif
}

/* Rows of cells times PAIR columns of weights [in_c][PAIR]. Meanwhile the next place's rows are
 * fetched, and its weights if `fetches`: once for all rows. */
XT_INLINE void multiply(const float *rows, int in_c, const float *weights, float *to, int count,
                        bool paired, bool fetches)
{
    size_t place = (size_t)in_c * WIDE;
    xt_vector sums[ROWS][2];
    for (int r = 0; r < count; r++)
        sums[r][0] = sums[r][1] = xt_vector_of(0);
    for (int k = 0; k < in_c; k += WIDE, rows += CELL)
        for (int i = 0; i < WIDE; i++, weights += PAIR) {
            xt_vector left = xt_vector_load(weights);
            xt_vector right = xt_vector_load(weights + LANES);
            for (int line = 0; line < PAIR && fetches; line += LINE)
                __builtin_prefetch(weights + place + line, 0, 2);
            __builtin_prefetch(rows + place_of(in_c) + i * count);
            for (int r = 0; r < count; r++) {
                xt_vector one = xt_vector_of(rows[r * WIDE + i]);
                sums[r][0] = paired ? add_products_of_pairs(one, left, sums[r][0])
                                    : xt_vector_add_product(one, left, sums[r][0]);
                sums[r][1] = paired ? add_products_of_pairs(one, right, sums[r][1])
                                    : xt_vector_add_product(one, right, sums[r][1]);
            }
        }
    for (int r = 0; r < count; r++) {
        xt_vector_store(to + r * WIDE, sums[r][0]);
        xt_vector_store(to + r * WIDE + LANES, sums[r][1]);
    }
}

/* At most TILES rows: ROWS at a time while one fewer is left, then FEW_ROWS. Up to three rows after
 * the last tile are multiplied too; their results are not read. */
XT_INLINE void multiply_block(const float *rows, int in_c, const float *weights, float *to,
                              int count, bool paired, bool fetches)
{
    int r = 0;
    for (; r + ROWS <= count + 1; r += ROWS)
        if (fetches && r == 0)
            multiply(rows, in_c, weights, to, ROWS, paired, true);
        else
            multiply(rows + r * WIDE, in_c, weights, to + r * WIDE, ROWS, paired, false);
    for (; r < count; r += FEW_ROWS)
        multiply(rows + r * WIDE, in_c, weights, to + r * WIDE, FEW_ROWS, paired, false);
}

/* The products of one of a form's places and one panel; `sums` and `to` begin with those of the
 * first tile. */
XT_INLINE void multiply_panel(const float *sums, int in_c, const float *weights, float *to,
                              int count, int places, bool paired)
{
    for (int column = 0; column < WIDE; column += PAIR)
        for (int i = 0; i < count; i += TILES)
            multiply_block(sums + block_of(i, in_c, places), in_c,
                           weights + weight_at((size_t)in_c, 0, (size_t)column),
                           to + block_of(i, PANELS, places) + column,
                           count - i < TILES ? count - i : TILES, paired, i == 0);
}

static void multiply_place(const float *sums, int in_c, const float *weights, float *to, int count,
                           int places)
{
    multiply_panel(sums, in_c, weights, to, count, places, false);
}

static void multiply_pairs(const float *sums, int in_c, const float *weights, float *to, int count,
                           int places)
{
    multiply_panel(sums, in_c, weights, to, count, places, true);
}

/* The output transform along a side; its last output has what is at infinity. */
XT_INLINE void transform_output(const xt_vector from[SIDE], xt_vector to[LARGE], int side, int tile)
{
    if (side == 1) {
        to[0] = from[0];
        return;
    }
    xt_vector sum = from[1] + from[2];
    xt_vector difference = from[1] - from[2];
    if (side != SIDE) {
        to[0] = from[0] + sum;
        to[1] = difference + from[3];
        return;
    }
    xt_vector far_sum = from[3] + from[4];
    xt_vector far_difference = from[3] - from[4];
    to[0] = from[0] + (sum + far_sum);
    to[1] = NEAR * difference + FAR * far_difference;
    to[2] = NEAR_SQUARE * sum + FAR_SQUARE * far_sum;
    if (tile == LARGE)
        to[3] = NEAR_SQUARE * NEAR * difference + FAR_SQUARE * FAR * far_difference;
    to[tile - 1] += from[5];
}

/* Writes channels [k, k + LANES) of a pixel. */
XT_INLINE void write_output(const struct xt_winograd *job, int k, xt_vector value, void *to,
                            enum xt_dtype dtype)
{
    if (job->bias)
        value += xt_vector_load(job->bias + k);
    if (job->adds)
        value += load_vec(to, 0, dtype);
    store_vec(to, 0, job->relu ? xt_vector_above_0(value) : value, dtype);
}

/* Channels [k, end) of the chunk's outputs. */
XT_INLINE void write_outputs(const struct xt_winograd *job, const struct chunk *chunk,
                             const float *products, int k, int end, enum xt_winograd_form form,
                             enum xt_dtype dtype)
{
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    size_t c = (size_t)job->out_c;
    int high = xt_winograd_high(form);
    int wide = xt_winograd_wide(form);
    struct corner corner = corner_of(chunk, 0, form);
    void *to = at_out(job->out, pixel_of(chunk, corner) * c + (size_t)k, dtype);
    for (int i = 0; i < chunk->count; i++) {
        int below = chunk->h - corner.y;
        int right = chunk->w - corner.x;
        corner = corner_after(chunk, corner, form);
        void *next = to;
        if (i + 1 < chunk->count)
            next = at_out(job->out, pixel_of(chunk, corner) * c + (size_t)k, dtype);
        const float *from = products + tile_of(i, PANELS, high * wide);
        for (int channel = 0; channel < end - k;
             from += step_of(channel, LANES), channel += LANES) {
            xt_vector columns[LARGE][SIDE];
            xt_vector row[LARGE];
            for (int x = 0; x < wide; x++) {
                xt_vector places[SIDE];
                for (int y = 0; y < high; y++)
                    places[y] = xt_vector_load(from + (size_t)(wide * y + x) * place_of(PANELS));
                transform_output(places, row, high, sides->tile_h);
                for (int y = 0; y < sides->tile_h; y++)
                    columns[y][x] = row[y];
            }
            for (int y = 0; y < sides->tile_h && y < below; y++) {
                transform_output(columns[y], row, wide, sides->tile_w);
                for (int x = 0; x < sides->tile_w && x < right; x++) {
                    size_t place = (size_t)(y * chunk->w + x) * c + (size_t)channel;
                    __builtin_prefetch(at(next, place, dtype), 1);
                    write_output(job, k + channel, row[x], at_out(to, place, dtype), dtype);
                }
            }
        }
        to = next;
    }
}

/* Row y of a large tile's weights: of one panel's taps, [2][in / 16][3 x 3][16 in][16 out], to
 * SIDE places. */
static void transform_row(const float *taps, size_t in_c, int y, float *to)
{
    size_t blocks = in_c / EDGE;
    const float *down = six_from_taps[y];
    float last = from_taps(SIDE, 3, y, 2);
    for (size_t block = 0; block < 2 * blocks; block++)
        for (size_t at = 0; at < BLOCK; at += LANES) {
            const float *from = taps + block * TAPS * BLOCK + at;
            size_t place = weight_at(in_c, block % blocks * EDGE + at / EDGE,
                                     block / blocks * EDGE + at % EDGE);
            xt_vector row[3];
            for (size_t x = 0; x < 3; x++)
                row[x] = down[0] * xt_vector_load(from + x * BLOCK) +
                         down[1] * xt_vector_load(from + (3 + x) * BLOCK) +
                         last * xt_vector_load(from + (6 + x) * BLOCK);
            for (int x = 0; x < SIDE; x++)
                xt_vector_store(to + (size_t)x * in_c * WIDE + place,
                                from_taps(SIDE, 3, x, 0) * row[0] +
                                    from_taps(SIDE, 3, x, 1) * row[1] +
                                    from_taps(SIDE, 3, x, 2) * row[2]);
        }
}

/* The taps of a panel of the data gradient: rotated, inputs and outputs exchanged. */
static void turn_panel(const struct xt_winograd *job, int panel, float *to)
{
    size_t blocks = (size_t)job->in_c / EDGE;
    size_t row = (size_t)job->out_c / EDGE * TAPS * BLOCK;
    for (size_t block = 0; block < 2 * blocks; block++) {
        size_t column = 2 * (size_t)panel + block / blocks;
        const float *from =
            (const float *)job->weights + block % blocks * row + column * TAPS * BLOCK;
        for (size_t i = 0; i < TAPS * BLOCK; i += LINE)
            __builtin_prefetch(from + row + i);
        for (size_t tap = 0; tap < TAPS; tap++)
            turn(from + tap * BLOCK, to + (block * TAPS + TAPS - 1 - tap) * BLOCK);
    }
}

/* Panels [k, end) of the products of a chunk of large tiles. Their weights are transformed row by
 * row: all rows of many channels do not fit in L2. */
static void multiply_taps(const struct xt_winograd *job, int count, int k, int end,
                          const float *sums, float *products, float *scratch)
{
    size_t in_c = (size_t)job->in_c;
    size_t taps = 2 * in_c * EDGE * TAPS;
    float *row = scratch;
    float *turned = row + AT_ONCE * SIDE * in_c * WIDE;
    for (int q = k; job->turned && q < end; q++)
        turn_panel(job, q, turned + (size_t)(q - k) * taps);
    const float *from = job->turned ? turned : (const float *)job->weights + (size_t)k * taps;
    for (size_t y = 0; y < SIDE; y++) {
        for (size_t q = 0; q < (size_t)(end - k); q++)
            transform_row(from + q * taps, in_c, (int)y, row + q * SIDE * in_c * WIDE);
        for (size_t x = 0; x < SIDE; x++)
            for (size_t q = 0; q < (size_t)(end - k); q++)
                multiply_place(sums + (SIDE * y + x) * place_of(job->in_c), job->in_c,
                               row + (q * SIDE + x) * in_c * WIDE,
                               products + (SIDE * y + x) * place_of(PANELS) + q * CELL, count,
                               PLACES);
    }
}

/* The same with stored weights; a pair of channels counts as one. */
static void multiply_stored(const struct xt_winograd *job, int count, int k, int end, int channels,
                            const float *sums, float *products, enum xt_winograd_form form)
{
    int places = xt_winograd_places(form);
    size_t step = (size_t)channels * WIDE;
    for (int q = k; q < end; q++)
        for (int p = 0; p < places; p++)
            (channels < job->in_c ? multiply_pairs : multiply_place)(
                sums + (size_t)p * place_of(channels), channels,
                (const float *)job->weights + (size_t)(q * places + p) * step,
                products + (size_t)p * place_of(PANELS) + (q - k) * CELL, count, places);
}

XT_INLINE void convolve(const struct xt_winograd *job, int part, float *scratch,
                        enum xt_winograd_form form, enum xt_dtype dtype)
{
    int places = xt_winograd_places(form);
    int channels = xt_winograd_is_paired(form, dtype) ? job->in_c / 2 : job->in_c;
    int most = xt_winograd_chunk(form, job->in_c);
    float *zeros = scratch;
    float *sums = zeros + zeros_of(job->in_c);
    float *products = sums + block_of(most, channels, places);
    float *weights = products + block_of(most, PANELS, places);
    struct images in = {job->h, job->w, job->in_c, dtype, job->in};
    struct chunk chunk = {.h = xt_winograd_out_h(form, job->h, job->pads),
                          .w = xt_winograd_out_w(form, job->w, job->pads)};
    const struct share share = share_of(job, part, &chunk, form);
    memset(zeros, 0, zeros_of(job->in_c) * sizeof *zeros);
    if (job->stored && form == XT_WINOGRAD_LARGE)
        most = XT_WINOGRAD_FEW;
    for (chunk.first = share.first; chunk.first < share.end; chunk.first += most) {
        int rest = share.end - chunk.first;
        chunk.count = rest < most ? rest : most;
        transform_inputs(&chunk, &in, job->pads, zeros, sums, form, dtype);
        for (int k = share.panel; k < share.last; k += AT_ONCE) {
            int to = k + AT_ONCE < share.last ? k + AT_ONCE : share.last;
            if (job->stored)
                multiply_stored(job, chunk.count, k, to, channels, sums, products, form);
            else
                multiply_taps(job, chunk.count, k, to, sums, products, weights);
            write_outputs(job, &chunk, products, k * WIDE, to * WIDE, form, dtype);
        }
    }
}

void XT_LOOPS_NAME(winograd)(const struct xt_winograd *job, int part, float *scratch)
{
    switch (job->form) {
    case XT_WINOGRAD_SMALL:
        if (job->dtype == XT_F32)
            convolve(job, part, scratch, XT_WINOGRAD_SMALL, XT_F32);
        else
            convolve(job, part, scratch, XT_WINOGRAD_SMALL, XT_BF16);
        return;
    case XT_WINOGRAD_LARGE:
        if (job->dtype == XT_F32)
            convolve(job, part, scratch, XT_WINOGRAD_LARGE, XT_F32);
        else
            convolve(job, part, scratch, XT_WINOGRAD_LARGE, XT_BF16);
        return;
    case XT_WINOGRAD_3X1:
        convolve(job, part, scratch, XT_WINOGRAD_3X1, XT_F32);
        return;
    case XT_WINOGRAD_1X3:
        convolve(job, part, scratch, XT_WINOGRAD_1X3, XT_F32);
        return;
    case XT_WINOGRAD_1X4:
        convolve(job, part, scratch, XT_WINOGRAD_1X4, XT_F32);
        return;
    case XT_WINOGRAD_FORMS:
        return;
    }
}

/* ---- the weight gradient ---- */

/* The gradient transform along a side: the output transform's transpose. */
XT_INLINE void transform_gradient(const xt_vector from[LARGE], xt_vector to[SIDE], int side,
                                  int tile)
{
    if (side == 1) {
        to[0] = from[0];
        return;
    }
    xt_vector third = tile == LARGE ? from[3] : xt_vector_of(0);
    xt_vector near_even = from[0] + NEAR_SQUARE * from[2];
    xt_vector far_even = from[0] + FAR_SQUARE * from[2];
    xt_vector near = NEAR * (from[1] + NEAR_SQUARE * third);
    xt_vector far = FAR * (from[1] + FAR_SQUARE * third);
    to[0] = from[0];
    to[1] = near_even + near;
    to[2] = near_even - near;
    to[3] = far_even + far;
    to[4] = far_even - far;
    to[5] = from[tile - 1];
}

/* Where a chunk's gradients go. */
struct gradients {
    float *sums;
    float *bias; /* NULL: not needed */
};

/* Of channels [k, end). */
XT_INLINE void transform_gradients(const struct chunk *chunk, const struct images *grad, int k,
                                   int end, const float *zeros, struct gradients to,
                                   enum xt_winograd_form form, enum xt_dtype dtype)
{
    const struct images some = {grad->h, grad->w, grad->c, dtype,
                                at(grad->pixels, (size_t)k, dtype)};
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    int high = xt_winograd_high(form);
    int wide = xt_winograd_wide(form);
    struct walk walk = {
        chunk, &some, form, 0, 0, sides->tile_h, sides->tile_w, zeros, corner_of(chunk, 0, form)};
    find_tile(&walk, 0);
    for (int i = 0; i < chunk->count; i++) {
        find_tile(&walk, i + 1);
        const void *const *from = walk.found[i % 2];
        const void *const *next = walk.found[(i + 1) % 2];
        float *sums = to.sums + tile_of(i, PANELS, high * wide);
        for (int channel = 0; channel < end - k;
             sums += step_of(channel, LANES), channel += LANES) {
            xt_vector columns[SIDE][LARGE];
            xt_vector row[SIDE];
            xt_vector sum = xt_vector_of(0);
            for (int x = 0; x < sides->tile_w; x++) {
                xt_vector pixels[LARGE];
                for (int y = 0; y < sides->tile_h; y++) {
                    pixels[y] = load_vec(from[sides->tile_w * y + x], (size_t)channel, dtype);
                    __builtin_prefetch(at(next[sides->tile_w * y + x], (size_t)channel, dtype));
                    sum += pixels[y];
                }
                transform_gradient(pixels, row, high, sides->tile_h);
                for (int y = 0; y < high; y++)
                    columns[y][x] = row[y];
            }
            for (int y = 0; y < high; y++) {
                transform_gradient(columns[y], row, wide, sides->tile_w);
                for (int x = 0; x < wide; x++)
                    xt_vector_store(sums + (size_t)(wide * y + x) * place_of(PANELS), row[x]);
            }
            if (to.bias)
                xt_vector_store(to.bias + k + channel, xt_vector_load(to.bias + k + channel) + sum);
        }
    }
}

/* Over `count` tiles, the products of `rows` input channels with PAIR gradients. If `fetches`, the
 * next place's inputs are fetched: once for all columns. */
XT_INLINE void add_rows(const float *inputs, int in_c, const float *grads, int count, int places,
                        float *to, int rows, bool fetches)
{
    xt_vector sums[GRAD_ROWS + 1][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = xt_vector_of(0);
    for (int i = 0; i < count; i += TILES) {
        const float *left = inputs + block_of(i, in_c, places);
        const float *right = grads + block_of(i, PANELS, places);
        int tiles = count - i < TILES ? count - i : TILES;
        for (int t = 0; t < tiles; t++, left += WIDE, right += WIDE) {
            xt_vector columns[2] = {xt_vector_load(right), xt_vector_load(right + LANES)};
            if (fetches)
                __builtin_prefetch(left + place_of(in_c));
            for (int r = 0; r < rows; r++) {
                xt_vector one = xt_vector_of(left[r]);
                sums[r][0] = xt_vector_add_product(one, columns[0], sums[r][0]);
                sums[r][1] = xt_vector_add_product(one, columns[1], sums[r][1]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            xt_vector_store(to + r * WIDE + v * LANES, sums[r][v]);
}

/* GRAD_ROWS or one more. */
XT_INLINE void add_some(const float *inputs, int in_c, const float *grads, int count, int places,
                        float *to, int rows, bool fetches)
{
    if (fetches)
        add_rows(inputs, in_c, grads, count, places, to, rows, true);
    else
        add_rows(inputs, in_c, grads, count, places, to, rows, false);
}

/* The same of WIDE input channels: GRAD_ROWS at a time, or one more, so that none are left. */
static void add_products(const float *inputs, int in_c, const float *grads, int count, int places,
                         float *to, bool fetches)
{
    for (int r = 0, rows = 0; r < WIDE; r += rows) {
        rows = (WIDE - r) % GRAD_ROWS ? GRAD_ROWS + 1 : GRAD_ROWS;
        if (rows == GRAD_ROWS)
            add_some(inputs + r, in_c, grads, count, places, to + r * WIDE, GRAD_ROWS, fetches);
        else
            add_some(inputs + r, in_c, grads, count, places, to + r * WIDE, GRAD_ROWS + 1, fetches);
    }
}

/* The weights' transform along a side, transposed: from places to taps. */
XT_INLINE void transform_taps(const xt_vector from[SIDE], xt_vector to[TAPS_MOST], int side,
                              int taps)
{
    const float(*table)[TAPS_MOST] = six_from_taps;
    if (side == 1) {
        to[0] = from[0];
        return;
    }
    xt_vector near_sum = from[1] + from[2];
    xt_vector near_difference = from[2] - from[1];
    xt_vector far_sum = from[3] + from[4];
    xt_vector far_difference = from[3] - from[4];
    to[0] = table[0][0] * from[0] + (table[2][0] * near_sum + table[3][0] * far_sum);
    to[1] = table[2][1] * near_difference + table[3][1] * far_difference;
    to[2] = table[2][2] * near_sum + table[3][2] * far_sum;
    if (taps == TAPS_MOST)
        to[3] = table[2][3] * near_difference + table[3][3] * far_difference;
    to[taps - 1] += from[5];
}

/* Adds the sums of a block's places, [places][WIDE][WIDE] from `from` on, to its taps; overwrites
 * them if they are the first. */
XT_INLINE void add_block(const float *from, bool first, float *to, enum xt_winograd_form form)
{
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    int high = xt_winograd_high(form);
    int wide = xt_winograd_wide(form);
    for (size_t at = 0; at < BLOCK; at += LANES) {
        xt_vector columns[TAPS_MOST][SIDE];
        xt_vector row[TAPS_MOST];
        for (int x = 0; x < wide; x++) {
            xt_vector places[SIDE];
            for (int y = 0; y < high; y++)
                places[y] = xt_vector_load(from + (size_t)(wide * y + x) * WIDE * WIDE +
                                           at / EDGE * WIDE + at % EDGE);
            transform_taps(places, row, high, sides->taps_h);
            for (int y = 0; y < sides->taps_h; y++)
                columns[y][x] = row[y];
        }
        for (int y = 0; y < sides->taps_h; y++) {
            transform_taps(columns[y], row, wide, sides->taps_w);
            for (int x = 0; x < sides->taps_w; x++) {
                float *tap = to + (size_t)(sides->taps_w * y + x) * BLOCK + at;
                xt_vector before = first ? xt_vector_of(0) : xt_vector_load(tap);
                xt_vector_store(tap, before + row[x]);
            }
        }
    }
}

/* Panels [k, end) of a chunk's sums, a few input channels at a time: the sums of all places stay in
 * L2 until they are added to the taps. */
XT_INLINE void add_chunk(const struct xt_winograd_grad *job, int count, int k, int end, bool first,
                         const float *inputs, const float *grads, float *sums, float *taps,
                         enum xt_winograd_form form)
{
    size_t in_c = (size_t)job->in_c;
    size_t places = (size_t)xt_winograd_places(form);
    size_t block = BLOCK * (size_t)xt_winograd_taps(form);
    for (size_t i = 0; i < in_c; i += WIDE) {
        for (size_t p = 0; p < places; p++)
            for (size_t q = 0; q < (size_t)(end - k); q++)
                for (size_t column = 0; column < WIDE; column += PAIR)
                    add_products(inputs + p * place_of(job->in_c) + i / WIDE * CELL, job->in_c,
                                 grads + p * place_of(PANELS) + q * CELL + column, count,
                                 (int)places, sums + (q * places + p) * WIDE * WIDE + column,
                                 q + column == 0);
        for (size_t q = 0; q < 2 * (size_t)(end - k); q++)
            for (size_t r = 0; r < WIDE; r += EDGE)
                add_block(sums + (q / 2 * places * WIDE + r) * WIDE + q % 2 * EDGE, first,
                          taps + ((2 * (size_t)k + q) * (in_c / EDGE) + (i + r) / EDGE) * block,
                          form);
    }
}

XT_INLINE void learn(const struct xt_winograd_grad *job, int part, float *scratch,
                     enum xt_winograd_form form, enum xt_dtype dtype)
{
    int places = xt_winograd_places(form);
    int most = xt_winograd_chunk(form, job->in_c);
    size_t group = (size_t)(part / job->shares);
    size_t count = (size_t)xt_winograd_taps(form) * (size_t)job->in_c * (size_t)job->out_c;
    struct chunk chunk = {.h = xt_winograd_out_h(form, job->h, job->pads),
                          .w = xt_winograd_out_w(form, job->w, job->pads)};
    struct images in = {job->h, job->w, job->in_c, dtype, job->in};
    struct images out_grad = {chunk.h, chunk.w, job->out_c, dtype, job->out_grad};
    float *zeros = scratch;
    float *inputs = zeros + zeros_of(job->in_c);
    struct gradients grads = {inputs + block_of(most, job->in_c, places), NULL};
    float *sums = grads.sums + block_of(most, PANELS, places);
    float *taps = job->grads + group * count;
    int first = 0;
    int last = xt_winograd_part(xt_winograd_tiles(form, job->n, chunk.h, chunk.w), (int)group,
                                job->groups, &first);
    int panel = 0;
    int end = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &panel);
    memset(zeros, 0, zeros_of(job->in_c) * sizeof *zeros);
    if (job->bias_grads)
        grads.bias = job->bias_grads + group * (size_t)job->out_c;
    if (grads.bias && !job->adds)
        memset(grads.bias + panel * WIDE, 0, (size_t)(end - panel) * WIDE * sizeof(float));
    for (chunk.first = first; chunk.first < last; chunk.first += most) {
        int rest = last - chunk.first;
        chunk.count = rest < most ? rest : most;
        transform_inputs(&chunk, &in, job->pads, zeros, inputs, form, dtype);
        for (int k = panel; k < end; k += AT_ONCE) {
            int to = k + AT_ONCE < end ? k + AT_ONCE : end;
            transform_gradients(&chunk, &out_grad, k * WIDE, to * WIDE, zeros, grads, form, dtype);
            add_chunk(job, chunk.count, k, to, chunk.first == first && !job->adds, inputs,
                      grads.sums, sums, taps, form);
        }
    }
}

void XT_LOOPS_NAME(winograd_grad)(const struct xt_winograd_grad *job, int part, float *scratch)
{
    switch (job->form) {
    case XT_WINOGRAD_LARGE:
        if (job->dtype == XT_F32)
            learn(job, part, scratch, XT_WINOGRAD_LARGE, XT_F32);
        else
            learn(job, part, scratch, XT_WINOGRAD_LARGE, XT_BF16);
        return;
    case XT_WINOGRAD_3X1:
        learn(job, part, scratch, XT_WINOGRAD_3X1, XT_F32);
        return;
    case XT_WINOGRAD_1X3:
        learn(job, part, scratch, XT_WINOGRAD_1X3, XT_F32);
        return;
    case XT_WINOGRAD_1X4:
        learn(job, part, scratch, XT_WINOGRAD_1X4, XT_F32);
        return;
    case XT_WINOGRAD_SMALL:
    case XT_WINOGRAD_FORMS:
        return;
    }
}

/* ---- stored weights ---- */

/* The weight transform along a side. */
XT_INLINE void transform_weight(const xt_vector from[TAPS_MOST], xt_vector to[SIDE], int side,
                                int taps)
{
    for (int point = 0; point < side; point++) {
        to[point] = xt_vector_of(0);
        for (int tap = 0; tap < taps; tap++)
            to[point] += from_taps(side, taps, point, tap) * from[tap];
    }
}

/* Writes LANES weights of a place, counted through all panels: of input channel k, from output
 * channel o of the panel on. */
XT_INLINE void store_weights(const struct xt_winograd_weights *weights, size_t place, size_t k,
                             size_t o, xt_vector value)
{
    size_t channels = (size_t)(weights->turned ? weights->out : weights->in);
    size_t first = place * channels * WIDE;
    uint16_t rounded[LANES];
    if (!weights->paired) {
        xt_vector_store((float *)weights->to + first + weight_at(channels, k, o), value);
        return;
    }
    uint16_t *to = (uint16_t *)weights->to + first + 2 * weight_at(channels / 2, k / 2, o) + k % 2;
    store_vec(rounded, 0, value, XT_BF16);
    for (size_t i = 0; i < LANES; i++)
        to[2 * i] = rounded[i];
}

void XT_LOOPS_NAME(winograd_weights)(const struct xt_winograd_weights *weights, int block)
{
    const struct xt_winograd_sides *sides = &xt_winograd_forms[weights->form];
    int high = xt_winograd_high(weights->form);
    int wide = xt_winograd_wide(weights->form);
    size_t taps_w = (size_t)sides->taps_w;
    size_t count = (size_t)xt_winograd_taps(weights->form);
    size_t row = (size_t)(block / (weights->in / EDGE));
    size_t column = (size_t)(block % (weights->in / EDGE));
    const float *from = weights->from + (size_t)block * count * BLOCK;
    float turned[TAPS * BLOCK];
    if (weights->turned) {
        size_t before = row;
        row = column;
        column = before;
        for (size_t tap = 0; tap < count; tap++)
            turn(from + tap * BLOCK, turned + (count - 1 - tap) * BLOCK);
        from = turned;
    }
    size_t panel = row / 2 * (size_t)xt_winograd_places(weights->form);
    for (size_t at = 0; at < BLOCK; at += LANES) {
        xt_vector columns[SIDE][TAPS_MOST];
        xt_vector points[SIDE];
        for (size_t x = 0; x < taps_w; x++) {
            xt_vector taps[TAPS_MOST];
            for (size_t y = 0; y < (size_t)sides->taps_h; y++)
                taps[y] = xt_vector_load(from + (taps_w * y + x) * BLOCK + at);
            transform_weight(taps, points, high, sides->taps_h);
            for (int y = 0; y < high; y++)
                columns[y][x] = points[y];
        }
        for (int y = 0; y < high; y++) {
            transform_weight(columns[y], points, wide, sides->taps_w);
            for (int x = 0; x < wide; x++)
                store_weights(weights, panel + (size_t)(wide * y + x), column * EDGE + at / EDGE,
                              row % 2 * EDGE + at % EDGE, points[x]);
        }
    }
}

#endif
