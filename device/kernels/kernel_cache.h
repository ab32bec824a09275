/* The kernel cache: kernels compiled by a GPU driver, stored for the next start.
 *
 * The driver itself caches them, in files called *_cache in the folder NEO_CACHE_DIR, or in folders
 * 0 to f of two levels in it (newer drivers, as 26.27), which are under the same rules; this module
 * chooses that folder and verifies it. Kernels are code, so a file is used only if it and every
 * folder from the base down belong to this user or root and nobody else can write them, and if its
 * SHA-256 is the one recorded when it was new. Files that do not match are removed before the
 * driver sees them. In a read-only folder (a container image) nothing can be removed: there one bad
 * file disables the whole folder.
 *
 * Layout: BASE/kernels/KEY/, KEY from the files of oneDNN and of the drivers and from the kinds of
 * GPUs, or the one that the driver emulates (gpu/capture.h); with GPUs of several kinds, from the
 * one that has such a folder already, else from all.
 * "index.txt" there holds "# key: value" lines and "SHA256 BYTES NAME" lines; "lock" is held
 * (flock, shared) by each process that uses the folder, so that unrecorded files are known to be in
 * use, and exclusively by a process that is alone while it removes leftovers.
 *
 * With oneDNN's OpenCL and Level Zero runtimes oneDNN's cache blobs are in the same folder
 * (blob_cache.h), under the same rules; with OpenCL's the driver's cache is not needed.
 *
 * The environment (NEO_CACHE_PERSISTENT, NEO_CACHE_DIR, NEO_CACHE_MAX_SIZE, cl_cache_dir) is set
 * before the oneDNN library is loaded; if the user has set NEO_CACHE_DIR or cl_cache_dir, it is the
 * user's cache and left alone. One thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* One file of a cache. */
struct xt_cache_file {
    char name[160];
    char sha256[65]; /* "" : not recorded */
    uint64_t bytes;
    int64_t used;    /* when it was last read or written, seconds since 1970 */
    bool fine;       /* ownership, permissions, size and hash are right */
    const char *why; /* if it is not fine: a constant sentence part */
};

struct xt_cache_files {
    struct xt_cache_file *items;
    size_t count;
    size_t capacity;
    size_t recorded;     /* this many first ones are of the index, sorted by name */
    struct xt_str about; /* the "# key: value" lines of the index */
};
/* Maximum bytes of an index and of a kernel. */
enum { XT_CACHE_INDEX_MAX = 16 << 20, XT_CACHE_FILE_MAX = 256 << 20 };

void xt_cache_files_clear(struct xt_cache_files *files);

/* Whether a name in a cache's folder is a kernel's: "39c4..._cache", or "3/9/39c4..._cache". */
bool xt_cache_is_kernel(const char *name);
/* Removes the folders 0 to f in a cache's folder that are empty. */
void xt_cache_remove_folders(const char *folder);

/* Reads a cache folder and checks each file. An unsafe or unreadable folder is XT_ERR_DATA. */
enum xt_status xt_cache_files_read(struct xt_cache_files *files, const char *folder,
                                   struct xt_err *err);
/* Adds the lines of an index to `files`, as expected files; `text` is modified. Damaged lines are
 * skipped. */
enum xt_status xt_cache_files_parse(struct xt_cache_files *files, char *text, struct xt_err *err);
/* The file of that name in the index, NULL if there is none. After xt_cache_files_parse. */
struct xt_cache_file *xt_cache_files_find(const struct xt_cache_files *files, const char *name);

/* Writes the index with those of `taken` that are fine, under the records they came with, and with
 * earlier records; other files in the folder stay unrecorded. */
enum xt_status xt_cache_files_record_taken(const char *folder, const struct xt_cache_files *taken,
                                           struct xt_err *err);

/* The value of a "# key: value" line of an index; "not told" if there is none. */
void xt_cache_about(const char *about, const char *key, char *out, size_t room);

/* BASE: `given` (--kernel-cache-dir) or $XTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/xtrain, else
 * ~/.cache/xtrain; into *out (free). */
enum xt_status xt_kernel_cache_base(const char *given, char **out, struct xt_err *err);

/* The folder under `base` that this machine uses with the oneDNN file `library`; into *out (free).
 */
enum xt_status xt_kernel_cache_folder(const char *base, const char *library, char **out,
                                      struct xt_err *err);

/* Whether `path`, a folder, and its files may be trusted as code: XT_OK, or XT_ERR_DATA with the
 * reason. A missing folder is XT_OK. */
enum xt_status xt_kernel_cache_check_folder(const char *path, struct xt_err *err);

/* The same for BASE/kernels/KEY and the two folders above it. */
enum xt_status xt_kernel_cache_check_folders(const char *path, struct xt_err *err);

enum { XT_KERNEL_CACHE_MOST = 1 << 30 }; /* bytes; the driver evicts the oldest files */

struct xt_kernel_cache {
    char *folder; /* in use; NULL: no cache */
    bool users;   /* the user set the variables: nothing was checked */
    bool writable;
    bool reads_blobs; /* oneDNN's */
    bool writes_blobs;
    int lock;     /* file descriptor, -1: none */
    int valid;    /* files that were found and are fine */
    int left_out; /* files that were removed */
    uint64_t bytes;
    struct xt_str about;  /* the lines of the index when it was read */
    struct xt_str key;    /* the inputs of KEY, in one line */
    bool ahead;           /* compiled ahead of time, and matching (ahead.h) */
    bool preserve_about;  /* the index's lines belong to kernels that are not used now */
    pthread_mutex_t turn; /* for threads that create primitives: one stores blobs at a time */
    char note[320];       /* for the user: why there is no cache, which files were skipped */
};

/* Chooses and checks the folder and sets the environment. `library` is the oneDNN file that will be
 * loaded. `off`: the driver's cache is disabled. No error but out of memory: a cache that cannot be
 * used is skipped, and `note` says why. */
enum xt_status xt_kernel_cache_begin(struct xt_kernel_cache *cache, const char *base, bool off,
                                     const char *library, struct xt_err *err);
/* After the library is loaded and before it starts a driver: enables caching oneDNN's blobs.
 * `alone`: they suffice, so the driver's cache is disabled. */
void xt_kernel_cache_store_blobs(struct xt_kernel_cache *cache, bool alone);
/* Removes all kernels; false if one cannot be removed. */
bool xt_kernel_cache_drop(struct xt_kernel_cache *cache);
/* Records the files now present; `about` is its first lines, before the inputs of KEY. */
enum xt_status xt_kernel_cache_record(struct xt_kernel_cache *cache, const char *about,
                                      struct xt_err *err);
/* The number of kernels now present, recorded or not; 0 if no cache is in use. */
int xt_kernel_cache_count(const struct xt_kernel_cache *cache);
void xt_kernel_cache_end(struct xt_kernel_cache *cache);
