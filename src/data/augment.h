/* Small, label-keeping changes to a real plate: shift, rotation, scale, brightness, contrast, blur.
 * A function of the generator alone, in fixed point, so that a sample's augmentation depends on
 * seed, epoch and position and on nothing else.
 */
#ifndef XT_DATA_AUGMENT_H
#define XT_DATA_AUGMENT_H

#include "base/rng.h"
#include "data/image.h"

/* Changes width x height pixels ([height][width][3]) in place; `scratch` is a buffer that is kept
 * from call to call. */
enum xt_status xt_augment_plate(uint8_t *pixels, int width, int height, struct xt_rng *rng,
                                struct xt_image *scratch, struct xt_err *err);

#endif
