/* Batch normalisation, the residual, ReLU and the pools that read it, as one op: two passes over
 * each sample forward (statistics; everything else) and two backward (the gradient before ReLU with
 * its sums; the input's gradient).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "models/graph/xpu_ops.h"

static void destroy(struct xt_op *op)
{
    struct norm *norm = (struct norm *)op;
    free(norm->mean);
}

/* y's gradient is overwritten by the gradient before ReLU, which is the residual's gradient where
 * there is one, else what the input's gradient is made from in place: so they share memory. */
enum xt_status xt_norm_share_gradients(struct norm *norm, struct xt_graph *graph,
                                       struct xt_err *err)
{
    int time = xt_op_backward_time(graph, &norm->op);
    struct xt_tensor *residual = norm->spec.residual;
    enum xt_status status = xt_graph_use_grad(graph, norm->in, norm->reader, time, err);
    if (!status && residual)
        status = xt_graph_use_grad(graph, residual, norm->residual_reader, time, err);
    if (!status && norm->full)
        norm->full->grad[0] =
            residual ? residual->grad[norm->residual_reader] : norm->in->grad[norm->reader];
    return status;
}

enum xt_status xt_norm_use_outputs(struct norm *norm, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_tensor *outputs[] = {norm->full, norm->max, norm->average};
    bool learns = graph->options.training && !norm->op.frozen;
    enum xt_status status = XT_OK;
    for (int i = 0; i < 3; i++) {
        if (!outputs[i])
            continue;
        if (!status)
            status = xt_graph_use_value(graph, outputs[i], xt_op_forward_time(&norm->op), err);
        for (int r = 0; r < outputs[i]->readers && !status && learns; r++)
            status =
                xt_graph_use_grad(graph, outputs[i], r, xt_op_backward_time(graph, &norm->op), err);
    }
    return status;
}

/* [n][2][c], alive at `time` alone; NULL with err set on failure. */
static struct xt_buffer *add_sums(const struct norm *norm, struct xt_graph *graph, int time,
                                  struct xt_err *err)
{
    size_t bytes = (size_t)norm->in->n * 2 * (size_t)norm->in->c * sizeof(double);
    struct xt_buffer *sums = xt_graph_add_buffer(graph, norm->in->name, "sums", bytes, err);
    if (sums)
        xt_buffer_use(sums, time);
    return sums;
}

static enum xt_status use_training(struct norm *norm, struct xt_graph *graph, struct xt_err *err)
{
    int forward = xt_op_forward_time(&norm->op);
    int backward = xt_op_backward_time(graph, &norm->op);
    norm->forward_sums = add_sums(norm, graph, forward, err);
    norm->backward_sums = norm->forward_sums ? add_sums(norm, graph, backward, err) : NULL;
    if (!norm->backward_sums)
        return err->status;
    enum xt_status status = xt_graph_use_value(graph, norm->in, backward, err);
    if (!status && norm->spec.residual)
        status = xt_graph_use_value(graph, norm->spec.residual, backward, err);
    if (!status)
        status = xt_norm_share_gradients(norm, graph, err);
    if (status || !norm->max)
        return status;
    norm->winners =
        xt_graph_add_buffer(graph, norm->max->name, "winners", xt_tensor_count(norm->max), err);
    if (!norm->winners)
        return err->status;
    xt_buffer_use(norm->winners, forward);
    xt_buffer_use(norm->winners, backward);
    return XT_OK;
}

static struct xt_norm_sample describe_sample(const struct norm *norm)
{
    return (struct xt_norm_sample){
        .dtype = norm->in->dtype,
        .h = norm->in->h,
        .w = norm->in->w,
        .c = norm->in->c,
        .relu = norm->spec.relu,
        .scale = norm->scale,
        .shift = norm->shift,
        .max = norm->spec.max,
        .average = norm->spec.average,
        .pivot = norm->mean,
    };
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct norm *norm = (struct norm *)op;
    size_t c = (size_t)norm->in->c;
    enum xt_status status = xt_mem_aligned(&norm->mean, 7 * c, sizeof(float), op->name, err);
    if (status)
        return status;
    norm->invstd = norm->mean + c;
    norm->scale = norm->invstd + c;
    norm->shift = norm->scale + c;
    norm->factors = norm->shift + c;
    struct xt_norm_sample sample = describe_sample(norm);
    size_t scratch = xt_norm_scratch(&sample);
    if (scratch > graph->loop_scratch_floats)
        graph->loop_scratch_floats = scratch;
    status = xt_graph_use_value(graph, norm->in, xt_op_forward_time(op), err);
    if (!status && norm->spec.residual)
        status = xt_graph_use_value(graph, norm->spec.residual, xt_op_forward_time(op), err);
    if (!status && graph->options.training && !op->frozen)
        status = use_training(norm, graph, err);
    return status ? status : xt_norm_use_outputs(norm, graph, err);
}

