/* Convolutions by Winograd's loops: outputs in inference; in training a 3x3's output, its input's
 * gradient and its weights' gradient; on CPUs with matrix tiles of lines (3x1, 1x3, 1x4) only the
 * weights' gradient. In bf16 3x3 alone, and without matrix tiles: the products of F(4x4, 3x3) are
 * float32, of which a core computes half as many as of bf16, but needs a quarter. In int8 3x3 of
 * inference, where no instruction multiplies and adds four bytes: products of 16 bits, of which as
 * many instructions compute half as many, but a quarter is needed.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

/* Along both sides, in training, the weights are transformed for each chunk of tiles, in int8 too;
 * else they are transformed once and stored. */
static bool stores(enum xt_dtype dtype, enum xt_winograd_form form, bool training)
{
    return dtype != XT_U8 && (!training || form != XT_WINOGRAD_LARGE);
}

/* Enough tiles, of which few outputs lie over the end and are wasted. With few of them transforming
 * the weights takes long beside the products; stored in bf16, or where AVX2 multiplies, they are
 * read fast enough for 14x14 and 7x7. In inference the tiles of one image decide: a batch changes
 * no bits. Those of int8 are the same in any case. */
static bool fills(const struct xt_conv_op *conv, enum xt_winograd_form form,
                  const struct xt_graph *graph)
{
    enum { TILES = 32, TILES_OF_ONE = 48, FEW_OF_ONE = 16 };
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    enum xt_dtype in = xt_op_in(&conv->op, 0)->dtype;
    bool training = graph->options.training;
    bool reads_fast = xt_winograd_is_paired(form, out->dtype) ||
                      (sides->taps_h == sides->taps_w && graph->loops->lanes < XT_TILE_CHANNELS);
    const double least = !stores(in, form, training) ? 0.5 : reads_fast ? 0.75 : 0.85;
    int tiles = xt_winograd_tiles(form, out->n, out->h, out->w);
    int few = in == XT_U8 ? FEW_OF_ONE
              : training  ? TILES
                          : out->n * (reads_fast ? FEW_OF_ONE : TILES_OF_ONE);
    return tiles >= few &&
           (double)out->n * out->h * out->w >= least * sides->tile_h * sides->tile_w * tiles;
}

/* FORMS: none. */
static enum xt_winograd_form form_of(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { PAIRED = 2 * XT_WINOGRAD_WIDE };
    static const enum xt_winograd_form forms[] = {
        XT_WINOGRAD_LARGE, XT_WINOGRAD_SMALL, XT_WINOGRAD_3X1, XT_WINOGRAD_1X3, XT_WINOGRAD_1X4};
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    bool pairs = graph->loops->multiplies_bf16 && in->c % PAIRED == 0;
    int count = in->dtype == XT_F32 ? sizeof forms / sizeof forms[0] : pairs ? 2 : 1;
    for (int i = 0; i < count; i++) {
        const struct xt_winograd_sides *sides = &xt_winograd_forms[forms[i]];
        if (!(graph->options.training && forms[i] == XT_WINOGRAD_SMALL) &&
            conv->kernel[0] == sides->taps_h && conv->kernel[1] == sides->taps_w &&
            fills(conv, forms[i], graph))
            return forms[i];
    }
    return XT_WINOGRAD_FORMS;
}

static bool is_line(const struct xt_conv_op *conv)
{
    return conv->kernel[0] == 1 || conv->kernel[1] == 1;
}

static bool has_channels(const struct xt_conv_op *conv)
{
    int least = is_line(conv) ? 32 : 64;
    int in_c = xt_op_in(&conv->op, 0)->c;
    int out_c = xt_op_out(&conv->op, 0)->c;
    return in_c >= least && out_c >= least && in_c % XT_WINOGRAD_WIDE == 0 &&
           out_c % XT_WINOGRAD_WIDE == 0;
}

static bool has_type(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    enum xt_dtype dtype = in->dtype;
    if (dtype == XT_U8)
        return graph->loops->winograd_int8 && !xt_device_cpu_has_vnni() &&
               in->c % (2 * XT_WINOGRAD_WIDE) == 0 && in->c <= XT_WINOGRAD_INT8_IN &&
               xt_cpu_writes_int8(conv);
    return dtype == xt_op_out(&conv->op, 0)->dtype &&
           (dtype == XT_F32 || (dtype == XT_BF16 && !xt_device_cpu_has_tiles()));
}

