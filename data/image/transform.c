#include "data/image/transform.h"

#include <math.h>

/* The largest centred part of the shape width x height, scaled by `share`. */
static struct xt_box middle(int in_width, int in_height, int width, int height, double share)
{
    double across = (double)in_width / width;
    double down = (double)in_height / height;
    double scale = (across < down ? across : down) * share;
    struct xt_box box = {.width = width * scale, .height = height * scale};
    box.left = (in_width - box.width) / 2;
    box.top = (in_height - box.height) / 2;
    return box;
}

static struct xt_box random_part(int in_width, int in_height, double least, double aspect,
                                 struct xt_rng *rng)
{
    enum { TRIES = 10 };
    const double log_ratio = 0.28768207245178092; /* of 4/3 */
    double area = (double)in_width * in_height;
    for (int i = 0; i < TRIES; i++) {
        double part = area * (least + (1 - least) * xt_rng_uniform(rng));
        double ratio = aspect * exp(log_ratio * (2 * (double)xt_rng_uniform(rng) - 1));
        int width = (int)(sqrt(part * ratio) + 0.5);
        int height = (int)(sqrt(part / ratio) + 0.5);
        if (width < 1 || height < 1 || width > in_width || height > in_height)
            continue;
        return (struct xt_box){
            .left = (double)xt_rng_below(rng, (uint64_t)(in_width - width) + 1),
            .top = (double)xt_rng_below(rng, (uint64_t)(in_height - height) + 1),
            .width = width,
            .height = height,
        };
    }
    /* A very long image: its middle, of the shape nearest to its own. */
    if (in_width > in_height)
        return middle(in_width, in_height, 4, 3, 1);
    return middle(in_width, in_height, 3, 4, 1);
}

struct xt_box xt_want_part(const struct xt_want *want, int width, int height)
{
    if (want && want->box)
        return *want->box;
    if (want && want->fit == XT_FIT_CENTRE_CROP)
        return middle(width, height, want->width, want->height, 7.0 / 8);
    struct xt_rng rng = want ? want->crop : (struct xt_rng){0};
    if (want && want->fit == XT_FIT_RANDOM_CROP)
        return random_part(width, height, want->crop_least > 0 ? (double)want->crop_least : 0.08,
                           want->crop_aspect > 0 ? (double)want->crop_aspect : 1, &rng);
    return (struct xt_box){.width = width, .height = height};
}

void xt_picture_whole(struct xt_picture *picture, const struct xt_want *want)
{
    picture->width = picture->image.width;
    picture->height = picture->image.height;
    picture->part = xt_want_part(want, picture->width, picture->height);
    picture->in_place = false;
    picture->turned = false;
}
