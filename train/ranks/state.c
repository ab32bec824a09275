#include "train/ranks/state.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "device/device.h"

/* One of the arrays. */
struct array {
    float *data;
    size_t count;
};

enum { ARRAYS_MOST = 6 };

struct arrays {
    struct array items[ARRAYS_MOST];
    int count;
};

/* close_arrays gives the average back to its device. */
static enum xt_status open_arrays(const struct xt_rank_state *state, struct arrays *out,
                                  struct xt_err *err)
{
    const struct xt_params *params = state->params;
    *out = (struct arrays){.count = 0};
    out->items[out->count++] = (struct array){params->values, params->value_floats};
    out->items[out->count++] = (struct array){params->stats, params->stat_floats};
    for (int i = 0; i < 2; i++)
        if (state->optim->state[i])
            out->items[out->count++] = (struct array){state->optim->state[i], params->value_floats};
    if (!state->ema)
        return XT_OK;
    struct xt_params_view view;
    enum xt_status status = xt_ema_map(state->ema, &view, err);
    if (status)
        return status;
    out->items[out->count++] = (struct array){view.values, params->value_floats};
    out->items[out->count++] = (struct array){view.stats, params->stat_floats};
    return XT_OK;
}

static enum xt_status close_arrays(const struct xt_rank_state *state, enum xt_status status,
                                   struct xt_err *err)
{
    struct xt_err own;
    enum xt_status closed = state->ema ? xt_ema_unmap(state->ema, status ? &own : err) : XT_OK;
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
    return xt_err_set(err, XT_ERR_DEVICE,
                      "rank %d on %s (%s; oneDNN %s) keeps weights in another order than rank 0 "
                      "(%s; oneDNN %s), so that their gradients cannot be added up: give all ranks "
                      "%s",
                      rank, other->host, other->isa, other->library, first->isa, first->library,
                      cure);
}

/* Everything that ranks reduce or copy has the layout of the parameters. */
static enum xt_status check_layout(struct xt_ranks *ranks, const struct xt_params *params,
                                   struct xt_err *err)
{
    uint64_t own = xt_params_layout(params);
    uint64_t *all = NULL;
    enum xt_status status =
        xt_mem_calloc(&all, (size_t)ranks->size, sizeof *all, "the ranks' layouts", err);
    if (!status)
        status = xt_ranks_gather(ranks, &own, sizeof own, all, "the layout of the weights", err);
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
    int64_t counts[] = {state->optim->step, state->params->batches_tracked,
                        state->ema ? xt_ema_updates(state->ema) : 0};
    if (!ranks)
        return XT_OK;
    enum xt_status status = check_layout(ranks, state->params, err);
    if (!status)
        status = open_arrays(state, &arrays, err);
    if (status)
        return status;
    status = xt_ranks_copy(ranks, counts, sizeof counts, 0, "the weights", err);
    for (int i = 0; i < arrays.count && !status; i++)
        status = xt_ranks_copy(ranks, arrays.items[i].data, arrays.items[i].count * sizeof(float),
                               0, "the weights", err);
    state->optim->step = counts[0];
    state->params->batches_tracked = counts[1];
    state->params->version++;
    if (state->ema)
        xt_ema_set_updates(state->ema, counts[2]);
    return close_arrays(state, status, err);
}

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

enum xt_status xt_rank_state_check(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err)
{
    struct arrays arrays;
    uint64_t own = 0;
    uint64_t *all = NULL;
    int others = 0;
    if (!ranks)
        return XT_OK;
    enum xt_status status = open_arrays(state, &arrays, err);
    if (status)
        return status;
    for (int i = 0; i < arrays.count; i++)
        own = xt_rng_mix(own ^ hash_of(&arrays.items[i]));
    status = close_arrays(state, XT_OK, err);
    if (!status)
        status = xt_mem_calloc(&all, (size_t)ranks->size, sizeof *all, "the ranks' states", err);
    if (!status)
        status = xt_ranks_gather(ranks, &own, sizeof own, all, "the states", err);
    for (int i = 1; i < ranks->size && !status; i++)
        others += all[i] != all[0];
    free(all);
    if (status || !others)
        return status;
    xt_log_warn("the weights of %d of %d ranks are no longer those of rank 0: their CPUs or "
                "libraries round differently; all continue with rank 0's",
                others, ranks->size);
    return xt_rank_state_share(ranks, state, err);
}

/* ---- bad images ---- */

/* A bad sample as it is sent. */
struct note {
    size_t index;
    char reason[504];
};

static enum xt_status add(struct xt_bad_sample **list, size_t *count, size_t *capacity,
                          const struct note *note, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_grow(list, capacity, *count + 1, sizeof **list, "a list of bad samples", err);
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
    size_t capacity = 0;
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
                status = add(list, count, &capacity, &note, err);
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
        xt_mem_calloc(&counts, (size_t)ranks->size, sizeof *counts, "bad images", err);
    if (!status)
        status = xt_ranks_gather(ranks, count, sizeof *count, counts, "bad images", err);
    if (!status)
        status = send_all(ranks, *bad, counts, &list, &listed, err);
    free(counts);
    xt_loader_free_bad(*bad, *count);
    *bad = list;
    *count = listed;
    return status;
}
