/* The kernel cache: kernels that a GPU driver compiled, kept for the next start.
 *
 * The driver keeps them by itself, in files called *_cache of the folder that NEO_CACHE_DIR names;
 * this module chooses that folder and answers for it. Kernels are code, so a file is used only
 * where it and every folder from the base down belong to this user or root and nobody else can
 * write them, and where its SHA-256 is the one that was recorded when it was new. What does not
 * match is removed before the driver sees it. In a folder that cannot be written (a container
 * image) nothing can be removed: there one bad file puts the whole folder out of use.
 *
 * Layout: BASE/kernels/KEY/, KEY from the files of oneDNN and of the drivers and from the kinds of
 * GPUs, or the one that the driver is told to take itself for (gpu/capture.h); of GPUs of several
 * kinds, from that one for which there is such a folder already, else from all.
 * "index.txt" there holds "# key: value" lines and "SHA256 BYTES NAME" lines; "lock" is held
 * (flock, shared) by each process that uses the folder, so that files not recorded yet are known to
 * be somebody's work, and exclusively by one that comes alone while it removes what is nobody's.
 *
 * With oneDNN's OpenCL and Level Zero runtimes oneDNN's cache blobs lie in the same folder
 * (blob_cache.h), under the same rules; OpenCL's need no cache of the driver beside them.
 *
 * The environment (NEO_CACHE_PERSISTENT, NEO_CACHE_DIR, NEO_CACHE_MAX_SIZE, cl_cache_dir) is set
 * before the oneDNN library is loaded; where the user has set NEO_CACHE_DIR or cl_cache_dir, it is
 * the user's cache and left alone. One thread.
 */
#ifndef XT_DEVICE_KERNELS_KERNEL_CACHE_H
#define XT_DEVICE_KERNELS_KERNEL_CACHE_H

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
    const char *why; /* where it is not fine: a constant sentence part */
};

struct xt_cache_files {
    struct xt_cache_file *items;
    size_t count;
    size_t capacity;
    size_t recorded;     /* the first so many are of the index, sorted by name */
    struct xt_str about; /* the "# key: value" lines of the index */
};
/* Bytes of an index and of a kernel, at most. */
enum { XT_CACHE_INDEX_MAX = 16 << 20, XT_CACHE_FILE_MAX = 256 << 20 };

void xt_cache_files_clear(struct xt_cache_files *files);

/* Reads a cache folder and checks each file. An unsafe or unreadable folder is XT_ERR_DATA. */
enum xt_status xt_cache_files_read(struct xt_cache_files *files, const char *folder,
                                   struct xt_err *err);
/* Adds the lines of an index to `files`, as what is expected; `text` is taken apart. Damaged lines
 * are skipped. */
enum xt_status xt_cache_files_parse(struct xt_cache_files *files, char *text, struct xt_err *err);
/* One that the index holds, NULL where it does not. After xt_cache_files_parse. */
struct xt_cache_file *xt_cache_files_find(const struct xt_cache_files *files, const char *name);
/* Hashes what the index does not hold and writes the index anew, with `about` lines, where that
 * changes it. */
enum xt_status xt_cache_files_record(const char *folder, const char *about, struct xt_err *err);

/* Writes the index with those of `taken` that are fine, under the records they came with, and with
 * what was recorded before; other files in the folder stay unrecorded. */
enum xt_status xt_cache_files_record_taken(const char *folder, const struct xt_cache_files *taken,
                                           struct xt_err *err);

/* The value of a "# key: value" line of an index; "not told" where there is none. */
void xt_cache_about(const char *about, const char *key, char *out, size_t room);

/* BASE: `given` (--cache-dir) or $XTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/xtrain, else
 * ~/.cache/xtrain; into *out (free). */
enum xt_status xt_kernel_cache_base(const char *given, char **out, struct xt_err *err);

/* The folder under `base` that this machine uses with the oneDNN file `library`; into *out (free).
 */
enum xt_status xt_kernel_cache_folder(const char *base, const char *library, char **out,
                                      struct xt_err *err);

/* Whether `path`, a folder, and its files may be trusted as code: XT_OK, or XT_ERR_DATA with the
 * reason. A missing folder is XT_OK. */
enum xt_status xt_kernel_cache_check_folder(const char *path, struct xt_err *err);

/* The same of BASE/kernels/KEY and of the two folders above it. */
enum xt_status xt_kernel_cache_check_folders(const char *path, struct xt_err *err);

enum { XT_KERNEL_CACHE_MOST = 1 << 30 }; /* bytes; what is older is the driver's to throw out */

struct xt_kernel_cache {
    char *folder; /* in use; NULL: none */
    bool users;   /* the user set the variables: nothing was checked */
    bool writable;
    bool reads_blobs; /* oneDNN's */
    bool writes_blobs;
    int lock;     /* file descriptor, -1: none */
    int kept;     /* files that were there and are fine */
    int left_out; /* files that were removed */
    uint64_t bytes;
    struct xt_str about;  /* what the index said of them when it was read */
    struct xt_str key;    /* what KEY is made of, in one line */
    bool ahead;           /* they were made ahead of time, and fit (ahead.h) */
    bool keep_about;      /* what the index says is of kernels that are not used now */
    pthread_mutex_t turn; /* of the threads that make kernels: blobs are kept by one at a time */
    char note[320];       /* what the user should know: why there is no cache, what was left out */
};

/* Chooses and checks the folder and sets the environment. `library` is the oneDNN file that will be
 * loaded. `off`: the driver shall keep nothing. Never an error that stops a run, short of memory:
 * a cache that cannot be used is left out, and `note` says why. */
enum xt_status xt_kernel_cache_begin(struct xt_kernel_cache *cache, const char *base, bool off,
                                     const char *library, struct xt_err *err);
/* Once the library is loaded and before it starts a driver: oneDNN's blobs are kept. `alone`: they
 * are all there is to keep, and the driver keeps nothing. */
void xt_kernel_cache_keep_blobs(struct xt_kernel_cache *cache, bool alone);
/* Removes all kernels; false where one cannot be. */
bool xt_kernel_cache_drop(struct xt_kernel_cache *cache);
/* Records the files that are there now; `about` as for xt_cache_files_record, to which what KEY is
 * made of is added. */
enum xt_status xt_kernel_cache_record(struct xt_kernel_cache *cache, const char *about,
                                      struct xt_err *err);
/* How many kernels are there now, recorded or not; 0 where no cache is in use. */
int xt_kernel_cache_count(const struct xt_kernel_cache *cache);
void xt_kernel_cache_end(struct xt_kernel_cache *cache);

#endif
