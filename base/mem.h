/* Heap memory: sizes are checked for overflow, and a failed allocation is an ordinary error.
 * Release with free(), except xt_mem_map's. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* count * size zeroed bytes into *out; count 0 gives a unique pointer. `what` names it in the
 * error. */
enum xt_status xt_mem_calloc(void *out, size_t count, size_t size, const char *what,
                             struct xt_err *err);

/* As xt_mem_calloc, but on a 64-byte boundary (a cache line, an AVX-512 register). */
enum xt_status xt_mem_aligned(void *out, size_t count, size_t size, const char *what,
                              struct xt_err *err);

/* Zeroed pages from the system, huge pages where available. Each page is faulted in by the thread
 * that first touches it, so that large arrays do not delay the start. */
enum xt_status xt_mem_map(void *out, size_t bytes, const char *what, struct xt_err *err);
void xt_mem_unmap(void *memory, size_t bytes); /* NULL: no mapping */
/* Bytes of whole pages that were never touched, and so are not resident. */
size_t xt_mem_untouched(const void *memory, size_t bytes);

/* Grows *array (*capacity elements of `size` bytes) to at least `need` elements, as realloc
 * does. */
enum xt_status xt_mem_grow(void *array, size_t *capacity, size_t need, size_t size,
                           const char *what, struct xt_err *err);

/* Room for one more behind the `count` elements of *array, which grows by this alone (NULL while it
 * is empty). */
enum xt_status xt_mem_add(void *array, size_t count, size_t size, const char *what,
                          struct xt_err *err);

/* A copy of a string into *out. */
enum xt_status xt_mem_strdup(char **out, const char *text, struct xt_err *err);
