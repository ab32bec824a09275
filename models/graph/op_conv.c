/* Convolution with bias and ReLU: oneDNN's forward, data-gradient and weight-gradient primitives on
 * N, H, W, C tensors.
 *
 * The float32 master weights are kept in the weight gradient's format, so that the update is
 * element by element; working copies in the formats that the forward and data-gradient kernels want
 * follow each update.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/graph/ranges.h"
#include "models/graph/xpu_ops.h"

static void step_clear(struct step *step)
{
    if (step->primitive)
        xt_dnnl.primitive_destroy(step->primitive);
    if (step->pd)
        xt_dnnl.primitive_desc_destroy(step->pd);
}

static void destroy(struct xt_op *op)
{
    struct conv *conv = (struct conv *)op;
    step_clear(&conv->forward);
    step_clear(&conv->backward_data);
    step_clear(&conv->backward_weights);
    step_clear(&conv->forward_weights.reorder);
    step_clear(&conv->backward_weights_copy.reorder);
    for (int i = 0; i < conv->memory_count; i++)
        xt_dnnl.memory_destroy(conv->memories[i]);
    free(conv->forward_weights.data);
    free(conv->own_bias);
    free(conv->weight_scales);
    free(conv->backward_weights_copy.data);
}

/* ---- descriptors ---- */

bool xt_conv_reads_int8(const struct conv *conv)
{
    return xt_dtype_is_int8(conv->in->dtype);
}

bool xt_conv_has_own_weights(const struct conv *conv)
{
    return conv->folded || xt_conv_reads_int8(conv);
}

static enum xt_status tensor_md(const struct xt_tensor *t, enum xt_dtype dtype,
                                dnnl_memory_desc_t *md, struct xt_err *err)
{
    dnnl_dims_t dims = {t->n, t->c, t->h, t->w};
    return xt_dnnl_check(
        xt_dnnl.memory_desc_create_with_tag(md, 4, dims, xt_dtype_dnnl(dtype), dnnl_nhwc), t->name,
        err);
}

/* The descriptors a convolution is made from; cleared after use, the primitives keep their own. */
struct descs {
    dnnl_memory_desc_t in, out, weights, bias, weights_grad;
    dnnl_primitive_attr_t attr, post_attr;
};

static void descs_clear(struct descs *d)
{
    dnnl_memory_desc_t all[] = {d->in, d->out, d->weights, d->bias, d->weights_grad};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            xt_dnnl.memory_desc_destroy(all[i]);
    if (d->attr)
        xt_dnnl.primitive_attr_destroy(d->attr);
    if (d->post_attr)
        xt_dnnl.primitive_attr_destroy(d->post_attr);
}

bool xt_conv_copies_residual(const struct conv *conv)
{
    const struct xt_tensor *residual = conv->fold.residual;
    return conv->op.device->kind == XT_DEVICE_XPU && residual &&
           residual->dtype != conv->out->dtype;
}

static enum xt_status append_copy(dnnl_post_ops_t ops, const struct conv *conv, struct xt_err *err)
{
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = tensor_md(conv->out, XT_F32, &md, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.post_ops_append_binary(ops, dnnl_binary_add, md),
                               "what is added to a convolution", err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    return status;
}

/* What follows the convolution in the same kernel: the residual (NULL: none), which its output's
 * memory holds, is added; negative values become 0. */
static enum xt_status add_post_ops(dnnl_primitive_attr_t attr, const struct conv *conv,
                                   struct xt_err *err)
{
    static const char what[] = "what follows a convolution";
    const struct xt_tensor *residual = conv->fold.residual;
    dnnl_post_ops_t ops = NULL;
    enum xt_status status = xt_dnnl_check(xt_dnnl.post_ops_create(&ops), what, err);
    if (status)
        return status;
    if (xt_conv_copies_residual(conv))
        status = append_copy(ops, conv, err);
    else if (residual)
        status = xt_dnnl_check(
            xt_dnnl.post_ops_append_sum(ops, residual->scale, 0, xt_dtype_dnnl(residual->dtype)),
            what, err);
    if (!status && conv->relu)
        status =
            xt_dnnl_check(xt_dnnl.post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0), what, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.primitive_attr_set_post_ops(attr, ops), what, err);
    xt_dnnl.post_ops_destroy(ops);
    return status;
}

