#include "data/cached_files.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct file {
    size_t size;
    uint8_t bytes[];
};

struct xt_cached_files {
    _Atomic(struct file *) *files; /* [count]; each is written once */
    size_t count;
    uint64_t limit;
    _Atomic uint64_t used;
};

enum xt_status xt_cached_files_create(struct xt_cached_files **out, size_t count, uint64_t limit,
                                      struct xt_err *err)
{
    static const char what[] = "the cache of files in memory";
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, what, err);
    if (status)
        return status;
    (*out)->count = count;
    (*out)->limit = limit;
    status = xt_mem_calloc(&(*out)->files, count, sizeof *(*out)->files, what, err);
    if (status) {
        xt_cached_files_destroy(*out);
        *out = NULL;
    }
    return status;
}

void xt_cached_files_destroy(struct xt_cached_files *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; cache->files && i < cache->count; i++)
        free(atomic_load(&cache->files[i]));
    free(cache->files);
    free(cache);
}

bool xt_cached_files_get(const struct xt_cached_files *cache, size_t index, const uint8_t **bytes,
                         size_t *size)
{
    const struct file *file = atomic_load_explicit(&cache->files[index], memory_order_acquire);
    if (!file)
        return false;
    *bytes = file->bytes;
    *size = file->size;
    return true;
}

void xt_cached_files_put(struct xt_cached_files *cache, size_t index, const uint8_t *bytes,
                         size_t size)
{
    if (size > XT_CACHED_FILE_MAX)
        return;
    size_t all = sizeof(struct file) + size;
    if (atomic_fetch_add(&cache->used, all) + all > cache->limit) {
        atomic_fetch_sub(&cache->used, all);
        return;
    }
    struct file *file = malloc(all);
    struct file *nobody = NULL;
    if (file) {
        file->size = size;
        memcpy(file->bytes, bytes, size);
        if (atomic_compare_exchange_strong_explicit(&cache->files[index], &nobody, file,
                                                    memory_order_acq_rel, memory_order_relaxed))
            return;
    }
    /* Out of memory, or another thread was first. */
    atomic_fetch_sub(&cache->used, all);
    free(file);
}
