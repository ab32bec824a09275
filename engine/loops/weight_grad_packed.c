/* One part of a convolution's weight gradient in float32 by AVX-512 or AVX2, for many channels;
 * weight_grad_job.h says how it is divided. A chunk's pixels are copied into panels of a few
 * channels, so that a product reads consecutive memory; those of the input once for each tap. */
#include "engine/loops/table.h"
#include "engine/loops/vector.h"

#ifdef XT_LOOPS_HAVE_VECTORS
#include <string.h>

#include "engine/loops/weight_grad_job.h"

/* A panel has ROWS channels of the input, or up to WIDE vectors of the gradient's. */
enum {
    LANES = XT_LANES,
    ROWS = LANES == 16 ? 8 : 4,
    WIDE = LANES == 16 ? 2 : 3,
    LINE = 16,
    PIXELS = XT_PACKED_PIXELS,
    CHANNEL = XT_PACKED_CHANNEL,
    UNROLLED = 4
};

/* The products of one tap with up to XT_PACKED_TILES tiles of input channels, over a chunk. */
struct step {
    int unit, end;
    int tap;
    int tile, tiles;
    const float *pixels[PIXELS]; /* the input's */
};

/* What the next step reads, fetched into L2 meanwhile: `rate` is lines per turn, times 256. */
struct ahead {
    const float *out_grad, *end; /* first those */
    const struct step *step;
    size_t pixel, pixels, floats, at;
    size_t rate, due;
};

struct part {
    const struct xt_weight_grad *job;
    int left_first, left_end, right_first, right_end; /* tiles */
    float *left, *right;                              /* panels */
    const float *zeros;                               /* a pixel outside the image */
    float *sums;
    float *bias; /* NULL: another part computes it, or it is not needed */
    struct ahead ahead;
};

XT_INLINE void fetch(struct ahead *ahead)
{
    for (ahead->due += ahead->rate; ahead->due >= 256; ahead->due -= 256)
        if (ahead->out_grad < ahead->end) {
            _mm_prefetch(ahead->out_grad, _MM_HINT_T1);
            ahead->out_grad += LINE;
        } else if (ahead->pixel < ahead->pixels) {
            _mm_prefetch(ahead->step->pixels[ahead->pixel] + ahead->at, _MM_HINT_T1);
            ahead->at += LINE;
            if (ahead->at >= ahead->floats) {
                ahead->at = 0;
                ahead->pixel++;
            }
        }
}

static int count_of(const struct xt_weight_grad *job, const struct step *step)
{
    return (int)(xt_weight_grad_pixel(job, true, step->end) -
                 xt_weight_grad_pixel(job, true, step->unit));
}

/* The input's pixels of a step, from its first channel on. */
static void find_pixels(const struct part *part, struct step *step)
{
    const struct xt_weight_grad *job = part->job;
    size_t first = xt_weight_grad_pixel(job, true, step->unit);
    int count = count_of(job, step);
    int n = (int)(first / (size_t)(job->out_h * job->out_w));
    int y = (int)(first / (size_t)job->out_w % (size_t)job->out_h);
    int x = (int)(first % (size_t)job->out_w);
    const float *in = (const float *)job->in + step->tile * job->edge;
    for (int i = 0; i < count; i++) {
        int row = y * job->stride_h + step->tap / job->kernel_w - job->pad_h;
        int column = x * job->stride_w + step->tap % job->kernel_w - job->pad_w;
        bool inside = row >= 0 && row < job->h && column >= 0 && column < job->w;
        size_t at = ((size_t)n * (size_t)job->h + (size_t)row) * (size_t)job->w + (size_t)column;
        step->pixels[i] = inside ? in + at * (size_t)job->in_c : part->zeros;
        if (++x == job->out_w) {
            x = 0;
            if (++y == job->out_h) {
                y = 0;
                n++;
            }
        }
    }
}

static void begin_chunk(const struct part *part, struct step *step, int unit, int end)
{
    step->unit = unit;
    step->end = end - unit < part->job->chunk_units ? end : unit + part->job->chunk_units;
    step->tap = 0;
    step->tile = part->left_first;
}

static void set_tiles(const struct part *part, struct step *step)
{
    int left = part->left_end - step->tile;
    step->tiles = left < XT_PACKED_TILES ? left : XT_PACKED_TILES;
    find_pixels(part, step);
}

