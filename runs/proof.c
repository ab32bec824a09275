#include "runs/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "runs/chain.h"
#include "runs/report/json.h"

enum { FORMAT = 1, PROOF_MAX = 16 << 20, PIECE = 1 << 20 };

struct date {
    char text[24]; /* "2026-01-31T23:59:59Z" */
};

static struct date date_of(int64_t seconds)
{
    struct date date = {""};
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

static enum xt_status hash_of(const struct xt_json *json, const char *from, const cJSON *item,
                              struct xt_sha256_text *out, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = xt_json_print(json, item, &text, err);
    if (!status)
        *out = xt_chain_next(from, xt_str_get(&text), text.length);
    xt_str_clear(&text);
    return status;
}

/* Takes the seal off. */
static enum xt_status break_seal(cJSON *all, enum xt_proof_seal *out, struct xt_err *err)
{
    const struct xt_json json = {0};
    struct xt_sha256_text hash;
    cJSON *seal = cJSON_DetachItemFromObjectCaseSensitive(all, "seal");
    const char *then = cJSON_GetStringValue(seal);
    enum xt_status status = hash_of(&json, "", all, &hash, err);
    *out = !seal                                         ? XT_SEAL_NONE
           : !status && then && !strcmp(then, hash.text) ? XT_SEAL_HOLDS
                                                         : XT_SEAL_BROKEN;
    cJSON_Delete(seal);
    return status;
}

enum xt_status xt_proof_read(const char *folder, cJSON **out, enum xt_proof_seal *seal,
                             struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    *out = NULL;
    const struct xt_path path = xt_file_path(folder, XT_PROOF_FILE);
    enum xt_status status = xt_file_load(path.text, PROOF_MAX, &bytes, err);
    if (!status) {
        cJSON *all = cJSON_ParseWithLength((const char *)bytes.data, bytes.size);
        if (xt_json_get(all, "format", 0) == FORMAT &&
            cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(all, "starts")) &&
            cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(all, "files"))) {
            status = break_seal(all, seal, err);
            *out = all;
        } else {
            cJSON_Delete(all);
            status = xt_err_set(err, XT_ERR_DATA,
                                "%s is damaged, or of another version of this program", path.text);
        }
    }
    free(bytes.data);
    return status;
}

static enum xt_status save(const struct xt_proof *proof, struct xt_json *json, struct xt_err *err)
{
    struct xt_str text = {0};
    struct xt_sha256_text seal = {""};
    enum xt_status status = hash_of(json, "", proof->all, &seal, err);
    xt_json_text(json, proof->all, "seal", seal.text);
    if (!status)
        status = xt_json_print(json, proof->all, &text, err);
    cJSON_DeleteItemFromObjectCaseSensitive(proof->all, "seal");
    const struct xt_path path = xt_run_folder_file(proof->folder, XT_PROOF_FILE);
    if (!status)
        status = xt_file_save(path.text, text.data, text.length, err);
    xt_str_clear(&text);
    return status;
}

static bool is_there(const struct xt_proof *proof, const char *name)
{
    return xt_file_exists(xt_run_folder_file(proof->folder, name).text);
}

/* What the chain cannot prove any more: said now, and by every xtrain verify. */
static void add_break(struct xt_proof *proof, struct xt_json *json, const char *what)
{
    cJSON *breaks = cJSON_GetObjectItemCaseSensitive(proof->all, "breaks");
    if (!breaks)
        breaks = xt_json_array(json, proof->all, "breaks");
    cJSON *item = xt_json_object(json, breaks, NULL);
    xt_json_put(json, item, "found=%s what=%s", date_of((int64_t)time(NULL)).text, what);
    xt_log_warn("%s: %s; the run continues, and xtrain verify will say so", proof->folder->path,
                what);
}

