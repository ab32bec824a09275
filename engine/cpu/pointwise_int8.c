/* 1x1 convolutions of inference in int8 by loops (loops/pointwise_int8_job.h), which are faster
 * than oneDNN's primitives on CPUs with AVX-512's dot products and without AMX. */
#include "base/mem.h"
#include "engine/cpu/cpu.h"

struct state {
    struct xt_pointwise_int8 job; /* without the tensors' memory */
    struct xt_buffer *weights, *scale, *bias;
    int shares; /* of the output's channels, on different threads */
};

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

bool xt_cpu_pointwise_int8_can(const struct xt_op *op, const struct xt_graph *graph)
{
    enum { PIXELS_LEAST = 8 }; /* of an image; with fewer it waits for each sum */
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
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

void xt_cpu_pointwise_int8_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_conv_op *conv = (struct xt_conv_op *)op;
    struct state *state = NULL;
    if (xt_mem_calloc(&state, 1, sizeof *state, op->name, &graph->err))
        return;
    op->own = state;
    state->job = describe_job(conv);
    state->shares = shares_of(conv, graph->options.device->threads);
    size_t channels = (size_t)state->job.out_c;
    state->weights =
        xt_graph_permanent(graph, op->name, XT_WORKING_WEIGHTS, channels * (size_t)state->job.in_c);
    state->scale = xt_graph_permanent(graph, op->name, "scales", channels * sizeof(float));
    state->bias = xt_graph_permanent(graph, op->name, "bias", channels * sizeof(float));
    conv->own[0] = conv->own_weights = true;
    op->own_name[0] = "xtrain AVX-512";
    op->own_name[1] = NULL;
    xt_kind_conv.describe(op, graph);
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

/* The weights are staged, with the norm folded into them, if any. */
enum xt_status xt_cpu_pointwise_int8_refresh(struct xt_op *op, struct xt_graph *graph,
                                             struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct state *state = op->own;
    const float *weights = graph->staging.host, *bias = conv->host_bias.host;
    const float *steps = conv->host_scales.host;
    int in_c = state->job.in_c;
    float in_step = xt_op_in(op, 0)->scale, out_step = xt_op_out(op, 0)->scale;
    (void)err;
#pragma omp parallel for schedule(static)
    for (int first = 0; first < state->job.out_c; first += XT_POINTWISE_INT8_OUT) {
        size_t at = (size_t)first * (size_t)in_c;
        sort_weights(weights + at, in_c, (int8_t *)state->weights->data + at);
        for (int place = 0; place < XT_POINTWISE_INT8_OUT; place++) {
            int channel = first + xt_pointwise_int8_channel(place);
            ((float *)state->scale->data)[first + place] = in_step * steps[channel] / out_step;
            ((float *)state->bias->data)[first + place] = bias[channel] / out_step;
        }
    }
    return XT_OK;
}

/* The output of samples from `first` on. */
static struct xt_pointwise_int8 job_at(const struct xt_op *op, int first)
{
    const struct state *state = op->own;
    struct xt_pointwise_int8 job = state->job;
    job.in = xt_tensor_sample(xt_op_in(op, 0), xt_op_in(op, 0)->value, first);
    job.out = xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->value, first);
    job.weights = state->weights->data;
    job.scale = state->scale->data;
    job.bias = state->bias->data;
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

enum xt_status xt_cpu_pointwise_int8_forward(struct xt_op *op, struct xt_graph *graph,
                                             struct xt_err *err)
{
    enum { UNIT = 8 };
    const struct state *state = op->own;
    const struct xt_pointwise_int8 job = job_at(op, 0);
    int pixels = xt_op_out(op, 0)->n * job.out_h * job.out_w;
    int64_t units = (pixels + UNIT - 1) / UNIT;
    int threads = graph->options.device->threads;
    int groups = threads / state->shares;
    (void)err;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < threads; part++) {
        struct xt_pointwise_int8 some = share_of(&job, part % state->shares, state->shares);
        int group = part / state->shares;
        int first = UNIT * (int)(units * group / groups);
        int end = UNIT * (int)(units * (group + 1) / groups);
        graph->loops->pointwise_int8(&some, first, end < pixels ? end : pixels);
    }
    return XT_OK;
}

static enum xt_status forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                    const struct xt_slice *slice, struct xt_err *err)
{
    const struct xt_pointwise_int8 job = job_at(op, slice->first);
    (void)second;
    (void)err;
    graph->loops->pointwise_int8(&job, 0, slice->count * job.out_h * job.out_w);
    return XT_OK;
}

const struct xt_by_slices xt_cpu_pointwise_int8_by_slices = {.forward = forward_slice};
