#include "cli/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "runs/report/json.h"

/* The value column starts one after this, or after the longest label. */
enum { LABEL_COLUMNS = 14, TABLE_COLUMNS = 32 };

enum kind { FIGURE, LINE, GROUP, TABLE };

struct xt_report {
    enum kind kind;
    struct xt_report *root;
    bool failed; /* of the root: out of memory */
    cJSON *json; /* of a group: the object that receives its figures; the root's owns all of it */
    char *label;
    char *text;
    bool is_number;
    struct xt_report *first, *last, *next;
};

/* ---- building ---- */

struct xt_report *xt_report_create(void)
{
    struct xt_report *root = calloc(1, sizeof *root);
    if (!root)
        return NULL;
    *root = (struct xt_report){.kind = GROUP, .root = root, .json = cJSON_CreateObject()};
    root->failed = !root->json;
    return root;
}

void xt_report_fail(struct xt_report *at)
{
    if (at)
        at->root->failed = true;
}

static struct xt_report *add_node(struct xt_report *at, enum kind kind)
{
    struct xt_report *node = at ? calloc(1, sizeof *node) : NULL;
    if (!node) {
        xt_report_fail(at);
        return NULL;
    }
    *node = (struct xt_report){.kind = kind, .root = at->root};
    *(at->last ? &at->last->next : &at->first) = node;
    at->last = node;
    return node;
}

/* Takes ownership of the item; NULL means out of memory. */
static void put_json(struct xt_report *at, const char *key, cJSON *item)
{
    bool fine =
        key ? cJSON_AddItemToObject(at->json, key, item) : cJSON_AddItemToArray(at->json, item);
    if (!fine) {
        cJSON_Delete(item);
        xt_report_fail(at);
    }
}

/* Whether this figure appears in JSON. */
static bool wants_json(const struct xt_report *at, const char *key)
{
    return at && at->json && (key || cJSON_IsArray(at->json));
}

static struct xt_report *add_group(struct xt_report *at, struct xt_report *in, const char *key,
                                   enum kind kind, bool is_array)
{
    struct xt_report *group = add_node(at, kind);
    if (!group)
        return NULL;
    group->json = in ? in->json : NULL;
    if (wants_json(in, key)) {
        group->json = is_array ? cJSON_CreateArray() : cJSON_CreateObject();
        put_json(in, key, group->json);
        if (in->root->failed)
            group->json = NULL;
    }
    return group;
}

struct xt_report *xt_report_group(struct xt_report *at, const char *key)
{
    return add_group(at, at, key, GROUP, false);
}

struct xt_report *xt_report_group_in(struct xt_report *at, struct xt_report *in, const char *key)
{
    return add_group(at, in, key, GROUP, false);
}

struct xt_report *xt_report_list(struct xt_report *at, const char *key)
{
    return add_group(at, at, key, GROUP, true);
}

struct xt_report *xt_report_table(struct xt_report *at, const char *key)
{
    return add_group(at, at, key, TABLE, true);
}

/* Adds a figure's text; takes ownership of `text`. */
static void put_text(struct xt_report *at, const char *label, bool is_number, char *text)
{
    struct xt_report *figure = add_node(at, FIGURE);
    char *copy = strdup(label);
    if (!figure || !text || !copy) {
        xt_report_fail(at);
        free(text);
        free(copy);
        return;
    }
    figure->label = copy;
    figure->text = text;
    figure->is_number = is_number;
}

/* The length modifier and conversion letter of the format's only conversion. */
static const char *conversion_of(const char *format)
{
    const char *at = strchr(format, '%');
    while (at && at[1] == '%')
        at = strchr(at + 2, '%');
    return at ? at + 1 + strspn(at + 1, "+- #0123456789.") : "";
}

/* Formats one value; NULL if out of memory. */
__attribute__((format(printf, 1, 2))) static char *print_value(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text;
}

/* The text escaped by xt_str_escape or xt_str_escape_bytes; NULL if out of memory. */
static char *escaped(const char *text, size_t (*escape)(const char *text, char *out, size_t size))
{
    size_t room = 4 * strlen(text) + 1;
    char *out = malloc(room);
    if (out)
        escape(text, out, room);
    return out;
}

static void add_number(struct xt_report *at, const char *key, const char *label, double value,
                       char *text)
{
    if (wants_json(at, key) && !isnan(value))
        put_json(at, key, cJSON_CreateNumber(value));
    if (label)
        put_text(at, label, true, text);
    else
        free(text);
}

