#include "runs/report/error_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runs/report/page.h"
#include "runs/report/json.h"

/* A larger matrix would be mostly zeros; the pairs contain it all. */
enum { MATRIX_MOST = 2000 };

enum form { JSONL, TSV, HTML, NONE };

static enum form form_of(const char *path)
{
    return xt_str_ends(path, ".jsonl")  ? JSONL
           : xt_str_ends(path, ".tsv")  ? TSV
           : xt_str_ends(path, ".html") ? HTML
                                        : NONE;
}

enum xt_status xt_error_files_check(const char *path, struct xt_err *err)
{
    struct xt_file_writer writer;
    if (form_of(path) == NONE)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--errors %s: the extension chooses the format: .jsonl, .tsv or .html",
                          path);
    enum xt_status status = xt_file_begin(&writer, path, err);
    xt_file_abandon(&writer);
    return status;
}

/* ---- lines ---- */

struct writing {
    const struct xt_findings *findings;
    enum form form;
    struct xt_str text;
};

/* A table cell, without tabs and newlines. */
static void put_cell(struct xt_str *line, const char *text, bool first)
{
    if (!first)
        xt_str_append(line, "\t", 1, NULL);
    xt_str_append_escaped(line, text, NULL);
}

static enum xt_status put_name(struct writing *to, int symbol, bool first, struct xt_err *err)
{
    struct xt_str name = {0};
    enum xt_status status = xt_findings_name(to->findings->errors, symbol, &name, err);
    put_cell(&to->text, xt_str_get(&name), first);
    xt_str_clear(&name);
    return status;
}

/* Writes the object as a line; takes ownership. */
static enum xt_status put_json_line(struct writing *to, struct xt_json *json, cJSON *object,
                                    struct xt_err *err)
{
    enum xt_status status = xt_json_print(json, object, &to->text, err);
    if (!status)
        status = xt_str_append(&to->text, "\n", 1, err);
    cJSON_Delete(object);
    return status;
}

/* Path, label, prediction, confidence, and the confidences of its parts. */
static enum xt_status put_error_row(struct writing *to, const cJSON *error,
                                    const struct xt_wrong *wrong, struct xt_err *err)
{
    put_cell(&to->text, xt_json_get_text(error, "path", ""), true);
    put_cell(&to->text, xt_json_get_text(error, "expected", ""), false);
    put_cell(&to->text, xt_json_get_text(error, "read", ""), false);
    xt_str_printf(&to->text, NULL, "\t%.4f\t", wrong->confidence);
    for (int i = 0; i < wrong->length; i++)
        xt_str_printf(&to->text, NULL, i ? " %.3f" : "%.3f", (double)wrong->confidences[i]);
    return xt_str_append(&to->text, "\n", 1, err);
}

static enum xt_status put_error(struct writing *to, const struct xt_wrong *wrong,
                                struct xt_err *err)
{
    struct xt_json json = {0};
    cJSON *error = xt_findings_error(&json, to->findings, wrong);
    if (to->form == JSONL)
        return put_json_line(to, &json, error, err);
    enum xt_status status = json.failed ? xt_err_no_memory(err, "a wrong answer", 0)
                                        : put_error_row(to, error, wrong, err);
    cJSON_Delete(error);
    return status;
}

static enum xt_status list_errors(struct writing *to, struct xt_err *err)
{
    const struct xt_errors *errors = to->findings->errors;
    enum xt_status status = XT_OK;
    if (to->form == TSV)
        xt_str_printf(&to->text, NULL, "path\texpected\tread\tconfidence\tparts\n");
    for (size_t i = 0; i < errors->count && !status; i++)
        status = put_error(to, errors->wrong[i], err);
    return status;
}

/* ---- pairs and matrix ---- */

static enum xt_status put_pair(struct writing *to, const struct xt_confused *pair,
                               struct xt_err *err)
{
    const struct xt_errors *errors = to->findings->errors;
    size_t of = pair->expected < 0 ? 0 : errors->seen[pair->expected];
    if (to->form == JSONL) {
        struct xt_json json = {0};
        cJSON *object = cJSON_CreateObject();
        xt_findings_put_name(&json, object, "expected", errors, pair->expected);
        xt_findings_put_name(&json, object, "read", errors, pair->read);
        xt_json_put(&json, object, "count=%f of=%f", (double)pair->count, (double)of);
        return put_json_line(to, &json, object, err);
    }
    enum xt_status status = put_name(to, pair->expected, true, err);
    if (!status)
        status = put_name(to, pair->read, false, err);
    return status ? status : xt_str_printf(&to->text, err, "\t%zu\t%zu\n", pair->count, of);
}