static enum xt_status begin(struct xt_proof *proof, struct xt_json *json, struct xt_err *err)
{
    struct xt_err why;
    enum xt_proof_seal seal = XT_SEAL_NONE;
    enum xt_status status = XT_OK;
    bool there = is_there(proof, XT_PROOF_FILE);
    if (there && !xt_proof_read(proof->folder->path, &proof->all, &seal, &why)) {
        if (seal == XT_SEAL_BROKEN)
            add_break(proof, json, "proof.json is not what was written");
        return XT_OK;
    }
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
    const struct date now = date_of((int64_t)time(NULL));
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
        xt_json_put(json, last, "first=%s step=%f count=%d ranks=%d", now.text, (double)start->step,
                    1, start->ranks);
        xt_json_add(json, last, "with", with);
    }
    renew(json, last, "last", now.text);
    renew(json, last, "device_check", verdict);
    renew(json, last, "device_checked", start->checked ? date_of(start->checked).text : "never");
}

/* What the start's link says. */
static enum xt_status describe_facts(struct xt_proof *proof, struct xt_json *json,
                                     const struct xt_proof_start *start, struct xt_err *err)
{
    struct xt_sha256_text versions = {""};
    cJSON *with = xt_proof_describe(start->machine);
    enum xt_status status = hash_of(json, "", with, &versions, err);
    cJSON_Delete(with);
    cJSON *facts = proof->facts = cJSON_CreateObject();
    json->failed = json->failed || !facts;
    xt_json_put(
        json, facts, "started=%s folder=%s step=%f ranks=%d data=%s settings=%s versions=%s",
        date_of((int64_t)time(NULL)).text, xt_file_name(proof->folder->path), (double)start->step,
        start->ranks, start->data.text, start->settings.text, versions.text);
    if (*start->begun_from)
        xt_json_text(json, facts, "begun_from", start->begun_from);
    return status;
}

enum xt_status xt_proof_open(struct xt_proof *proof, const struct xt_run_folder *folder,
                             const struct xt_proof_start *start, struct xt_err *err)
{
    struct xt_json json = {0};
    *proof = (struct xt_proof){.folder = folder};
    unlink(xt_run_folder_file(folder, XT_PROOF_SIGNATURE).text);
    enum xt_status status = begin(proof, &json, err);
    if (status)
        return status;
    record_start(&json, cJSON_GetObjectItemCaseSensitive(proof->all, "starts"), start);
    return describe_facts(proof, &json, start, err);
}

void xt_proof_close(struct xt_proof *proof)
{
    cJSON_Delete(proof->all);
    cJSON_Delete(proof->facts);
    *proof = (struct xt_proof){0};
}

/* ---- the chain ---- */

static cJSON *links_of(const cJSON *all)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(all, "chain"),
                                            "links");
}

const char *xt_proof_id(const cJSON *all)
{
    return xt_json_get_text(cJSON_GetArrayItem(links_of(all), 0), "head", "");
}

const char *xt_proof_head(const cJSON *all)
{
    return xt_json_get_text(cJSON_GetObjectItemCaseSensitive(all, "chain"), "head", "");
}

static bool has_link(const cJSON *links, const struct xt_chain_cut *cut)
{
    const cJSON *link;
    cJSON_ArrayForEach(link, links)
    {
        if (!strcmp(xt_json_get_text(link, "after", ""), cut->after.text) &&
            !strcmp(xt_json_get_text(link, "head", ""), cut->from.text))
            return true;
    }
    return false;
}

/* Takes ownership of the facts. */
static enum xt_status add_link(struct xt_json *json, cJSON *links, const char *after,
                               const char *from, cJSON *facts, struct xt_sha256_text *head,
                               struct xt_err *err)
{
    struct xt_sha256_text hash = {""};
    snprintf(hash.text, sizeof hash.text, "%s", from);
    enum xt_status status = facts ? hash_of(json, from, facts, &hash, err) : XT_OK;
    cJSON *link = xt_json_object(json, links, NULL);
    xt_json_put(json, link, "after=%s from=%s", after, from);
    if (facts)
        xt_json_add(json, link, "facts", facts);
    xt_json_text(json, link, "head", hash.text);
    *head = hash;
    return status;
}