static void add_string(struct xt_report *at, const char *key, const char *label, const char *format,
                       const char *value)
{
    char *bytes = escaped(value ? value : "not told", xt_str_escape_bytes);
    char *shown = escaped(value ? value : "not told", xt_str_escape);
    if (!bytes || !shown)
        xt_report_fail(at);
    else if (wants_json(at, key))
        put_json(at, key, value ? cJSON_CreateString(bytes) : cJSON_CreateNull());
    if (label && shown)
        put_text(at, label, false, print_value(format, shown));
    free(bytes);
    free(shown);
}

void xt_report_add(struct xt_report *at, const char *key, const char *label, const char *format,
                   ...)
{
    const char *conversion = conversion_of(format);
    va_list args;
    va_list again;
    if (!at)
        return;
    va_start(args, format);
    va_copy(again, args);
    if (*conversion == 's') {
        add_string(at, key, label, format, va_arg(args, const char *));
    } else {
        char *text = NULL;
        double value = xt_json_read_number(conversion, &args);
        if (label && isnan(value))
            text = print_value("%.*s-", (int)strcspn(format, "%"), format);
        else if (label && vasprintf(&text, format, again) < 0)
            text = NULL;
        add_number(at, key, label, value, text);
    }
    va_end(again);
    va_end(args);
}

void xt_report_values(struct xt_report *at, const char *format, ...)
{
    struct xt_json_value value;
    va_list args;
    va_start(args, format);
    while (xt_json_next(&format, &args, &value))
        if (value.is_text)
            add_string(at, value.key, NULL, "", value.text);
        else
            add_number(at, value.key, NULL, value.number, NULL);
    va_end(args);
}

void xt_report_scaled(struct xt_report *at, const char *key, const char *label, double scale,
                      const char *format, ...)
{
    va_list args;
    if (!at)
        return;
    va_start(args, format);
    double value = va_arg(args, double);
    va_end(args);
    char *text = NULL;
    if (label)
        text = isnan(value) ? strdup("-") : print_value(format, scale * value);
    add_number(at, key, label, value, text);
}

void xt_report_flag(struct xt_report *at, const char *key, const char *label, bool value,
                    const char *yes, const char *no)
{
    if (wants_json(at, key))
        put_json(at, key, cJSON_CreateBool(value));
    if (at && label)
        put_text(at, label, false, strdup(value ? yes : no));
}

void xt_report_null(struct xt_report *at, const char *key)
{
    if (wants_json(at, key))
        put_json(at, key, cJSON_CreateNull());
}

void xt_report_line(struct xt_report *at, const char *format, ...)
{
    struct xt_report *line = add_node(at, LINE);
    va_list args;
    if (!line)
        return;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    line->text = text ? escaped(text, xt_str_escape) : NULL;
    if (!line->text)
        xt_report_fail(at);
    free(text);
}

/* ---- printing as text ---- */

struct page {
    FILE *out;
    bool begun; /* the line is not empty */
    int labels; /* columns of the longest label */
};

static int wider(int a, int b)
{
    return a > b ? a : b;
}

static void end_line(struct page *page)
{
    if (page->begun)
        fputc('\n', page->out);
    page->begun = false;
}

/* printf pads by bytes; this pads by columns. */
static void pad(const struct page *page, const char *text, int columns, bool to_the_right)
{
    int blanks = columns - xt_utf8_columns(text);
    if (to_the_right && blanks > 0)
        fprintf(page->out, "%*s", blanks, "");
    fputs(text, page->out);
    if (!to_the_right && blanks > 0)
        fprintf(page->out, "%*s", blanks, "");
}

static bool has_table(const struct xt_report *group)
{
    for (const struct xt_report *child = group->first; child; child = child->next)
        if (child->kind == TABLE || (child->kind == GROUP && has_table(child)))
            return true;
    return false;
}

static bool stands_below(const struct xt_report *node)
{
    return node->kind == TABLE || (node->kind == GROUP && has_table(node));
}

/* The figures of a row that have a column, in order. */
static int list_cells(const struct xt_report *row, const struct xt_report **cells, int count)
{
    for (const struct xt_report *node = row->first; node && count < TABLE_COLUMNS;
         node = node->next)
        if (node->kind == FIGURE && *node->label)
            cells[count++] = node;
        else if (node->kind == GROUP && !has_table(node))
            count = list_cells(node, cells, count);
    return count;
}

struct column {
    int width;
    bool is_number; /* in at least one row: the column is right-aligned */
};

