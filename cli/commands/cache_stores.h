/* The folders of cached kernels, as xtrain cache lists them. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/kernels/kernel_cache.h"

/* One folder of kernels: one version of oneDNN, driver and device. */
struct xt_cache_store {
    char *folder;
    bool ours; /* this machine would use it now */
    struct xt_cache_files files;
    uint64_t bytes;
    int64_t used; /* time of the last use of a file */
    size_t bad;
    char unsafe[320]; /* why it was not read; "" if it was */
};

struct xt_cache_stores {
    char *base;
    struct xt_cache_store *items;
    size_t count;
};

/* `given`: --kernel-cache-dir, or NULL. Clear them also after a failure. */
enum xt_status xt_cache_stores_read(struct xt_cache_stores *stores, const char *given,
                                    struct xt_err *err);
void xt_cache_stores_clear(struct xt_cache_stores *stores);

/* True if the folder name is a cache key: 16 hexadecimal digits. */
bool xt_cache_is_key(const char *name);
