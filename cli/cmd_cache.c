/* xtrain cache: the kernels that GPU drivers compiled and that are kept for the next start. Shows
 * them, checks them, throws them away, and carries them from one machine to another. */
#include <archive.h>
#include <archive_entry.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "device/dnnl.h"
#include "device/kernels/kernel_cache.h"

/* One folder of kernels: those of one oneDNN, driver and device. */
struct store {
    char *folder;
    bool ours; /* this machine would use it now */
    struct xt_cache_files files;
    uint64_t bytes;
    int64_t used; /* the newest use of a file */
    size_t bad;
    char unsafe[320]; /* why it was not looked into; "" where it was */
};

struct stores {
    char *base;
    struct store *items;
    size_t count;
    size_t capacity;
};

static void clear_stores(struct stores *stores)
{
    for (size_t i = 0; i < stores->count; i++) {
        xt_cache_files_clear(&stores->items[i].files);
        free(stores->items[i].folder);
    }
    free(stores->items);
    free(stores->base);
    *stores = (struct stores){0};
}

/* --- reading
 * ------------------------------------------------------------------------------------*/
static bool is_key(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

static enum xt_status read_store(struct store *store, struct xt_err *err)
{
    struct xt_err why = {0};
    enum xt_status status = xt_cache_files_read(&store->files, store->folder, &why);
    if (status == XT_ERR_DATA) {
        snprintf(store->unsafe, sizeof store->unsafe, "%.319s", why.text);
        return XT_OK;
    }
    if (status)
        return xt_err_set(err, status, "%s", why.text);
    for (size_t i = 0; i < store->files.count; i++) {
        const struct xt_cache_file *file = &store->files.items[i];
        store->bytes += file->bytes;
        store->bad += !file->fine;
        if (file->used > store->used)
            store->used = file->used;
    }
    return XT_OK;
}

static enum xt_status add_store(struct stores *stores, const char *folder, const char *name,
                                const char *ours, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&stores->items, &stores->capacity, stores->count + 1,
                                        sizeof *stores->items, "the list of caches", err);
    if (!status)
        status = xt_stop_check(err, "before all kernels were looked at");
    if (status)
        return status;
    struct store *store = &stores->items[stores->count];
    *store = (struct store){0};
    status = xt_file_join(&store->folder, folder, name, err);
    if (status)
        return status;
    stores->count++;
    store->ours = strcmp(store->folder, ours) == 0;
    return read_store(store, err);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_key_entry(const struct dirent *entry)
{
    return is_key(entry->d_name);
}

static enum xt_status our_folder(const char *base, char **out, struct xt_err *err)
{
    char library[PATH_MAX];
    enum xt_status status = xt_dnnl_find(XT_DNNL_GPU, library, sizeof library, err);
    return status ? status : xt_kernel_cache_folder(base, library, out, err);
}

static enum xt_status read_stores(struct stores *stores, const char *given, struct xt_err *err)
{
    char *kernels = NULL;
    char *ours = NULL;
    struct dirent **entries = NULL;
    *stores = (struct stores){0};
    enum xt_status status = xt_kernel_cache_base(given, &stores->base, err);
    if (!status)
        status = xt_file_join(&kernels, stores->base, "kernels", err);
    if (!status)
        status = our_folder(stores->base, &ours, err);
    if (!status)
        status = xt_kernel_cache_check_folder(kernels, err);
    int count = status ? 0 : scandir(kernels, &entries, is_key_entry, by_name);
    for (int i = 0; i < count; i++) {
        if (!status)
            status = add_store(stores, kernels, entries[i]->d_name, ours, err);
        free(entries[i]);
    }
    free(entries);
    free(ours);
    free(kernels);
    return status;
}

/* The value of a "# key: value" line; "not told" where there is none. */
static void about_of(const struct store *store, const char *key, char *out, size_t room)
{
    const char *text = xt_str_get(&store->files.about);
    char start[32];
    int length = snprintf(start, sizeof start, "# %s: ", key);
    const char *at = strstr(text, start);
    snprintf(out, room, "not told");
    if (at) {
        at += length;
        size_t fits = strcspn(at, "\n") < room - 1 ? strcspn(at, "\n") : room - 1;
        memcpy(out, at, fits);
        out[fits] = '\0';
    }
}

static void format_day(int64_t when, char out[24])
{
    time_t seconds = (time_t)when;
    struct tm day;
    if (when == 0 || !localtime_r(&seconds, &day) || !strftime(out, 24, "%F %H:%M", &day))
        snprintf(out, 24, "never");
}

/* --- info, list, verify
 * -------------------------------------------------------------------------*/
static enum xt_status info(const struct stores *stores, struct xt_err *err)
{
    (void)err;
    uint64_t bytes = 0;
    size_t kernels = 0;
    const struct store *ours = NULL;
    for (size_t i = 0; i < stores->count; i++) {
        bytes += stores->items[i].bytes;
        kernels += stores->items[i].files.count;
        if (stores->items[i].ours)
            ours = &stores->items[i];
    }
    printf("folder      %s\n", stores->base);
    printf("kernels     %zu in %zu cache%s, %.1f MB\n", kernels, stores->count,
           stores->count == 1 ? "" : "s", (double)bytes / 1e6);
    if (ours)
        printf("used here   %s: %zu kernels, %.1f MB\n", xt_file_name(ours->folder),
               ours->files.count, (double)ours->bytes / 1e6);
    else
        printf("used here   none yet: the first run on an XPU makes one\n");
    return XT_OK;
}

static void print_store(const struct store *store)
{
    char onednn[64];
    char device[96];
    char driver[64];
    char day[24];
    about_of(store, "onednn", onednn, sizeof onednn);
    about_of(store, "device", device, sizeof device);
    about_of(store, "driver", driver, sizeof driver);
    format_day(store->used, day);
    if (*store->unsafe) {
        printf("%s  %s\n", xt_file_name(store->folder), store->unsafe);
        return;
    }
    printf("%s  %zu kernels, %.1f MB, last used %s%s\n", xt_file_name(store->folder),
           store->files.count, (double)store->bytes / 1e6, day,
           store->ours ? ", this machine" : "");
    printf("                  %s, driver %s, oneDNN %s\n", device, driver, onednn);
}

static cJSON *store_to_json(const struct store *store)
{
    cJSON *item = cJSON_CreateObject();
    char text[96];
    bool ok = cJSON_AddStringToObject(item, "folder", store->folder) &&
              cJSON_AddBoolToObject(item, "this_machine", store->ours) &&
              cJSON_AddNumberToObject(item, "kernels", (double)store->files.count) &&
              cJSON_AddNumberToObject(item, "bad", (double)store->bad) &&
              cJSON_AddNumberToObject(item, "bytes", (double)store->bytes) &&
              cJSON_AddNumberToObject(item, "last_used", (double)store->used);
    static const char *const keys[] = {"onednn", "runtime", "device", "driver"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && ok; i++) {
        about_of(store, keys[i], text, sizeof text);
        ok = cJSON_AddStringToObject(item, keys[i], text) != NULL;
    }
    if (ok && *store->unsafe)
        ok = cJSON_AddStringToObject(item, "unsafe", store->unsafe) != NULL;
    if (ok)
        return item;
    cJSON_Delete(item);
    return NULL;
}

static enum xt_status print_json(const struct stores *stores, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *caches = NULL;
    bool ok = cJSON_AddStringToObject(root, "base", stores->base) &&
              (caches = cJSON_AddArrayToObject(root, "caches")) != NULL;
    for (size_t i = 0; i < stores->count && ok; i++)
        ok = cJSON_AddItemToArray(caches, store_to_json(&stores->items[i]));
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the list of caches", 0);
}

static enum xt_status list(const struct stores *stores, struct xt_err *err)
{
    (void)err;
    for (size_t i = 0; i < stores->count; i++)
        print_store(&stores->items[i]);
    if (stores->count == 0)
        printf("no kernels in %s\n", stores->base);
    return XT_OK;
}

static enum xt_status verify(const struct stores *stores, struct xt_err *err)
{
    size_t fine = 0;
    size_t bad = 0;
    for (size_t i = 0; i < stores->count; i++) {
        const struct store *store = &stores->items[i];
        if (*store->unsafe) {
            printf("%s\n", store->unsafe);
            bad++;
        }
        for (size_t f = 0; f < store->files.count; f++) {
            const struct xt_cache_file *file = &store->files.items[f];
            if (!file->fine)
                printf("%s/%s: %s\n", xt_file_name(store->folder), file->name, file->why);
            fine += file->fine;
            bad += !file->fine;
        }
    }
    printf("%zu kernels are as they were recorded, %zu are not\n", fine, bad);
    return bad ? xt_err_set(
                     err, XT_ERR_RUN,
                     "%zu of the cached kernels do not match; they will not be used, and the "
                     "next run compiles them anew",
                     bad)
               : XT_OK;
}

/* --- prune, clear
 * -------------------------------------------------------------------------------*/
static enum xt_status remove_file(const char *folder, const char *name, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_stop_check(err, "before all kernels that were to go were removed");
    if (!status)
        status = xt_file_join(&path, folder, name, err);
    if (!status && unlink(path))
        status = xt_err_set(err, XT_ERR_RUN, "cannot remove %s", path);
    free(path);
    return status;
}

/* A file and the store it is in, for sorting by age. */
struct aged {
    const struct store *store;
    const struct xt_cache_file *file;
};

static int by_age(const void *a, const void *b)
{
    const struct aged *x = a;
    const struct aged *y = b;
    return (x->file->used > y->file->used) - (x->file->used < y->file->used);
}

static enum xt_status sort_files(const struct stores *stores, struct aged **out, size_t *count,
                                 uint64_t *bytes, struct xt_err *err)
{
    size_t all = 0;
    for (size_t i = 0; i < stores->count; i++)
        all += stores->items[i].files.count;
    *count = 0;
    *bytes = 0;
    enum xt_status status = xt_mem_calloc(out, all, sizeof **out, "the list of kernels", err);
    for (size_t i = 0; i < stores->count && !status; i++)
        for (size_t f = 0; f < stores->items[i].files.count; f++) {
            (*out)[(*count)++] = (struct aged){&stores->items[i], &stores->items[i].files.items[f]};
            *bytes += stores->items[i].files.items[f].bytes;
        }
    if (!status && *count)
        qsort(*out, *count, sizeof **out, by_age);
    return status;
}

/* The oldest first, until what is left is young enough and small enough. Indexes keep the names of
 * files that are gone; the next run drops them. */
static enum xt_status prune(const struct stores *stores, const struct xt_settings *settings,
                            struct xt_err *err)
{
    struct aged *files = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    size_t removed = 0;
    uint64_t freed = 0;
    if (settings->max_age <= 0 && settings->max_size <= 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "cache prune needs --max-size MB or --max-age TIME, or both");
    enum xt_status status = sort_files(stores, &files, &count, &bytes, err);
    int64_t oldest = settings->max_age > 0 ? (int64_t)time(NULL) - (int64_t)settings->max_age : 0;
    uint64_t most = settings->max_size > 0 ? (uint64_t)settings->max_size * 1000000 : UINT64_MAX;
    for (size_t i = 0; i < count && !status; i++) {
        const struct xt_cache_file *file = files[i].file;
        if (file->used >= oldest && bytes - freed <= most)
            break;
        status = remove_file(files[i].store->folder, file->name, err);
        removed += !status;
        freed += status ? 0 : file->bytes;
    }
    free(files);
    if (!status)
        printf("removed %zu kernels, %.1f MB; %.1f MB are left\n", removed, (double)freed / 1e6,
               (double)(bytes - freed) / 1e6);
    return status;
}

/* Only what this program or a driver writes there is removed; a folder with anything else stays. */
static enum xt_status clear(const struct stores *stores, struct xt_err *err)
{
    static const char *const own[] = {"index.txt", "lock", "config.file"};
    size_t removed = 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < stores->count && !status; i++) {
        const struct store *store = &stores->items[i];
        for (size_t f = 0; f < store->files.count && !status; f++) {
            status = remove_file(store->folder, store->files.items[f].name, err);
            removed += !status;
        }
        for (size_t o = 0; o < sizeof own / sizeof *own && !*store->unsafe; o++)
            remove_file(store->folder, own[o], NULL);
        rmdir(store->folder);
    }
    if (!status)
        printf("removed %zu kernels\n", removed);
    return status;
}

