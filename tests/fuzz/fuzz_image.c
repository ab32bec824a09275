/* Any bytes as an image: an error or a whole picture. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/image/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_decoder decoder = {0};
    struct xt_picture picture = {0};
    struct xt_err err;
    if (!xt_decoder_decode(&decoder, data, size, XT_PIXEL_BGR, NULL, "fuzz", &picture, &err) &&
        (picture.image.width < 1 || picture.image.height < 1))
        abort();
    /* A part that depends on the size, so that the fuzzer comes to all of them. */
    int left = picture.width / 3;
    int top = picture.height / 5;
    const struct xt_box box = {left, top, (picture.width - left + 1) / 2,
                               (picture.height - top + 2) / 3};
    const struct xt_want want = {.width = 5, .height = 3, .box = &box};
    const struct xt_box *part = &picture.part;
    if (!xt_decoder_decode(&decoder, data, size, XT_PIXEL_RGB, &want, "fuzz", &picture, &err) &&
        (part->left + part->width > picture.image.width + 1e-6 ||
         part->top + part->height > picture.image.height + 1e-6))
        abort();
    xt_image_clear(&picture.image);
    xt_decoder_clear(&decoder);
    return 0;
}
