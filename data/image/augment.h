/* Label-preserving augmentation: for plates shift, rotation, scale, brightness, contrast, blur; for
 * any picture colour jitter. A function of the generator alone, in fixed point, so that a sample's
 * augmentation depends only on seed, epoch and position.
 */
#pragma once

#include "base/rng.h"
#include "data/image/image.h"

/* Augments `in` into `out`, both width x height pixels ([height][width][3]). They may be the same;
 * else XT_IMAGE_SLACK bytes behind `in` are read too, and ignored. `scratch` is a buffer that is
 * reused across calls. */
enum xt_status xt_augment_plate(const uint8_t *in, int width, int height, struct xt_rng *rng,
                                struct xt_image *scratch, uint8_t *out, struct xt_err *err);

/* Changes brightness, contrast and saturation of `count` pixels, each by a factor of up to 1 ±
 * `most` (below 1), as ColorJitter of torchvision does. */
void xt_augment_colours(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                        struct xt_rng *rng);

/* Rotates the hue of `count` pixels by up to the part `most` (0.5: half) of the circle; saturation
 * and value of HSV stay, as in ColorJitter. */
void xt_augment_hue(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                    struct xt_rng *rng);