/* --- export
 * -------------------------------------------------------------------------------------*/
enum { KERNEL_MAX = 1 << 30, ARCHIVE_FILES_MAX = 100000 };

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

static enum xt_status export_store(struct archive *archive, const struct store *store,
                                   const char *to, size_t *count, struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    char name[256];
    enum xt_status status = XT_OK;
    /* What the index says comes first, so that the reader knows what the files are to be. */
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
        char *path = NULL;
        if (!file->fine)
            continue;
        snprintf(name, sizeof name, "kernels/%.16s/%.159s", xt_file_name(store->folder),
                 file->name);
        status = xt_stop_check(err, "before all kernels were read; no archive was written");
        if (!status)
            status = xt_file_join(&path, store->folder, file->name, err);
        if (!status)
            status = xt_file_read(path, KERNEL_MAX, &bytes, &capacity, &size, err);
        if (!status)
            status = add_bytes(archive, name, bytes, size, to, err);
        *count += !status;
        free(path);
    }
    xt_str_clear(&index);
    free(bytes);
    return status;
}

static enum xt_status export(const struct stores *stores, const char *to, struct xt_err *err) {
    char *part = NULL; size_t count = 0;
    if (asprintf(&part, "%s.part-%ld", to, (long)getpid()) <
        0) return xt_err_no_memory(err, "a file name", strlen(to));
    struct archive *archive = archive_write_new();
    enum xt_status status = archive ? XT_OK : xt_err_no_memory(err, "an archive", 0);
    if (!status && (archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
                    archive_write_add_filter_gzip(archive) != ARCHIVE_OK ||
                    archive_write_open_filename(archive, part) != ARCHIVE_OK))
        status = archive_failed(archive, "write", to, XT_ERR_RUN, err);
    for (size_t i = 0; i < stores->count && !status; i++)
        status = export_store(archive, &stores->items[i], to, &count, err);
    if (!status && archive_write_close(archive) != ARCHIVE_OK)
        status = archive_failed(archive, "write", to, XT_ERR_RUN, err);
    if (archive) archive_write_free(archive);
    if (!status && rename(part, to)) status = xt_err_set(err, XT_ERR_RUN, "cannot write %s", to);
    if (status) unlink(part);
    else printf("wrote %zu kernels to %s\n", count, to);
    free(part);
    return status;
}

