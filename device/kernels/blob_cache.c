#include "device/kernels/blob_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sealed.h"
#include "base/sha256.h"

static const struct xt_sealed_kind kind = {"XTBLOB", 2, 1 << 30};

struct name {
    char text[64];
};

static struct name name_of(const struct xt_blob_id *id)
{
    struct name name;
    struct xt_sha256_digest digest = xt_sha256(id->bytes, id->size);
    snprintf(name.text, sizeof name.text, "%.32s.blob_cache", xt_sha256_format(&digest).text);
    return name;
}

bool xt_blob_read(const char *folder, const struct xt_blob_id *id, uint8_t **blob, size_t *size)
{
    struct xt_sealed content;
    char *path = NULL;
    *blob = NULL;
    bool found = !xt_file_join(&path, folder, name_of(id).text, NULL) &&
                 !xt_sealed_read(&kind, path, blob, &content, NULL);
    free(path);
    if (found && xt_sealed_is_of(&content, id->bytes, id->size) && content.body_size) {
        *size = content.body_size;
        memmove(*blob, content.body, *size);
        return true;
    }
    free(*blob);
    *blob = NULL;
    return false;
}

static enum xt_status write_blob(const struct xt_kernel_cache *cache, const struct xt_blob_id *id,
                                 const uint8_t *blob, size_t size, struct xt_err *err)
{
    const struct xt_sealed content = {id->bytes, id->size, blob, size};
    char *path = NULL;
    if (cache->bytes + size > XT_KERNEL_CACHE_MOST)
        return xt_err_set(err, XT_ERR_RUN,
                          "it holds %d MB, the limit; make room with \"xtrain cache prune\"",
                          XT_KERNEL_CACHE_MOST / 1000000);
    enum xt_status status = xt_file_join(&path, cache->folder, name_of(id).text, err);
    /* So that permissions are restricted from the beginning. */
    mode_t before = umask(077);
    if (!status)
        status = xt_sealed_write(&kind, path, &content, err);
    umask(before);
    free(path);
    return status;
}

void xt_blob_store(struct xt_kernel_cache *cache, const struct xt_blob_id *id, const uint8_t *blob,
                   size_t size)
{
    struct xt_err why = {0};
    if (!cache->writes_blobs)
        return;
    if (write_blob(cache, id, blob, size, &why)) {
        xt_log_warn("kernels are no longer cached in %s: %s", cache->folder, why.text);
        cache->writes_blobs = false;
        return;
    }
    cache->bytes += size;
}