static enum xt_status create_attr(dnnl_primitive_attr_t *attr, struct xt_err *err)
{
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.primitive_attr_create(attr), "attributes of a convolution", err);
    return status ? status
                  : xt_dnnl_check(xt_dnnl.primitive_attr_set_scratchpad_mode(
                                      *attr, dnnl_scratchpad_mode_user),
                                  "attributes of a convolution", err);
}

/* int8: one step for the source, one for the destination, one for each output channel's weights. */
static enum xt_status add_scales(dnnl_primitive_attr_t attr, const struct conv *conv,
                                 struct xt_err *err)
{
    static const char what[] = "the steps of an int8 convolution";
    enum { EACH_CHANNEL = 1 };
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.primitive_attr_set_scales_mask(attr, DNNL_ARG_SRC, 0), what, err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.primitive_attr_set_scales_mask(attr, DNNL_ARG_WEIGHTS, EACH_CHANNEL), what,
            err);
    if (!status && xt_dtype_is_int8(conv->out->dtype))
        status =
            xt_dnnl_check(xt_dnnl.primitive_attr_set_scales_mask(attr, DNNL_ARG_DST, 0), what, err);
    return status;
}

bool xt_conv_has_bias(const struct conv *conv)
{
    return conv->bias >= 0 || xt_conv_has_own_weights(conv);
}

static enum xt_status descs_init(const struct conv *conv, struct descs *d, struct xt_err *err)
{
    dnnl_dims_t weights = {conv->out->c, conv->in->c, conv->kernel[0], conv->kernel[1]};
    dnnl_dims_t bias = {conv->out->c};
    dnnl_data_type_t dtype = xt_conv_reads_int8(conv) ? dnnl_s8 : xt_dtype_dnnl(conv->in->dtype);
    enum xt_status status = tensor_md(conv->in, conv->in->dtype, &d->in, err);
    if (!status)
        status = tensor_md(conv->out, conv->out->dtype, &d->out, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&d->weights, 4, weights, dtype,
                                                                   dnnl_format_tag_any),
                               "the weights", err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&d->weights_grad, 4, weights,
                                                                   dnnl_f32, dnnl_format_tag_any),
                               "the weights' gradient", err);
    if (!status && xt_conv_has_bias(conv))
        status =
            xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&d->bias, 1, bias, dnnl_f32, dnnl_a),
                          "the bias", err);
    if (!status)
        status = create_attr(&d->attr, err);
    if (!status)
        status = create_attr(&d->post_attr, err);
    if (!status && (conv->fold.residual || conv->relu))
        status = add_post_ops(d->post_attr, conv, err);
    if (!status && xt_conv_reads_int8(conv))
        status = add_scales(d->post_attr, conv, err);
    return status;
}

static enum xt_status create_descriptors(struct conv *conv, const struct xt_graph *graph,
                                         const struct descs *d, struct xt_err *err)
{
    dnnl_engine_t engine = graph->options.device->engine;
    bool training = graph->options.training;
    enum xt_status status = xt_dnnl_check(
        xt_dnnl.convolution_forward_primitive_desc_create(
            &conv->forward.pd, engine, training ? dnnl_forward_training : dnnl_forward_inference,
            dnnl_convolution_direct, d->in, d->weights, d->bias, d->out, conv->strides,
            conv->dilates, conv->pads, conv->pads, d->post_attr),
        "the convolution", err);
    if (status || !training || conv->op.frozen)
        return status;
    status = xt_dnnl_check(xt_dnnl.convolution_backward_weights_primitive_desc_create(
                               &conv->backward_weights.pd, engine, dnnl_convolution_direct, d->in,
                               d->weights_grad, d->bias, d->out, conv->strides, conv->dilates,
                               conv->pads, conv->pads, conv->forward.pd, d->attr),
                           "the convolution's weight gradient", err);
    if (status || !conv->in->wants_grad)
        return status;
    return xt_dnnl_check(xt_dnnl.convolution_backward_data_primitive_desc_create(
                             &conv->backward_data.pd, engine, dnnl_convolution_direct, d->in,
                             d->weights, d->out, conv->strides, conv->dilates, conv->pads,
                             conv->pads, conv->forward.pd, d->attr),
                         "the convolution's data gradient", err);
}

static void count_scratchpad(const struct step *step, struct xt_graph *graph)
{
    if (!step->pd)
        return;
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = md ? xt_dnnl.memory_desc_get_size(md) : 0;
    if (bytes > graph->scratchpad_bytes)
        graph->scratchpad_bytes = bytes;
}

