/* An evaluation's errors as files: lists for programs (.jsonl, .tsv), or a page (.html).
 *
 * A list is accompanied by NAME-confused.ENDING, the confused pairs, and for classes by
 * NAME-matrix.ENDING, the confusion matrix.
 */
#pragma once

#include "base/err.h"
#include "base/file.h"
#include "runs/report/findings.h"

/* Checks that such a file can be written: XT_ERR_USAGE for another ending, XT_ERR_RUN where the
 * folder is not writable. */
enum xt_status xt_error_files_check(const char *path, struct xt_err *err);

/* Writes them; the paths go into `files` (clear it also after a failure). The findings' `most` and
 * `pictures` apply to the page. `weights` and `data` name what was evaluated. */
enum xt_status xt_error_files_write(const char *path, const struct xt_findings *findings,
                                    const char *weights, const char *data,
                                    struct xt_file_list *files, struct xt_err *err);
