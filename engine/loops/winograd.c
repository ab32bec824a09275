/* Winograd convolutions by AVX-512 or AVX2, defined in winograd_job.h. Works on a chunk of tiles at
 * a time, so that its sums stay in L2. */
#include "engine/loops/table.h"
#include "engine/loops/vector.h"

#ifdef XT_LOOPS_HAVE_VECTORS
#include <stdbool.h>
#include <string.h>

enum {
    LARGE = XT_WINOGRAD_LARGE,
    SIDE = LARGE + 2, /* of a tile's input, at most */
    PLACES = SIDE * SIDE,
    WIDE = XT_WINOGRAD_WIDE,
    LANES = XT_LANES,
    PAIR = 2 * LANES,            /* columns of a product, in registers */
    ROWS = LANES == 16 ? 12 : 6, /* of a product, in registers */
    FEW_ROWS = LANES == 16 ? 4 : 2,
    GRAD_ROWS = LANES / 2,
    PANELS = XT_WINOGRAD_PANELS, /* output channels at a time */
    AT_ONCE = PANELS / WIDE,
    TAPS = 9,
    EDGE = 16,          /* of a block of weights */
    BLOCK = EDGE * EDGE /* of one tap */
};

/* The points of a large tile's transforms are 0, +-NEAR, +-FAR and infinity: sums have a third of
 * the error that +-1 and +-2 give. */
static const float NEAR = 0.75F;
static const float FAR = 1.5F;
static const float NEAR_SQUARE = 0.75F * 0.75F;
static const float FAR_SQUARE = 1.5F * 1.5F;

/* A large tile's transform of three weights: their polynomial at each point, divided by the product
 * of the point's differences from the others. */
static const float from_taps[SIDE][3] = {
    {64 / 81.0F, 0, 0},
    {-128 / 243.0F, -32 / 81.0F, -8 / 27.0F},
    {-128 / 243.0F, 32 / 81.0F, -8 / 27.0F},
    {32 / 243.0F, 16 / 81.0F, 8 / 27.0F},
    {32 / 243.0F, -16 / 81.0F, 8 / 27.0F},
    {0, 0, 1},
};

/* From one tile's numbers to the next one's, and from one place's to the next one's. A row is a
 * cache line longer than its channels, so that many tiles' rows do not map to the same L1 sets. */
XT_INLINE size_t row_of(int channels)
{
    return (size_t)channels + XT_WINOGRAD_SPARE;
}

/* Zeros for pixels outside. */
XT_INLINE size_t zeros_of(int in_c)
{
    return (size_t)(in_c > PANELS ? in_c : PANELS);
}

XT_INLINE size_t place_of(int tile, int channels)
{
    return (size_t)xt_winograd_chunk(tile) * row_of(channels);
}

/* Tiles [first, first + count) of images of h by w pixels. */
struct chunk {
    int h, w;
    int first, count;
};

/* A tile's first output pixel. */
struct corner {
    int n, y, x;
};

XT_INLINE struct corner corner_of(const struct chunk *chunk, int i, int tile)
{
    int wide = (chunk->w + tile - 1) / tile;
    int high = (chunk->h + tile - 1) / tile;
    int at = chunk->first + i;
    return (struct corner){at / wide / high, tile * (at / wide % high), tile * (at % wide)};
}

/* A pixel's channels, or `outside`. */
XT_INLINE const float *pixel(const struct chunk *chunk, const float *tensor, int c, int n, int y,
                             int x, const float *outside)
{
    if (y < 0 || y >= chunk->h || x < 0 || x >= chunk->w)
        return outside;
    return tensor +
           (((size_t)n * (size_t)chunk->h + (size_t)y) * (size_t)chunk->w + (size_t)x) * (size_t)c;
}

/* Where the pixels of a square are. Not inlined: pointers in memory are faster than in vectors. */
static __attribute__((noinline)) void find_pixels(const struct chunk *chunk, const float *tensor,
                                                  int c, struct corner at, int side,
                                                  const float *outside, const float *found[PLACES])
{
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            found[side * y + x] = pixel(chunk, tensor, c, at.n, at.y + y, at.x + x, outside);
}

