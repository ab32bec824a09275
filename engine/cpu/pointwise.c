/* 1x1 convolutions of float32 in training, forward and for the input's gradient, by loops that read
 * the weights as they are (loops/pointwise_job.h). */
#include "engine/cpu/cpu.h"

bool xt_cpu_pointwise_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_op *op = &conv->op;
    return graph->loops->pointwise && graph->options.training && xt_op_learns(op, graph) &&
           !xt_cpu_tile_conv_can(conv, graph) && !op->by_slices[0] && !op->by_slices[1] &&
           in->dtype == XT_F32 && out->dtype == XT_F32 && conv->kernel[0] == 1 &&
           conv->kernel[1] == 1 && xt_conv_is_even(conv) && !conv->pads[0] && !conv->pads[1] &&
           conv->groups == 1 && conv->bias < 0 && !conv->relu &&
           in->c % XT_POINTWISE_CHANNELS == 0 && out->c % XT_POINTWISE_CHANNELS == 0 &&
           xt_cpu_weights_are(conv, graph, dnnl_OIhw16i16o);
}

void xt_cpu_pointwise_prepare(struct xt_cpu_pointwise *pointwise, struct xt_conv_op *conv,
                              struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    pointwise->output = (struct xt_pointwise){.h = in->h,
                                              .w = in->w,
                                              .out_h = out->h,
                                              .out_w = out->w,
                                              .stride_h = (int)conv->strides[0],
                                              .stride_w = (int)conv->strides[1],
                                              .in_c = in->c,
                                              .out_c = out->c};
    pointwise->input_grad = (struct xt_pointwise){.h = out->h,
                                                  .w = out->w,
                                                  .out_h = out->h,
                                                  .out_w = out->w,
                                                  .stride_h = 1,
                                                  .stride_w = 1,
                                                  .in_c = out->c,
                                                  .out_c = in->c};
    pointwise->master = xt_graph_value_of(graph, conv->weight);
    if (in->wants_grad)
        pointwise->turned =
            xt_graph_temporary(graph, out, (size_t)in->c * (size_t)out->c * sizeof(float),
                               xt_op_backward_time(graph, &conv->op));
    conv->own[0] = conv->own[1] = true;
}

int xt_cpu_pointwise_part(int pixels, int part, int parts, int *first)
{
    enum { UNIT = 8 };
    int64_t units = (pixels + UNIT - 1) / UNIT;
    int end = UNIT * (int)(units * (part + 1) / parts);
    *first = UNIT * (int)(units * part / parts);
    return end < pixels ? end : pixels;
}

/* The norm: whose sums are computed too; NULL: none. */
static void convolve(const struct xt_pointwise *job, const struct xt_graph *graph, int pixels,
                     const struct xt_op *norm)
{
    int threads = graph->options.device->threads;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < threads; part++) {
        int first = 0;
        int end = xt_cpu_pointwise_part(pixels, part, threads, &first);
        struct xt_pointwise some = *job;
        if (norm)
            xt_cpu_norm_begin_part(norm, graph, job->norm.y != NULL, part, &some.norm);
        graph->loops->pointwise(&some, first, end);
        if (norm && !job->norm.y)
            xt_cpu_norm_end_part(norm, graph, part, end - first, &some.norm);
    }
}

static int pixels_of(const struct xt_tensor *tensor)
{
    return tensor->n * tensor->h * tensor->w;
}

enum xt_status xt_cpu_pointwise_forward(const struct xt_cpu_pointwise *pointwise,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    const struct xt_op *norm = ((const struct xt_conv_op *)op)->sums_for[0];
    struct xt_pointwise job = pointwise->output;
    job.in = xt_op_in(op, 0)->value->data;
    job.out = xt_op_out(op, 0)->value->data;
    job.weights = xt_program_address(&op->program, &pointwise->master, err);
    if (!job.weights)
        return err->status;
    bool sums = norm && xt_cpu_norm_wants_sums(norm, graph);
    convolve(&job, graph, pixels_of(xt_op_out(op, 0)), sums ? norm : NULL);
    return XT_OK;
}

enum xt_status xt_cpu_pointwise_backward(const struct xt_cpu_pointwise *pointwise,
                                         const struct xt_op *op, const struct xt_graph *graph,
                                         struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_op *norm = conv->sums_for[1];
    struct xt_pointwise job = pointwise->input_grad;
    if (!pointwise->turned)
        return XT_OK;
    const float *weights = xt_program_address(&op->program, &pointwise->master, err);
    if (!weights)
        return err->status;
    job.in = xt_op_out(op, 0)->grad[0]->data;
    job.out = conv->read_grad ? conv->read_grad->data : xt_op_in_grad(op, 0)->data;
    job.weights = pointwise->turned->data;
#pragma omp parallel for schedule(static)
    for (int block = 0; block < job.out_c / XT_POINTWISE_BLOCK; block++)
        graph->loops->pointwise_turn(weights, job.out_c, job.in_c, block, pointwise->turned->data);
    if (norm)
        job.norm = xt_cpu_norm_gradient(norm, 0);
    job.adds = conv->adds_grad;
    convolve(&job, graph, pixels_of(xt_op_out(op, 0)), norm);
    return XT_OK;
}
