/* Winograd convolutions by AVX-512 or AVX2, defined in winograd_job.h. Works on a chunk of tiles at
 * a time, so that its sums stay in L2. */
#include "engine/loops/table.h"
#include "engine/loops/vector.h"

#ifdef XT_LOOPS_HAVE_VECTORS
#include <stdbool.h>
#include <string.h>

enum {
    PLACES = XT_WINOGRAD_PLACES,
    WIDE = XT_WINOGRAD_WIDE,
    CHUNK = XT_WINOGRAD_CHUNK,
    LANES = XT_LANES,
    PAIR = 2 * LANES,            /* columns of a product, in registers */
    SIDE = 4,                    /* of a tile's input */
    ROWS = LANES == 16 ? 12 : 6, /* of a product, in registers */
    FEW_ROWS = LANES == 16 ? 4 : 2,
    GRAD_ROWS = LANES / 2,
    TAPS = 9,
    EDGE = 16,          /* of a block of weights */
    BLOCK = EDGE * EDGE /* of one tap */
};

/* From one tile's numbers to the next one's, and from one place's to the next one's. A row is a
 * cache line longer than its channels, so that many tiles' rows do not map to the same L1 sets. */
XT_INLINE size_t row_of(int channels)
{
    return (size_t)channels + XT_WINOGRAD_SPARE;
}

