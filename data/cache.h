/* Decoded pixels kept from one epoch to the next, at the network's size, before anything random is
 * done to them: in memory, or in a file beside the run.
 *
 * The file outlives the run, under a seal that says what it is of (base/sealed.h). What is in it
 * counts only while the sample's file has the size and the time that it had, and while the pixels
 * have the checksum that was written with them: so a file that shrinks, is damaged or half written
 * costs decoding again and nothing else. It is read and written by calls, not mapped, since a
 * mapped file that shrinks kills the process. A disk that becomes full is noted once, and what is
 * there goes on being used.
 *
 * get and put may be called from several threads at once, also for the same sample.
 */
#ifndef XT_DATA_CACHE_H
#define XT_DATA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/sources/source.h"
#include "data/image/transform.h"

enum xt_cache_kind { XT_CACHE_OFF, XT_CACHE_RAM, XT_CACHE_DISK };

struct xt_cache_config {
    const struct xt_source *source; /* borrowed */
    enum xt_cache_kind kind;
    const char *path; /* of the file; disk alone */
    bool shared;      /* the file is not this run's own: one of other images is an error */
    uint64_t limit;   /* bytes; 0: half of the memory that is free, or for a file no limit */
    int width;
    int height;
    enum xt_fit fit; /* not XT_FIT_RANDOM_CROP */
    enum xt_pixel_order order;
};

struct xt_cache;

enum xt_status xt_cache_create(struct xt_cache **out, const struct xt_cache_config *config,
                               struct xt_err *err);
void xt_cache_destroy(struct xt_cache *cache);

/* True where the sample was there and `pixels` ([height][width][3]) are filled. */
bool xt_cache_get(struct xt_cache *cache, size_t index, uint8_t *pixels);
/* Keeps the pixels, where there is room for them. */
void xt_cache_put(struct xt_cache *cache, size_t index, const uint8_t *pixels);

/* XT_ERR_RUN where the file could not be written at some time since it was opened. */
enum xt_status xt_cache_check(const struct xt_cache *cache, struct xt_err *err);

/* How many of the source's samples there is room for. */
size_t xt_cache_room(const struct xt_cache *cache);

#endif