/* The step after `step`; its unit is `end` after the last one. */
static void find_next(const struct part *part, const struct step *step, int end, struct step *next)
{
    next->unit = step->unit;
    next->end = step->end;
    next->tap = step->tap;
    next->tile = step->tile + step->tiles;
    if (next->tile == part->left_end) {
        next->tile = part->left_first;
        next->tap++;
    }
    if (next->tap == part->job->taps)
        begin_chunk(part, next, step->end, end);
    if (next->unit < end)
        set_tiles(part, next);
}

/* The number of pixels after padding with zeros. */
static int padded(int count)
{
    return (count + UNROLLED - 1) / UNROLLED * UNROLLED;
}

static void pack_left(const struct part *part, const struct step *step, int count)
{
    int channels = part->job->in_c - step->tile * part->job->edge;
    int all = step->tiles * part->job->edge;
    for (int i = 0; i < padded(count); i++) {
        const float *from = i < count ? step->pixels[i] : part->zeros;
        float *to = part->left + i * ROWS;
        int at = 0;
        for (; at < all && at + ROWS <= channels; at += ROWS, to += ROWS * CHANNEL)
            memcpy(to, from + at, ROWS * sizeof *to);
        for (; at < all; at += ROWS, to += ROWS * CHANNEL)
            for (int r = 0; r < ROWS; r++)
                to[r] = at + r < channels ? from[at + r] : 0;
    }
}

static int right_vectors(const struct part *part)
{
    return (part->right_end - part->right_first) * (part->job->edge / LANES);
}

static float *right_panel(const struct part *part, int vector)
{
    return part->right + (size_t)vector * LANES * CHANNEL;
}

static void pack_right(const struct part *part, const struct step *step, int count)
{
    size_t c = (size_t)part->job->out_c;
    int first = part->right_first * part->job->edge;
    int vectors = right_vectors(part);
    const float *grads =
        (const float *)part->job->out_grad + xt_weight_grad_pixel(part->job, true, step->unit) * c;
    for (int i = 0; i < padded(count); i++) {
        const float *from = i < count ? grads + (size_t)i * c : part->zeros;
        for (int vector = 0, wide = 0; vector < vectors; vector += wide) {
            wide = xt_vectors_together(vectors - vector, WIDE);
            for (int v = 0; v < wide; v++) {
                int at = first + (vector + v) * LANES;
                xt_vector_store(right_panel(part, vector) + (i * wide + v) * LANES,
                                xt_vector_load_some(from + at, part->job->out_c - at));
            }
        }
    }
}

static void add_bias(const struct part *part, int count)
{
    int vectors = right_vectors(part);
    float *to = part->bias + part->right_first * part->job->edge;
    for (int vector = 0, wide = 0; vector < vectors; vector += wide) {
        wide = xt_vectors_together(vectors - vector, WIDE);
        for (int v = 0; v < wide; v++, to += LANES) {
            xt_vector sum = xt_vector_load(to);
            for (int i = 0; i < count; i++)
                sum += xt_vector_load(right_panel(part, vector) + (i * wide + v) * LANES);
            xt_vector_store(to, sum);
        }
    }
}

/* Adds the sums of ROWS input channels with `wide` vectors of output channels; overwrites if they
 * are the first. */
XT_INLINE void add_tile(struct part *part, const float *left, const float *right, int count,
                        float *const to[WIDE], bool first, int wide)
{
    int row = part->job->edge;
    struct ahead ahead = part->ahead;
    xt_vector sums[ROWS][WIDE];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < wide; v++) {
            sums[r][v] = xt_vector_of(0);
            __builtin_prefetch(to[v] + r * row, 1);
        }
    for (int i = 0; i < count; i += UNROLLED) {
        fetch(&ahead);
        for (int k = 0; k < UNROLLED; k++, left += ROWS, right += wide * LANES) {
            xt_vector grads[WIDE];
            for (int v = 0; v < wide; v++)
                grads[v] = xt_vector_load(right + v * LANES);
            for (int r = 0; r < ROWS; r++) {
                xt_vector one = xt_vector_of(left[r]);
                for (int v = 0; v < wide; v++)
                    sums[r][v] = xt_vector_add_product(one, grads[v], sums[r][v]);
            }
        }
    }
    part->ahead = ahead;
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < wide; v++) {
            float *at = to[v] + r * row;
            if (!first)
                sums[r][v] += xt_vector_load(at);
            xt_vector_store(at, sums[r][v]);
        }
}

