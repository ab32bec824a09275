/* Convolutions in float32 by Winograd's loops: outputs in inference; in training a 3x3's output,
 * its input's gradient and its weights' gradient. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

/* Enough tiles, of which few outputs lie over the end and are wasted. In training the weights are
 * transformed for each chunk of tiles: with few of them that takes long beside the products.
 * In inference the tiles of one image decide: a batch changes no bits. */
static bool fills(const struct xt_tensor *out, enum xt_winograd_form form, bool training)
{
    enum { TILES = 32, TILES_OF_ONE = 48 };
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    const double least = training ? 0.5 : 0.85;
    int tiles = xt_winograd_tiles(form, out->n, out->h, out->w);
    return tiles >= (training ? TILES : TILES_OF_ONE * out->n) &&
           (double)out->n * out->h * out->w >= least * sides->tile_h * sides->tile_w * tiles;
}

/* FORMS: none. */
static enum xt_winograd_form form_of(const struct xt_conv_op *conv, bool training)
{
    static const enum xt_winograd_form forms[] = {
        XT_WINOGRAD_LARGE, XT_WINOGRAD_SMALL, XT_WINOGRAD_3X1, XT_WINOGRAD_1X3, XT_WINOGRAD_1X4};
    for (size_t i = 0; i < (training ? 1 : sizeof forms / sizeof forms[0]); i++) {
        const struct xt_winograd_sides *sides = &xt_winograd_forms[forms[i]];
        if (conv->kernel[0] == sides->taps_h && conv->kernel[1] == sides->taps_w &&
            fills(xt_op_out(&conv->op, 0), forms[i], training))
            return forms[i];
    }
    return XT_WINOGRAD_FORMS;
}

static bool has_channels(const struct xt_conv_op *conv)
{
    bool is_line = conv->kernel[0] == 1 || conv->kernel[1] == 1;
    int least = is_line ? 32 : 64;
    int in_c = xt_op_in(&conv->op, 0)->c;
    int out_c = xt_op_out(&conv->op, 0)->c;
    return in_c >= least && out_c >= least && in_c % XT_WINOGRAD_WIDE == 0 &&
           out_c % XT_WINOGRAD_WIDE == 0;
}

/* In training a convolution alone. */
static bool is_supported(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    if (!graph->options.training)
        return !conv->fold.activation;
    return conv->bias < 0 && !conv->relu && xt_op_learns(&conv->op, graph) && conv->pads[0] == 1 &&
           conv->pads[1] == 1 && xt_cpu_weights_are(conv, graph, dnnl_OIhw16i16o);
}

bool xt_cpu_winograd_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return conv->strides[0] == 1 && conv->strides[1] == 1 && xt_conv_is_even(conv) &&
           in->dtype == XT_F32 && out->dtype == XT_F32 && conv->groups == 1 &&
           graph->loops->winograd && has_channels(conv) &&
           form_of(conv, graph->options.training) < XT_WINOGRAD_FORMS && is_supported(conv, graph);
}

static size_t weight_count(const struct xt_op *op)
{
    return 9 * (size_t)xt_op_in(op, 0)->c * (size_t)xt_op_out(op, 0)->c;
}

static void prepare_training(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_op *op = &conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    int threads = graph->options.device->threads;
    winograd->input_grad = (struct xt_winograd){.form = XT_WINOGRAD_LARGE,
                                                .n = in->n,
                                                .h = in->h,
                                                .w = in->w,
                                                .in_c = out->c,
                                                .out_c = in->c,
                                                .pads = {1, 1},
                                                .turned = true};
    winograd->weight_grad = (struct xt_winograd_grad){
        .n = in->n, .h = in->h, .w = in->w, .in_c = in->c, .out_c = out->c};
    xt_winograd_plan(&winograd->input_grad, threads);
    xt_winograd_grad_plan(&winograd->weight_grad, threads);
    winograd->master = xt_graph_value_of(graph, conv->weight);
    if (winograd->weight_grad.groups > 1)
        winograd->group_grads = xt_graph_temporary(
            graph, out, (size_t)winograd->weight_grad.groups * weight_count(op) * sizeof(float),
            xt_op_backward_time(graph, op));
    conv->own[1] = conv->own_weight_grad = true;
    conv->weight_grad_format = dnnl_OIhw16i16o;
}

void xt_cpu_winograd_prepare(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    bool training = graph->options.training;
    enum xt_winograd_form form = form_of(conv, training);
    winograd->output = (struct xt_winograd){.form = form,
                                            .n = in->n,
                                            .h = in->h,
                                            .w = in->w,
                                            .in_c = in->c,
                                            .out_c = out->c,
                                            .pads = {(int)conv->pads[0], (int)conv->pads[1]},
                                            .stored = !training,
                                            .adds = conv->fold.residual != NULL,
                                            .relu = conv->relu};
    xt_winograd_plan(&winograd->output, graph->options.device->threads);
    xt_graph_want_scratch(graph, xt_winograd_scratch(form, in->c > out->c ? in->c : out->c));
    conv->own[0] = true;
    conv->own_weights = !training;
    size_t stored =
        (size_t)xt_winograd_places(form) * (size_t)in->c * (size_t)out->c * sizeof(float);
    if (training)
        prepare_training(winograd, conv, graph);
    else
        winograd->stored = xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS, stored);
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

