/* Messages. Results go to standard output, messages to standard error, one sentence per line, so
 * that a pipe carries only results.
 *
 * On a terminal the last line may be a live one, rewritten in place (cli/progress.h). A message
 * replaces it, and the live line is printed again below. Thread-safe; the level is set once, before
 * threads start.
 *
 * Messages contain names from untrusted files and archives. Line breaks and control characters are
 * escaped here (xt_str_escape), so callers need not.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum xt_log_level { XT_LOG_SILENT, XT_LOG_QUIET, XT_LOG_NORMAL, XT_LOG_VERBOSE };

void xt_log_set_level(enum xt_log_level level);

/* For a library, which does not own standard error: messages go to the listener from then on, one
 * sentence per call, from any thread but one at a time; NULL discards them. */
typedef void xt_log_listener(void *context, const char *sentence);
void xt_log_listen(xt_log_listener *listener, void *context);
/* Discards messages unless a listener is set. */
void xt_log_hush(void);

/* Whether messages begin with date and time; set once, before threads start. */
void xt_log_set_time(bool on);

/* A message at that level and above, behind the prefix. */
void xt_log_say(enum xt_log_level least, const char *prefix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A fact worth knowing: printed unless --quiet. */
#define xt_log_note(...) xt_log_say(XT_LOG_NORMAL, "", __VA_ARGS__)
/* Something the user should change: "warning: ..."; printed at every level but silent. */
#define xt_log_warn(...) xt_log_say(XT_LOG_QUIET, "warning: ", __VA_ARGS__)
/* The same for a constant sentence, not again when it comes up several times running. */
void xt_log_warn_once(const char *sentence);
/* The same of this machine: ranks that are silent say it too, after their name ("rank 1 on a: ").
 */
void xt_log_warn_here(const char *format, ...) __attribute__((format(printf, 1, 2)));
void xt_log_set_name(const char *name);
/* A detail: printed with --verbose. */
#define xt_log_detail(...) xt_log_say(XT_LOG_VERBOSE, "", __VA_ARGS__)

/* The error the program exits with: "xtrain: error: ..."; printed at every level. */
#define xt_log_error(...) xt_log_say(XT_LOG_SILENT, "xtrain: error: ", __VA_ARGS__)
/* A progress line to `out`, with date and time if messages have them. */
void xt_log_progress(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A result line to `out`. */
void xt_log_result(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A text of several lines, each as a result line. */
void xt_log_result_lines(FILE *out, const char *text);

/* Replaces the live line; for terminals only. At most 511 bytes and no wider than the terminal. */
void xt_log_show_line(const char *line);
/* Erases the live line, before other code writes to the terminal. */
void xt_log_clear_line(void);

/* The last sentence of an interrupted program, at every level: "xtrain: ...". */
#define xt_log_end(...) xt_log_say(XT_LOG_SILENT, "xtrain: ", __VA_ARGS__)

/* Opens a non-blocking standard error for xt_log_from_signal. Once, before handlers are
 * installed. */
void xt_log_prepare_signal(void);
/* A message from the handler of a stop signal: async-signal-safe, never blocks. From then on no
 * message waits longer than a second for a pipe's reader. */
void xt_log_from_signal(const char *sentence);
/* The same for the program's last sentence, at every level. */
void xt_log_error_from_signal(const char *sentence);
