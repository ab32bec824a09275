#include "train/ranks/state.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "device/device.h"

/* One of the arrays. */
struct array {
    const char *what; /* "statistics" */
    float *data;
    size_t count;
    bool of_statistics; /* laid out as they are, not as the values */
};

enum { ARRAYS_MOST = 7 };

struct arrays {
    struct array items[ARRAYS_MOST];
    int count;
};

/* Release with close_arrays. */
static enum xt_status open_arrays(const struct xt_rank_state *state, struct arrays *out,
                                  struct xt_err *err)
{
    const struct xt_params *params = state->params;
    *out = (struct arrays){.count = 0};
    out->items[out->count++] =
        (struct array){"weights", params->values, params->value_floats, false};
    out->items[out->count++] =
        (struct array){"running statistics", params->stats, params->stat_floats, true};
    for (int i = 0; i < 2 && state->optim; i++)
        if (state->optim->state[i])
            out->items[out->count++] = (struct array){"optimizer's state", state->optim->state[i],
                                                      params->value_floats, false};
    if (state->residual)
        out->items[out->count++] =
            (struct array){"gradients' residual", state->residual, params->value_floats, false};
    if (!state->ema)
        return XT_OK;
    struct xt_params_view view;
    enum xt_status status = xt_ema_map(state->ema, &view, err);
    if (status)
        return status;
    out->items[out->count++] =
        (struct array){"moving average", view.values, params->value_floats, false};
    out->items[out->count++] =
        (struct array){"moving average of statistics", view.stats, params->stat_floats, true};
    return XT_OK;
}

/* Gives the average back to its device, which copies it if it has changed. */
static enum xt_status close_arrays(const struct xt_rank_state *state, bool changed,
                                   enum xt_status status, struct xt_err *err)
{
    struct xt_err own;
    enum xt_status closed =
        state->ema ? xt_ema_unmap(state->ema, changed, status ? &own : err) : XT_OK;
    return status ? status : closed;
}

static enum xt_status refuse_layout(const struct xt_rank *other, int rank,
                                    const struct xt_rank *first, struct xt_err *err)
{
    char cure[96] = "the same oneDNN";
    if (strcmp(other->isa, first->isa) != 0)
        snprintf(cure, sizeof cure,
                 "the instructions that all have, by mpirun -x ONEDNN_MAX_CPU_ISA=%s",
                 xt_device_cpu_isa_limit(other->isa, first->isa));
    return xt_err_set(
        err, XT_ERR_DEVICE,
        "rank %d on %s (%s; oneDNN %s) keeps weights in another order than rank 0 (%s; oneDNN %s), "
        "so that their gradients cannot be added up: give all ranks %s",
        rank, other->host, other->isa, other->library, first->isa, first->library, cure);
}

/* Everything that ranks reduce or copy has the layout of the parameters. */
static enum xt_status check_layout(struct xt_ranks *ranks, const struct xt_params *params,
                                   struct xt_err *err)
{
    uint64_t own = xt_params_layout(params);
    uint64_t *all = NULL;
    enum xt_status status =
        xt_ranks_gather(ranks, &own, sizeof own, &all, "the layout of the weights", err);
    for (int i = 1; i < ranks->size && !status; i++)
        if (all[i] != all[0])
            status = refuse_layout(&ranks->all[i], i, &ranks->all[0], err);
    free(all);
    return status;
}

enum xt_status xt_rank_state_share(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err)
{
    struct arrays arrays;
    int64_t counts[] = {state->optim->step, state->ema ? xt_ema_updates(state->ema) : 0};
    if (!ranks)
        return XT_OK;
    enum xt_status status = check_layout(ranks, state->params, err);
    if (!status)
        status = open_arrays(state, &arrays, err);
    if (status)
        return status;
    status = xt_ranks_copy(ranks, counts, sizeof counts, 0, "the weights", err);
    if (!status)
        status = xt_ranks_copy(ranks, state->params->tracked, sizeof state->params->tracked, 0,
                               "the weights", err);
    for (int i = 0; i < arrays.count && !status; i++)
        status = xt_ranks_copy(ranks, arrays.items[i].data, arrays.items[i].count * sizeof(float),
                               0, "the weights", err);
    state->optim->step = counts[0];
    state->params->version++;
    if (state->ema)
        xt_ema_set_updates(state->ema, counts[1]);
    return close_arrays(state, true, status, err);
}

/* ---- comparison ---- */

