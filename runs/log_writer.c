#include "runs/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "runs/chain.h"

static const size_t file_limit = (size_t)1 << 32;

enum verdict { KEEP, LATER, BROKEN };

static double number_of(const cJSON *record, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(record, key));
}

/* Whether it was written after the checkpoint that is resumed from, and will be written again. */
static bool is_later(const cJSON *record, struct xt_log_keep keep)
{
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(record, "step");
    double rolled_back_to = number_of(record, "rolled_back_to");
    if (!isnan(rolled_back_to))
        return xt_log_is_repeated(&keep, number_of(record, "step"), rolled_back_to,
                                  number_of(record, "lr_factor"));
    int64_t last = cJSON_HasObjectItem(record, "val_loss") ? keep.evaluations : keep.training;
    return cJSON_IsNumber(step) && step->valuedouble > (double)last;
}

static enum verdict judge_line(const char *line, size_t length, struct xt_log_keep keep)
{
    cJSON *record = cJSON_ParseWithLength(line, length);
    enum verdict verdict = !cJSON_IsObject(record) ? BROKEN : is_later(record, keep) ? LATER : KEEP;
    cJSON_Delete(record);
    return verdict;
}

bool xt_log_keeps_line(const char *line, size_t length, struct xt_log_keep keep)
{
    return judge_line(line, length, keep) == KEEP;
}

static enum xt_status mend(const char *path,
                           size_t (*keep)(void *context, uint8_t *bytes, size_t size),
                           void *context, struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, file_limit, &bytes, err);
    size_t used = status ? 0 : keep(context, bytes.data, bytes.size);
    if (!status && used < bytes.size)
        status = xt_file_save(path, bytes.data, used, err);
    free(bytes.data);
    return status;
}

enum xt_status xt_log_writer_open_mended(int *fd, const char *path,
                                         size_t (*keep)(void *context, uint8_t *bytes, size_t size),
                                         void *context, struct xt_err *err)
{
    enum xt_status status = xt_file_exists(path) ? mend(path, keep, context, err) : XT_OK;
    *fd = -1;
    return status ? status : xt_file_open_own(path, O_WRONLY | O_APPEND, fd, err);
}

/* Which lines are retained, and how many were broken. */
struct lines {
    struct xt_log_keep keep;
    size_t broken;
};

/* Anything after the last newline is an incomplete line. */
static size_t keep_lines(void *context, uint8_t *text, size_t size)
{
    struct lines *lines = context;
    size_t used = 0;
    const uint8_t *end = NULL;
    for (size_t at = 0; at < size && (end = memchr(text + at, '\n', size - at));) {
        size_t length = (size_t)(end - (text + at)) + 1;
        enum verdict verdict = judge_line((const char *)text + at, length, lines->keep);
        if (verdict == KEEP) {
            memmove(text + used, text + at, length);
            used += length;
        }
        lines->broken += verdict == BROKEN;
        at += length;
    }
    return used;
}

enum xt_status xt_log_writer_open(struct xt_log_writer *writer, const char *path,
                                  struct xt_log_keep keep, struct xt_err *err)
{
    struct lines lines = {.keep = keep};
    *writer = (struct xt_log_writer){.fd = -1};
    enum xt_status status = xt_mem_strdup(&writer->path, path, err);
    if (!status)
        status = xt_log_writer_open_mended(&writer->fd, path, keep_lines, &lines, err);
    if (!status && lines.broken)
        xt_log_warn("%s of %s %s no JSON objects and are gone from it",
                    xt_count((long long)lines.broken, "line").text, path,
                    lines.broken == 1 ? "was" : "were");
    return status;
}

void xt_log_writer_close(struct xt_log_writer *writer)
{
    if (writer->path && writer->fd >= 0)
        close(writer->fd);
    free(writer->path);
    *writer = (struct xt_log_writer){.fd = -1};
}

/* Appends to the line; one that does not fit is detected by its length. */
static void append(struct xt_log_writer *writer, const char *text)
{
    size_t length = strlen(text);
    if (writer->length + length <= sizeof writer->line)
        memcpy(writer->line + writer->length, text, length);
    writer->length += length;
}

static void append_key(struct xt_log_writer *writer, const char *key)
{
    if (writer->length > 1)
        append(writer, ",");
    append(writer, "\"");
    append(writer, key);
    append(writer, "\":");
}

void xt_log_writer_begin(struct xt_log_writer *writer)
{
    writer->length = 0;
    append(writer, "{");
}

void xt_log_writer_integer(struct xt_log_writer *writer, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    append_key(writer, key);
    append(writer, text);
}

/* The shortest of two forms that reads back as the same number, with a point whatever the locale
 * has. */
static void print_number(char *text, size_t size, double value)
{
    snprintf(text, size, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, size, "%.17g", value);
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
}

void xt_log_writer_number(struct xt_log_writer *writer, const char *key, double value)
{
    char text[40] = "null";
    if (isfinite(value))
        print_number(text, sizeof text, value);
    append_key(writer, key);
    append(writer, text);
}

void xt_log_writer_word(struct xt_log_writer *writer, const char *key, const char *word)
{
    append_key(writer, key);
    append(writer, word ? "\"" : "null");
    append(writer, word ? word : "");
    append(writer, word ? "\"" : "");
}

enum xt_status xt_log_writer_end(struct xt_log_writer *writer, struct xt_err *err)
{
    struct xt_sha256_text head = {""};
    if (*writer->head.text && writer->length <= sizeof writer->line) {
        head = xt_chain_next(writer->head.text, writer->line, writer->length);
        append_key(writer, "chain");
        append(writer, "\"");
        append(writer, head.text);
        append(writer, "\"");
    }
    append(writer, "}\n");
    if (writer->length > sizeof writer->line)
        return xt_err_set(err, XT_ERR_RUN, "cannot write %s: a line of %zu bytes is too long",
                          writer->path, writer->length);
    enum xt_status status =
        xt_file_append(writer->fd, writer->path, writer->line, writer->length, err);
    if (!status)
        writer->head = head;
    return status;
}

enum xt_status xt_log_writer_sync(struct xt_log_writer *writer, struct xt_err *err)
{
    /* EINVAL: a pipe or the like, which cannot. */
    if (fdatasync(writer->fd) == 0 || errno == EINVAL)
        return XT_OK;
    return xt_err_system(err, XT_ERR_RUN, "cannot write %s", writer->path);
}
