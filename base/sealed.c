#include "base/sealed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system/trust.h"

struct head {
    char magic[8];
    uint32_t version;
    uint32_t key_size;
    uint64_t body_size;
    struct xt_sha256_digest sum;
};
_Static_assert(sizeof(struct head) == XT_SEALED_HEAD, "the header is laid out as its bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sealed files are little-endian");

static struct xt_sha256_digest sum_of(const struct head *head, const struct xt_sealed *content)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, head, offsetof(struct head, sum));
    xt_sha256_add(&hash, content->key, content->key_size);
    xt_sha256_add(&hash, content->body, content->body_size);
    return xt_sha256_end(&hash);
}

void xt_sealed_head(const struct xt_sealed_kind *kind, const struct xt_sealed *content,
                    uint8_t head[XT_SEALED_HEAD])
{
    struct head made = {.version = kind->version,
                        .key_size = (uint32_t)content->key_size,
                        .body_size = content->body_size};
    memcpy(made.magic, kind->magic, sizeof made.magic);
    made.sum = sum_of(&made, content);
    memcpy(head, &made, sizeof made);
}

bool xt_sealed_check(const struct xt_sealed_kind *kind, const void *bytes, size_t size,
                     struct xt_sealed *content)
{
    struct head head;
    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    size_t left = size - sizeof head;
    if (memcmp(head.magic, kind->magic, sizeof head.magic) != 0 || head.version != kind->version ||
        head.key_size > left || head.body_size != left - head.key_size)
        return false;
    const uint8_t *key = (const uint8_t *)bytes + sizeof head;
    *content = (struct xt_sealed){key, head.key_size, key + head.key_size, left - head.key_size};
    struct xt_sha256_digest sum = sum_of(&head, content);
    return memcmp(&sum, &head.sum, sizeof sum) == 0;
}

bool xt_sealed_is_of(const struct xt_sealed *content, const void *key, size_t key_size)
{
    return content->key_size == key_size && memcmp(content->key, key, key_size) == 0;
}

static enum xt_status write_parts(struct xt_file_writer *writer, const struct xt_sealed_kind *kind,
                                  const struct xt_sealed *content, struct xt_err *err)
{
    uint8_t head[XT_SEALED_HEAD];
    xt_sealed_head(kind, content, head);
    enum xt_status status = xt_file_write(writer, head, sizeof head, err);
    if (!status)
        status = xt_file_write(writer, content->key, content->key_size, err);
    return status ? status : xt_file_write(writer, content->body, content->body_size, err);
}

enum xt_status xt_sealed_write(const struct xt_sealed_kind *kind, const char *path,
                               const struct xt_sealed *content, struct xt_err *err)
{
    struct xt_file_writer writer = {0};
    if (XT_SEALED_HEAD + content->key_size + content->body_size > kind->most)
        return xt_err_set(err, XT_ERR_RUN, "%s would be larger than %u MB", path,
                          (unsigned)(kind->most >> 20));
    enum xt_status status = xt_file_begin(&writer, path, err);
    if (status)
        return status;
    /* Not for group and others, whatever the umask. */
    (void)fchmod(writer.fd, 0600);
    status = write_parts(&writer, kind, content, err);
    if (!status)
        return xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    return status;
}

enum xt_status xt_sealed_read(const struct xt_sealed_kind *kind, const char *path, uint8_t **bytes,
                              struct xt_sealed *content, struct xt_err *err)
{
    struct stat st;
    int fd = -1;
    *bytes = NULL;
    const char *why = xt_trust_open(AT_FDCWD, path, &fd, &st);
    if (why)
        return xt_err_set(err, XT_ERR_DATA, "%s is not used: %s", path, why);
    size_t size = (size_t)st.st_size;
    enum xt_status status = XT_OK;
    if (size > kind->most)
        why = "it is too large";
    else
        status = xt_mem_calloc(bytes, size, 1, path, err);
    if (!status && !why && !xt_file_read_at(fd, 0, *bytes, size))
        why = "it cannot be read";
    close(fd);
    if (!status && !why && !xt_sealed_check(kind, *bytes, size, content))
        why = "it is damaged or of another version";
    if (!why)
        return status;
    free(*bytes);
    *bytes = NULL;
    return xt_err_set(err, XT_ERR_DATA, "%s is not used: %s", path, why);
}