static void print_cells(struct page *page, const struct xt_report **cells, int count,
                        const struct column *columns, bool heading)
{
    for (int i = 0; i < count; i++) {
        const char *text = heading ? cells[i]->label : cells[i]->text;
        bool is_end = i == count - 1 && !columns[i].is_number;
        if (i && (*text || !is_end))
            fputc(' ', page->out);
        pad(page, text, is_end ? 0 : columns[i].width, columns[i].is_number);
    }
    fputc('\n', page->out);
}

static void print_node(struct page *page, const struct xt_report *node);

/* Prints a row's figures without a column, and what stands below the whole table. */
static void print_rest(struct page *page, const struct xt_report *row)
{
    for (const struct xt_report *node = row->first; node; node = node->next)
        if (node->kind == LINE || (node->kind == FIGURE && !*node->label))
            print_node(page, node);
    end_line(page);
}

static void print_table(struct page *page, const struct xt_report *table)
{
    const struct xt_report *cells[TABLE_COLUMNS];
    struct column columns[TABLE_COLUMNS] = {{0}};
    for (const struct xt_report *row = table->first; row; row = row->next) {
        int count = list_cells(row, cells, 0);
        for (int i = 0; i < count; i++) {
            int widest = wider(xt_utf8_columns(cells[i]->label), xt_utf8_columns(cells[i]->text));
            columns[i].width = wider(columns[i].width, widest);
            columns[i].is_number = columns[i].is_number || cells[i]->is_number;
        }
    }
    for (const struct xt_report *row = table->first; row; row = row->next) {
        int count = list_cells(row, cells, 0);
        if (row == table->first)
            print_cells(page, cells, count, columns, true);
        print_cells(page, cells, count, columns, false);
        print_rest(page, row);
    }
    for (const struct xt_report *row = table->first; row; row = row->next)
        for (const struct xt_report *node = row->first; node; node = node->next)
            if (stands_below(node))
                print_node(page, node);
}

static void print_node(struct page *page, const struct xt_report *node)
{
    if (node->kind == TABLE || node->kind == LINE || (node->kind == FIGURE && *node->label))
        end_line(page);
    switch (node->kind) {
    case FIGURE:
        if (*node->label) {
            pad(page, node->label, page->labels, false);
            fputc(' ', page->out);
        }
        /* Padding is for columns only. */
        fputs(node->text + (*node->label ? strspn(node->text, " ") : 0), page->out);
        page->begun = true;
        break;
    case LINE:
        fprintf(page->out, "%s\n", node->text);
        break;
    case GROUP:
        for (const struct xt_report *child = node->first; child; child = child->next)
            print_node(page, child);
        break;
    case TABLE:
        print_table(page, node);
        break;
    }
}

static int longest_label(const struct xt_report *group)
{
    int longest = LABEL_COLUMNS;
    for (const struct xt_report *node = group->first; node; node = node->next)
        if (node->kind == FIGURE)
            longest = wider(longest, xt_utf8_columns(node->label));
        else if (node->kind == GROUP)
            longest = wider(longest, longest_label(node));
    return longest;
}

/* ---- printing and destroying ---- */

static void destroy_nodes(struct xt_report *node)
{
    while (node) {
        struct xt_report *next = node->next;
        destroy_nodes(node->first);
        free(node->label);
        free(node->text);
        free(node);
        node = next;
    }
}

void xt_report_destroy(struct xt_report *report)
{
    if (report)
        cJSON_Delete(report->json);
    destroy_nodes(report);
}

static bool print_json(const struct xt_report *report, FILE *out)
{
    char *text = cJSON_PrintUnformatted(report->json);
    if (text)
        fprintf(out, "%s\n", text);
    cJSON_free(text);
    return text;
}

enum xt_status xt_report_take(struct xt_report *report, struct cJSON **out, struct xt_err *err)
{
    bool fine = report && !report->failed;
    *out = fine ? report->json : NULL;
    if (fine)
        report->json = NULL;
    xt_report_destroy(report);
    return fine ? XT_OK : xt_err_no_memory(err, "the report", 0);
}

enum xt_status xt_report_end(struct xt_report *report, enum xt_report_form form, FILE *out,
                             struct xt_err *err)
{
    bool fine = report && !report->failed;
    if (fine && form == XT_REPORT_TEXT) {
        struct page page = {.out = out, .labels = longest_label(report)};
        print_node(&page, report);
        end_line(&page);
    } else if (fine) {
        fine = print_json(report, out);
    }
    xt_report_destroy(report);
    return fine ? XT_OK : xt_err_no_memory(err, "the report", 0);
}