/* The newest hash: of the last line, or of the last link where no line came after it. */
static const char *newest(const struct xt_proof *proof, const struct xt_chain_survey *survey)
{
    const cJSON *links = links_of(proof->all);
    const cJSON *last = cJSON_GetArrayItem(links, cJSON_GetArraySize(links) - 1);
    const char *head = xt_proof_head(proof->all);
    bool is_link = last && !strcmp(head, xt_json_get_text(last, "head", ""));
    return is_link && !strcmp(survey->end.text, xt_json_get_text(last, "after", ""))
               ? head
               : survey->end.text;
}

/* What happened to the record between two starts. */
static const char *what_is_broken(const struct xt_proof *proof,
                                  const struct xt_chain_survey *survey)
{
    const cJSON *links = links_of(proof->all);
    const cJSON *last = cJSON_GetArrayItem(links, cJSON_GetArraySize(links) - 1);
    const char *head = xt_proof_head(proof->all);
    if (!last)
        return *survey->end.text ? "proof.json of the lines so far is missing" : NULL;
    bool is_there = survey->has_head || !strcmp(head, xt_json_get_text(last, "head", ""));
    return is_there ? NULL : "lines of metrics.jsonl are missing";
}

static cJSON *chain_of(struct xt_proof *proof, struct xt_json *json,
                       const struct xt_chain_survey *survey)
{
    cJSON *chain = cJSON_GetObjectItemCaseSensitive(proof->all, "chain");
    if (chain)
        return chain;
    chain = xt_json_object(json, proof->all, "chain");
    xt_json_add(json, chain, "earlier", cJSON_CreateBool(survey->unchained > 0));
    xt_json_array(json, chain, "links");
    return chain;
}

enum xt_status xt_proof_link(struct xt_proof *proof, const struct xt_chain_survey *survey,
                             struct xt_sha256_text *head, struct xt_err *err)
{
    struct xt_json json = {0};
    struct xt_sha256_text from = {""};
    const char *broken = what_is_broken(proof, survey);
    if (broken)
        add_break(proof, &json, broken);
    cJSON *chain = chain_of(proof, &json, survey);
    cJSON *links = cJSON_GetObjectItemCaseSensitive(chain, "links");
    snprintf(from.text, sizeof from.text, "%s", newest(proof, survey));
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < survey->cut_count && !status; i++) {
        const struct xt_chain_cut *cut = &survey->cuts[i];
        if (!has_link(links, cut))
            status = add_link(&json, links, cut->after.text, cut->from.text, NULL, head, err);
    }
    cJSON *facts = proof->facts;
    proof->facts = NULL;
    if (!status)
        status = add_link(&json, links, survey->retained.text, from.text, facts, head, err);
    else
        cJSON_Delete(facts);
    renew(&json, chain, "head", head->text);
    return status ? status : save(proof, &json, err);
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
            status = xt_err_system(err, XT_ERR_DATA, "cannot read %s", path);
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

/* --keep retains the newest checkpoints alone. */
static void forget_old(const struct xt_proof *proof)
{
    cJSON *files = cJSON_GetObjectItemCaseSensitive(proof->all, "files");
    cJSON *next = NULL;
    for (cJSON *file = files ? files->child : NULL; file; file = next) {
        next = file->next;
        if (xt_str_starts(file->string, "state-") && !is_there(proof, file->string))
            cJSON_Delete(cJSON_DetachItemViaPointer(files, file));
    }
}

enum xt_status xt_proof_after(struct xt_proof *proof, const char *name, int64_t step,
                              const char *head, struct xt_err *err)
{
    struct xt_json json = {0};
    struct xt_sha256_text hash;
    size_t bytes = 0;
    if (!proof->all)
        return XT_OK;
    const struct xt_path path = xt_run_folder_file(proof->folder, name);
    enum xt_status status = xt_proof_hash(path.text, &hash, &bytes, err);
    if (status)
        return status;
    cJSON *file = file_anew(&json, proof, name);
    xt_json_put(&json, file, "sha256=%s bytes=%f step=%f", hash.text, (double)bytes, (double)step);
    if (head)
        renew(&json, cJSON_GetObjectItemCaseSensitive(proof->all, "chain"), "head", head);
    forget_old(proof);
    return save(proof, &json, err);
}
