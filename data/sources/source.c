#include "data/sources/source.h"

#include <sys/stat.h>

#include "base/rng.h"
#include "data/cached_files.h"

void xt_source_destroy(struct xt_source *source)
{
    if (source)
        source->class->destroy(source);
}

enum xt_status xt_source_bytes(const struct xt_source *source, size_t index,
                               struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                               struct xt_err *err)
{
    *bytes = NULL;
    *size = 0;
    return source->class->bytes ? source->class->bytes(source, index, decoder, bytes, size, err)
                                : XT_OK;
}

enum xt_status xt_source_cache(struct xt_source *source, uint64_t limit, struct xt_err *err)
{
    return source->class->cache ? source->class->cache(source, limit, err) : XT_OK;
}

double xt_source_small_bytes(const struct xt_source *source)
{
    enum { LOOKS = 64 };
    size_t looks = source->count < LOOKS ? source->count : LOOKS;
    double bytes = 0;
    for (size_t i = 0; i < looks && source->class->cache; i++) {
        char path[4096];
        struct stat st;
        source->class->name(source, source->count / looks * i, path, sizeof path);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= XT_CACHED_FILE_MAX)
            bytes += (double)st.st_size;
    }
    return looks ? bytes / (double)looks * (double)source->count : 0;
}

uint64_t xt_source_stamp_of(const char *path, const struct stat *st)
{
    uint64_t hash = 14695981039346656037u;
    for (; *path; path++)
        hash = (hash ^ (uint8_t)*path) * 1099511628211u;
    hash = xt_rng_at(hash, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec);
    hash = xt_rng_at(hash, (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ino);
    return hash ? hash : 1;
}

int xt_source_class_count(const struct xt_source *source)
{
    return source->class_count;
}

const char *xt_source_class_name(const struct xt_source *source, int index)
{
    return source->class_names[index];
}
