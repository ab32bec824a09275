#include "train/ranks/gradients.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "engine/ops/ops.h"

/* A contiguous range of an arena. */
struct run {
    float *data;
    size_t count;
};

struct bucket {
    size_t first, count; /* runs */
    size_t floats;
    int ops;     /* whose gradients it holds */
    int left;    /* ops whose gradients are pending in this pass */
    void *stage; /* send buffer into which runs are packed; NULL: the only run is sent in place */
    struct xt_ranks_sum sum;
};

struct xt_gradient_reduction {
    struct xt_graph_communicator hooks;
    struct xt_gradient_reduction_config config;
    struct run *runs;
    size_t run_count;
    struct bucket *buckets;
    size_t count;
    int bucket_of[XT_OPS_MAX]; /* by the op's index; -1: none */
    bool averages;             /* the last bucket is the running statistics */
    size_t started;            /* buckets, in this pass */
};

/* ---- buckets ---- */

static struct xt_params *params_of(const struct xt_gradient_reduction *reduction)
{
    return reduction->config.graph->options.params;
}

/* Appends a range to the last bucket, extending its last run if adjacent. */
static enum xt_status add_run(struct xt_gradient_reduction *reduction, float *data, size_t count,
                              struct xt_err *err)
{
    struct bucket *bucket = &reduction->buckets[reduction->count - 1];
    struct run *last = bucket->count ? &reduction->runs[reduction->run_count - 1] : NULL;
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
    enum xt_status status = xt_mem_add(&reduction->runs, reduction->run_count,
                                       sizeof *reduction->runs, "the gradients' buckets", err);
    if (status)
        return status;
    reduction->runs[reduction->run_count++] = (struct run){data, count};
    bucket->count++;
    return XT_OK;
}

static enum xt_status add_bucket(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    enum xt_status status = xt_mem_add(&reduction->buckets, reduction->count,
                                       sizeof *reduction->buckets, "the gradients' buckets", err);
    if (!status)
        reduction->buckets[reduction->count++] = (struct bucket){.first = reduction->run_count};
    return status;
}

/* A parameter's floats in the arena, with padding. */
static size_t floats_of(const struct xt_param *param)
{
    return (param->floats + 15) / 16 * 16;
}

static size_t op_floats(const struct xt_gradient_reduction *reduction, const struct xt_op *op)
{
    size_t floats = 0;
    for (int i = 0; i < op->param_count; i++) {
        const struct xt_param *param = &params_of(reduction)->items[op->params[i]];
        floats +=
            xt_op_ends_grad(reduction->config.graph, op, op->params[i]) ? floats_of(param) : 0;
    }
    return floats;
}

/* In reverse order of the file, so that runs are adjacent. */
static enum xt_status add_params(struct xt_gradient_reduction *reduction, const struct xt_op *op,
                                 struct xt_err *err)
{
    struct xt_params *params = params_of(reduction);
    enum xt_status status = XT_OK;
    for (int i = op->param_count - 1; i >= 0 && !status; i--) {
        const struct xt_param *param = &params->items[op->params[i]];
        if (xt_op_ends_grad(reduction->config.graph, op, op->params[i]))
            status = add_run(reduction, params->grads + param->offset, floats_of(param), err);
    }
    return status;
}

static enum xt_status fill_buckets(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    const struct xt_graph *graph = reduction->config.graph;
    enum xt_status status = XT_OK;
    for (int i = graph->op_count - 1; i >= 0 && !status; i--) {
        const struct xt_op *op = graph->ops[i];
        size_t floats = xt_op_learns(op, graph) && op->kind->what[1] ? op_floats(reduction, op) : 0;
        reduction->bucket_of[op->index] = -1;
        if (!floats)
            continue;
        const struct bucket *last =
            reduction->count ? &reduction->buckets[reduction->count - 1] : NULL;
        if (!last || (last->floats + floats) * sizeof(float) > reduction->config.bucket)
            status = add_bucket(reduction, err);
        if (!status)
            status = add_params(reduction, op, err);
        if (status)
            return status;
        reduction->bucket_of[op->index] = (int)reduction->count - 1;
        reduction->buckets[reduction->count - 1].ops++;
    }
    return status;
}

/* Each rank updated the running statistics with its own batch only: their mean over the ranks
 * equals an update with the mean of the batches. */
static enum xt_status add_statistics(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    struct xt_params *params = params_of(reduction);
    reduction->averages = !reduction->config.sync_bn && params->stat_floats;
    if (!reduction->averages)
        return XT_OK;
    enum xt_status status = add_bucket(reduction, err);
    return status ? status : add_run(reduction, params->stats, params->stat_floats, err);
}

static bool is_statistics(const struct xt_gradient_reduction *reduction,
                          const struct bucket *bucket)
{
    return reduction->averages && bucket == &reduction->buckets[reduction->count - 1];
}

