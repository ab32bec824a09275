/* A 3x3 convolution in float32 by Winograd's loops: its output, its input's gradient and its
 * weights' gradient. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/cpu/cpu.h"

/* Tiles that reach over the end waste products: a quarter for 7 by 7 pixels. With few tiles the
 * weights, 16/9 of a convolution's, take longer than the products; in training they are transformed
 * for each pass. In inference the tiles of one image decide: a batch changes no bits. */
static bool is_worth_it(const struct xt_tensor *in, const struct xt_tensor *out, bool training)
{
    enum { CHANNELS = 64, TILES = 128, TILES_OF_ONE = 48 };
    const double least = 0.85;
    int tiles = xt_winograd_tiles(in->n, in->h, in->w);
    bool are_many = training ? tiles >= TILES : tiles >= TILES_OF_ONE * in->n;
    return in->c >= CHANNELS && out->c >= CHANNELS && are_many &&
           (double)in->n * in->h * in->w >= least * 4 * tiles;
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

static void prepare_training(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph, size_t weights)
{
    const struct xt_op *op = &conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    int threads = graph->options.device->threads;
    int backward = xt_op_backward_time(graph, op);
    winograd->input_grad =
        (struct xt_winograd){.n = in->n, .h = in->h, .w = in->w, .in_c = out->c, .out_c = in->c};
    winograd->weight_grad = (struct xt_winograd_grad){
        .n = in->n, .h = in->h, .w = in->w, .in_c = in->c, .out_c = out->c};
    xt_winograd_plan(&winograd->input_grad, threads);
    xt_winograd_grad_plan(&winograd->weight_grad, threads);
    winograd->master = xt_graph_value_of(graph, conv->weight);
    winograd->forward = xt_graph_temporary(graph, out, weights, xt_op_forward_time(op));
    if (in->wants_grad)
        winograd->backward = xt_graph_temporary(graph, out, weights, backward);
    winograd->sums = xt_graph_temporary(
        graph, out, xt_winograd_grad_sums(&winograd->weight_grad) * sizeof(float), backward);
    conv->own[1] = conv->own_weight_grad = true;
    conv->weight_grad_format = dnnl_OIhw16i16o;
}

void xt_cpu_winograd_prepare(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    size_t weights = XT_WINOGRAD_PLACES * (size_t)in->c * (size_t)out->c * sizeof(float);
    winograd->output = (struct xt_winograd){.n = in->n,
                                            .h = in->h,
                                            .w = in->w,
                                            .in_c = in->c,
                                            .out_c = out->c,
                                            .adds = conv->fold.residual != NULL,
                                            .relu = conv->relu};
    xt_winograd_plan(&winograd->output, graph->options.device->threads);
    xt_graph_want_scratch(graph, xt_winograd_scratch(in->c > out->c ? in->c : out->c));
    conv->own[0] = true;
    if (graph->options.training)
        prepare_training(winograd, conv, graph, weights);
    else
        winograd->forward = xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS, weights);
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
        .out = xt_op_out(op, 0)->c, .in = xt_op_in(op, 0)->c, .forward = winograd->forward->data};
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

enum xt_status xt_cpu_winograd_bring_weights(const struct xt_cpu_winograd *winograd,
                                             const struct xt_op *op, const struct xt_graph *graph,
                                             bool backward, struct xt_err *err)
{
    struct xt_winograd_weights weights = {
        .from = xt_program_address(&op->program, &winograd->master, err),
        .out = xt_op_out(op, 0)->c,
        .in = xt_op_in(op, 0)->c,
        .forward = backward ? NULL : winograd->forward->data,
        .backward = backward ? winograd->backward->data : NULL};
    if (!weights.from)
        return err->status;
#pragma omp parallel for schedule(static)
    for (int block = 0; block < xt_winograd_blocks(weights.in, weights.out); block++)
        graph->loops->winograd_weights(&weights, block);
    return XT_OK;
}

static void convolve(const struct xt_winograd *job, const struct xt_graph *graph)
{
#pragma omp parallel for schedule(static)
    for (int part = 0; part < job->groups * job->shares; part++)
        graph->loops->winograd(job, part, xt_graph_loop_scratch(graph));
}

enum xt_status xt_cpu_winograd_forward(const struct xt_cpu_winograd *winograd,
                                       const struct xt_op *op, const struct xt_graph *graph,
                                       struct xt_err *err)
{
    struct xt_winograd job = winograd->output;
    if (graph->options.training && xt_cpu_winograd_bring_weights(winograd, op, graph, false, err))
        return err->status;
    job.bias = ((const struct xt_conv_op *)op)->host_bias.host;
    job.in = xt_op_in(op, 0)->value->data;
    job.weights = winograd->forward->data;
    job.out = xt_op_out(op, 0)->value->data;
    convolve(&job, graph);
    return XT_OK;
}

/* Adds up the sums of all parts. */
static void learn(const struct xt_winograd_grad *job, const struct xt_graph *graph)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int part = 0; part < job->groups * job->shares; part++)
            graph->loops->winograd_grad(job, part, xt_graph_loop_scratch(graph));
#pragma omp for schedule(static)
        for (int block = 0; block < xt_winograd_blocks(job->in_c, job->out_c); block++)
            graph->loops->winograd_output_transform(job, block);
    }
}

enum xt_status xt_cpu_winograd_backward(const struct xt_cpu_winograd *winograd,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    struct xt_winograd_grad grad = winograd->weight_grad;
    grad.in = xt_op_in(op, 0)->value->data;
    grad.out_grad = xt_op_out(op, 0)->grad[0]->data;
    grad.sums = winograd->sums->data;
    grad.grad = xt_program_address(&op->program, &conv->weight_grad, err);
    if (!grad.grad)
        return err->status;
    learn(&grad, graph);
    if (!winograd->backward)
        return XT_OK;
    struct xt_winograd job = winograd->input_grad;
    if (xt_cpu_winograd_bring_weights(winograd, op, graph, true, err))
        return err->status;
    job.in = grad.out_grad;
    job.weights = winograd->backward->data;
    job.out = xt_op_in_grad(op, 0)->data;
    convolve(&job, graph);
    return XT_OK;
}

void xt_cpu_winograd_forward_slice(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                   const struct xt_graph *graph, const struct xt_slice *slice)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_winograd job = winograd->output;
    job.n = slice->count;
    job.groups = job.shares = 1;
    job.bias = ((const struct xt_conv_op *)op)->host_bias.host;
    job.in = xt_tensor_sample(in, in->value, slice->first);
    job.weights = winograd->forward->data;
    job.out = xt_tensor_sample(out, out->value, slice->first);
    graph->loops->winograd(&job, 0, xt_graph_loop_scratch(graph));
}