static enum xt_status list_pairs(struct writing *to, struct xt_err *err)
{
    const struct xt_errors *errors = to->findings->errors;
    enum xt_status status = XT_OK;
    if (to->form == TSV)
        xt_str_printf(&to->text, NULL, "expected\tread\tcount\tof\n");
    for (size_t i = 0; i < errors->pair_count && !status; i++)
        status = put_pair(to, &errors->pairs[i], err);
    return status;
}

/* How often class `row` was read as each: counts[classes]. */
static void count_row(const struct xt_errors *errors, int row, size_t *counts)
{
    memset(counts, 0, (size_t)errors->symbols * sizeof *counts);
    counts[row] = errors->right[row];
    for (size_t i = 0; i < errors->pair_count; i++)
        if (errors->pairs[i].expected == row)
            counts[errors->pairs[i].read] = errors->pairs[i].count;
}

static enum xt_status put_row(struct writing *to, int row, const size_t *counts, struct xt_err *err)
{
    int classes = to->findings->errors->symbols;
    if (to->form == JSONL) {
        struct xt_json json = {0};
        cJSON *object = cJSON_CreateObject();
        xt_findings_put_name(&json, object, "expected", to->findings->errors, row);
        cJSON *read = xt_json_object(&json, object, "read");
        for (int i = 0; i < classes; i++) {
            struct xt_str name = {0};
            if (!counts[i])
                continue;
            if (xt_findings_name(to->findings->errors, i, &name, NULL))
                json.failed = true;
            xt_json_number(&json, read, xt_str_get(&name), (double)counts[i]);
            xt_str_clear(&name);
        }
        return put_json_line(to, &json, object, err);
    }
    enum xt_status status = put_name(to, row, true, err);
    for (int i = 0; i < classes; i++)
        xt_str_printf(&to->text, NULL, "\t%zu", counts[i]);
    return status ? status : xt_str_append(&to->text, "\n", 1, err);
}

static enum xt_status list_matrix(struct writing *to, struct xt_err *err)
{
    int classes = to->findings->errors->symbols;
    size_t *counts = NULL;
    enum xt_status status =
        xt_mem_calloc(&counts, (size_t)classes, sizeof *counts, "a row of the matrix", err);
    if (!status && to->form == TSV) {
        xt_str_printf(&to->text, NULL, "expected");
        for (int i = 0; i < classes && !status; i++)
            status = put_name(to, i, false, err);
        xt_str_append(&to->text, "\n", 1, NULL);
    }
    for (int i = 0; i < classes && !status; i++) {
        count_row(to->findings->errors, i, counts);
        status = put_row(to, i, counts, err);
    }
    free(counts);
    return status;
}

/* ---- files ---- */

/* "errors-confused.tsv" of "errors.tsv" and "-confused"; added to the list. */
static enum xt_status name_file(const char *path, const char *part, struct xt_file_list *files,
                                struct xt_err *err)
{
    const char *ending = strrchr(path, '.');
    enum xt_status status =
        xt_mem_add(&files->paths, files->count, sizeof *files->paths, "file names", err);
    if (status)
        return status;
    if (asprintf(&files->paths[files->count], "%.*s%s%s", (int)(ending - path), path, part,
                 ending) < 0)
        return xt_err_no_memory(err, "a file name", strlen(path));
    files->count++;
    return XT_OK;
}

static enum xt_status write_list(const char *path, const char *part, struct writing *to,
                                 enum xt_status (*list)(struct writing *to, struct xt_err *err),
                                 struct xt_file_list *files, struct xt_err *err)
{
    to->text.length = 0;
    enum xt_status status = list(to, err);
    if (!status)
        status = name_file(path, part, files, err);
    if (!status)
        status = xt_file_save(files->paths[files->count - 1], xt_str_get(&to->text),
                              to->text.length, err);
    return status;
}

static enum xt_status write_page(const char *path, const struct xt_findings *findings,
                                 const char *weights, const char *data, struct xt_err *err)
{
    cJSON *found = NULL;
    enum xt_status status = xt_findings_describe(findings, &found, err);
    return status ? status : xt_page_write_findings(path, found, weights, data, err);
}

enum xt_status xt_error_files_write(const char *path, const struct xt_findings *findings,
                                    const char *weights, const char *data,
                                    struct xt_file_list *files, struct xt_err *err)
{
    struct writing to = {.findings = findings, .form = form_of(path)};
    const struct xt_network *network = findings->errors->predictor->network;
    *files = (struct xt_file_list){0};
    if (to.form == HTML) {
        enum xt_status written = write_page(path, findings, weights, data, err);
        return written ? written : name_file(path, "", files, err);
    }
    enum xt_status status = write_list(path, "", &to, list_errors, files, err);
    if (!status)
        status = write_list(path, "-confused", &to, list_pairs, files, err);
    if (!status && network->task == XT_TASK_CLASSES && network->classes <= MATRIX_MOST)
        status = write_list(path, "-matrix", &to, list_matrix, files, err);
    xt_str_clear(&to.text);
    return status;
}
