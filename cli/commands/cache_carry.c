#include "cli/json/result.h"
#include "cli/commands/cache_carry.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system/stop.h"
#include "base/str.h"

/* ---- export ---- */

static enum xt_status archive_failed(struct archive *archive, const char *what, const char *path,
                                     enum xt_status status, struct xt_err *err)
{
    const char *why = archive_error_string(archive);
    return xt_err_set(err, status, "cannot %s %s: %s", what, path, why ? why : "not known why");
}

static enum xt_status add_bytes(struct archive *archive, const char *name, const void *bytes,
                                size_t size, const char *path, struct xt_err *err)
{
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return xt_err_no_memory(err, "an archive", size);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    enum xt_status status = XT_OK;
    if (archive_write_header(archive, entry) != ARCHIVE_OK ||
        archive_write_data(archive, bytes, size) != (la_ssize_t)size)
        status = archive_failed(archive, "write", path, XT_ERR_RUN, err);
    archive_entry_free(entry);
    return status;
}

static enum xt_status export_store(struct archive *archive, const struct xt_cache_store *store,
                                   const char *to, size_t *count, struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    char name[256];
    enum xt_status status = XT_OK;
    /* The index comes first, so that the reader can verify the files. */
    struct xt_str index = {0};
    status = xt_str_printf(&index, err, "%s", xt_str_get(&store->files.about));
    for (size_t i = 0; i < store->files.count && !status; i++)
        if (store->files.items[i].fine)
            status = xt_str_printf(&index, err, "%s %llu %s\n", store->files.items[i].sha256,
                                   (unsigned long long)store->files.items[i].bytes,
                                   store->files.items[i].name);
    snprintf(name, sizeof name, "kernels/%.16s/index.txt", xt_file_name(store->folder));
    if (!status)
        status = add_bytes(archive, name, xt_str_get(&index), index.length, to, err);
    for (size_t i = 0; i < store->files.count && !status; i++) {
        const struct xt_cache_file *file = &store->files.items[i];
        if (!file->fine)
            continue;
        snprintf(name, sizeof name, "kernels/%.16s/%.159s", xt_file_name(store->folder),
                 file->name);
        status = xt_stop_check(err, "before all kernels were read; no archive was written");
        const struct xt_path path = xt_file_path(store->folder, file->name);
        if (!status)
            status = xt_file_read(path.text, XT_CACHE_FILE_MAX, &bytes, &capacity, &size, err);
        if (!status)
            status = add_bytes(archive, name, bytes, size, to, err);
        *count += !status;
    }
    xt_str_clear(&index);
    free(bytes);
    return status;
}

static la_ssize_t write_block(struct archive *archive, void *writer, const void *bytes, size_t size)
{
    if (!xt_file_write(writer, bytes, size, NULL))
        return (la_ssize_t)size;
    archive_set_error(archive, errno, "%s", strerror(errno));
    return -1;
}

static enum xt_status write_archive(const struct xt_cache_stores *stores,
                                    struct xt_file_writer *writer, size_t *count,
                                    struct xt_err *err)
{
    const char *to = writer->path;
    struct archive *archive = archive_write_new();
    if (!archive)
        return xt_err_no_memory(err, "an archive", 0);
    enum xt_status status = XT_OK;
    if (archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(archive) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(archive, 1) != ARCHIVE_OK ||
        archive_write_open(archive, writer, NULL, write_block, NULL) != ARCHIVE_OK)
        status = archive_failed(archive, "write", to, XT_ERR_RUN, err);
    for (size_t i = 0; i < stores->count && !status; i++)
        status = export_store(archive, &stores->items[i], to, count, err);
    if (!status && archive_write_close(archive) != ARCHIVE_OK)
        status = archive_failed(archive, "write", to, XT_ERR_RUN, err);
    archive_write_free(archive);
    return status;
}

enum xt_status xt_cache_export(const struct xt_cache_stores *stores, const char *to,
                               struct xt_err *err)
{
    struct xt_file_writer writer = {0};
    size_t count = 0;
    enum xt_status status = xt_file_begin(&writer, to, err);
    if (!status)
        status = write_archive(stores, &writer, &count, err);
    if (!status)
        status = xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    if (status)
        return status;
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "wrote %s to %s", xt_count((long long)count, "kernel").text, to);
    xt_report_values(report, "written=%zu path=%s", count, to);
    return xt_result_put(report, err);
}

