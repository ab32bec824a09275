/* Packs a set of images into few files: as shards that other programs read too, or as pixels that
 * need no decoding.
 *
 * Shards are tars by WebDataset's convention: PREFIX-000000.tar and so on, in the source's order;
 * for each sample KEY.jpg or KEY.png and beside it KEY.txt (a plate's text) or KEY.cls (a class's
 * name). An image file is stored unchanged; a synthetic or cropped one becomes a PNG of the same
 * pixels. A shard appears complete or not at all.
 *
 * Pixels are the file that data/cache.h reads and writes.
 *
 * A sample that cannot be used is skipped and counted, up to the loader's limit. A request to stop
 * returns XT_INTERRUPTED or XT_STOPPED.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/sources/source.h"

struct xt_pack_config {
    const struct xt_source *source; /* borrowed; not a mixture */
    enum xt_pixel_order order;      /* channel order of its pixels */
    bool strict;                    /* the first bad sample is an error */
    /* shards */
    const struct xt_alphabet *alphabet; /* plates; NULL: classes */
    const char *prefix;                 /* path and beginning of the shards' names */
    uint64_t shard_bytes;               /* the maximum size of a shard with more than one sample */
    /* pixels */
    const char *path;
    int width;
    int height;
    int workers;
};

struct xt_packed {
    size_t images;
    size_t bad;
    size_t shards;
    uint64_t bytes;  /* of the images, encoded; of the pixels */
    char *first_bad; /* the error of the first bad sample; NULL if there is none */
};
void xt_packed_clear(struct xt_packed *packed);

/* `packed` counts what was done, also after a failure; clear it. */
enum xt_status xt_pack_shards(const struct xt_pack_config *config, struct xt_packed *packed,
                              struct xt_err *err);
enum xt_status xt_pack_pixels(const struct xt_pack_config *config, struct xt_packed *packed,
                              struct xt_err *err);
