/* 1x1 convolutions of inference by loops (loops/pointwise_infer_job.h): in int8 and bf16 on CPUs
 * with AVX-512's dot products and without AMX, where they are faster than oneDNN's primitives; in
 * float32 on CPUs with no more than AVX2, as fast, but not divided evenly among unequal cores. */
#include <string.h>

#include "engine/cpu/cpu.h"

/* The loops for its types; NULL: none. */
static xt_pointwise_infer_loop *loop_for(const struct xt_conv_op *conv,
                                         const struct xt_graph *graph)
{
    enum { BF16_LEAST = 8192 }; /* weights; with fewer oneDNN is faster */
    const struct xt_tensor *residual = conv->fold.residual;
    enum xt_dtype in = xt_op_in(&conv->op, 0)->dtype, out = xt_op_out(&conv->op, 0)->dtype;
    int weights = xt_op_in(&conv->op, 0)->c * xt_op_out(&conv->op, 0)->c;
    bool same = out == in && (!residual || residual->dtype == in);
    if (in == XT_F32)
        return same && graph->loops->lanes < XT_POINTWISE_BLOCK ? graph->loops->pointwise_f32
                                                                : NULL;
    if (in == XT_BF16)
        return same && weights >= BF16_LEAST ? graph->loops->pointwise_bf16 : NULL;
    return in == XT_U8 && xt_cpu_writes_int8(conv) && xt_device_cpu_has_vnni()
               ? graph->loops->pointwise_int8
               : NULL;
}

/* Output channels whose weights lie side by side. */
static int block_of(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? XT_POINTWISE_BLOCK : XT_POINTWISE_INFER_OUT;
}

bool xt_cpu_pointwise_infer_can(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { PIXELS_LEAST = 8 }; /* of an image; with fewer it waits for each sum */
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return !graph->options.training && conv->groups == 1 && conv->kernel[0] == 1 &&
           conv->kernel[1] == 1 && xt_conv_is_even(conv) && !conv->pads[0] && !conv->pads[1] &&
           (size_t)in->c * xt_dtype_size(in->dtype) % XT_POINTWISE_INFER_BYTES == 0 &&
           out->c % block_of(in->dtype) == 0 && out->h * out->w >= PIXELS_LEAST &&
           loop_for(conv, graph);
}

static struct xt_pointwise_infer describe_job(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_tensor *residual = conv->fold.residual;
    return (struct xt_pointwise_infer){
        .dtype = in->dtype,
        .h = in->h,
        .w = in->w,
        .out_h = out->h,
        .out_w = out->w,
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .in_c = in->c,
        .out_c = out->c,
        .row = out->c,
        .adds = residual != NULL,
        .relu = conv->relu,
        .activation = conv->fold.activation,
        .out_signed = out->dtype == XT_S8,
        .residual_signed = residual && residual->dtype == XT_S8,
        .residual_scale = residual ? residual->scale / out->scale : 0,
    };
}

/* Bytes of a pixel's channels, and of an output channel's weights. */
static size_t column_of(const struct xt_pointwise_infer *job)
{
    return (size_t)job->in_c * xt_dtype_size(job->dtype);
}

/* Into groups of pixels, and into shares of channels where those are few. */
static void divide(struct xt_cpu_pointwise_infer *pointwise, int samples,
                   const struct xt_graph *graph)
{
    const struct xt_pointwise_infer *job = &pointwise->job;
    int parts = xt_cpu_parts(graph);
    int64_t chunks =
        ((int64_t)samples * job->out_h * job->out_w + XT_POINTWISE_CHUNK - 1) / XT_POINTWISE_CHUNK;
    int blocks = job->out_c / block_of(job->dtype);
    int shares = (int)((parts + chunks - 1) / chunks);
    pointwise->groups = chunks < parts ? (int)chunks : parts;
    pointwise->shares = shares < blocks ? shares : blocks;
}

void xt_cpu_pointwise_infer_prepare(struct xt_cpu_pointwise_infer *pointwise,
                                    struct xt_conv_op *conv, struct xt_graph *graph)
{
    const char *name = conv->op.name;
    pointwise->job = describe_job(conv);
    pointwise->loop = loop_for(conv, graph);
    size_t channels = (size_t)pointwise->job.out_c;
    divide(pointwise, xt_op_out(&conv->op, 0)->n, graph);
    pointwise->weights =
        xt_graph_permanent(graph, name, XT_WORKING_WEIGHTS, channels * column_of(&pointwise->job));
    pointwise->bias = xt_graph_permanent(graph, name, "bias", channels * sizeof(float));
    if (pointwise->job.dtype == XT_U8)
        pointwise->scale = xt_graph_permanent(graph, name, "scales", channels * sizeof(float));
    conv->own[0] = conv->own_weights = true;
}

static void sort_floats(const float *dense, const struct xt_pointwise_infer *job, float *to)
{
    for (int i = 0; i < job->in_c; i++)
        for (int place = 0; place < XT_POINTWISE_BLOCK; place++)
            *to++ = dense[place * job->in_c + i];
}