static bool is_supported(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    if (!graph->options.training)
        return !conv->fold.activation;
    return xt_op_learns(&conv->op, graph) && conv->pads[0] < conv->kernel[0] &&
           conv->pads[1] < conv->kernel[1] && xt_cpu_weights_are(conv, graph, dnnl_OIhw16i16o);
}

/* Tiles take no more time for a line's products, nor where the transforms' cost is small beside
 * that of products. */
static bool tiles_are_faster(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { FEW = 192 };
    return xt_cpu_tile_conv_can_infer(conv, graph) &&
           (is_line(conv) || xt_op_in(&conv->op, 0)->c > FEW);
}

bool xt_cpu_winograd_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    return !tiles_are_faster(conv, graph) && conv->strides[0] == 1 && conv->strides[1] == 1 &&
           xt_conv_is_even(conv) && has_type(conv, graph) && conv->groups == 1 &&
           graph->loops->winograd && has_channels(conv) &&
           form_of(conv, graph) < XT_WINOGRAD_FORMS && is_supported(conv, graph);
}

/* Of lines in training, whose weights' gradient takes less time by these loops than by others. */
bool xt_cpu_winograd_leaves_to_tiles(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return is_line(conv) && xt_cpu_tile_conv_can(conv, graph) &&
           xt_cpu_tile_conv_can_input_grad(conv);
}

static size_t weight_count(const struct xt_winograd_grad *job)
{
    return (size_t)xt_winograd_taps(job->form) * (size_t)job->in_c * (size_t)job->out_c;
}

static struct xt_buffer *store(const struct xt_conv_op *conv, struct xt_graph *graph,
                               enum xt_winograd_form form)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    size_t weights = (size_t)in->c * (size_t)xt_op_out(&conv->op, 0)->c;
    size_t number = xt_winograd_is_paired(form, in->dtype) ? sizeof(uint16_t) : sizeof(float);
    return xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS,
                              (size_t)xt_winograd_places(form) * weights * number);
}

static void plan_weight_grad(struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_op *op = &conv->op;
    struct xt_winograd_grad *job = &winograd->weight_grad;
    *job = (struct xt_winograd_grad){.form = winograd->output.form,
                                     .dtype = winograd->output.dtype,
                                     .n = winograd->output.n,
                                     .h = winograd->output.h,
                                     .w = winograd->output.w,
                                     .in_c = winograd->output.in_c,
                                     .out_c = winograd->output.out_c,
                                     .pads = {winograd->output.pads[0], winograd->output.pads[1]}};
    xt_winograd_grad_plan(job, op->by_slices[1] ? 1 : graph->options.device->threads);
    if (op->by_slices[1])
        job->groups = graph->slices.workers;
    size_t group = weight_count(job) + (conv->bias < 0 ? 0 : (size_t)job->out_c);
    if (job->groups > 1 || conv->bias >= 0 || op->by_slices[1])
        winograd->group_grads =
            xt_graph_temporary(graph, xt_op_out(op, 0), (size_t)job->groups * group * sizeof(float),
                               xt_op_backward_time(graph, op));
    xt_graph_want_scratch(graph, xt_winograd_grad_scratch(job->form, job->in_c));
}

static void prepare_training(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    enum xt_winograd_form form = winograd->output.form;
    plan_weight_grad(winograd, conv, graph);
    conv->own_weight_grad = true;
    conv->weight_grad_format = dnnl_OIhw16i16o;
    if (winograd->weights_alone)
        return;
    winograd->input_grad =
        (struct xt_winograd){.form = form,
                             .dtype = out->dtype,
                             .n = out->n,
                             .h = out->h,
                             .w = out->w,
                             .in_c = out->c,
                             .out_c = in->c,
                             .pads = {(int)(conv->kernel[0] - 1 - conv->pads[0]),
                                      (int)(conv->kernel[1] - 1 - conv->pads[1])},
                             .stored = winograd->output.stored,
                             .turned = true};
    xt_winograd_plan(&winograd->input_grad, graph->options.device->threads);
    xt_graph_want_scratch(graph, xt_winograd_scratch(form, out->c));
    winograd->master = xt_graph_value_of(graph, conv->weight);
    if (winograd->input_grad.stored && in->wants_grad)
        winograd->stored_turned = store(conv, graph, form);
    conv->own[1] = true;
}

