/* Heap memory: sizes are checked for overflow before anything is asked for, and a failed allocation
 * is an error like any other. All but xt_mem_map's is released with free(). Thread-safe.
 */
#ifndef XT_BASE_MEM_H
#define XT_BASE_MEM_H

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

/* Zeroed bytes straight from the system, on huge pages where it has them on request: a page costs
 * its time when it is first touched, in the thread that touches it. For arrays of many megabytes,
 * which a start would otherwise wait for. */
enum xt_status xt_mem_map(void *out, size_t bytes, const char *what, struct xt_err *err);
void xt_mem_unmap(void *memory, size_t bytes); /* NULL: nothing */
/* How much of it nobody has touched yet, in whole pages: the process does not occupy that. */
size_t xt_mem_untouched(const void *memory, size_t bytes);

/* Grows *array (of elements of `size` bytes, *capacity of them) so that it holds at least `need`.
 * Contents stay. */
enum xt_status xt_mem_grow(void *array, size_t *capacity, size_t need, size_t size,
                           const char *what, struct xt_err *err);

/* A copy of a string into *out. */
enum xt_status xt_mem_strdup(char **out, const char *text, struct xt_err *err);

#endif
