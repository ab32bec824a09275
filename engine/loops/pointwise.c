/* 1x1 convolutions of float32 by AVX-512 or AVX2, defined in pointwise_job.h and
 * pointwise_infer_job.h. */
#include "engine/loops/activation_value.h"
#include "engine/loops/pixels.h"
#include "engine/loops/table.h"
#include "engine/loops/turn.h"

#ifdef XT_LOOPS_HAVE_VECTORS

enum {
    LANES = XT_LANES,
    BLOCK = XT_POINTWISE_BLOCK,
    PAIR = 2 * LANES,           /* channels of the output, in registers */
    ROWS = LANES == 16 ? 8 : 6, /* pixels */
    CHUNK =
        XT_POINTWISE_CHUNK, /* pixels whose input is read from L2 for all channels of the output */
    CHUNK_MOST = CHUNK + ROWS, /* of the last: so that none is of a few alone */
    STEPS = 4,
    /* Unrolled, gcc finds too few of AVX2's registers for the sums. */
    UNROLL = LANES == 16 ? STEPS : 1,
    LINE = 16
};

/* Channels from one pixel of the output to the next. */
XT_INLINE int row_of(const struct xt_pointwise *job)
{
    return job->ending ? job->ending->row : job->out_c;
}

struct chunk {
    const void *in[CHUNK_MOST]; /* a pixel's channels */
    int count;
};

/* What is read later, fetched into L2 meanwhile: the input of the chunk after this one; with a norm
 * the next channels of its tensors and of the output. */
struct ahead {
    const struct chunk *chunk;
    int pixel, channel;
    int lines; /* of each tensor */
    size_t at;
};

XT_INLINE void fetch_input(struct ahead *ahead, int channels)
{
    if (ahead->pixel == ahead->chunk->count)
        return;
    __builtin_prefetch((const float *)ahead->chunk->in[ahead->pixel] + ahead->channel, 0, 2);
    ahead->channel += LINE;
    if (ahead->channel >= channels) {
        ahead->channel = 0;
        ahead->pixel++;
    }
}

XT_INLINE void fetch_norm(struct ahead *ahead, const struct xt_pointwise *job)
{
    if (!ahead->lines)
        return;
    __builtin_prefetch(job->out + ahead->at, 0, 2);
    __builtin_prefetch((const float *)job->norm.y + ahead->at, 0, 2);
    __builtin_prefetch((const float *)job->norm.z + ahead->at, 0, 2);
    bool last = PAIR == LINE || ahead->lines % 2;
    ahead->at += last ? (size_t)(job->out_c - PAIR + LINE) : LINE;
    ahead->lines--;
}

static void find_pixels(const struct xt_pointwise *job, int first, int end, struct chunk *chunk)
{
    const struct xt_pixels pixels = {job->in,       (size_t)job->in_c * sizeof(float),
                                     job->h,        job->w,
                                     job->out_h,    job->out_w,
                                     job->stride_h, job->stride_w};
    chunk->count = end - first <= CHUNK_MOST ? end - first : CHUNK;
    xt_find_pixels(&pixels, first, chunk->count, chunk->in);
}

/* Two vectors of a norm's sums over a chunk. */
struct sums {
    xt_vector first[2], second[2];
    bool begins; /* the pivot is still to be set */
};

/* What becomes of the products beside being written. */
enum then { NOTHING, STATISTICS, GRADIENT, INFERENCE };

XT_INLINE void add_statistics(float *pivots, int rows, xt_vector tile[ROWS][2], struct sums *sums)
{
    for (int v = 0; v < 2; v++) {
        if (sums->begins)
            xt_vector_store(pivots + v * LANES, tile[0][v]);
        xt_vector pivot = xt_vector_load(pivots + v * LANES);
        for (int r = 0; r < rows; r++) {
            xt_vector value = tile[r][v] - pivot;
            sums->first[v] += value;
            sums->second[v] = xt_vector_add_product(value, value, sums->second[v]);
        }
    }
    sums->begins = false;
}

