#include "cli/verify/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "infer/network/run_mark.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "runs/chain_check.h"
#include "runs/checkpoint.h"
#include "runs/report/json.h"

static const char metrics_name[] = "metrics.jsonl";

/* A check and what it needs meanwhile. */
struct checking {
    struct xt_record_check *check;
    struct xt_report *table;
    struct xt_chain_check chain;
    bool has_gaps; /* starts or rollbacks have replaced lines: not all hashes are there */
    bool is_late;  /* the chain began in the middle of the run */
};

static void add_row(struct checking *at, const char *name, const char *state, const char *detail)
{
    struct xt_report *row = xt_report_group(at->table, NULL);
    at->check->files++;
    xt_report_add(row, "file", "file", "%s", name);
    xt_report_add(row, "state", "is", "%s", state);
    xt_report_add(row, "detail", *detail ? "" : NULL, "    %s", detail);
}

static void add_wrong(struct checking *at, const char *name, const char *state, const char *detail)
{
    at->check->wrong++;
    add_row(at, name, state, detail);
}

/* ---- the chain ---- */

static bool is_weights(const char *name)
{
    return xt_str_ends(name, ".safetensors");
}

static bool is_checkpoint(const char *name)
{
    return xt_str_starts(name, "state-") && is_weights(name);
}

static void check_links(struct checking *at, const cJSON *links)
{
    const cJSON *link;
    cJSON_ArrayForEach(link, links)
    {
        const char *after = xt_json_get_text(link, "after", NULL);
        const char *from = xt_json_get_text(link, "from", NULL);
        at->has_gaps = at->has_gaps || !after || !from || strcmp(after, from) != 0;
    }
}

static void describe_chain(struct checking *at)
{
    const struct xt_chain_check *chain = &at->chain;
    char detail[256] = "";
    const char *state = "changed";
    if (chain->broken_line)
        snprintf(detail, sizeof detail,
                 "line %zu does not follow from what is before it: it, or a line before it, was "
                 "changed, removed or added",
                 chain->broken_line);
    else if (chain->lacks_end)
        snprintf(detail, sizeof detail,
                 "its last lines are missing: it does not reach the last save of the run");
    else
        state = "as recorded";
    if (!*detail && chain->is_torn)
        snprintf(detail, sizeof detail,
                 "the run was killed while it wrote the last line; --resume removes that");
    at->check->wrong += strcmp(state, "changed") == 0;
    add_row(at, metrics_name, state, detail);
    if (chain->broken_line)
        xt_report_add(at->check->report, "broken_line", NULL, "%zu", chain->broken_line);
}

/* A run recorded by an earlier version: then its lines have no hashes either. */
static void describe_unchained(struct checking *at)
{
    if (at->chain.broken_line || at->chain.lines) {
        add_wrong(at, XT_PROOF_FILE, "changed",
                  "it lacks the chain of the run, of which metrics.jsonl has the hashes");
        return;
    }
    xt_report_line(
        at->check->report,
        "recorded before chains: metrics.jsonl, settings and their order are not proven");
}

static enum xt_status check_chain(struct checking *at, struct xt_err *err)
{
    struct xt_record_check *check = at->check;
    const cJSON *chain = cJSON_GetObjectItemCaseSensitive(check->proof, "chain");
    cJSON *none = chain ? NULL : cJSON_Parse("{\"earlier\":true,\"head\":\"\"}");
    const struct xt_path path = xt_file_path(check->folder, metrics_name);
    enum xt_status status = xt_chain_check(&at->chain, path.text, chain ? chain : none, err);
    cJSON_Delete(none);
    check->is_chained = chain != NULL;
    check->lines = at->chain.lines;
    check->unchained = at->chain.unchained;
    at->is_late = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(chain, "earlier"));
    check_links(at, cJSON_GetObjectItemCaseSensitive(chain, "links"));
    if (status)
        return status;
    if (chain)
        describe_chain(at);
    else
        describe_unchained(at);
    return XT_OK;
}

/* What its own hash and earlier starts say of proof.json. */
static void check_seal(struct checking *at)
{
    const struct xt_record_check *check = at->check;
    const cJSON *item;
    if (check->seal == XT_SEAL_BROKEN)
        add_wrong(at, XT_PROOF_FILE, "changed", "it is not what the run wrote");
    else if (check->seal == XT_SEAL_NONE && check->is_chained)
        add_wrong(at, XT_PROOF_FILE, "changed", "its own hash (seal) was removed");
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(check->proof, "breaks"))
    {
        char detail[256];
        const char *found = xt_json_get_text(item, "found", NULL);
        const char *what = xt_json_get_text(item, "what", NULL);
        snprintf(detail, sizeof detail, "found by the start of %s: %s",
                 found ? found : "an unknown time", what ? what : "not told");
        add_wrong(at, XT_PROOF_FILE, "broken", detail);
    }
}

/* ---- files ---- */

