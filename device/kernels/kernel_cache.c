#include "device/kernels/kernel_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system/trust.h"
#include "device/gpu/capture.h"
#include "device/gpu/host_gpu.h"

enum { INDEX_LINES_MAX = 100000 };
static const char index_name[] = "index.txt";
static const char lock_name[] = "lock";

void xt_cache_files_clear(struct xt_cache_files *files)
{
    free(files->items);
    xt_str_clear(&files->about);
    *files = (struct xt_cache_files){0};
}

enum xt_status xt_kernel_cache_check_folder(const char *path, struct xt_err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT
                   ? XT_OK
                   : xt_err_system(err, XT_ERR_DATA, "the kernel cache %s cannot be read", path);
    const char *why = NULL;
    if (S_ISLNK(st.st_mode))
        why = "it is a symbolic link";
    else if (!S_ISDIR(st.st_mode))
        why = "it is not a folder";
    else
        why = xt_trust_stranger(&st);
    if (!why)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA, "the kernel cache %s is not used: %s", path, why);
}

/* --- the index
 * ----------------------------------------------------------------------------------*/
static bool is_digit_folder(const char *name)
{
    return isxdigit((unsigned char)name[0]) && !name[1];
}

/* Newer drivers (26.27) store a kernel in folders by the first digits of its name: "3/9/39c4...".
 */
bool xt_cache_is_kernel(const char *name)
{
    size_t length = strlen(name);
    bool nested = length > 4 && isxdigit((unsigned char)name[0]) && name[1] == '/' &&
                  isxdigit((unsigned char)name[2]) && name[3] == '/';
    const char *file = nested ? name + 4 : name;
    return strlen(file) > 6 && length < sizeof((struct xt_cache_file *)0)->name && *file != '.' &&
           strcmp(name + length - 6, "_cache") == 0 && !strchr(file, '/');
}

/* What `walk` calls for each kernel; `name` is relative to the cache's folder. */
typedef enum xt_status visit(void *context, const char *name, struct xt_err *err);

/* A folder that the driver made: its mode is that of the process's umask. */
static enum xt_status check_inner(const char *path, struct xt_err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        chmod(path, st.st_mode & 0755);
    return xt_kernel_cache_check_folder(path, err);
}

/* `inner`: "", "3/" or "3/9/", the part of `path` inside the cache's folder. */
static enum xt_status walk(const char *path, const char *inner, visit *each, void *context,
                           struct xt_err *err)
{
    enum xt_status status = XT_OK;
    DIR *dir = opendir(path);
    if (!dir)
        return xt_err_system(err, XT_ERR_DATA, "the kernel cache %s cannot be read", path);
    for (const struct dirent *entry = readdir(dir); entry && !status; entry = readdir(dir)) {
        char name[sizeof((struct xt_cache_file *)0)->name];
        bool folder = strlen(inner) < 4 && is_digit_folder(entry->d_name);
        if (snprintf(name, sizeof name, "%s%s%s", inner, entry->d_name, folder ? "/" : "") >=
            (int)sizeof name)
            continue;
        if (xt_cache_is_kernel(name))
            status = each(context, name, err);
        if (!folder)
            continue;
        char *below = NULL;
        status = xt_file_join(&below, path, entry->d_name, err);
        if (!status)
            status = check_inner(below, err);
        if (!status)
            status = walk(below, name, each, context, err);
        free(below);
    }
    closedir(dir);
    return status;
}

static void remove_folders(const char *path, int levels)
{
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char *below = NULL;
        if (!is_digit_folder(entry->d_name) || xt_file_join(&below, path, entry->d_name, NULL))
            continue;
        if (levels > 1)
            remove_folders(below, levels - 1);
        rmdir(below);
        free(below);
    }
    if (dir)
        closedir(dir);
}

void xt_cache_remove_folders(const char *folder)
{
    remove_folders(folder, 2);
}

