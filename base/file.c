#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

enum xt_status xt_file_open(const char *path, int *fd, size_t *size, struct xt_err *err)
{
    struct stat st;
    enum xt_status status = XT_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return xt_err_system(err, XT_ERR_DATA, "cannot open %s", path);
    if (fstat(*fd, &st))
        status = xt_err_system(err, XT_ERR_DATA, "cannot read %s", path);
    else if (!S_ISREG(st.st_mode))
        status = xt_err_set(err, XT_ERR_DATA, "cannot read %s: it is not a regular file", path);
    else
        *size = (size_t)st.st_size;
    if (status)
        close(*fd);
    return status;
}

size_t xt_file_read_all(int fd, void *bytes, size_t count)
{
    size_t have = 0;
    while (have < count) {
        ssize_t got = read(fd, (char *)bytes + have, count - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

enum xt_status xt_file_read(const char *path, size_t limit, uint8_t **buffer, size_t *capacity,
                            size_t *size, struct xt_err *err)
{
    int fd = -1;
    size_t wanted = 0;
    enum xt_status status = xt_file_open(path, &fd, &wanted, err);
    if (status)
        return status;
    if (wanted > limit)
        status = xt_err_set(err, XT_ERR_DATA, "%s has %zu bytes, more than the %zu allowed here",
                            path, wanted, limit);
    else
        status = xt_mem_grow(buffer, capacity, wanted + 1, 1, path, err);
    *size = status ? 0 : xt_file_read_all(fd, *buffer, wanted);
    if (!status && *size < wanted && errno)
        status = xt_err_system(err, XT_ERR_DATA, "cannot read %s", path);
    close(fd);
    return status;
}

enum xt_status xt_file_load(const char *path, size_t limit, struct xt_bytes *out,
                            struct xt_err *err)
{
    size_t capacity = 0;
    *out = (struct xt_bytes){0};
    enum xt_status status = xt_file_read(path, limit, &out->data, &capacity, &out->size, err);
    if (!status) {
        out->data[out->size] = '\0';
        return XT_OK;
    }
    free(out->data);
    *out = (struct xt_bytes){0};
    return status;
}

enum xt_status xt_file_open_own(const char *path, int flags, int *fd, struct xt_err *err)
{
    struct stat st;
    *fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (*fd < 0 && errno == ELOOP)
        return xt_err_set(err, XT_ERR_RUN,
                          "%s is a symbolic link, whose target is not written; give the "
                          "file itself, or rename the link",
                          path);
    if (*fd >= 0 && fstat(*fd, &st) == 0 && !S_ISFIFO(st.st_mode))
        return XT_OK;
    if (*fd < 0)
        return xt_err_system(err, XT_ERR_RUN, "cannot write %s", path);
    close(*fd);
    *fd = -1;
    return xt_err_set(err, XT_ERR_RUN, "cannot write %s: it is a pipe", path);
}

bool xt_file_read_at(int fd, uint64_t at, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(fd, (char *)bytes + done, count - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static const char temporary_end[] = ".part-";

static int open_folder_of(char *path)
{
    char *name = strrchr(path, '/');
    if (!name)
        return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char first = *++name;
    *name = '\0';
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *name = first;
    return fd;
}

/* An unpredictable name with O_EXCL: it can never be somebody's link to another place. */
static int open_temporary(const struct xt_file_writer *writer)
{
    return openat(writer->folder, xt_file_name(writer->temporary),
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

enum xt_status xt_file_begin(struct xt_file_writer *writer, const char *path, struct xt_err *err)
{
    uint64_t number = 0;
    *writer = (struct xt_file_writer){.folder = -1, .fd = -1};
    enum xt_status status = xt_mem_strdup(&writer->path, path, err);
    if (status)
        return status;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        status = xt_err_system(err, XT_ERR_RUN, "cannot write %s", path);
    } else if (asprintf(&writer->temporary, "%s%s%" PRIu64, path, temporary_end, number) < 0) {
        writer->temporary = NULL;
        status = xt_err_no_memory(err, "a file name", strlen(path));
    } else {
        writer->folder = open_folder_of(writer->path);
        writer->fd = writer->folder < 0 ? -1 : open_temporary(writer);
        if (writer->fd < 0)
            status = xt_err_system(err, XT_ERR_RUN, "cannot write %s", writer->temporary);
    }
    if (status)
        xt_file_abandon(writer);
    return status;
}

bool xt_file_is_leftover(const char *name)
{
    size_t length = strlen(name);
    size_t start = length;
    while (start && name[start - 1] >= '0' && name[start - 1] <= '9')
        start--;
    size_t end = sizeof temporary_end - 1;
    return start < length && start >= end && strncmp(name + start - end, temporary_end, end) == 0;
}

bool xt_file_write_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t wrote = write(fd, (const char *)bytes + done, count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

enum xt_status xt_file_write(struct xt_file_writer *writer, const void *bytes, size_t count,
                             struct xt_err *err)
{
    if (xt_file_write_all(writer->fd, bytes, count))
        return XT_OK;
    return xt_err_system(err, XT_ERR_RUN, "cannot write %s", writer->temporary);
}

enum xt_status xt_file_commit(struct xt_file_writer *writer, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (fsync(writer->fd))
        status = xt_err_system(err, XT_ERR_RUN, "cannot sync %s", writer->temporary);
    if (close(writer->fd) && !status)
        status = xt_err_system(err, XT_ERR_RUN, "cannot write %s", writer->temporary);
    if (!status && renameat(writer->folder, xt_file_name(writer->temporary), writer->folder,
                            xt_file_name(writer->path)))
        status = xt_err_system(err, XT_ERR_RUN, "cannot write %s", writer->path);
    if (status)
        unlinkat(writer->folder, xt_file_name(writer->temporary), 0);
    /* Some network file systems cannot sync a folder (EINVAL); then only the rename is guaranteed.
     */
    else if (fsync(writer->folder) && errno != EINVAL)
        status = xt_err_system(err, XT_ERR_RUN, "cannot sync the folder of %s", writer->path);
    writer->fd = -1;
    xt_file_abandon(writer);
    return status;
}

void xt_file_abandon(struct xt_file_writer *writer)
{
    if (!writer->path)
        return;
    if (writer->fd >= 0 && writer->temporary) {
        close(writer->fd);
        unlinkat(writer->folder, xt_file_name(writer->temporary), 0);
    }
    if (writer->folder >= 0)
        close(writer->folder);
    free(writer->temporary);
    free(writer->path);
    *writer = (struct xt_file_writer){.folder = -1, .fd = -1};
}

enum xt_status xt_file_save(const char *path, const void *bytes, size_t count, struct xt_err *err)
{
    struct xt_file_writer writer;
    enum xt_status status = xt_file_begin(&writer, path, err);
    if (status)
        return status;
    status = xt_file_write(&writer, bytes, count, err);
    if (!status)
        return xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    return status;
}

enum xt_status xt_file_append(int fd, const char *path, const void *bytes, size_t count,
                              struct xt_err *err)
{
    off_t before = lseek(fd, 0, SEEK_END);
    if (xt_file_write_all(fd, bytes, count))
        return XT_OK;
    int why = errno;
    /* Best effort: a later open checks for a torn end. */
    if (before >= 0 && ftruncate(fd, before))
        xt_log_warn("%s may end in half a line: %s", path, strerror(errno));
    errno = why;
    return xt_err_system(err, XT_ERR_RUN, "cannot write %s", path);
}

enum xt_status xt_file_make_folder(const char *path, struct xt_err *err)
{
    char *text = NULL;
    enum xt_status status = xt_mem_strdup(&text, path, err);
    if (status)
        return status;
    for (char *p = text + 1; *text && !status; p++) {
        char end = *p;
        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        if (mkdir(text, 0777) && errno != EEXIST)
            status = xt_err_system(err, XT_ERR_RUN, "cannot create the folder %s", text);
        *p = end;
        if (!end)
            break;
    }
    free(text);
    if (!status && !xt_file_is_folder(path))
        status = xt_err_set(err, XT_ERR_RUN, "%s is not a folder", path);
    return status;
}

bool xt_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool xt_file_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool xt_file_is_same(const char *a, const char *b)
{
    struct stat one;
    struct stat other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* State of a walk. */
struct walk {
    struct xt_file_tree *tree;
    void *entered;             /* of struct entered, for tsearch */
    struct xt_file_list links; /* to folders, not followed yet */
};

struct entered {
    dev_t device;
    ino_t inode;
    const char *path; /* the caller's */
};

/* Takes ownership of `path`. */
static enum xt_status add_path(struct xt_file_list *list, char *path, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&list->paths, list->count, sizeof *list->paths, "a list of files", err);
    if (status)
        free(path);
    else
        list->paths[list->count++] = path;
    return status;
}

/* Adds the entry to the files, the folders `below` or the links, by its kind. */
static enum xt_status walk_entry(struct walk *walk, const char *folder, const struct dirent *entry,
                                 struct xt_file_list *below, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, folder, entry->d_name, err);
    if (status)
        return status;
    struct stat st;
    /* Most file systems fill in d_type, which saves a stat. */
    unsigned type = entry->d_type;
    if (type == DT_UNKNOWN)
        type = lstat(path, &st) ? DT_REG : IFTODT(st.st_mode);
    bool link = type == DT_LNK;
    /* A dangling link stays in the list: opening it reports it by name. */
    if (link)
        type = stat(path, &st) ? DT_REG : IFTODT(st.st_mode);
    if (type == DT_REG)
        return add_path(&walk->tree->files, path, err);
    if (type == DT_DIR)
        return add_path(link ? &walk->links : below, path, err);
    free(path);
    return XT_OK;
}

static struct xt_file_folder folder_of(const struct stat *st)
{
    const int64_t second = 1000000000;
    return (struct xt_file_folder){
        .device = (uint64_t)st->st_dev,
        .inode = (uint64_t)st->st_ino,
        .modified = (int64_t)st->st_mtim.tv_sec * second + (int64_t)st->st_mtim.tv_nsec,
        .changed = (int64_t)st->st_ctim.tv_sec * second + (int64_t)st->st_ctim.tv_nsec,
    };
}

static enum xt_status add_folder(struct xt_file_tree *tree, const char *path, const struct stat *st,
                                 struct xt_err *err)
{
    struct xt_file_folder folder = folder_of(st);
    enum xt_status status = xt_mem_add(&tree->folders, tree->folder_count, sizeof *tree->folders,
                                       "a list of folders", err);
    if (!status)
        status = xt_mem_strdup(&folder.path, path, err);
    if (!status)
        tree->folders[tree->folder_count++] = folder;
    return status;
}

static enum xt_status add_again(struct xt_file_tree *tree, const char *path, const char *entered_as,
                                struct xt_err *err)
{
    struct xt_file_repeat repeat = {.entered_as = entered_as};
    enum xt_status status = xt_mem_add(&tree->repeats, tree->repeat_count, sizeof *tree->repeats,
                                       "a list of folders", err);
    if (!status)
        status = xt_mem_strdup(&repeat.path, path, err);
    if (!status)
        tree->repeats[tree->repeat_count++] = repeat;
    return status;
}

static int compare_entered(const void *a, const void *b)
{
    const struct entered *one = a;
    const struct entered *other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return one->inode < other->inode ? -1 : one->inode > other->inode;
}

/* Adds the folder to the tree or, if it was entered by another path, this path as an alias. */
static enum xt_status enter(struct walk *walk, const char *path, const struct stat *st, bool *first,
                            struct xt_err *err)
{
    struct entered *entered = NULL;
    enum xt_status status = xt_mem_calloc(&entered, 1, sizeof *entered, "a list of folders", err);
    if (status)
        return status;
    *entered = (struct entered){.device = st->st_dev, .inode = st->st_ino};
    struct entered **found = tsearch(entered, &walk->entered, compare_entered);
    *first = found && *found == entered;
    if (!*first)
        free(entered);
    if (!found)
        return xt_err_no_memory(err, "a list of folders", sizeof *entered);
    if (!*first)
        return add_again(walk->tree, path, (*found)->path, err);
    status = add_folder(walk->tree, path, st, err);
    if (!status)
        entered->path = walk->tree->folders[walk->tree->folder_count - 1].path;
    return status;
}

/* Files, folders and aliases all begin with a path. */
static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_paths(void *items, size_t count, size_t size)
{
    if (count)
        qsort(items, count, size, compare_paths);
}

static enum xt_status walk_folder(struct walk *walk, const char *folder, struct xt_err *err);

/* Walks the folders in order of their names, and clears the list. */
static enum xt_status walk_all(struct walk *walk, struct xt_file_list *folders, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    sort_paths(folders->paths, folders->count, sizeof *folders->paths);
    for (size_t i = 0; i < folders->count && !status; i++)
        status = walk_folder(walk, folders->paths[i], err);
    xt_file_list_clear(folders);
    return status;
}

static enum xt_status walk_folder(struct walk *walk, const char *folder, struct xt_err *err)
{
    struct xt_file_list below = {0};
    struct stat st;
    bool first = false;
    DIR *dir = opendir(folder);
    enum xt_status status =
        !dir || fstat(dirfd(dir), &st)
            ? xt_err_system(err, XT_ERR_DATA, "cannot read the folder %s", folder)
            : enter(walk, folder, &st, &first, err);
    for (struct dirent *entry; !status && first && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            status = walk_entry(walk, folder, entry, &below, err);
    if (dir)
        closedir(dir);
    if (!status)
        return walk_all(walk, &below, err);
    xt_file_list_clear(&below);
    return status;
}

enum xt_status xt_file_walk(struct xt_file_tree *tree, const char *folder, struct xt_err *err)
{
    struct walk walk = {.tree = tree};
    enum xt_status status = walk_folder(&walk, folder, err);
    while (!status && walk.links.count) {
        struct xt_file_list links = walk.links;
        walk.links = (struct xt_file_list){0};
        status = walk_all(&walk, &links, err);
    }
    xt_file_list_clear(&walk.links);
    tdestroy(walk.entered, free);
    sort_paths(tree->files.paths, tree->files.count, sizeof *tree->files.paths);
    sort_paths(tree->folders, tree->folder_count, sizeof *tree->folders);
    sort_paths(tree->repeats, tree->repeat_count, sizeof *tree->repeats);
    return status;
}

void xt_file_tree_clear(struct xt_file_tree *tree)
{
    for (size_t i = 0; i < tree->folder_count; i++)
        free(tree->folders[i].path);
    for (size_t i = 0; i < tree->repeat_count; i++)
        free(tree->repeats[i].path);
    free(tree->folders);
    free(tree->repeats);
    xt_file_list_clear(&tree->files);
    *tree = (struct xt_file_tree){0};
}

bool xt_file_folder_is_same(const struct xt_file_folder *folder)
{
    struct stat st;
    if (stat(folder->path, &st) || !S_ISDIR(st.st_mode))
        return false;
    struct xt_file_folder now = folder_of(&st);
    return now.device == folder->device && now.inode == folder->inode &&
           now.modified == folder->modified && now.changed == folder->changed;
}

enum xt_status xt_file_list_folder(struct xt_file_list *list, const char *folder,
                                   struct xt_err *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return xt_err_system(err, XT_ERR_DATA, "cannot read the folder %s", folder);
    enum xt_status status = XT_OK;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        char *path = NULL;
        if (entry->d_name[0] == '.')
            continue;
        status = xt_file_join(&path, folder, entry->d_name, err);
        if (!status)
            status = add_path(list, path, err);
    }
    closedir(dir);
    sort_paths(list->paths, list->count, sizeof *list->paths);
    return status;
}

void xt_file_list_clear(struct xt_file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct xt_file_list){0};
}

struct xt_path xt_file_path(const char *folder, const char *name)
{
    struct xt_path path;
    size_t length = strlen(folder);
    bool alone = name[0] == '/';
    const char *slash = !alone && length && folder[length - 1] != '/' ? "/" : "";
    snprintf(path.text, sizeof path.text, "%s%s%s", alone ? "" : folder, slash, name);
    return path;
}

struct xt_path xt_file_beside(const char *path, const char *ending)
{
    struct xt_path beside;
    snprintf(beside.text, sizeof beside.text, "%s%s", path, ending);
    return beside;
}

enum xt_status xt_file_join(char **out, const char *folder, const char *name, struct xt_err *err)
{
    size_t length = strlen(folder);
    const char *slash = length && folder[length - 1] != '/' ? "/" : "";
    int wrote =
        name[0] == '/' ? asprintf(out, "%s", name) : asprintf(out, "%s%s%s", folder, slash, name);
    if (wrote >= 0)
        return XT_OK;
    *out = NULL;
    return xt_err_no_memory(err, "a file name", length);
}

enum xt_status xt_file_folder_of(char **out, const char *path, struct xt_err *err)
{
    const char *name = xt_file_is_folder(path) ? path + strlen(path) : xt_file_name(path);
    size_t length = (size_t)(name - path);
    /* Drops the trailing slash, except the root's. */
    while (length > 1 && path[length - 1] == '/')
        length--;
    *out = length ? strndup(path, length) : strdup(".");
    return *out ? XT_OK : xt_err_no_memory(err, "a file name", length);
}

enum xt_status xt_file_working_folder(char **out, struct xt_err *err)
{
    char *here = getcwd(NULL, 0);
    *out = NULL;
    if (!here)
        return xt_err_system(err, XT_ERR_RUN, "cannot find the working directory");
    enum xt_status status = xt_file_join(out, here, "", err);
    free(here);
    return status;
}

const char *xt_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

enum xt_status xt_file_cache_base(char **out, struct xt_err *err)
{
    const char *own = getenv("XTRAIN_CACHE_DIR");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    *out = NULL;
    if (own && *own)
        return xt_mem_strdup(out, own, err);
    if (xdg && *xdg == '/')
        return xt_file_join(out, xdg, "xtrain", err);
    if (home && *home == '/')
        return xt_file_join(out, home, ".cache/xtrain", err);
    return XT_OK;
}

enum xt_status xt_file_program_folder(char **out, struct xt_err *err)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return xt_err_system(err, XT_ERR_RUN, "cannot read /proc/self/exe");
    path[length] = '\0';
    /* Started by a dynamic loader, which says there what it started. */
    const char *started = (const char *)getauxval(AT_EXECFN);
    char *real = xt_str_starts(xt_file_name(path), "ld-") ? realpath(started, NULL) : NULL;
    if (real)
        snprintf(path, sizeof path, "%s", real);
    free(real);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return xt_mem_strdup(out, path, err);
}
