/* Batch normalisation, the residual, ReLU and the pools that read it by loops: two passes over each
 * sample forward (statistics; everything else) and two backward (the gradient before ReLU with its
 * sums; the input's gradient). Where a convolution by own loops writes what the first pass of
 * either would read, its loop forms the sums instead (xt_conv_op's sums_for). A norm that only the
 * next one's residual reads is applied where that is added. Of some behind 1x1 convolutions the
 * backward pass is theirs, and their output exists for some rows at a time (conv_norm.h).
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "engine/cpu/conv_norm.h"

struct state {
    const struct xt_norm_op *is;
    const struct xt_tensor *in, *residual, *full, *max, *average; /* NULL: none */
    struct xt_buffer *argmax, *above; /* see xt_norm_sample; NULL: not needed */
    /* Each sample's, double [n][2][c]; of those from a convolution each of its slices' or threads'.
     */
    struct xt_buffer *forward_sums, *backward_sums;
    const struct xt_op *sums_from[2]; /* the convolution, forward and backward; NULL: none */
    /* The norm before the residual, which this one applies: what it would write is not stored. */
    struct state *applied;                 /* NULL: none */
    bool is_applied;                       /* by the reader of its output */
    const struct xt_cpu_conv_norm *joined; /* to the convolution before it; NULL: it is not */
    float *mean;                           /* [c] of the statistics used in this pass; */
    float *invstd;                         /* likewise */
    float *scale;
    float *shift;
    float *factors;  /* [3][c] of the backward's second pass */
    bool far[2];     /* forward, backward: the output has left the caches when it is read */
    double totals[]; /* [2][c] the batch's sums; the above follow */
};

/* Whether it runs by the loops for whole strips of channels (norm_wide.c). */
static bool has_strips(const struct xt_norm_op *norm, const struct xt_graph *graph)
{
    enum { LANES = 16, STRIP = 32, STRIDE_MOST = 2 };
    return graph->loops->lanes == LANES && xt_op_in(&norm->op, 0)->c % STRIP == 0 &&
           !norm->spec.activation && norm->spec.max.stride_w <= STRIDE_MOST;
}

static int parts_of(const struct state *norm, const struct xt_graph *graph, bool backward)
{
    const struct xt_op *from = norm->sums_from[backward];
    int samples = from ? from->by_slices[backward] : 1;
    return samples ? norm->in->n / samples : graph->options.device->threads;
}

static struct xt_buffer *add_sums(const struct state *norm, struct xt_graph *graph, bool backward)
{
    const struct xt_op *op = &norm->is->op;
    const struct xt_op *from = norm->sums_from[backward];
    size_t parts = (size_t)parts_of(norm, graph, backward);
    struct xt_buffer *sums = xt_graph_add_buffer(graph, norm->in->name, "sums",
                                                 parts * 2 * (size_t)norm->in->c * sizeof(double));
    xt_buffer_use(sums, backward ? xt_op_backward_time(graph, op) : xt_op_forward_time(op));
    if (from)
        xt_buffer_use(sums, backward ? xt_op_backward_time(graph, from) : xt_op_forward_time(from));
    return sums;
}

static struct xt_norm_sample describe_sample(const struct state *norm)
{
    return (struct xt_norm_sample){
        .dtype = norm->in->dtype,
        .h = norm->in->h,
        .w = norm->in->w,
        .c = norm->in->c,
        .relu = norm->is->spec.relu,
        .activation = norm->is->spec.activation,
        .scale = norm->scale,
        .shift = norm->shift,
        .max = norm->is->spec.max,
        .average = norm->is->spec.average,
        .pivot = norm->mean,
    };
}

size_t xt_cpu_norm_scratch(const struct xt_op *op)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)op;
    const struct xt_norm_sample sample = {
        .w = xt_op_in(op, 0)->w, .c = xt_op_in(op, 0)->c, .max = norm->spec.max};
    return xt_norm_scratch(&sample);
}