static int by_name(const void *a, const void *b)
{
    const struct xt_cache_file *x = a;
    const struct xt_cache_file *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->sha256, y->sha256);
}

static int named(const void *name, const void *file)
{
    return strcmp(name, ((const struct xt_cache_file *)file)->name);
}

struct xt_cache_file *xt_cache_files_find(const struct xt_cache_files *files, const char *name)
{
    return files->recorded
               ? bsearch(name, files->items, files->recorded, sizeof *files->items, named)
               : NULL;
}

static enum xt_status add_file(struct xt_cache_files *files, const char *name,
                               struct xt_cache_file **out, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&files->items, &files->capacity, files->count + 1,
                                        sizeof *files->items, "the list of cached kernels", err);
    if (status)
        return status;
    *out = &files->items[files->count++];
    **out = (struct xt_cache_file){.why = "it is gone"};
    size_t length = strnlen(name, sizeof(*out)->name - 1);
    memcpy((*out)->name, name, length);
    return XT_OK;
}

/* Printable as it is. */
static bool is_printable(const char *line)
{
    for (; *line; line++)
        if ((unsigned char)*line < ' ' || *line == 0x7f)
            return false;
    return true;
}

/* One line of the index, which this program writes but which may be damaged: an invalid line is
 * skipped, so its file counts as unrecorded. */
static enum xt_status take_line(struct xt_cache_files *files, const char *line, struct xt_err *err)
{
    if (*line == '#' && !is_printable(line))
        return XT_OK;
    if (*line == '#')
        return xt_str_printf(&files->about, err, "%s\n", line);
    char hash[65] = "";
    char name[160] = "";
    unsigned long long bytes = 0;
    if (sscanf(line, "%64[0-9a-f] %llu %159s", hash, &bytes, name) != 3 || strlen(hash) != 64 ||
        !xt_cache_is_kernel(name) || files->count >= INDEX_LINES_MAX)
        return XT_OK;
    struct xt_cache_file *file = NULL;
    enum xt_status status = add_file(files, name, &file, err);
    if (status)
        return status;
    memcpy(file->sha256, hash, sizeof hash);
    file->bytes = bytes;
    return XT_OK;
}

enum xt_status xt_cache_files_parse(struct xt_cache_files *files, char *text, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (char *line = strsep(&text, "\n"); line && !status; line = strsep(&text, "\n"))
        if (*line)
            status = take_line(files, line, err);
    if (files->count)
        qsort(files->items, files->count, sizeof *files->items, by_name);
    for (size_t i = 0; i < files->count; i++)
        if (!i || strcmp(files->items[i].name, files->items[files->recorded - 1].name) != 0)
            files->items[files->recorded++] = files->items[i];
    files->count = files->recorded;
    return status;
}

/* The index's text (free), NULL if there is none that can be trusted. */
static char *index_text(const char *path)
{
    uint8_t *text = NULL;
    size_t capacity = 0;
    size_t size = 0;
    struct stat st;
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || xt_trust_stranger(&st))
        return NULL;
    if (xt_file_read(path, XT_CACHE_INDEX_MAX, &text, &capacity, &size, NULL)) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return (char *)text;
}

static enum xt_status read_index(struct xt_cache_files *files, const char *folder,
                                 struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, folder, index_name, err);
    char *text = status ? NULL : index_text(path);
    if (text)
        status = xt_cache_files_parse(files, text, err);
    free(text);
    free(path);
    return status;
}

/* An unchanged index is not rewritten, so it keeps its mode (a container image may have set it). */
static enum xt_status write_index(const char *folder, const struct xt_str *text, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, folder, index_name, err);
    char *before = status ? NULL : index_text(path);
    if (!status && (!before || strcmp(before, xt_str_get(text)) != 0))
        status = xt_file_save(path, xt_str_get(text), text->length, err);
    free(before);
    free(path);
    return status;
}

