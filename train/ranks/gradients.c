#include "train/ranks/gradients.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "engine/ops/ops.h"

/* A stretch of an arena. */
struct run {
    float *data;
    size_t count;
};

struct bucket {
    size_t first, count; /* runs */
    size_t floats;
    int ops;     /* whose gradients it holds */
    int left;    /* of them, in this pass */
    void *stage; /* where runs become one, in the type that is sent; NULL: the one run is sent */
    struct xt_ranks_sum sum;
};

struct xt_gradient_reduction {
    struct xt_graph_communicator hooks;
    struct xt_gradient_reduction_config config;
    struct run *runs;
    size_t run_count, run_capacity;
    struct bucket *buckets;
    size_t count, capacity;
    int bucket_of[XT_OPS_MAX]; /* by the op's index; -1: none */
    bool averages;             /* the last bucket is the running statistics */
    size_t started;            /* buckets, in this pass */
};

/* ---- buckets ---- */

static struct xt_params *params_of(const struct xt_gradient_reduction *team)
{
    return team->config.graph->options.params;
}

/* Appends a stretch to the last bucket, to its last run where that ends there. */
static enum xt_status add_run(struct xt_gradient_reduction *team, float *data, size_t count,
                              struct xt_err *err)
{
    struct bucket *bucket = &team->buckets[team->count - 1];
    struct run *last = bucket->count ? &team->runs[team->run_count - 1] : NULL;
    bucket->floats += count;
    if (last && last->data + last->count == data) {
        last->count += count;
        return XT_OK;
    }
    if (last && data + count == last->data) {
        last->data = data;
        last->count += count;
        return XT_OK;
    }
    enum xt_status status = xt_mem_grow(&team->runs, &team->run_capacity, team->run_count + 1,
                                        sizeof *team->runs, "the gradients' buckets", err);
    if (status)
        return status;
    team->runs[team->run_count++] = (struct run){data, count};
    bucket->count++;
    return XT_OK;
}

static enum xt_status add_bucket(struct xt_gradient_reduction *team, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&team->buckets, &team->capacity, team->count + 1,
                                        sizeof *team->buckets, "the gradients' buckets", err);
    if (!status)
        team->buckets[team->count++] = (struct bucket){.first = team->run_count};
    return status;
}

/* A parameter's stretch in the arena, with what fills it up to the next one's. */
static size_t floats_of(const struct xt_param *param)
{
    return (param->floats + 15) / 16 * 16;
}

static size_t op_floats(const struct xt_gradient_reduction *team, const struct xt_op *op)
{
    size_t floats = 0;
    for (int i = 0; i < op->param_count; i++) {
        const struct xt_param *param = &params_of(team)->items[op->params[i]];
        floats += xt_param_is_statistic(param) ? 0 : floats_of(param);
    }
    return floats;
}

/* The last of the file's parameters first, so that runs meet. */
static enum xt_status add_params(struct xt_gradient_reduction *team, const struct xt_op *op,
                                 struct xt_err *err)
{
    struct xt_params *params = params_of(team);
    enum xt_status status = XT_OK;
    for (int i = op->param_count - 1; i >= 0 && !status; i--) {
        const struct xt_param *param = &params->items[op->params[i]];
        if (!xt_param_is_statistic(param))
            status = add_run(team, params->grads + param->offset, floats_of(param), err);
    }
    return status;
}

static enum xt_status fill_buckets(struct xt_gradient_reduction *team, struct xt_err *err)
{
    const struct xt_graph *graph = team->config.graph;
    enum xt_status status = XT_OK;
    for (int i = graph->op_count - 1; i >= 0 && !status; i--) {
        const struct xt_op *op = graph->ops[i];
        size_t floats = xt_op_learns(op, graph) && op->kind->what[1] ? op_floats(team, op) : 0;
        team->bucket_of[op->index] = -1;
        if (!floats)
            continue;
        const struct bucket *last = team->count ? &team->buckets[team->count - 1] : NULL;
        if (!last || (last->floats + floats) * sizeof(float) > team->config.bucket)
            status = add_bucket(team, err);
        if (!status)
            status = add_params(team, op, err);
        if (status)
            return status;
        team->bucket_of[op->index] = (int)team->count - 1;
        team->buckets[team->count - 1].ops++;
    }
    return status;
}

