#include "data/sources/index/index_tree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/sources/index/index_cache.h"

/* The coarsest time stamps of file systems. */
static const int64_t settled = 2000000000;

/* ---- writing ---- */

/* What follows `folder` and a slash. */
static const char *below(const char *folder, const char *path)
{
    path += strlen(folder);
    return *path == '/' ? path + 1 : path;
}

static int compare_folder(const void *key, const void *folder)
{
    return strcmp(key, ((const struct xt_file_folder *)folder)->path);
}

/* The number of the file's folder. */
static enum xt_status folder_of(const struct xt_file_tree *tree, const char *file, size_t *number,
                                struct xt_err *err)
{
    size_t length = (size_t)(xt_file_name(file) - file);
    char *path = strndup(file, length);
    if (!path)
        return xt_err_no_memory(err, "a file name", length);
    const struct xt_file_folder *found =
        bsearch(path, tree->folders, tree->folder_count, sizeof *tree->folders, compare_folder);
    if (!found && length > 1) {
        path[length - 1] = '\0';
        found =
            bsearch(path, tree->folders, tree->folder_count, sizeof *tree->folders, compare_folder);
    }
    free(path);
    if (!found)
        return xt_err_set(err, XT_ERR_RUN, "%s lies in no folder of its tree", file);
    *number = (size_t)(found - tree->folders);
    return XT_OK;
}

static void write_folder(const struct xt_file_folder *folder, const char *top, struct xt_str *body)
{
    const uint64_t numbers[] = {folder->device, folder->inode, (uint64_t)folder->modified,
                                (uint64_t)folder->changed};
    xt_index_put_text(body, below(top, folder->path));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        xt_index_put_u64(body, numbers[i]);
}

/* Neighbours mostly share a folder, so the previous one is tried first. */
static bool lies_in(const char *file, const char *folder)
{
    size_t length = (size_t)(xt_file_name(file) - file);
    size_t size = strlen(folder);
    return (length == size || length == size + 1) && strncmp(file, folder, size) == 0;
}

enum xt_status xt_index_tree_write(const struct xt_file_tree *tree, const char *folder,
                                   struct xt_str *body, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    size_t number = 0;
    xt_index_put_u32(body, tree->folder_count);
    for (size_t i = 0; i < tree->folder_count; i++)
        write_folder(&tree->folders[i], folder, body);
    xt_index_put_u32(body, tree->files.count);
    for (size_t i = 0; i < tree->files.count && !status; i++) {
        const char *file = tree->files.paths[i];
        if (!lies_in(file, tree->folders[number].path))
            status = folder_of(tree, file, &number, err);
        xt_index_put_u32(body, number);
        xt_index_put_text(body, xt_file_name(file));
    }
    return status ? status : xt_str_check(body, err);
}

/* ---- reading ---- */

/* A name that the walk could have produced: no component is empty, hidden, or "..". */
static bool is_name(const char *text, size_t size, bool has_folders)
{
    bool start = true;
    for (size_t i = 0; i < size; i++) {
        if (start && (text[i] == '.' || text[i] == '/'))
            return false;
        start = text[i] == '/';
        if (start && !has_folders)
            return false;
    }
    return !start;
}

static enum xt_status join(char **out, const char *folder, const char *name, size_t size,
                           struct xt_err *err)
{
    size_t length = strlen(folder);
    bool slash = length && folder[length - 1] != '/';
    char *path = NULL;
    enum xt_status status = xt_mem_calloc(&path, length + slash + size + 1, 1, "a file name", err);
    *out = path;
    if (status)
        return status;
    char *end = stpcpy(path, folder);
    if (slash)
        *end++ = '/';
    memcpy(end, name, size);
    return XT_OK;
}

static enum xt_status read_folder(struct xt_file_tree *tree, const char *top,
                                  struct xt_index_reader *reader, struct xt_err *err)
{
    size_t size = 0;
    struct xt_file_folder *folder = &tree->folders[tree->folder_count];
    const char *path = xt_index_text(reader, &size);
    bool first = tree->folder_count == 0;
    folder->device = xt_index_u64(reader);
    folder->inode = xt_index_u64(reader);
    folder->modified = (int64_t)xt_index_u64(reader);
    folder->changed = (int64_t)xt_index_u64(reader);
    reader->bad |= !path || (first ? size != 0 : !is_name(path, size, true));
    if (reader->bad)
        return XT_OK;
    enum xt_status status =
        first ? xt_mem_strdup(&folder->path, top, err) : join(&folder->path, top, path, size, err);
    tree->folder_count += !status;
    reader->bad |= !status && !first && strcmp(folder[-1].path, folder->path) >= 0;
    return status;
}