/* ---- import ---- */

/* Limits of an archive, above what any cache holds. Kernels compress four to ten times; gzip bombs
 * a thousand times. */
enum { ENTRIES_MAX = 100000, FOLDERS_MAX = 100, RATIO_MAX = 100, RATIO_FREE = 1 << 20 };

struct importer {
    const char *base;
    const char *from;
    uint64_t left; /* bytes that may still be extracted */
    size_t folders;
    struct xt_cache_files index; /* of the folder being read; `fine`: extracted */
    char key[17];
    size_t taken;
    size_t refused;
    size_t seen;
};

/* Splits "kernels/KEY/NAME"; false for anything else. */
static bool split_name(const char *path, char key[17], const char **name)
{
    if (!path || strncmp(path, "kernels/", 8) != 0 || strlen(path) < 8 + 16 + 2 || path[24] != '/')
        return false;
    memcpy(key, path + 8, 16);
    key[16] = '\0';
    *name = path + 25;
    return xt_cache_is_key(key) && **name && **name != '.' &&
           (!strchr(*name, '/') || xt_cache_is_kernel(*name));
}

static enum xt_status read_entry(struct importer *importer, struct archive *archive,
                                 struct archive_entry *entry, la_int64_t most, uint8_t **bytes,
                                 size_t *size, struct xt_err *err)
{
    const char *from = importer->from;
    la_int64_t length = archive_entry_size(entry);
    *bytes = NULL;
    if (!archive_entry_size_is_set(entry) || length <= 0 || length > most)
        return xt_err_set(err, XT_ERR_DATA, "%s: an entry has a size that no kernel has", from);
    *size = (size_t)length;
    if (*size > importer->left)
        return xt_err_set(
            err, XT_ERR_DATA,
            "%s: it expands to more than any cache of kernels; what was imported before stays",
            from);
    importer->left -= *size;
    enum xt_status status = xt_mem_calloc(bytes, *size + 1, 1, "a kernel", err);
    if (!status && archive_read_data(archive, *bytes, *size) != (la_ssize_t)*size)
        status = archive_failed(archive, "read", from, XT_ERR_DATA, err);
    if (status) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

static struct xt_path folder_of(const struct importer *importer)
{
    return xt_file_path(xt_file_path(importer->base, "kernels").text, importer->key);
}

/* Finishes a folder: records the extracted files, and no other file in it. */
static enum xt_status finish_folder(struct importer *importer, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    bool any = false;
    if (!*importer->key)
        return XT_OK;
    for (size_t i = 0; i < importer->index.count; i++)
        any |= importer->index.items[i].fine;
    if (any)
        status = xt_cache_files_record_taken(folder_of(importer).text, &importer->index, err);
    xt_cache_files_clear(&importer->index);
    *importer->key = '\0';
    return status;
}

/* The folder's description, in lines of its own. */
static void describe_folder(const struct importer *importer)
{
    xt_log_result(stdout, "%s: %s", importer->key,
                  xt_count((long long)importer->index.count, "kernel").text);
    xt_log_result_lines(stdout, xt_str_get(&importer->index.about));
}

static enum xt_status begin_folder(struct importer *importer, const char *key, uint8_t *text,
                                   size_t size, struct xt_err *err)
{
    enum xt_status status = finish_folder(importer, err);
    if (!status && ++importer->folders > FOLDERS_MAX)
        status = xt_err_set(err, XT_ERR_DATA, "%s: too many folders", importer->from);
    if (status)
        return status;
    memcpy(importer->key, key, sizeof importer->key);
    text[size] = '\0';
    status = xt_cache_files_parse(&importer->index, (char *)text, err);
    if (!status)
        describe_folder(importer);
    return status;
}

/* Creates the folder if needed, with the permissions that runs require. */
static enum xt_status make_folder(const char *folder, struct xt_err *err)
{
    enum xt_status status = xt_kernel_cache_check_folders(folder, err);
    if (!status)
        status = xt_file_make_folder(folder, err);
    return status ? status : xt_kernel_cache_check_folders(folder, err);
}

static const char *why_refused(const struct xt_cache_file *file, const uint8_t *bytes, size_t size)
{
    struct xt_sha256_digest digest = xt_sha256(bytes, size);
    if (!file)
        return "it was not recorded";
    if (file->fine)
        return "it comes twice";
    return strcmp(xt_sha256_format(&digest).text, file->sha256) == 0
               ? NULL
               : "its contents are not the recorded ones";
}

static enum xt_status take_kernel(struct importer *importer, const char *name, const uint8_t *bytes,
                                  size_t size, struct xt_err *err)
{
    struct xt_cache_file *file = xt_cache_files_find(&importer->index, name);
    const char *why = why_refused(file, bytes, size);
    if (!file || why) {
        xt_log_result(stdout, "refused: %s: %s", name, why);
        importer->refused++;
        return XT_OK;
    }
    const struct xt_path folder = folder_of(importer);
    struct xt_path path = xt_file_path(folder.text, name);
    enum xt_status status = make_folder(folder.text, err);
    char *slash = !status && strchr(name, '/') ? strrchr(path.text, '/') : NULL;
    if (slash) {
        *slash = '\0';
        status = make_folder(path.text, err);
        *slash = '/';
    }
    if (!status)
        status = xt_file_save(path.text, bytes, size, err);
    file->bytes = size;
    file->fine = !status;
    importer->taken += !status;
    return status;
}

static enum xt_status take_entry(struct importer *importer, struct archive *archive,
                                 struct archive_entry *entry, struct xt_err *err)
{
    char key[17];
    const char *name = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (++importer->seen > ENTRIES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "%s: too many entries", importer->from);
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
        !split_name(archive_entry_pathname(entry), key, &name))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s: it contains something other than kernels/KEY/FILE: it was not "
                          "written by xtrain cache export",
                          importer->from);
    bool is_index = strcmp(name, "index.txt") == 0;
    enum xt_status status =
        read_entry(importer, archive, entry, is_index ? XT_CACHE_INDEX_MAX : XT_CACHE_FILE_MAX,
                   &bytes, &size, err);
    if (status)
        return status;
    if (is_index)
        status = begin_folder(importer, key, bytes, size, err);
    else if (strcmp(key, importer->key) != 0)
        status = xt_err_set(err, XT_ERR_DATA, "%s: kernels/%s has no index", importer->from, key);
    else
        status = take_kernel(importer, name, bytes, size, err);
    free(bytes);
    return status;
}