/* The master weights take the gradient's format. */
static enum xt_status set_master_format(const struct conv *conv, struct xt_graph *graph,
                                        struct xt_err *err)
{
    struct xt_param *weight = &graph->options.params->items[conv->weight];
    if (graph->options.params->values || !conv->backward_weights.pd)
        return XT_OK;
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(conv->backward_weights.pd, dnnl_query_diff_weights_md, 0);
    return xt_dnnl_check(xt_dnnl.memory_desc_clone(&weight->md, md), weight->name, err);
}

enum xt_status xt_conv_use_buffers(struct conv *conv, struct xt_graph *graph, struct xt_err *err)
{
    int forward = xt_op_forward_time(&conv->op);
    int backward = xt_op_backward_time(graph, &conv->op);
    enum xt_status status = xt_graph_use_value(graph, conv->in, forward, err);
    if (!status && conv->fold.residual) {
        status = xt_graph_use_value(graph, conv->fold.residual, forward, err);
        conv->out->value = conv->fold.residual->value;
    }
    if (!status)
        status = xt_graph_use_value(graph, conv->out, forward, err);
    if (status || !graph->options.training || conv->op.frozen)
        return status;
    status = xt_graph_use_value(graph, conv->in, backward, err);
    if (!status && conv->relu)
        status = xt_graph_use_value(graph, conv->out, backward, err);
    for (int r = 0; r < conv->out->readers && !status; r++)
        status = xt_graph_use_grad(graph, conv->out, r, backward, err);
    if (!status && conv->in->wants_grad)
        status = xt_graph_use_grad(graph, conv->in, conv->reader, backward, err);
    return status;
}

enum xt_status xt_conv_describe(struct conv *conv, const struct xt_graph *graph, struct xt_err *err)
{
    if (conv->out->readers > 1 && !conv->relu)
        return xt_err_set(err, XT_ERR_RUN,
                          "a convolution without ReLU whose output has more than one reader");
    struct descs d = {0};
    enum xt_status status = descs_init(conv, &d, err);
    if (!status)
        status = create_descriptors(conv, graph, &d, err);
    descs_clear(&d);
    return status;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    enum xt_status status = xt_conv_describe(conv, graph, err);
    if (!status)
        status = set_master_format(conv, graph, err);
    if (!status)
        status = xt_conv_use_buffers(conv, graph, err);
    count_scratchpad(&conv->forward, graph);
    count_scratchpad(&conv->backward_data, graph);
    count_scratchpad(&conv->backward_weights, graph);
    return status;
}

/* ---- memories ---- */

static enum xt_status add_memory(struct conv *conv, const struct xt_graph *graph,
                                 const_dnnl_memory_desc_t md, void *data, dnnl_memory_t *out,
                                 struct xt_err *err)
{
    enum xt_status status = xt_dnnl_check(
        xt_dnnl.memory_create(out, md, graph->options.device->engine, data), conv->op.name, err);
    if (!status)
        conv->memories[conv->memory_count++] = *out;
    return status;
}

static void add_arg(struct step *step, int arg, dnnl_memory_t memory)
{
    step->args[step->arg_count++] = (dnnl_exec_arg_t){arg, memory};
}

static enum xt_status finish_step(struct conv *conv, const struct xt_graph *graph,
                                  struct step *step, struct xt_err *err)
{
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.primitive_create(&step->primitive, step->pd), conv->op.name, err);
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_scratchpad_md, 0);
    dnnl_memory_t scratchpad = NULL;
    if (!status)
        status = add_memory(conv, graph, md, graph->scratchpad->data, &scratchpad, err);
    if (!status)
        add_arg(step, DNNL_ARG_SCRATCHPAD, scratchpad);
    return status;
}

/* A memory of the kernel's weight format: the master itself where format and type are the same,
 * else a copy of its own and the reorder that fills it. */
