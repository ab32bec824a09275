#include "data/sources/index_cache.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"

/* The file: this head, then the key and the body, of which it has the checksum. */
struct head {
    char magic[16];
    uint64_t size; /* of the file */
    struct xt_sha256_digest sum;
};
static const char magic[16] = "xtrain index 1\n";

/* ---- a body ---- */

static const void *take(struct xt_index_reader *reader, size_t size)
{
    reader->bad |= size > reader->left;
    if (reader->bad)
        return NULL;
    const void *taken = reader->at;
    reader->at += size;
    reader->left -= size;
    return taken;
}

uint32_t xt_index_u32(struct xt_index_reader *reader)
{
    uint32_t value = 0;
    const void *bytes = take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

uint64_t xt_index_u64(struct xt_index_reader *reader)
{
    uint64_t value = 0;
    const void *bytes = take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

const char *xt_index_text(struct xt_index_reader *reader, size_t *size)
{
    *size = xt_index_u32(reader);
    const char *text = take(reader, *size);
    reader->bad |= text && memchr(text, '\0', *size);
    return reader->bad ? NULL : text;
}

enum xt_status xt_index_put_u32(struct xt_str *body, size_t value, struct xt_err *err)
{
    uint32_t number = (uint32_t)value;
    return xt_str_append(body, (const char *)&number, sizeof number, err);
}

enum xt_status xt_index_put_u64(struct xt_str *body, uint64_t value, struct xt_err *err)
{
    return xt_str_append(body, (const char *)&value, sizeof value, err);
}

enum xt_status xt_index_put_text(struct xt_str *body, const char *text, size_t size,
                                 struct xt_err *err)
{
    enum xt_status status = xt_index_put_u32(body, size, err);
    return status ? status : xt_str_append(body, text, size, err);
}

/* ---- the file ---- */

bool xt_index_check(const uint8_t *bytes, size_t size, const char *key, const uint8_t **body,
                    size_t *body_size)
{
    struct head head;
    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.size != size)
        return false;
    struct xt_index_reader reader = {.at = bytes + sizeof head, .left = size - sizeof head};
    struct xt_sha256_digest sum = xt_sha256(reader.at, reader.left);
    if (memcmp(&sum, &head.sum, sizeof sum) != 0)
        return false;
    size_t key_size = 0;
    const char *found = xt_index_text(&reader, &key_size);
    if (!found || key_size != strlen(key) || memcmp(found, key, key_size) != 0)
        return false;
    *body = reader.at;
    *body_size = reader.left;
    return true;
}

/* The folder of the files into *out, NULL where there is none. */
static enum xt_status folder_of(char **out, struct xt_err *err)
{
    char *base = NULL;
    *out = NULL;
    enum xt_status status = xt_file_cache_base(&base, err);
    if (!status && base)
        status = xt_file_join(out, base, "index", err);
    free(base);
    return status;
}

/* The key's file into *out. */
static enum xt_status path_of(char **out, const char *folder, const char *key, struct xt_err *err)
{
    enum { DIGITS = 32 };
    struct xt_sha256_digest digest = xt_sha256(key, strlen(key));
    struct xt_sha256_text name = xt_sha256_format(&digest);
    name.text[DIGITS] = '\0';
    return xt_file_join(out, folder, name.text, err);
}

static bool is_ours(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

static enum xt_status load_file(const char *path, const char *key, uint8_t **file,
                                const uint8_t **body, size_t *size, struct xt_err *err)
{
    size_t capacity = 0;
    size_t bytes = 0;
    struct xt_err why;
    if (!is_ours(path))
        return XT_OK;
    enum xt_status status = xt_file_read(path, XT_INDEX_BYTES_MAX, file, &capacity, &bytes, &why);
    if (status == XT_ERR_MEMORY) {
        *err = why;
        return status;
    }
    if (status)
        xt_log_detail("%s", why.text);
    else if (!xt_index_check(*file, bytes, key, body, size))
        xt_log_detail("%s is damaged or of something else: it is made again", path);
    return XT_OK;
}

enum xt_status xt_index_load(const char *key, uint8_t **file, const uint8_t **body, size_t *size,
                             struct xt_err *err)
{
    char *folder = NULL;
    char *path = NULL;
    *file = NULL;
    *body = NULL;
    enum xt_status status = folder_of(&folder, err);
    if (!status && folder)
        status = path_of(&path, folder, key, err);
    if (!status && path)
        status = load_file(path, key, file, body, size, err);
    free(path);
    free(folder);
    return status;
}

/* Removes the file that was written longest ago, where there are too many. */
static void prune(const char *folder)
{
    DIR *dir = opendir(folder);
    char oldest[NAME_MAX + 1] = "";
    time_t when = 0;
    size_t count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0))
            continue;
        if (count++ == 0 || st.st_mtim.tv_sec < when) {
            when = st.st_mtim.tv_sec;
            snprintf(oldest, sizeof oldest, "%s", entry->d_name);
        }
    }
    if (dir && count > XT_INDEX_FILES_MAX)
        (void)unlinkat(dirfd(dir), oldest, 0);
    if (dir)
        closedir(dir);
}

static enum xt_status save_file(const char *path, const char *key, const struct xt_str *body,
                                struct xt_err *err)
{
    struct head head = {.size = sizeof head};
    struct xt_str file = {0};
    memcpy(head.magic, magic, sizeof magic);
    enum xt_status status = xt_str_append(&file, (const char *)&head, sizeof head, err);
    if (!status)
        status = xt_index_put_text(&file, key, strlen(key), err);
    if (!status)
        status = xt_str_append(&file, xt_str_get(body), body->length, err);
    if (!status && file.length > XT_INDEX_BYTES_MAX)
        status = xt_err_set(err, XT_ERR_RUN, "%s would be larger than %d MB", path,
                            XT_INDEX_BYTES_MAX >> 20);
    if (!status) {
        head.size = file.length;
        head.sum = xt_sha256(file.data + sizeof head, file.length - sizeof head);
        memcpy(file.data, &head, sizeof head);
        status = xt_file_save(path, file.data, file.length, err);
    }
    xt_str_clear(&file);
    return status;
}

void xt_index_save(const char *key, const struct xt_str *body)
{
    char *folder = NULL;
    char *path = NULL;
    struct xt_err err;
    enum xt_status status = folder_of(&folder, &err);
    if (!status && folder)
        status = xt_file_make_folder(folder, &err);
    if (!status && folder)
        status = path_of(&path, folder, key, &err);
    if (!status && path)
        status = save_file(path, key, body, &err);
    if (status)
        xt_log_detail("the list of files is not kept for the next start: %s", err.text);
    else if (folder)
        prune(folder);
    free(path);
    free(folder);
}
