#include "data/sources/index/index_cache.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sealed.h"
#include "base/sha256.h"

static const struct xt_sealed_kind kind = {"XTINDEX", 2, XT_INDEX_BYTES_MAX};

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

void xt_index_put_u32(struct xt_str *body, size_t value)
{
    uint32_t number = (uint32_t)value;
    xt_str_append(body, (const char *)&number, sizeof number, NULL);
}

void xt_index_put_u64(struct xt_str *body, uint64_t value)
{
    xt_str_append(body, (const char *)&value, sizeof value, NULL);
}

void xt_index_put_text(struct xt_str *body, const char *text)
{
    size_t size = strlen(text);
    xt_index_put_u32(body, size);
    xt_str_append(body, text, size, NULL);
}

/* ---- the file ---- */

bool xt_index_check(const uint8_t *bytes, size_t size, const char *key, const uint8_t **body,
                    size_t *body_size)
{
    struct xt_sealed content;
    if (!xt_sealed_check(&kind, bytes, size, &content) ||
        !xt_sealed_is_of(&content, key, strlen(key)))
        return false;
    *body = content.body;
    *body_size = content.body_size;
    return true;
}

/* The cache's folder into *out, NULL if there is none. */
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

static enum xt_status load_file(const char *path, const char *key, uint8_t **file,
                                const uint8_t **body, size_t *size, struct xt_err *err)
{
    struct xt_sealed content;
    struct xt_err why;
    if (!xt_file_exists(path))
        return XT_OK;
    enum xt_status status = xt_sealed_read(&kind, path, file, &content, &why);
    if (status == XT_ERR_MEMORY) {
        *err = why;
        return status;
    }
    if (status) {
        xt_log_detail("%s; it is built anew", why.text);
    } else if (xt_sealed_is_of(&content, key, strlen(key))) {
        *body = content.body;
        *size = content.body_size;
    }
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

/* Removes the oldest file if there are too many. */
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

void xt_index_save(const char *key, const struct xt_str *body)
{
    char *folder = NULL;
    char *path = NULL;
    struct xt_err err;
    const struct xt_sealed content = {key, strlen(key), xt_str_get(body), body->length};
    enum xt_status status = folder_of(&folder, &err);
    if (!status && folder)
        status = xt_file_make_folder(folder, &err);
    if (!status && folder)
        status = path_of(&path, folder, key, &err);
    if (!status && path)
        status = xt_sealed_write(&kind, path, &content, &err);
    if (status)
        xt_log_detail("the list of files is not cached for the next start: %s", err.text);
    else if (folder)
        prune(folder);
    free(path);
    free(folder);
}
