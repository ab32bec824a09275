#include "train/ranks/answers.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

/* Those of rank `rank`, to all. */
static enum xt_status share_one(struct xt_ranks *ranks, int rank, const struct xt_str *own,
                                size_t bytes, struct xt_errors *errors, struct xt_err *err)
{
    char *data = own->data;
    char *theirs = NULL;
    enum xt_status status = XT_OK;
    if (rank != ranks->rank) {
        status = xt_mem_calloc(&theirs, bytes, 1, "the wrong answers of another rank", err);
        data = theirs;
    }
    if (!status)
        status = xt_ranks_copy(ranks, data, bytes, rank, "the wrong answers", err);
    if (!status && theirs)
        status = xt_errors_add_packed(errors, theirs, bytes, err);
    free(theirs);
    return status;
}

enum xt_status xt_ranks_share_errors(struct xt_ranks *ranks, struct xt_errors *errors,
                                     struct xt_err *err)
{
    struct xt_str own = {0};
    size_t *sizes = NULL;
    if (!ranks)
        return XT_OK;
    enum xt_status status =
        xt_mem_calloc(&sizes, (size_t)ranks->size, sizeof *sizes, "the wrong answers", err);
    if (!status)
        status = xt_errors_pack(errors, &own, err);
    if (!status)
        status =
            xt_ranks_gather(ranks, &own.length, sizeof own.length, sizes, "the wrong answers", err);
    for (int rank = 0; rank < ranks->size && !status; rank++)
        status = share_one(ranks, rank, &own, sizes[rank], errors, err);
    xt_str_clear(&own);
    free(sizes);
    return status;
}
