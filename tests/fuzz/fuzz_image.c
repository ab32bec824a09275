/* Any bytes as an image: an error or a whole picture. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_decoder *decoder = NULL;
    struct xt_image image = {0};
    struct xt_err err;
    if (xt_decoder_create(&decoder, &err))
        return 0;
    if (!xt_image_decode(decoder, data, size, XT_PIXEL_BGR, "fuzz", &image, &err) &&
        (image.width < 1 || image.height < 1))
        abort();
    xt_image_clear(&image);
    xt_decoder_destroy(decoder);
    return 0;
}