static enum xt_status bind_working(struct conv *conv, struct xt_graph *graph, struct working *w,
                                   const struct step *step, const_dnnl_memory_desc_t master_md,
                                   dnnl_memory_t master, struct xt_err *err)
{
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_weights_md, 0);
    if (!xt_conv_has_own_weights(conv) && xt_dnnl.memory_desc_equal(md, master_md)) {
        w->memory = master;
        return XT_OK;
    }
    dnnl_engine_t engine = graph->options.device->engine;
    size_t bytes = xt_dnnl.memory_desc_get_size(md);
    enum xt_status status =
        xt_mem_aligned(&w->data, bytes, 1, "working copies of the weights", err);
    graph->working_bytes += bytes;
    if (!status)
        status = add_memory(conv, graph, md, w->data, &w->memory, err);
    if (status || xt_conv_has_own_weights(conv))
        return status;
    if (!status)
        status = xt_dnnl_check(xt_dnnl.reorder_primitive_desc_create(&w->reorder.pd, master_md,
                                                                     engine, md, engine, NULL),
                               "the working copy of the weights", err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.primitive_create(&w->reorder.primitive, w->reorder.pd),
                               "the working copy of the weights", err);
    add_arg(&w->reorder, DNNL_ARG_FROM, master);
    add_arg(&w->reorder, DNNL_ARG_TO, w->memory);
    return status;
}

/* The memories that the steps share. */
struct shared {
    const_dnnl_memory_desc_t master_md;
    dnnl_memory_desc_t plain; /* owned; where the master has no format of its own */
    dnnl_memory_t in, out, master, bias;
};

static enum xt_status bind_shared(struct conv *conv, struct xt_graph *graph, struct shared *s,
                                  struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    struct xt_param *weight = &params->items[conv->weight];
    dnnl_dims_t dims = {conv->out->c, conv->in->c, conv->kernel[0], conv->kernel[1]};
    enum xt_status status = XT_OK;
    if (!weight->md)
        status = xt_dnnl_check(
            xt_dnnl.memory_desc_create_with_tag(&s->plain, 4, dims, dnnl_f32, dnnl_oihw),
            "the weights", err);
    s->master_md = weight->md ? weight->md : s->plain;
    if (!status)
        status = add_memory(conv, graph,
                            xt_dnnl.primitive_desc_query_md(conv->forward.pd, dnnl_query_src_md, 0),
                            conv->in->value->data, &s->in, err);
    if (!status)
        status = add_memory(conv, graph,
                            xt_dnnl.primitive_desc_query_md(conv->forward.pd, dnnl_query_dst_md, 0),
                            conv->out->value->data, &s->out, err);
    if (!status)
        status =
            add_memory(conv, graph, s->master_md, xt_params_value(params, weight), &s->master, err);
    if (!status && xt_conv_has_own_weights(conv))
        status = xt_mem_aligned(&conv->own_bias, (size_t)conv->out->c, sizeof(float),
                                "a folded bias", err);
    if (!status && xt_conv_has_bias(conv))
        status = add_memory(
            conv, graph,
            xt_dnnl.primitive_desc_query_md(conv->forward.pd, dnnl_query_weights_md, 1),
            conv->own_bias ? conv->own_bias : xt_params_value(params, &params->items[conv->bias]),
            &s->bias, err);
    return status;
}