/* One dimension of the input transform. */
XT_INLINE void transform_input(const xt_vector from[SIDE], xt_vector to[SIDE], int tile)
{
    if (tile != LARGE) {
        to[0] = from[0] - from[2];
        to[1] = from[1] + from[2];
        to[2] = from[2] - from[1];
        to[3] = from[1] - from[3];
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

/* sums [places][chunk][row], of all channels. */
XT_INLINE void transform_inputs(const struct chunk *chunk, const float *in, int c,
                                const float *zeros, float *sums, int tile)
{
    int side = tile + 2;
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i, tile);
        const float *from[PLACES];
        find_pixels(chunk, in, c, (struct corner){at.n, at.y - 1, at.x - 1}, side, zeros, from);
        for (int k = 0; k < c; k += LANES) {
            xt_vector columns[SIDE][SIDE];
            xt_vector rows[SIDE];
            for (int x = 0; x < side; x++) {
                xt_vector pixels[SIDE];
                for (int y = 0; y < side; y++)
                    pixels[y] = xt_vector_load(from[side * y + x] + k);
                transform_input(pixels, rows, tile);
                for (int y = 0; y < side; y++)
                    columns[y][x] = rows[y];
            }
            float *to = sums + (size_t)i * row_of(c) + k;
            for (int y = 0; y < side; y++) {
                transform_input(columns[y], rows, tile);
                for (int x = 0; x < side; x++)
                    xt_vector_store(to + (size_t)(side * y + x) * place_of(tile, c), rows[x]);
            }
        }
    }
}

/* ---- forward ---- */

/* Rows of [in_c] times PAIR columns of weights [in_c][WIDE]. */
XT_INLINE void multiply(const float *rows, int in_c, const float *weights, float *to, int count)
{
    xt_vector sums[ROWS][2];
    for (int r = 0; r < count; r++)
        sums[r][0] = sums[r][1] = xt_vector_of(0);
    for (int i = 0; i < in_c; i++) {
        xt_vector left = xt_vector_load(weights + (size_t)i * WIDE);
        xt_vector right = xt_vector_load(weights + (size_t)i * WIDE + LANES);
        for (int r = 0; r < count; r++) {
            xt_vector one = xt_vector_of(rows[(size_t)r * row_of(in_c) + (size_t)i]);
            sums[r][0] = xt_vector_add_product(one, left, sums[r][0]);
            sums[r][1] = xt_vector_add_product(one, right, sums[r][1]);
        }
    }
    for (int r = 0; r < count; r++) {
        xt_vector_store(to + (size_t)r * row_of(PANELS), sums[r][0]);
        xt_vector_store(to + (size_t)r * row_of(PANELS) + LANES, sums[r][1]);
    }
}

/* Up to three rows after the last tile are multiplied too; their results are not read. */
static void multiply_pair(const float *tiles, int in_c, const float *weights, float *to, int count)
{
    int r = 0;
    for (; r + ROWS <= count; r += ROWS)
        multiply(tiles + (size_t)r * row_of(in_c), in_c, weights, to + (size_t)r * row_of(PANELS),
                 ROWS);
    for (; r < count; r += FEW_ROWS)
        multiply(tiles + (size_t)r * row_of(in_c), in_c, weights, to + (size_t)r * row_of(PANELS),
                 FEW_ROWS);
}

static void multiply_place(const float *tiles, int in_c, const float *weights, float *to, int count)
{
    for (int column = 0; column < WIDE; column += PAIR)
        multiply_pair(tiles, in_c, weights + column, to + column, count);
}

/* One dimension of the output transform. */
XT_INLINE void transform_output(const xt_vector from[SIDE], xt_vector to[LARGE], int tile)
{
    xt_vector sum = from[1] + from[2];
    xt_vector difference = from[1] - from[2];
    if (tile != LARGE) {
        to[0] = from[0] + sum;
        to[1] = difference - from[3];
        return;
    }
    xt_vector far_sum = from[3] + from[4];
    xt_vector far_difference = from[3] - from[4];
    to[0] = from[0] + (sum + far_sum);
    to[1] = NEAR * difference + FAR * far_difference;
    to[2] = NEAR_SQUARE * sum + FAR_SQUARE * far_sum;
    to[3] = NEAR_SQUARE * NEAR * difference + (FAR_SQUARE * FAR * far_difference + from[5]);
}

