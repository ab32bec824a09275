#include "data/image/webp.h"

#include <string.h>

#include <webp/decode.h>

bool xt_webp_is(const uint8_t *bytes, size_t size)
{
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

uint64_t xt_webp_pixels(const uint8_t *bytes, size_t size)
{
    int width = 0;
    int height = 0;
    return WebPGetInfo(bytes, size, &width, &height) ? (uint64_t)width * (uint64_t)height : 0;
}

static enum xt_status bad_webp(VP8StatusCode code, const char *name, struct xt_err *err)
{
    static const char *const reasons[] = {
        [VP8_STATUS_BITSTREAM_ERROR] = "its data is not valid",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "it uses a feature that is not supported",
        [VP8_STATUS_NOT_ENOUGH_DATA] = "it ends too early",
    };
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return xt_err_set(err, XT_ERR_MEMORY, "out of memory decoding %s", name);
    bool known = (size_t)code < sizeof reasons / sizeof reasons[0] && reasons[code];
    return xt_err_set(err, XT_ERR_DATA, "%s is a damaged or incomplete WebP: %s", name,
                      known ? reasons[code] : "its header is not valid");
}

/* The library premultiplies alpha for rgbA, which is the picture over black. */
static enum xt_status decode_over_black(const uint8_t *bytes, size_t size,
                                        WebPDecoderConfig *config, const char *name,
                                        struct xt_image *out, struct xt_err *err)
{
    bool bgr = config->output.colorspace == MODE_BGR;
    config->output.colorspace = bgr ? MODE_bgrA : MODE_rgbA;
    VP8StatusCode code = WebPDecode(bytes, size, config);
    if (code != VP8_STATUS_OK)
        return bad_webp(code, name, err);
    const WebPRGBABuffer *from = &config->output.u.RGBA;
    for (int y = 0; y < out->height; y++)
        for (int x = 0; x < out->width; x++)
            memcpy(out->pixels + ((size_t)y * (size_t)out->width + (size_t)x) * 3,
                   from->rgba + (size_t)y * (size_t)from->stride + (size_t)x * 4, 3);
    WebPFreeDecBuffer(&config->output);
    return XT_OK;
}

static enum xt_status decode_opaque(const uint8_t *bytes, size_t size, WebPDecoderConfig *config,
                                    const char *name, struct xt_image *out, struct xt_err *err)
{
    size_t stride = (size_t)out->width * 3;
    config->output.is_external_memory = 1;
    config->output.u.RGBA = (WebPRGBABuffer){
        .rgba = out->pixels, .stride = (int)stride, .size = stride * (size_t)out->height};
    VP8StatusCode code = WebPDecode(bytes, size, config);
    return code == VP8_STATUS_OK ? XT_OK : bad_webp(code, name, err);
}

enum xt_status xt_webp_decode(const uint8_t *bytes, size_t size, enum xt_pixel_order order,
                              const char *name, struct xt_image *out, struct xt_err *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return xt_err_set(err, XT_ERR_RUN, "libwebp's version differs from its header's");
    VP8StatusCode code = WebPGetFeatures(bytes, size, &config.input);
    if (code != VP8_STATUS_OK)
        return bad_webp(code, name, err);
    if (config.input.has_animation)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is an animated WebP; save the one picture that is meant", name);
    enum xt_status status = xt_image_reserve(out, config.input.width, config.input.height, err);
    if (status)
        return xt_err_prefix(err, "%s: ", name);
    config.output.colorspace = order == XT_PIXEL_BGR ? MODE_BGR : MODE_RGB;
    return config.input.has_alpha ? decode_over_black(bytes, size, &config, name, out, err)
                                  : decode_opaque(bytes, size, &config, name, out, err);
}