/* One float32, or one for each output channel, as an argument of the forward step. */
static enum xt_status add_scale_arg(struct conv *conv, const struct xt_graph *graph, int arg,
                                    float *scales, int count, struct xt_err *err)
{
    dnnl_memory_desc_t md = NULL;
    dnnl_memory_t memory = NULL;
    dnnl_dims_t dims = {count};
    enum xt_status status = xt_dnnl_check(
        xt_dnnl.memory_desc_create_with_tag(&md, 1, dims, dnnl_f32, dnnl_a), conv->op.name, err);
    if (!status)
        status = add_memory(conv, graph, md, scales, &memory, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    if (!status)
        add_arg(&conv->forward, DNNL_ARG_ATTR_SCALES | arg, memory);
    return status;
}

static enum xt_status bind_scales(struct conv *conv, const struct xt_graph *graph,
                                  struct xt_err *err)
{
    enum xt_status status = xt_mem_aligned(&conv->weight_scales, (size_t)conv->out->c,
                                           sizeof(float), "the steps of int8 weights", err);
    if (!status)
        status = add_scale_arg(conv, graph, DNNL_ARG_SRC, &conv->in->scale, 1, err);
    if (!status)
        status =
            add_scale_arg(conv, graph, DNNL_ARG_WEIGHTS, conv->weight_scales, conv->out->c, err);
    if (!status && xt_dtype_is_int8(conv->out->dtype))
        status = add_scale_arg(conv, graph, DNNL_ARG_DST, &conv->out->scale, 1, err);
    return status;
}

static enum xt_status bind_forward(struct conv *conv, struct xt_graph *graph,
                                   const struct shared *s, struct xt_err *err)
{
    enum xt_status status = bind_working(conv, graph, &conv->forward_weights, &conv->forward,
                                         s->master_md, s->master, err);
    if (status)
        return status;
    add_arg(&conv->forward, DNNL_ARG_SRC, s->in);
    add_arg(&conv->forward, DNNL_ARG_DST, s->out);
    add_arg(&conv->forward, DNNL_ARG_WEIGHTS, conv->forward_weights.memory);
    if (xt_conv_has_bias(conv))
        add_arg(&conv->forward, DNNL_ARG_BIAS, s->bias);
    if (xt_conv_reads_int8(conv))
        status = bind_scales(conv, graph, err);
    return status ? status : finish_step(conv, graph, &conv->forward, err);
}

static enum xt_status bind_backward_weights(struct conv *conv, struct xt_graph *graph,
                                            const struct shared *s, dnnl_memory_t out_grad,
                                            struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    struct step *step = &conv->backward_weights;
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_diff_weights_md, 0);
    if (!xt_dnnl.memory_desc_equal(md, s->master_md))
        return xt_err_set(err, XT_ERR_RUN,
                          "the parameters were laid out for another graph's weight gradient");
    dnnl_memory_t weights = NULL;
    dnnl_memory_t bias = NULL;
    enum xt_status status = add_memory(
        conv, graph, md, xt_params_grad(params, &params->items[conv->weight]), &weights, err);
    if (!status && conv->bias >= 0)
        status = add_memory(
            conv, graph, xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_diff_weights_md, 1),
            xt_params_grad(params, &params->items[conv->bias]), &bias, err);
    if (status)
        return status;
    add_arg(step, DNNL_ARG_SRC, s->in);
    add_arg(step, DNNL_ARG_DIFF_DST, out_grad);
    add_arg(step, DNNL_ARG_DIFF_WEIGHTS, weights);
    if (conv->bias >= 0)
        add_arg(step, DNNL_ARG_DIFF_BIAS, bias);
    return finish_step(conv, graph, step, err);
}

static enum xt_status bind_backward_data(struct conv *conv, struct xt_graph *graph,
                                         const struct shared *s, dnnl_memory_t out_grad,
                                         struct xt_err *err)
{
    struct step *step = &conv->backward_data;
    dnnl_memory_t in_grad = NULL;
    enum xt_status status =
        bind_working(conv, graph, &conv->backward_weights_copy, step, s->master_md, s->master, err);
    if (!status)
        status = add_memory(conv, graph,
                            xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_diff_src_md, 0),
                            conv->in->grad[conv->reader]->data, &in_grad, err);
    if (status)
        return status;
    add_arg(step, DNNL_ARG_DIFF_DST, out_grad);
    add_arg(step, DNNL_ARG_WEIGHTS, conv->backward_weights_copy.memory);
    add_arg(step, DNNL_ARG_DIFF_SRC, in_grad);
    return finish_step(conv, graph, step, err);
}

static enum xt_status bind_steps(struct conv *conv, struct xt_graph *graph, const struct shared *s,
                                 struct xt_err *err)
{
    enum xt_status status = bind_forward(conv, graph, s, err);
    if (status || !graph->options.training || conv->op.frozen)
        return status;
    dnnl_memory_t out_grad = NULL;
    status = add_memory(
        conv, graph,
        xt_dnnl.primitive_desc_query_md(conv->backward_weights.pd, dnnl_query_diff_dst_md, 0),
        conv->out->grad[0]->data, &out_grad, err);
    if (!status)
        status = bind_backward_weights(conv, graph, s, out_grad, err);
    if (!status && conv->backward_data.pd)
        status = bind_backward_data(conv, graph, s, out_grad, err);
    return status;
}

static enum xt_status bind(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    struct shared s = {0};
    enum xt_status status = bind_shared(conv, graph, &s, err);
    if (!status)
        status = bind_steps(conv, graph, &s, err);
    if (s.plain)
        xt_dnnl.memory_desc_destroy(s.plain);
    return status;
}

/* ---- running ---- */

static enum xt_status execute(const struct step *step, const struct xt_graph *graph,
                              const char *what, struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.primitive_execute(step->primitive, graph->options.device->stream,
                                                   step->arg_count, step->args),
                         what, err);
}

/* scale[o] = gamma / sqrt(var + eps) of the folded norm, and own_bias, the bias that goes with it;
 * without a norm 1 and the bias as it is. */