/* Writes channels [k, k + LANES) of a pixel. */
XT_INLINE void write_output(const struct xt_winograd *job, int k, xt_vector value, float *to)
{
    if (job->bias)
        value += xt_vector_load(job->bias + k);
    if (job->adds)
        value += xt_vector_load(to);
    xt_vector_store(to, job->relu ? xt_vector_above_0(value) : value);
}

/* Channels [k, end) of the chunk's outputs. */
XT_INLINE void write_outputs(const struct xt_winograd *job, const struct chunk *chunk,
                             const float *products, int k, int end, int tile)
{
    int c = job->out_c;
    int side = tile + 2;
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i, tile);
        int high = chunk->h - at.y;
        int wide = chunk->w - at.x;
        float *to = job->out + (pixel(chunk, job->out, c, at.n, at.y, at.x, NULL) - job->out) + k;
        for (int channel = 0; channel < end - k; channel += LANES) {
            const float *from = products + (size_t)i * row_of(PANELS) + channel;
            xt_vector columns[LARGE][SIDE];
            xt_vector row[LARGE];
            for (int x = 0; x < side; x++) {
                xt_vector places[SIDE];
                for (int y = 0; y < side; y++)
                    places[y] =
                        xt_vector_load(from + (size_t)(side * y + x) * place_of(tile, PANELS));
                transform_output(places, row, tile);
                for (int y = 0; y < tile; y++)
                    columns[y][x] = row[y];
            }
            for (int y = 0; y < tile && y < high; y++) {
                transform_output(columns[y], row, tile);
                for (int x = 0; x < tile && x < wide; x++)
                    write_output(job, k + channel, row[x],
                                 to + (size_t)(y * chunk->w + x) * (size_t)c + channel);
            }
        }
    }
}

#ifdef __AVX512F__
/* Transposes: each round sorts by one more bit of the column. */
static void turn(const float *from, float *to)
{
    enum { ROUNDS = 4, HALF = EDGE / 2 };
    xt_vector rows[EDGE];
    xt_vector sorted[EDGE];
    memcpy(rows, from, sizeof rows);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HALF; i++) {
            xt_vector a = rows[i];
            xt_vector b = rows[i + HALF];
            sorted[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                    6, 22, 7, 23);
            sorted[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, sorted, sizeof rows);
    }
    memcpy(to, rows, sizeof rows);
}
#else
static void turn(const float *from, float *to)
{
    for (int i = 0; i < BLOCK; i++)
        to[i] = from[i % EDGE * EDGE + i / EDGE];
}
#endif

/* Row y of a large tile's weights: of one panel's taps, [2][in / 16][3 x 3][16 in][16 out], to
 * [SIDE][in][WIDE]. */
static void transform_row(const float *taps, size_t in_c, int y, float *to)
{
    size_t blocks = in_c / EDGE;
    const float *down = from_taps[y];
    for (size_t block = 0; block < 2 * blocks; block++)
        for (size_t at = 0; at < BLOCK; at += LANES) {
            const float *from = taps + block * TAPS * BLOCK + at;
            size_t place = (block % blocks * EDGE + at / EDGE) * WIDE + block / blocks * EDGE;
            xt_vector row[3];
            for (size_t x = 0; x < 3; x++)
                row[x] = down[0] * xt_vector_load(from + x * BLOCK) +
                         down[1] * xt_vector_load(from + (3 + x) * BLOCK) +
                         down[2] * xt_vector_load(from + (6 + x) * BLOCK);
            for (size_t x = 0; x < SIDE; x++)
                xt_vector_store(to + x * in_c * WIDE + place + at % EDGE,
                                from_taps[x][0] * row[0] + from_taps[x][1] * row[1] +
                                    from_taps[x][2] * row[2]);
        }
}