static uint64_t hash_of(const struct array *array)
{
    uint64_t hash = array->count;
    for (size_t i = 0; i < array->count; i += 2) {
        uint64_t word = 0;
        memcpy(&word, array->data + i, (array->count - i > 1 ? 2 : 1) * sizeof *array->data);
        hash = xt_rng_mix(hash ^ word);
    }
    return hash;
}

/* How far this rank's tensors are from rank 0's, as part of their norm. */
struct drift {
    int array, param; /* the first tensor that is too far; -1: none */
    double part;      /* of that one */
    double most;      /* of any */
};

/* NaN is the largest. */
static double larger(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

static double distance(const float *own, const float *reference, size_t count)
{
    double norm = 0;
    double apart = 0;
    if (memcmp(own, reference, count * sizeof *own) == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)own[i] - (double)reference[i];
        apart += difference * difference;
        norm += (double)reference[i] * (double)reference[i];
    }
    return sqrt(apart / norm);
}

static enum xt_status measure_tensor(struct xt_ranks *ranks, const float *own, size_t count,
                                     double *part, struct xt_err *err)
{
    float *reference = NULL;
    enum xt_status status =
        xt_mem_calloc(&reference, count, sizeof *reference, "a tensor of rank 0", err);
    if (status)
        return status;
    if (xt_ranks_is_first(ranks))
        memcpy(reference, own, count * sizeof *own);
    status = xt_ranks_copy(ranks, reference, count * sizeof *reference, 0, "the weights", err);
    *part = distance(own, reference, count);
    free(reference);
    return status;
}

static enum xt_status measure(struct xt_ranks *ranks, const struct xt_params *params,
                              const struct arrays *arrays, double tolerance, struct drift *own,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    *own = (struct drift){.array = -1, .param = -1};
    for (int i = 0; i < arrays->count; i++)
        for (int k = 0; k < params->count && !status; k++) {
            const struct xt_param *param = &params->items[k];
            double part = 0;
            if (xt_param_is_statistic(param) != arrays->items[i].of_statistics ||
                param->role == XT_PARAM_BN_COUNT)
                continue;
            status = measure_tensor(ranks, arrays->items[i].data + param->offset, param->floats,
                                    &part, err);
            own->most = larger(own->most, part);
            if (own->array < 0 && !(part <= tolerance))
                *own = (struct drift){i, k, part, own->most};
        }
    return status;
}

static bool is_before(const struct drift *a, const struct drift *b)
{
    return a->array != b->array ? a->array < b->array : a->param < b->param;
}

/* Names the first tensor that is too far on any rank, and all ranks where it is so. */
static void describe(const struct xt_ranks *ranks, const struct xt_params *params,
                     const struct arrays *arrays, const struct drift *all, char *out, size_t size)
{
    const struct drift *first = NULL;
    const char *separator = "on rank";
    for (int i = 0; i < ranks->size; i++)
        if (all[i].array >= 0 && (!first || is_before(&all[i], first)))
            first = &all[i];
    *out = '\0';
    if (!first)
        return;
    snprintf(out, size, "%s, among the %s,", params->items[first->param].name,
             arrays->items[first->array].what);
    for (int i = 0; i < ranks->size; i++)
        if (all[i].array == first->array && all[i].param == first->param) {
            xt_str_append_to(out, size, " %s %d (%s) by %.2g", separator, i, ranks->all[i].host,
                             all[i].part);
            separator = "and";
        }
}

/* What ranks have that is not rank 0's: *others of them, at most *most of a tensor's norm; `tensor`
 * describes the first tensor beyond the tolerance, "" if there is none. */
struct comparison {
    int others;
    double most;
    char tensor[512];
};

static enum xt_status compare_tensors(struct xt_ranks *ranks, const struct xt_params *params,
                                      const struct arrays *arrays, double tolerance,
                                      struct comparison *out, struct xt_err *err)
{
    struct drift own;
    struct drift *all = NULL;
    enum xt_status status = measure(ranks, params, arrays, tolerance, &own, err);
    if (!status)
        status = xt_ranks_gather(ranks, &own, sizeof own, &all, "the states", err);
    for (int i = 1; i < ranks->size && !status; i++) {
        out->others += all[i].most != 0;
        out->most = larger(out->most, all[i].most);
    }
    if (!status)
        describe(ranks, params, arrays, all, out->tensor, sizeof out->tensor);
    free(all);
    return status;
}

