/* What the program says beside its results. Results go to standard output; everything here goes to
 * standard error, one sentence a line, so that a pipe sees results alone.
 *
 * On a terminal one line may stand at its end and be rewritten as things go on (cli/progress.h). A
 * message takes that line's place, and the line comes again below it. Thread-safe; the level is set
 * once, before threads start.
 *
 * Names from files, archives and weights end up in what is said. Whatever is printed here is one
 * line: what would end it, or be a command to the terminal, is escaped (xt_str_escape), so that no
 * caller has to think of it.
 */
#ifndef XT_BASE_LOG_H
#define XT_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum xt_log_level { XT_LOG_SILENT, XT_LOG_QUIET, XT_LOG_NORMAL, XT_LOG_VERBOSE };

void xt_log_set_level(enum xt_log_level level);
enum xt_log_level xt_log_level(void);

/* For a library, whose standard error is not its own: from then on messages go to the listener, a
 * sentence each, from whichever thread; NULL: nowhere. One at a time. */
typedef void xt_log_listener(void *context, const char *sentence);
void xt_log_listen(xt_log_listener *listener, void *context);
/* The same with NULL, unless somebody listens. */
void xt_log_hush(void);

/* Whether messages begin with date and time; set once, before threads start. */
void xt_log_set_time(bool on);

/* A fact worth knowing: printed unless --quiet. */
void xt_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Something the user will want to change: "warning: ..."; printed at every level but silent. */
void xt_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A detail: printed with --verbose. */
void xt_log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How the program fails: "xtrain: error: ..."; printed at every level. */
void xt_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line of progress, to `out`: with date and time where messages have them. */
void xt_log_progress(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of a result, to `out`. */
void xt_log_result(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Each line of a text as one. */
void xt_log_result_lines(FILE *out, const char *text);

/* For terminals alone: the line (of at most 511 bytes, and no wider than the terminal) that stands
 * at the end, in place of the one before. */
void xt_log_show_line(const char *line);
/* Wipes it, where one stands: before anything is written to a terminal by another way. */
void xt_log_clear_line(void);

/* The sentence that the program ends with, at every level: "xtrain: ...". */
void xt_log_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens what xt_log_from_signal writes to: standard error without waiting. Once, before handlers
 * are installed. */
void xt_log_prepare_signal(void);
/* A note from a signal's handler that asks to stop: async-signal-safe, and never waits. From then
 * on no message waits longer than a second for a reader of standard error that takes nothing. */
void xt_log_from_signal(const char *sentence);
/* The same for the sentence that the program ends with, at every level. */
void xt_log_error_from_signal(const char *sentence);

#endif