/* The taps of a panel of the data gradient: rotated, inputs and outputs exchanged. */
static void turn_panel(const struct xt_winograd *job, int panel, float *to)
{
    size_t blocks = (size_t)job->in_c / EDGE;
    for (size_t block = 0; block < 2 * blocks; block++) {
        size_t column = 2 * (size_t)panel + block / blocks;
        size_t from = block % blocks * ((size_t)job->out_c / EDGE) + column;
        for (size_t tap = 0; tap < TAPS; tap++)
            turn(job->weights + (from * TAPS + tap) * BLOCK,
                 to + (block * TAPS + TAPS - 1 - tap) * BLOCK);
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
    const float *from = job->turned ? turned : job->weights + (size_t)k * taps;
    for (size_t y = 0; y < SIDE; y++) {
        for (size_t q = 0; q < (size_t)(end - k); q++)
            transform_row(from + q * taps, in_c, (int)y, row + q * SIDE * in_c * WIDE);
        for (size_t x = 0; x < SIDE; x++)
            for (size_t q = 0; q < (size_t)(end - k); q++)
                multiply_place(sums + (SIDE * y + x) * place_of(LARGE, job->in_c), job->in_c,
                               row + (q * SIDE + x) * in_c * WIDE,
                               products + (SIDE * y + x) * place_of(LARGE, PANELS) + q * WIDE,
                               count);
    }
}

/* The same of small tiles, whose weights are stored. */
static void multiply_stored(const struct xt_winograd *job, int count, int k, int end,
                            const float *sums, float *products)
{
    size_t places = (size_t)xt_winograd_places(XT_WINOGRAD_SMALL);
    size_t step = (size_t)job->in_c * WIDE;
    for (int q = k; q < end; q++)
        for (size_t p = 0; p < places; p++)
            multiply_place(sums + p * place_of(XT_WINOGRAD_SMALL, job->in_c), job->in_c,
                           job->weights + ((size_t)q * places + p) * step,
                           products + p * place_of(XT_WINOGRAD_SMALL, PANELS) + (q - k) * WIDE,
                           count);
}

XT_INLINE void convolve(const struct xt_winograd *job, int part, float *scratch, int tile)
{
    size_t places = (size_t)xt_winograd_places(tile);
    float *zeros = scratch;
    float *sums = zeros + zeros_of(job->in_c);
    float *products = sums + places * place_of(tile, job->in_c);
    float *weights = products + places * place_of(tile, PANELS);
    int first = 0;
    int end = xt_winograd_part(xt_winograd_tiles(tile, job->n, job->h, job->w), part / job->shares,
                               job->groups, &first);
    int panel = 0;
    int last = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &panel);
    struct chunk chunk = {.h = job->h, .w = job->w};
    memset(zeros, 0, zeros_of(job->in_c) * sizeof *zeros);
    for (chunk.first = first; chunk.first < end; chunk.first += xt_winograd_chunk(tile)) {
        int rest = end - chunk.first;
        chunk.count = rest < xt_winograd_chunk(tile) ? rest : xt_winograd_chunk(tile);
        transform_inputs(&chunk, job->in, job->in_c, zeros, sums, tile);
        for (int k = panel; k < last; k += AT_ONCE) {
            int to = k + AT_ONCE < last ? k + AT_ONCE : last;
            if (tile == LARGE)
                multiply_taps(job, chunk.count, k, to, sums, products, weights);
            else
                multiply_stored(job, chunk.count, k, to, sums, products);
            write_outputs(job, &chunk, products, k * WIDE, to * WIDE, tile);
        }
    }
}

void XT_LOOPS_NAME(winograd)(const struct xt_winograd *job, int part, float *scratch)
{
    if (job->tile == LARGE)
        convolve(job, part, scratch, LARGE);
    else
        convolve(job, part, scratch, XT_WINOGRAD_SMALL);
}

/* ---- the weight gradient ---- */

/* One dimension of the gradient transform. */
XT_INLINE void transform_gradient(const xt_vector from[LARGE], xt_vector to[SIDE])
{
    xt_vector near_even = from[0] + NEAR_SQUARE * from[2];
    xt_vector far_even = from[0] + FAR_SQUARE * from[2];
    xt_vector near = NEAR * (from[1] + NEAR_SQUARE * from[3]);
    xt_vector far = FAR * (from[1] + FAR_SQUARE * from[3]);
    to[0] = from[0];
    to[1] = near_even + near;
    to[2] = near_even - near;
    to[3] = far_even + far;
    to[4] = far_even - far;
    to[5] = from[3];
}