static struct state *create_state(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_norm_op *is = (const struct xt_norm_op *)op;
    size_t c = (size_t)xt_op_in(op, 0)->c;
    struct state *norm = NULL;
    size_t bytes = sizeof *norm + 2 * c * sizeof(double) + 7 * c * sizeof(float);
    if (xt_mem_calloc(&norm, 1, bytes, op->name, &graph->err))
        return NULL;
    *norm = (struct state){.is = is,
                           .in = xt_op_in(op, 0),
                           .residual = is->spec.residual,
                           .full = xt_op_out(op, XT_NORM_FULL),
                           .max = xt_op_out(op, XT_NORM_MAX),
                           .average = xt_op_out(op, XT_NORM_AVERAGE)};
    norm->joined = xt_cpu_conv_joined(xt_graph_writer(graph, norm->in), op);
    norm->mean = (float *)(norm->totals + 2 * c);
    norm->invstd = norm->mean + c;
    norm->scale = norm->invstd + c;
    norm->shift = norm->scale + c;
    norm->factors = norm->shift + c;
    op->own = norm;
    return norm;
}

/* Whether a pass's output has left the caches when it is read. */
static bool is_far(const struct state *norm, const struct xt_graph *graph, bool backward)
{
    return xt_cpu_is_large(norm->in) && !xt_slices_read_at_once(graph, &norm->is->op, backward);
}

/* ---- sums from a convolution ---- */

static void take_statistics(struct state *norm, struct xt_graph *graph)
{
    for (int i = 0; i < norm->is->op.index; i++) {
        struct xt_op *op = graph->ops[i];
        if (xt_op_out(op, 0) != norm->in || !xt_cpu_conv_forms_sums(op, graph, false))
            continue;
        norm->sums_from[0] = op;
        ((struct xt_conv_op *)op)->sums_for[0] = &norm->is->op;
    }
}

/* Whether the op writes its gradient before the convolution does, as a whole and in no other
 * memory. */
static bool writes_before(const struct xt_op *op, const struct xt_op *conv, int input,
                          const struct xt_graph *graph)
{
    bool residual = op->kind == &xt_kind_norm && input == 1;
    return (residual || op->kind == &xt_kind_conv) && xt_op_learns(op, graph) &&
           (graph->slices.workers ? op->segment[1][1] < conv->segment[1][0]
                                  : op->index > conv->index);
}

/* Of a norm with ReLU the convolution that can make its gradient: the first reader, which is the
 * last one backward, finds another's gradient in its own memory and adds to it. NULL: none can.
 * `inputs`: all readers', as many as are returned. */
static struct xt_conv_op *find_gradient(const struct xt_norm_op *norm, struct xt_graph *graph,
                                        struct xt_op_input *inputs[XT_READERS_MAX])
{
    const struct xt_tensor *y = xt_op_out(&norm->op, XT_NORM_FULL);
    struct xt_conv_op *conv = NULL;
    int found = 0;
    if (!y || xt_op_out(&norm->op, XT_NORM_MAX) || xt_op_out(&norm->op, XT_NORM_AVERAGE) ||
        !norm->spec.relu)
        return NULL;
    for (int i = norm->op.index + 1; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->input_count; k++) {
            struct xt_op *op = graph->ops[i];
            if (xt_op_in(op, k) != y)
                continue;
            if (!conv && !xt_cpu_conv_forms_sums(op, graph, true))
                return NULL;
            if (conv && !writes_before(op, &conv->op, k, graph))
                return NULL;
            conv = conv ? conv : (struct xt_conv_op *)op;
            inputs[found++] = &op->inputs[k];
        }
    return found == y->readers && conv && conv->strides[0] == 1 && conv->strides[1] == 1 ? conv
                                                                                         : NULL;
}

static void take_gradient(struct state *norm, struct xt_graph *graph)
{
    struct xt_tensor *y = norm->is->op.outputs[XT_NORM_FULL];
    struct xt_op_input *inputs[XT_READERS_MAX] = {NULL};
    struct xt_conv_op *conv = find_gradient(norm->is, graph, inputs);
    if (!conv)
        return;
    conv->adds_grad = y->readers > 1;
    for (int i = 0; i < y->readers; i++)
        inputs[i]->reader = 0;
    y->readers = 1;
    conv->sums_for[1] = &norm->is->op;
    norm->sums_from[1] = &conv->op;
}

/* Whether the convolution before it makes its input where that is read. */
static bool has_input_made(const struct state *norm)
{
    return norm->joined && norm->joined->rows;
}

/* Ops run alone, for tests, only where passes do not run by slices. */
static void take_sums(struct state *norm, struct xt_op *op, struct xt_graph *graph)
{
    if (!graph->options.by_slices || !xt_op_learns(op, graph))
        return;
    if (!has_input_made(norm))
        take_statistics(norm, graph);
    take_gradient(norm, graph);
    for (int backward = 0; backward < 2; backward++)
        if (norm->sums_from[backward])
            op->own_name[backward] = "xtrain, sums by conv";
}