XT_INLINE size_t place_of(int channels)
{
    return CHUNK * row_of(channels);
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

static struct corner corner_of(const struct chunk *chunk, int i)
{
    int wide = (chunk->w + 1) / 2;
    int high = (chunk->h + 1) / 2;
    int tile = chunk->first + i;
    return (struct corner){tile / wide / high, 2 * (tile / wide % high), 2 * (tile % wide)};
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

/* One dimension of the input transform. */
XT_INLINE void transform_input(const xt_vector from[SIDE], xt_vector to[SIDE])
{
    to[0] = from[0] - from[2];
    to[1] = from[1] + from[2];
    to[2] = from[2] - from[1];
    to[3] = from[1] - from[3];
}

/* sums [places][CHUNK][row], of all channels. */
static void transform_inputs(const struct chunk *chunk, const float *in, int c, const float *zeros,
                             float *sums)
{
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i);
        const float *from[PLACES];
        for (int p = 0; p < PLACES; p++)
            from[p] = pixel(chunk, in, c, at.n, at.y + p / SIDE - 1, at.x + p % SIDE - 1, zeros);
        for (int k = 0; k < c; k += LANES) {
            xt_vector columns[SIDE][SIDE];
            xt_vector rows[SIDE];
            for (int x = 0; x < SIDE; x++) {
                xt_vector pixels[SIDE];
                for (int y = 0; y < SIDE; y++)
                    pixels[y] = xt_vector_load(from[SIDE * y + x] + k);
                transform_input(pixels, rows);
                for (int y = 0; y < SIDE; y++)
                    columns[y][x] = rows[y];
            }
            float *to = sums + (size_t)i * row_of(c) + k;
            for (int y = 0; y < SIDE; y++) {
                transform_input(columns[y], rows);
                for (int x = 0; x < SIDE; x++)
                    xt_vector_store(to + (size_t)(SIDE * y + x) * place_of(c), rows[x]);
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
        xt_vector_store(to + (size_t)r * row_of(WIDE), sums[r][0]);
        xt_vector_store(to + (size_t)r * row_of(WIDE) + LANES, sums[r][1]);
    }
}

/* Up to three rows after the last tile are multiplied too; their results are not read. */
static void multiply_pair(const float *tiles, int in_c, const float *weights, float *to, int count)
{
    int r = 0;
    for (; r + ROWS <= count; r += ROWS)
        multiply(tiles + (size_t)r * row_of(in_c), in_c, weights, to + (size_t)r * row_of(WIDE),
                 ROWS);
    for (; r < count; r += FEW_ROWS)
        multiply(tiles + (size_t)r * row_of(in_c), in_c, weights, to + (size_t)r * row_of(WIDE),
                 FEW_ROWS);
}

static void multiply_place(const float *tiles, int in_c, const float *weights, float *to, int count)
{
    for (int column = 0; column < WIDE; column += PAIR)
        multiply_pair(tiles, in_c, weights + column, to + column, count);
}

/* One dimension of the output transform. */
XT_INLINE void transform_output(const xt_vector from[SIDE], xt_vector to[2])
{
    to[0] = from[0] + (from[1] + from[2]);
    to[1] = from[1] - from[2] - from[3];
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

/* Channels [k, k + WIDE) of the chunk's outputs. */
static void write_outputs(const struct xt_winograd *job, const struct chunk *chunk,
                          const float *products, int k)
{
    int c = job->out_c;
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i);
        int high = at.y + 1 < chunk->h ? 2 : 1;
        int wide = at.x + 1 < chunk->w ? 2 : 1;
        float *to = job->out + (pixel(chunk, job->out, c, at.n, at.y, at.x, NULL) - job->out) + k;
        for (int channel = 0; channel < WIDE; channel += LANES) {
            const float *from = products + (size_t)i * row_of(WIDE) + channel;
            xt_vector columns[2][SIDE];
            xt_vector two[2];
            for (int x = 0; x < SIDE; x++) {
                xt_vector places[SIDE];
                for (int y = 0; y < SIDE; y++)
                    places[y] = xt_vector_load(from + (size_t)(SIDE * y + x) * place_of(WIDE));
                transform_output(places, two);
                columns[0][x] = two[0];
                columns[1][x] = two[1];
            }
            for (int y = 0; y < high; y++) {
                transform_output(columns[y], two);
                for (int x = 0; x < wide; x++)
                    write_output(job, k + channel, two[x],
                                 to + (size_t)(y * chunk->w + x) * (size_t)c + channel);
            }
        }
    }
}

void XT_LOOPS_NAME(winograd)(const struct xt_winograd *job, int part, float *scratch)
{
    float *zeros = scratch;
    float *sums = zeros + job->in_c;
    float *products = sums + PLACES * place_of(job->in_c);
    size_t step = (size_t)job->in_c * WIDE;
    int first = 0;
    int end = xt_winograd_part(xt_winograd_tiles(job->n, job->h, job->w), part / job->shares,
                               job->groups, &first);
    int panel = 0;
    int last = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &panel);
    struct chunk chunk = {.h = job->h, .w = job->w};
    memset(zeros, 0, (size_t)job->in_c * sizeof *zeros);
    for (chunk.first = first; chunk.first < end; chunk.first += CHUNK) {
        chunk.count = end - chunk.first < CHUNK ? end - chunk.first : CHUNK;
        transform_inputs(&chunk, job->in, job->in_c, zeros, sums);
        for (int k = panel; k < last; k++) {
            const float *weights = job->weights + (size_t)k * PLACES * step;
            for (size_t p = 0; p < PLACES; p++)
                multiply_place(sums + p * place_of(job->in_c), job->in_c, weights + p * step,
                               products + p * place_of(WIDE), chunk.count);
            write_outputs(job, &chunk, products, k * WIDE);
        }
    }
}

/* ---- the weight gradient ---- */

/* One dimension of the gradient transform. */
XT_INLINE void transform_gradient(const xt_vector from[2], xt_vector to[SIDE])
{
    to[0] = from[0];
    to[1] = from[0] + from[1];
    to[2] = from[0] - from[1];
    to[3] = xt_vector_of(0) - from[1];
}

