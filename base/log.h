/* What the program says beside its results. Results go to standard output; everything here goes to
 * standard error, one sentence a line, so that a pipe sees results alone. Thread-safe; the level is
 * set once, before threads start.
 */
#ifndef XT_BASE_LOG_H
#define XT_BASE_LOG_H

enum xt_log_level { XT_LOG_QUIET, XT_LOG_NORMAL, XT_LOG_VERBOSE };

void xt_log_set_level(enum xt_log_level level);
enum xt_log_level xt_log_level(void);

/* A fact worth knowing: printed unless --quiet. */
void xt_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Something the user will want to change: "warning: ..."; printed at every level. */
void xt_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A detail: printed with --verbose. */
void xt_log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