/* --- import
 * -------------------------------------------------------------------------------------*/
struct importer {
    const char *base;
    const char *from;
    struct xt_cache_files index; /* of the folder that is being read */
    char key[17];
    size_t taken;
    size_t refused;
    size_t seen;
};

/* "kernels/KEY/NAME" taken apart; false for anything else. */
static bool split_name(const char *path, char key[17], const char **name)
{
    if (!path || strncmp(path, "kernels/", 8) != 0 || strlen(path) < 8 + 16 + 2 || path[24] != '/')
        return false;
    memcpy(key, path + 8, 16);
    key[16] = '\0';
    *name = path + 25;
    return is_key(key) && **name && **name != '.' && !strchr(*name, '/');
}

static enum xt_status read_entry(struct archive *archive, struct archive_entry *entry,
                                 const char *from, uint8_t **bytes, size_t *size,
                                 struct xt_err *err)
{
    la_int64_t length = archive_entry_size(entry);
    *bytes = NULL;
    if (!archive_entry_size_is_set(entry) || length <= 0 || length > KERNEL_MAX)
        return xt_err_set(err, XT_ERR_DATA, "%s: an entry has a size that no kernel has", from);
    *size = (size_t)length;
    enum xt_status status = xt_mem_calloc(bytes, *size + 1, 1, "a kernel", err);
    if (!status && archive_read_data(archive, *bytes, *size) != (la_ssize_t)*size)
        status = archive_failed(archive, "read", from, XT_ERR_DATA, err);
    if (status) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

static enum xt_status folder_of(const struct importer *importer, char **out, struct xt_err *err)
{
    char *kernels = NULL;
    enum xt_status status = xt_file_join(&kernels, importer->base, "kernels", err);
    if (!status)
        status = xt_file_join(out, kernels, importer->key, err);
    free(kernels);
    return status;
}

/* Ends a folder: what was taken into it is recorded. */
static enum xt_status finish_folder(struct importer *importer, struct xt_err *err)
{
    char *folder = NULL;
    if (!*importer->key)
        return XT_OK;
    enum xt_status status = folder_of(importer, &folder, err);
    if (!status && xt_file_is_folder(folder))
        status = xt_cache_files_record(folder, xt_str_get(&importer->index.about), err);
    free(folder);
    xt_cache_files_clear(&importer->index);
    *importer->key = '\0';
    return status;
}

static enum xt_status begin_folder(struct importer *importer, const char *key, uint8_t *text,
                                   size_t size, struct xt_err *err)
{
    enum xt_status status = finish_folder(importer, err);
    if (status)
        return status;
    memcpy(importer->key, key, sizeof importer->key);
    text[size] = '\0';
    status = xt_cache_files_parse(&importer->index, (char *)text, err);
    if (!status)
        printf("%s: %zu kernels%s%s", key, importer->index.count,
               importer->index.about.length ? "\n" : "", xt_str_get(&importer->index.about));
    return status;
}

static const struct xt_cache_file *expected(const struct importer *importer, const char *name)
{
    for (size_t i = 0; i < importer->index.count; i++)
        if (strcmp(importer->index.items[i].name, name) == 0)
            return &importer->index.items[i];
    return NULL;
}

static enum xt_status take_kernel(struct importer *importer, const char *name, const uint8_t *bytes,
                                  size_t size, struct xt_err *err)
{
    const struct xt_cache_file *file = expected(importer, name);
    struct xt_sha256_digest digest = xt_sha256(bytes, size);
    char *folder = NULL;
    char *path = NULL;
    if (!file || strcmp(xt_sha256_format(&digest).text, file->sha256) != 0) {
        printf("refused: %s: %s\n", name,
               file ? "its contents are not the recorded ones" : "it was not recorded");
        importer->refused++;
        return XT_OK;
    }
    enum xt_status status = folder_of(importer, &folder, err);
    if (!status)
        status = xt_file_make_folder(folder, err);
    if (!status)
        status = xt_kernel_cache_check_folder(folder, err);
    if (!status)
        status = xt_file_join(&path, folder, name, err);
    if (!status)
        status = xt_file_save(path, bytes, size, err);
    importer->taken += !status;
    free(path);
    free(folder);
    return status;
}

static enum xt_status take_entry(struct importer *importer, struct archive *archive,
                                 struct archive_entry *entry, struct xt_err *err)
{
    char key[17];
    const char *name = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (++importer->seen > ARCHIVE_FILES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "%s: too many entries", importer->from);
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
        !split_name(archive_entry_pathname(entry), key, &name))
        return xt_err_set(
            err, XT_ERR_DATA,
            "%s: it holds something else than kernels/KEY/FILE: it was not written by "
            "xtrain cache export",
            importer->from);
    enum xt_status status = read_entry(archive, entry, importer->from, &bytes, &size, err);
    if (status)
        return status;
    if (strcmp(name, "index.txt") == 0)
        status = begin_folder(importer, key, bytes, size, err);
    else if (strcmp(key, importer->key) != 0)
        status = xt_err_set(err, XT_ERR_DATA, "%s: kernels/%s comes without its index",
                            importer->from, key);
    else
        status = take_kernel(importer, name, bytes, size, err);
    free(bytes);
    return status;
}

