/* The runs named on a command line by their folders. */
#pragma once

#include "cli/options/options.h"
#include "runs/report/past_run.h"

struct xt_past_runs {
    struct xt_past_run *items;
    size_t count;
};

/* Reads them. Clear it also after a failure. */
enum xt_status xt_past_runs_read(struct xt_past_runs *runs, const struct xt_options *options,
                                 struct xt_err *err);
void xt_past_runs_clear(struct xt_past_runs *runs);