/* sums [places][CHUNK][row] of channels [k, k + WIDE). */
static void transform_gradients(const struct chunk *chunk, const float *grad, int c, int k,
                                const float *zeros, float *sums)
{
    for (int i = 0; i < chunk->count; i++) {
        struct corner at = corner_of(chunk, i);
        const float *from[2][2];
        for (int p = 0; p < 4; p++) {
            const float *some = pixel(chunk, grad, c, at.n, at.y + p / 2, at.x + p % 2, NULL);
            from[p / 2][p % 2] = some ? some + k : zeros;
        }
        for (int channel = 0; channel < WIDE; channel += LANES) {
            xt_vector columns[SIDE][2];
            xt_vector four[SIDE];
            for (int x = 0; x < 2; x++) {
                transform_gradient((xt_vector[2]){xt_vector_load(from[0][x] + channel),
                                                  xt_vector_load(from[1][x] + channel)},
                                   four);
                for (int y = 0; y < SIDE; y++)
                    columns[y][x] = four[y];
            }
            float *to = sums + (size_t)i * row_of(WIDE) + channel;
            for (int y = 0; y < SIDE; y++) {
                transform_gradient(columns[y], four);
                for (int x = 0; x < SIDE; x++)
                    xt_vector_store(to + (size_t)(SIDE * y + x) * place_of(WIDE), four[x]);
            }
        }
    }
}

/* Over `count` tiles, the products of GRAD_ROWS input channels with PAIR gradients; added to the
 * destination, or overwriting it. */
