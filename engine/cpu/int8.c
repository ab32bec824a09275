/* What the loops for int8 convolutions of inference share: which outputs they write, and the
 * factors from sums to the output's steps. */
#include "engine/cpu/cpu.h"

bool xt_cpu_writes_int8(const struct xt_conv_op *conv)
{
    const struct xt_tensor *residual = conv->fold.residual;
    enum xt_dtype out = xt_op_out(&conv->op, 0)->dtype;
    bool fits = out == XT_S8 ? !residual && !conv->relu
                             : out == XT_U8 && (!residual || xt_dtype_is_int8(residual->dtype));
    return fits && !conv->fold.activation;
}

struct xt_cpu_int8_factors xt_cpu_int8_factors(const struct xt_conv_op *conv, int channel)
{
    const float *steps = conv->host_scales.host;
    const float *bias = conv->host_bias.host;
    float in_step = xt_op_in(&conv->op, 0)->scale;
    float out_step = xt_op_out(&conv->op, 0)->scale;
    return (struct xt_cpu_int8_factors){in_step * steps[channel] / out_step,
                                        bias[channel] / out_step};
}