static void prepare_int8(struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                         struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_tensor *residual = conv->fold.residual;
    struct xt_winograd *job = &winograd->output;
    size_t channels = (size_t)job->out_c;
    size_t taps = (size_t)xt_winograd_taps(job->form);
    winograd->stored = xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS,
                                          taps * (size_t)job->in_c * channels);
    winograd->scale = xt_graph_permanent(graph, conv->op.name, "scales", channels * sizeof(float));
    winograd->bias = xt_graph_permanent(graph, conv->op.name, "bias", channels * sizeof(float));
    job->out_signed = out->dtype == XT_S8;
    job->residual_signed = residual && residual->dtype == XT_S8;
    job->residual_scale = residual ? residual->scale / out->scale : 0;
}

void xt_cpu_winograd_prepare(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    bool training = graph->options.training;
    enum xt_winograd_form form = form_of(conv, graph);
    winograd->output = (struct xt_winograd){.form = form,
                                            .dtype = in->dtype,
                                            .n = in->n,
                                            .h = in->h,
                                            .w = in->w,
                                            .in_c = in->c,
                                            .out_c = out->c,
                                            .pads = {(int)conv->pads[0], (int)conv->pads[1]},
                                            .stored = stores(in->dtype, form, training),
                                            .adds = conv->fold.residual != NULL,
                                            .relu = conv->relu};
    if (in->dtype == XT_U8)
        prepare_int8(winograd, conv, graph);
    winograd->weights_alone = xt_cpu_winograd_leaves_to_tiles(conv, graph);
    xt_winograd_plan(&winograd->output, graph->options.device->threads);
    if (training)
        prepare_training(winograd, conv, graph);
    else if (graph->options.device->threads > 1)
        xt_winograd_halve_groups(&winograd->output);
    if (winograd->weights_alone)
        return;
    xt_graph_want_scratch(graph, in->dtype == XT_U8 ? xt_winograd_int8_scratch(in->c)
                                                    : xt_winograd_scratch(form, in->c));
    conv->own[0] = true;
    conv->own_weights = !training;
    if (winograd->output.stored)
        winograd->stored = store(conv, graph, form);
}

/* From O, I, H, W to OIhw16i16o. */
static void sort_block(const float *dense, size_t in_c, size_t taps, int block, float *to)
{
    enum { EDGE = 16 };
    size_t row = (size_t)block / (in_c / EDGE) * EDGE;
    size_t column = (size_t)block % (in_c / EDGE) * EDGE;
    to += (size_t)block * taps * EDGE * EDGE;
    for (size_t o = 0; o < EDGE; o++)
        for (size_t i = 0; i < EDGE; i++)
            for (size_t tap = 0; tap < taps; tap++)
                to[(tap * EDGE + i) * EDGE + o] =
                    dense[((row + o) * in_c + column + i) * taps + tap];
}

static void transform(const struct xt_winograd_weights *weights, const struct xt_graph *graph)
{
#pragma omp parallel for schedule(static)
    for (int block = 0; block < xt_winograd_blocks(weights->in, weights->out); block++)
        graph->loops->winograd_weights(weights, block);
}

static struct xt_winograd_weights weights_job(const struct xt_cpu_winograd *winograd,
                                              const float *from)
{
    return (struct xt_winograd_weights){
        .form = winograd->output.form,
        .from = from,
        .out = winograd->output.out_c,
        .in = winograd->output.in_c,
        .paired = xt_winograd_is_paired(winograd->output.form, winograd->output.dtype),
        .to = winograd->stored->data};
}

/* Output channel o's int8 weights and what turns its sums into bytes. */
static void sort_channel(const struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                         const float *dense, size_t o)
{
    enum { WIDE = XT_WINOGRAD_INT8_OUT };
    size_t in_c = (size_t)winograd->output.in_c;
    size_t taps = (size_t)xt_winograd_taps(winograd->output.form);
    struct xt_cpu_int8_factors factors = xt_cpu_int8_factors(conv, (int)o);
    int8_t *to = (int8_t *)winograd->stored->data + o / WIDE * taps * in_c * WIDE + o % WIDE * 2;
    for (size_t i = 0; i < in_c; i++)
        for (size_t tap = 0; tap < taps; tap++)
            to[(i / 2 * taps + tap) * 2 * WIDE + i % 2] = (int8_t)dense[i * taps + tap];
    ((float *)winograd->bias->data)[o] = factors.bias;
    ((float *)winograd->scale->data)[o] = factors.scale;
}

