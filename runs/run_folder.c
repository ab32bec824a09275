#include "runs/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static const char lock_name[] = ".lock";

/* A folder's contents, without the lock. */
struct contents {
    size_t files;
    size_t leftovers; /* half-written files of a process that was killed */
    bool run;         /* a run's record, or a checkpoint */
};

/* An unreadable folder counts as empty: writing to it will report why. With `clean` leftovers are
 * removed. */
static struct contents scan(const char *path, bool clean)
{
    struct contents found = {0};
    DIR *dir = opendir(path);
    if (!dir)
        return found;
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, lock_name) == 0)
            continue;
        found.files++;
        if (xt_file_is_leftover(name)) {
            found.leftovers++;
            if (clean)
                unlinkat(dirfd(dir), name, 0);
        }
        found.run =
            found.run || strcmp(name, "metrics.jsonl") == 0 || xt_str_starts(name, "state-");
    }
    closedir(dir);
    return found;
}

static enum xt_status check_free(const char *path, bool existing, struct xt_err *err)
{
    struct contents found = scan(path, false);
    if (found.files == 0)
        return XT_OK;
    if (!existing)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--out %s: the folder is not empty, and a run is never overwritten; "
                          "choose another, or resume it by --resume auto",
                          path);
    if (found.run || found.files == found.leftovers)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s holds files, but no run to resume (neither metrics.jsonl nor a "
                      "checkpoint); choose another folder",
                      path);
}

/* runs/MODEL-YYYYMMDD-N; mkdir itself decides which N is free, so that two simultaneous starts get
 * different ones. */
static enum xt_status create_numbered(struct xt_run_folder *folder, const char *model,
                                      struct xt_err *err)
{
    enum xt_status status = xt_file_make_folder("runs", err);
    time_t now = time(NULL);
    struct tm date;
    char day[16];
    strftime(day, sizeof day, "%Y%m%d", localtime_r(&now, &date));
    for (int n = 1; !status; n++) {
        if (asprintf(&folder->path, "runs/%s-%s-%d", model, day, n) < 0) {
            folder->path = NULL;
            return xt_err_no_memory(err, "a folder name", strlen(model));
        }
        if (mkdir(folder->path, 0777) == 0)
            return XT_OK;
        if (errno != EEXIST)
            status =
                xt_err_system(err, XT_ERR_RUN, "cannot create the run folder %s", folder->path);
        free(folder->path);
        folder->path = NULL;
    }
    return status;
}

/* The folder itself is locked: a file in it could be removed, and then locked by a second process.
 * Linux keeps locks of folders to itself also on NFS: where the file system may be mounted by
 * several machines, a file is locked as well, which the server sees. */
enum lock_of { LOCK_FOLDER, LOCK_FILE, LOCKS };

static bool is_local(int fd)
{
    static const unsigned long local[] = {
        EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC,     RAMFS_MAGIC,       0x2fc12fc1 /* ZFS */};
    struct statfs found;
    if (fstatfs(fd, &found))
        return false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if ((unsigned long)found.f_type == local[i])
            return true;
    return false;
}

static int open_lock(const char *path, enum lock_of what, bool create)
{
    if (what == LOCK_FOLDER)
        return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return open(xt_file_path(path, lock_name).text,
                O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
}

/* Locks of the open file description, not of the process: they work between threads and end with a
 * kill. */
static bool lock(int fd, enum lock_of what, bool shared)
{
    struct flock whole = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    if (what == LOCK_FOLDER)
        return flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
    return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

static bool is_held(int error)
{
    return error == EWOULDBLOCK || error == EAGAIN || error == EACCES;
}

/* Retries, since a query whether a run is in use holds the lock briefly. */
static bool lock_patiently(int fd, enum lock_of what)
{
    enum { TRIES = 20, APART_NS = 10 * 1000 * 1000 };
    for (int i = 1; !lock(fd, what, false); i++) {
        if (!is_held(errno) || i == TRIES)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = APART_NS}, NULL);
    }
    return true;
}