static enum xt_status compare(struct xt_ranks *ranks, const struct xt_rank_state *state,
                              double tolerance, struct comparison *out, struct xt_err *err)
{
    struct arrays arrays;
    uint64_t own = 0;
    bool same = true;
    *out = (struct comparison){.others = 0};
    enum xt_status status = open_arrays(state, &arrays, err);
    if (status)
        return status;
    for (int i = 0; i < arrays.count; i++)
        own = xt_rng_mix(own ^ hash_of(&arrays.items[i]));
    status = xt_ranks_is_same(ranks, &own, sizeof own, &same, "the states", err);
    if (!status && !same)
        status = compare_tensors(ranks, state->params, &arrays, tolerance, out, err);
    return close_arrays(state, false, status, err);
}

enum xt_status xt_rank_state_check(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err)
{
    /* Ranks share gradients, so that rounding adds up but does not multiply: 1e-7 or so a step. */
    static const double tolerance = 1e-3;
    struct comparison found;
    if (!ranks)
        return XT_OK;
    enum xt_status status = compare(ranks, state, tolerance, &found, err);
    if (status || !found.others)
        return status;
    if (*found.tensor)
        return xt_err_set(err, XT_ERR_RUN,
                          "the ranks have drifted apart, further than rounding leads (%g of a "
                          "tensor's norm): the first tensor that is not rank 0's is %s; memory or "
                          "a CPU there may be faulty",
                          tolerance, found.tensor);
    xt_log_warn("the weights of %d of %d ranks are no longer those of rank 0 (apart by %.1g of a "
                "tensor's norm at most): their CPUs or libraries round differently; all continue "
                "with rank 0's",
                found.others, ranks->size, found.most);
    return xt_rank_state_share(ranks, state, err);
}

enum xt_status xt_rank_state_check_initial(struct xt_ranks *ranks, struct xt_params *params,
                                           struct xt_err *err)
{
    /* Random weights depend on the C library's logarithm. */
    static const double tolerance = 1e-5;
    const struct xt_rank_state state = {.params = params};
    struct comparison found;
    bool same = true;
    if (!ranks)
        return XT_OK;
    uint64_t layout = xt_params_layout(params);
    enum xt_status status =
        xt_ranks_is_same(ranks, &layout, sizeof layout, &same, "the states", err);
    /* xt_rank_state_share refuses other layouts. */
    if (status || !same)
        return status;
    status = compare(ranks, &state, tolerance, &found, err);
    if (status || !*found.tensor)
        return status;
    return xt_err_set(err, XT_ERR_USAGE,
                      "the ranks begin with different weights: the first tensor that is not rank "
                      "0's is %s; give all the same --init",
                      found.tensor);
}

/* ---- bad images ---- */

/* A bad sample as it is sent. */
struct note {
    size_t index;
    char reason[504];
};

static enum xt_status add(struct xt_bad_sample **list, size_t *count, const struct note *note,
                          struct xt_err *err)
{
    enum xt_status status = xt_mem_add(list, *count, sizeof **list, "a list of bad samples", err);
    if (!status)
        status = xt_mem_strdup(&(*list)[*count].reason, note->reason, err);
    if (status)
        return status;
    (*list)[*count].index = note->index;
    ++*count;
    return XT_OK;
}

static bool has(const struct xt_bad_sample *list, size_t count, size_t index)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].index == index)
            return true;
    return false;
}

/* Each rank broadcasts its notes, in rank order. */
static enum xt_status send_all(struct xt_ranks *ranks, const struct xt_bad_sample *own,
                               const size_t *counts, struct xt_bad_sample **list, size_t *count,
                               struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int rank = 0; rank < ranks->size && !status; rank++)
        for (size_t i = 0; i < counts[rank] && !status; i++) {
            struct note note = {.index = 0};
            if (rank == ranks->rank) {
                note.index = own[i].index;
                snprintf(note.reason, sizeof note.reason, "%s", own[i].reason);
            }
            status = xt_ranks_copy(ranks, &note, sizeof note, rank, "bad images", err);
            if (!status && !has(*list, *count, note.index))
                status = add(list, count, &note, err);
        }
    return status;
}

enum xt_status xt_ranks_share_bad(struct xt_ranks *ranks, struct xt_bad_sample **bad, size_t *count,
                                  struct xt_err *err)
{
    struct xt_bad_sample *list = NULL;
    size_t listed = 0;
    size_t *counts = NULL;
    if (!ranks)
        return XT_OK;
    enum xt_status status =
        xt_ranks_gather(ranks, count, sizeof *count, &counts, "bad images", err);
    if (!status)
        status = send_all(ranks, *bad, counts, &list, &listed, err);
    free(counts);
    xt_loader_free_bad(*bad, *count);
    *bad = list;
    *count = listed;
    return status;
}