/* Small tiles where the sums of large ones may not be exact. */
static void fold_int8(struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                      const struct xt_graph *graph)
{
    const float *weights = graph->staging.host;
    size_t row = (size_t)xt_winograd_taps(winograd->output.form) * (size_t)winograd->output.in_c;
    bool is_exact = true;
#pragma omp parallel for schedule(static) reduction(&& : is_exact)
    for (int o = 0; o < winograd->output.out_c; o++) {
        const float *dense = weights + (size_t)o * row;
        sort_channel(winograd, conv, dense, (size_t)o);
        is_exact = is_exact && xt_winograd_int8_is_exact(dense, row);
    }
    winograd->output.form = is_exact ? XT_WINOGRAD_LARGE : XT_WINOGRAD_SMALL;
}

enum xt_status xt_cpu_winograd_fold(struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                                    const struct xt_graph *graph, struct xt_err *err)
{
    float *sorted = NULL;
    if (winograd->output.dtype == XT_U8) {
        fold_int8(winograd, conv, graph);
        return XT_OK;
    }
    size_t taps = (size_t)xt_winograd_taps(winograd->output.form);
    size_t in_c = (size_t)winograd->output.in_c;
    int blocks = xt_winograd_blocks(winograd->output.in_c, winograd->output.out_c);
    size_t bytes = taps * in_c * (size_t)winograd->output.out_c * sizeof *sorted;
    if (xt_mem_aligned(&sorted, bytes, 1, "folded weights", err))
        return err->status;
#pragma omp parallel for schedule(static)
    for (int block = 0; block < blocks; block++)
        sort_block(graph->staging.host, in_c, taps, block, sorted);
    struct xt_winograd_weights weights = weights_job(winograd, sorted);
    transform(&weights, graph);
    free(sorted);
    return XT_OK;
}

enum xt_status xt_cpu_winograd_begin(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                     const struct xt_graph *graph, bool backward,
                                     struct xt_err *err)
{
    const struct xt_buffer *to = backward ? winograd->stored_turned : winograd->stored;
    const float *master = NULL;
    if (!graph->options.training || !to)
        return XT_OK;
    master = xt_program_address(&op->program, &winograd->master, err);
    if (!master)
        return err->status;
    struct xt_winograd_weights weights = weights_job(winograd, master);
    weights.turned = backward;
    weights.to = to->data;
    transform(&weights, graph);
    return XT_OK;
}

static void convolve_part(const void *context, const struct xt_graph *graph, int part)
{
    const struct xt_winograd *job = context;
    float *scratch = xt_graph_loop_scratch(graph);
    if (job->dtype == XT_U8)
        graph->loops->winograd_int8(job, part, scratch);
    else
        graph->loops->winograd(job, part, scratch);
}

static void convolve(const struct xt_winograd *job, const struct xt_graph *graph)
{
    xt_cpu_share_out(graph, job->groups * job->shares, convolve_part, job);
}

/* The output of samples from `first` on. */
static enum xt_status output_job(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                 const struct xt_graph *graph, int first, struct xt_winograd *job,
                                 struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    struct xt_params *params = graph->options.params;
    *job = winograd->output;
    job->bias = winograd->bias ? winograd->bias->data : conv->host_bias.host;
    job->scale = winograd->scale ? winograd->scale->data : NULL;
    if (graph->options.training && conv->bias >= 0)
        job->bias = xt_params_value(params, &params->items[conv->bias]);
    job->in = xt_tensor_sample(xt_op_in(op, 0), xt_op_in(op, 0)->value, first);
    job->out = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->value, first);
    job->weights = winograd->stored ? winograd->stored->data
                                    : xt_program_address(&op->program, &winograd->master, err);
    return job->weights ? XT_OK : err->status;
}

/* The input's gradient of samples from `first` on. */
static enum xt_status input_grad_job(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                     int first, struct xt_winograd *job, struct xt_err *err)
{
    *job = winograd->input_grad;
    job->in = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->grad[0], first);
    job->out = xt_tensor_sample(xt_op_in(op, 0), xt_op_in_grad(op, 0), first);
    job->weights = winograd->stored_turned
                       ? winograd->stored_turned->data
                       : xt_program_address(&op->program, &winograd->master, err);
    return job->weights ? XT_OK : err->status;
}

