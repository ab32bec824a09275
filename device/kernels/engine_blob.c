#include "device/kernels/engine_blob.h"

#include <stdlib.h>
#include <string.h>

#include "device/kernels/blob_cache.h"
#include "device/gpu/opencl.h"

typedef dnnl_status_t get_device(dnnl_engine_t engine, void **device);
typedef dnnl_status_t get_id(void *device, size_t *size, uint8_t *id);
typedef dnnl_status_t get_blob(dnnl_engine_t engine, size_t *size, uint8_t *blob);
typedef dnnl_status_t create_from_blob(dnnl_engine_t *out, void *device, void *context, size_t size,
                                       const uint8_t *blob);

struct functions {
    get_device *device;
    get_id *id;
    get_blob *blob;
    create_from_blob *create;
};

static bool find_functions(struct functions *out)
{
    void *const symbols[] = {
        xt_dnnl_symbol("dnnl_ocl_interop_get_device"),
        xt_dnnl_symbol("dnnl_ocl_interop_engine_get_cache_blob_id"),
        xt_dnnl_symbol("dnnl_ocl_interop_engine_get_cache_blob"),
        xt_dnnl_symbol("dnnl_ocl_interop_engine_create_from_cache_blob"),
    };
    memcpy(&out->device, &symbols[0], sizeof out->device);
    memcpy(&out->id, &symbols[1], sizeof out->id);
    memcpy(&out->blob, &symbols[2], sizeof out->blob);
    memcpy(&out->create, &symbols[3], sizeof out->create);
    return out->device && out->id && out->blob && out->create;
}

/* The id's bytes (free); NULL if there is none. */
static uint8_t *read_id(const struct functions *of, void *device, struct xt_blob_id *id)
{
    size_t size = 0;
    if (of->id(device, &size, NULL) != dnnl_success || size == 0)
        return NULL;
    uint8_t *bytes = malloc(size);
    if (bytes && of->id(device, &size, bytes) != dnnl_success) {
        free(bytes);
        return NULL;
    }
    *id = (struct xt_blob_id){bytes, size};
    return bytes;
}

struct recall {
    struct functions of;
    const char *folder;
};

static void recall_one(void *argument, void *device, void *context)
{
    const struct recall *recall = argument;
    struct xt_blob_id id;
    dnnl_engine_t engine = NULL;
    uint8_t *blob = NULL;
    size_t size = 0;
    uint8_t *bytes = read_id(&recall->of, device, &id);
    if (bytes && xt_blob_read(recall->folder, &id, &blob, &size) &&
        recall->of.create(&engine, device, context, size, blob) == dnnl_success)
        xt_dnnl.engine_destroy(engine);
    free(blob);
    free(bytes);
}

void xt_engine_blob_recall(const struct xt_kernel_cache *cache)
{
    struct recall recall = {.folder = cache->folder};
    if (cache->reads_blobs && find_functions(&recall.of))
        xt_opencl_visit_gpus(recall_one, &recall);
}

static bool is_stored(const char *folder, const struct xt_blob_id *id)
{
    uint8_t *blob = NULL;
    size_t size = 0;
    bool there = xt_blob_read(folder, id, &blob, &size);
    free(blob);
    return there;
}

void xt_engine_blob_store(struct xt_kernel_cache *cache, dnnl_engine_t engine)
{
    struct functions of;
    struct xt_blob_id id;
    void *device = NULL;
    size_t size = 0;
    if (!cache->writes_blobs || !find_functions(&of) ||
        of.device(engine, &device) != dnnl_success ||
        of.blob(engine, &size, NULL) != dnnl_success || size == 0)
        return;
    uint8_t *bytes = read_id(&of, device, &id);
    uint8_t *blob = malloc(size);
    if (bytes && blob && !is_stored(cache->folder, &id) &&
        of.blob(engine, &size, blob) == dnnl_success)
        xt_blob_store(cache, &id, blob, size);
    free(blob);
    free(bytes);
}