static bool is_bf16(const struct xt_gradient_reduction *reduction, const struct bucket *bucket)
{
    return reduction->config.bf16 && !is_statistics(reduction, bucket);
}

static enum xt_status make_stages(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < reduction->count && !status; i++) {
        struct bucket *bucket = &reduction->buckets[i];
        size_t size = is_bf16(reduction, bucket) ? sizeof(uint16_t) : sizeof(float);
        if (bucket->count > 1 || size != sizeof(float))
            status =
                xt_mem_aligned(&bucket->stage, bucket->floats, size, "a gradients' bucket", err);
    }
    return status;
}

/* ---- reduction of a bucket ---- */

/* Error feedback: what is rounded off is not lost, but late. */
static void round_run(const struct xt_gradient_reduction *reduction, const struct run *run,
                      uint16_t *to)
{
    float *residual = reduction->config.residual + (run->data - params_of(reduction)->grads);
    for (size_t i = 0; i < run->count; i++)
        run->data[i] += residual[i];
    reduction->config.graph->loops->convert(XT_BF16, run->data, run->count, to);
    for (size_t i = 0; i < run->count; i++) {
        float error = run->data[i] - xt_bf16_to_float(to[i]);
        residual[i] = error - error == 0 ? error : 0; /* of a gradient that is not finite: none */
    }
}

static void pack(const struct xt_gradient_reduction *reduction, struct bucket *bucket)
{
    size_t at = 0;
    for (size_t i = bucket->first; i < bucket->first + bucket->count && bucket->stage; i++) {
        const struct run *run = &reduction->runs[i];
        if (is_bf16(reduction, bucket))
            round_run(reduction, run, (uint16_t *)bucket->stage + at);
        else
            memcpy((float *)bucket->stage + at, run->data, run->count * sizeof *run->data);
        at += run->count;
    }
}

static void unpack(const struct xt_gradient_reduction *reduction, const struct bucket *bucket)
{
    size_t at = 0;
    for (size_t i = bucket->first; i < bucket->first + bucket->count && bucket->stage; i++) {
        const struct run *run = &reduction->runs[i];
        const uint16_t *halves = (const uint16_t *)bucket->stage + at;
        if (!is_bf16(reduction, bucket))
            memcpy(run->data, (const float *)bucket->stage + at, run->count * sizeof *run->data);
        for (size_t k = 0; is_bf16(reduction, bucket) && k < run->count; k++)
            run->data[k] = xt_bf16_to_float(halves[k]);
        at += run->count;
    }
}

/* Weighs this rank's statistics by its share of the mean; all ranks began with the same. */
static void weigh_statistics(const struct xt_gradient_reduction *reduction)
{
    struct xt_params *params = params_of(reduction);
    float weight = (float)xt_gradient_reduction_weight(reduction);
    for (size_t i = 0; i < params->stat_floats; i++)
        params->stats[i] *= weight;
}

static enum xt_status start(struct xt_gradient_reduction *reduction, struct bucket *bucket,
                            struct xt_err *err)
{
    if (is_statistics(reduction, bucket))
        weigh_statistics(reduction);
    pack(reduction, bucket);
    void *data = bucket->stage ? bucket->stage : reduction->runs[bucket->first].data;
    reduction->started++;
    return xt_ranks_start(reduction->config.ranks, data, bucket->floats,
                          is_bf16(reduction, bucket) ? XT_MPI_BF16 : XT_MPI_F32, &bucket->sum, err);
}

/* Buckets start in their order, which is the same in all ranks. */
static enum xt_status start_full(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (!status && reduction->started < reduction->count &&
           reduction->buckets[reduction->started].left == 0)
        status = start(reduction, &reduction->buckets[reduction->started], err);
    return status;
}

static void begin_pass(struct xt_gradient_reduction *reduction)
{
    reduction->started = 0;
    for (size_t i = 0; i < reduction->count; i++)
        reduction->buckets[i].left = reduction->buckets[i].ops;
}

/* MPI progresses pending operations only inside its calls. */
static enum xt_status learned(void *context, const struct xt_op *op, struct xt_err *err)
{
    struct xt_gradient_reduction *reduction = context;
    int number = reduction->bucket_of[op->index];
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < reduction->started && !status; i++)
        status = xt_ranks_poll(reduction->config.ranks, &reduction->buckets[i].sum, err);
    if (status || number < 0)
        return status;
    reduction->buckets[number].left--;
    return start_full(reduction, err);
}

static enum xt_status sum_norm(void *context, double *values, size_t count, struct xt_err *err)
{
    struct xt_gradient_reduction *reduction = context;
    return xt_ranks_sum_norm(reduction->config.ranks, values, count, err);
}