XT_INLINE void mask_gradient(const struct xt_pointwise *job, const float *out, const float *pivots,
                             int rows, xt_vector tile[ROWS][2], struct sums *sums)
{
    const float *y = (const float *)job->norm.y + (out - job->out);
    const float *z = (const float *)job->norm.z + (out - job->out);
    for (int v = 0; v < 2; v++) {
        xt_vector pivot = xt_vector_load(pivots + v * LANES);
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)r * (size_t)job->out_c + (size_t)v * LANES;
            xt_vector grad = tile[r][v];
            if (job->adds)
                grad += xt_vector_load(out + at);
            grad = xt_vector_where_above_0(xt_vector_load(y + at), grad);
            sums->first[v] += grad;
            sums->second[v] =
                xt_vector_add_product(grad, xt_vector_load(z + at) - pivot, sums->second[v]);
            tile[r][v] = grad;
        }
    }
}

/* Adds the residual that the output holds; then the activation, if limits are all of it. */
XT_INLINE void end_inference(const struct xt_pointwise_infer *ending, const float *out, int rows,
                             xt_vector tile[ROWS][2])
{
    const struct limits limits = limits_behind(ending->relu, ending->activation);
    for (int r = 0; r < rows; r++, out += ending->row)
        for (int v = 0; v < 2; v++) {
            if (ending->adds)
                tile[r][v] += xt_vector_load(out + v * LANES);
            tile[r][v] = vec_least(limits.most, vec_most(limits.least, tile[r][v]));
        }
}

/* Another activation, of a few pixels in memory: few convolutions have one. */
static void activate(const struct xt_pointwise_infer *ending, float *out, int rows)
{
    bool hard = ending->activation->kind == XT_ACT_HARD_SWISH;
    for (int r = 0; r < rows; r++, out += ending->row)
        for (size_t at = 0; at < PAIR; at += LANES)
            store_vec(out, at, swish_value(load_vec(out, at, XT_F32), hard, XT_F32), XT_F32);
}

/* PAIR channels of `rows` pixels. */
XT_INLINE void multiply(const struct xt_pointwise *job, const void *const *in, int channel,
                        float *out, int rows, struct sums *sums, struct ahead *next, enum then then)
{
    struct ahead ahead = *next;
    const float *weights =
        job->weights + (size_t)(channel / BLOCK) * (size_t)job->in_c * BLOCK + channel % BLOCK;
    size_t second = LANES == BLOCK ? (size_t)job->in_c * BLOCK : LANES;
    size_t row = (size_t)row_of(job);
    const float *bias = then == INFERENCE ? job->ending->bias + channel : NULL;
    xt_vector tile[ROWS][2];
    for (int r = 0; r < rows; r++) {
        tile[r][0] = bias ? xt_vector_load(bias) : xt_vector_of(0);
        tile[r][1] = bias ? xt_vector_load(bias + LANES) : xt_vector_of(0);
        __builtin_prefetch(out + (size_t)r * row, 1);
        __builtin_prefetch(out + (size_t)r * row + LANES, 1);
    }
    for (int i = 0; i < job->in_c; i += STEPS) {
        fetch_input(&ahead, job->in_c);
        if (then == GRADIENT)
            fetch_norm(&ahead, job);
#pragma GCC unroll UNROLL
        for (int k = 0; k < STEPS; k++, weights += BLOCK) {
            xt_vector left = xt_vector_load(weights);
            xt_vector right = xt_vector_load(weights + second);
            for (int r = 0; r < rows; r++) {
                xt_vector one = xt_vector_of(((const float *)in[r])[i + k]);
                tile[r][0] = xt_vector_add_product(one, left, tile[r][0]);
                tile[r][1] = xt_vector_add_product(one, right, tile[r][1]);
            }
        }
    }
    *next = ahead;
    if (then == STATISTICS)
        add_statistics(job->norm.pivot + channel, rows, tile, sums);
    if (then == GRADIENT)
        mask_gradient(job, out, job->norm.pivot + channel, rows, tile, sums);
    if (then == INFERENCE)
        end_inference(job->ending, out, rows, tile);
    for (int r = 0; r < rows; r++) {
        xt_vector_store(out + (size_t)r * row, tile[r][0]);
        xt_vector_store(out + (size_t)r * row + LANES, tile[r][1]);
    }
    if (then == INFERENCE && job->ending->activation &&
        job->ending->activation->kind != XT_ACT_CLIP)
        activate(job->ending, out, rows);
}