/* Sample n of a tensor's value or gradient. */
static void *sample_of(const struct xt_tensor *tensor, const struct xt_buffer *buffer, int n)
{
    if (!tensor || !buffer)
        return NULL;
    return (char *)buffer->data + xt_tensor_bytes(tensor) / (size_t)tensor->n * (size_t)n;
}

static float *param(const struct xt_graph *graph, int index)
{
    struct xt_params *params = graph->options.params;
    return xt_params_value(params, &params->items[index]);
}

static double *sum_of(const struct norm *norm, const struct xt_buffer *sums, int n, int which)
{
    size_t c = (size_t)norm->in->c;
    return (double *)sums->data + ((size_t)n * 2 + (size_t)which) * c;
}

/* Adds the samples' sums in their order, so that the number of threads changes nothing. */
static void total(const struct norm *norm, const struct xt_buffer *sums, size_t k, double *first,
                  double *second)
{
    *first = *second = 0;
    for (int n = 0; n < norm->in->n; n++) {
        *first += sum_of(norm, sums, n, 0)[k];
        *second += sum_of(norm, sums, n, 1)[k];
    }
}

static float element(const struct xt_tensor *tensor, size_t i)
{
    if (tensor->dtype == XT_F32)
        return ((const float *)tensor->value->data)[i];
    return xt_bf16_to_float(((const uint16_t *)tensor->value->data)[i]);
}

/* Mean and variance of the batch; sums are taken around the first pixel, so that a large mean costs
 * no digits. */
static void batch_statistics(struct norm *norm, struct xt_graph *graph)
{
    const struct xt_tensor *in = norm->in;
    const struct xt_buffer *sums = norm->forward_sums;
    size_t c = (size_t)in->c;
    float *pivot = norm->factors;
    for (size_t k = 0; k < c; k++)
        pivot[k] = element(in, k);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < in->n; n++)
        graph->loops->statistics(
            in->dtype, sample_of(in, in->value, n), (size_t)in->h * (size_t)in->w, in->c, pivot,
            sum_of(norm, sums, n, 0), sum_of(norm, sums, n, 1), xt_graph_loop_scratch(graph));
    double m = (double)in->n * in->h * in->w;
    float *running_mean = param(graph, norm->param.mean);
    float *running_var = param(graph, norm->param.var);
    for (size_t k = 0; k < c; k++) {
        double sum = 0;
        double square = 0;
        total(norm, sums, k, &sum, &square);
        double mean = sum / m;
        double var = square / m - mean * mean;
        var = var > 0 ? var : 0;
        mean += (double)pivot[k];
        norm->mean[k] = (float)mean;
        norm->invstd[k] = (float)(1 / sqrt(var + XT_BN_EPS));
        double unbiased = m > 1 ? var * m / (m - 1) : var;
        running_mean[k] =
            (float)((1 - XT_BN_MOMENTUM) * (double)running_mean[k] + XT_BN_MOMENTUM * mean);
        running_var[k] =
            (float)((1 - XT_BN_MOMENTUM) * (double)running_var[k] + XT_BN_MOMENTUM * unbiased);
    }
}

static void running_statistics(struct norm *norm, const struct xt_graph *graph)
{
    const float *running_mean = param(graph, norm->param.mean);
    const float *running_var = param(graph, norm->param.var);
    for (size_t k = 0; k < (size_t)norm->in->c; k++) {
        norm->mean[k] = running_mean[k];
        norm->invstd[k] = (float)(1 / sqrt((double)running_var[k] + XT_BN_EPS));
    }
}

