/* Any bytes as an image: an error or a whole picture. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A part that depends on the size, so that the fuzzer comes to all of them. */
static struct xt_box some_part(void *context, int width, int height)
{
    (void)context;
    int left = width / 3;
    int top = height / 5;
    return (struct xt_box){left, top, (width - left + 1) / 2, (height - top + 2) / 3};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct xt_want want = {.width = 5, .height = 3, .part = some_part};
    struct xt_box part;
    struct xt_decoder *decoder = NULL;
    struct xt_image image = {0};
    struct xt_err err;
    if (xt_decoder_create(&decoder, &err))
        return 0;
    if (!xt_image_decode(decoder, data, size, XT_PIXEL_BGR, "fuzz", &image, &err) &&
        (image.width < 1 || image.height < 1))
        abort();
    xt_decoder_want(decoder, &want);
    if (!xt_image_decode(decoder, data, size, XT_PIXEL_RGB, "fuzz", &image, &err) &&
        (!xt_decoder_part(decoder, &part) || part.left + part.width > image.width + 1e-6 ||
         part.top + part.height > image.height + 1e-6))
        abort();
    xt_image_clear(&image);
    xt_decoder_destroy(decoder);
    return 0;
}