/* The hash of an open file; false where it cannot be read. */
static bool hash_file(int fd, uint64_t bytes, char out[65])
{
    uint8_t *block = malloc(1 << 16);
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    uint64_t left = bytes;
    while (block && left) {
        ssize_t got = read(fd, block, left < 1 << 16 ? left : 1 << 16);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        xt_sha256_add(&hash, block, (size_t)got);
        left -= (uint64_t)got;
    }
    bool fine = block && left == 0;
    free(block);
    struct xt_sha256_digest digest = xt_sha256_end(&hash);
    memcpy(out, xt_sha256_format(&digest).text, 65);
    return fine;
}

/* What is wrong with the file itself, whatever the index says; NULL: nothing. Without `hash` its
 * contents are not read. */
static const char *inspect(int folder, struct xt_cache_file *file, uint64_t *bytes, char hash[65])
{
    struct stat st;
    int fd = -1;
    const char *why = xt_trust_open(folder, file->name, &fd, &st);
    if (why)
        return why;
    *bytes = (uint64_t)st.st_size;
    file->used = st.st_mtime > st.st_atime ? st.st_mtime : st.st_atime;
    if (st.st_size <= 0 || st.st_size > XT_CACHE_FILE_MAX)
        why = "its size is not that of a kernel";
    else if (hash && !hash_file(fd, *bytes, hash))
        why = "it cannot be read";
    close(fd);
    return why;
}

static void check_file(int folder, struct xt_cache_file *file, bool hashed)
{
    char hash[65] = "";
    uint64_t bytes = 0;
    file->why = inspect(folder, file, &bytes, hashed ? hash : NULL);
    if (!file->why && !*file->sha256)
        file->why = "it was not recorded";
    else if (!file->why && bytes != file->bytes)
        file->why = "its length is not the recorded one";
    else if (!file->why && hashed && strcmp(hash, file->sha256) != 0)
        file->why = "its contents are not the recorded ones";
    file->fine = !file->why;
    if (bytes)
        file->bytes = bytes;
}

struct reading {
    struct xt_cache_files *files;
    int folder;
    bool hashed;
};

static enum xt_status take_entry(void *context, const char *name, struct xt_err *err)
{
    const struct reading *reading = context;
    struct xt_cache_file *file = xt_cache_files_find(reading->files, name);
    enum xt_status status = file ? XT_OK : add_file(reading->files, name, &file, err);
    if (!status)
        check_file(reading->folder, file, reading->hashed);
    return status;
}

static enum xt_status read_folder(struct xt_cache_files *files, const char *folder, bool hashed,
                                  struct xt_err *err)
{
    struct reading reading = {files, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), hashed};
    enum xt_status status = walk(folder, "", take_entry, &reading, err);
    if (reading.folder >= 0)
        close(reading.folder);
    return status;
}

/* Files of the index that the driver has evicted since are dropped. */
static void drop_gone(struct xt_cache_files *files)
{
    size_t used = 0;
    for (size_t i = 0; i < files->count; i++)
        if (files->items[i].fine || strcmp(files->items[i].why, "it is gone") != 0)
            files->items[used++] = files->items[i];
    files->count = used;
    files->recorded = 0; /* the first ones are no longer sorted */
}

static enum xt_status read_files(struct xt_cache_files *files, const char *folder, bool hashed,
                                 struct xt_err *err)
{
    *files = (struct xt_cache_files){0};
    enum xt_status status = xt_kernel_cache_check_folder(folder, err);
    if (!status)
        status = read_index(files, folder, err);
    if (!status)
        status = read_folder(files, folder, hashed, err);
    if (status)
        xt_cache_files_clear(files);
    else
        drop_gone(files);
    return status;
}

enum xt_status xt_cache_files_read(struct xt_cache_files *files, const char *folder,
                                   struct xt_err *err)
{
    return read_files(files, folder, true, err);
}