/* ---- the norm of a residual ---- */

/* Whether the loops scale the residual. */
static bool scales_residual(const struct state *norm, const struct xt_graph *graph)
{
    return norm->in->dtype == XT_BF16 && has_strips(norm->is, graph) && !norm->max &&
           !norm->average;
}

/* The backward pass of neither needs what the norm of the residual would have written. */
static void take_residual(struct state *norm, struct xt_graph *graph)
{
    const struct xt_op *op = norm->residual ? xt_graph_writer(graph, norm->residual) : NULL;
    if (!op || op->kind != &xt_kind_norm || !norm->sums_from[1] || !scales_residual(norm, graph))
        return;
    struct state *before = op->own;
    const struct xt_norm_spec *spec = &before->is->spec;
    if (norm->residual->readers > 1 || spec->relu || spec->activation || before->residual ||
        before->max || before->average)
        return;
    norm->applied = before;
    before->is_applied = true;
    graph->ops[op->index]->own_name[0] = "xtrain, with the add";
    graph->ops[op->index]->with_other[0] = true;
    xt_buffer_use(before->in->value, xt_op_forward_time(&norm->is->op));
    if (!norm->joined)
        xt_buffer_use(before->in->value, xt_op_backward_time(graph, &norm->is->op));
}

/* ---- joined to the convolution before it ---- */

/* Whether pools alone read it, in loops that need not its input to make the gradient before the
 * ReLU. */
static bool has_only_pools(const struct xt_norm_op *norm, const struct xt_graph *graph)
{
    bool pools = xt_op_out(&norm->op, XT_NORM_MAX) || xt_op_out(&norm->op, XT_NORM_AVERAGE);
    return pools && !xt_op_out(&norm->op, XT_NORM_FULL) && norm->spec.relu &&
           !norm->spec.residual && has_strips(norm, graph);
}

bool xt_cpu_norm_is_plain(const struct xt_op *op)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)op;
    const struct xt_tensor *y = xt_op_out(&norm->op, XT_NORM_FULL);
    return y && y->readers == 1 && !norm->spec.relu && !norm->spec.activation &&
           !norm->spec.residual && !xt_op_out(&norm->op, XT_NORM_MAX) &&
           !xt_op_out(&norm->op, XT_NORM_AVERAGE);
}

/* The gradient before the ReLU is in memory, of a convolution that masks it or because there is no
 * ReLU, or is made of pools'. */
bool xt_cpu_norm_can_join(const struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)op;
    struct xt_op_input *inputs[XT_READERS_MAX] = {NULL};
    return op->by_slices[0] && op->by_slices[1] && graph->options.by_slices &&
           xt_op_learns(op, graph) && xt_op_in(op, 0)->dtype == XT_BF16 &&
           (xt_cpu_norm_is_plain(op) || has_only_pools(norm, graph) ||
            find_gradient(norm, graph, inputs));
}

/* The convolution that makes the gradient masks it then, and has no sums to form. */
static void join_conv(struct state *norm, struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_op *reader = norm->sums_from[1];
    if (!norm->joined)
        return;
    op->own_name[1] = "xtrain, with conv";
    op->with_other[0] = has_input_made(norm);
    op->with_other[1] = true;
    if (op->with_other[0])
        op->own_name[0] = op->own_name[1];
    if (reader) {
        struct xt_conv_op *masking = (struct xt_conv_op *)graph->ops[reader->index];
        masking->sums_for[1] = NULL;
        masking->masks_grad = true;
    }
}

/* What the gradient behind the norm is, or is made of. */
static void use_until(const struct state *norm, int time)
{
    const struct xt_tensor *outputs[] = {norm->full, norm->max, norm->average};
    for (int i = 0; i < 3; i++)
        for (int r = 0; outputs[i] && r < outputs[i]->readers; r++)
            xt_buffer_use(outputs[i]->grad[r], time);
    if (norm->argmax)
        xt_buffer_use(norm->argmax, time);
    if (norm->above)
        xt_buffer_use(norm->above, time);
}

/* The backward pass recomputes y from the input and the residual; a convolution has it. What one
 * makes in the norm's place is made of the gradient behind the norm: that before it is nowhere. */
