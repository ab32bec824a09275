#include "runs/chain_check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "runs/chain.h"
#include "runs/report/json.h"

static const size_t record_limit = (size_t)1 << 32;

/* The next whole line, with its newline; false at the end. */
static bool next_line(const char **line, size_t *length, const char *end)
{
    const char *at = *line + *length;
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    *line = at;
    *length = newline ? (size_t)(newline - at) + 1 : 0;
    return newline != NULL;
}

static enum xt_status read_record(const char *path, struct xt_bytes *bytes, struct xt_err *err)
{
    return xt_file_exists(path) ? xt_file_load(path, record_limit, bytes, err) : XT_OK;
}

/* ---- before it is continued ---- */

static enum xt_status add_cut(struct xt_chain_survey *survey, struct xt_sha256_text from,
                              struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&survey->cuts, survey->cut_count, sizeof *survey->cuts, "the record", err);
    if (!status)
        survey->cuts[survey->cut_count++] = (struct xt_chain_cut){survey->retained, from};
    return status;
}

enum xt_status xt_chain_survey(struct xt_chain_survey *out, const char *path,
                               struct xt_log_keep keep, const char *head, struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    size_t length = 0;
    struct xt_sha256_text cut = {""};
    *out = (struct xt_chain_survey){.has_head = false};
    enum xt_status status = read_record(path, &bytes, err);
    const char *line = (const char *)bytes.data;
    const char *end = line + bytes.size;
    while (!status && bytes.size && next_line(&line, &length, end)) {
        size_t covered = 0;
        struct xt_sha256_text hash = {""};
        bool is_chained = xt_chain_split(line, length, &covered, &hash);
        bool is_retained = xt_log_keeps_line(line, length, keep);
        out->has_head = out->has_head || (is_chained && strcmp(hash.text, head) == 0);
        out->unchained += is_retained && !is_chained;
        if (!is_chained)
            continue;
        out->end = hash;
        if (is_retained && *cut.text)
            status = add_cut(out, cut, err);
        if (is_retained)
            out->retained = hash;
        cut = is_retained ? (struct xt_sha256_text){""} : hash;
    }
    free(bytes.data);
    return status;
}

void xt_chain_survey_clear(struct xt_chain_survey *survey)
{
    free(survey->cuts);
    *survey = (struct xt_chain_survey){.has_head = false};
}

/* ---- checking ---- */

static enum xt_status pass(struct xt_chain_check *check, const char *head, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&check->heads, check->head_count, sizeof *check->heads, "the record", err);
    if (!status)
        snprintf(check->heads[check->head_count++].text, sizeof *check->heads, "%s", head);
    return status;
}

bool xt_chain_check_has(const struct xt_chain_check *check, const char *head)
{
    for (size_t i = 0; i < check->head_count; i++)
        if (strcmp(check->heads[i].text, head) == 0)
            return true;
    return false;
}

/* All links behind that line. */
static enum xt_status pass_links(struct xt_chain_check *check, const cJSON *links,
                                 const char *after, struct xt_err *err)
{
    const cJSON *link;
    enum xt_status status = XT_OK;
    cJSON_ArrayForEach(link, links)
    {
        if (!status && strcmp(xt_json_get_text(link, "after", ""), after) == 0)
            status = pass(check, xt_json_get_text(link, "head", ""), err);
    }
    return status;
}

/* Whether the text has this hash behind the line with the hash `before`, or behind a link there. */
static bool follows(const cJSON *links, const char *before, const char *text, size_t length,
                    const char *hash)
{
    const cJSON *link;
    if (strcmp(xt_chain_next(before, text, length).text, hash) == 0)
        return true;
    cJSON_ArrayForEach(link, links)
    {
        if (strcmp(xt_json_get_text(link, "after", ""), before) == 0 &&
            strcmp(xt_chain_next(xt_json_get_text(link, "head", ""), text, length).text, hash) == 0)
            return true;
    }
    return false;
}

static enum xt_status check_lines(struct xt_chain_check *out, const cJSON *chain, const char *text,
                                  size_t size, struct xt_err *err)
{
    const cJSON *links = cJSON_GetObjectItemCaseSensitive(chain, "links");
    bool may_begin_late = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(chain, "earlier"));
    struct xt_sha256_text before = {""};
    size_t length = 0;
    const char *line = text;
    enum xt_status status = pass_links(out, links, "", err);
    for (size_t number = 1; !status && size && next_line(&line, &length, text + size); number++) {
        size_t covered = 0;
        struct xt_sha256_text hash = {""};
        bool is_chained = xt_chain_split(line, length, &covered, &hash);
        bool is_early = !is_chained && may_begin_late && !out->lines;
        out->unchained += is_early;
        if (is_early)
            continue;
        if (!is_chained || !follows(links, before.text, line, covered, hash.text)) {
            out->broken_line = number;
            return XT_OK;
        }
        out->lines++;
        before = hash;
        status = pass(out, hash.text, err);
        if (!status)
            status = pass_links(out, links, hash.text, err);
    }
    out->is_torn = size && text[size - 1] != '\n';
    return status;
}

enum xt_status xt_chain_check(struct xt_chain_check *out, const char *path, const cJSON *chain,
                              struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    *out = (struct xt_chain_check){.lines = 0};
    enum xt_status status = read_record(path, &bytes, err);
    if (!status)
        status = check_lines(out, chain, (const char *)bytes.data, bytes.size, err);
    if (!status && !out->broken_line)
        out->lacks_end = !xt_chain_check_has(out, xt_json_get_text(chain, "head", ""));
    free(bytes.data);
    return status;
}

void xt_chain_check_clear(struct xt_chain_check *check)
{
    free(check->heads);
    *check = (struct xt_chain_check){.lines = 0};
}
