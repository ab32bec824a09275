#include "train/feed.h"

enum { SLOTS = 4 };

int xt_feed_workers(const struct xt_settings *settings)
{
    return settings->workers > 0 ? settings->workers : 1;
}

int xt_feed_slots(const struct xt_settings *settings)
{
    return settings->slots > 0 ? settings->slots : SLOTS;
}

struct xt_loader_config xt_feed_config(const struct xt_settings *settings,
                                       const struct xt_feed_size *size, bool training)
{
    struct xt_loader_config config = {
        .width = size->width,
        .height = size->height,
        .workers = xt_feed_workers(settings),
        .strict = settings->strict_data,
        .seed = settings->seed,
        .order = size->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
    };
    if (settings->fit == XT_IMAGES_CROP)
        config.fit = training ? XT_FIT_RANDOM_CROP : XT_FIT_CENTRE_CROP;
    if (!training)
        return config;
    config.shuffle = config.drop_last = config.repeat = true;
    config.augment = settings->augment;
    config.flip = settings->flip;
    config.jitter = (float)settings->jitter;
    return config;
}
