#include "data/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sealed.h"
#include "base/system/thread.h"

/* File layout: a sealed head with these fields, one record per sample, then the pixels. */
struct shape {
    uint64_t count;
    uint32_t width;
    uint32_t height;
    uint32_t fit;
    uint32_t order;
};
enum { SEAL = XT_SEALED_HEAD + sizeof(struct shape) };
static const struct xt_sealed_kind file_kind = {"XTPIXEL", 2, SEAL};

struct record {
    uint64_t stamp; /* of the sample's file; 0: empty record */
    uint64_t sum;   /* checksum of the pixels */
};

enum state { STATE_EMPTY, STATE_BUSY, STATE_FULL };

struct xt_cache {
    struct xt_cache_config config;
    size_t size;     /* bytes of a sample */
    size_t room;     /* samples */
    uint8_t *pixels; /* [room][size], in memory */
    _Atomic uint8_t *states;
    int fd;
    _Atomic int full; /* errno of the first failed write, or 0 */
};

/* In words of 8 bytes, four at a time, so that it costs less than reading the pixels. */
static uint64_t checksum(const uint8_t *bytes, size_t size)
{
    enum { WORDS = 4, BLOCK = WORDS * 8 };
    uint64_t sums[WORDS] = {1, 2, 3, 4};
    size_t i = 0;
    for (; i + BLOCK <= size; i += BLOCK) {
        uint64_t words[WORDS];
        memcpy(words, bytes + i, BLOCK);
        for (int k = 0; k < WORDS; k++)
            sums[k] = (sums[k] ^ words[k]) * 0x9E3779B97F4A7C15u;
    }
    uint64_t sum = size;
    for (; i < size; i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    for (int k = 0; k < WORDS; k++)
        sum = xt_rng_mix(sum ^ sums[k]);
    return sum;
}

static size_t room_for(const struct xt_cache *cache)
{
    size_t count = cache->config.source->count;
    uint64_t limit = cache->config.limit;
    if (!limit && cache->config.kind == XT_CACHE_DISK)
        return count;
    if (!limit)
        limit = xt_thread_memory_available() / 2;
    uint64_t fits = limit / cache->size;
    return fits < count ? (size_t)fits : count;
}

static enum xt_status create_in_memory(struct xt_cache *cache, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_calloc(&cache->states, cache->room, sizeof *cache->states, "a cache", err);
    if (status || !cache->room)
        return status;
    /* Pages are allocated when first written. */
    void *pixels = mmap(NULL, cache->room * cache->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pixels == MAP_FAILED)
        return xt_err_no_memory(err, "the cache of decoded images", cache->room * cache->size);
    cache->pixels = pixels;
    return XT_OK;
}

static struct shape shape_of(const struct xt_cache *cache)
{
    return (struct shape){.count = cache->config.source->count,
                          .width = (uint32_t)cache->config.width,
                          .height = (uint32_t)cache->config.height,
                          .fit = (uint32_t)cache->config.fit,
                          .order = (uint32_t)cache->config.order};
}

static bool write_at(int fd, uint64_t at, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = pwrite(fd, (const char *)bytes + done, count - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* The data set that the file caches; false where it is not a complete pixel cache. */
static bool read_seal(int fd, struct shape *found)
{
    uint8_t seal[SEAL];
    struct xt_sealed content;
    if (!xt_file_read_at(fd, 0, seal, sizeof seal) ||
        !xt_sealed_check(&file_kind, seal, sizeof seal, &content) ||
        content.key_size != sizeof *found)
        return false;
    memcpy(found, content.key, sizeof *found);
    return true;
}

static bool write_seal(int fd, const struct shape *shape)
{
    uint8_t seal[SEAL];
    const struct xt_sealed content = {.key = shape, .key_size = sizeof *shape};
    xt_sealed_head(&file_kind, &content, seal);
    memcpy(seal + XT_SEALED_HEAD, shape, sizeof *shape);
    return !ftruncate(fd, 0) && write_at(fd, 0, seal, sizeof seal);
}

/* Whether the file already caches this data set; if not, it may be overwritten unless *status is an
 * error. */
static bool is_of(const struct xt_cache *cache, const struct shape *wanted, enum xt_status *status,
                  struct xt_err *err)
{
    const char *path = cache->config.path;
    struct shape found;
    struct stat st;
    bool empty = fstat(cache->fd, &st) == 0 && st.st_size == 0;
    bool whole = read_seal(cache->fd, &found);
    if (whole && memcmp(&found, wanted, sizeof found) == 0)
        return true;
    if (whole && cache->config.shared)
        *status = xt_err_set(err, XT_ERR_DATA,
                             "%s holds %" PRIu64 " images of %u x %u pixels, and here are %" PRIu64
                             " of %u x %u; give another file",
                             path, found.count, found.width, found.height, wanted->count,
                             wanted->width, wanted->height);
    else if (!empty && cache->config.shared)
        *status = xt_err_set(err, XT_ERR_DATA,
                             "%s is not a cache of pixels and is left unchanged; give another file "
                             "(one written by an older xtrain may be removed)",
                             path);
    return false;
}

static enum xt_status create_on_disk(struct xt_cache *cache, struct xt_err *err)
{
    const char *path = cache->config.path;
    if (!cache->config.source->class->stamp)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--image-cache disk: %s are no files whose time could be compared; use "
                          "--image-cache ram",
                          cache->config.source->description);
    enum xt_status status = xt_file_open_own(path, O_RDWR, &cache->fd, err);
    if (status)
        return xt_err_prefix(err, "--image-cache disk: ");
    struct shape wanted = shape_of(cache);
    if (is_of(cache, &wanted, &status, err) || status)
        return status;
    if (!write_seal(cache->fd, &wanted))
        return xt_err_system(err, XT_ERR_RUN, "cannot write the cache %s", path);
    return XT_OK;
}

enum xt_status xt_cache_create(struct xt_cache **out, const struct xt_cache_config *config,
                               struct xt_err *err)
{
    *out = NULL;
    struct xt_cache *cache = NULL;
    enum xt_status status = xt_mem_calloc(&cache, 1, sizeof *cache, "a cache", err);
    if (status)
        return status;
    cache->config = *config;
    cache->fd = -1;
    cache->size = (size_t)config->width * (size_t)config->height * 3;
    cache->room = room_for(cache);
    status =
        config->kind == XT_CACHE_DISK ? create_on_disk(cache, err) : create_in_memory(cache, err);
    if (status)
        xt_cache_destroy(cache);
    else
        *out = cache;
    return status;
}

void xt_cache_destroy(struct xt_cache *cache)
{
    if (!cache)
        return;
    if (cache->pixels)
        munmap(cache->pixels, cache->room * cache->size);
    if (cache->fd >= 0)
        close(cache->fd);
    free(cache->states);
    free(cache);
}

enum xt_status xt_cache_check(const struct xt_cache *cache, struct xt_err *err)
{
    int why = atomic_load(&cache->full);
    if (!why)
        return XT_OK;
    errno = why;
    return xt_err_system(err, XT_ERR_RUN, "cannot write %s", cache->config.path);
}

size_t xt_cache_room(const struct xt_cache *cache)
{
    return cache->room;
}

static uint64_t record_at(size_t index)
{
    return SEAL + index * sizeof(struct record);
}

static uint64_t pixels_at(const struct xt_cache *cache, size_t index)
{
    return record_at(cache->config.source->count) + index * cache->size;
}

static bool get_from_disk(const struct xt_cache *cache, size_t index, uint8_t *pixels)
{
    const struct xt_source *source = cache->config.source;
    struct record record;
    return xt_file_read_at(cache->fd, record_at(index), &record, sizeof record) && record.stamp &&
           record.stamp == source->class->stamp(source, index) &&
           xt_file_read_at(cache->fd, pixels_at(cache, index), pixels, cache->size) &&
           record.sum == checksum(pixels, cache->size);
}

static void put_on_disk(struct xt_cache *cache, size_t index, const uint8_t *pixels)
{
    const struct xt_source *source = cache->config.source;
    struct record record = {source->class->stamp(source, index), checksum(pixels, cache->size)};
    if (!record.stamp || atomic_load_explicit(&cache->full, memory_order_relaxed))
        return;
    errno = 0;
    if (write_at(cache->fd, pixels_at(cache, index), pixels, cache->size) &&
        write_at(cache->fd, record_at(index), &record, sizeof record))
        return;
    int why = errno ? errno : ENOSPC;
    if (!atomic_exchange(&cache->full, why))
        xt_log_warn_here("the cache %s cannot be written (%s): the images that are not in it yet "
                         "will be decoded each time",
                         cache->config.path, strerror(why));
}

bool xt_cache_get(struct xt_cache *cache, size_t index, uint8_t *pixels)
{
    if (index >= cache->room)
        return false;
    if (cache->config.kind == XT_CACHE_DISK)
        return get_from_disk(cache, index, pixels);
    if (atomic_load_explicit(&cache->states[index], memory_order_acquire) != STATE_FULL)
        return false;
    memcpy(pixels, cache->pixels + index * cache->size, cache->size);
    return true;
}

void xt_cache_put(struct xt_cache *cache, size_t index, const uint8_t *pixels)
{
    if (index >= cache->room)
        return;
    if (cache->config.kind == XT_CACHE_DISK) {
        put_on_disk(cache, index, pixels);
        return;
    }
    uint8_t empty = STATE_EMPTY;
    if (!atomic_compare_exchange_strong(&cache->states[index], &empty, STATE_BUSY))
        return;
    memcpy(cache->pixels + index * cache->size, pixels, cache->size);
    atomic_store_explicit(&cache->states[index], STATE_FULL, memory_order_release);
}
