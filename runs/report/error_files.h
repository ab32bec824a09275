/* What an evaluation got wrong as files: lists for programs (.jsonl, .tsv), or a page (.html).
 *
 * A list comes with a second one beside it, NAME-confused.ENDING, of what was taken for what, and
 * for classes with a third, NAME-matrix.ENDING: how often each class was read as which.
 */
#ifndef XT_RUNS_REPORT_ERROR_FILES_H
#define XT_RUNS_REPORT_ERROR_FILES_H

#include "base/err.h"
#include "base/file.h"
#include "runs/report/findings.h"

/* Whether such a file can be written there: XT_ERR_USAGE for another ending, XT_ERR_RUN where the
 * folder takes none. */
enum xt_status xt_error_files_check(const char *path, struct xt_err *err);

/* Writes them; the paths go into `files` (clear it also after a failure). Of the findings `most`
 * and `pictures` are for the page. `weights` and `data` say what was evaluated. */
enum xt_status xt_error_files_write(const char *path, const struct xt_findings *findings,
                                    const char *weights, const char *data,
                                    struct xt_file_list *files, struct xt_err *err);

#endif
