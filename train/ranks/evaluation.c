#include "train/ranks/evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "train/ranks/state.h"

static enum xt_status reduce_score(struct xt_ranks *ranks, struct xt_score *score,
                                   struct xt_err *err)
{
    enum { COUNTS = sizeof *score / sizeof(size_t) };
    size_t counts[COUNTS];
    double values[COUNTS];
    memcpy(counts, score, sizeof counts);
    for (int i = 0; i < COUNTS; i++)
        values[i] = (double)counts[i];
    enum xt_status status = xt_ranks_sum(ranks, values, COUNTS, "the evaluation", err);
    for (int i = 0; i < COUNTS; i++)
        counts[i] = (size_t)values[i];
    memcpy(score, counts, sizeof counts);
    return status;
}

/* A stop request on one rank stops all. */
static enum xt_status reduce(void *context, size_t images, struct xt_evaluation *own,
                             double *loss_sum, enum xt_status status, struct xt_err *err)
{
    struct xt_ranks *ranks = context;
    struct xt_step_agreement agreed = {.loss = *loss_sum, .stop = status, .bad = own->bad_images};
    if (reduce_score(ranks, &own->score, err) || xt_ranks_allreduce_step(ranks, 1, &agreed, err) ||
        xt_ranks_share_bad(ranks, &own->bad, &own->bad_images, err))
        return err->status;
    *loss_sum = agreed.loss;
    if (agreed.stop && !status)
        return xt_err_set(err, agreed.stop, "stopped by another rank while images were evaluated");
    if (!agreed.stop && xt_loader_is_too_bad(agreed.bad, images))
        return xt_err_set(err, XT_ERR_DATA,
                          "%zu of %zu samples are bad, more than the 1 %% that is let pass; one: "
                          "%s",
                          agreed.bad, images, own->bad[0].reason);
    return status;
}

struct xt_evaluate_share xt_ranks_evaluate_share(struct xt_ranks *ranks)
{
    if (!ranks)
        return (struct xt_evaluate_share){.count = 1};
    return (struct xt_evaluate_share){
        .index = ranks->rank, .count = ranks->size, .context = ranks, .reduce = reduce};
}

/* Broadcasts those of rank `rank`. */
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
    enum xt_status status = xt_errors_pack(errors, &own, err);
    if (!status)
        status = xt_ranks_gather(ranks, &own.length, sizeof own.length, &sizes, "the wrong answers",
                                 err);
    for (int rank = 0; rank < ranks->size && !status; rank++)
        status = share_one(ranks, rank, &own, sizes[rank], errors, err);
    xt_str_clear(&own);
    free(sizes);
    return status;
}
