/* Small, label-keeping changes: of a plate, shift, rotation, scale, brightness, contrast, blur; of
 * any picture, its colours. A function of the generator alone, in fixed point, so that a sample's
 * augmentation depends on seed, epoch and position and on nothing else.
 */
#ifndef XT_DATA_IMAGE_AUGMENT_H
#define XT_DATA_IMAGE_AUGMENT_H

#include "base/rng.h"
#include "data/image/image.h"

/* Makes `out` of `in`, both width x height pixels ([height][width][3]). They may be the same; else
 * XT_IMAGE_SLACK bytes behind `in` are read too, whatever they are. `scratch` is a buffer that is
 * kept from call to call. */
enum xt_status xt_augment_plate(const uint8_t *in, int width, int height, struct xt_rng *rng,
                                struct xt_image *scratch, uint8_t *out, struct xt_err *err);

/* Changes brightness, contrast and saturation of `count` pixels, each by up to the part `most`
 * (below 1), as ColorJitter of torchvision does. */
void xt_augment_colours(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                        struct xt_rng *rng);

/* Turns the hue of `count` pixels by up to the part `most` (0.5: half) of the circle, saturation
 * and value of HSV left as they are, as ColorJitter does. */
void xt_augment_hue(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                    struct xt_rng *rng);

#endif
