#include "cli/json/result.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/json/schema.h"

static struct {
    enum xt_result_form form;
    bool mute;
    bool failed; /* out of memory */
    enum xt_command_id command;
    cJSON *object;
    FILE *out; /* the real standard output, while text is collected */
    /* Where it is collected. It stays open: C++'s runtime, if a GPU's libraries load it meanwhile,
     * has it for the standard output, and flushes it when the process ends. */
    FILE *collected;
    char *text;
    size_t size;
    char next[1024];
} result;

void xt_result_begin(enum xt_command_id command, enum xt_result_form form)
{
    result.command = command;
    result.form = form;
    if (form == XT_RESULT_TEXT)
        return;
    result.object = cJSON_CreateObject();
    if (!result.object ||
        !cJSON_AddItemToObject(result.object, "schema", xt_schema_mark((int)command)))
        result.failed = true;
    if (form == XT_RESULT_JSON)
        result.collected = open_memstream(&result.text, &result.size);
    if (!result.collected)
        return;
    result.out = stdout;
    stdout = result.collected;
}

bool xt_result_is_json(void)
{
    return result.form != XT_RESULT_TEXT;
}

void xt_result_mute(void)
{
    result.mute = true;
}

/* A mismatch is a mistake of this program: the result is still worth having. */
static void check(int id, const cJSON *object)
{
    char why[160];
    if (!xt_schema_check(id, object, why, sizeof why))
        xt_log_warn("this JSON is not as `xtrain schema %s` says: %s; please report it",
                    xt_schema_name(id), why);
}

/* Moves all members; destroys `from`. False if out of memory. */
static bool merge(cJSON *to, cJSON *from)
{
    bool fine = to && from;
    while (fine && from->child) {
        cJSON *item = cJSON_DetachItemViaPointer(from, from->child);
        fine = cJSON_AddItemToObject(to, item->string, item);
        if (!fine)
            cJSON_Delete(item);
    }
    cJSON_Delete(from);
    return fine;
}

enum xt_status xt_result_put(struct xt_report *report, struct xt_err *err)
{
    cJSON *object = NULL;
    if (!xt_result_is_json())
        return xt_report_end(report, XT_REPORT_TEXT, stdout, err);
    enum xt_status status = xt_report_take(report, &object, err);
    if (!status && !merge(result.object, object))
        return xt_err_no_memory(err, "the result", 0);
    return status;
}

enum xt_status xt_result_put_unless(enum xt_status status, struct xt_report *report,
                                    struct xt_err *err)
{
    if (!status)
        return xt_result_put(report, err);
    xt_report_destroy(report);
    return status;
}

enum xt_status xt_result_line(struct xt_report *report, int line, struct xt_err *err)
{
    cJSON *object = NULL;
    if (result.form != XT_RESULT_LINES || result.mute) {
        xt_report_destroy(report);
        return XT_OK;
    }
    enum xt_status status = xt_report_take(report, &object, err);
    if (status)
        return status;
    check(line, object);
    cJSON *marked = cJSON_CreateObject();
    bool fine =
        cJSON_AddItemToObject(marked, "schema", xt_schema_mark(line)) && merge(marked, object);
    char *text = fine ? cJSON_PrintUnformatted(marked) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(marked);
    return text ? XT_OK : xt_err_no_memory(err, "a line of --jsonl", 0);
}

enum xt_status xt_result_put_one(struct xt_report *report, const char *key, int line,
                                 struct xt_err *err)
{
    cJSON *object = NULL;
    if (!xt_result_is_json())
        return xt_report_end(report, XT_REPORT_TEXT, stdout, err);
    if (result.form == XT_RESULT_LINES && line != XT_SCHEMA_COUNT)
        return xt_result_line(report, line, err);
    enum xt_status status = xt_report_take(report, &object, err);
    if (status)
        return status;
    cJSON *list = cJSON_GetObjectItemCaseSensitive(result.object, key);
    if (!list)
        list = cJSON_AddArrayToObject(result.object, key);
    if (list && cJSON_AddItemToArray(list, object))
        return XT_OK;
    cJSON_Delete(object);
    return xt_err_no_memory(err, "the result", 0);
}

