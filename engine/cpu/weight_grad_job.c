/* How a weight gradient is divided among threads, its scratch, and the sum of the parts. */
#include "engine/loops/weight_grad_job.h"

/* Sums that one core's L2 holds beside the matrices; with more of them the channels are divided. */
static const size_t share_bytes = (size_t)768 << 10;
static const size_t packed_share_bytes = (size_t)256 << 10;
/* With sums larger than any cache the matrices must be longer to limit traffic. */
static const size_t large_bytes = (size_t)1536 << 10;
/* Blocks multiplied at a time, so that two tiles' worth of both matrices is about the size of L1.
 */
enum { BLOCKS = 8, FLAT_BLOCKS = 6 };
/* Of few channels as many as L1 holds, with the pixels that they are made of. */
static const size_t flat_bytes = (size_t)40 << 10;
/* A unit has more of them, while its matrices are in L2. */
enum { UNIT_BLOCKS = 24 };
static const size_t unit_bytes = (size_t)384 << 10;

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int tiles_of(const struct xt_weight_grad *job, int channels)
{
    return divide_up(channels, job->edge);
}

static void plan_parts(struct xt_weight_grad *job, int threads)
{
    size_t bytes = job->weights * sizeof(float);
    size_t most = job->packed ? packed_share_bytes : share_bytes;
    job->shares_left = job->left_tiles > job->right_tiles;
    int tiles = job->shares_left ? job->left_tiles : job->right_tiles;
    job->shares = 1;
    while (threads % (2 * job->shares) == 0 && bytes / (size_t)job->shares > most &&
           divide_up(tiles, 2) >= 2 * job->shares)
        job->shares *= 2;
    job->groups = threads / job->shares;
    if (job->groups > job->units)
        job->groups = job->units;
}

/* The higher a unit, the less of the input is paired for two of them. */
static int unit_blocks_most(const struct xt_weight_grad *job)
{
    const size_t tile = (size_t)XT_TILE_CHANNELS * XT_TILE_PIXELS * sizeof(uint16_t);
    size_t block = (size_t)(job->left_tiles + 2 * job->planes * job->right_tiles) * tile *
                   (size_t)xt_summands_of(job->f32);
    size_t most = unit_bytes / block;
    size_t least = job->f32 ? XT_F32_BLOCKS : BLOCKS;
    return most < least ? (int)least : most > UNIT_BLOCKS ? UNIT_BLOCKS : (int)most;
}

static int flat_blocks(const struct xt_weight_grad *job)
{
    enum { FIT_LEAST = 2 };
    const size_t tile = (size_t)XT_TILE_CHANNELS * XT_TILE_PIXELS * sizeof(uint16_t);
    size_t fit = flat_bytes / (2 * (size_t)(job->left_tiles + job->right_tiles) * tile);
    return fit < FIT_LEAST || fit > FLAT_BLOCKS ? FLAT_BLOCKS : (int)fit;
}

static void plan_units(struct xt_weight_grad *job)
{
    bool large = job->weights * sizeof(float) > large_bytes;
    if (job->packed) {
        job->units = divide_up(job->n * job->out_h * job->out_w, XT_TILE_PIXELS);
        job->chunk_units = XT_PACKED_PIXELS / XT_TILE_PIXELS;
        return;
    }
    if (job->flat) {
        job->unit_blocks = job->pass_blocks = 1;
        job->unit_pixels = XT_TILE_PIXELS;
        job->units = divide_up(job->n * job->h * job->w, XT_TILE_PIXELS);
        job->chunk_units = job->f32 ? XT_F32_BLOCKS : large ? BLOCKS : flat_blocks(job);
        return;
    }
    int blocks = job->f32 ? XT_F32_BLOCKS : BLOCKS;
    bool by_tiles = !job->f32 || job->tiles;
    int most = (by_tiles ? unit_blocks_most(job) : blocks) * XT_TILE_PIXELS / job->pitch;
    job->image_units = divide_up(job->out_h, most > 1 ? most : 1);
    job->unit_rows = divide_up(job->out_h, job->image_units);
    job->image_units = divide_up(job->out_h, job->unit_rows);
    job->units = job->n * job->image_units;
    job->unit_blocks = divide_up(job->unit_rows * job->pitch, XT_TILE_PIXELS);
    int reach = (job->kernel_h - 1) / job->stride_h * job->pitch +
                (xt_weight_grad_taps_w(job) - 1) / job->stride_w;
    job->unit_pixels =
        divide_up(job->unit_blocks * XT_TILE_PIXELS + reach, XT_TILE_PIXELS) * XT_TILE_PIXELS;
    job->pairings = reach ? 2 : 1;
    job->chunk_units = blocks / job->unit_blocks > 1 ? blocks / job->unit_blocks : 1;
    int passes = divide_up(job->unit_blocks, blocks);
    job->pass_blocks = divide_up(job->unit_blocks, passes);
}