enum xt_status xt_cache_import(const struct xt_cache_stores *stores, const char *from,
                               struct xt_err *err)
{
    struct importer importer = {.base = stores->base, .from = from};
    int fd = -1;
    size_t size = 0;
    enum xt_status status = xt_file_open(from, &fd, &size, err);
    if (status)
        return status;
    struct archive *archive = archive_read_new();
    status = archive ? XT_OK : xt_err_no_memory(err, "an archive", 0);
    importer.left = size < XT_KERNEL_CACHE_MOST / RATIO_MAX ? size * RATIO_MAX + RATIO_FREE
                                                            : XT_KERNEL_CACHE_MOST;
    xt_log_note("kernels are code that the GPU driver will load: importing trusts the author of %s",
                from);
    mode_t before = umask(077);
    if (!status && (archive_read_support_format_tar(archive) != ARCHIVE_OK ||
                    archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
                    archive_read_open_fd(archive, fd, 1 << 16) != ARCHIVE_OK))
        status = archive_failed(archive, "read", from, XT_ERR_DATA, err);
    while (!status) {
        struct archive_entry *entry = NULL;
        status = xt_stop_check(err, "after %s, which stay",
                               xt_count((long long)importer.taken, "kernel").text);
        int result = status ? ARCHIVE_EOF : archive_read_next_header(archive, &entry);
        if (result == ARCHIVE_EOF)
            break;
        status = result == ARCHIVE_OK ? take_entry(&importer, archive, entry, err)
                                      : archive_failed(archive, "read", from, XT_ERR_DATA, err);
    }
    struct xt_err *last = status ? NULL : err;
    enum xt_status end = finish_folder(&importer, last);
    umask(before);
    if (archive)
        archive_read_free(archive);
    close(fd);
    if (status || end)
        return status ? status : end;
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "taken", NULL, "%zu", importer.taken);
    xt_report_line(report, "took %s, refused %zu",
                   xt_count((long long)importer.taken, "kernel").text, importer.refused);
    xt_report_add(report, "refused", NULL, "%zu", importer.refused);
    status = xt_result_put(report, err);
    if (status)
        return status;
    return importer.refused ? xt_err_set(err, XT_ERR_DATA, "%s: refused %s", from,
                                         xt_count((long long)importer.refused, "kernel").text)
                            : XT_OK;
}