static void use_buffers(struct state *norm, struct xt_op *op, struct xt_graph *graph)
{
    enum { INPUT = 1, RESIDUAL = 2 };
    bool residual = !norm->sums_from[1] || (graph->options.recompute && !norm->applied);
    uint64_t saved = norm->joined ? 0 : residual ? INPUT | RESIDUAL : INPUT;
    xt_norm_use((struct xt_norm_op *)op, graph, saved);
    if (xt_op_learns(op, graph) && norm->max)
        norm->argmax = xt_graph_saved(graph, op, "argmax", xt_tensor_count(norm->max));
    if (!norm->joined)
        return;
    if (!norm->full)
        norm->above = xt_graph_saved(graph, op, "above 0", xt_tensor_count(norm->in) / 8);
    op->inputs[0].tensor->grad[op->inputs[0].reader] = NULL;
    use_until(norm, xt_op_backward_time(graph, xt_graph_writer(graph, norm->in)));
}

void xt_cpu_norm_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct state *norm = create_state(op, graph);
    if (!norm)
        return;
    take_sums(norm, op, graph);
    join_conv(norm, op, graph);
    take_residual(norm, graph);
    norm->far[0] = is_far(norm, graph, false);
    norm->far[1] = xt_op_learns(op, graph) && is_far(norm, graph, true);
    xt_graph_want_scratch(graph, xt_cpu_norm_scratch(op));
    if (xt_op_learns(op, graph)) {
        norm->forward_sums = add_sums(norm, graph, false);
        norm->backward_sums = add_sums(norm, graph, true);
    }
    use_buffers(norm, op, graph);
}

/* NULL: there is none. */
static float *param(const struct xt_graph *graph, int index)
{
    struct xt_params *params = graph->options.params;
    return index < 0 ? NULL : xt_params_value(params, &params->items[index]);
}

static double *sum_of(const struct state *norm, const struct xt_buffer *sums, int n, int which)
{
    size_t c = (size_t)norm->in->c;
    return (double *)sums->data + ((size_t)n * 2 + (size_t)which) * c;
}

/* Adds the samples' sums in their order, so that the number of threads changes nothing; those from
 * a convolution likewise. */
static void total(struct state *norm, const struct xt_graph *graph, bool backward)
{
    const struct xt_buffer *sums = backward ? norm->backward_sums : norm->forward_sums;
    int parts = parts_of(norm, graph, backward);
    size_t count = 2 * (size_t)norm->in->c;
    if (backward && norm->joined) {
        xt_cpu_conv_norm_total(norm->joined, graph, norm->mean, norm->totals);
        return;
    }
    if (!backward && has_input_made(norm)) {
        xt_cpu_conv_norm_statistics(norm->joined, graph, param(graph, norm->is->param.mean),
                                    norm->totals);
        return;
    }
    for (size_t i = 0; i < count; i++)
        norm->totals[i] = 0;
    for (int part = 0; part < parts; part++)
        for (size_t i = 0; i < count; i++)
            norm->totals[i] += sum_of(norm, sums, part, 0)[i];
}

/* Elements per channel in the statistics. */
static double elements(const struct state *norm, int samples)
{
    return (double)samples * norm->in->h * norm->in->w;
}

static float element(const struct xt_tensor *tensor, const void *data, size_t i)
{
    return tensor->dtype == XT_F32 ? ((const float *)data)[i]
                                   : xt_bf16_to_float(((const uint16_t *)data)[i]);
}

/* Sums relative to a pivot become relative to the running mean, which is common to all parts. */
static void shift_sums(const struct state *norm, const struct xt_graph *graph, int part,
                       const float *pivot, size_t pixels)
{
    const float *running_mean = param(graph, norm->is->param.mean);
    double *sum = sum_of(norm, norm->forward_sums, part, 0);
    double *square = sum_of(norm, norm->forward_sums, part, 1);
    for (size_t k = 0; k < (size_t)norm->in->c; k++) {
        double by = (double)pivot[k] - (double)running_mean[k];
        square[k] += by * (2 * sum[k] + by * (double)pixels);
        sum[k] += by * (double)pixels;
    }
}

/* A sample's sums for mean and variance. They are relative to its first pixel, so that a large mean
 * costs no precision. */
