/* 1x1 convolutions by AVX-512 or AVX2, defined in pointwise_job.h. */
#include "engine/loops/table.h"
#include "engine/loops/turn.h"

#ifdef XT_LOOPS_HAVE_VECTORS

enum {
    LANES = XT_LANES,
    BLOCK = XT_POINTWISE_BLOCK,
    PAIR = 2 * LANES,           /* channels of the output, in registers */
    ROWS = LANES == 16 ? 8 : 6, /* pixels */
    FEW_ROWS = ROWS / 2,
    CHUNK = 48, /* pixels whose input is read from L2 for all channels of the output */
    UNROLLED = 4,
    LINE = 16
};

struct chunk {
    const float *in[CHUNK]; /* a pixel's channels */
    int count;
};

/* The chunk after this one, fetched into L2 meanwhile. */
struct ahead {
    const struct chunk *chunk;
    int pixel, at, channels;
};

XT_INLINE void fetch(struct ahead *ahead)
{
    if (ahead->pixel == ahead->chunk->count)
        return;
    __builtin_prefetch(ahead->chunk->in[ahead->pixel] + ahead->at, 0, 2);
    ahead->at += LINE;
    if (ahead->at >= ahead->channels) {
        ahead->at = 0;
        ahead->pixel++;
    }
}

static void find_pixels(const struct xt_pointwise *job, int first, int end, struct chunk *chunk)
{
    chunk->count = end - first < CHUNK ? end - first : CHUNK;
    for (int i = 0; i < chunk->count; i++) {
        int x = (first + i) % job->out_w;
        int y = (first + i) / job->out_w % job->out_h;
        size_t n = (size_t)((first + i) / job->out_w / job->out_h);
        size_t row = n * (size_t)job->h + (size_t)(y * job->stride_h);
        chunk->in[i] =
            job->in + (row * (size_t)job->w + (size_t)(x * job->stride_w)) * (size_t)job->in_c;
    }
}

/* PAIR channels of `rows` pixels. */
XT_INLINE void multiply(const struct xt_pointwise *job, const float *const *in,
                        const float *weights, float *out, int rows, struct ahead *next)
{
    struct ahead ahead = *next;
    size_t second = LANES == BLOCK ? (size_t)job->in_c * BLOCK : LANES;
    xt_vector sums[ROWS][2];
    for (int r = 0; r < rows; r++) {
        sums[r][0] = sums[r][1] = xt_vector_of(0);
        __builtin_prefetch(out + (size_t)r * (size_t)job->out_c, 1);
        __builtin_prefetch(out + (size_t)r * (size_t)job->out_c + LANES, 1);
    }
    for (int i = 0; i < job->in_c; i += UNROLLED) {
        fetch(&ahead);
        for (int k = 0; k < UNROLLED; k++, weights += BLOCK) {
            xt_vector left = xt_vector_load(weights);
            xt_vector right = xt_vector_load(weights + second);
            for (int r = 0; r < rows; r++) {
                xt_vector one = xt_vector_of(in[r][i + k]);
                sums[r][0] = xt_vector_add_product(one, left, sums[r][0]);
                sums[r][1] = xt_vector_add_product(one, right, sums[r][1]);
            }
        }
    }
    *next = ahead;
    for (int r = 0; r < rows; r++) {
        xt_vector_store(out + (size_t)r * (size_t)job->out_c, sums[r][0]);
        xt_vector_store(out + (size_t)r * (size_t)job->out_c + LANES, sums[r][1]);
    }
}

static void multiply_chunk(const struct xt_pointwise *job, const struct chunk *chunk, float *out,
                           struct ahead *ahead)
{
    for (int channel = 0; channel < job->out_c; channel += PAIR) {
        const float *weights =
            job->weights + (size_t)(channel / BLOCK) * (size_t)job->in_c * BLOCK + channel % BLOCK;
        float *to = out + channel;
        int i = 0;
        for (; i + ROWS <= chunk->count; i += ROWS)
            multiply(job, chunk->in + i, weights, to + (size_t)i * (size_t)job->out_c, ROWS, ahead);
        for (; i + FEW_ROWS <= chunk->count; i += FEW_ROWS)
            multiply(job, chunk->in + i, weights, to + (size_t)i * (size_t)job->out_c, FEW_ROWS,
                     ahead);
        for (; i < chunk->count; i++)
            multiply(job, chunk->in + i, weights, to + (size_t)i * (size_t)job->out_c, 1, ahead);
    }
}

void XT_LOOPS_NAME(pointwise)(const struct xt_pointwise *job, int first, int end)
{
    struct chunk chunks[2];
    find_pixels(job, first, end, &chunks[0]);
    for (int i = 0; chunks[i].count; i = !i) {
        int next = first + chunks[i].count;
        find_pixels(job, next, end, &chunks[!i]);
        struct ahead ahead = {.chunk = &chunks[!i], .channels = job->in_c};
        multiply_chunk(job, &chunks[i], job->out + (size_t)first * (size_t)job->out_c, &ahead);
        first = next;
    }
}

void XT_LOOPS_NAME(pointwise_turn)(const float *from, int rows, int columns, int block, float *to)
{
    to += (size_t)block * BLOCK * (size_t)columns;
    for (int column = 0; column < columns; column += BLOCK)
        turn(from + ((size_t)column * (size_t)rows + (size_t)block * BLOCK * BLOCK),
             to + (size_t)column * BLOCK);
}

#endif
