/* The result of --overfit: whether the few images could be memorised, and what that means. */
#pragma once

#include "cli/report.h"
#include "train/trainer.h"

/* Reports success, or which images were not learnt (evaluated again) and where to look; `loss` is
 * the mean of the last steps. */
enum xt_status xt_overfit_describe(const struct xt_run_summary *run, struct xt_trainer *trainer,
                                   double loss, struct xt_report *report, struct xt_err *err);
/* XT_OK if all were learnt; otherwise XT_ERR_RUN with the program's final error. */
enum xt_status xt_overfit_judge(const struct xt_run_summary *run, struct xt_err *err);