static enum xt_status read_file(struct xt_file_tree *tree, struct xt_index_reader *reader,
                                struct xt_err *err)
{
    struct xt_file_list *files = &tree->files;
    size_t size = 0;
    size_t folder = xt_index_u32(reader);
    const char *name = xt_index_text(reader, &size);
    reader->bad |= !name || folder >= tree->folder_count || !is_name(name, size, false);
    if (reader->bad)
        return XT_OK;
    char **path = &files->paths[files->count];
    enum xt_status status = join(path, tree->folders[folder].path, name, size, err);
    files->count += !status;
    reader->bad |= !status && files->count > 1 && strcmp(path[-1], path[0]) >= 0;
    return status;
}

/* A count of items of at least `size` bytes each; more than fit in the rest are bad. */
static size_t read_count(struct xt_index_reader *reader, size_t size)
{
    size_t count = xt_index_u32(reader);
    reader->bad |= count > reader->left / size;
    return reader->bad ? 0 : count;
}

enum xt_status xt_index_tree_read(struct xt_file_tree *tree, const char *folder,
                                  const uint8_t *bytes, size_t size, bool *good, struct xt_err *err)
{
    enum { FOLDER_LEAST = 4 + 4 * 8, FILE_LEAST = 4 + 4 + 1 };
    struct xt_index_reader reader = {.at = bytes, .left = size};
    size_t folders = read_count(&reader, FOLDER_LEAST);
    enum xt_status status =
        xt_mem_calloc(&tree->folders, folders + 1, sizeof *tree->folders, "a list of folders", err);
    for (size_t i = 0; i < folders && !status && !reader.bad; i++)
        status = read_folder(tree, folder, &reader, err);
    size_t files = read_count(&reader, FILE_LEAST);
    if (!status)
        status = xt_mem_calloc(&tree->files.paths, files + 1, sizeof *tree->files.paths,
                               "a list of files", err);
    for (size_t i = 0; i < files && !status && !reader.bad; i++)
        status = read_file(tree, &reader, err);
    *good = !status && !reader.bad && reader.left == 0 && tree->folder_count > 0;
    if (!*good)
        xt_file_tree_clear(tree);
    return status;
}

/* ---- caching ---- */

static bool is_unchanged(const struct xt_file_tree *tree)
{
    for (size_t i = 0; i < tree->folder_count; i++)
        if (!xt_file_folder_is_same(&tree->folders[i]))
            return false;
    return true;
}

static bool is_settled(const struct xt_file_tree *tree, int64_t began)
{
    for (size_t i = 0; i < tree->folder_count; i++)
        if (tree->folders[i].modified > began - settled ||
            tree->folders[i].changed > began - settled)
            return false;
    return true;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_nsec;
}

/* *tree stays empty if nothing is cached, or the entry is out of date. */
static enum xt_status load(struct xt_file_tree *tree, const char *folder, const char *key,
                           struct xt_err *err)
{
    uint8_t *file = NULL;
    const uint8_t *body = NULL;
    size_t size = 0;
    bool good = false;
    enum xt_status status = xt_index_load(key, &file, &body, &size, err);
    if (!status && body)
        status = xt_index_tree_read(tree, folder, body, size, &good, err);
    free(file);
    if (good && !is_unchanged(tree))
        xt_file_tree_clear(tree);
    return status;
}

static void save(const struct xt_file_tree *tree, const char *folder, const char *key)
{
    struct xt_str body = {0};
    struct xt_err err;
    if (tree->files.count <= UINT32_MAX && !xt_index_tree_write(tree, folder, &body, &err))
        xt_index_save(key, &body);
    xt_str_clear(&body);
}

enum xt_status xt_index_tree(struct xt_file_tree *tree, const char *folder, struct xt_err *err)
{
    int64_t began = now();
    char *real = realpath(folder, NULL);
    struct xt_str key = {0};
    enum xt_status status =
        real ? xt_str_printf(&key, err, "tree, each folder once: %s", real) : XT_OK;
    if (!status && real)
        status = load(tree, folder, key.data, err);
    bool cached = tree->folder_count > 0;
    if (!status && !cached)
        status = xt_file_walk(tree, folder, err);
    if (!status && cached)
        xt_log_detail("the list of the %zu files in %s is the one cached at an earlier start",
                      tree->files.count, folder);
    else if (!status && real && tree->files.count >= XT_INDEX_TREE_LEAST && !tree->repeat_count &&
             is_settled(tree, began))
        save(tree, folder, key.data);
    xt_str_clear(&key);
    free(real);
    return status;
}
