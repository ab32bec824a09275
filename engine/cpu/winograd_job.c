/* How Winograd convolutions are divided into tiles and among threads, and their scratch. */
#include <stdint.h>

#include "engine/loops/winograd_job.h"

int xt_winograd_tiles(enum xt_winograd_form form, int n, int h, int w)
{
    int tile_h = xt_winograd_forms[form].tile_h;
    int tile_w = xt_winograd_forms[form].tile_w;
    return n * ((h + tile_h - 1) / tile_h) * ((w + tile_w - 1) / tile_w);
}

int xt_winograd_blocks(int in_c, int out_c)
{
    enum { SIDE = 16 };
    return in_c / SIDE * (out_c / SIDE);
}

/* Of `blocks` of tiles whose inputs are transformed to words of `channels`, and `weights` floats.
 */
static size_t scratch_of(int in_c, int channels, int blocks, int places, size_t weights)
{
    int place = (channels + XT_WINOGRAD_PANELS) * XT_WINOGRAD_TILES + 2 * XT_WINOGRAD_SPARE;
    size_t zeros = in_c > XT_WINOGRAD_PANELS ? (size_t)in_c : XT_WINOGRAD_PANELS;
    return zeros + (size_t)(blocks * places) * (size_t)place + weights;
}

/* Of the form's largest chunk, with weights of so many panels' columns. */
static size_t scratch_of_form(enum xt_winograd_form form, int in_c, size_t columns)
{
    return scratch_of(in_c, in_c, xt_winograd_chunk(form, in_c) / XT_WINOGRAD_TILES,
                      xt_winograd_places(form), columns * XT_WINOGRAD_PANELS);
}

size_t xt_winograd_scratch(enum xt_winograd_form form, int in_c)
{
    int weights = xt_winograd_wide(form) + xt_winograd_taps(form);
    return scratch_of_form(form, in_c,
                           form == XT_WINOGRAD_LARGE ? (size_t)weights * (size_t)in_c : 0);
}

size_t xt_winograd_grad_scratch(enum xt_winograd_form form, int in_c)
{
    return scratch_of_form(form, in_c, (size_t)xt_winograd_places(form) * XT_WINOGRAD_WIDE);
}

size_t xt_winograd_int8_scratch(int in_c)
{
    int pairs = in_c / 2;
    int rows = 2 * xt_winograd_wide(XT_WINOGRAD_LARGE);
    return scratch_of(in_c, pairs, XT_WINOGRAD_FEW / XT_WINOGRAD_TILES,
                      xt_winograd_places(XT_WINOGRAD_LARGE),
                      (size_t)rows * XT_WINOGRAD_INT8_OUT * (size_t)(pairs + 1));
}

bool xt_winograd_int8_is_exact(const float *weights, size_t count)
{
    enum { TIMES = 64 };
    int64_t above = 0;
    int64_t below = 0;
    for (size_t i = 0; i < count; i++) {
        above += weights[i] > 0 ? (int64_t)weights[i] : 0;
        below -= weights[i] < 0 ? (int64_t)weights[i] : 0;
    }
    return (above > below ? above : below) * UINT8_MAX <= INT32_MAX / TIMES;
}

/* Whether twice as many shares of `panels` leave at most an eighth of the threads idle. */
static bool can_share(int threads, int shares, int panels)
{
    return panels % (2 * shares) == 0 && 8 * (threads % (2 * shares)) <= threads &&
           2 * shares <= threads;
}

static int tiles_of(const struct xt_winograd *job)
{
    return xt_winograd_tiles(job->form, job->n, xt_winograd_out_h(job->form, job->h, job->pads),
                             xt_winograd_out_w(job->form, job->w, job->pads));
}

void xt_winograd_plan(struct xt_winograd *job, int threads)
{
    /* Fewer of them share the transform of their weights. */
    enum { FEW = 5 * XT_WINOGRAD_TILES };
    int tiles = tiles_of(job);
    int panels = job->out_c / XT_WINOGRAD_WIDE;
    job->shares = 1;
    while (can_share(threads, job->shares, panels) && tiles < threads / job->shares * FEW)
        job->shares *= 2;
    job->groups = threads / job->shares;
    if (job->groups > tiles)
        job->groups = tiles;
}

void xt_winograd_halve_groups(struct xt_winograd *job)
{
    enum { FEW = 2 * XT_WINOGRAD_TILES };
    if (tiles_of(job) >= 2 * job->groups * FEW)
        job->groups *= 2;
}

void xt_winograd_grad_plan(struct xt_winograd_grad *job, int threads)
{
    /* Gradients that one core's L2 holds beside the tiles. */
    const size_t most = (size_t)1 << 20;
    size_t bytes = (size_t)xt_winograd_taps(job->form) * (size_t)job->in_c * (size_t)job->out_c *
                   sizeof(float);
    int panels = job->out_c / XT_WINOGRAD_WIDE;
    int tiles =
        xt_winograd_tiles(job->form, job->n, xt_winograd_out_h(job->form, job->h, job->pads),
                          xt_winograd_out_w(job->form, job->w, job->pads));
    job->shares = 1;
    while (can_share(threads, job->shares, panels) && bytes / (size_t)job->shares > most)
        job->shares *= 2;
    job->groups = threads / job->shares;
    if (job->groups > tiles)
        job->groups = tiles;
}

int xt_winograd_part(int count, int part, int parts, int *first)
{
    *first = (int)((int64_t)count * part / parts);
    return (int)((int64_t)count * (part + 1) / parts);
}