static void fold_bias(const struct conv *conv, struct xt_params *params, float *scale)
{
    const float *own = conv->bias >= 0 ? xt_params_value(params, &params->items[conv->bias]) : NULL;
    for (int o = 0; o < conv->out->c; o++) {
        scale[o] = 1;
        conv->own_bias[o] = own ? own[o] : 0;
    }
    if (!conv->folded)
        return;
    const struct xt_norm_params *norm = &conv->fold.params;
    const float *gamma = xt_params_value(params, &params->items[norm->scale]);
    const float *beta = xt_params_value(params, &params->items[norm->shift]);
    const float *mean = xt_params_value(params, &params->items[norm->mean]);
    const float *var = xt_params_value(params, &params->items[norm->var]);
    for (int o = 0; o < conv->out->c; o++) {
        double factor = (double)gamma[o] / sqrt((double)var[o] + XT_BN_EPS);
        double bias = (double)conv->own_bias[o] - (double)mean[o];
        scale[o] = (float)factor;
        conv->own_bias[o] = (float)((double)beta[o] + bias * factor);
    }
}

/* On a CPU without VNNI two products are added up in 16 bits, which 7 bits of weight do not
 * overflow; where the source has a sign, oneDNN sees to that itself. */
int xt_conv_weight_most(const struct conv *conv)
{
    bool adds_in_32 = conv->op.device->kind == XT_DEVICE_XPU || xt_device_cpu_has_vnni();
    return adds_in_32 || conv->in->dtype == XT_S8 ? 127 : 63;
}

/* Each output channel's weights become whole numbers, with a step so that the largest just fits;
 * what the source's offset adds goes into the bias. */
static void quantise_weights(struct conv *conv, float *weights, size_t row)
{
    const float most = (float)xt_conv_weight_most(conv);
    float offset = conv->in->offset * conv->in->scale;
    for (size_t o = 0; o < (size_t)conv->out->c; o++) {
        float *w = weights + o * row;
        float largest = 0;
        for (size_t i = 0; i < row; i++)
            largest = fmaxf(largest, fabsf(w[i]));
        float step = largest > 0 ? largest / most : 1;
        double sum = 0;
        for (size_t i = 0; i < row; i++) {
            w[i] = rintf(w[i] / step);
            sum += (double)w[i];
        }
        conv->weight_scales[o] = step;
        conv->own_bias[o] += (float)(sum * (double)step * (double)offset);
    }
}

enum xt_status xt_conv_make_weights(struct conv *conv, struct xt_params *params, float *weights,
                                    struct xt_err *err)
{
    size_t channels = (size_t)conv->out->c;
    size_t row = (size_t)(conv->in->c * conv->kernel[0] * conv->kernel[1]);
    float *scale = NULL;
    enum xt_status status = xt_mem_calloc(&scale, channels, sizeof *scale, "folded weights", err);
    if (status)
        return status;
    fold_bias(conv, params, scale);
    for (size_t o = 0; o < channels; o++)
        for (size_t i = 0; i < row; i++)
            weights[o * row + i] *= scale[o];
    if (xt_conv_reads_int8(conv))
        quantise_weights(conv, weights, row);
    free(scale);
    return XT_OK;
}

/* By way of `weights`, plain and in float32, into the kernel's format and type. */
static enum xt_status refresh_by(struct conv *conv, struct xt_graph *graph, float *weights,
                                 const_dnnl_memory_desc_t plain, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    const struct xt_param *weight = &params->items[conv->weight];
    struct xt_device *device = graph->options.device;
    enum xt_status status = xt_device_reorder(device, weight->md ? weight->md : plain,
                                              xt_params_value(params, weight), plain, weights, err);
    if (!status)
        status = xt_conv_make_weights(conv, params, weights, err);
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(conv->forward.pd, dnnl_query_weights_md, 0);
    return status ? status
                  : xt_device_reorder(device, plain, weights, md, conv->forward_weights.data, err);
}