static enum xt_status take_lock(struct xt_run_folder *folder, struct xt_err *err)
{
    for (enum lock_of what = LOCK_FOLDER; what <= LOCK_FILE; what++) {
        int fd = folder->locks[what] = open_lock(folder->path, what, true);
        if (fd < 0)
            return xt_err_system(err, XT_ERR_RUN, "cannot write in the run folder %s",
                                 folder->path);
        if (lock_patiently(fd, what)) {
            if (what == LOCK_FILE)
                xt_log_detail("%s may be on several machines: %s in it is locked, which nobody "
                              "may remove during the run",
                              folder->path, lock_name);
            if (what == LOCK_FILE || is_local(fd))
                return XT_OK;
        } else if (is_held(errno)) {
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s is in use by another xtrain; wait for it, or choose another "
                              "--out",
                              folder->path);
        }
    }
    xt_log_warn("%s: its file system has no locks between machines (%s), so a second xtrain on "
                "this run might not be seen",
                folder->path, strerror(errno));
    return XT_OK;
}

bool xt_run_folder_in_use(const char *path, bool *known)
{
    *known = false;
    bool held = false;
    for (enum lock_of what = LOCK_FOLDER; what <= LOCK_FILE && !held; what++) {
        int fd = open_lock(path, what, false);
        if (fd < 0)
            continue;
        bool locked = lock(fd, what, true);
        held = !locked && is_held(errno);
        *known = *known || locked || held;
        bool is_enough = locked && is_local(fd);
        close(fd);
        if (is_enough)
            break;
    }
    return held;
}

enum xt_status xt_run_folder_open(struct xt_run_folder *folder, const char *out, const char *model,
                                  bool existing, struct xt_err *err)
{
    *folder = (struct xt_run_folder){.locks = {-1, -1}};
    enum xt_status status = XT_OK;
    if (out) {
        status = xt_mem_strdup(&folder->path, out, err);
        if (!status)
            status = xt_file_make_folder(out, err);
        if (!status)
            status = check_free(out, existing, err);
    } else {
        status = create_numbered(folder, model, err);
    }
    if (!status)
        status = take_lock(folder, err);
    /* Repeated under the lock, since another process may have changed it. */
    if (!status)
        status = check_free(folder->path, existing, err);
    if (!status)
        scan(folder->path, true);
    return status;
}

void xt_run_folder_clear(struct xt_run_folder *folder)
{
    for (int i = 0; i < LOCKS; i++)
        if (folder->locks[i] >= 0)
            close(folder->locks[i]);
    free(folder->path);
    *folder = (struct xt_run_folder){.locks = {-1, -1}};
}

struct xt_path xt_run_folder_file(const struct xt_run_folder *folder, const char *name)
{
    return xt_file_path(folder->path, name);
}

void xt_run_folder_append(const struct xt_run_folder *folder, struct xt_str *line, const char *name)
{
    bool looks_else = *folder->path == '-' || strcmp(folder->path, "auto") == 0;
    struct xt_str path = {0};
    xt_str_printf(&path, NULL, "%s%s%s", looks_else ? "./" : "", folder->path, name);
    line->failed |= path.failed;
    xt_str_append_word(line, xt_str_get(&path), NULL);
    xt_str_clear(&path);
}

enum xt_status xt_run_folder_set_aside(const struct xt_run_folder *folder, const char *name,
                                       struct xt_err *err)
{
    const struct xt_path from = xt_run_folder_file(folder, name);
    const struct xt_path to = xt_file_beside(from.text, ".aside");
    if (!xt_file_exists(from.text))
        return XT_OK;
    if (rename(from.text, to.text))
        return xt_err_system(err, XT_ERR_RUN, "cannot rename %s to %s", from.text, to.text);
    xt_log_note("%s is of an earlier start; it is %s now", from.text, to.text);
    return XT_OK;
}