/* Words of int8 or bf16. */
static void sort_words(const float *dense, const struct xt_pointwise_infer *job, char *to)
{
    bool int8 = job->dtype == XT_U8;
    int in_word = XT_POINTWISE_INFER_WORD / (int)xt_dtype_size(job->dtype);
    for (int i = 0; i < job->in_c; i += in_word)
        for (int place = 0; place < XT_POINTWISE_INFER_OUT; place++) {
            const float *from = dense + xt_pointwise_infer_channel(int8, place) * job->in_c + i;
            for (int k = 0; k < in_word; k++, to += xt_dtype_size(job->dtype)) {
                uint16_t half = (uint16_t)(xt_bf16_round(from[k]) >> 16);
                if (int8)
                    *to = (char)(int8_t)from[k];
                else
                    memcpy(to, &half, sizeof half);
            }
        }
}

/* A block of channels, from O, I. */
static void sort_weights(const float *dense, const struct xt_pointwise_infer *job, void *to)
{
    if (job->dtype == XT_F32)
        sort_floats(dense, job, to);
    else
        sort_words(dense, job, to);
}

void xt_cpu_pointwise_infer_refresh(const struct xt_cpu_pointwise_infer *pointwise,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_pointwise_infer *job = &pointwise->job;
    const float *weights = graph->staging.host, *from = conv->host_bias.host;
    float *bias = pointwise->bias->data;
    float *scale = pointwise->scale ? pointwise->scale->data : NULL;
    int block = block_of(job->dtype);
#pragma omp parallel for schedule(static)
    for (int first = 0; first < job->out_c; first += block) {
        sort_weights(weights + (size_t)first * (size_t)job->in_c, job,
                     (char *)pointwise->weights->data + (size_t)first * column_of(job));
        for (int place = 0; place < block; place++) {
            int channel = first + xt_pointwise_infer_channel(scale != NULL, place);
            bias[first + place] = from[channel];
            if (scale) {
                struct xt_cpu_int8_factors factors = xt_cpu_int8_factors(conv, channel);
                scale[first + place] = factors.scale;
                bias[first + place] = factors.bias;
            }
        }
    }
}

/* The output of samples from `first` on. */
static struct xt_pointwise_infer job_at(const struct xt_cpu_pointwise_infer *pointwise,
                                        const struct xt_op *op, int first)
{
    struct xt_pointwise_infer job = pointwise->job;
    job.in = xt_tensor_sample(xt_op_in(op, 0), xt_op_in(op, 0)->value, first);
    job.out = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->value, first);
    job.weights = pointwise->weights->data;
    job.bias = pointwise->bias->data;
    job.scale = pointwise->scale ? pointwise->scale->data : NULL;
    return job;
}

/* One of `shares` of the output's channels. */
static struct xt_pointwise_infer share_of(const struct xt_pointwise_infer *job, int share,
                                          int shares)
{
    struct xt_pointwise_infer some = *job;
    int blocks = job->out_c / block_of(job->dtype);
    int first = blocks * share / shares;
    size_t channel = (size_t)first * (size_t)block_of(job->dtype);
    some.out_c = (blocks * (share + 1) / shares - first) * block_of(job->dtype);
    some.weights = (const char *)job->weights + channel * column_of(job);
    some.out = (char *)job->out + channel * xt_dtype_size(job->dtype);
    some.bias += channel;
    some.scale = job->scale ? job->scale + channel : NULL;
    return some;
}

/* A pass over the batch. */
struct pass {
    const struct xt_cpu_pointwise_infer *pointwise;
    struct xt_pointwise_infer job;
    int pixels;
};

/* The groups of a share follow each other: its weights stay in the caches. */
static void run_part(const void *context, const struct xt_graph *graph, int part)
{
    const struct pass *pass = context;
    int groups = pass->pointwise->groups;
    struct xt_pointwise_infer some = share_of(&pass->job, part / groups, pass->pointwise->shares);
    int first = 0;
    int end = xt_cpu_pointwise_part(pass->pixels, part % groups, groups, &first);
    (void)graph;
    pass->pointwise->loop(&some, first, end);
}

void xt_cpu_pointwise_infer_forward(const struct xt_cpu_pointwise_infer *pointwise,
                                    const struct xt_op *op, const struct xt_graph *graph)
{
    const struct pass pass = {pointwise, job_at(pointwise, op, 0),
                              xt_op_out(op, 0)->n * pointwise->job.out_h * pointwise->job.out_w};
    xt_cpu_share_out(graph, pointwise->groups * pointwise->shares, run_part, &pass);
}

void xt_cpu_pointwise_infer_forward_slice(const struct xt_cpu_pointwise_infer *pointwise,
                                          const struct xt_op *op, const struct xt_graph *graph,
                                          const struct xt_slice *slice)
{
    const struct xt_pointwise_infer job = job_at(pointwise, op, slice->first);
    (void)graph;
    pointwise->loop(&job, 0, slice->count * job.out_h * job.out_w);
}