/* What z is multiplied by and what is added, channel by channel. */
static void scale_and_shift(struct norm *norm, struct xt_graph *graph)
{
    bool training = graph->pass.training;
    if (training && !graph->pass.bn_frozen && !norm->op.frozen)
        batch_statistics(norm, graph);
    else
        running_statistics(norm, graph);
    const float *gamma = param(graph, norm->param.scale);
    const float *beta = param(graph, norm->param.shift);
    for (size_t k = 0; k < (size_t)norm->in->c; k++) {
        norm->scale[k] = gamma[k] * norm->invstd[k];
        norm->shift[k] = beta[k] - norm->mean[k] * norm->scale[k];
    }
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct norm *norm = (struct norm *)op;
    const struct xt_tensor *in = norm->in;
    bool training = graph->pass.training;
    scale_and_shift(norm, graph);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < in->n; n++) {
        struct xt_norm_sample sample = describe_sample(norm);
        sample.z = sample_of(in, in->value, n);
        if (norm->spec.residual)
            sample.residual = sample_of(norm->spec.residual, norm->spec.residual->value, n);
        if (norm->full)
            sample.y = sample_of(norm->full, norm->full->value, n);
        if (norm->max)
            sample.pooled = sample_of(norm->max, norm->max->value, n);
        if (norm->winners && training)
            sample.winner =
                (uint8_t *)norm->winners->data + norm->winners->bytes / (size_t)in->n * (size_t)n;
        if (norm->average)
            sample.averaged = sample_of(norm->average, norm->average->value, n);
        sample.scratch = xt_graph_loop_scratch(graph);
        graph->loops->norm_forward(&sample);
    }
    return XT_OK;
}

/* The buffer that holds the gradient before ReLU between the two passes. */
static struct xt_buffer *da_buffer(const struct norm *norm)
{
    const struct xt_tensor *residual = norm->spec.residual;
    return residual ? residual->grad[norm->residual_reader] : norm->in->grad[norm->reader];
}

static void backward_sample(const struct norm *norm, const struct xt_graph *graph, int n)
{
    struct xt_norm_sample sample = describe_sample(norm);
    const struct xt_tensor *in = norm->in;
    sample.z = sample_of(in, in->value, n);
    if (norm->spec.residual)
        sample.residual = sample_of(norm->spec.residual, norm->spec.residual->value, n);
    for (int r = 0; r < XT_READERS_MAX; r++) {
        if (norm->full)
            sample.dy[r] = sample_of(norm->full, norm->full->grad[r], n);
        if (norm->max)
            sample.dpooled[r] = sample_of(norm->max, norm->max->grad[r], n);
    }
    if (norm->average)
        sample.daveraged = sample_of(norm->average, norm->average->grad[0], n);
    if (norm->winners)
        sample.winner =
            (uint8_t *)norm->winners->data + norm->winners->bytes / (size_t)in->n * (size_t)n;
    sample.da = sample_of(in, da_buffer(norm), n);
    sample.sum_da = sum_of(norm, norm->backward_sums, n, 0);
    sample.sum_da_z = sum_of(norm, norm->backward_sums, n, 1);
    sample.scratch = xt_graph_loop_scratch(graph);
    graph->loops->norm_backward(&sample);
}

/* The parameters' gradients, and dz = a * da + b * z + d. */
static void combine(struct norm *norm, struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    float *dgamma = xt_params_grad(params, &params->items[norm->param.scale]);
    float *dbeta = xt_params_grad(params, &params->items[norm->param.shift]);
    size_t c = (size_t)norm->in->c;
    double m = (double)norm->in->n * norm->in->h * norm->in->w;
    for (size_t k = 0; k < c; k++) {
        double sum = 0;
        double sum_z = 0;
        total(norm, norm->backward_sums, k, &sum, &sum_z);
        double invstd = (double)norm->invstd[k];
        dbeta[k] = (float)sum;
        dgamma[k] = (float)(sum_z * invstd);
        double scale = (double)norm->scale[k];
        double b = graph->pass.bn_frozen ? 0 : -scale * invstd * invstd * sum_z / m;
        double d = graph->pass.bn_frozen ? 0 : -scale * sum / m - b * (double)norm->mean[k];
        norm->factors[k] = (float)scale;
        norm->factors[c + k] = (float)b;
        norm->factors[2 * c + k] = (float)d;
    }
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct norm *norm = (struct norm *)op;
    const struct xt_tensor *in = norm->in;
    size_t c = (size_t)in->c;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < in->n; n++)
        backward_sample(norm, graph, n);
    combine(norm, graph);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < in->n; n++)
        graph->loops->norm_backward_apply(
            in->dtype, sample_of(in, da_buffer(norm), n), sample_of(in, in->value, n),
            (size_t)in->h * (size_t)in->w, in->c, norm->factors, norm->factors + c,
            norm->factors + 2 * c, sample_of(in, in->grad[norm->reader], n));
    return XT_OK;
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return is_backward && op->frozen ? "" : "xtrain loops";
}