/* One panel of the gradient with all of the input's. */
XT_INLINE void multiply_panel(struct part *part, const struct step *step, int count, bool first,
                              int vector, int wide)
{
    const struct xt_weight_grad *job = part->job;
    int o = part->right_first * job->edge + vector * LANES;
    int i = step->tile * job->edge;
    const float *left = part->left;
    const float *right = right_panel(part, vector);
    float *column[WIDE];
    for (int v = 0; v < wide; v++)
        column[v] = part->sums + xt_weight_grad_place(job, step->tap, 0, o + v * LANES);
    for (int end = i + step->tiles * job->edge; i < end; i += ROWS, left += ROWS * CHANNEL) {
        size_t row = xt_weight_grad_place(job, 0, i, 0);
        float *to[WIDE];
        for (int v = 0; v < wide; v++)
            to[v] = column[v] + row;
        add_tile(part, left, right, padded(count), to, first, wide);
    }
}

static void multiply(struct part *part, const struct step *step, int count, bool first)
{
    int vectors = right_vectors(part);
    for (int vector = 0, wide = 0; vector < vectors; vector += wide) {
        wide = xt_vectors_together(vectors - vector, WIDE);
        if (wide == WIDE)
            multiply_panel(part, step, count, first, vector, WIDE);
        else if (wide == 2)
            multiply_panel(part, step, count, first, vector, 2);
        else
            multiply_panel(part, step, count, first, vector, 1);
    }
}

static void look_ahead(struct part *part, const struct step *step, const struct step *next, int end)
{
    const struct xt_weight_grad *job = part->job;
    struct ahead *ahead = &part->ahead;
    size_t c = (size_t)job->out_c;
    int tiles = step->tiles * job->edge / ROWS * ((right_vectors(part) + WIDE - 1) / WIDE);
    size_t turns = (size_t)tiles * (size_t)(padded(count_of(job, step)) / UNROLLED);
    *ahead = (struct ahead){.step = next};
    if (next->unit == end)
        return;
    ahead->pixels = (size_t)count_of(job, next);
    ahead->floats = (size_t)(next->tiles * job->edge);
    if (next->unit != step->unit) {
        ahead->out_grad =
            (const float *)job->out_grad + xt_weight_grad_pixel(job, true, next->unit) * c;
        ahead->end = ahead->out_grad + ahead->pixels * c;
    }
    size_t lines = ((size_t)(ahead->end - ahead->out_grad) + ahead->pixels * ahead->floats) / LINE;
    ahead->rate = (lines * 256 + turns - 1) / turns;
}

void XT_LOOPS_NAME(weight_grad_packed)(const struct xt_weight_grad *job, int number)
{
    char *scratch = (char *)job->scratch + (size_t)number * job->part_bytes;
    int share = number % job->shares;
    struct part part = {.job = job,
                        .left = (float *)(void *)scratch,
                        .right = (float *)(void *)(scratch + job->right_at),
                        .zeros = (const float *)(const void *)(scratch + job->zeros_at),
                        .sums = xt_weight_grad_sums(job, number / job->shares),
                        .bias = xt_weight_grad_bias(job, number)};
    part.left_end = xt_weight_grad_share(job, share, true, &part.left_first) + part.left_first;
    part.right_end = xt_weight_grad_share(job, share, false, &part.right_first) + part.right_first;
    /* The zeros and the sums of the bias. */
    if (!job->adds)
        memset(scratch + job->zeros_at, 0, job->part_bytes - job->zeros_at);
    if (!job->bias_grad || (share > 0 && job->shares_left))
        part.bias = NULL;
    struct step steps[2];
    int unit = 0;
    int end = xt_weight_grad_units(job, number, &unit);
    begin_chunk(&part, &steps[0], unit, end);
    set_tiles(&part, &steps[0]);
    for (int i = 0; steps[i].unit < end; i = !i) {
        const struct step *step = &steps[i];
        int count = count_of(job, step);
        find_next(&part, step, end, &steps[!i]);
        if (step->tap == 0 && step->tile == part.left_first) {
            pack_right(&part, step, count);
            if (part.bias)
                add_bias(&part, count);
        }
        pack_left(&part, step, count);
        look_ahead(&part, step, &steps[!i], end);
        multiply(&part, step, count, step->unit == unit && !job->adds);
    }
}

#endif