XT_INLINE void add_products(const float *inputs, int in_c, const float *grads, int count, bool add,
                            float *to)
{
    xt_vector sums[GRAD_ROWS][2];
    for (int r = 0; r < GRAD_ROWS; r++)
        for (int v = 0; v < 2; v++)
            sums[r][v] = add ? xt_vector_load(to + r * WIDE + v * LANES) : xt_vector_of(0);
    for (int t = 0; t < count; t++) {
        xt_vector left = xt_vector_load(grads + (size_t)t * row_of(WIDE));
        xt_vector right = xt_vector_load(grads + (size_t)t * row_of(WIDE) + LANES);
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

/* Channels [k, end) of one group's tiles. */
static void add_panels(const struct xt_winograd_grad *job, int group, int k, int end,
                       float *scratch)
{
    float *zeros = scratch;
    float *inputs = zeros + job->in_c;
    float *grads = inputs + PLACES * place_of(job->in_c);
    size_t in_c = (size_t)job->in_c;
    struct chunk chunk = {.h = job->h, .w = job->w};
    int first = 0;
    int last =
        xt_winograd_part(xt_winograd_tiles(job->n, job->h, job->w), group, job->groups, &first);
    for (chunk.first = first; chunk.first < last; chunk.first += CHUNK) {
        chunk.count = last - chunk.first < CHUNK ? last - chunk.first : CHUNK;
        transform_inputs(&chunk, job->in, job->in_c, zeros, inputs);
        for (int o = k; o < end; o += WIDE) {
            float *to =
                job->sums + ((size_t)group * (size_t)job->out_c + (size_t)o) * PLACES * in_c;
            transform_gradients(&chunk, job->out_grad, job->out_c, o, zeros, grads);
            for (size_t p = 0; p < PLACES; p++)
                for (size_t i = 0; i < in_c; i += GRAD_ROWS)
                    for (size_t column = 0; column < WIDE; column += PAIR)
                        add_products(inputs + p * place_of(job->in_c) + i, job->in_c,
                                     grads + p * place_of(WIDE) + column, chunk.count,
                                     chunk.first > first, to + (p * in_c + i) * WIDE + column);
        }
    }
}

void XT_LOOPS_NAME(winograd_grad)(const struct xt_winograd_grad *job, int part, float *scratch)
{
    /* As many channels at a time as have sums that fit in L2. */
    enum { SUMS_MOST = 1 << 20, PANEL_BYTES = PLACES * WIDE * (int)sizeof(float) };
    int at_once = SUMS_MOST / (PANEL_BYTES * job->in_c) > 1
                      ? SUMS_MOST / (PANEL_BYTES * job->in_c) * WIDE
                      : WIDE;
    int first = 0;
    int end = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &first) * WIDE;
    memset(scratch, 0, (size_t)job->in_c * sizeof *scratch);
    for (int k = first * WIDE; k < end; k += at_once)
        add_panels(job, part / job->shares, k, k + at_once < end ? k + at_once : end, scratch);
}

/* One dimension of the inverse transform to the taps' gradients. */
XT_INLINE void transform_taps(const xt_vector from[SIDE], xt_vector to[3])
{
    xt_vector half = xt_vector_of(0.5F);
    xt_vector sum = half * (from[1] + from[2]);
    to[0] = from[0] + sum;
    to[1] = half * (from[1] - from[2]);
    to[2] = from[3] + sum;
}

/* Offset of block `block` at the first place, in [out / 32][places][in][32]. */
static size_t within_panels(size_t block, size_t in_c)
{
    size_t row = block / (in_c / EDGE);
    size_t column = block % (in_c / EDGE);
    return (row / 2 * PLACES * in_c + column * EDGE) * WIDE + row % 2 * EDGE;
}

void XT_LOOPS_NAME(winograd_output_transform)(const struct xt_winograd_grad *job, int block)
{
    size_t in_c = (size_t)job->in_c;
    size_t group = (size_t)job->out_c * PLACES * in_c;
    const float *sums = job->sums + within_panels((size_t)block, in_c);
    float *grad = job->grad + (size_t)block * TAPS * BLOCK;
    for (size_t at = 0; at < BLOCK; at += LANES) {
        xt_vector columns[3][SIDE];
        xt_vector three[3];
        for (size_t x = 0; x < SIDE; x++) {
            xt_vector places[SIDE];
            for (size_t y = 0; y < SIDE; y++) {
                const float *from = sums + ((SIDE * y + x) * in_c + at / EDGE) * WIDE + at % EDGE;
                places[y] = xt_vector_load(from);
                for (int g = 1; g < job->groups; g++)
                    places[y] += xt_vector_load(from + (size_t)g * group);
            }
            transform_taps(places, three);
            for (int y = 0; y < 3; y++)
                columns[y][x] = three[y];
        }
        for (size_t y = 0; y < 3; y++) {
            transform_taps(columns[y], three);
            for (size_t x = 0; x < 3; x++)
                xt_vector_store(grad + (3 * y + x) * BLOCK + at, three[x]);
        }
    }
}

/* ---- the weights ---- */

/* One dimension of the weight transform. */
XT_INLINE void transform_weight(const xt_vector from[3], xt_vector to[SIDE])
{
    xt_vector half = xt_vector_of(0.5F);
    xt_vector ends = from[0] + from[2];
    to[0] = from[0];
    to[1] = half * (ends + from[1]);
    to[2] = half * (ends - from[1]);
    to[3] = from[2];
}

/* The transform of a block, with places a step apart. */
XT_INLINE void transform_weights(const float *from, bool turned, float *to, size_t step)
{
    for (size_t at = 0; at < BLOCK; at += LANES) {
        xt_vector columns[SIDE][3];
        xt_vector four[SIDE];
        for (size_t x = 0; x < 3; x++) {
            xt_vector taps[3];
            for (size_t y = 0; y < 3; y++) {
                size_t tap = turned ? 8 - 3 * y - x : 3 * y + x;
                taps[y] = xt_vector_load(from + tap * BLOCK + at);
            }
            transform_weight(taps, four);
            for (int y = 0; y < SIDE; y++)
                columns[y][x] = four[y];
        }
        for (size_t y = 0; y < SIDE; y++) {
            transform_weight(columns[y], four);
            for (size_t x = 0; x < SIDE; x++)
                xt_vector_store(to + (SIDE * y + x) * step + at / EDGE * WIDE + at % EDGE, four[x]);
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

void XT_LOOPS_NAME(winograd_weights)(const struct xt_winograd_weights *weights, int block)
{
    _Alignas(64) float turned[TAPS * BLOCK];
    size_t in = (size_t)weights->in;
    size_t out = (size_t)weights->out;
    size_t row = (size_t)block / (in / EDGE);
    size_t column = (size_t)block % (in / EDGE);
    const float *from = weights->from + (size_t)block * TAPS * BLOCK;
    if (weights->forward)
        transform_weights(from, false, weights->forward + within_panels((size_t)block, in),
                          in * WIDE);
    if (!weights->backward)
        return;
    for (size_t tap = 0; tap < TAPS; tap++)
        turn(from + tap * BLOCK, turned + tap * BLOCK);
    transform_weights(turned, true,
                      weights->backward + within_panels(column * (out / EDGE) + row, out),
                      out * WIDE);
}

#endif
