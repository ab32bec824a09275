/* A 3x3 convolution in float32 by Winograd's loops: its output, its input's gradient and its
 * weights' gradient. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

static int tile_of(const struct xt_graph *graph)
{
    return graph->options.training ? XT_WINOGRAD_LARGE : XT_WINOGRAD_SMALL;
}

/* Tiles that reach over the end waste products. In training the weights are transformed
 * for each chunk of tiles: with few of them that takes long beside the products.
 * In inference the tiles of one image decide: a batch changes no bits. */
static bool is_worth_it(const struct xt_tensor *in, const struct xt_tensor *out, bool training)
{
    enum { CHANNELS = 64, TILES = 32, TILES_OF_ONE = 48 };
    const double least = training ? 0.5 : 0.85;
    int tile = training ? XT_WINOGRAD_LARGE : XT_WINOGRAD_SMALL;
    int tiles = xt_winograd_tiles(tile, in->n, in->h, in->w);
    bool are_many = tiles >= (training ? TILES : TILES_OF_ONE * in->n);
    return in->c >= CHANNELS && out->c >= CHANNELS && are_many &&
           (double)in->n * in->h * in->w >= least * tile * tile * tiles;
}

/* In training a convolution alone; in inference one with its norm folded into it. */
static bool is_supported(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    if (!graph->options.training)
        return conv->folded && !conv->fold.activation;
    return conv->bias < 0 && !conv->relu && xt_op_learns(&conv->op, graph) &&
           xt_cpu_weights_are(conv, graph, dnnl_OIhw16i16o);
}

bool xt_cpu_winograd_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    for (int i = 0; i < 2; i++)
        if (conv->kernel[i] != 3 || conv->strides[i] != 1 || conv->pads[i] != 1)
            return false;
    return xt_conv_is_even(conv) && in->dtype == XT_F32 && out->dtype == XT_F32 &&
           conv->groups == 1 && in->c % XT_WINOGRAD_WIDE == 0 && out->c % XT_WINOGRAD_WIDE == 0 &&
           graph->loops->winograd && is_worth_it(in, out, graph->options.training) &&
           is_supported(conv, graph);
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
    winograd->input_grad = (struct xt_winograd){.tile = XT_WINOGRAD_LARGE,
                                                .n = in->n,
                                                .h = in->h,
                                                .w = in->w,
                                                .in_c = out->c,
                                                .out_c = in->c,
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
    int tile = tile_of(graph);
    winograd->output = (struct xt_winograd){.tile = tile,
                                            .n = in->n,
                                            .h = in->h,
                                            .w = in->w,
                                            .in_c = in->c,
                                            .out_c = out->c,
                                            .adds = conv->fold.residual != NULL,
                                            .relu = conv->relu};
    xt_winograd_plan(&winograd->output, graph->options.device->threads);
    xt_graph_want_scratch(graph, xt_winograd_scratch(tile, in->c > out->c ? in->c : out->c));
    conv->own[0] = true;
    size_t stored =
        (size_t)xt_winograd_places(tile) * (size_t)in->c * (size_t)out->c * sizeof(float);
    if (graph->options.training)
        prepare_training(winograd, conv, graph);
    else
        winograd->stored = xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS, stored);
}

/* From O, I, H, W to OIhw16i16o. */
static void sort_block(const float *dense, size_t in_c, int block, float *to)
{
    enum { EDGE = 16, TAPS = 9 };
    size_t row = (size_t)block / (in_c / EDGE) * EDGE;
    size_t column = (size_t)block % (in_c / EDGE) * EDGE;
    to += (size_t)block * TAPS * EDGE * EDGE;
    for (size_t o = 0; o < EDGE; o++)
        for (size_t i = 0; i < EDGE; i++)
            for (size_t tap = 0; tap < TAPS; tap++)
                to[(tap * EDGE + i) * EDGE + o] =
                    dense[((row + o) * in_c + column + i) * TAPS + tap];
}

enum xt_status xt_cpu_winograd_fold(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                    const struct xt_graph *graph, struct xt_err *err)
{
    float *sorted = NULL;
    struct xt_winograd_weights weights = {
        .out = xt_op_out(op, 0)->c, .in = xt_op_in(op, 0)->c, .to = winograd->stored->data};
    int blocks = xt_winograd_blocks(weights.in, weights.out);
    size_t bytes = 9 * (size_t)weights.in * (size_t)weights.out * sizeof *sorted;
    if (xt_mem_aligned(&sorted, bytes, 1, "folded weights", err))
        return err->status;
    weights.from = sorted;
#pragma omp parallel for schedule(static)
    for (int block = 0; block < blocks; block++) {
        sort_block(graph->staging.host, (size_t)weights.in, block, sorted);
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
