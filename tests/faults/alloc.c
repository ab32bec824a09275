/* Preloaded into xtrain by test_alloc.sh: the XTRAIN_FAIL_AT-th allocation fails that the program,
 * or a library that it is linked with and that reads files for it, makes; those of libc, of oneDNN
 * and of the C++ and OpenMP runtimes never do, nor cJSON's, which calls text malformed then.
 * Without the variable the count is printed at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct {
    uintptr_t from, to;
} watched[64];
static int watched_count;
static _Atomic long made;
static long fail_at;

static int watch(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const names[] = {"libyaml", "libpng", "libarchive", "libjpeg"};
    /* libjpeg allocates for each image, which a count of a run's own would drown in. */
    size_t count = sizeof names / sizeof *names - (fail_at ? 0 : 1);
    (void)size;
    int wanted = *(int *)context == 0; /* the program itself comes first */
    ++*(int *)context;
    for (size_t i = 0; i < count; i++)
        wanted = wanted || strstr(info->dlpi_name, names[i]);
    for (int i = 0; wanted && i < info->dlpi_phnum && watched_count < 64; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        watched[watched_count].from = info->dlpi_addr + part->p_vaddr;
        watched[watched_count++].to = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    int seen = 0;
    const char *text = getenv("XTRAIN_FAIL_AT");
    fail_at = text ? atol(text) : 0;
    dl_iterate_phdr(watch, &seen);
}

__attribute__((destructor)) static void end(void)
{
    if (!fail_at)
        fprintf(stderr, "allocations: %ld\n", (long)made);
}

static int fails(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < watched_count; i++)
        if (at >= watched[i].from && at < watched[i].to) {
            if (atomic_fetch_add(&made, 1) + 1 != fail_at)
                return 0;
            errno = ENOMEM;
            return 1;
        }
    return 0;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || fails(__builtin_return_address(0)))
        return NULL;
    return __libc_realloc(old, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *memory = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
    size_t length = strnlen(text, most);
    char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(length + 1);
    if (!copy)
        return NULL;
    copy[length] = '\0';
    return memcpy(copy, text, length);
}

int asprintf(char **out, const char *format, ...)
{
    if (fails(__builtin_return_address(0)))
        return -1;
    va_list args;
    va_start(args, format);
    int length = vasprintf(out, format, args);
    va_end(args);
    return length;
}
