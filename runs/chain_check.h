/* The chain of metrics.jsonl (chain.h) read: before a start or rollback continues the record, and
 * to check all of it. Not thread-safe.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sha256.h"
#include "runs/log_writer.h"

/* Lines that a resumed run or a rollback replaces, between two that stay. */
struct xt_chain_cut {
    struct xt_sha256_text after; /* hash of the line before; "": none */
    struct xt_sha256_text from;  /* hash of the last of them */
};

/* What a record holds before it is continued. A zeroed struct is that of a new one. */
struct xt_chain_survey {
    struct xt_sha256_text retained; /* hash of the last line that stays; "": none */
    struct xt_sha256_text end;      /* hash of the last line */
    bool has_head;                  /* a line has the hash that was looked for */
    size_t unchained;               /* lines of an earlier version, which have no hash */
    struct xt_chain_cut *cuts;
    size_t cut_count;
};

/* Reads the record at `path`, where there is one, and looks for `head`. Clear it also after a
 * failure. */
enum xt_status xt_chain_survey(struct xt_chain_survey *out, const char *path,
                               struct xt_log_keep keep, const char *head, struct xt_err *err);
void xt_chain_survey_clear(struct xt_chain_survey *survey);

/* The record checked against proof.json's `chain`. */
struct xt_chain_check {
    size_t lines;                 /* that follow from those before */
    size_t unchained;             /* before them, of an earlier version */
    size_t broken_line;           /* the first that does not follow, from 1; 0: none */
    bool is_torn;                 /* the last one is incomplete: the process was killed */
    bool lacks_end;               /* the hash of the last save is not there: lines are missing */
    struct xt_sha256_text *heads; /* all hashes that were passed */
    size_t head_count;
};

/* Clear it also after a failure. */
enum xt_status xt_chain_check(struct xt_chain_check *out, const char *path, const cJSON *chain,
                              struct xt_err *err);
void xt_chain_check_clear(struct xt_chain_check *check);
bool xt_chain_check_has(const struct xt_chain_check *check, const char *head);