/* sums [places][chunk][row] of channels [k, end). */
static void transform_gradients(const struct chunk *chunk, const float *grad, int c, int k, int end,
                                const float *zeros, float *sums)
{
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i, LARGE);
        const float *from[PLACES];
        find_pixels(chunk, grad + k, c, at, LARGE, zeros, from);
        for (int channel = 0; channel < end - k; channel += LANES) {
            xt_vector columns[SIDE][LARGE];
            xt_vector row[SIDE];
            for (int x = 0; x < LARGE; x++) {
                xt_vector pixels[LARGE];
                for (int y = 0; y < LARGE; y++)
                    pixels[y] = xt_vector_load(from[LARGE * y + x] + channel);
                transform_gradient(pixels, row);
                for (int y = 0; y < SIDE; y++)
                    columns[y][x] = row[y];
            }
            float *to = sums + (size_t)i * row_of(PANELS) + channel;
            for (int y = 0; y < SIDE; y++) {
                transform_gradient(columns[y], row);
                for (int x = 0; x < SIDE; x++)
                    xt_vector_store(to + (size_t)(SIDE * y + x) * place_of(LARGE, PANELS), row[x]);
            }
        }
    }
}

/* Over `count` tiles, the products of GRAD_ROWS input channels with PAIR gradients. */
XT_INLINE void add_products(const float *inputs, int in_c, const float *grads, int count, float *to)
{
    xt_vector sums[GRAD_ROWS][2];
    for (int r = 0; r < GRAD_ROWS; r++)
        sums[r][0] = sums[r][1] = xt_vector_of(0);
    for (int t = 0; t < count; t++) {
        xt_vector left = xt_vector_load(grads + (size_t)t * row_of(PANELS));
        xt_vector right = xt_vector_load(grads + (size_t)t * row_of(PANELS) + LANES);
        for (int r = 0; r < GRAD_ROWS; r++) {
            xt_vector one = xt_vector_of(inputs[(size_t)t * row_of(in_c) + (size_t)r]);
            sums[r][0] = xt_vector_add_product(one, left, sums[r][0]);
            sums[r][1] = xt_vector_add_product(one, right, sums[r][1]);
        }
    }
    for (int r = 0; r < GRAD_ROWS; r++)
        for (int v = 0; v < 2; v++)
            xt_vector_store(to + r * WIDE + v * LANES, sums[r][v]);
}

/* Adds what row y of places, [SIDE][in][WIDE], gives to a panel's taps; overwrites them if it is
 * the first. */
static void add_row(const float *row, size_t in_c, int y, bool first, float *taps)
{
    size_t blocks = in_c / EDGE;
    for (size_t block = 0; block < 2 * blocks; block++)
        for (size_t at = 0; at < BLOCK; at += LANES) {
            const float *from = row + (block % blocks * EDGE + at / EDGE) * WIDE +
                                block / blocks * EDGE + at % EDGE;
            float *to = taps + block * TAPS * BLOCK + at;
            for (size_t x = 0; x < 3; x++) {
                xt_vector sum = xt_vector_of(0);
                for (size_t place = 0; place < SIDE; place++)
                    sum += from_taps[place][x] * xt_vector_load(from + place * in_c * WIDE);
                for (size_t tap = 0; tap < 3; tap++) {
                    float *place = to + (3 * tap + x) * BLOCK;
                    xt_vector before = first ? xt_vector_of(0) : xt_vector_load(place);
                    xt_vector_store(place, before + from_taps[y][tap] * sum);
                }
            }
        }
}

