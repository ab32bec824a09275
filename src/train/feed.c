#include "train/feed.h"

#include "base/log.h"

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

enum xt_status xt_feed_open_cache(const struct xt_settings *settings, const char *path,
                                  struct xt_loader_config *config, struct xt_cache **out,
                                  struct xt_err *err)
{
    *out = NULL;
    if (settings->cache == XT_CACHE_CHOICE_OFF)
        return XT_OK;
    bool disk = settings->cache == XT_CACHE_CHOICE_DISK;
    struct xt_cache_config cache = {
        .source = config->source,
        .kind = disk ? XT_CACHE_DISK : XT_CACHE_RAM,
        .path = path,
        .limit = (uint64_t)settings->cache_limit << 20,
        .width = config->width,
        .height = config->height,
        .fit = config->fit,
        .order = config->order,
    };
    enum xt_status status = xt_cache_create(out, &cache, err);
    if (status)
        return status;
    size_t room = xt_cache_room(*out);
    xt_log_note("decoded images are kept in %s: room for %zu of %zu (%.0f MB)",
                disk ? path : "memory", room, config->source->count,
                1e-6 * (double)room * config->width * config->height * 3);
    config->cache = *out;
    return XT_OK;
}

void xt_feed_note_waits(struct xt_loader *loader, const struct xt_loader_config *config,
                        double seconds)
{
    const double noticeable = 0.05;
    double steps = 0;
    double workers = 0;
    if (!loader || seconds <= 0)
        return;
    xt_loader_waits(loader, &steps, &workers);
    bool can_cache = !config->cache && config->fit != XT_FIT_RANDOM_CROP;
    if (steps > noticeable * seconds)
        xt_log_note("loader-bound: steps waited for images %.0f %% of the time; more --workers "
                    "(now %d)%s would help",
                    100 * steps / seconds, config->workers,
                    can_cache ? ", or --cache ram where there are several epochs," : "");
    else
        xt_log_detail("compute-bound: steps waited for images %.1f %% of the time, workers for "
                      "steps %.0f %%; --amp bf16 or more --threads would help, more --workers not",
                      100 * steps / seconds, 100 * workers / seconds);
}