enum xt_status xt_cpu_winograd_fold(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                    const struct xt_graph *graph, struct xt_err *err)
{
    float *sorted = NULL;
    struct xt_winograd_weights weights = {.form = winograd->output.form,
                                          .out = xt_op_out(op, 0)->c,
                                          .in = xt_op_in(op, 0)->c,
                                          .to = winograd->stored->data};
    const struct xt_winograd_sides *sides = &xt_winograd_forms[weights.form];
    size_t taps = (size_t)sides->taps_h * (size_t)sides->taps_w;
    int blocks = xt_winograd_blocks(weights.in, weights.out);
    size_t bytes = taps * (size_t)weights.in * (size_t)weights.out * sizeof *sorted;
    if (xt_mem_aligned(&sorted, bytes, 1, "folded weights", err))
        return err->status;
    weights.from = sorted;
#pragma omp parallel for schedule(static)
    for (int block = 0; block < blocks; block++) {
        sort_block(graph->staging.host, (size_t)weights.in, taps, block, sorted);
        graph->loops->winograd_weights(&weights, block);
    }
    free(sorted);
    return XT_OK;
}

static void convolve(const struct xt_winograd *job, const struct xt_graph *graph)
{
#pragma omp parallel for schedule(static)
    for (int part = 0; part < job->groups * job->shares; part++)
        graph->loops->winograd(job, part, xt_graph_loop_scratch(graph));
}

/* NULL: an error. */
static const float *weights_of(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                               struct xt_err *err)
{
    return winograd->stored ? winograd->stored->data
                            : xt_program_address(&op->program, &winograd->master, err);
}

enum xt_status xt_cpu_winograd_forward(const struct xt_cpu_winograd *winograd,
                                       const struct xt_op *op, const struct xt_graph *graph,
                                       struct xt_err *err)
{
    struct xt_winograd job = winograd->output;
    job.bias = ((const struct xt_conv_op *)op)->host_bias.host;
    job.in = xt_op_in(op, 0)->value->data;
    job.weights = weights_of(winograd, op, err);
    job.out = xt_op_out(op, 0)->value->data;
    if (!job.weights)
        return err->status;
    convolve(&job, graph);
    return XT_OK;
}

static void learn(const struct xt_winograd_grad *job, const struct xt_graph *graph, size_t count,
                  float *grad)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int part = 0; part < job->groups * job->shares; part++)
            graph->loops->winograd_grad(job, part, xt_graph_loop_scratch(graph));
        if (job->groups > 1) {
#pragma omp for schedule(static)
            for (size_t i = 0; i < count; i++) {
                float sum = job->grads[i];
                for (size_t g = 1; g < (size_t)job->groups; g++)
                    sum += job->grads[g * count + i];
                grad[i] = sum;
            }
        }
    }
}

enum xt_status xt_cpu_winograd_backward(const struct xt_cpu_winograd *winograd,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    struct xt_winograd_grad grad = winograd->weight_grad;
    float *to = xt_program_address(&op->program, &conv->weight_grad, err);
    if (!to)
        return err->status;
    grad.in = xt_op_in(op, 0)->value->data;
    grad.out_grad = xt_op_out(op, 0)->grad[0]->data;
    grad.grads = winograd->group_grads ? winograd->group_grads->data : to;
    learn(&grad, graph, weight_count(op), to);
    if (!xt_op_in(op, 0)->wants_grad)
        return XT_OK;
    struct xt_winograd job = winograd->input_grad;
    job.in = grad.out_grad;
    job.weights = weights_of(winograd, op, err);
    job.out = xt_op_in_grad(op, 0)->data;
    if (!job.weights)
        return err->status;
    convolve(&job, graph);
    return XT_OK;
}

enum xt_status xt_cpu_winograd_forward_slice(const struct xt_cpu_winograd *winograd,
                                             const struct xt_op *op, const struct xt_graph *graph,
                                             const struct xt_slice *slice, struct xt_err *err)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_winograd job = winograd->output;
    job.n = slice->count;
    job.groups = job.shares = 1;
    job.bias = ((const struct xt_conv_op *)op)->host_bias.host;
    job.in = xt_tensor_sample(in, in->value, slice->first);
    job.weights = weights_of(winograd, op, err);
    job.out = xt_tensor_sample(out, out->value, slice->first);
    if (!job.weights)
        return err->status;
    graph->loops->winograd(&job, 0, xt_graph_loop_scratch(graph));
    return XT_OK;
}