/* The most tiles of a share. */
static int share_most(const struct xt_weight_grad *job, bool left)
{
    int most = 0;
    for (int share = 0; share < job->shares; share++) {
        int first = 0;
        int tiles = xt_weight_grad_share(job, share, left, &first);
        most = tiles > most ? tiles : most;
    }
    return most;
}

static size_t panels(const struct xt_weight_grad *job, int tiles)
{
    return (size_t)(tiles * job->edge) * XT_PACKED_CHANNEL * sizeof(float);
}

static void plan_packed(struct xt_weight_grad *job, size_t bias)
{
    int left = share_most(job, true);
    int channels = job->in_c > job->out_c ? job->in_c : job->out_c;
    left = left < XT_PACKED_TILES ? left : XT_PACKED_TILES;
    job->right_at = panels(job, left);
    job->zeros_at = job->right_at + panels(job, share_most(job, false));
    job->bias_at = job->zeros_at + aligned((size_t)channels * sizeof(float));
    job->part_bytes = job->bias_at + bias;
}

static void plan_scratch(struct xt_weight_grad *job)
{
    /* Four sums per channel, when summed along the rows of the left matrix. */
    size_t bias = (size_t)(tiles_of(job, job->out_c) * job->edge) * 4 * sizeof(float);
    job->part_bytes = aligned(bias);
    if (job->packed)
        plan_packed(job, bias);
    if (job->f32 && !job->tiles)
        return;
    int blocks = job->chunk_units * job->unit_blocks;
    /* An odd number of cache lines, so that a tile's rows do not map to the same cache set. */
    job->left_stride = (blocks | 1) * XT_TILE_PIXELS;
    int left = share_most(job, true);
    int right = job->planes * job->pairings * share_most(job, false);
    int channels = job->in_c * job->fold > job->out_c ? job->in_c * job->fold : job->out_c;
    int rows = job->fold > 1 ? divide_up(job->unit_pixels + 1, job->pitch) : 0;
    size_t chunk = (size_t)job->chunk_units * (size_t)job->unit_pixels;
    size_t summands = (size_t)xt_summands_of(job->f32);
    job->left_size = aligned((size_t)(left * XT_TILE_CHANNELS) * (size_t)job->left_stride);
    job->right_size = (size_t)(right * XT_TILE_CHANNELS) * chunk;
    job->right_at = summands * job->left_size * sizeof(uint16_t);
    job->pointers_at = job->right_at + summands * job->right_size * sizeof(uint16_t);
    /* Pairs from odd pixels on end one pixel later. */
    job->columns_at = job->pointers_at + aligned((size_t)(job->unit_pixels + 1) * sizeof(void *));
    job->rows_at =
        job->columns_at +
        aligned((size_t)(share_most(job, false) * job->taps / job->fold) * sizeof(void *));
    job->zeros_at = job->rows_at + aligned((size_t)rows * job->row * sizeof(uint16_t));
    job->bias_at = job->zeros_at + aligned((size_t)channels * sizeof(float));
    job->square_at = aligned(job->bias_at + bias);
    job->part_bytes = job->square_at + aligned(sizeof(double));
}

bool xt_weight_grad_is_flat(const struct xt_weight_grad *job)
{
    return job->kernel_h * job->kernel_w == 1 && job->stride_h == 1 && job->stride_w == 1 &&
           !job->pad_h && !job->pad_w;
}

/* Transposing is slower than pairing, so the matrix with fewer channels is transposed; with several
 * taps, the one that they do not move. */
bool xt_weight_grad_is_turned(const struct xt_weight_grad *job)
{
    return !job->f32 && (job->kernel_h * job->kernel_w > 1 ||
                         tiles_of(job, job->out_c) < tiles_of(job, job->in_c));
}

