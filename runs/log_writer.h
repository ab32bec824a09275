/* The run's record for programs: <run>/metrics.jsonl, one JSON object a line.
 *
 * A line is built key by key (begin, integer, number, end) and written whole by end,
 * so that a reader never waits for half of one for long. Keys are the caller's constants: `step`,
 * `epoch`, `time`, `loss`, `lr`, `images_per_s`, `wait` in training lines; `step`, `epoch`, `time`,
 * the plate score's keys and `val_loss` in evaluation lines. The caller owns the writer; one thread
 * uses it at a time.
 */
#ifndef XT_RUNS_LOG_WRITER_H
#define XT_RUNS_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_LOG_LINE_MAX = 2048 };

struct xt_log_writer {
    int fd;
    char *path;
    size_t length; /* of `line`; larger than it has room for: the line did not fit */
    char line[XT_LOG_LINE_MAX];
};

/* The last steps whose lines stay, as the checkpoint that a run goes on from knows them; INT64_MAX:
 * all do. */
struct xt_log_keep {
    int64_t training;
    int64_t evaluations; /* of lines with `val_loss` */
    int64_t checkpoint;  /* its own step: a line with `rolled_back_to` stays where that is less,
                          * since  later checkpoints are of the run after it */
};

/* Whether a rollback to that step is of what is gone on from. */
static inline bool xt_log_keeps_rollback(const struct xt_log_keep *keep, double rolled_back_to)
{
    return rolled_back_to < (double)keep->checkpoint;
}

/* Opens a record to append, and makes it where it is missing; *fd is -1 after a failure. Of what an
 * earlier run left stays what `keep` moves to the front of the bytes that it is given: it returns
 * how many those are. */
enum xt_status xt_log_writer_open_mended(int *fd, const char *path,
                                         size_t (*keep)(void *context, uint8_t *bytes, size_t size),
                                         void *context, struct xt_err *err);

/* Opens `path` to append, and makes it where it is missing. What an earlier run left is mended
 * first: a last line without its end is cut off, and so are lines whose `step` is greater than what
 * is to be kept and lines that are no JSON object. Errors (XT_ERR_RUN, XT_ERR_DATA) name the path;
 * close may be called after one. */
enum xt_status xt_log_writer_open(struct xt_log_writer *writer, const char *path,
                                  struct xt_log_keep keep, struct xt_err *err);

/* Does nothing on a writer that failed to open or is closed. */
void xt_log_writer_close(struct xt_log_writer *writer);

/* A record: begin, then keys in the order wanted, then end. A number that is not finite becomes
 * null. */
void xt_log_writer_begin(struct xt_log_writer *writer);
void xt_log_writer_integer(struct xt_log_writer *writer, const char *key, int64_t value);
void xt_log_writer_number(struct xt_log_writer *writer, const char *key, double value);
/* A constant of the program's, with nothing in it that JSON would escape; NULL becomes null. */
void xt_log_writer_word(struct xt_log_writer *writer, const char *key, const char *word);
/* Hands the line to the system. After a failure (a full disk, say) the file ends in a whole line
 * again, and more lines may be tried. */
enum xt_status xt_log_writer_end(struct xt_log_writer *writer, struct xt_err *err);
/* Waits until all lines are on the disk. */
enum xt_status xt_log_writer_sync(struct xt_log_writer *writer, struct xt_err *err);

#endif