/* The running statistics have moved on by this rank's batch alone: the mean of all ranks' is what
 * the mean of their batches would have made. */
static enum xt_status add_statistics(struct xt_gradient_reduction *team, struct xt_err *err)
{
    struct xt_params *params = params_of(team);
    team->averages = !team->config.sync_bn && params->stat_floats;
    if (!team->averages)
        return XT_OK;
    enum xt_status status = add_bucket(team, err);
    return status ? status : add_run(team, params->stats, params->stat_floats, err);
}

static bool is_statistics(const struct xt_gradient_reduction *team, const struct bucket *bucket)
{
    return team->averages && bucket == &team->buckets[team->count - 1];
}

static bool is_bf16(const struct xt_gradient_reduction *team, const struct bucket *bucket)
{
    return team->config.bf16 && !is_statistics(team, bucket);
}

static enum xt_status make_stages(struct xt_gradient_reduction *team, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < team->count && !status; i++) {
        struct bucket *bucket = &team->buckets[i];
        size_t size = is_bf16(team, bucket) ? sizeof(uint16_t) : sizeof(float);
        if (bucket->count > 1 || size != sizeof(float))
            status =
                xt_mem_aligned(&bucket->stage, bucket->floats, size, "a gradients' bucket", err);
    }
    return status;
}

/* ---- a bucket's way ---- */

static void pack(const struct xt_gradient_reduction *team, struct bucket *bucket)
{
    size_t at = 0;
    for (size_t i = bucket->first; i < bucket->first + bucket->count && bucket->stage; i++) {
        const struct run *run = &team->runs[i];
        if (is_bf16(team, bucket))
            team->config.graph->loops->convert(XT_BF16, run->data, run->count,
                                               (uint16_t *)bucket->stage + at);
        else
            memcpy((float *)bucket->stage + at, run->data, run->count * sizeof *run->data);
        at += run->count;
    }
}

static void unpack(const struct xt_gradient_reduction *team, const struct bucket *bucket)
{
    size_t at = 0;
    for (size_t i = bucket->first; i < bucket->first + bucket->count && bucket->stage; i++) {
        const struct run *run = &team->runs[i];
        const uint16_t *halves = (const uint16_t *)bucket->stage + at;
        if (!is_bf16(team, bucket))
            memcpy(run->data, (const float *)bucket->stage + at, run->count * sizeof *run->data);
        for (size_t k = 0; is_bf16(team, bucket) && k < run->count; k++)
            run->data[k] = xt_bf16_to_float(halves[k]);
        at += run->count;
    }
}

/* A share of the mean, of what began alike in all ranks. */
static void weigh_statistics(const struct xt_gradient_reduction *team)
{
    struct xt_params *params = params_of(team);
    float weight = (float)xt_gradient_reduction_weight(team);
    for (size_t i = 0; i < params->stat_floats; i++)
        params->stats[i] *= weight;
}

static enum xt_status start(struct xt_gradient_reduction *team, struct bucket *bucket,
                            struct xt_err *err)
{
    if (is_statistics(team, bucket))
        weigh_statistics(team);
    pack(team, bucket);
    void *data = bucket->stage ? bucket->stage : team->runs[bucket->first].data;
    team->started++;
    return xt_ranks_start(team->config.ranks, data, bucket->floats,
                          is_bf16(team, bucket) ? XT_MPI_BF16 : XT_MPI_F32, &bucket->sum, err);
}

/* Buckets start in their order, which is the same in all ranks. */
static enum xt_status start_full(struct xt_gradient_reduction *team, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (!status && team->started < team->count && team->buckets[team->started].left == 0)
        status = start(team, &team->buckets[team->started], err);
    return status;
}

static void begin_pass(struct xt_gradient_reduction *team)
{
    team->started = 0;
    for (size_t i = 0; i < team->count; i++)
        team->buckets[i].left = team->buckets[i].ops;
}

/* MPI moves what is on its way only when it is asked. */
static enum xt_status learned(void *context, const struct xt_op *op, struct xt_err *err)
{
    struct xt_gradient_reduction *team = context;
    int number = team->bucket_of[op->index];
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < team->started && !status; i++)
        status = xt_ranks_poll(team->config.ranks, &team->buckets[i].sum, err);
    if (status || number < 0)
        return status;
    team->buckets[number].left--;
    return start_full(team, err);
}

