#include "engine/ops/conv_primitives.h"

#include "base/str.h"

struct xt_conv_primitives xt_conv_primitives_of(struct xt_program *program,
                                                const struct xt_conv_op *conv)
{
    return (struct xt_conv_primitives){.program = program,
                                       .strides = conv->strides,
                                       .dilates = conv->dilates,
                                       .pads = conv->pads,
                                       .pads_after = conv->pads_after,
                                       .attr = xt_program_attr(program, NULL)};
}

dnnl_primitive_desc_t xt_conv_forward(struct xt_conv_primitives *of, dnnl_prop_kind_t kind,
                                      const_dnnl_primitive_attr_t attr, const char *what)
{
    struct xt_program *p = of->program;
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.convolution_forward_primitive_desc_create(
                             &of->forward, p->device->engine, kind, dnnl_convolution_direct, of->in,
                             of->weights, of->bias, of->out, of->strides, of->dilates, of->pads,
                             of->pads_after, attr),
                         what);
    return of->forward;
}

dnnl_primitive_desc_t xt_conv_backward_data(const struct xt_conv_primitives *of, const char *what)
{
    struct xt_program *p = of->program;
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.convolution_backward_data_primitive_desc_create(
                             &pd, p->device->engine, dnnl_convolution_direct, of->in, of->weights,
                             of->out, of->strides, of->dilates, of->pads, of->pads_after,
                             of->forward, of->attr),
                         what);
    return pd;
}

static bool has_groups(const_dnnl_memory_desc_t weights)
{
    int ndims = 0;
    xt_dnnl.memory_desc_query(weights, dnnl_query_ndims_s32, &ndims);
    return ndims == 5;
}

static bool is_narrow(const struct xt_conv_primitives *of)
{
    enum { W = 3 };
    const dnnl_dims_t *dims = NULL;
    return xt_dnnl.memory_desc_query(of->in, dnnl_query_dims, &dims) == dnnl_success &&
           (*dims)[W] < of->strides[1];
}

/* oneDNN's kernels for bf16 read memory that nobody wrote where the stride is wider than the input
 * (3.2). And in 3.2 and 3.7 one is wrong for groups of fewer than 16 channels that are dilated
 * along h, in rows of 32 pixels or more: the self-test's "rows". Why is not known, so it gets no
 * groups that are dilated. */
static bool is_wrong(const struct xt_conv_primitives *of, const_dnnl_primitive_desc_t pd)
{
    const char *name = xt_dnnl_implementation(pd);
    bool is_jit = xt_str_starts(name, "jit_bf16:");
    bool is_dilated = of->dilates[0] || of->dilates[1];
    return (is_jit && is_dilated && has_groups(of->weights)) ||
           ((is_jit || xt_str_starts(name, "brgconv_bwd_w:") ||
             xt_str_starts(name, "jit:avx512_core_amx")) &&
            is_narrow(of));
}

dnnl_primitive_desc_t xt_conv_backward_weights(const struct xt_conv_primitives *of,
                                               dnnl_memory_desc_t weights_grad,
                                               dnnl_memory_desc_t bias_grad, const char *what)
{
    struct xt_program *p = of->program;
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(p))
        xt_program_check(p,
                         xt_dnnl.convolution_backward_weights_primitive_desc_create(
                             &pd, p->device->engine, dnnl_convolution_direct, of->in, weights_grad,
                             bias_grad, of->out, of->strides, of->dilates, of->pads, of->pads_after,
                             of->forward, of->attr),
                         what);
    while (!xt_program_fails(p) && is_wrong(of, pd))
        xt_program_check(p, xt_dnnl.primitive_desc_next_impl(pd), what);
    return pd;
}
