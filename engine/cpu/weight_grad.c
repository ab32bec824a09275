/* A convolution's weight gradient by loops (loops/weight_grad_job.h), in place of its primitive. */
#include <math.h>

#include "engine/cpu/cpu.h"

struct xt_weight_grad xt_cpu_weight_grad_describe(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return (struct xt_weight_grad){
        .n = in->n,
        .h = in->h,
        .w = in->w,
        .in_c = in->c,
        .out_h = out->h,
        .out_w = out->w,
        .out_c = out->c,
        .kernel_h = (int)conv->kernel[0],
        .kernel_w = (int)conv->kernel[1],
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .pad_h = (int)conv->pads[0],
        .pad_w = (int)conv->pads[1],
        .f32 = in->dtype == XT_F32,
        .edge = XT_TILE_CHANNELS,
    };
}

/* Whether float32's weight gradient takes less time by tiles: with enough products for a number
 * that is split into summands. */
static bool is_worth_splitting(const struct xt_weight_grad *job)
{
    enum { PRODUCTS_LEAST = 40, LEAST = 32 };
    int taps = job->kernel_h * job->kernel_w;
    return job->in_c >= LEAST && job->out_c >= LEAST &&
           (int64_t)job->in_c * job->out_c * taps >=
               (int64_t)PRODUCTS_LEAST * (job->in_c + job->out_c);
}

xt_weight_grad_loop *xt_cpu_weight_grad_loop(const struct xt_conv_op *conv,
                                             const struct xt_graph *graph)
{
    enum { UNPACKED_MOST = 32768 };
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    int64_t weights = conv->kernel[0] * conv->kernel[1] * in->c * out->c;
    if (conv->groups > 1 || !xt_conv_is_even(conv) || in->dtype != out->dtype)
        return NULL;
    const struct xt_weight_grad job = xt_cpu_weight_grad_describe(conv);
    if (graph->loops->weight_grad && xt_device_cpu_has_tiles() &&
        (in->dtype == XT_BF16 || is_worth_splitting(&job)))
        return graph->loops->weight_grad;
    if (in->dtype == XT_BF16 && xt_weight_grad_is_flat(&job))
        return graph->loops->weight_grad_bf16;
    if (in->dtype == XT_F32)
        return weights > UNPACKED_MOST ? graph->loops->weight_grad_packed
                                       : graph->loops->weight_grad_f32;
    return NULL;
}

dnnl_format_tag_t xt_cpu_weight_grad_format(const struct xt_weight_grad *job)
{
    return xt_weight_grad_is_turned(job)   ? dnnl_OIhw16o16i
           : job->edge == XT_TILE_CHANNELS ? dnnl_OIhw16i16o
                                           : dnnl_OIhw8i8o;
}

const char *xt_cpu_vectors_name(const struct xt_graph *graph)
{
    return graph->loops->lanes == XT_TILE_CHANNELS ? "xtrain AVX-512" : "xtrain AVX2";
}

void xt_cpu_weight_grad_prepare(struct xt_cpu_weight_grad *weight_grad, struct xt_conv_op *conv,
                                struct xt_graph *graph, xt_weight_grad_loop *loop)
{
    struct xt_op *op = &conv->op;
    struct xt_weight_grad *job = &weight_grad->job;
    *job = xt_cpu_weight_grad_describe(conv);
    job->tiles = loop == graph->loops->weight_grad;
    job->packed = loop == graph->loops->weight_grad_packed;
    /* From tiles of 16 oneDNN's copies for AVX2 are written by its reference loop. */
    if (job->f32 && !xt_cpu_pointwise_can(conv, graph))
        job->edge = graph->loops->lanes;
    if (op->by_slices[1]) {
        job->n = op->by_slices[1];
        xt_weight_grad_plan_workers(job, graph->slices.workers);
    } else {
        xt_weight_grad_plan(job, graph->options.device->threads);
    }
    conv->own_weight_grad = true;
    conv->weight_grad_format = xt_cpu_weight_grad_format(job);
    weight_grad->scratch = xt_graph_temporary(graph, xt_op_out(op, 0), xt_weight_grad_scratch(job),
                                              xt_op_backward_time(graph, op));
    weight_grad->loop = loop;
    weight_grad->is_shared = xt_param_is_shared(graph, conv->weight);
    op->own_name[1] = loop == graph->loops->weight_grad ? "xtrain AMX" : xt_cpu_vectors_name(graph);
}

enum xt_status xt_cpu_weight_grad_place(struct xt_cpu_weight_grad *weight_grad,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    struct xt_weight_grad *job = &weight_grad->job;
    job->scratch = weight_grad->scratch->data;
    job->grad = xt_program_address(&op->program, &conv->weight_grad, err);
    if (job->grad && conv->bias >= 0) {
        struct xt_location bias = xt_graph_grad_of(graph, conv->bias);
        job->bias_grad = xt_program_address(&op->program, &bias, err);
    }
    return job->grad && (job->bias_grad || conv->bias < 0) ? XT_OK : err->status;
}

void xt_cpu_weight_grad_know_square(const struct xt_cpu_weight_grad *weight_grad,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph,
                                    double square)
{
    graph->options.params->grad_squares[conv->weight] = weight_grad->is_shared ? NAN : square;
}

/* Pieces of a fixed number, so that the sum of the squares does not depend on the threads'. */
void xt_cpu_weight_grad_add_up(const struct xt_cpu_weight_grad *weight_grad,
                               const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { PIECES = 64 };
    const struct xt_weight_grad *job = &weight_grad->job;
    size_t tile = xt_weight_grad_tile(job);
    size_t piece = (job->weights / tile + PIECES - 1) / PIECES * tile;
    double squares[PIECES] = {0};
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < PIECES; i++) {
        size_t first = piece * i;
        size_t end = first + piece < job->weights ? first + piece : job->weights;
        if (first < end)
            squares[i] = graph->loops->weight_grad_sum(job, first, end);
    }
    double square = 0;
    for (int i = 0; i < PIECES; i++)
        square += squares[i];
    xt_cpu_weight_grad_know_square(weight_grad, conv, graph, square);
}

enum xt_status xt_cpu_weight_grad_backward(struct xt_cpu_weight_grad *weight_grad,
                                           const struct xt_op *op, const struct xt_graph *graph,
                                           struct xt_err *err)
{
    struct xt_weight_grad *job = &weight_grad->job;
    job->in = xt_op_in(op, 0)->value->data;
    job->out_grad = xt_op_out(op, 0)->grad[0]->data;
    if (xt_cpu_weight_grad_place(weight_grad, op, graph, err))
        return err->status;
    int parts = xt_weight_grad_parts(job);
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++)
        weight_grad->loop(job, part);
    xt_cpu_weight_grad_add_up(weight_grad, (const struct xt_conv_op *)op, graph);
    return XT_OK;
}

void xt_cpu_weight_grad_slice(const struct xt_cpu_weight_grad *weight_grad, const struct xt_op *op,
                              const struct xt_slice *slice)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_weight_grad job = weight_grad->job;
    job.in = xt_tensor_sample(in, in->value, slice->first);
    job.out_grad = xt_tensor_sample(out, out->grad[0], slice->first);
    job.near[0] = out->grad[0]->ring > 0;
    job.adds = !slice->begins;
    job.more = !slice->ends;
    weight_grad->loop(&job, slice->worker);
}