static enum xt_status sum_norm(void *context, double *values, size_t count, struct xt_err *err)
{
    struct xt_gradient_reduction *team = context;
    return xt_ranks_sum_norm(team->config.ranks, values, count, err);
}

/* An XPU's gradients are added up on the host. */
static enum xt_status pull(struct xt_gradient_reduction *team, struct xt_err *err)
{
    enum xt_status status = xt_params_pull_grads(params_of(team), err);
    return status || !team->averages ? status : xt_params_pull(params_of(team), err);
}

static enum xt_status push(struct xt_gradient_reduction *team, struct xt_err *err)
{
    struct xt_params *params = params_of(team);
    enum xt_status status =
        xt_device_memory_write(&params->device.grads, params->grads,
                               params->value_floats * sizeof(float), XT_CAUSE_GRADIENTS, err);
    if (!status && team->averages)
        status = xt_device_memory_write(&params->device.stats, params->stats,
                                        params->stat_floats * sizeof(float), XT_CAUSE_OTHER, err);
    return status;
}

enum xt_status xt_gradient_reduction_finish(struct xt_gradient_reduction *team, struct xt_err *err)
{
    bool apart = team->config.graph->options.device->own_memory;
    enum xt_status status = apart ? pull(team, err) : XT_OK;
    for (size_t i = 0; i < team->count; i++)
        team->buckets[i].left = 0;
    if (!status)
        status = start_full(team, err);
    for (size_t i = 0; i < team->count && !status; i++) {
        status = xt_ranks_finish(team->config.ranks, &team->buckets[i].sum, err);
        if (!status)
            unpack(team, &team->buckets[i]);
    }
    begin_pass(team);
    return status || !apart ? status : push(team, err);
}

/* ---- the team ---- */

double xt_gradient_reduction_weight(const struct xt_gradient_reduction *team)
{
    return (double)team->config.rows.count / team->config.rows.of;
}

void xt_gradient_reduction_weigh(const struct xt_gradient_reduction *team, float *grad,
                                 size_t count)
{
    float weight = (float)xt_gradient_reduction_weight(team);
    for (size_t i = 0; i < count; i++)
        grad[i] *= weight;
}

int xt_gradient_reduction_buckets(const struct xt_gradient_reduction *team)
{
    return (int)team->count;
}

double xt_gradient_reduction_bytes(const struct xt_gradient_reduction *team)
{
    double bytes = 0;
    for (size_t i = 0; i < team->count; i++)
        bytes += (double)team->buckets[i].floats * (is_bf16(team, &team->buckets[i]) ? 2 : 4);
    return bytes;
}

/* Gradients of an XPU come to memory of the host's own. */
static enum xt_status find_gradients(struct xt_gradient_reduction *team, struct xt_err *err)
{
    struct xt_params *params = params_of(team);
    return params->grads ? XT_OK
                         : xt_mem_aligned(&params->grads, params->value_floats, sizeof(float),
                                          "the gradients", err);
}

enum xt_status xt_gradient_reduction_create(struct xt_gradient_reduction **out,
                                            const struct xt_gradient_reduction_config *config,
                                            struct xt_err *err)
{
    bool apart = config->graph->options.device->own_memory;
    struct xt_gradient_reduction *team = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&team, 1, sizeof *team, "the ranks' gradients", err);
    if (status)
        return status;
    team->config = *config;
    team->hooks = (struct xt_graph_communicator){
        .context = team,
        .samples = config->rows.of,
        .sum = config->sync_bn ? sum_norm : NULL,
        .learned = apart || config->at_once ? NULL : learned,
    };
    status = find_gradients(team, err);
    if (!status)
        status = fill_buckets(team, err);
    if (!status)
        status = add_statistics(team, err);
    if (!status)
        status = make_stages(team, err);
    if (status) {
        xt_gradient_reduction_destroy(team);
        return status;
    }
    begin_pass(team);
    config->graph->team = &team->hooks;
    *out = team;
    return XT_OK;
}

void xt_gradient_reduction_destroy(struct xt_gradient_reduction *team)
{
    if (!team)
        return;
    team->config.graph->team = NULL;
    for (size_t i = 0; i < team->count; i++)
        free(team->buckets[i].stage);
    free(team->buckets);
    free(team->runs);
    free(team);
}