static void add_statistics(const struct state *norm, struct xt_graph *graph, int n)
{
    const struct xt_tensor *in = norm->in;
    size_t c = (size_t)in->c;
    size_t pixels = (size_t)in->h * (size_t)in->w;
    const void *z = xt_tensor_sample(in, in->value, n);
    double *sum = sum_of(norm, norm->forward_sums, n, 0);
    double *square = sum_of(norm, norm->forward_sums, n, 1);
    float *scratch = xt_graph_loop_scratch(graph);
    float *pivot = scratch + 2 * c;
    for (size_t k = 0; k < c; k++)
        pivot[k] = element(in, z, k);
    graph->loops->statistics(in->dtype, z, pixels, in->c, pivot, sum, square, scratch);
    shift_sums(norm, graph, n, pivot, pixels);
}

/* Mean and variance of the batch, from the samples' sums. */
static enum xt_status batch_statistics(struct state *norm, struct xt_graph *graph,
                                       struct xt_err *err)
{
    size_t c = (size_t)norm->in->c;
    double m = elements(norm, xt_graph_samples(graph, norm->in->n));
    float *running_mean = param(graph, norm->is->param.mean);
    float *running_var = param(graph, norm->is->param.var);
    const double eps = norm->is->spec.eps;
    const double momentum = norm->is->spec.momentum;
    total(norm, graph, false);
    enum xt_status status = xt_graph_add_up(graph, norm->totals, 2 * c, err);
    for (size_t k = 0; k < c && !status; k++) {
        double mean = norm->totals[k] / m;
        double var = norm->totals[c + k] / m - mean * mean;
        var = var > 0 ? var : 0;
        mean += (double)running_mean[k];
        norm->mean[k] = (float)mean;
        norm->invstd[k] = (float)(1 / sqrt(var + eps));
        double unbiased = m > 1 ? var * m / (m - 1) : var;
        running_mean[k] = (float)((1 - momentum) * (double)running_mean[k] + momentum * mean);
        running_var[k] = (float)((1 - momentum) * (double)running_var[k] + momentum * unbiased);
    }
    return status;
}

static void running_statistics(struct state *norm, const struct xt_graph *graph)
{
    const float *running_mean = param(graph, norm->is->param.mean);
    const float *running_var = param(graph, norm->is->param.var);
    for (size_t k = 0; k < (size_t)norm->in->c; k++) {
        norm->mean[k] = running_mean[k];
        norm->invstd[k] = (float)(1 / sqrt((double)running_var[k] + norm->is->spec.eps));
    }
}

struct xt_norm_sums xt_cpu_norm_gradient(const struct xt_op *op, int sample)
{
    const struct xt_tensor *z = xt_op_in(op, 0);
    const struct xt_tensor *y = xt_op_out(op, XT_NORM_FULL);
    return (struct xt_norm_sums){.z = xt_tensor_sample(z, z->value, sample),
                                 .y = xt_tensor_sample(y, y->value, sample)};
}

void xt_cpu_norm_begin_part(const struct xt_op *op, const struct xt_graph *graph, bool backward,
                            int part, struct xt_norm_sums *of)
{
    const struct state *norm = op->own;
    size_t c = (size_t)norm->in->c;
    const struct xt_buffer *sums = backward ? norm->backward_sums : norm->forward_sums;
    for (int i = 0; i < 2; i++)
        of->sums[i] = sum_of(norm, sums, part, i);
    memset(of->sums[0], 0, 2 * c * sizeof(double));
    of->pivot = backward ? norm->mean : xt_graph_loop_scratch(graph);
}

void xt_cpu_norm_end_part(const struct xt_op *op, const struct xt_graph *graph, int part,
                          int pixels, const struct xt_norm_sums *of)
{
    if (pixels > 0)
        shift_sums(op->own, graph, part, of->pivot, (size_t)pixels);
}

static bool uses_batch(const struct state *norm, const struct xt_graph *graph)
{
    return graph->pass.training && !graph->pass.bn_frozen && !norm->is->op.frozen;
}

bool xt_cpu_norm_wants_sums(const struct xt_op *op, const struct xt_graph *graph)
{
    return uses_batch(op->own, graph);
}