/* With a number of rows that is known. */
XT_INLINE void multiply_rows(const struct xt_pointwise *job, const void *const *in, int channel,
                             float *out, int rows, struct sums *sums, struct ahead *next,
                             enum then then)
{
    switch (rows) {
    case ROWS:
        multiply(job, in, channel, out, ROWS, sums, next, then);
        break;
    case ROWS - 1:
        multiply(job, in, channel, out, ROWS - 1, sums, next, then);
        break;
    case ROWS - 2:
        multiply(job, in, channel, out, ROWS - 2, sums, next, then);
        break;
    case ROWS - 3:
        multiply(job, in, channel, out, ROWS - 3, sums, next, then);
        break;
    default:
        for (int r = 0; r < rows; r++, out += row_of(job))
            multiply(job, in + r, channel, out, 1, sums, next, then);
    }
}

static void add_to_doubles(const xt_vector sum[2], double *to)
{
    float sums[PAIR];
    memcpy(sums, sum, sizeof sums);
#pragma omp simd
    for (int k = 0; k < PAIR; k++)
        to[k] += (double)sums[k];
}

/* The next channels of this chunk, or the first ones of the next. */
static void look_ahead(const struct xt_pointwise *job, const float *out, int channel, int count,
                       struct ahead *ahead)
{
    bool last = channel + PAIR == job->out_c;
    ahead->lines = PAIR / LINE * (last ? ahead->chunk->count : count);
    ahead->at = (size_t)(out - job->out) +
                (last ? (size_t)count * (size_t)job->out_c : (size_t)(channel + PAIR));
}

XT_INLINE void multiply_chunk(const struct xt_pointwise *job, const struct chunk *chunk, float *out,
                              bool begins, struct ahead *ahead, enum then then)
{
    size_t row = (size_t)row_of(job);
    for (int channel = 0; channel < job->out_c; channel += PAIR) {
        struct sums sums = {.begins = begins};
        float *to = out + channel;
        int i = 0;
        if (then == GRADIENT)
            look_ahead(job, out, channel, chunk->count, ahead);
        for (int tiles = (chunk->count + ROWS - 1) / ROWS; tiles; tiles--) {
            int rows = (chunk->count - i + tiles - 1) / tiles;
            multiply_rows(job, chunk->in + i, channel, to + (size_t)i * row, rows, &sums, ahead,
                          then);
            i += rows;
        }
        if (then != STATISTICS && then != GRADIENT)
            continue;
        add_to_doubles(sums.first, job->norm.sums[0] + channel);
        add_to_doubles(sums.second, job->norm.sums[1] + channel);
    }
}

XT_INLINE void run(const struct xt_pointwise *job, int first, int end, enum then then)
{
    struct chunk chunks[2];
    int begin = first;
    find_pixels(job, first, end, &chunks[0]);
    for (int i = 0; chunks[i].count; i = !i) {
        int next = first + chunks[i].count;
        find_pixels(job, next, end, &chunks[!i]);
        struct ahead ahead = {.chunk = &chunks[!i]};
        multiply_chunk(job, &chunks[i], job->out + (size_t)first * (size_t)row_of(job),
                       first == begin, &ahead, then);
        first = next;
    }
}

void XT_LOOPS_NAME(pointwise)(const struct xt_pointwise *job, int first, int end)
{
    if (job->norm.y)
        run(job, first, end, GRADIENT);
    else if (job->norm.pivot)
        run(job, first, end, STATISTICS);
    else
        run(job, first, end, NOTHING);
}

void XT_LOOPS_NAME(pointwise_f32)(const struct xt_pointwise_infer *infer, int first, int end)
{
    const struct xt_pointwise job = {.h = infer->h,
                                     .w = infer->w,
                                     .out_h = infer->out_h,
                                     .out_w = infer->out_w,
                                     .stride_h = infer->stride_h,
                                     .stride_w = infer->stride_w,
                                     .in_c = infer->in_c,
                                     .out_c = infer->out_c,
                                     .in = infer->in,
                                     .weights = infer->weights,
                                     .out = infer->out,
                                     .ending = infer};
    run(&job, first, end, INFERENCE);
}

void XT_LOOPS_NAME(pointwise_turn)(const float *from, int rows, int columns, int block, float *to)
{
    to += (size_t)block * BLOCK * (size_t)columns;
    for (int column = 0; column < columns; column += BLOCK)
        turn(from + ((size_t)column * (size_t)rows + (size_t)block * BLOCK * BLOCK),
             to + (size_t)column * BLOCK);
}

#endif
