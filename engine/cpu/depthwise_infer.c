/* Depthwise convolutions of inference by loops (loops/depthwise_job.h), which are faster than
 * oneDNN's primitives; those of int8 on CPUs without dot products of bytes. */
#include <math.h>

#include "engine/cpu/cpu.h"

static bool has_types(const struct xt_conv_op *conv)
{
    enum xt_dtype in = xt_op_in(&conv->op, 0)->dtype, out = xt_op_out(&conv->op, 0)->dtype;
    if (xt_dtype_is_int8(in))
        return xt_dtype_is_int8(out) && !xt_device_cpu_has_vnni() &&
               conv->kernel[0] * conv->kernel[1] <= XT_DEPTHWISE_INT8_TAPS;
    return in == out && (in == XT_F32 || in == XT_BF16);
}

bool xt_cpu_depthwise_infer_can(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return !graph->options.training && xt_cpu_depthwise_is(conv) && has_types(conv) &&
           !conv->fold.residual && xt_op_in(&conv->op, 0)->c >= XT_DEPTHWISE_INFER_LEAST;
}

/* The activation, one of xt_norm_can_activate, and what the output's type can have. */
static void describe_ending(const struct xt_conv_op *conv, struct xt_depthwise_ending *ending)
{
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_activation *activation = conv->fold.activation;
    if (activation && activation->kind == XT_ACT_CLIP) {
        ending->least = activation->alpha;
        ending->most = activation->beta;
    } else {
        ending->activation = activation;
    }
    if (!xt_dtype_is_int8(out->dtype))
        return;
    ending->steps = 1 / out->scale;
    ending->least = fmaxf(ending->least / out->scale, out->dtype == XT_U8 ? 0 : INT8_MIN);
    ending->most = fminf(ending->most / out->scale, out->dtype == XT_U8 ? UINT8_MAX : INT8_MAX);
}

void xt_cpu_depthwise_infer_prepare(struct xt_cpu_depthwise_infer *depthwise,
                                    struct xt_conv_op *conv, struct xt_graph *graph)
{
    const char *name = conv->op.name;
    struct xt_depthwise *job = &depthwise->job;
    *job = xt_cpu_depthwise_describe(conv);
    describe_ending(conv, &job->ending);
    size_t channels = (size_t)job->c * sizeof(float);
    size_t taps = (size_t)job->kernel_h * (size_t)job->kernel_w;
    depthwise->weights = xt_graph_permanent(graph, name, XT_WORKING_WEIGHTS, taps * channels);
    depthwise->bias = xt_graph_permanent(graph, name, "bias", channels);
    if (xt_dtype_is_int8(job->dtype))
        depthwise->scale = xt_graph_permanent(graph, name, "scales", channels);
    conv->own[0] = conv->own_weights = true;
}

/* The factor from sums to what the activation, or the clip, takes. */
static void scale_sums(const struct xt_cpu_depthwise_infer *depthwise,
                       const struct xt_conv_op *conv)
{
    float *scale = depthwise->scale->data;
    float *bias = depthwise->bias->data;
    float real = depthwise->job.ending.activation ? xt_op_out(&conv->op, 0)->scale : 1;
    for (int k = 0; k < depthwise->job.c; k++) {
        struct xt_cpu_int8_factors factors = xt_cpu_int8_factors(conv, k);
        scale[k] = factors.scale * real;
        bias[k] = factors.bias * real;
    }
}

void xt_cpu_depthwise_infer_refresh(const struct xt_cpu_depthwise_infer *depthwise,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_depthwise *job = &depthwise->job;
    const float *bias = conv->host_bias.host;
    xt_cpu_depthwise_sort(job, graph->staging.host, false, depthwise->weights->data);
    if (depthwise->scale)
        scale_sums(depthwise, conv);
    else
        memcpy(depthwise->bias->data, bias, (size_t)job->c * sizeof *bias);
}

/* Rows [first, end) of sample n. */
static void convolve(const struct xt_cpu_depthwise_infer *depthwise, const struct xt_op *op,
                     const struct xt_graph *graph, int n, int first, int end)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_depthwise job = depthwise->job;
    job.weights = depthwise->weights->data;
    job.ending.bias = depthwise->bias->data;
    job.ending.scale = depthwise->scale ? depthwise->scale->data : NULL;
    job.first_row = first;
    job.end_row = end;
    graph->loops->depthwise(&job, xt_tensor_sample(in, in->value, n),
                            xt_tensor_sample(out, out->value, n));
}

/* A whole pass. */
struct pass {
    const struct xt_cpu_depthwise_infer *depthwise;
    const struct xt_op *op;
    int parts;
};

static void run_part(const void *context, const struct xt_graph *graph, int part)
{
    const struct pass *pass = context;
    int h = pass->depthwise->job.out_h;
    int64_t rows = (int64_t)xt_op_out(pass->op, 0)->n * h;
    int row = (int)(rows * part / pass->parts);
    int last = (int)(rows * (part + 1) / pass->parts);
    while (row < last) {
        int n = row / h;
        int end = last - n * h < h ? last - n * h : h;
        convolve(pass->depthwise, pass->op, graph, n, row - n * h, end);
        row = n * h + end;
    }
}

void xt_cpu_depthwise_infer_forward(const struct xt_cpu_depthwise_infer *depthwise,
                                    const struct xt_op *op, const struct xt_graph *graph)
{
    const struct pass pass = {depthwise, op, xt_cpu_parts(graph)};
    xt_cpu_share_out(graph, pass.parts, run_part, &pass);
}

void xt_cpu_depthwise_infer_forward_slice(const struct xt_cpu_depthwise_infer *depthwise,
                                          const struct xt_op *op, const struct xt_graph *graph,
                                          const struct xt_slice *slice)
{
    for (int i = 0; i < slice->count; i++)
        convolve(depthwise, op, graph, slice->first + i, 0, depthwise->job.out_h);
}
