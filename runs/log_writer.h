/* The run's record for programs: <run>/metrics.jsonl, one JSON object a line.
 *
 * A line is built key by key (begin, integer, number, end) and written whole by end, so that
 * readers see whole lines. Keys are the caller's constants: `step`, `epoch`, `time`, `loss`, `lr`,
 * `images_per_s`, `wait` in training lines; `step`, `epoch`, `time`, the plate score's keys and
 * `val_loss` in evaluation lines. The caller owns the writer; one thread uses it at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"

enum { XT_LOG_LINE_MAX = 2048 };

struct xt_log_writer {
    int fd;
    char *path;
    struct xt_sha256_text head; /* hash of the last line (chain.h); "": lines have none */
    size_t length;              /* of `line`; larger than the array: the line did not fit */
    char line[XT_LOG_LINE_MAX];
};

/* A rollback: the line with `rolled_back_to`. */
struct xt_log_rollback {
    int64_t step; /* that failed */
    int64_t to;
    double lr_factor;
};

/* The last steps whose lines are retained, by the checkpoint that a run resumes from; INT64_MAX:
 * all are. Rollbacks are all retained, but for the same one as `repeated`: a run that was resumed
 * has come to it again, and its line follows anew. */
struct xt_log_keep {
    int64_t training;
    int64_t evaluations; /* of lines with `val_loss` */
    struct xt_log_rollback repeated;
};

static inline bool xt_log_is_repeated(const struct xt_log_keep *keep, double step, double to,
                                      double lr_factor)
{
    const struct xt_log_rollback *repeated = &keep->repeated;
    return step == (double)repeated->step && to == (double)repeated->to &&
           (float)lr_factor == (float)repeated->lr_factor;
}

/* Whether a line, with its newline, is retained. */
bool xt_log_keeps_line(const char *line, size_t length, struct xt_log_keep keep);

/* Opens a record to append, creating it where it is missing; *fd is -1 after a failure. `keep`
 * filters what an earlier run left: it moves the bytes to retain to the front and returns their
 * number. */
enum xt_status xt_log_writer_open_mended(int *fd, const char *path,
                                         size_t (*keep)(void *context, uint8_t *bytes, size_t size),
                                         void *context, struct xt_err *err);

/* Opens `path` to append, creating it where it is missing. What an earlier run left is repaired
 * first: an incomplete last line, lines whose `step` is beyond those to retain, and lines that are
 * not JSON objects are removed. Errors (XT_ERR_RUN, XT_ERR_DATA) name the path; close may be called
 * after one. The caller sets `head` where lines are to be chained. */
enum xt_status xt_log_writer_open(struct xt_log_writer *writer, const char *path,
                                  struct xt_log_keep keep, struct xt_err *err);

/* Does nothing on a writer that failed to open or is closed. */
void xt_log_writer_close(struct xt_log_writer *writer);

/* A record: begin, then keys in the order wanted, then end. A non-finite number becomes null. */
void xt_log_writer_begin(struct xt_log_writer *writer);
void xt_log_writer_integer(struct xt_log_writer *writer, const char *key, int64_t value);
void xt_log_writer_number(struct xt_log_writer *writer, const char *key, double value);
/* A constant of the program without characters that JSON escapes; NULL becomes null. */
void xt_log_writer_word(struct xt_log_writer *writer, const char *key, const char *word);
/* Hands the line to the system. After a failure (a full disk, say) the file still ends in a whole
 * line, and later lines may be tried. */
enum xt_status xt_log_writer_end(struct xt_log_writer *writer, struct xt_err *err);
/* Waits until all lines are on the disk. */
enum xt_status xt_log_writer_sync(struct xt_log_writer *writer, struct xt_err *err);
