#include "device/primitive.h"

#include <stdlib.h>

#include "base/system/thread.h"
#include "device/kernels/blob_cache.h"

/* Empty if oneDNN has none for it: it compiles nothing. */
static struct xt_blob_id id_of(const_dnnl_primitive_desc_t pd)
{
    struct xt_blob_id id = {NULL, 0};
    int64_t size = 0;
    if (xt_dnnl.primitive_desc_query(pd, dnnl_query_cache_blob_id_size_s64, 0, &size) ==
            dnnl_success &&
        size > 0 &&
        xt_dnnl.primitive_desc_query(pd, dnnl_query_cache_blob_id, 0, (void *)&id.bytes) ==
            dnnl_success &&
        id.bytes)
        id.size = (size_t)size;
    return id;
}

/* A blob that oneDNN or the driver rejects was not valid after all. */
static bool create_from_blob(struct xt_kernel_cache *cache, const struct xt_blob_id *id,
                             const_dnnl_primitive_desc_t pd, dnnl_primitive_t *out)
{
    uint8_t *blob = NULL;
    size_t size = 0;
    if (!xt_blob_read(cache->folder, id, &blob, &size))
        return false;
    bool created = xt_dnnl.primitive_create_from_cache_blob(out, pd, size, blob) == dnnl_success;
    free(blob);
    if (created)
        return true;
    *out = NULL;
    pthread_mutex_lock(&cache->turn);
    cache->valid--;
    cache->left_out++;
    pthread_mutex_unlock(&cache->turn);
    return false;
}

static bool writes_blobs(struct xt_kernel_cache *cache)
{
    pthread_mutex_lock(&cache->turn);
    bool writes_blobs = cache->writes_blobs;
    pthread_mutex_unlock(&cache->turn);
    return writes_blobs;
}

static void store(struct xt_kernel_cache *cache, const struct xt_blob_id *id,
                  const_dnnl_primitive_t primitive)
{
    size_t size = 0;
    if (xt_dnnl.primitive_get_cache_blob(primitive, &size, NULL) != dnnl_success || size == 0)
        return;
    uint8_t *blob = malloc(size);
    if (blob && xt_dnnl.primitive_get_cache_blob(primitive, &size, blob) == dnnl_success) {
        pthread_mutex_lock(&cache->turn);
        xt_blob_store(cache, id, blob, size);
        pthread_mutex_unlock(&cache->turn);
    }
    free(blob);
}

/* oneDNN crashes where it has no room for a kernel's code. */
static enum xt_status check_room(const char *what, struct xt_err *err)
{
    enum { ROOM = 16 << 20 };
    unsigned long long left = xt_thread_address_left();
    if (left == 0 || left >= ROOM)
        return XT_OK;
    return xt_err_set(err, XT_ERR_MEMORY, "out of memory: `ulimit -v` leaves %.1f MB for %s",
                      (double)left / 1e6, what);
}

enum xt_status xt_primitive_create(struct xt_device *device, const_dnnl_primitive_desc_t pd,
                                   const char *what, dnnl_primitive_t *out, struct xt_err *err)
{
    struct xt_kernel_cache *cache = &device->cache;
    struct xt_blob_id id = {NULL, 0};
    if (cache->reads_blobs)
        id = id_of(pd);
    if (id.size && create_from_blob(cache, &id, pd, out))
        return XT_OK;
    enum xt_status status = check_room(what, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.primitive_create(out, pd), what, err);
    if (!status && id.size && writes_blobs(cache))
        store(cache, &id, *out);
    return status;
}
