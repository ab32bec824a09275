/* Files: reading whole files, atomic replacement, and walking a tree.
 *
 * Thread-safe. Errors name the path and the system's reason.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* A file's bytes, and a zero behind them. Zeroed is empty; release `data` with free. */
struct xt_bytes {
    uint8_t *data;
    size_t size;
};
/* Reads a whole regular file of at most `limit` bytes; a larger one is an error. Empty after a
 * failure. */
enum xt_status xt_file_load(const char *path, size_t limit, struct xt_bytes *out,
                            struct xt_err *err);
/* The same for one file after the other: into *buffer, which grows as needed (start with NULL and
 * 0; release with free). */
enum xt_status xt_file_read(const char *path, size_t limit, uint8_t **buffer, size_t *capacity,
                            size_t *size, struct xt_err *err);

/* Opens a regular file for reading; *size is its current length. */
enum xt_status xt_file_open(const char *path, int *fd, size_t *size, struct xt_err *err);

/* Reads `count` bytes at offset `at`. False on failure, with errno; errno is 0 if the file is
 * shorter. */
bool xt_file_read_at(int fd, uint64_t at, void *bytes, size_t count);

/* Reads `count` bytes from here on, of a file or a pipe; returns how many there were. Fewer: the
 * end, where errno is 0, or a failure. */
size_t xt_file_read_all(int fd, void *bytes, size_t count);

/* Writes all of it, to a file or a pipe. False on failure, with errno. */
bool xt_file_write_all(int fd, const void *bytes, size_t count);

/* Opens or creates a file that is written in place (a log, a cache); `flags`: O_WRONLY or O_RDWR,
 * optionally O_APPEND. Refuses symbolic links, whose target could be any file, and pipes. */
enum xt_status xt_file_open_own(const char *path, int flags, int *fd, struct xt_err *err);

/* A file being written under an unpredictable temporary name in the same folder; `path` does not
 * change before commit. The folder is opened once, at begin. */
struct xt_file_writer {
    char *path;
    char *temporary;
    int folder;
    int fd;
};
enum xt_status xt_file_begin(struct xt_file_writer *writer, const char *path, struct xt_err *err);
enum xt_status xt_file_write(struct xt_file_writer *writer, const void *bytes, size_t count,
                             struct xt_err *err);
/* Syncs the file, renames it to `path`, syncs the folder. The writer is empty afterwards, also
 * after a failure. */
enum xt_status xt_file_commit(struct xt_file_writer *writer, struct xt_err *err);
/* Removes the temporary file. Does nothing on a zeroed or committed writer. */
void xt_file_abandon(struct xt_file_writer *writer);

/* Whether this is the name of a temporary file, which a killed process may leave behind. */
bool xt_file_is_leftover(const char *name);

/* begin, write, commit. */
enum xt_status xt_file_save(const char *path, const void *bytes, size_t count, struct xt_err *err);

/* Appends all bytes to a file that is open for appending, or none: on failure the file is truncated
 * to its old length. `path` is for errors. */
enum xt_status xt_file_append(int fd, const char *path, const void *bytes, size_t count,
                              struct xt_err *err);

/* Creates the folder and its parents; an existing folder is no error. */
enum xt_status xt_file_make_folder(const char *path, struct xt_err *err);

bool xt_file_exists(const char *path);
bool xt_file_is_folder(const char *path);
/* Whether both paths name the same file or folder (device and inode). */
bool xt_file_is_same(const char *a, const char *b);

/* A sorted list of paths. */
struct xt_file_list {
    char **paths;
    size_t count;
};
/* The files and folders directly in `folder`, without hidden names, sorted by path bytes. Clear the
 * list also after a failure. */
enum xt_status xt_file_list_folder(struct xt_file_list *list, const char *folder,
                                   struct xt_err *err);
void xt_file_list_clear(struct xt_file_list *list);

/* A folder and its times before its names were read: a name that is added, removed or renamed later
 * changes them. */
struct xt_file_folder {
    char *path;
    uint64_t device;
    uint64_t inode;
    int64_t modified; /* ns since 1970 */
    int64_t changed;
};
/* An alias: another path to a folder that was entered already. */
struct xt_file_repeat {
    char *path;
    const char *entered_as; /* the folder's path */
};
/* All regular files of a tree, without hidden names, following symbolic links; its folders
 * including the root, each entered once, by its path without a link, else by the first path; and
 * their aliases. All are sorted by path bytes. */
struct xt_file_tree {
    struct xt_file_list files;
    struct xt_file_folder *folders;
    size_t folder_count;
    struct xt_file_repeat *repeats;
    size_t repeat_count;
};
/* Clear the tree also after a failure. */
enum xt_status xt_file_walk(struct xt_file_tree *tree, const char *folder, struct xt_err *err);
void xt_file_tree_clear(struct xt_file_tree *tree);
/* Whether the folder at that path is still the same, with the same names. */
bool xt_file_folder_is_same(const struct xt_file_folder *folder);

/* "a/b" from "a" and "b", or an absolute `name` as it is. What is longer than the system takes
 * stays too long, so that opening it fails by that. */
enum { XT_PATH_MAX = 4096 };
struct xt_path {
    char text[XT_PATH_MAX + 1];
};
struct xt_path xt_file_path(const char *folder, const char *name);
/* `path` with more letters behind it: a file beside it. */
struct xt_path xt_file_beside(const char *path, const char *ending);
/* The same of any length, into *out (release with free). */
enum xt_status xt_file_join(char **out, const char *folder, const char *name, struct xt_err *err);
/* `path` if it is a folder, else its parent; into *out (release with free). */
enum xt_status xt_file_folder_of(char **out, const char *path, struct xt_err *err);
/* The working directory with a trailing slash, into *out (release with free). */
enum xt_status xt_file_working_folder(char **out, struct xt_err *err);
/* The part after the last slash (a pointer into `path`). */
const char *xt_file_name(const char *path);
/* The cache folder: $XTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/xtrain, else ~/.cache/xtrain; into *out
 * (release with free), NULL if unknown. */
enum xt_status xt_file_cache_base(char **out, struct xt_err *err);
/* The folder that holds the running program, into *out (release with free). */
enum xt_status xt_file_program_folder(char **out, struct xt_err *err);
