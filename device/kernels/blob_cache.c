#include "device/kernels/blob_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"

enum { ID_MAX = 1 << 20 };
static const char magic[8] = "XTBLOB1\n";

struct head {
    char magic[8];
    uint8_t id_size[8];
    uint8_t blob_size[8];
    uint8_t hash[32];
};

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

static void put_number(uint8_t to[8], uint64_t number)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t get_number(const uint8_t from[8])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number |= (uint64_t)from[i] << 8 * i;
    return number;
}

static struct xt_sha256_digest hash_both(const struct xt_blob_id *id, const uint8_t *blob,
                                         size_t size)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, id->bytes, id->size);
    xt_sha256_add(&hash, blob, size);
    return xt_sha256_end(&hash);
}

/* Whether a file of `size` bytes is the blob of that id; *blob_size is then the blob's length, and
 * it ends the file. */
static bool is_whole(const uint8_t *file, size_t size, const struct xt_blob_id *id,
                     size_t *blob_size)
{
    struct head head;
    if (size < sizeof head || size - sizeof head <= id->size)
        return false;
    memcpy(&head, file, sizeof head);
    const uint8_t *blob = file + sizeof head + id->size;
    *blob_size = size - sizeof head - id->size;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || get_number(head.id_size) != id->size ||
        get_number(head.blob_size) != *blob_size ||
        memcmp(file + sizeof head, id->bytes, id->size) != 0)
        return false;
    struct xt_sha256_digest digest = hash_both(id, blob, *blob_size);
    return memcmp(digest.bytes, head.hash, sizeof head.hash) == 0;
}

bool xt_blob_read(const char *folder, const struct xt_blob_id *id, uint8_t **blob, size_t *size)
{
    uint8_t *file = NULL;
    size_t file_size = 0;
    *blob = NULL;
    if (id->size == 0 || id->size > ID_MAX ||
        !xt_cache_file_load(folder, name_of(id).text, &file, &file_size))
        return false;
    if (is_whole(file, file_size, id, size)) {
        memmove(file, file + file_size - *size, *size);
        *blob = file;
        return true;
    }
    free(file);
    return false;
}

static enum xt_status write_parts(struct xt_file_writer *writer, const struct xt_blob_id *id,
                                  const uint8_t *blob, size_t size, struct xt_err *err)
{
    struct head head;
    memcpy(head.magic, magic, sizeof magic);
    put_number(head.id_size, id->size);
    put_number(head.blob_size, size);
    struct xt_sha256_digest digest = hash_both(id, blob, size);
    memcpy(head.hash, digest.bytes, sizeof head.hash);
    enum xt_status status = xt_file_write(writer, &head, sizeof head, err);
    if (!status)
        status = xt_file_write(writer, id->bytes, id->size, err);
    return status ? status : xt_file_write(writer, blob, size, err);
}

static enum xt_status write_blob(const struct xt_kernel_cache *cache, const struct xt_blob_id *id,
                                 const uint8_t *blob, size_t size, struct xt_err *err)
{
    struct xt_file_writer writer = {0};
    char *path = NULL;
    if (cache->bytes + size > XT_KERNEL_CACHE_MOST)
        return xt_err_set(err, XT_ERR_RUN,
                          "it holds %d MB, the most; make room with \"xtrain cache prune\"",
                          XT_KERNEL_CACHE_MOST / 1000000);
    enum xt_status status = xt_file_join(&path, cache->folder, name_of(id).text, err);
    /* Whoever sets a loose umask gets a tight file all the same. */
    mode_t before = umask(077);
    if (!status)
        status = xt_file_begin(&writer, path, err);
    if (!status)
        status = write_parts(&writer, id, blob, size, err);
    if (!status)
        status = xt_file_commit(&writer, err);
    else
        xt_file_abandon(&writer);
    umask(before);
    free(path);
    return status;
}

void xt_blob_keep(struct xt_kernel_cache *cache, const struct xt_blob_id *id, const uint8_t *blob,
                  size_t size)
{
    struct xt_err why = {0};
    if (!cache->writes_blobs)
        return;
    if (write_blob(cache, id, blob, size, &why)) {
        xt_log_warn("kernels are not kept any longer in %s: %s", cache->folder, why.text);
        cache->writes_blobs = false;
        return;
    }
    cache->bytes += size;
}
