/* What --overfit found: whether the few images could be learnt by heart, and what it means. */
#ifndef XT_CLI_OVERFIT_H
#define XT_CLI_OVERFIT_H

#include "cli/report.h"
#include "train/trainer.h"

/* Says so, or which were not (evaluated once more) and where to look; `loss` is that of the last
 * steps. */
enum xt_status xt_overfit_describe(const struct xt_run_summary *run, struct xt_trainer *trainer,
                                   double loss, struct xt_report *report, struct xt_err *err);
/* XT_OK where they were learnt; else XT_ERR_RUN with the sentence that the program ends with. */
enum xt_status xt_overfit_judge(const struct xt_run_summary *run, struct xt_err *err);

#endif
