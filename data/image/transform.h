/* The request for an image and its result: the reader of a sample passes a request, decoding and
 * resizing fill the result.
 *
 * Thread-safe.
 */
#pragma once

#include "base/rng.h"
#include "data/image/image.h"

/* How an image of any size becomes width x height. */
enum xt_fit {
    XT_FIT_STRETCH,     /* resized, whatever its shape: plates, CIFAR */
    XT_FIT_CENTRE_CROP, /* resized so that it covers the size times 8/7, then the middle is cut out:
                           evaluation of photographs */
    XT_FIT_RANDOM_CROP, /* a random part (RandomResizedCrop), resized: training on photographs */
};

/* A part of an image, which will be resized to width x height. If only that part is decoded, it is
 * still at least as large. */
struct xt_want {
    int width;
    int height;
    enum xt_fit fit;
    float crop_least;         /* random crops: the minimum share of the area; 0 means 0.08 */
    float crop_aspect;        /* random crops: the factor of their aspect ratio; 0 means 1 */
    struct xt_rng crop;       /* random crops: the generator's state */
    const struct xt_box *box; /* this part, whatever `fit` says; NULL: as `fit` says */
    uint8_t *into; /* [height][width][3], or NULL: an image that has this size already may be
                      written here instead of into a picture */
};

/* The part of an image of this size. For random crops: an area of `crop_least` to all of the
 * image's, an aspect ratio of 3/4 to 4/3 relative to the image's own pixels (torchvision's
 * RandomResizedCrop). NULL: all of it. */
struct xt_box xt_want_part(const struct xt_want *want, int width, int height);

/* Zeroed is empty; the image's memory is reused. */
struct xt_picture {
    struct xt_image image; /* the decoded part, perhaps reduced */
    struct xt_box part;    /* the requested part within it */
    bool turned;           /* `image` was rotated upright by its Exif orientation */
    bool in_place;         /* the result is at `into`, and `image` is unchanged */
    int width;             /* the whole picture, upright */
    int height;
};

/* Fills the result for a reader that put the whole image into the picture. */
void xt_picture_whole(struct xt_picture *picture, const struct xt_want *want);
