/* Files: reading whole ones, writing so that a reader never sees half of one, and walking a tree.
 *
 * Every function is thread-safe. Errors name the path and what the system said.
 */
#ifndef XT_BASE_FILE_H
#define XT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Reads a whole regular file of at most `limit` bytes into *buffer, which grows as needed and may
 * be reused (start with NULL and 0; release with free). A file larger than `limit` is an error, not
 * cut. */
enum xt_status xt_file_read(const char *path, size_t limit, uint8_t **buffer, size_t *capacity,
                            size_t *size, struct xt_err *err);

/* Opens a regular file for reading; *size is its length now. */
enum xt_status xt_file_open(const char *path, int *fd, size_t *size, struct xt_err *err);

/* All `count` bytes at `at` of an open file into `bytes`. False where they cannot be read: errno
 * says why, 0 that the file ends before. */
bool xt_file_read_at(int fd, uint64_t at, void *bytes, size_t count);

/* Opens a file that is written in place (a log, a cache), which is created where there is none;
 * `flags`: O_WRONLY or O_RDWR, perhaps O_APPEND. What is there under that name is such a file: a
 * symbolic link, which could lead anywhere, is refused, and so is a pipe. */
enum xt_status xt_file_open_own(const char *path, int flags, int *fd, struct xt_err *err);

/* A file being written under a temporary name that nobody can guess, in the same folder; nothing is
 * seen at `path` before commit. It goes into the folder that was there at the beginning. */
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

/* Whether a file's name is a temporary one: what a process that was killed left half-written. */
bool xt_file_is_leftover(const char *name);

/* begin, write, commit. */
enum xt_status xt_file_save(const char *path, const void *bytes, size_t count, struct xt_err *err);

/* Adds the bytes to the end of a file that is open to append, at `path`, in one piece: where they
 * cannot be written, the file is cut to what it was. */
enum xt_status xt_file_append(int fd, const char *path, const void *bytes, size_t count,
                              struct xt_err *err);

/* Creates the folder and those above it; an existing folder is no error. */
enum xt_status xt_file_make_folder(const char *path, struct xt_err *err);

bool xt_file_exists(const char *path);
bool xt_file_is_folder(const char *path);
/* Whether both paths lead to one file or folder. */
bool xt_file_is_same(const char *a, const char *b);

/* A sorted list of paths. */
struct xt_file_list {
    char **paths;
    size_t count;
    size_t capacity;
};
/* Every regular file under `folder`, hidden names left out, symbolic links followed, sorted by path
 * bytes. No folder is entered twice: of its names the one without a link counts, else the first.
 * Clear the list also after a failure. */
enum xt_status xt_file_list_tree(struct xt_file_list *list, const char *folder, struct xt_err *err);
/* What lies right in `folder`, files and folders, hidden names left out, sorted by path bytes.
 * Clear the list also after a failure. */
enum xt_status xt_file_list_folder(struct xt_file_list *list, const char *folder,
                                   struct xt_err *err);
void xt_file_list_clear(struct xt_file_list *list);

/* A folder, and how it was before its names were read: a name that comes, goes or changes later
 * changes its times. */
struct xt_file_folder {
    char *path;
    uint64_t device;
    uint64_t inode;
    int64_t modified; /* ns since 1970 */
    int64_t changed;
};
/* A name under which a folder was not entered, since it was under another one. */
struct xt_file_again {
    char *path;
    const char *entered_as; /* the folder's path */
};
/* A tree's files, as xt_file_list_tree lists them, its folders, the first one included, and the
 * folders' other names; all sorted by path bytes. */
struct xt_file_tree {
    struct xt_file_list files;
    struct xt_file_folder *folders;
    size_t folder_count;
    size_t folder_capacity;
    struct xt_file_again *again;
    size_t again_count;
    size_t again_capacity;
};
/* Clear the tree also after a failure. */
enum xt_status xt_file_walk(struct xt_file_tree *tree, const char *folder, struct xt_err *err);
void xt_file_tree_clear(struct xt_file_tree *tree);
/* Whether the folder at that path is the same one, with the same names. */
bool xt_file_folder_is_same(const struct xt_file_folder *folder);

/* "a/b" from "a" and "b" into *out (release with free); an absolute `name` is taken as it is. */
enum xt_status xt_file_join(char **out, const char *folder, const char *name, struct xt_err *err);
/* `path` where it is a folder, else the folder that it lies in; into *out (release with free). */
enum xt_status xt_file_folder_of(char **out, const char *path, struct xt_err *err);
/* The working directory with a slash behind it, into *out (release with free). */
enum xt_status xt_file_working_folder(char **out, struct xt_err *err);
/* The part after the last slash (a pointer into `path`). */
const char *xt_file_name(const char *path);
/* Where this program keeps what it can make again: $XTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/xtrain,
 * else ~/.cache/xtrain; into *out (release with free), NULL where none is known. */
enum xt_status xt_file_cache_base(char **out, struct xt_err *err);
/* The folder that holds the running program, into *out (release with free). */
enum xt_status xt_file_program_folder(char **out, struct xt_err *err);

#endif
