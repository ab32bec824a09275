/* A run's folder: created new, never overwritten, and used by one process at a time: the folder
 * itself is locked, on file systems of several machines (NFS) a file in it too; a warning where
 * there are no locks.
 */
#pragma once

#include <stdbool.h>

#include "base/file.h"
#include "base/str.h"

struct xt_run_folder {
    char *path;
    int locks[2]; /* file descriptors, -1: none */
};

/* `out` NULL: runs/MODEL-DATE-N, the first free N. `existing` allows a folder that holds a run
 * (--resume), and removes half-written files of a killed process. The caller clears it also after a
 * failure. XT_ERR_USAGE where it is in use, or holds something else; XT_ERR_RUN where it cannot be
 * written. */
enum xt_status xt_run_folder_open(struct xt_run_folder *folder, const char *out, const char *model,
                                  bool existing, struct xt_err *err);
/* Whether a process uses the run in this folder; *known is false where that is unknown. */
bool xt_run_folder_in_use(const char *path, bool *known);
/* Releases the lock; the folder stays. */
void xt_run_folder_clear(struct xt_run_folder *folder);

/* The path of a file in the folder. */
struct xt_path xt_run_folder_file(const struct xt_run_folder *folder, const char *name);

/* Appends the folder, or with `name` ("/config.yaml") a file in it, as a word of a command line
 * that can be pasted. */
void xt_run_folder_append(const struct xt_run_folder *folder, struct xt_str *line,
                          const char *name);

/* Renames NAME, where it exists, to NAME.aside with a note. */
enum xt_status xt_run_folder_set_aside(const struct xt_run_folder *folder, const char *name,
                                       struct xt_err *err);
