/* A question and its answer: what is wanted of an image, and what came of it. Whoever reads a
 * sample gets the one and fills the other; decoding and resizing do the work.
 *
 * Thread-safe.
 */
#ifndef XT_DATA_IMAGE_TRANSFORM_H
#define XT_DATA_IMAGE_TRANSFORM_H

#include "base/rng.h"
#include "data/image/image.h"

/* How an image of any size becomes width x height. */
enum xt_fit {
    XT_FIT_STRETCH,     /* resized, whatever its shape: plates, CIFAR */
    XT_FIT_CENTRE_CROP, /* resized so that it covers the size times 8/7, then the middle is cut out:
                           evaluation of photographs */
    XT_FIT_RANDOM_CROP, /* a random part (RandomResizedCrop), resized: training on photographs */
};

/* A part of an image, which will be resized to width x height. Where only that is decoded, it is
 * still at least as large. */
struct xt_want {
    int width;
    int height;
    enum xt_fit fit;
    float crop_least;         /* of random crops: the least part of the area; 0 means 0.08 */
    struct xt_rng crop;       /* of random crops: the part is drawn from here on */
    const struct xt_box *box; /* this part, whatever `fit` says; NULL: as `fit` says */
    uint8_t *into; /* [height][width][3], or NULL: where an image that has this size already
                      may be put, instead of into a picture */
};

/* The part of an image of this size. For random crops: an area of `crop_least` to all of the
 * image's, a shape of 3/4 to 4/3 of the image's own pixels (torchvision's RandomResizedCrop).
 * NULL: all of it. */
struct xt_box xt_want_part(const struct xt_want *want, int width, int height);

/* Zeroed is empty; the image's memory is used again. */
struct xt_picture {
    struct xt_image image; /* as much of what is stored as was needed, perhaps made smaller */
    struct xt_box part;    /* where what was wanted lies in it */
    bool turned;           /* by its Exif orientation; `image` is as it is seen */
    bool in_place;         /* what was wanted is at `into`, and `image` is as it was */
    int width;             /* of all of it, as it is seen */
    int height;
};

/* The answer of one who has put the whole image into the picture. */
void xt_picture_whole(struct xt_picture *picture, const struct xt_want *want);

#endif
