/* What xtrain verify says of a run's files: each against proof.json, and the chain of metrics.jsonl
 * (runs/chain.h). */
#pragma once

#include <cjson/cJSON.h>

#include "base/err.h"
#include "cli/report.h"
#include "runs/proof.h"

struct xt_record_check {
    const char *folder;
    const cJSON *proof;
    enum xt_proof_seal seal;
    struct xt_report *report;
    bool is_signed;   /* set by the caller, for what is said */
    bool is_chained;  /* recorded with a chain */
    size_t lines;     /* of metrics.jsonl that follow from each other */
    size_t unchained; /* before them, by an earlier version */
    int files;
    int wrong;    /* files that are not as recorded */
    int unproven; /* that were being written when the run exited */
};

/* The caller sets the first four. What does not hold is in the report, not an error. */
enum xt_status xt_record_check(struct xt_record_check *check, struct xt_err *err);