/* Whether weights say that they are of this run and of a line of its record. */
static void check_mark(const struct checking *at, const struct xt_weight_file *file, char *out,
                       size_t size)
{
    struct xt_run_mark mark;
    const char *id = xt_proof_id(at->check->proof);
    xt_run_mark_read(&mark, file);
    if (!*mark.id.text && (at->is_late || !at->check->is_chained))
        return;
    if (!at->check->is_chained)
        snprintf(out, size, "its run had a chain, which proof.json lacks");
    else if (strcmp(mark.id.text, id) != 0)
        snprintf(out, size, "it is of another run%s%.64s", *mark.run ? ": " : "", mark.run);
    else if (!xt_chain_check_has(&at->chain, mark.head.text) && !at->has_gaps &&
             !at->chain.broken_line)
        snprintf(out, size, "it was written behind a line that metrics.jsonl does not have");
}

/* Reads weights as every command does, which checks their hashes; `why` is empty where all holds.
 */
static enum xt_status read_weights(const struct checking *at, const char *path, const char *name,
                                   struct xt_err *why)
{
    struct xt_checkpoint_file checkpoint = {0};
    struct xt_weight_file weights = {0};
    char mark[256] = "";
    bool is_state = is_checkpoint(name);
    enum xt_status status = is_state ? xt_checkpoint_open(&checkpoint, path, why)
                                     : xt_weight_file_read(&weights, path, XT_MODEL_BYTES_MAX, why);
    if (!status)
        check_mark(at, is_state ? &checkpoint.file : &weights, mark, sizeof mark);
    if (*mark)
        status = xt_err_set(why, XT_ERR_DATA, "%s", mark);
    xt_checkpoint_close(&checkpoint);
    xt_weight_file_clear(&weights);
    return status;
}

/* A file that proof.json lists. */
static void compare(struct checking *at, const char *path, const char *name, const char *want)
{
    struct xt_sha256_text hash;
    struct xt_err why = {0};
    size_t bytes = 0;
    char detail[200];
    if (!xt_file_exists(path)) {
        add_wrong(at, name, "missing", "");
    } else if (xt_proof_hash(path, &hash, &bytes, &why)) {
        add_wrong(at, name, "unreadable", why.text);
    } else if (strcmp(want, hash.text) != 0) {
        bool is_damaged = is_weights(name) && read_weights(at, path, name, &why) != XT_OK;
        snprintf(detail, sizeof detail, "SHA-256 %s, recorded %s", hash.text, want);
        add_wrong(at, name, is_checkpoint(name) && is_damaged ? "damaged" : "changed",
                  is_damaged ? why.text : detail);
    } else if (is_weights(name) && read_weights(at, path, name, &why)) {
        add_wrong(at, name, "not of this record", why.text);
    } else {
        add_row(at, name, "as recorded", "");
    }
}

/* A file that is there and not listed: a checkpoint of a version that did not list them, or
 * somebody has put it there or emptied the list. */
static void compare_unlisted(struct checking *at, const char *path, const char *name)
{
    struct xt_err why = {0};
    bool may_be = !at->check->is_chained || at->is_late;
    if (!may_be)
        add_wrong(at, name, "not recorded", "proof.json does not list it");
    else if (is_checkpoint(name) && read_weights(at, path, name, &why))
        add_wrong(at, name, "damaged", why.text);
    else if (is_checkpoint(name))
        add_row(at, name, "as recorded", "");
}

static enum xt_status check_file(struct checking *at, const char *name, const cJSON *recorded,
                                 struct xt_err *err)
{
    const char *want = xt_json_get_text(recorded, "sha256", NULL);
    if (strchr(name, '/'))
        return xt_err_set(err, XT_ERR_DATA, "%s/%s is damaged: it names a file outside the folder",
                          at->check->folder, XT_PROOF_FILE);
    const struct xt_path path = xt_file_path(at->check->folder, name);
    if (want) {
        compare(at, path.text, name, want);
    } else if (recorded) {
        at->check->unproven++;
        add_row(at, name, "not recorded",
                "the run was killed while it wrote this file; --resume rewrites it");
    } else {
        compare_unlisted(at, path.text, name);
    }
    return XT_OK;
}

/* Whether a run writes such a file, and lists it. */
static bool is_listed_kind(const char *name)
{
    return is_weights(name) || strcmp(name, "config.yaml") == 0;
}

static enum xt_status check_files(struct checking *at, struct xt_err *err)
{
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(at->check->proof, "files");
    const cJSON *file;
    struct xt_file_list list = {0};
    enum xt_status status = XT_OK;
    cJSON_ArrayForEach(file, files)
    {
        if (!status)
            status = check_file(at, file->string, file, err);
    }
    if (!status)
        status = xt_file_list_folder(&list, at->check->folder, err);
    for (size_t i = 0; i < list.count && !status; i++) {
        const char *name = xt_file_name(list.paths[i]);
        if (is_listed_kind(name) && !cJSON_GetObjectItemCaseSensitive(files, name))
            status = check_file(at, name, NULL, err);
    }
    xt_file_list_clear(&list);
    return status;
}

enum xt_status xt_record_check(struct xt_record_check *check, struct xt_err *err)
{
    struct checking at = {.check = check,
                          .table = xt_report_table(check->report, "recorded_files")};
    enum xt_status status = check_chain(&at, err);
    if (!status) {
        check_seal(&at);
        status = check_files(&at, err);
    }
    xt_chain_check_clear(&at.chain);
    return status;
}
