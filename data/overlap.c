#include "data/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

/* Limits on the samples of both sets whose files are compared, and on the bytes read. */
enum { FILES_MOST = 50000, BYTES_MOST = 64 << 20, NAME_BYTES = 4096 };

/* The identity of a sample's file; 0: none. */
struct entry {
    uint64_t file;
    uint64_t size; /* size of a file of its own, else 0 */
    uint64_t bytes;
};

struct set {
    const struct xt_source *source;
    struct entry *entries;
};

static uint64_t hash_of(uint64_t hash, const void *bytes, size_t size)
{
    /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return hash;
}

/* The folder of the previous sample, by its real path: neighbours mostly share it. */
struct folder {
    char name[NAME_BYTES];
    uint64_t hash;
};

static uint64_t hash_path(const char *path, struct folder *folder)
{
    size_t length = (size_t)(xt_file_name(path) - path);
    if (strncmp(folder->name, path, length) != 0 || folder->name[length]) {
        snprintf(folder->name, sizeof folder->name, "%.*s", (int)length, path);
        char *real = realpath(length ? folder->name : ".", NULL);
        const char *name = real ? real : folder->name;
        folder->hash = hash_of(14695981039346656037u, name, strlen(name));
        free(real);
    }
    return hash_of(folder->hash, path + length, strlen(path + length)) | 1;
}

static enum xt_status scan(struct set *set, bool ask, struct xt_err *err)
{
    char name[NAME_BYTES];
    struct folder folder = {.name = "?"};
    size_t count = set->source->count;
    enum xt_status status =
        xt_mem_calloc(&set->entries, count, sizeof *set->entries, "the images' files", err);
    for (size_t i = 0; i < count && !status; i++) {
        struct entry *entry = &set->entries[i];
        struct stat st;
        set->source->class->name(set->source, i, name, sizeof name);
        if (xt_str_starts(name, "synth:"))
            continue;
        if (ask && !stat(name, &st) && S_ISREG(st.st_mode)) {
            entry->file = xt_rng_at(1, (uint64_t)st.st_dev, (uint64_t)st.st_ino) | 1;
            entry->size = (uint64_t)st.st_size;
        } else {
            entry->file = hash_path(name, &folder);
        }
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

static uint64_t file_of(const struct entry *entry)
{
    return entry->file;
}

static uint64_t size_of(const struct entry *entry)
{
    return entry->size;
}

static uint64_t bytes_of(const struct entry *entry)
{
    return entry->bytes;
}

/* A set's keys, sorted. */
static enum xt_status sort_keys(const struct set *set, uint64_t (*key)(const struct entry *entry),
                                uint64_t **keys, struct xt_err *err)
{
    size_t count = set->source->count;
    enum xt_status status = xt_mem_calloc(keys, count, sizeof **keys, "the images' files", err);
    for (size_t i = 0; i < count && !status; i++)
        (*keys)[i] = key(&set->entries[i]);
    if (!status && count)
        qsort(*keys, count, sizeof **keys, compare);
    return status;
}

static bool has(const uint64_t *keys, size_t count, uint64_t key)
{
    return key && count && bsearch(&key, keys, count, sizeof *keys, compare);
}

/* Reads the files whose size occurs in the other set too; false if that would exceed the limit. */
static bool read_alike(struct set *set, const uint64_t *sizes, size_t count, uint64_t *left)
{
    char name[NAME_BYTES];
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    bool read = true;
    for (size_t i = 0; i < set->source->count && read; i++) {
        struct entry *entry = &set->entries[i];
        size_t size = 0;
        struct xt_err why;
        if (!has(sizes, count, entry->size))
            continue;
        read = entry->size <= *left;
        *left -= read ? entry->size : 0;
        set->source->class->name(set->source, i, name, sizeof name);
        if (read && !xt_file_read(name, BYTES_MOST, &bytes, &capacity, &size, &why))
            entry->bytes = hash_of(14695981039346656037u, bytes, size) | 1;
    }
    free(bytes);
    return read;
}

/* The total size of the files that may be equal. */
static enum xt_status read_both(struct set sets[2], struct xt_err *err)
{
    uint64_t *sizes[2] = {NULL, NULL};
    uint64_t left = BYTES_MOST;
    enum xt_status status = sort_keys(&sets[0], size_of, &sizes[0], err);
    if (!status)
        status = sort_keys(&sets[1], size_of, &sizes[1], err);
    if (!status && read_alike(&sets[0], sizes[1], sets[1].source->count, &left))
        read_alike(&sets[1], sizes[0], sets[0].source->count, &left);
    free(sizes[0]);
    free(sizes[1]);
    return status;
}

static enum xt_status count_shared(struct xt_overlap *out, const struct set sets[2],
                                   struct xt_err *err)
{
    uint64_t *files = NULL;
    uint64_t *bytes = NULL;
    const struct xt_source *one = sets[0].source;
    size_t others = sets[1].source->count;
    enum xt_status status = sort_keys(&sets[1], file_of, &files, err);
    if (!status)
        status = sort_keys(&sets[1], bytes_of, &bytes, err);
    for (size_t i = 0; i < one->count && !status; i++) {
        const struct entry *entry = &sets[0].entries[i];
        if (!has(files, others, entry->file) && !has(bytes, others, entry->bytes))
            continue;
        if (out->count++ == 0)
            one->class->name(one, i, out->first, sizeof out->first);
    }
    free(files);
    free(bytes);
    return status;
}

enum xt_status xt_overlap_find(struct xt_overlap *out, const struct xt_source *one,
                               const struct xt_source *other, struct xt_err *err)
{
    struct set sets[2] = {{.source = one}, {.source = other}};
    bool ask = one->count + other->count <= FILES_MOST;
    *out = (struct xt_overlap){0};
    enum xt_status status = scan(&sets[0], ask, err);
    if (!status)
        status = scan(&sets[1], ask, err);
    if (!status && ask)
        status = read_both(sets, err);
    if (!status)
        status = count_shared(out, sets, err);
    free(sets[0].entries);
    free(sets[1].entries);
    return status;
}