enum xt_status xt_result_put_json(const char *key, struct cJSON *value, struct xt_err *err)
{
    if (value && cJSON_AddItemToObject(result.object, key, value))
        return XT_OK;
    cJSON_Delete(value);
    return xt_err_no_memory(err, "the result", 0);
}

void xt_result_next(const char *command)
{
    snprintf(result.next, sizeof result.next, "%s", command);
}

static void put_text(const char *key, const char *text)
{
    char *bytes = text ? malloc(4 * strlen(text) + 1) : NULL;
    if (bytes)
        xt_str_escape_bytes(text, bytes, 4 * strlen(text) + 1);
    cJSON *item = bytes ? cJSON_CreateString(bytes) : text ? NULL : cJSON_CreateNull();
    cJSON_DeleteItemFromObjectCaseSensitive(result.object, key);
    if (!item || !cJSON_AddItemToObject(result.object, key, item))
        result.failed = true;
    free(bytes);
}

/* Where nothing better is known. */
static void find_next(enum xt_status status)
{
    bool known = result.command < XT_COMMAND_COUNT;
    if (*result.next)
        return;
    if (status == XT_ERR_USAGE)
        snprintf(result.next, sizeof result.next, "xtrain help%s%s", known ? " " : "",
                 known ? xt_command_get(result.command)->name : "");
    else if (status == XT_ERR_DEVICE)
        snprintf(result.next, sizeof result.next, "xtrain doctor");
}

static void complete(enum xt_status status, const struct xt_err *err)
{
    static const char no_sentence[] = "it did not succeed; see the other members";
    if (result.size)
        put_text("text", result.text);
    if (status) {
        find_next(status);
        put_text("error", *err->text ? err->text : no_sentence);
    }
    if (status || *result.next)
        put_text("next", *result.next ? result.next : NULL);
    cJSON_DeleteItemFromObjectCaseSensitive(result.object, "exit_code");
    if (!cJSON_AddNumberToObject(result.object, "exit_code", (int)status))
        result.failed = true;
}

bool xt_result_end(enum xt_status status, const struct xt_err *err)
{
    if (!xt_result_is_json())
        return true;
    if (result.out) {
        result.failed |= fflush(stdout) != 0;
        stdout = result.out;
        result.out = NULL;
    }
    complete(status, err);
    check((int)result.command, result.object);
    char *text = result.failed ? NULL : cJSON_PrintUnformatted(result.object);
    if (!result.mute && text)
        printf("%s\n", text);
    else if (!result.mute)
        xt_result_last_words("", "out of memory", XT_ERR_MEMORY);
    cJSON_free(text);
    cJSON_Delete(result.object);
    result.object = NULL;
    result.form = XT_RESULT_TEXT;
    return text || result.mute;
}

void xt_result_last_words(const char *members, const char *error, enum xt_status status)
{
    char text[8192] = "{\"schema\":{\"name\":\"";
    char utf8[2048];
    if (!xt_result_is_json() || result.mute)
        return;
    xt_str_append_json(text, sizeof text, xt_schema_name((int)result.command));
    char *blank = strchr(text, ' ');
    if (blank)
        *blank = '-';
    xt_str_append_to(text, sizeof text, "\",\"version\":%d},%.4096s\"error\":\"", XT_SCHEMA_VERSION,
                     members);
    xt_str_escape_bytes(error, utf8, sizeof utf8);
    xt_str_append_json(text, sizeof text - 64, utf8);
    xt_str_append_to(text, sizeof text, *result.next ? "\",\"next\":\"" : "\",\"next\":null");
    xt_str_append_json(text, sizeof text - 64, result.next);
    xt_str_append_to(text, sizeof text, "%s,\"exit_code\":%d}\n", *result.next ? "\"" : "",
                     (int)status);
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        ssize_t wrote = write(STDOUT_FILENO, text + at, length - at);
        if (wrote <= 0)
            return;
        at += (size_t)wrote;
    }
}
