/* JPEG through libjpeg-turbo, for decoder.c. One per thread; zeroed is empty.
 *
 * Of an image of which only a part is wanted, or which will be made much smaller, only that is
 * decoded: at a half, a quarter or an eighth of its size (the cosine transform's own scaling), and
 * only the rows and blocks of the part.
 */
#ifndef XT_DATA_IMAGE_JPEG_H
#define XT_DATA_IMAGE_JPEG_H

#include "data/image/orientation.h"
#include "data/image/transform.h"

struct xt_jpeg_state;

struct xt_jpeg {
    struct xt_jpeg_state *state;
    double until;  /* of the thread's CPU time: then decoding fails; 0: no limit */
    bool is_late;  /* it did */
    uint8_t *inks; /* [height][width][4] of a CMYK image */
    size_t inks_capacity;
};

void xt_jpeg_clear(struct xt_jpeg *jpeg);

bool xt_jpeg_is(const uint8_t *bytes, size_t size);
/* What its header says; 0: nothing. */
uint64_t xt_jpeg_pixels(const uint8_t *bytes, size_t size);
/* The pixels come as they are stored, and so does out->part; what is wanted is said of the picture
 * as it is seen, by `orientation`. */
enum xt_status xt_jpeg_decode(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                              const struct xt_orientation *orientation, enum xt_pixel_order order,
                              const struct xt_want *want, const char *name, struct xt_picture *out,
                              struct xt_err *err);

#endif
