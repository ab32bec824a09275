/* The result of the command: text on standard output, with --json one JSON object however the
 * program ends, with --jsonl a line for each image, step or evaluation and that object last.
 *
 * With --json standard output is collected until the end: what commands print as text becomes
 * `text`. One object for the process, as its output is one. Not thread-safe, but for the last
 * words. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/commands.h"
#include "cli/report.h"

enum xt_result_form { XT_RESULT_TEXT, XT_RESULT_JSON, XT_RESULT_LINES };

/* `command` may be XT_COMMAND_COUNT: none was found. */
void xt_result_begin(enum xt_command_id command, enum xt_result_form form);
/* False for text. */
bool xt_result_is_json(void);
/* Prints nothing: for ranks but the first. */
void xt_result_mute(void);

/* Prints the report as text, or adds it to the object. Takes ownership. */
enum xt_status xt_result_put(struct xt_report *report, struct xt_err *err);
/* The same where `status` is XT_OK; after a failure the report is only destroyed. */
enum xt_status xt_result_put_unless(enum xt_status status, struct xt_report *report,
                                    struct xt_err *err);
/* A report that is one of a list: with --json an object in the list `key`; with --jsonl, unless
 * `line` is XT_SCHEMA_COUNT, a line of that schema. */
enum xt_status xt_result_put_one(struct xt_report *report, const char *key, int line,
                                 struct xt_err *err);
/* With --json only: takes ownership of the value, NULL if out of memory. */
enum xt_status xt_result_put_json(const char *key, struct cJSON *value, struct xt_err *err);
/* With --jsonl a line of that schema; otherwise nothing. Takes ownership. */
enum xt_status xt_result_line(struct xt_report *report, int line, struct xt_err *err);
/* The command that is likely to come next. */
void xt_result_next(const char *command);

/* Completes and prints the object; false, with errno, if it cannot be written. */
bool xt_result_end(enum xt_status status, const struct xt_err *err);
/* The object of a process that cannot go on: async-signal-safe. `members` are JSON members, each
 * with a comma behind it, or "". */
void xt_result_last_words(const char *members, const char *error, enum xt_status status);
