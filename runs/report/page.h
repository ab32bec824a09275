/* The page: runs, what eval found, or two models, as one HTML file that needs nothing beside it and
 * asks nobody for anything. What it shows lies in it as JSON, and its own script draws it, so that
 * names and labels are never markup. How it looks is in page.html, page.css and page.js, which the
 * build puts into the program.
 */
#ifndef XT_RUNS_REPORT_PAGE_H
#define XT_RUNS_REPORT_PAGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "runs/report/past_run.h"

/* A page of one run, or of several laid over each other. */
enum xt_status xt_page_write_runs(const char *path, const struct xt_past_run *runs, size_t count,
                                  bool pictures, struct xt_err *err);

/* A page of what one evaluation found (findings.h); `weights` and `data` are what it was of. Takes
 * the findings. */
enum xt_status xt_page_write_findings(const char *path, cJSON *findings, const char *weights,
                                      const char *data, struct xt_err *err);

/* A page of two models beside each other. Takes `diff`: what `xtrain diff --json` says of their
 * answers and of their weights, and
 *
 *   unit    "characters" or "classes"
 *   images  those answered differently: a and b (each as the errors of findings.h), a_right,
 *           b_right, picture
 */
enum xt_status xt_page_write_diff(const char *path, cJSON *diff, struct xt_err *err);

#endif
