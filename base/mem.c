#include "base/mem.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* `out` is a T **: written through memcpy, because a T ** is not a void **. */
static void store(void *out, void *pointer)
{
    memcpy(out, &pointer, sizeof pointer);
}

enum xt_status xt_mem_calloc(void *out, size_t count, size_t size, const char *what,
                             struct xt_err *err)
{
    void *p = calloc(count ? count : 1, size);
    store(out, p);
    return p ? XT_OK
             : xt_err_no_memory(err, what,
                                size && count > SIZE_MAX / size ? SIZE_MAX : count * size);
}

/* Large arrays go on huge pages where the system has them on request: fewer misses of the address
 * cache, a tenth more speed in training. */
enum { HUGE_PAGE = 2 << 20 };

enum xt_status xt_mem_aligned(void *out, size_t count, size_t size, const char *what,
                              struct xt_err *err)
{
    store(out, NULL);
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64)
        return xt_err_no_memory(err, what, SIZE_MAX);
    size_t boundary = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : 64;
    if (bytes > SIZE_MAX - boundary)
        return xt_err_no_memory(err, what, bytes);
    bytes = (bytes + boundary - 1) / boundary * boundary;
    void *p = aligned_alloc(boundary, bytes ? bytes : boundary);
    if (!p)
        return xt_err_no_memory(err, what, bytes);
    if (boundary == HUGE_PAGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    store(out, p);
    return XT_OK;
}

/* What xt_mem_map has given, for xt_mem_untouched. */
struct mapping {
    char *start;
    size_t bytes; /* whole huge pages */
    struct mapping *next;
};
static struct mapping *mappings;
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL where there is no memory. */
static char *map_huge_pages(size_t bytes)
{
    size_t most = bytes + HUGE_PAGE;
    char *p = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    /* What is left of a page before and behind it goes back. */
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before)
        munmap(p, before);
    munmap(p + before + bytes, most - before - bytes);
    madvise(p + before, bytes, MADV_HUGEPAGE);
    return p + before;
}

enum xt_status xt_mem_map(void *out, size_t bytes, const char *what, struct xt_err *err)
{
    store(out, NULL);
    if (bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE)
        return xt_err_no_memory(err, what, bytes);
    struct mapping *mapping = NULL;
    enum xt_status status = xt_mem_calloc(&mapping, 1, sizeof *mapping, what, err);
    if (status)
        return status;
    mapping->bytes = ((bytes ? bytes : 1) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    mapping->start = map_huge_pages(mapping->bytes);
    if (!mapping->start) {
        free(mapping);
        return xt_err_no_memory(err, what, bytes);
    }
    pthread_mutex_lock(&mappings_lock);
    mapping->next = mappings;
    mappings = mapping;
    pthread_mutex_unlock(&mappings_lock);
    store(out, mapping->start);
    return XT_OK;
}

void xt_mem_unmap(void *memory)
{
    pthread_mutex_lock(&mappings_lock);
    struct mapping **at = &mappings;
    while (*at && (*at)->start != memory)
        at = &(*at)->next;
    struct mapping *mapping = *at;
    if (mapping)
        *at = mapping->next;
    pthread_mutex_unlock(&mappings_lock);
    if (mapping)
        munmap(mapping->start, mapping->bytes);
    free(mapping);
}

/* Huge pages come whole, so that one look a page is enough, and more than enough where the system
 * has small ones alone: of those 512 the first speaks for all. */
static size_t untouched(const struct mapping *mapping)
{
    size_t bytes = 0;
    unsigned char resident = 0;
    for (size_t at = 0; at < mapping->bytes; at += HUGE_PAGE)
        if (mincore(mapping->start + at, 1, &resident) == 0 && !(resident & 1))
            bytes += HUGE_PAGE;
    return bytes;
}

size_t xt_mem_untouched(void)
{
    size_t bytes = 0;
    pthread_mutex_lock(&mappings_lock);
    for (const struct mapping *mapping = mappings; mapping; mapping = mapping->next)
        bytes += untouched(mapping);
    pthread_mutex_unlock(&mappings_lock);
    return bytes;
}

enum xt_status xt_mem_grow(void *array, size_t *capacity, size_t need, size_t size,
                           const char *what, struct xt_err *err)
{
    if (need <= *capacity)
        return XT_OK;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < need) {
        if (wanted > SIZE_MAX / 2)
            return xt_err_no_memory(err, what, SIZE_MAX);
        wanted *= 2;
    }
    void *old = NULL;
    memcpy(&old, array, sizeof old);
    void *p = reallocarray(old, wanted, size);
    if (!p)
        return xt_err_no_memory(err, what, wanted > SIZE_MAX / size ? SIZE_MAX : wanted * size);
    store(array, p);
    *capacity = wanted;
    return XT_OK;
}

enum xt_status xt_mem_strdup(char **out, const char *text, struct xt_err *err)
{
    *out = strdup(text);
    return *out ? XT_OK : xt_err_no_memory(err, "a name", strlen(text) + 1);
}
