/* Depthwise convolutions in training: the weights are brought to the loops' order once a pass, each
 * sample's sums of their gradient are added up in the samples' order. */
#include <math.h>

#include "engine/cpu/cpu.h"

static size_t taps_of(const struct xt_cpu_depthwise *depthwise)
{
    return (size_t)depthwise->job.kernel_h * (size_t)depthwise->job.kernel_w;
}

bool xt_cpu_depthwise_is(const struct xt_conv_op *conv)
{
    bool strided = conv->strides[0] > 1 || conv->strides[1] > 1;
    bool dilated = conv->dilates[0] || conv->dilates[1];
    int c = xt_op_in(&conv->op, 0)->c;
    return conv->groups > 1 && conv->groups == c && xt_op_out(&conv->op, 0)->c == c &&
           !(strided && dilated) && conv->kernel[0] <= XT_DEPTHWISE_KERNEL_MOST;
}

struct xt_depthwise xt_cpu_depthwise_describe(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return (struct xt_depthwise){
        .dtype = in->dtype,
        .h = in->h,
        .w = in->w,
        .c = in->c,
        .out_h = out->h,
        .out_w = out->w,
        .end_row = out->h,
        .kernel_h = (int)conv->kernel[0],
        .kernel_w = (int)conv->kernel[1],
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .dilation_h = (int)conv->dilates[0] + 1,
        .dilation_w = (int)conv->dilates[1] + 1,
        .pad_h = (int)conv->pads[0],
        .pad_w = (int)conv->pads[1],
        .ending = {.least = conv->relu ? 0 : -INFINITY, .most = INFINITY},
    };
}

bool xt_cpu_depthwise_can(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    return xt_cpu_depthwise_is(conv) && in->dtype == xt_op_out(&conv->op, 0)->dtype &&
           (in->dtype == XT_F32 || in->dtype == XT_BF16) && xt_op_learns(&conv->op, graph) &&
           !graph->options.params->items[conv->weight].md;
}

void xt_cpu_depthwise_prepare(struct xt_cpu_depthwise *depthwise, struct xt_conv_op *conv,
                              struct xt_graph *graph)
{
    const struct xt_op *op = &conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    depthwise->job = xt_cpu_depthwise_describe(conv);
    size_t taps = taps_of(depthwise);
    size_t weights = taps * (size_t)in->c * sizeof(float);
    int backward = xt_op_backward_time(graph, op);
    depthwise->master = xt_graph_value_of(graph, conv->weight);
    depthwise->forward = xt_graph_temporary(graph, out, weights, xt_op_forward_time(op));
    if (in->wants_grad)
        depthwise->backward = xt_graph_temporary(graph, out, weights, backward);
    depthwise->sums =
        xt_graph_temporary(graph, out, (size_t)in->n * (weights / taps * (taps + 1)), backward);
    conv->own[0] = conv->own[1] = conv->own_weight_grad = true;
    conv->weight_grad_format = dnnl_abcde;
}

void xt_cpu_depthwise_sort(const struct xt_depthwise *job, const float *from, bool backward,
                           float *to)
{
    size_t c = (size_t)job->c;
    int taps = job->kernel_h * job->kernel_w;
    for (int t = 0; t < taps; t++) {
        int kx = t % job->kernel_w;
        int place = backward ? xt_depthwise_backward_tap(job, kx) : kx;
        float *row = to + (size_t)(t - kx + place) * c;
        for (size_t k = 0; k < c; k++) {
            float weight = from[k * (size_t)taps + (size_t)t];
            row[k] = job->dtype == XT_BF16 ? xt_float_of_bits(xt_bf16_round(weight) & 0xFFFF0000u)
                                           : weight;
        }
    }
}

enum xt_status xt_cpu_depthwise_begin(const struct xt_cpu_depthwise *depthwise,
                                      const struct xt_op *op, bool backward, struct xt_err *err)
{
    const struct xt_buffer *to = backward ? depthwise->backward : depthwise->forward;
    const float *from = xt_program_address(&op->program, &depthwise->master, err);
    if (from && to)
        xt_cpu_depthwise_sort(&depthwise->job, from, backward, to->data);
    return from ? XT_OK : err->status;
}

static float *sums_of(const struct xt_cpu_depthwise *depthwise, size_t n)
{
    return (float *)depthwise->sums->data + n * (taps_of(depthwise) + 1) * (size_t)depthwise->job.c;
}

/* Adds the samples' sums of a tap in their order; to[k * step] is channel k's. */
static void total(const struct xt_cpu_depthwise *depthwise, int samples, size_t tap, float *to,
                  size_t step)
{
    enum { CHANNELS = 64 };
    size_t c = (size_t)depthwise->job.c;
    for (size_t first = 0; first < c; first += CHANNELS) {
        size_t count = c - first < CHANNELS ? c - first : CHANNELS;
        double sum[CHANNELS] = {0};
        for (int n = 0; n < samples; n++) {
            const float *from = sums_of(depthwise, (size_t)n) + tap * c + first;
            for (size_t k = 0; k < count; k++)
                sum[k] += (double)from[k];
        }
        for (size_t k = 0; k < count; k++)
            to[(first + k) * step] = (float)sum[k];
    }
}

enum xt_status xt_cpu_depthwise_end(const struct xt_cpu_depthwise *depthwise,
                                    const struct xt_op *op, const struct xt_graph *graph,
                                    struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    int samples = xt_op_in(op, 0)->n;
    size_t taps = taps_of(depthwise);
    float *grad = xt_program_address(&op->program, &conv->weight_grad, err);
    float *bias = NULL;
    if (grad && conv->bias >= 0) {
        struct xt_location at = xt_graph_grad_of(graph, conv->bias);
        bias = xt_program_address(&op->program, &at, err);
    }
    if (!grad || (conv->bias >= 0 && !bias))
        return err->status;
#pragma omp parallel for schedule(static)
    for (size_t t = 0; t < taps; t++)
        total(depthwise, samples, t, grad + t, taps);
    if (bias)
        total(depthwise, samples, taps, bias, 1);
    return XT_OK;
}

static const float *bias_of(const struct xt_op *op, const struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    int bias = ((const struct xt_conv_op *)op)->bias;
    return bias < 0 ? NULL : xt_params_value(params, &params->items[bias]);
}

void xt_cpu_depthwise_forward(const struct xt_cpu_depthwise *depthwise, const struct xt_op *op,
                              const struct xt_graph *graph, int n)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_depthwise job = depthwise->job;
    job.weights = depthwise->forward->data;
    job.ending.bias = bias_of(op, graph);
    graph->loops->depthwise(&job, xt_tensor_sample(in, in->value, n),
                            xt_tensor_sample(out, out->value, n));
}

/* The input's gradient may overwrite the input. */
void xt_cpu_depthwise_backward(const struct xt_cpu_depthwise *depthwise, const struct xt_op *op,
                               const struct xt_graph *graph, int n)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const void *out_grad = xt_tensor_sample(out, out->grad[0], n);
    struct xt_depthwise job = depthwise->job;
    job.ending.bias = bias_of(op, graph);
    graph->loops->depthwise_weight_grad(&job, xt_tensor_sample(in, in->value, n), out_grad,
                                        sums_of(depthwise, (size_t)n));
    if (!depthwise->backward)
        return;
    job.weights = depthwise->backward->data;
    graph->loops->depthwise_data_grad(&job, out_grad,
                                      xt_tensor_sample(in, xt_op_in_grad(op, 0), n));
}