static enum xt_status refresh_own(struct conv *conv, struct xt_graph *graph, struct xt_err *err)
{
    dnnl_dims_t dims = {conv->out->c, conv->in->c, conv->kernel[0], conv->kernel[1]};
    size_t count = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]);
    dnnl_memory_desc_t plain = NULL;
    float *weights = NULL;
    enum xt_status status = xt_mem_aligned(&weights, count, sizeof *weights, "folded weights", err);
    if (!status)
        status =
            xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&plain, 4, dims, dnnl_f32, dnnl_oihw),
                          "folded weights", err);
    if (!status)
        status = refresh_by(conv, graph, weights, plain, err);
    if (plain)
        xt_dnnl.memory_desc_destroy(plain);
    free(weights);
    return status;
}

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    if (xt_conv_has_own_weights(conv))
        return refresh_own(conv, graph, err);
    struct working *copies[] = {&conv->forward_weights, &conv->backward_weights_copy};
    for (int i = 0; i < 2; i++) {
        if (!copies[i]->reorder.primitive)
            continue;
        enum xt_status status =
            execute(&copies[i]->reorder, graph, "the working copy of the weights", err);
        if (status)
            return status;
    }
    return XT_OK;
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    enum xt_status status = execute(&conv->forward, graph, "the convolution", err);
    if (!status && graph->recording && conv->out->dtype == XT_F32)
        status = xt_recording_see(graph->recording, graph, conv->out, conv->out->value->data,
                                  !conv->relu, err);
    return status;
}

static enum xt_status run_backward(struct conv *conv, struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status =
        execute(&conv->backward_weights, graph, "the convolution's weight gradient", err);
    if (!status && conv->backward_data.pd)
        status = execute(&conv->backward_data, graph, "the convolution's data gradient", err);
    return status;
}

static void relu_backward(const struct conv *conv, const struct xt_graph *graph)
{
    const struct xt_tensor *out = conv->out;
    size_t sample = xt_tensor_count(out) / (size_t)out->n;
    size_t bytes = sample * xt_dtype_size(out->dtype);
    const char *y = out->value->data;
    char *dy = out->grad[0]->data;
    const char *more = out->readers > 1 ? out->grad[1]->data : NULL;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < out->n; n++)
        graph->loops->relu_backward(out->dtype, y + (size_t)n * bytes, dy + (size_t)n * bytes,
                                    more ? more + (size_t)n * bytes : NULL, sample);
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    if (conv->relu)
        relu_backward(conv, graph);
    return run_backward(conv, graph, err);
}