/* A new file gets its current hash; a recorded one keeps its record, right or wrong. */
static void adopt(int folder, struct xt_cache_file *file)
{
    uint64_t bytes = 0;
    if (!*file->sha256 && !inspect(folder, file, &bytes, file->sha256)) {
        file->bytes = bytes;
        file->fine = true;
    }
}

/* An imported file has the record it came with, whatever was recorded before. */
static void take_over(int folder, const struct xt_cache_files *taken, struct xt_cache_file *file)
{
    const struct xt_cache_file *from = xt_cache_files_find(taken, file->name);
    if (!from || !from->fine)
        return;
    memcpy(file->sha256, from->sha256, sizeof file->sha256);
    file->bytes = from->bytes;
    check_file(folder, file, true);
}

static enum xt_status record(const char *folder, const char *about,
                             const struct xt_cache_files *taken, struct xt_err *err)
{
    struct xt_cache_files files;
    struct xt_str text = {0};
    /* Recorded hashes stay, so only new files are hashed here. */
    enum xt_status status = read_files(&files, folder, false, err);
    if (status)
        return status;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    status = xt_str_printf(&text, err, "%s", about ? about : xt_str_get(&files.about));
    for (size_t i = 0; i < files.count && !status; i++) {
        if (taken)
            take_over(fd, taken, &files.items[i]);
        else
            adopt(fd, &files.items[i]);
        if (files.items[i].fine)
            status = xt_str_printf(&text, err, "%s %llu %s\n", files.items[i].sha256,
                                   (unsigned long long)files.items[i].bytes, files.items[i].name);
    }
    if (!status)
        status = write_index(folder, &text, err);
    if (fd >= 0)
        close(fd);
    xt_str_clear(&text);
    xt_cache_files_clear(&files);
    return status;
}

enum xt_status xt_cache_files_record_taken(const char *folder, const struct xt_cache_files *taken,
                                           struct xt_err *err)
{
    return record(folder, xt_str_get(&taken->about), taken, err);
}

void xt_cache_about(const char *about, const char *key, char *out, size_t room)
{
    char start[32];
    int length = snprintf(start, sizeof start, "# %s: ", key);
    const char *at = strstr(about, start);
    snprintf(out, room, "not told");
    if (at) {
        at += length;
        size_t fits = strcspn(at, "\n") < room - 1 ? strcspn(at, "\n") : room - 1;
        memcpy(out, at, fits);
        out[fits] = '\0';
    }
}

/* --- choosing the folder
 * ------------------------------------------------------------------------*/
enum xt_status xt_kernel_cache_base(const char *given, char **out, struct xt_err *err)
{
    *out = NULL;
    if (given)
        return xt_mem_strdup(out, given, err);
    enum xt_status status = xt_file_cache_base(out, err);
    if (status || *out)
        return status;
    return xt_err_set(err, XT_ERR_RUN,
                      "there is no folder for the kernel cache: HOME is not set; name one with "
                      "--kernel-cache-dir");
}

/* By name and size, so that a cache can be carried to a machine with the same files. */
static enum xt_status add_identity(const char *path, struct xt_str *out, struct xt_err *err)
{
    struct stat st;
    char *real = realpath(path, NULL);
    enum xt_status status = xt_str_printf(out, err, "%s", xt_file_name(real ? real : path));
    if (!status && real && stat(real, &st) == 0)
        status = xt_str_printf(out, err, " %lld", (long long)st.st_size);
    free(real);
    return status;
}

/* The kinds of GPUs in this machine, by their PCI device ids, sorted. */
static int list_kinds(uint32_t kinds[XT_RENDER_NODES_MAX])
{
    struct xt_host_gpu host;
    int count = 0;
    if (xt_capture_device(&kinds[0]))
        return 1;
    xt_host_gpu_read(&host, "");
    for (int i = 0; i < host.count; i++) {
        uint32_t device = host.nodes[i].device;
        int at = count;
        while (at > 0 && kinds[at - 1] > device)
            at--;
        if (at > 0 && kinds[at - 1] == device)
            continue;
        memmove(kinds + at + 1, kinds + at, (size_t)(count - at) * sizeof *kinds);
        kinds[at] = device;
        count++;
    }
    return count;
}

