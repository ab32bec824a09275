/* A temporary folder for a bench, under $TMPDIR, else /tmp; removed when the bench ends. */
#pragma once

#include "base/err.h"

struct xt_scratch {
    char folder[64]; /* "" until created */
};

/* purpose: for the error message, as in "a kernel cache". XT_ERR_RUN. */
enum xt_status xt_scratch_make(struct xt_scratch *scratch, const char *purpose, struct xt_err *err);
/* Removes it with its contents; warns if something is left. Does nothing for a zeroed one. */
void xt_scratch_remove(const struct xt_scratch *scratch);
