/* A folder for what a bench leaves behind while it measures: under $TMPDIR, else /tmp, and gone
 * when it ends.
 */
#ifndef XT_CLI_BENCH_SCRATCH_H
#define XT_CLI_BENCH_SCRATCH_H

#include "base/err.h"

struct xt_scratch {
    char folder[64]; /* "" before it is made */
};

/* purpose: for a sentence, as in "a kernel cache". XT_ERR_RUN. */
enum xt_status xt_scratch_make(struct xt_scratch *scratch, const char *purpose, struct xt_err *err);
/* With all that is in it; a warning where something is left. Does nothing on a zeroed one. */
void xt_scratch_remove(const struct xt_scratch *scratch);

#endif
