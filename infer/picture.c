#include "infer/picture.h"

#include "data/image/png.h"
#include "data/image/resize.h"

static enum xt_status encode(struct xt_small_picture *picture, const struct xt_picture *read,
                             enum xt_pixel_order order, struct xt_err *err)
{
    struct xt_image small = {0};
    struct xt_resizer resizer = {0};
    enum xt_status status = xt_image_reserve(&small, picture->width, picture->height, err);
    if (!status)
        status = xt_resize_part(&resizer, &read->image, &read->part, false, picture->width,
                                picture->height, small.pixels, err);
    if (!status)
        status = xt_png_encode(&small, order, &picture->png, err);
    xt_resizer_clear(&resizer);
    xt_image_clear(&small);
    return status;
}

enum xt_status xt_small_picture_make(struct xt_small_picture *picture,
                                     const struct xt_network *network,
                                     const struct xt_data_settings *data,
                                     const struct xt_source *source, size_t index,
                                     struct xt_err *err)
{
    int largest = network->width > network->height ? network->width : network->height;
    int most = largest < XT_PICTURE_MOST ? largest : XT_PICTURE_MOST;
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct xt_want want = {
        .width = network->width,
        .height = network->height,
        .fit = data->fit == XT_IMAGES_CROP ? XT_FIT_CENTRE_CROP : XT_FIT_STRETCH,
    };
    picture->width = (network->width * most + largest / 2) / largest;
    picture->height = (network->height * most + largest / 2) / largest;
    enum xt_status status = source->class->read(source, index, &want, &decoder, &sample, err);
    if (!status)
        status = encode(picture, &sample.picture, network->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
                        err);
    xt_decoder_clear(&decoder);
    xt_image_clear(&sample.picture.image);
    return status;
}

void xt_small_picture_clear(struct xt_small_picture *picture)
{
    xt_str_clear(&picture->png);
    *picture = (struct xt_small_picture){0};
}

enum xt_status xt_small_picture_url(const struct xt_small_picture *picture, struct xt_str *out,
                                    struct xt_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)xt_str_get(&picture->png);
    size_t left = picture->png.length;
    xt_str_printf(out, NULL, "data:image/png;base64,");
    for (; left; bytes += left < 3 ? left : 3, left -= left < 3 ? left : 3) {
        unsigned group = (unsigned)bytes[0] << 16 | (left > 1 ? (unsigned)bytes[1] << 8 : 0) |
                         (left > 2 ? bytes[2] : 0);
        const char text[4] = {digits[group >> 18], digits[group >> 12 & 63],
                              left > 1 ? digits[group >> 6 & 63] : '=',
                              left > 2 ? digits[group & 63] : '='};
        xt_str_append(out, text, sizeof text, NULL);
    }
    return xt_str_check(out, err);
}