/* The weights' gradient of samples from `first` on; `to` is where the sum of groups goes. */
static struct xt_winograd_grad weight_grad_job(const struct xt_cpu_winograd *winograd,
                                               const struct xt_op *op, int first, float *to)
{
    struct xt_winograd_grad job = winograd->weight_grad;
    job.in = xt_tensor_sample(xt_op_in(op, 0), xt_op_in(op, 0)->value, first);
    job.out_grad = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->grad[0], first);
    job.grads = winograd->group_grads ? winograd->group_grads->data : to;
    if (((const struct xt_conv_op *)op)->bias >= 0)
        job.bias_grads = job.grads + (size_t)job.groups * weight_count(&job);
    return job;
}

enum xt_status xt_cpu_winograd_forward(const struct xt_cpu_winograd *winograd,
                                       const struct xt_op *op, const struct xt_graph *graph,
                                       struct xt_err *err)
{
    struct xt_winograd job;
    if (xt_cpu_winograd_begin(winograd, op, graph, false, err) ||
        output_job(winograd, op, graph, 0, &job, err))
        return err->status;
    convolve(&job, graph);
    return XT_OK;
}

enum xt_status xt_cpu_winograd_forward_slice(const struct xt_cpu_winograd *winograd,
                                             const struct xt_op *op, const struct xt_graph *graph,
                                             const struct xt_slice *slice, struct xt_err *err)
{
    struct xt_winograd job;
    if (output_job(winograd, op, graph, slice->first, &job, err))
        return err->status;
    job.n = slice->count;
    job.groups = job.shares = 1;
    convolve_part(&job, graph, 0);
    return XT_OK;
}

static void add_groups(const float *from, size_t groups, size_t count, float *to)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) {
        float sum = from[i];
        for (size_t g = 1; g < groups; g++)
            sum += from[g * count + i];
        to[i] = sum;
    }
}

enum xt_status xt_cpu_winograd_end(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                   const struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    float *to = xt_program_address(&op->program, &conv->weight_grad, err);
    if (!to)
        return err->status;
    struct xt_winograd_grad job = weight_grad_job(winograd, op, 0, to);
    if (job.grads != to)
        add_groups(job.grads, (size_t)job.groups, weight_count(&job), to);
    if (!job.bias_grads)
        return XT_OK;
    struct xt_location bias = xt_graph_grad_of(graph, conv->bias);
    to = xt_program_address(&op->program, &bias, err);
    if (!to)
        return err->status;
    add_groups(job.bias_grads, (size_t)job.groups, (size_t)job.out_c, to);
    return XT_OK;
}

enum xt_status xt_cpu_winograd_backward(const struct xt_cpu_winograd *winograd,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    struct xt_winograd input_grad;
    float *to =
        xt_program_address(&op->program, &((const struct xt_conv_op *)op)->weight_grad, err);
    if (!to || xt_cpu_winograd_begin(winograd, op, graph, true, err))
        return err->status;
    struct xt_winograd_grad job = weight_grad_job(winograd, op, 0, to);
#pragma omp parallel for schedule(static)
    for (int part = 0; part < job.groups * job.shares; part++)
        graph->loops->winograd_grad(&job, part, xt_graph_loop_scratch(graph));
    if (xt_cpu_winograd_end(winograd, op, graph, err))
        return err->status;
    if (!xt_op_in(op, 0)->wants_grad || winograd->weights_alone)
        return XT_OK;
    if (input_grad_job(winograd, op, 0, &input_grad, err))
        return err->status;
    convolve(&input_grad, graph);
    return XT_OK;
}

enum xt_status xt_cpu_winograd_backward_slice(const struct xt_cpu_winograd *winograd,
                                              const struct xt_op *op, const struct xt_graph *graph,
                                              const struct xt_slice *slice, struct xt_err *err)
{
    struct xt_winograd input_grad;
    struct xt_winograd_grad job = weight_grad_job(winograd, op, slice->first, NULL);
    job.grads += (size_t)slice->worker * weight_count(&job);
    if (job.bias_grads)
        job.bias_grads += (size_t)slice->worker * (size_t)job.out_c;
    job.n = slice->count;
    job.groups = job.shares = 1;
    job.adds = !slice->begins;
    graph->loops->winograd_grad(&job, 0, xt_graph_loop_scratch(graph));
    if (!xt_op_in(op, 0)->wants_grad || winograd->weights_alone)
        return XT_OK;
    if (input_grad_job(winograd, op, slice->first, &input_grad, err))
        return err->status;
    input_grad.n = slice->count;
    input_grad.groups = input_grad.shares = 1;
    convolve_part(&input_grad, graph, 0);
    return XT_OK;
}
