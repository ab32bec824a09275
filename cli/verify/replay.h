/* xtrain verify --replay: trains recorded steps again, from a checkpoint of the run into a
 * temporary folder, and compares losses, evaluations and weights with the recorded ones. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/report.h"

struct xt_replay {
    const char *folder; /* of the run */
    int64_t steps;      /* at most */
    bool same_machine;  /* instruction set, threads and versions are the recorded ones: bits must
                           be the same; else losses may be a tenth apart */
};

/* Adds the result to the report; *differs: something is not as recorded. XT_ERR_DATA where no
 * checkpoint is followed by recorded steps. */
enum xt_status xt_replay(const struct xt_replay *replay, struct xt_report *report, bool *differs,
                         struct xt_err *err);