/* Per-channel scale and shift of z. */
static enum xt_status scale_and_shift(struct state *norm, struct xt_graph *graph,
                                      struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (uses_batch(norm, graph))
        status = batch_statistics(norm, graph, err);
    else
        running_statistics(norm, graph);
    const float *gamma = param(graph, norm->is->param.scale);
    const float *beta = param(graph, norm->is->param.shift);
    for (size_t k = 0; k < (size_t)norm->in->c; k++) {
        norm->scale[k] = (gamma ? gamma[k] : 1) * norm->invstd[k];
        norm->shift[k] = (beta ? beta[k] : 0) - norm->mean[k] * norm->scale[k];
        norm->shift[k] += norm->applied ? norm->applied->shift[k] : 0;
    }
    return status;
}

/* A sample's part of what is saved for the backward pass; NULL: there is none. */
static void *part_of(const struct state *norm, const struct xt_buffer *saved, int n)
{
    return saved ? (char *)saved->data + saved->bytes / (size_t)norm->in->n * (size_t)n : NULL;
}

/* Where one sample is read and written in the forward pass. */
static struct xt_norm_sample forward_sample(const struct state *norm, const struct xt_graph *graph,
                                            int n)
{
    struct xt_norm_sample sample = describe_sample(norm);
    sample.z = xt_tensor_sample(norm->in, norm->in->value, n);
    if (norm->applied) {
        sample.residual = xt_tensor_sample(norm->applied->in, norm->applied->in->value, n);
        sample.residual_scale = norm->applied->scale;
    } else if (norm->residual) {
        sample.residual = xt_tensor_sample(norm->residual, norm->residual->value, n);
    }
    if (norm->full)
        sample.y = xt_tensor_sample(norm->full, norm->full->value, n);
    if (norm->max)
        sample.pooled = xt_tensor_sample(norm->max, norm->max->value, n);
    const struct xt_tensor *held = norm->max ? norm->max : norm->full;
    if (held)
        sample.held = xt_tensor_sample(held, held->held, n);
    sample.scratch = xt_graph_loop_scratch(graph);
    sample.far = norm->far[0] || sample.held;
    return sample;
}

/* With pools a convolution makes the input at once, else some rows at a time. */
static void run_forward(const struct state *norm, const struct xt_graph *graph, int n,
                        const struct xt_norm_sample *sample)
{
    const struct xt_tensor *in = norm->in;
    size_t row = (size_t)in->w * (size_t)in->c * xt_dtype_size(in->dtype);
    int rows = has_input_made(norm) ? norm->joined->rows : 0;
    bool in_one = rows && !norm->max && !norm->average && !norm->residual;
    if (in_one)
        xt_cpu_conv_norm_write(norm->joined, graph, n, sample);
    else if (!rows)
        graph->loops->norm_forward(sample);
    for (int y = 0; y < in->h && rows && !in_one; y += rows) {
        struct xt_norm_sample some = *sample;
        some.h = in->h - y < rows ? in->h - y : rows;
        some.z = xt_cpu_conv_norm_output(norm->joined, graph, n, y, some.h);
        some.y = some.y ? (char *)some.y + (size_t)y * row : NULL;
        some.residual = some.residual ? (const char *)some.residual + (size_t)y * row : NULL;
        some.held = some.held ? (char *)some.held + (size_t)y * row : NULL;
        graph->loops->norm_forward(&some);
    }
}

static void forward_of(const struct state *norm, const struct xt_graph *graph, int n)
{
    struct xt_norm_sample sample = forward_sample(norm, graph, n);
    if (graph->pass.training) {
        sample.argmax = part_of(norm, norm->argmax, n);
        sample.above = part_of(norm, norm->above, n);
    }
    if (norm->average)
        sample.averaged = xt_tensor_sample(norm->average, norm->average->value, n);
    run_forward(norm, graph, n, &sample);
}

/* The loops differ for y alone and with pools: recomputing by the same ones gives the same bits.
 * Where the backward pass needs neither the input nor what a convolution makes it of, storing y
 * takes no more. */
bool xt_cpu_norm_can_recompute(const struct xt_op *op)
{
    const struct state *norm = op->own;
    bool pools = norm->max || norm->average;
    return (!norm->joined || xt_cpu_conv_norm_can_recompute(norm->joined)) &&
           (!norm->full || !pools);
}

/* Scale and shift are those of the forward pass. */
void xt_cpu_norm_recompute(struct xt_op *op, struct xt_graph *graph)
{
    const struct state *norm = op->own;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < norm->in->n; n++) {
        const struct xt_norm_sample sample = forward_sample(norm, graph, n);
        run_forward(norm, graph, n, &sample);
    }
}

