/* Results of a command, described once and printed as text or as one JSON object.
 *
 * A report is a tree. Each figure has a key for JSON, a label for text, and a printf format with
 * one conversion for its value: JSON gets the value, text the formatted value. Key NULL omits it
 * from JSON, label NULL from text. As text
 *
 *     a label           starts a line: the label, then the value; values are aligned;
 *     the label ""      continues the line of the previous figure;
 *     in a table        each row is a group; labels are column headings, columns are as wide as
 *                       their contents, and a figure labelled "" is printed below its row.
 *
 * Strings may come from files: text is printed by xt_str_escape, so that it stays on its line, and
 * JSON is always UTF-8 (xt_str_escape_bytes).
 *
 * Out of memory is sticky: calls after it need no check, also with a NULL group, and xt_report_end
 * returns the error. Keys, labels and texts are copied. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* A report, or a group, list or table that belongs to one. */
struct xt_report;

struct xt_report *xt_report_create(void);
/* For a report that is not printed. */
void xt_report_destroy(struct xt_report *report);

/* A JSON object; as text its figures, in place. Key NULL: no nesting in JSON, but inside a list an
 * object of the list. */
struct xt_report *xt_report_group(struct xt_report *at, const char *key);
/* As xt_report_group, but a JSON array; figures in it have no key. */
struct xt_report *xt_report_list(struct xt_report *at, const char *key);
/* A list of groups, which are rows with the same figures. Tables inside a row, and groups with
 * tables, are printed below the whole table. */
struct xt_report *xt_report_table(struct xt_report *at, const char *key);
/* A group whose text is here and whose JSON is in another group; `in` NULL: text only. */
struct xt_report *xt_report_group_in(struct xt_report *at, struct xt_report *in, const char *key);

/* Adds a figure. Conversions: %s (JSON: a string; NULL: null, and "not told"), %d, %ld, %lld, %zu,
 * %f (JSON: a number; NAN: omitted, and "-" as text). */
void xt_report_add(struct xt_report *at, const char *key, const char *label, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
/* Figures for JSON alone, several at once: "label=%s count=%zu loss=%f" are their keys and the
 * conversions of their values. */
void xt_report_values(struct xt_report *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A double that text shows multiplied by `scale`: shares in per cent, bytes in MB. */
void xt_report_scaled(struct xt_report *at, const char *key, const char *label, double scale,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A boolean; as text one of two words. */
void xt_report_flag(struct xt_report *at, const char *key, const char *label, bool value,
                    const char *yes, const char *no);
/* JSON only: null for an unknown value. */
void xt_report_null(struct xt_report *at, const char *key);
/* Text only: a line. */
void xt_report_line(struct xt_report *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Marks the report as incomplete: out of memory. */
void xt_report_fail(struct xt_report *at);

struct cJSON;

/* Destroys the report, but for its JSON: *out is the caller's; NULL after a failure. */
enum xt_status xt_report_take(struct xt_report *report, struct cJSON **out, struct xt_err *err);

/* JSON is one object on one line. */
enum xt_report_form { XT_REPORT_TEXT, XT_REPORT_JSON };

/* Prints the report and destroys it; an incomplete report prints nothing and returns an error. */
enum xt_status xt_report_end(struct xt_report *report, enum xt_report_form form, FILE *out,
                             struct xt_err *err);
