/* The page: runs, what eval found, or two models, as one self-contained HTML file without network
 * requests. Its data is embedded as JSON and drawn by its script, so that names and labels are
 * never markup. page.html, page.css and page.js are embedded into the program by the build.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "runs/report/past_run.h"

/* A page of one run, or of several overlaid. */
enum xt_status xt_page_write_runs(const char *path, const struct xt_past_run *runs, size_t count,
                                  bool pictures, struct xt_err *err);

/* A page of one evaluation's findings (findings.h), of `weights` on `data`. Takes ownership of the
 * findings. */
enum xt_status xt_page_write_findings(const char *path, cJSON *findings, const char *weights,
                                      const char *data, struct xt_err *err);

/* A page of one thing, whose key tells the script what to show. Takes ownership of `value`.
 *
 * "diff", two models side by side: the output of `xtrain diff --json` on their predictions and
 * weights, and
 *
 *   unit    "characters" or "classes"
 *   images  those answered differently: a and b (each as the errors of findings.h), a_right,
 *           b_right, picture
 *
 * "tried", what xtrain try found:
 *
 *   found     the output of `xtrain try --json`
 *   unit      "characters" or "classes"
 *   suspects  its suspects, each as the errors of findings.h
 */
enum xt_status xt_page_write_one(const char *path, const char *key, cJSON *value,
                                 struct xt_err *err);