static enum xt_status import(const struct stores *stores, const char *from, struct xt_err *err)
{
    struct importer importer = {.base = stores->base, .from = from};
    struct archive *archive = archive_read_new();
    enum xt_status status = archive ? XT_OK : xt_err_no_memory(err, "an archive", 0);
    printf("kernels are code that the GPU driver will load: this trusts whoever wrote %s\n", from);
    mode_t before = umask(077);
    if (!status && (archive_read_support_format_tar(archive) != ARCHIVE_OK ||
                    archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
                    archive_read_open_filename(archive, from, 1 << 16) != ARCHIVE_OK))
        status = archive_failed(archive, "read", from, XT_ERR_DATA, err);
    while (!status) {
        struct archive_entry *entry = NULL;
        status = xt_stop_check(err, "after %zu kernels, which stay", importer.taken);
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
    if (status || end)
        return status ? status : end;
    printf("took %zu kernels, refused %zu\n", importer.taken, importer.refused);
    return importer.refused ? xt_err_set(err, XT_ERR_DATA, "%s: %zu kernels were refused", from,
                                         importer.refused)
                            : XT_OK;
}

/* --- the command
 * --------------------------------------------------------------------------------*/
static const char *const verbs[] = {"info", "list", "prune", "clear", "verify", "export", "import"};
enum verb { INFO, LIST, PRUNE, CLEAR, VERIFY, EXPORT, IMPORT, VERBS };

static enum xt_status find_verb(const struct xt_options *options, enum verb *out,
                                struct xt_err *err)
{
    const char *word = options->arguments[0];
    for (int verb = 0; verb < VERBS; verb++)
        if (strcmp(word, verbs[verb]) == 0) {
            bool takes_file = verb == EXPORT || verb == IMPORT;
            if (options->argument_count != (takes_file ? 2 : 1))
                return xt_err_set(err, XT_ERR_USAGE, "cache %s takes %s", word,
                                  takes_file ? "one file" : "no further argument");
            *out = (enum verb)verb;
            return XT_OK;
        }
    const char *near = xt_str_nearest(word, verbs, VERBS);
    return xt_err_set(
        err, XT_ERR_USAGE,
        "cache has no command %s; it has info, list, prune, clear, verify, export and "
        "import%s%s%s",
        xt_show(word).text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

enum xt_status xt_cmd_cache(struct xt_options *options, struct xt_err *err)
{
    struct stores stores = {0};
    enum verb verb = INFO;
    enum xt_status status = find_verb(options, &verb, err);
    if (!status)
        status = read_stores(&stores, options->values.cache_dir, err);
    if (!status && options->values.json && (verb == INFO || verb == LIST))
        status = print_json(&stores, err);
    else if (!status && verb == INFO)
        status = info(&stores, err);
    else if (!status && verb == LIST)
        status = list(&stores, err);
    else if (!status && verb == VERIFY)
        status = verify(&stores, err);
    else if (!status && verb == PRUNE)
        status = prune(&stores, &options->values, err);
    else if (!status && verb == CLEAR)
        status = clear(&stores, err);
    else if (!status && verb == EXPORT)
        status = export(&stores, options->arguments[1], err);
    else if (!status && verb == IMPORT)
        status = import(&stores, options->arguments[1], err);
    clear_stores(&stores);
    return status;
}