/* Panels [k, end) of a chunk's sums. */
static void add_chunk(const struct xt_winograd_grad *job, int count, int k, int end, bool first,
                      const float *inputs, const float *grads, float *row, float *taps)
{
    size_t in_c = (size_t)job->in_c;
    for (size_t y = 0; y < SIDE; y++) {
        for (size_t x = 0; x < SIDE; x++)
            for (size_t i = 0; i < in_c; i += GRAD_ROWS)
                for (size_t column = 0; column < (size_t)(end - k) * WIDE; column += PAIR)
                    add_products(
                        inputs + (SIDE * y + x) * place_of(LARGE, job->in_c) + i, job->in_c,
                        grads + (SIDE * y + x) * place_of(LARGE, PANELS) + column, count,
                        row + ((column / WIDE * SIDE + x) * in_c + i) * WIDE + column % WIDE);
        for (size_t q = 0; q < (size_t)(end - k); q++)
            add_row(row + q * SIDE * in_c * WIDE, in_c, (int)y, first && !y,
                    taps + ((size_t)k + q) * WIDE * in_c * TAPS);
    }
}

void XT_LOOPS_NAME(winograd_grad)(const struct xt_winograd_grad *job, int part, float *scratch)
{
    int group = part / job->shares;
    float *zeros = scratch;
    float *inputs = zeros + zeros_of(job->in_c);
    float *grads = inputs + PLACES * place_of(LARGE, job->in_c);
    float *row = grads + PLACES * place_of(LARGE, PANELS);
    float *taps = job->grads + (size_t)group * TAPS * (size_t)job->in_c * (size_t)job->out_c;
    struct chunk chunk = {.h = job->h, .w = job->w};
    int first = 0;
    int last = xt_winograd_part(xt_winograd_tiles(LARGE, job->n, job->h, job->w), group,
                                job->groups, &first);
    int panel = 0;
    int end = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &panel);
    memset(zeros, 0, zeros_of(job->in_c) * sizeof *zeros);
    for (chunk.first = first; chunk.first < last; chunk.first += xt_winograd_chunk(LARGE)) {
        int rest = last - chunk.first;
        chunk.count = rest < xt_winograd_chunk(LARGE) ? rest : xt_winograd_chunk(LARGE);
        transform_inputs(&chunk, job->in, job->in_c, zeros, inputs, LARGE);
        for (int k = panel; k < end; k += AT_ONCE) {
            int to = k + AT_ONCE < end ? k + AT_ONCE : end;
            transform_gradients(&chunk, job->out_grad, job->out_c, k * WIDE, to * WIDE, zeros,
                                grads);
            add_chunk(job, chunk.count, k, to, chunk.first == first, inputs, grads, row, taps);
        }
    }
}

/* ---- the weights of small tiles ---- */

/* One dimension of the weight transform. */
XT_INLINE void transform_weight(const xt_vector from[3], xt_vector to[4])
{
    xt_vector half = xt_vector_of(0.5F);
    xt_vector ends = from[0] + from[2];
    to[0] = from[0];
    to[1] = half * (ends + from[1]);
    to[2] = half * (ends - from[1]);
    to[3] = from[2];
}

void XT_LOOPS_NAME(winograd_weights)(const struct xt_winograd_weights *weights, int block)
{
    enum { SMALL_SIDE = XT_WINOGRAD_SMALL + 2 };
    size_t in = (size_t)weights->in;
    size_t row = (size_t)block / (in / EDGE);
    size_t column = (size_t)block % (in / EDGE);
    const float *from = weights->from + (size_t)block * TAPS * BLOCK;
    float *to = weights->to + (row / 2 * SMALL_SIDE * SMALL_SIDE * in + column * EDGE) * WIDE +
                row % 2 * EDGE;
    for (size_t at = 0; at < BLOCK; at += LANES) {
        xt_vector columns[SMALL_SIDE][3];
        xt_vector four[SMALL_SIDE];
        for (size_t x = 0; x < 3; x++) {
            xt_vector taps[3];
            for (size_t y = 0; y < 3; y++)
                taps[y] = xt_vector_load(from + (3 * y + x) * BLOCK + at);
            transform_weight(taps, four);
            for (int y = 0; y < SMALL_SIDE; y++)
                columns[y][x] = four[y];
        }
        for (size_t y = 0; y < SMALL_SIDE; y++) {
            transform_weight(columns[y], four);
            for (size_t x = 0; x < SMALL_SIDE; x++)
                xt_vector_store(
                    to + (SMALL_SIDE * y + x) * in * WIDE + at / EDGE * WIDE + at % EDGE, four[x]);
        }
    }
}

#endif