/* What compiled kernels depend on, as text: oneDNN's file, the drivers' files, the devices, and
 * variables that change the driver's behaviour. */
static enum xt_status describe_machine(const char *library, const uint32_t *kinds, int count,
                                       struct xt_str *out, struct xt_err *err)
{
    static const char *const variables[] = {"NEOReadDebugKeys", "ProductFamilyOverride",
                                            "ForceDeviceId", "HardwareInfoOverride"};
    uint32_t device = 0;
    bool told = xt_capture_device(&device);
    enum xt_status status = add_identity(library, out, err);
    if (!status)
        status = xt_str_printf(out, err, "\n");
    if (!status)
        status = xt_host_gpu_driver_files(xt_capture_driver_root(), out, err);
    for (int i = 0; i < count && !status; i++)
        status = xt_str_printf(out, err, "gpu %04x\n", kinds[i]);
    for (size_t i = 0; i < sizeof variables / sizeof *variables && !status && !told; i++)
        if (getenv(variables[i]))
            status = xt_str_printf(out, err, "%s=%s\n", variables[i], getenv(variables[i]));
    return status;
}

/* The folder for these kinds of GPUs, and the text that its name is hashed from. */
static enum xt_status name_folder(const char *base, const char *library, const uint32_t *kinds,
                                  int count, struct xt_str *machine, char **out, struct xt_err *err)
{
    char *name = NULL;
    xt_str_clear(machine);
    enum xt_status status = describe_machine(library, kinds, count, machine, err);
    if (!status) {
        struct xt_sha256_digest digest = xt_sha256(xt_str_get(machine), machine->length);
        if (asprintf(&name, "kernels/%.16s", xt_sha256_format(&digest).text) < 0) {
            name = NULL;
            status = xt_err_no_memory(err, "a file name", 0);
        }
    }
    if (!status)
        status = xt_file_join(out, base, name, err);
    free(name);
    return status;
}

static enum xt_status choose_folder(const char *base, const char *library, struct xt_str *machine,
                                    char **out, struct xt_err *err)
{
    uint32_t kinds[XT_RENDER_NODES_MAX];
    int count = list_kinds(kinds);
    for (int i = 0; count > 1 && i < count; i++) {
        enum xt_status status = name_folder(base, library, &kinds[i], 1, machine, out, err);
        if (status || xt_file_is_folder(*out))
            return status;
        free(*out);
        *out = NULL;
    }
    return name_folder(base, library, kinds, count, machine, out, err);
}

enum xt_status xt_kernel_cache_folder(const char *base, const char *library, char **out,
                                      struct xt_err *err)
{
    struct xt_str machine = {0};
    enum xt_status status = choose_folder(base, library, &machine, out, err);
    xt_str_clear(&machine);
    return status;
}

enum xt_status xt_kernel_cache_check_folders(const char *folder, struct xt_err *err)
{
    char path[PATH_MAX];
    size_t length = strlen(folder);
    if (length >= sizeof path)
        return xt_err_set(err, XT_ERR_DATA, "the name of the kernel cache is too long: %s", folder);
    memcpy(path, folder, length + 1);
    enum xt_status status = xt_kernel_cache_check_folder(path, err);
    for (int up = 0; up < 2 && !status; up++) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            break;
        *slash = '\0';
        status = xt_kernel_cache_check_folder(path, err);
    }
    return status;
}

static void share_lock(const struct xt_kernel_cache *cache)
{
    while (flock(cache->lock, LOCK_SH) && errno == EINTR)
        continue;
}