static const struct xt_op_class class_norm = {
    .kind = "batch norm",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .implementation = implementation,
    .destroy = destroy,
};

/* ---- describing ---- */

enum xt_status xt_graph_norm_params(struct xt_graph *graph, const char *name, int channels,
                                    const struct xt_channel_map *map, struct xt_norm_params *out,
                                    struct xt_err *err)
{
    int unused = -1;
    const struct {
        const char *suffix;
        enum xt_param_role role;
        int *index;
    } kinds[] = {
        {"weight", XT_PARAM_BN_SCALE, &out->scale},
        {"bias", XT_PARAM_BN_SHIFT, &out->shift},
        {"running_mean", XT_PARAM_BN_MEAN, &out->mean},
        {"running_var", XT_PARAM_BN_VAR, &out->var},
        {"num_batches_tracked", XT_PARAM_BN_COUNT, &unused},
    };
    union {
        const int *in;
        int *out;
    } rows = {.in = map ? map->map : NULL};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct xt_param item = {
            .role = kinds[i].role,
            .ndims = 1,
            .dims = {channels},
            .file_dims = {map && map->file_count ? map->file_count : channels},
            .rows = kinds[i].role == XT_PARAM_BN_COUNT ? NULL : rows.out,
        };
        snprintf(item.name, sizeof item.name, "%s.%s", name, kinds[i].suffix);
        *kinds[i].index = xt_graph_param(graph, &item, err);
        if (*kinds[i].index < 0)
            return err->status;
    }
    return XT_OK;
}

static void fit_window(struct xt_window *window, const struct xt_tensor *in)
{
    window->out_h = (in->h + 2 * window->pad_h - window->kernel_h) / window->stride_h + 1;
    window->out_w = (in->w + 2 * window->pad_w - window->kernel_w) / window->stride_w + 1;
}

static enum xt_status add_outputs(struct xt_graph *graph, struct norm *norm,
                                  struct xt_norm_outputs *out, struct xt_err *err)
{
    const struct xt_tensor *in = norm->in;
    struct xt_norm_spec *spec = &norm->spec;
    char name[64];
    if (spec->full) {
        out->full = norm->full =
            xt_graph_add_tensor(graph, norm->op.name, in->n, in->h, in->w, in->c, in->dtype, err);
        if (!out->full)
            return err->status;
    }
    if (spec->max.kernel_h) {
        fit_window(&spec->max, in);
        snprintf(name, sizeof name, "%.50s max", norm->op.name);
        out->max = norm->max = xt_graph_add_tensor(graph, name, in->n, spec->max.out_h,
                                                   spec->max.out_w, in->c, in->dtype, err);
        if (!out->max)
            return err->status;
    }
    if (spec->average.kernel_h) {
        fit_window(&spec->average, in);
        snprintf(name, sizeof name, "%.50s average", norm->op.name);
        out->average = norm->average = xt_graph_add_tensor(graph, name, in->n, spec->average.out_h,
                                                           spec->average.out_w, in->c, XT_F32, err);
        if (!out->average)
            return err->status;
        out->average->one_reader = true;
    }
    return XT_OK;
}

static enum xt_status check_windows(const struct xt_norm_spec *spec, struct xt_err *err)
{
    if (spec->max.kernel_h && (!spec->relu || spec->max.kernel_h != 3 || spec->max.kernel_w != 3))
        return xt_err_set(err, XT_ERR_RUN,
                          "%s: a max pool without a ReLU before it, or of another size than 3x3",
                          spec->name);
    if (spec->average.kernel_h && (spec->average.stride_h != spec->average.kernel_h ||
                                   spec->average.pad_h || spec->average.pad_w))
        return xt_err_set(err, XT_ERR_RUN, "%s: an average pool with overlapping or padded rows",
                          spec->name);
    return XT_OK;
}

