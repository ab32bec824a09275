/* Which part of an image becomes the network's input: the choice alone; decoding and resizing do
 * the work. Thread-safe.
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

/* The part of an image of in_width x in_height that is resized to width x height. For random crops:
 * an area of `least` (0: 0.08) to all of the image's, a shape of 3/4 to 4/3 of the image's own
 * pixels, drawn from `rng` (torchvision's RandomResizedCrop). */
struct xt_box xt_transform_part(enum xt_fit fit, int in_width, int in_height, int width, int height,
                                float least, struct xt_rng *rng);

#endif