/* Takes the lock, exclusively if no other process has it (*alone): others then wait in share_lock,
 * when the files they write can no longer be taken for leftovers. A read-only folder needs no
 * lock. */
static void take_lock(struct xt_kernel_cache *cache, bool *alone)
{
    char *path = NULL;
    *alone = false;
    if (xt_file_join(&path, cache->folder, lock_name, NULL))
        return;
    cache->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(path);
    cache->writable = cache->lock >= 0;
    if (cache->writable) {
        *alone = flock(cache->lock, LOCK_EX | LOCK_NB) == 0;
        if (!*alone)
            share_lock(cache);
    }
}

__attribute__((format(printf, 2, 3))) static void note(struct xt_kernel_cache *cache,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(cache->note, sizeof cache->note, format, args);
    va_end(args);
}

static enum xt_status drop_kernel(void *context, const char *name, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, context, name, err);
    if (!status && unlink(path))
        status = xt_err_system(err, XT_ERR_DATA, "cannot remove %s", path);
    free(path);
    return status;
}

static bool leave_out(struct xt_kernel_cache *cache, const struct xt_cache_file *file)
{
    return cache->writable && !drop_kernel(cache->folder, file->name, NULL);
}

/* Removes files that do not match; false if the folder cannot be used because of it. */
static bool clean(struct xt_kernel_cache *cache, const struct xt_cache_files *files, bool alone)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct xt_cache_file *file = &files->items[i];
        /* Another process is using the folder: files that it has not recorded yet are left
         * alone. */
        bool unrecorded =
            !*file->sha256 && strcmp(file->why ? file->why : "", "it was not recorded") == 0;
        if (file->fine || (unrecorded && !alone && cache->writable)) {
            cache->valid++;
            cache->bytes += file->bytes;
            continue;
        }
        if (!leave_out(cache, file)) {
            note(cache, "the kernel cache %s is not used: %s: %s", cache->folder, file->name,
                 file->why);
            return false;
        }
        cache->left_out++;
        note(cache, "not added to the kernel cache: %s: %s", file->name, file->why);
    }
    return true;
}

/* The driver's own default folder was not checked either, so caching is explicitly disabled. */
static void set_environment(const struct xt_kernel_cache *cache)
{
    if (!cache->folder) {
        setenv("NEO_CACHE_PERSISTENT", "0", 0);
        return;
    }
    char most[24];
    snprintf(most, sizeof most, "%d", XT_KERNEL_CACHE_MOST);
    setenv("NEO_CACHE_PERSISTENT", "1", 0);
    setenv("NEO_CACHE_DIR", cache->folder, 1);
    setenv("NEO_CACHE_MAX_SIZE", most, 0);
    setenv("cl_cache_dir", cache->folder, 1);
}

static enum xt_status prepare_folder(struct xt_kernel_cache *cache, const char *base,
                                     const char *library, struct xt_err *err)
{
    char *where = NULL;
    struct xt_cache_files files = {0};
    bool alone = false;
    enum xt_status status = xt_kernel_cache_base(base, &where, err);
    if (!status)
        status = choose_folder(where, library, &cache->key, &cache->folder, err);
    /* The folder is private whatever the umask. */
    mode_t before = umask(077);
    if (!status)
        status = xt_kernel_cache_check_folders(cache->folder, err);
    if (!status)
        status = xt_file_make_folder(cache->folder, err);
    if (!status)
        status = xt_kernel_cache_check_folders(cache->folder, err);
    if (!status)
        take_lock(cache, &alone);
    umask(before);
    if (!status)
        status = xt_cache_files_read(&files, cache->folder, err);
    if (!status && !clean(cache, &files, alone))
        status = xt_err_set(err, XT_ERR_DATA, "%s", cache->note);
    /* Compiling again may give other bytes: the old record is removed with the file. */
    if (!status && cache->left_out)
        status = xt_kernel_cache_record(cache, NULL, err);
    if (alone)
        share_lock(cache);
    if (!status) {
        cache->about = files.about;
        files.about = (struct xt_str){0};
    }
    xt_cache_files_clear(&files);
    free(where);
    return status;
}

