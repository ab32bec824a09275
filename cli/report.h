/* What a command found: figures that are described once and printed as text or as one JSON object.
 *
 * A report is a tree. Each figure has a key for JSON, a label for text, and a printf format with
 * one conversion for its one value: JSON gets the value as it is, text what the format makes of it.
 * Key NULL leaves it out of JSON, label NULL out of text. As text
 *
 *     a label           begins a line: the label, then the value, all of them below each other;
 *     the label ""      goes on where the figure before it ended;
 *     in a table        each row is a group; labels are headings of columns as wide as what is in
 *                       them, and a figure labelled "" stands below its row.
 *
 * Strings may come from files: text is printed by xt_str_escape, so that a line stays one, and JSON
 * is always UTF-8 (xt_str_escape_bytes).
 *
 * Running out of memory sticks: describing goes on without asking, also with a NULL where a group
 * could not be made, and xt_report_end says so. Keys are copied, as labels and texts are. Not
 * thread-safe.
 */
#ifndef XT_CLI_REPORT_H
#define XT_CLI_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* A report, or a group, list or table in one, which belongs to it. */
struct xt_report;

struct xt_report *xt_report_create(void);
/* Where it is not to be printed. */
void xt_report_destroy(struct xt_report *report);

/* A JSON object and, as text, what is in it, in its place. Key NULL: no level of its own in JSON,
 * but in a list an object of the list. */
struct xt_report *xt_report_group(struct xt_report *at, const char *key);
/* The same as a JSON array; a figure in it has no key. */
struct xt_report *xt_report_list(struct xt_report *at, const char *key);
/* A list of groups, which are rows of the same figures. Tables in a row, and groups with tables,
 * stand below the whole. */
struct xt_report *xt_report_table(struct xt_report *at, const char *key);
/* A group whose text is here and whose JSON is in another group; in NULL: text alone. */
struct xt_report *xt_report_group_in(struct xt_report *at, struct xt_report *in, const char *key);

/* A figure. Conversions: %s (JSON: a string; NULL: null, and "not told"), %d, %ld, %lld, %zu, %f
 * (JSON: a number; NAN: nothing, and "-"). */
void xt_report_add(struct xt_report *at, const char *key, const char *label, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
/* A double of which text shows `scale` times as much: shares in per cent, bytes in MB. */
void xt_report_scaled(struct xt_report *at, const char *key, const char *label, double scale,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* True or false; as text one of two words. */
void xt_report_flag(struct xt_report *at, const char *key, const char *label, bool value,
                    const char *yes, const char *no);
/* For JSON alone: what is not known. */
void xt_report_null(struct xt_report *at, const char *key);
/* For text alone: a line. */
void xt_report_line(struct xt_report *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For want of memory something could not be described. */
void xt_report_fail(struct xt_report *at);

/* JSON is one object on one line. */
enum xt_report_form { XT_REPORT_TEXT, XT_REPORT_JSON };

/* Prints the report and destroys it; of one that lacks something nothing is printed. */
enum xt_status xt_report_end(struct xt_report *report, enum xt_report_form form, FILE *out,
                             struct xt_err *err);

#endif
