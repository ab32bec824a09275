/* Errors: one sentence for the user on what failed, and the exit code.
 *
 * Every function that can fail returns `enum xt_status` and takes a caller-owned `struct xt_err *`.
 * On success the error is unchanged; on failure it holds the sentence. A `struct xt_err` owns no
 * memory and needs no clean-up. Not thread-safe: one error per thread.
 */
#pragma once

#include <stdarg.h>

#include <stddef.h>

/* The values are the program's exit codes. */
enum xt_status {
    XT_OK = 0,
    XT_ERR_RUN = 1,       /* the run failed: disk, a NaN loss, a failed comparison */
    XT_ERR_USAGE = 2,     /* an invalid command line or configuration */
    XT_ERR_DATA = 3,      /* invalid images, labels, weights or checkpoints */
    XT_ERR_DEVICE = 4,    /* a missing or failed device, or its library */
    XT_ERR_MEMORY = 5,    /* out of memory, on the host or the device */
    XT_STOPPED = 75,      /* stopped and saved, to be resumed (EX_TEMPFAIL) */
    XT_INTERRUPTED = 130, /* interrupted and saved */
};

struct xt_err {
    enum xt_status status;
    char text[1024];
};

/* Stores the sentence and returns `status`, so that a caller can write `return xt_err_set(...)`. A
 * text that is too long is truncated and ends in "...". `err` may be NULL if only the status is
 * needed. */
enum xt_status xt_err_set(struct xt_err *err, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same of a system call that failed: the sentence ends in what errno says (0: a file has become
 * shorter), and the status is XT_ERR_MEMORY if that is a lack of memory. */
enum xt_status xt_err_system(struct xt_err *err, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stores the sentence unless an earlier failure is stored; for builders whose callers check once.
 */
void xt_err_set_first(struct xt_err *err, enum xt_status status, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Prepends context to the stored sentence ("reading a.png: " + text); returns the stored status. */
enum xt_status xt_err_prefix(struct xt_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The sentence for a failed allocation of `bytes` for `what`. Returns XT_ERR_MEMORY. */
enum xt_status xt_err_no_memory(struct xt_err *err, const char *what, size_t bytes);