/* Whether the gradient before ReLU is stored. It is recomputed if cheap: not if it is also the
 * residual's, nor, except by slices, from a max pool or two readers. Other activations' always is.
 */
static bool keeps(const struct state *norm, const struct xt_graph *graph)
{
    if (norm->is->spec.activation)
        return false;
    return norm->sums_from[1] || norm->residual ||
           (!graph->slices.workers && (norm->max || (norm->full && norm->full->readers > 1)));
}

/* Where one sample's gradients are read in the backward pass. */
static struct xt_norm_sample backward_sample(const struct state *norm, const struct xt_graph *graph,
                                             int n, enum xt_norm_pass pass)
{
    struct xt_norm_sample sample = describe_sample(norm);
    sample.pass = pass;
    for (int r = 0; r < XT_READERS_MAX; r++) {
        if (norm->full)
            sample.dy[r] = xt_tensor_sample(norm->full, norm->full->grad[r], n);
        if (norm->max)
            sample.dpooled[r] = xt_tensor_sample(norm->max, norm->max->grad[r], n);
    }
    if (norm->average)
        sample.daveraged = xt_tensor_sample(norm->average, norm->average->grad[0], n);
    sample.argmax = part_of(norm, norm->argmax, n);
    sample.above = part_of(norm, norm->above, n);
    sample.scratch = xt_graph_loop_scratch(graph);
    return sample;
}

static void run_backward(const struct state *norm, const struct xt_graph *graph, int n,
                         enum xt_norm_pass pass)
{
    const struct xt_tensor *in = norm->in;
    size_t c = (size_t)in->c;
    struct xt_norm_sample sample = backward_sample(norm, graph, n, pass);
    sample.a = norm->factors;
    sample.b = norm->factors + c;
    sample.d = norm->factors + 2 * c;
    sample.z = xt_tensor_sample(in, in->value, n);
    if (norm->residual)
        sample.residual = xt_tensor_sample(norm->residual, norm->residual->value, n);
    sample.da = xt_tensor_sample(in, xt_norm_sums(norm->is), n);
    sample.sum_da = sum_of(norm, norm->backward_sums, n, 0);
    sample.sum_da_z = sum_of(norm, norm->backward_sums, n, 1);
    graph->loops->norm_backward(&sample);
}

const float *xt_cpu_norm_factors(const struct xt_op *op)
{
    return ((const struct state *)op->own)->factors;
}

const void *xt_cpu_norm_gradient_behind(const struct xt_op *op, const struct xt_graph *graph, int n,
                                        void *room, int pixel)
{
    const struct state *norm = op->own;
    if (norm->full)
        return xt_tensor_sample(norm->full, norm->full->grad[0], n);
    struct xt_norm_sample sample = backward_sample(norm, graph, n, XT_NORM_KEEP);
    sample.da = room;
    sample.da_pixel = pixel;
    graph->loops->norm_backward(&sample);
    return room;
}

/* With several ranks the parameters' gradients are all-reduced with all others. */
static void write_gradients(const struct state *norm, const struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    size_t c = (size_t)norm->in->c;
    if (norm->is->param.scale < 0)
        return;
    float *dgamma = xt_params_grad(params, &params->items[norm->is->param.scale]);
    float *dbeta = xt_params_grad(params, &params->items[norm->is->param.shift]);
    for (size_t k = 0; k < c; k++) {
        dbeta[k] = (float)norm->totals[k];
        dgamma[k] = (float)(norm->totals[c + k] * (double)norm->invstd[k]);
    }
}

/* The parameters' gradients, and dz = a * da + b * z + d. */
static enum xt_status combine(struct state *norm, struct xt_graph *graph, struct xt_err *err)
{
    size_t c = (size_t)norm->in->c;
    double m = elements(norm, xt_graph_samples(graph, norm->in->n));
    total(norm, graph, true);
    write_gradients(norm, graph);
    if (!graph->pass.bn_frozen && xt_graph_add_up(graph, norm->totals, 2 * c, err))
        return err->status;
    for (size_t k = 0; k < c; k++) {
        double sum = norm->totals[k];
        double sum_z = norm->totals[c + k];
        double invstd = (double)norm->invstd[k];
        double scale = (double)norm->scale[k];
        double b = graph->pass.bn_frozen ? 0 : -scale * invstd * invstd * sum_z / m;
        double d = graph->pass.bn_frozen ? 0 : -scale * sum / m - b * (double)norm->mean[k];
        norm->factors[k] = (float)scale;
        norm->factors[c + k] = (float)b;
        norm->factors[2 * c + k] = (float)d;
    }
    return XT_OK;
}

