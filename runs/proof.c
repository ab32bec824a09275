#include "runs/proof.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "runs/report/json.h"

enum { FORMAT = 1, PROOF_MAX = 4 << 20, PIECE = 1 << 20 };

struct xt_proof_date xt_proof_date(int64_t seconds)
{
    struct xt_proof_date date = {""};
    struct tm parts;
    time_t when = (time_t)seconds;
    if (gmtime_r(&when, &parts))
        strftime(date.text, sizeof date.text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return date;
}

cJSON *xt_proof_describe(const struct xt_machine *machine)
{
    struct xt_json json = {0};
    cJSON *to = cJSON_CreateObject();
    for (int i = 0; i < machine->count; i++)
        xt_json_text(&json, to, machine->texts[i].key, machine->texts[i].value);
    if (!json.failed)
        return to;
    cJSON_Delete(to);
    return NULL;
}

/* ---- the record ---- */

enum xt_status xt_proof_read(const char *folder, cJSON **out, struct xt_err *err)
{
    uint8_t *data = NULL;
    size_t capacity = 0;
    size_t size = 0;
    char *path = NULL;
    *out = NULL;
    enum xt_status status = xt_file_join(&path, folder, XT_PROOF_FILE, err);
    if (!status)
        status = xt_file_read(path, PROOF_MAX, &data, &capacity, &size, err);
    if (!status) {
        cJSON *all = cJSON_ParseWithLength((const char *)data, size);
        if (xt_json_get(all, "format", 0) == FORMAT &&
            cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(all, "starts")) &&
            cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(all, "files"))) {
            *out = all;
        } else {
            cJSON_Delete(all);
            status = xt_err_set(err, XT_ERR_DATA,
                                "%s is damaged, or of another version of this program", path);
        }
    }
    free(data);
    free(path);
    return status;
}

static enum xt_status save(const struct xt_proof *proof, const struct xt_json *json,
                           struct xt_err *err)
{
    struct xt_str text = {0};
    char *path = NULL;
    enum xt_status status = xt_json_print(json, proof->all, &text, err);
    if (!status)
        status = xt_run_folder_file(proof->folder, XT_PROOF_FILE, &path, err);
    if (!status)
        status = xt_file_save(path, text.data, text.length, err);
    free(path);
    xt_str_clear(&text);
    return status;
}

static enum xt_status begin(struct xt_proof *proof, struct xt_json *json, struct xt_err *err)
{
    struct xt_err why;
    char *path = NULL;
    enum xt_status status = xt_run_folder_file(proof->folder, XT_PROOF_FILE, &path, err);
    bool there = !status && xt_file_exists(path);
    free(path);
    if (there && !xt_proof_read(proof->folder->path, &proof->all, &why))
        return XT_OK;
    if (there) {
        xt_log_warn("%s; a new record is begun", why.text);
        status = xt_run_folder_set_aside(proof->folder, XT_PROOF_FILE, err);
    }
    proof->all = cJSON_CreateObject();
    json->failed = json->failed || !proof->all;
    xt_json_number(json, proof->all, "format", FORMAT);
    xt_json_array(json, proof->all, "starts");
    xt_json_object(json, proof->all, "files");
    return status;
}

/* Replaces a key's text. */
static void renew(struct xt_json *json, cJSON *at, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(at, key);
    xt_json_text(json, at, key, text);
}

/* Whether the last recorded start had as many ranks, on the same hardware and software. */
static bool is_alike(const cJSON *last, const cJSON *with, const struct xt_proof_start *start)
{
    return last && xt_json_get(last, "ranks", 1) == start->ranks &&
           cJSON_Compare(cJSON_GetObjectItemCaseSensitive(last, "with"), with, true);
}

