/* The input's gradient of a convolution with a high kernel and a low output, as LPRNet's 13x1 is,
 * by loops (loops/data_grad_job.h), in place of its primitive. */
#include "engine/cpu/cpu.h"

bool xt_cpu_data_grad_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    enum { KERNEL_LEAST = 8, OUTPUT_MOST = 8, WIDE = 32, WEIGHTS_MOST = 1 << 20 };
    const struct xt_weight_grad job = xt_cpu_weight_grad_describe(conv);
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return graph->loops->data_grad && xt_device_cpu_has_tiles() && in->wants_grad &&
           in->dtype == out->dtype && conv->kernel[1] == 1 && conv->kernel[0] >= KERNEL_LEAST &&
           out->h <= OUTPUT_MOST && conv->strides[0] == 1 && conv->strides[1] == 1 &&
           !conv->pads[0] && !conv->pads[1] && in->c % WIDE == 0 &&
           conv->kernel[0] * in->c * out->c <= WEIGHTS_MOST &&
           xt_cpu_weights_are(conv, graph, xt_cpu_weight_grad_format(&job));
}

void xt_cpu_data_grad_prepare(struct xt_cpu_data_grad *data_grad, struct xt_conv_op *conv,
                              struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    const struct xt_weight_grad weight_grad = xt_cpu_weight_grad_describe(conv);
    struct xt_weight_copy copy = {.out = out->c,
                                  .in = in->c,
                                  .taps = (int)conv->kernel[0],
                                  .out_is_row = xt_weight_grad_is_turned(&weight_grad),
                                  .summands = xt_summands_of(in->dtype == XT_F32),
                                  .wide = XT_DATA_GRAD_WIDE,
                                  .spare = XT_DATA_GRAD_SPARE};
    data_grad->job = (struct xt_data_grad){.f32 = in->dtype == XT_F32,
                                           .h = in->h,
                                           .w = in->w,
                                           .in_c = in->c,
                                           .out_h = out->h,
                                           .out_c = out->c,
                                           .kernel_h = (int)conv->kernel[0]};
    data_grad->weights = xt_cpu_add_weight_copy(conv, graph, &copy);
    conv->own[1] = true;
    xt_graph_want_scratch(graph, xt_data_grad_scratch(&data_grad->job));
}

void xt_cpu_data_grad_backward(const struct xt_cpu_data_grad *data_grad, const struct xt_op *op,
                               const struct xt_graph *graph, int first, int count)
{
    struct xt_data_grad job = data_grad->job;
    job.weights = data_grad->weights->data;
    graph->loops->data_grad(&job, count,
                            xt_tensor_sample(xt_op_out(op, 0), xt_op_out(op, 0)->grad[0], first),
                            xt_tensor_sample(xt_op_in(op, 0), xt_op_in_grad(op, 0), first),
                            xt_graph_loop_scratch(graph));
}