static void sum_gradient(const struct state *norm, const struct xt_graph *graph, int n)
{
    run_backward(norm, graph, n, keeps(norm, graph) ? XT_NORM_SUM_AND_KEEP : XT_NORM_SUM);
}

static void apply_gradient(const struct state *norm, const struct xt_graph *graph, int n)
{
    const struct xt_tensor *in = norm->in;
    if (!keeps(norm, graph)) {
        run_backward(norm, graph, n, XT_NORM_APPLY);
        return;
    }
    const struct xt_buffer *from =
        norm->sums_from[1] ? norm->full->grad[0] : xt_norm_sums(norm->is);
    const struct xt_buffer *to = xt_op_in_grad(&norm->is->op, 0);
    graph->loops->norm_backward_apply(in->dtype, xt_tensor_sample(in, from, n),
                                      xt_tensor_sample(in, in->value, n),
                                      (size_t)in->h * (size_t)in->w, in->c, norm->factors,
                                      xt_tensor_sample(in, to, n), from != to && norm->far[1]);
}

/* One of the two passes over a sample. */
static void run_sample(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n)
{
    const struct state *norm = op->own;
    if (!second && norm->sums_from[backward])
        return;
    if (backward && norm->joined)
        return;
    /* What somebody watches is written. */
    if (!backward && second && norm->is_applied && !graph->watch.ran)
        return;
    if (backward && second)
        apply_gradient(norm, graph, n);
    else if (backward)
        sum_gradient(norm, graph, n);
    else if (second)
        forward_of(norm, graph, n);
    else if (has_input_made(norm))
        return;
    else if (uses_batch(norm, graph))
        add_statistics(norm, graph, n);
}

static void run_samples(struct xt_op *op, struct xt_graph *graph, bool backward, bool second)
{
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_in(op, 0)->n; n++)
        run_sample(op, graph, backward, second, n);
}

enum xt_status xt_cpu_norm_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    if (uses_batch(op->own, graph))
        run_samples(op, graph, false, false);
    if (scale_and_shift(op->own, graph, err))
        return err->status;
    run_samples(op, graph, false, true);
    return XT_OK;
}

enum xt_status xt_cpu_norm_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    run_samples(op, graph, true, false);
    if (combine(op->own, graph, err))
        return err->status;
    run_samples(op, graph, true, true);
    return XT_OK;
}

/* ---- by slices ---- */

static enum xt_status begin_slices(struct xt_op *op, struct xt_graph *graph, bool backward,
                                   bool second, struct xt_err *err)
{
    if (!second)
        return XT_OK;
    return backward ? combine(op->own, graph, err) : scale_and_shift(op->own, graph, err);
}

/* Sums begin with the sample that was written last, of which most is still in the cache. */
static void run_slice(struct xt_op *op, struct xt_graph *graph, bool backward, bool second,
                      const struct xt_slice *slice)
{
    for (int i = 0; i < slice->count; i++)
        run_sample(op, graph, backward, second, slice->first + (second ? i : slice->count - 1 - i));
}

static enum xt_status forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                    const struct xt_slice *slice, struct xt_err *err)
{
    (void)err;
    run_slice(op, graph, false, second, slice);
    return XT_OK;
}

static enum xt_status backward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                     const struct xt_slice *slice, struct xt_err *err)
{
    const struct state *norm = op->own;
    (void)err;
    for (int i = 0; i < slice->count && norm->joined && !second; i++)
        xt_cpu_conv_norm_add_gradient(norm->joined, graph, slice->first + i);
    run_slice(op, graph, true, second, slice);
    return XT_OK;
}

/* What norm_wide.c writes. */
static bool holds(const struct xt_op *op, struct xt_graph *graph, const struct xt_tensor *out)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)op;
    const struct xt_tensor *max = xt_op_out(op, XT_NORM_MAX);
    bool alone = !max && !xt_op_out(op, XT_NORM_AVERAGE);
    return xt_cpu_is_large(out) && has_strips(norm, graph) &&
           (alone ? out->dtype == XT_BF16 : out == max);
}

const struct xt_by_slices xt_cpu_norm_by_slices = {
    .begin = begin_slices, .forward = forward_slice, .backward = backward_slice, .holds = holds};