/* An XPU's gradients are reduced on the host. */
static enum xt_status pull(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    enum xt_status status = xt_params_pull_grads(params_of(reduction), err);
    return status || !reduction->averages ? status : xt_params_pull(params_of(reduction), err);
}

static enum xt_status push(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    struct xt_params *params = params_of(reduction);
    enum xt_status status =
        xt_device_memory_write(&params->device.grads, params->grads,
                               params->value_floats * sizeof(float), XT_CAUSE_GRADIENTS, err);
    if (!status && reduction->averages)
        status = xt_device_memory_write(&params->device.stats, params->stats,
                                        params->stat_floats * sizeof(float), XT_CAUSE_OTHER, err);
    return status;
}

enum xt_status xt_gradient_reduction_finish(struct xt_gradient_reduction *reduction,
                                            struct xt_err *err)
{
    bool apart = reduction->config.graph->options.device->own_memory;
    enum xt_status status = apart ? pull(reduction, err) : XT_OK;
    xt_params_grads_changed(params_of(reduction));
    for (size_t i = 0; i < reduction->count; i++)
        reduction->buckets[i].left = 0;
    if (!status)
        status = start_full(reduction, err);
    for (size_t i = 0; i < reduction->count && !status; i++) {
        status = xt_ranks_finish(reduction->config.ranks, &reduction->buckets[i].sum, err);
        if (!status)
            unpack(reduction, &reduction->buckets[i]);
    }
    begin_pass(reduction);
    return status || !apart ? status : push(reduction, err);
}

/* ---- public functions ---- */

double xt_gradient_reduction_weight(const struct xt_gradient_reduction *reduction)
{
    return (double)reduction->config.rows.count / reduction->config.rows.of;
}

void xt_gradient_reduction_weigh(const struct xt_gradient_reduction *reduction, float *grad,
                                 size_t count)
{
    float weight = (float)xt_gradient_reduction_weight(reduction);
    for (size_t i = 0; i < count; i++)
        grad[i] *= weight;
}

enum xt_status xt_gradient_residual_level(struct xt_ranks *ranks, float *residual, size_t count,
                                          struct xt_err *err)
{
    struct xt_ranks_sum sum = {NULL, 0};
    enum xt_status status = xt_ranks_start(ranks, residual, count, XT_MPI_F32, &sum, err);
    if (!status)
        status = xt_ranks_finish(ranks, &sum, err);
    for (size_t i = 0; i < count; i++)
        residual[i] /= (float)ranks->size;
    return status;
}

int xt_gradient_reduction_buckets(const struct xt_gradient_reduction *reduction)
{
    return (int)reduction->count;
}

double xt_gradient_reduction_bytes(const struct xt_gradient_reduction *reduction)
{
    double bytes = 0;
    for (size_t i = 0; i < reduction->count; i++)
        bytes += (double)reduction->buckets[i].floats *
                 (is_bf16(reduction, &reduction->buckets[i]) ? 2 : 4);
    return bytes;
}

/* Allocates host memory for an XPU's gradients. */
static enum xt_status find_gradients(struct xt_gradient_reduction *reduction, struct xt_err *err)
{
    struct xt_params *params = params_of(reduction);
    return params->grads ? XT_OK
                         : xt_mem_aligned(&params->grads, params->value_floats, sizeof(float),
                                          "the gradients", err);
}

enum xt_status xt_gradient_reduction_create(struct xt_gradient_reduction **out,
                                            const struct xt_gradient_reduction_config *config,
                                            struct xt_err *err)
{
    bool apart = config->graph->options.device->own_memory;
    struct xt_gradient_reduction *reduction = NULL;
    *out = NULL;
    enum xt_status status =
        xt_mem_calloc(&reduction, 1, sizeof *reduction, "the ranks' gradients", err);
    if (status)
        return status;
    reduction->config = *config;
    reduction->hooks = (struct xt_graph_communicator){
        .context = reduction,
        .samples = config->rows.of,
        .sum = config->sync_bn ? sum_norm : NULL,
        .learned = apart || config->at_once ? NULL : learned,
    };
    status = find_gradients(reduction, err);
    if (!status)
        status = fill_buckets(reduction, err);
    if (!status)
        status = add_statistics(reduction, err);
    if (!status)
        status = make_stages(reduction, err);
    if (status) {
        xt_gradient_reduction_destroy(reduction);
        return status;
    }
    begin_pass(reduction);
    config->graph->communicator = &reduction->hooks;
    *out = reduction;
    return XT_OK;
}

void xt_gradient_reduction_destroy(struct xt_gradient_reduction *reduction)
{
    if (!reduction)
        return;
    reduction->config.graph->communicator = NULL;
    for (size_t i = 0; i < reduction->count; i++)
        free(reduction->buckets[i].stage);
    free(reduction->buckets);
    free(reduction->runs);
    free(reduction);
}
