/* A convolution's backward pass: the ReLU's gradient with the sum of two readers' gradients in one
 * pass, and the weight gradient by loops where they are faster than oneDNN's primitive
 * (docs/performance.md); the data gradient is the program's. */
#include "base/mem.h"
#include "models/graph/cpu/cpu.h"

struct state {
    struct xt_weight_grad job;
    xt_weight_grad_loop *loop;
    struct xt_buffer *scratch;
};

/* The loops that make its weight gradient; NULL: oneDNN's primitive does, as it is the faster one
 * in float32 where there are many weights (docs/performance.md). */
static xt_weight_grad_loop *loop_for(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { F32_WEIGHTS_MOST = 32768 };
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    int64_t weights = conv->kernel[0] * conv->kernel[1] * in->c * out->c;
    if (conv->groups > 1 || conv->dilates[0] || conv->dilates[1] || in->dtype != out->dtype)
        return NULL;
    if (in->dtype == XT_BF16 && xt_device_cpu_has_tiles())
        return graph->loops->weight_grad;
    if (in->dtype == XT_F32 && weights <= F32_WEIGHTS_MOST && xt_device_cpu_has_avx512())
        return graph->loops->weight_grad_f32;
    return NULL;
}

static struct xt_weight_grad describe_job(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return (struct xt_weight_grad){
        .n = in->n,
        .h = in->h,
        .w = in->w,
        .in_c = in->c,
        .out_h = out->h,
        .out_w = out->w,
        .out_c = out->c,
        .kernel_h = (int)conv->kernel[0],
        .kernel_w = (int)conv->kernel[1],
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .pad_h = (int)conv->pads[0],
        .pad_w = (int)conv->pads[1],
        .f32 = in->dtype == XT_F32,
    };
}

void xt_cpu_conv_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_conv_op *conv = (struct xt_conv_op *)op;
    struct state *state = NULL;
    op->own_name[0] = op->own_name[1] = NULL;
    xt_weight_grad_loop *loop = xt_op_learns(op, graph) ? loop_for(conv, graph) : NULL;
    conv->own_weight_grad = loop != NULL;
    if (conv->own_weight_grad) {
        if (xt_mem_calloc(&state, 1, sizeof *state, op->name, &graph->err))
            return;
        state->job = describe_job(conv);
        xt_weight_grad_plan(&state->job, graph->options.device->threads);
        conv->weight_grad_format = state->job.turned ? dnnl_OIhw16o16i : dnnl_OIhw16i16o;
        state->scratch =
            xt_graph_temporary(graph, xt_op_out(op, 0), xt_weight_grad_scratch(&state->job),
                               xt_op_backward_time(graph, op));
        op->own = state;
        state->loop = loop;
        op->own_name[1] = state->job.f32 ? "xtrain AVX-512" : "xtrain AMX";
    }
    xt_kind_conv.describe(op, graph);
}

static void relu_backward(const struct xt_tensor *out, const struct xt_graph *graph)
{
    size_t sample = xt_tensor_count(out) / (size_t)out->n;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < out->n; n++)
        graph->loops->relu_backward(
            out->dtype, xt_tensor_sample(out, out->value, n),
            xt_tensor_sample(out, out->grad[0], n),
            out->readers > 1 ? xt_tensor_sample(out, out->grad[1], n) : NULL, sample);
}

static enum xt_status weight_gradient(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    struct state *state = op->own;
    struct xt_weight_grad *job = &state->job;
    job->in = xt_op_in(op, 0)->value->data;
    job->out_grad = xt_op_out(op, 0)->grad[0]->data;
    job->scratch = state->scratch->data;
    job->grad = xt_program_address(&op->program, &conv->weight_grad, err);
    if (!job->grad)
        return err->status;
    if (conv->bias >= 0) {
        struct xt_location bias = xt_graph_grad_of(graph, conv->bias);
        job->bias_grad = xt_program_address(&op->program, &bias, err);
        if (!job->bias_grad)
            return err->status;
    }
    int parts = xt_weight_grad_parts(job);
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++)
        state->loop(job, part);
    size_t stretch = (job->weights + (size_t)parts - 1) / (size_t)parts;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++) {
        size_t first = stretch * (size_t)part;
        size_t end = first + stretch < job->weights ? first + stretch : job->weights;
        xt_weight_grad_add_up(job, first, end);
    }
    return XT_OK;
}

enum xt_status xt_cpu_conv_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (((const struct xt_conv_op *)op)->relu)
        relu_backward(xt_op_out(op, 0), graph);
    if (op->own)
        status = weight_gradient(op, graph, err);
    return status ? status : xt_program_run(&op->program, XT_BACKWARD, err);
}