static enum xt_status find_params(struct xt_graph *graph, const struct xt_tensor *in,
                                  const struct xt_norm_spec *spec, struct xt_norm_params *out,
                                  struct xt_err *err)
{
    if (!spec->params)
        return xt_graph_norm_params(graph, spec->name, in->c, &spec->out, out, err);
    *out = *spec->params;
    return XT_OK;
}

static enum xt_status add_norm(struct xt_graph *graph, struct xt_tensor *in,
                               const struct xt_norm_spec *spec, const struct xt_norm_params *params,
                               struct xt_norm_outputs *out, struct xt_err *err)
{
    struct norm *norm = xt_graph_add_op(
        graph, sizeof *norm, xt_on_xpu(graph) ? &xt_xpu_norm : &class_norm, spec->name, err);
    if (!norm)
        return err->status;
    norm->spec = *spec;
    norm->spec.params = NULL;
    norm->param = *params;
    norm->in = in;
    norm->reader = xt_graph_read(in, err);
    if (norm->reader < 0)
        return err->status;
    if (spec->residual) {
        norm->residual_reader = xt_graph_read(spec->residual, err);
        if (norm->residual_reader < 0)
            return err->status;
    }
    enum xt_status status = add_outputs(graph, norm, out, err);
    struct xt_tensor *outputs[] = {norm->full, norm->max, norm->average};
    norm->op.dtype = in->dtype;
    const int learnt[] = {norm->param.scale, norm->param.shift};
    for (int i = 0; i < 2 && !status; i++)
        graph->options.params->items[learnt[i]].frozen = norm->op.frozen;
    for (int i = 0; i < 3 && !status; i++)
        if (outputs[i]) {
            outputs[i]->wants_grad = !norm->op.frozen;
            norm->op.out_bytes += xt_tensor_bytes(outputs[i]);
        }
    return status;
}

static struct xt_tensor *add_pool(struct xt_graph *graph, struct xt_tensor *in,
                                  const struct xt_norm_spec *spec, bool average, struct xt_err *err)
{
    char name[64];
    struct xt_window window = average ? spec->average : spec->max;
    fit_window(&window, in);
    snprintf(name, sizeof name, "%.50s %s", spec->name, average ? "average" : "max");
    return xt_graph_pool(graph, in, &window, average, name, err);
}

/* All but the pools goes into the convolution before. */
static enum xt_status fuse(struct xt_graph *graph, struct xt_tensor *in,
                           const struct xt_norm_spec *spec, const struct xt_norm_params *params,
                           struct xt_norm_outputs *out, struct xt_err *err)
{
    struct xt_fold fold = {.params = *params, .residual = spec->residual, .relu = spec->relu};
    enum xt_status status = xt_conv_absorb(graph, in, &fold, err);
    if (!status && spec->max.kernel_h) {
        out->max = add_pool(graph, in, spec, false, err);
        status = out->max ? XT_OK : err->status;
    }
    if (!status && spec->average.kernel_h) {
        out->average = add_pool(graph, in, spec, true, err);
        status = out->average ? XT_OK : err->status;
    }
    if (!status && spec->full)
        out->full = in;
    return status;
}

enum xt_status xt_graph_norm(struct xt_graph *graph, struct xt_tensor *in,
                             const struct xt_norm_spec *spec, struct xt_norm_outputs *out,
                             struct xt_err *err)
{
    *out = (struct xt_norm_outputs){0};
    struct xt_norm_params params;
    enum xt_status status = check_windows(spec, err);
    if (!status)
        status = find_params(graph, in, spec, &params, err);
    if (status)
        return status;
    if (graph->options.fuse && xt_conv_can_absorb(graph, in, spec->residual))
        return fuse(graph, in, spec, &params, out, err);
    if (graph->options.int8)
        return xt_err_set(err, XT_ERR_RUN,
                          "%s: int8 needs a convolution before each batch norm that can take it in",
                          spec->name);
    return add_norm(graph, in, spec, &params, out, err);
}