enum xt_status xt_conv_run_alone(struct xt_op *op, struct xt_graph *graph, bool is_backward,
                                 struct xt_err *err)
{
    if (op->program)
        return xt_xpu_program_run_only(op->program, is_backward ? XT_XPU_BACKWARD : XT_XPU_FORWARD,
                                       "the convolution", err);
    return is_backward ? run_backward((struct conv *)op, graph, err) : forward(op, graph, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    const struct conv *conv = (const struct conv *)op;
    const struct step *step = is_backward ? &conv->backward_weights : &conv->forward;
    return step->pd ? xt_dnnl_implementation(step->pd) : "";
}

const struct xt_op_class xt_op_conv = {
    .kind = "convolution",
    .prepare = prepare,
    .bind = bind,
    .forward = forward,
    .backward = backward,
    .refresh = refresh,
    .implementation = implementation,
    .destroy = destroy,
};

/* ---- describing ---- */

static int add_params(struct xt_graph *graph, struct conv *conv, const struct xt_conv_spec *spec,
                      struct xt_err *err)
{
    struct xt_param weight = {
        .role = XT_PARAM_WEIGHT,
        .ndims = 4,
        .dims = {spec->channels, conv->in->c, spec->kernel_h, spec->kernel_w},
        .file_dims = {spec->out.file_count ? spec->out.file_count : spec->channels,
                      spec->in.file_count ? spec->in.file_count : conv->in->c, spec->kernel_h,
                      spec->kernel_w},
    };
    /* Maps are read and copied, never written. */
    union {
        const int *in;
        int *out;
    } rows = {.in = spec->out.map}, columns = {.in = spec->in.map};
    weight.rows = rows.out;
    weight.columns = columns.out;
    snprintf(weight.name, sizeof weight.name, "%s.weight", spec->name);
    struct xt_param bias = {.role = XT_PARAM_BIAS,
                            .ndims = 1,
                            .dims = {spec->channels},
                            .file_dims = {weight.file_dims[0]},
                            .rows = rows.out};
    snprintf(bias.name, sizeof bias.name, "%s.bias", spec->name);
    if (spec->fully_connected) {
        weight.file_ndims = 2;
        weight.uniform = bias.uniform = 1 / sqrtf((float)conv->in->c);
    }
    conv->weight = xt_graph_param(graph, &weight, err);
    conv->bias = conv->weight >= 0 && spec->bias ? xt_graph_param(graph, &bias, err) : -1;
    return conv->weight < 0 || (spec->bias && conv->bias < 0) ? -1 : 0;
}

bool xt_is_conv(const struct xt_op *op)
{
    return op->class == &xt_op_conv || op->class == &xt_xpu_conv;
}

static struct conv *find_conv(const struct xt_graph *graph, const struct xt_tensor *out)
{
    for (int i = 0; i < graph->op_count; i++) {
        struct conv *conv = (struct conv *)graph->ops[i];
        if (xt_is_conv(graph->ops[i]) && conv->out == out)
            return conv;
    }
    return NULL;
}

static void write_int8(const struct xt_graph *graph, struct conv *conv)
{
    xt_ranges_quantise(graph->options.int8, conv->out, !conv->relu);
    conv->op.dtype = conv->out->dtype;
    conv->op.out_bytes = xt_tensor_bytes(conv->out);
}

bool xt_conv_can_absorb(const struct xt_graph *graph, const struct xt_tensor *out,
                        const struct xt_tensor *residual)
{
    const struct conv *conv = find_conv(graph, out);
    return conv && !conv->relu && !conv->folded && out->readers == 0 && conv->in != residual &&
           !graph->options.training;
}

enum xt_status xt_conv_absorb(struct xt_graph *graph, struct xt_tensor *out,
                              const struct xt_fold *fold, struct xt_err *err)
{
    struct conv *conv = find_conv(graph, out);
    struct xt_tensor *residual = fold->residual;
    if (residual && (xt_tensor_bytes(residual) != xt_tensor_bytes(out) || residual->c != out->c))
        return xt_err_set(err, XT_ERR_RUN, "%s: the residual %s has another shape", out->name,
                          residual->name);
    if (residual && xt_graph_read(residual, err) < 0)
        return err->status;
    if (residual)
        residual->overwritten = true;
    conv->folded = true;
    conv->fold = *fold;
    conv->relu = fold->relu;
    if (xt_dtype_is_int8(out->dtype))
        write_int8(graph, conv);
    xt_graph_run_last(graph, &conv->op);
    return XT_OK;
}

static int out_size(int in, int kernel, int stride, int pad)
{
    return (in + 2 * pad - kernel) / stride + 1;
}

struct xt_tensor *xt_graph_conv(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_conv_spec *spec, struct xt_err *err)
{
    struct conv *conv = xt_graph_add_op(
        graph, sizeof *conv, xt_on_xpu(graph) ? &xt_xpu_conv : &xt_op_conv, spec->name, err);
    if (!conv)
        return NULL;
    conv->bias = -1;
    conv->in = in;
    conv->reader = xt_graph_read(in, err);
    if (conv->reader < 0 || add_params(graph, conv, spec, err))
        return NULL;
    conv->relu = spec->relu;
    graph->options.params->items[conv->weight].frozen = conv->op.frozen;
    if (conv->bias >= 0)
        graph->options.params->items[conv->bias].frozen = conv->op.frozen;
    conv->kernel[0] = spec->kernel_h;
    conv->kernel[1] = spec->kernel_w;
    conv->strides[0] = spec->stride_h ? spec->stride_h : 1;
    conv->strides[1] = spec->stride_w ? spec->stride_w : 1;
    conv->pads[0] = spec->pad_h;
    conv->pads[1] = spec->pad_w;
    int h = out_size(in->h, spec->kernel_h, (int)conv->strides[0], spec->pad_h);
    int w = out_size(in->w, spec->kernel_w, (int)conv->strides[1], spec->pad_w);
    if (h < 1 || w < 1) {
        xt_err_set(err, XT_ERR_USAGE, "%s: an input of %dx%d is too small for this network",
                   spec->name, in->h, in->w);
        return NULL;
    }
    enum xt_dtype dtype = spec->why_f32 ? XT_F32 : graph->options.dtype;
    conv->out = xt_graph_add_tensor(graph, spec->name, in->n, h, w, spec->channels, dtype, err);
    if (!conv->out)
        return NULL;
    conv->out->wants_grad = !conv->op.frozen;
    conv->op.dtype = dtype;
    conv->op.why_f32 = spec->why_f32;
    conv->op.out_bytes = xt_tensor_bytes(conv->out);
    if (!spec->why_f32 && xt_conv_reads_int8(conv))
        write_int8(graph, conv);
    conv->op.flops = 2.0 * in->n * h * w * spec->channels * in->c * spec->kernel_h * spec->kernel_w;
    conv->op.backward_flops = conv->op.frozen ? 0 : (in->wants_grad ? 2 : 1) * conv->op.flops;
    return conv->out;
}
