#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

static const char lock_name[] = ".lock";

/* Whether the folder holds anything but the lock. */
static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return true;
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(dir));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, lock_name) == 0;
    closedir(dir);
    return empty;
}

/* runs/MODEL-YYYYMMDD-N; mkdir itself decides which N is free, so that two starts at once cannot
 * both win. */
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
            status = xt_err_set(err, XT_ERR_RUN, "cannot create the run folder %s: %s",
                                folder->path, strerror(errno));
        free(folder->path);
        folder->path = NULL;
    }
    return status;
}

static enum xt_status take_lock(struct xt_run_folder *folder, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, folder->path, lock_name, err);
    if (status)
        return status;
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0)
        status = xt_err_set(err, XT_ERR_RUN, "cannot write in the run folder %s: %s", folder->path,
                            strerror(errno));
    free(path);
    if (status)
        return status;
    /* A lock of the open file, not of the process: it holds between threads and ends with a kill.
     */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(folder->lock, F_OFD_SETLK, &lock) == 0)
        return XT_OK;
    if (errno == EAGAIN || errno == EACCES)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is in use by another xtrain; wait for it, or choose another --out",
                          folder->path);
    xt_log_warn(
        "%s: its file system has no locks (%s), so a second xtrain on this run would not be "
        "seen",
        folder->path, strerror(errno));
    return XT_OK;
}

enum xt_status xt_run_folder_open(struct xt_run_folder *folder, const char *out, const char *model,
                                  bool existing, struct xt_err *err)
{
    *folder = (struct xt_run_folder){.lock = -1};
    enum xt_status status = XT_OK;
    if (out) {
        status = xt_mem_strdup(&folder->path, out, err);
        if (!status)
            status = xt_file_make_folder(out, err);
    } else {
        status = create_numbered(folder, model, err);
    }
    if (!status)
        status = take_lock(folder, err);
    if (!status && !existing && !is_empty(folder->path))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--out %s: the folder is not empty, and a run is never overwritten; "
                            "choose another, or go on with it by --resume auto",
                            folder->path);
    return status;
}

void xt_run_folder_clear(struct xt_run_folder *folder)
{
    if (folder->lock >= 0)
        close(folder->lock);
    free(folder->path);
    *folder = (struct xt_run_folder){.lock = -1};
}

enum xt_status xt_run_folder_file(const struct xt_run_folder *folder, const char *name, char **out,
                                  struct xt_err *err)
{
    return xt_file_join(out, folder->path, name, err);
}
