/* Cache of decoded pixels at the network's size, before any random augmentation, across epochs: in
 * memory, or in a file beside the run.
 *
 * The file outlives the run, under a seal that identifies the data set (base/sealed.h). An entry is
 * valid only while the sample's file has the recorded size and time and the pixels match their
 * checksum, so a truncated, damaged or half-written file only costs decoding. It is accessed by
 * read and write, not mapped, since a mapped file that shrinks kills the process. A full disk is
 * reported once; entries already stored stay in use.
 *
 * get and put may be called from several threads at once, also for the same sample.
 */
#pragma once

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
    const char *path; /* of the file; disk only */
    bool shared;      /* the file is not this run's own: one of another data set is an error */
    uint64_t limit;   /* bytes; 0: half of the free memory, or no limit for a file */
    int width;
    int height;
    enum xt_fit fit; /* not XT_FIT_RANDOM_CROP */
    enum xt_pixel_order order;
};

struct xt_cache;

enum xt_status xt_cache_create(struct xt_cache **out, const struct xt_cache_config *config,
                               struct xt_err *err);
void xt_cache_destroy(struct xt_cache *cache);

/* True if the sample is cached; then `pixels` ([height][width][3]) is filled. */
bool xt_cache_get(struct xt_cache *cache, size_t index, uint8_t *pixels);
/* Stores the pixels if there is room. */
void xt_cache_put(struct xt_cache *cache, size_t index, const uint8_t *pixels);

/* XT_ERR_RUN if any write to the file has failed since it was opened. */
enum xt_status xt_cache_check(const struct xt_cache *cache, struct xt_err *err);

/* The number of samples that fit. */
size_t xt_cache_room(const struct xt_cache *cache);
