/* 1x1 convolutions of inference in int8 by loops (loops/pointwise_int8_job.h), which are faster
 * than oneDNN's primitives on CPUs with AVX-512's dot products and without AMX. */
#include "engine/cpu/cpu.h"

static bool types_fit(const struct xt_conv_op *conv)
{
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_tensor *residual = conv->fold.residual;
    if (xt_op_in(&conv->op, 0)->dtype != XT_U8 || conv->fold.activation)
        return false;
    if (out->dtype == XT_S8)
        return !residual && !conv->relu;
    return out->dtype == XT_U8 && (!residual || xt_dtype_is_int8(residual->dtype));
}

bool xt_cpu_pointwise_int8_can(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { PIXELS_LEAST = 8 }; /* of an image; with fewer it waits for each sum */
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return graph->loops->pointwise_int8 && xt_device_cpu_has_vnni() && !graph->options.training &&
           conv->groups == 1 && conv->kernel[0] == 1 && conv->kernel[1] == 1 &&
           xt_conv_is_even(conv) && !conv->pads[0] && !conv->pads[1] &&
           in->c % XT_POINTWISE_INT8_IN == 0 && out->c % XT_POINTWISE_INT8_OUT == 0 &&
           out->h * out->w >= PIXELS_LEAST && types_fit(conv);
}

static struct xt_pointwise_int8 describe_job(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_tensor *residual = conv->fold.residual;
    return (struct xt_pointwise_int8){
        .h = in->h,
        .w = in->w,
        .out_h = out->h,
        .out_w = out->w,
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .in_c = in->c,
        .out_c = out->c,
        .row = out->c,
        .out_signed = out->dtype == XT_S8,
        .adds = residual != NULL,
        .residual_signed = residual && residual->dtype == XT_S8,
        .residual_scale = residual ? residual->scale / out->scale : 0,
    };
}

/* Threads share the channels instead of the pixels where that makes each read less. */
static int shares_of(const struct xt_conv_op *conv, int threads)
{
    int blocks = xt_op_out(&conv->op, 0)->c / XT_POINTWISE_INT8_OUT;
    size_t weights = (size_t)xt_op_in(&conv->op, 0)->c * (size_t)xt_op_out(&conv->op, 0)->c;
    size_t pixels = xt_tensor_bytes(xt_op_in(&conv->op, 0));
    size_t shares = 1;
    while ((size_t)threads % (2 * shares) == 0 && (size_t)blocks % (2 * shares) == 0 &&
           weights / shares > pixels * 2 * shares / (size_t)threads)
        shares *= 2;
    return (int)shares;
}

void xt_cpu_pointwise_int8_prepare(struct xt_cpu_pointwise_int8 *pointwise, struct xt_conv_op *conv,
                                   struct xt_graph *graph)
{
    const char *name = conv->op.name;
    pointwise->job = describe_job(conv);
    pointwise->shares = shares_of(conv, graph->options.device->threads);
    size_t channels = (size_t)pointwise->job.out_c;
    pointwise->weights =
        xt_graph_permanent(graph, name, XT_WORKING_WEIGHTS, channels * (size_t)pointwise->job.in_c);
    pointwise->scale = xt_graph_permanent(graph, name, "scales", channels * sizeof(float));
    pointwise->bias = xt_graph_permanent(graph, name, "bias", channels * sizeof(float));
    conv->own[0] = conv->own_weights = true;
}

/* One block of channels, from O, I. */
static void sort_weights(const float *dense, int in_c, int8_t *to)
{
    for (int i = 0; i < in_c; i += XT_POINTWISE_INT8_WORD)
        for (int place = 0; place < XT_POINTWISE_INT8_OUT; place++) {
            const float *from = dense + xt_pointwise_int8_channel(place) * in_c + i;
            for (int k = 0; k < XT_POINTWISE_INT8_WORD; k++)
                *to++ = (int8_t)from[k];
        }
}

void xt_cpu_pointwise_int8_refresh(const struct xt_cpu_pointwise_int8 *pointwise,
                                   const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const float *weights = graph->staging.host, *bias = conv->host_bias.host;
    const float *steps = conv->host_scales.host;
    int in_c = pointwise->job.in_c;
    float in_step = xt_op_in(&conv->op, 0)->scale, out_step = xt_op_out(&conv->op, 0)->scale;
#pragma omp parallel for schedule(static)
    for (int first = 0; first < pointwise->job.out_c; first += XT_POINTWISE_INT8_OUT) {
        size_t at = (size_t)first * (size_t)in_c;
        sort_weights(weights + at, in_c, (int8_t *)pointwise->weights->data + at);
        for (int place = 0; place < XT_POINTWISE_INT8_OUT; place++) {
            int channel = first + xt_pointwise_int8_channel(place);
            ((float *)pointwise->scale->data)[first + place] = in_step * steps[channel] / out_step;
            ((float *)pointwise->bias->data)[first + place] = bias[channel] / out_step;
        }
    }
}

/* The output of samples from `first` on. */
static struct xt_pointwise_int8 job_at(const struct xt_cpu_pointwise_int8 *pointwise,
                                       const struct xt_op *op, int first)
{
    struct xt_pointwise_int8 job = pointwise->job;
    job.in = xt_tensor_sample(xt_op_in(op, 0), xt_op_in(op, 0)->value, first);
    job.out = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->value, first);
    job.weights = pointwise->weights->data;
    job.scale = pointwise->scale->data;
    job.bias = pointwise->bias->data;
    return job;
}

/* One of `shares` of the output's channels. */
static struct xt_pointwise_int8 share_of(const struct xt_pointwise_int8 *job, int share, int shares)
{
    struct xt_pointwise_int8 some = *job;
    some.out_c = job->out_c / shares;
    int channel = share * some.out_c;
    some.weights += (size_t)channel * (size_t)job->in_c;
    some.out += channel;
    some.scale += channel;
    some.bias += channel;
    return some;
}

void xt_cpu_pointwise_int8_forward(const struct xt_cpu_pointwise_int8 *pointwise,
                                   const struct xt_op *op, const struct xt_graph *graph)
{
    const struct xt_pointwise_int8 job = job_at(pointwise, op, 0);
    int pixels = xt_op_out(op, 0)->n * job.out_h * job.out_w;
    int threads = graph->options.device->threads;
    int shares = pointwise->shares;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < threads; part++) {
        struct xt_pointwise_int8 some = share_of(&job, part % shares, shares);
        int first = 0;
        int end = xt_cpu_pointwise_part(pixels, part / shares, threads / shares, &first);
        graph->loops->pointwise_int8(&some, first, end);
    }
}

void xt_cpu_pointwise_int8_forward_slice(const struct xt_cpu_pointwise_int8 *pointwise,
                                         const struct xt_op *op, const struct xt_graph *graph,
                                         const struct xt_slice *slice)
{
    const struct xt_pointwise_int8 job = job_at(pointwise, op, slice->first);
    graph->loops->pointwise_int8(&job, 0, slice->count * job.out_h * job.out_w);
}