void xt_weight_grad_plan(struct xt_weight_grad *job, int threads)
{
    int in_tiles = tiles_of(job, job->in_c);
    int out_tiles = tiles_of(job, job->out_c);
    int folded = tiles_of(job, job->in_c * job->kernel_w);
    job->taps = job->kernel_h * job->kernel_w;
    job->flat = xt_weight_grad_is_flat(job);
    job->fold = !job->f32 && folded < in_tiles * job->kernel_w && in_tiles == 1 ? job->kernel_w : 1;
    job->turned = xt_weight_grad_is_turned(job) || (job->tiles && job->taps > 1);
    int moved = job->fold > 1 ? folded : in_tiles;
    job->left_tiles = job->turned ? out_tiles : in_tiles;
    job->right_tiles = job->turned ? moved : out_tiles;
    int planes_h = job->kernel_h < job->stride_h ? job->kernel_h : job->stride_h;
    job->planes = planes_h * xt_weight_grad_planes_w(job);
    job->pitch = job->out_w + (xt_weight_grad_taps_w(job) - 1) / job->stride_w;
    job->pairings = 1;
    job->row = (size_t)((job->out_w - 1) * job->stride_w + job->kernel_w) * (size_t)job->in_c;
    size_t tile = xt_weight_grad_tile(job);
    job->weights = (size_t)(in_tiles * out_tiles) * (size_t)job->taps * tile;
    job->sums = (size_t)(moved * out_tiles) * (size_t)(job->taps / job->fold) * tile;
    plan_units(job);
    plan_parts(job, threads);
    plan_scratch(job);
}

void xt_weight_grad_plan_workers(struct xt_weight_grad *job, int workers)
{
    xt_weight_grad_plan(job, 1);
    job->sliced = true;
    job->groups = workers;
}

int xt_weight_grad_units(const struct xt_weight_grad *job, int part, int *first)
{
    int64_t group = part / job->shares;
    *first = job->sliced ? 0 : (int)(job->units * group / job->groups);
    return job->sliced ? job->units : (int)(job->units * (group + 1) / job->groups);
}

int xt_weight_grad_parts(const struct xt_weight_grad *job)
{
    return job->groups * job->shares;
}

/* Tiles of fewer rows, folded ones and float32's turned ones are not as the gradient has them. */
bool xt_weight_grad_writes(const struct xt_weight_grad *job)
{
    int rows = job->turned ? job->out_c : job->in_c;
    return job->tiles && !job->sliced && job->groups == 1 && job->fold == 1 &&
           rows >= XT_TILE_CHANNELS && !(job->f32 && job->turned);
}

double *xt_weight_grad_square(const struct xt_weight_grad *job, int part)
{
    char *scratch = (char *)job->scratch + (size_t)part * job->part_bytes;
    return (double *)(void *)(scratch + job->square_at);
}

bool xt_weight_grad_is_in_place(const struct xt_weight_grad *job)
{
    bool at_once = job->units <= job->chunk_units && job->unit_blocks <= job->pass_blocks;
    return job->fold == 1 && job->groups == 1 && (at_once || !xt_weight_grad_writes(job));
}

size_t xt_weight_grad_scratch(const struct xt_weight_grad *job)
{
    size_t groups = xt_weight_grad_is_in_place(job) ? 0 : (size_t)job->groups;
    return (size_t)xt_weight_grad_parts(job) * job->part_bytes + groups * job->sums * sizeof(float);
}

size_t xt_weight_grad_pixel(const struct xt_weight_grad *job, bool out, int unit)
{
    size_t h = (size_t)(out ? job->out_h : job->h);
    size_t w = (size_t)(out ? job->out_w : job->w);
    size_t all = (size_t)job->n * h * w;
    if (job->flat || job->packed)
        return (size_t)unit * XT_TILE_PIXELS < all ? (size_t)unit * XT_TILE_PIXELS : all;
    size_t row = (size_t)(unit % job->image_units) * (size_t)job->unit_rows;
    row *= (size_t)(out ? 1 : job->stride_h);
    return ((size_t)(unit / job->image_units) * h + (row < h ? row : h)) * w;
}

float *xt_weight_grad_sums(const struct xt_weight_grad *job, int group)
{
    char *sums = (char *)job->scratch + (size_t)xt_weight_grad_parts(job) * job->part_bytes;
    if (xt_weight_grad_is_in_place(job))
        return job->grad;
    return (float *)(void *)sums + (size_t)group * job->sums;
}

float *xt_weight_grad_bias(const struct xt_weight_grad *job, int part)
{
    char *scratch = (char *)job->scratch + (size_t)part * job->part_bytes;
    return (float *)(void *)(scratch + job->bias_at);
}

int xt_weight_grad_share(const struct xt_weight_grad *job, int share, bool left, int *first)
{
    int tiles = left ? job->left_tiles : job->right_tiles;
    *first = 0;
    if (left != job->shares_left)
        return tiles;
    int pairs = divide_up(tiles, 2);
    int end = 2 * (pairs * (share + 1) / job->shares);
    *first = 2 * (pairs * share / job->shares);
    return (end < tiles ? end : tiles) - *first;
}