enum xt_status xt_kernel_cache_begin(struct xt_kernel_cache *cache, const char *base, bool off,
                                     const char *library, struct xt_err *err)
{
    struct xt_err why = {0};
    *cache = (struct xt_kernel_cache){.lock = -1, .turn = PTHREAD_MUTEX_INITIALIZER};
    if (getenv("NEO_CACHE_DIR") || getenv("cl_cache_dir")) {
        cache->users = true;
        note(cache, "the kernel cache is the one that the environment names");
        return XT_OK;
    }
    enum xt_status status = off ? XT_OK : prepare_folder(cache, base, library, &why);
    if (status) {
        xt_kernel_cache_end(cache);
        note(cache, "%.300s", why.text);
    }
    if (status == XT_ERR_MEMORY)
        return xt_err_set(err, status, "%s", why.text);
    set_environment(cache);
    return XT_OK;
}

/* The lines, and the inputs of KEY, so that a message can say why a cache is not used. */
static enum xt_status add_key(const struct xt_kernel_cache *cache, const char *about,
                              struct xt_str *out, struct xt_err *err)
{
    const char *line = xt_str_get(&cache->key);
    enum xt_status status = xt_str_printf(out, err, "%s# key: ", about);
    for (const char *between = ""; *line && !status; between = "; ") {
        size_t length = strcspn(line, "\n");
        status = xt_str_printf(out, err, "%s%.*s", between, (int)length, line);
        line += length + (line[length] != '\0');
    }
    return status ? status : xt_str_printf(out, err, "\n");
}

enum xt_status xt_kernel_cache_record(struct xt_kernel_cache *cache, const char *about,
                                      struct xt_err *err)
{
    if (!cache->folder || !cache->writable)
        return XT_OK;
    struct xt_str text = {0};
    about = cache->preserve_about ? NULL : about;
    enum xt_status status = about ? add_key(cache, about, &text, err) : XT_OK;
    mode_t before = umask(077);
    if (!status)
        status = record(cache->folder, about ? xt_str_get(&text) : NULL, NULL, err);
    umask(before);
    xt_str_clear(&text);
    return status;
}

bool xt_kernel_cache_drop(struct xt_kernel_cache *cache)
{
    cache->valid = 0;
    cache->bytes = 0;
    return cache->writable && !walk(cache->folder, "", drop_kernel, cache->folder, NULL);
}

void xt_kernel_cache_store_blobs(struct xt_kernel_cache *cache, bool alone)
{
    if (!cache->folder)
        return;
    cache->reads_blobs = true;
    cache->writes_blobs = cache->writable;
    if (!alone)
        return;
    unsetenv("NEO_CACHE_DIR");
    unsetenv("cl_cache_dir");
    setenv("NEO_CACHE_PERSISTENT", "0", 1);
}

static enum xt_status count_kernel(void *context, const char *name, struct xt_err *err)
{
    (void)name;
    (void)err;
    ++*(int *)context;
    return XT_OK;
}

int xt_kernel_cache_count(const struct xt_kernel_cache *cache)
{
    int count = 0;
    if (cache->folder)
        walk(cache->folder, "", count_kernel, &count, NULL);
    return count;
}

/* The variables were set here, and must not count as the user's when a device is opened later. */
void xt_kernel_cache_end(struct xt_kernel_cache *cache)
{
    if (cache->folder && !cache->users) {
        unsetenv("NEO_CACHE_DIR");
        unsetenv("cl_cache_dir");
    }
    if (cache->lock >= 0)
        close(cache->lock);
    xt_str_clear(&cache->about);
    xt_str_clear(&cache->key);
    free(cache->folder);
    *cache = (struct xt_kernel_cache){.lock = -1};
}
