/* A file of pixels that an earlier run, or anybody, has written: whatever is in it, what is read
 * from it is what was put in, or nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { WIDTH = 4, HEIGHT = 2, COUNT = 3, PIXELS = WIDTH * HEIGHT * 3 };

static uint64_t stamp(const struct xt_source *source, size_t index)
{
    (void)source;
    return index + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct xt_source_class class = {.stamp = stamp};
    static const struct xt_source source = {.class = &class, .count = COUNT};
    char path[32];
    int fd = memfd_create("cache", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct xt_cache_config config = {.source = &source,
                                     .kind = XT_CACHE_DISK,
                                     .path = path,
                                     .shared = size % 2,
                                     .width = WIDTH,
                                     .height = HEIGHT};
    struct xt_cache *cache = NULL;
    struct xt_err err;
    uint8_t pixels[PIXELS];
    uint8_t wanted[PIXELS];
    memset(wanted, 9, sizeof wanted);
    if (xt_cache_create(&cache, &config, &err) == XT_OK) {
        for (size_t i = 0; i < COUNT; i++)
            (void)xt_cache_get(cache, i, pixels);
        xt_cache_put(cache, 1, wanted);
        if (!xt_cache_get(cache, 1, pixels) || memcmp(pixels, wanted, PIXELS) != 0)
            abort();
    }
    xt_cache_destroy(cache);
    close(fd);
    return 0;
}