static void record_start(struct xt_json *json, cJSON *starts, const struct xt_proof_start *start)
{
    const struct xt_proof_date now = xt_proof_date((int64_t)time(NULL));
    cJSON *with = xt_proof_describe(start->machine);
    cJSON *last = cJSON_GetArrayItem(starts, cJSON_GetArraySize(starts) - 1);
    const char *verdict = start->checked       ? "passed"
                          : start->needs_check ? "not asked"
                                               : "not needed on the CPU";
    if (is_alike(last, with, start)) {
        double count = xt_json_get(last, "count", 1) + 1;
        cJSON_DeleteItemFromObjectCaseSensitive(last, "count");
        xt_json_number(json, last, "count", count);
        cJSON_Delete(with);
    } else {
        last = xt_json_object(json, starts, NULL);
        xt_json_text(json, last, "first", now.text);
        xt_json_number(json, last, "step", (double)start->step);
        xt_json_number(json, last, "count", 1);
        xt_json_number(json, last, "ranks", start->ranks);
        xt_json_add(json, last, "with", with);
    }
    renew(json, last, "last", now.text);
    renew(json, last, "device_check", verdict);
    renew(json, last, "device_checked",
          start->checked ? xt_proof_date(start->checked).text : "never");
}

enum xt_status xt_proof_open(struct xt_proof *proof, const struct xt_run_folder *folder,
                             const struct xt_proof_start *start, struct xt_err *err)
{
    struct xt_json json = {0};
    *proof = (struct xt_proof){.folder = folder};
    enum xt_status status = begin(proof, &json, err);
    if (status)
        return status;
    record_start(&json, cJSON_GetObjectItemCaseSensitive(proof->all, "starts"), start);
    return save(proof, &json, err);
}

void xt_proof_close(struct xt_proof *proof)
{
    cJSON_Delete(proof->all);
    *proof = (struct xt_proof){0};
}

/* ---- files ---- */

enum xt_status xt_proof_hash(const char *path, struct xt_sha256_text *out, size_t *bytes,
                             struct xt_err *err)
{
    struct xt_sha256 hash;
    uint8_t *piece = NULL;
    int fd = -1;
    xt_sha256_begin(&hash);
    enum xt_status status = xt_mem_calloc(&piece, PIECE, 1, "a file's hash", err);
    if (!status)
        status = xt_file_open(path, &fd, bytes, err);
    for (size_t at = 0; !status && at < *bytes; at += PIECE) {
        size_t count = *bytes - at < PIECE ? *bytes - at : PIECE;
        if (xt_file_read_at(fd, at, piece, count))
            xt_sha256_add(&hash, piece, count);
        else
            status = xt_err_set(err, XT_ERR_DATA, "cannot read %s: %s", path,
                                errno ? strerror(errno) : "it became shorter");
    }
    if (!status) {
        struct xt_sha256_digest digest = xt_sha256_end(&hash);
        *out = xt_sha256_format(&digest);
    }
    if (fd >= 0)
        close(fd);
    free(piece);
    return status;
}

static cJSON *file_anew(struct xt_json *json, const struct xt_proof *proof, const char *name)
{
    cJSON *files = cJSON_GetObjectItemCaseSensitive(proof->all, "files");
    cJSON_DeleteItemFromObjectCaseSensitive(files, name);
    return xt_json_object(json, files, name);
}

enum xt_status xt_proof_before(struct xt_proof *proof, const char *name, struct xt_err *err)
{
    struct xt_json json = {0};
    if (!proof->all)
        return XT_OK;
    file_anew(&json, proof, name);
    return save(proof, &json, err);
}

enum xt_status xt_proof_after(struct xt_proof *proof, const char *name, int64_t step,
                              struct xt_err *err)
{
    struct xt_json json = {0};
    struct xt_sha256_text hash;
    size_t bytes = 0;
    char *path = NULL;
    if (!proof->all)
        return XT_OK;
    enum xt_status status = xt_run_folder_file(proof->folder, name, &path, err);
    if (!status)
        status = xt_proof_hash(path, &hash, &bytes, err);
    free(path);
    if (status)
        return status;
    cJSON *file = file_anew(&json, proof, name);
    xt_json_text(&json, file, "sha256", hash.text);
    xt_json_number(&json, file, "bytes", (double)bytes);
    xt_json_number(&json, file, "step", (double)step);
    return save(proof, &json, err);
}
