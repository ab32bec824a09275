/* Resizing with an antialiased triangle filter (bilinear whose support grows with the reduction:
 * what Pillow's BILINEAR and torchvision's antialias=True do), in fixed point, so that it gives the
 * same bytes everywhere.
 */
#pragma once

#include "data/image/image.h"

/* A thread's filter tables and the rows between the two passes, reused from image to image. Zeroed
 * is empty. */
struct xt_resizer {
    void *state;
};
void xt_resizer_clear(struct xt_resizer *resizer);

/* `in` to width x height into `pixels` ([height][width][3], the caller's). The same size is a copy.
 */
enum xt_status xt_resize(struct xt_resizer *resizer, const struct xt_image *in, int width,
                         int height, uint8_t *pixels, struct xt_err *err);

/* The same for a part of the image, as if cropped first; `mirrored` left to right. The part must
 * lie within the image and not be empty. */
enum xt_status xt_resize_part(struct xt_resizer *resizer, const struct xt_image *in,
                              const struct xt_box *part, bool mirrored, int width, int height,
                              uint8_t *pixels, struct xt_err *err);

/* Whether xt_resize_part would copy the pixels as they are. */
bool xt_resize_is_copy(const struct xt_image *in, const struct xt_box *part, bool mirrored,
                       int width, int height);
