/* What a graph has of its own on an XPU: its arena, the logits' way to the host and their
 * gradient's way back, and the running statistics; and what its ops share. */
#include <stdlib.h>

#include "base/mem.h"
#include "models/graph/xpu_ops.h"

/* ---- ops ---- */

enum xt_status xt_xpu_op_begin(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(&op->program, 1, sizeof *op->program, op->name, err);
    if (!status)
        xt_xpu_program_init(op->program, graph->options.device, op->name);
    return status;
}

enum xt_status xt_xpu_op_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)graph;
    return xt_xpu_program_run(op->program, XT_XPU_FORWARD, err);
}

enum xt_status xt_xpu_op_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)graph;
    return xt_xpu_program_run(op->program, XT_XPU_BACKWARD, err);
}

enum xt_status xt_xpu_op_before(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)graph;
    return xt_xpu_program_run(op->program, XT_XPU_BEFORE, err);
}

struct xt_buffer *xt_xpu_temporary(struct xt_graph *graph, const struct xt_tensor *tensor,
                                   size_t bytes, int time, struct xt_err *err)
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, tensor->name, "temporary", bytes, err);
    if (buffer)
        xt_buffer_use(buffer, time);
    return buffer;
}

struct xt_buffer *xt_xpu_permanent(struct xt_graph *graph, const char *owner, const char *kind,
                                   size_t bytes, struct xt_err *err)
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, owner, kind, bytes, err);
    if (!buffer)
        return NULL;
    xt_buffer_use(buffer, 0);
    xt_buffer_use(buffer, 2 * graph->op_count + 1);
    return buffer;
}

/* One memory that is to be. */
struct xt_xpu_pinned {
    struct xt_xpu_operand operand;
    const char *what;
    struct xt_device_memory *memory;
};

enum xt_status xt_xpu_pin(struct xt_graph *graph, const struct xt_xpu_operand *operand,
                          const char *what, struct xt_device_memory *out, struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    struct xt_xpu_graph *xpu = graph->xpu;
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = xt_xpu_desc(operand, &md, err);
    if (status)
        return status;
    size_t bytes = xt_dnnl.memory_desc_get_size(md);
    xt_dnnl.memory_desc_destroy(md);
    if (bytes > xt_device_allocation_most(device))
        return xt_device_refuse_piece(device, what, bytes, err);
    status = xt_mem_grow(&xpu->pinned, &xpu->pinned_capacity, xpu->pinned_count + 1,
                         sizeof *xpu->pinned, what, err);
    if (status)
        return status;
    xpu->pinned[xpu->pinned_count++] = (struct xt_xpu_pinned){*operand, what, out};
    graph->pinned_bytes += bytes;
    return XT_OK;
}

struct xt_xpu_place xt_xpu_value_of(const struct xt_graph *graph, int param)
{
    struct xt_params *params = graph->options.params;
    const struct xt_param *item = &params->items[param];
    return xt_xpu_in_arena(xt_param_is_statistic(item) ? &params->device.stats
                                                       : &params->device.values,
                           &item->offset);
}

struct xt_xpu_place xt_xpu_grad_of(const struct xt_graph *graph, int param)
{
    struct xt_params *params = graph->options.params;
    return xt_xpu_in_arena(&params->device.grads, &params->items[param].offset);
}

struct xt_xpu_place xt_xpu_batch_stat_of(const struct xt_graph *graph, int param)
{
    return xt_xpu_in_arena(&graph->xpu->batch_stats, &graph->options.params->items[param].offset);
}

struct xt_xpu_place xt_xpu_scale_of(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    return xt_xpu_in_arena(&graph->xpu->scales, &graph->xpu->scale_at[tensor->index]);
}

enum xt_status xt_xpu_follow_host(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                  size_t count, struct xt_device_memory *host,
                                  struct xt_xpu_place *out, struct xt_err *err)
{
    struct xt_xpu_operand from = xt_xpu_matrix(xt_xpu_in_memory(host), dnnl_f32, 1, count);
    enum xt_status status = xt_xpu_pin(graph, &from, kind, host, err);
    const struct xt_buffer *buffer =
        status ? NULL : xt_xpu_permanent(graph, op->name, kind, count * sizeof(float), err);
    if (!buffer)
        return err->status;
    *out = xt_xpu_in_buffer(buffer);
    struct xt_xpu_operand to = xt_xpu_matrix(*out, dnnl_f32, 1, count);
    return xt_xpu_reorder(op->program, XT_XPU_BEFORE, &from, &to, err);
}

/* ---- the graph ---- */

static enum xt_status add_crossing(struct xt_graph *graph, enum xt_xpu_phase phase,
                                   const struct xt_buffer *there, struct xt_device_memory *here,
                                   struct xt_err *err)
{
    struct xt_xpu_operand device = xt_xpu_tensor(graph->logits, there);
    struct xt_xpu_operand host = device;
    host.place = xt_xpu_in_memory(here);
    if (xt_xpu_pin(graph, &host, "the logits", here, err))
        return err->status;
    bool up = phase == XT_XPU_BACKWARD;
    return xt_xpu_reorder(&graph->xpu->crossing, phase, up ? &host : &device, up ? &device : &host,
                          err);
}

/* Buffers are addresses within allocations. oneDNN's OpenCL runtime takes those of unified
 * shared memory alone: its other memories are cl_mem objects. */
enum xt_status xt_xpu_graph_begin(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_device *device = graph->options.device;
    if (xt_dnnl_runs_opencl() && !device->opencl_memory)
        return xt_err_set(
            err, XT_ERR_DEVICE,
            "%s: this oneDNN runs GPUs with OpenCL, and %s has no unified shared memory there "
            "(cl_intel_unified_shared_memory), which networks need; take a oneDNN with the SYCL "
            "runtime (`make deps XPU=1`, or oneAPI's)",
            xt_dnnl_path(), device->name);
    enum xt_status status =
        xt_mem_calloc(&graph->xpu, 1, sizeof *graph->xpu, "what a graph has on an XPU", err);
    if (status)
        return status;
    xt_xpu_program_init(&graph->xpu->crossing, device, "the logits");
    xt_xpu_program_init(&graph->xpu->statistics, device, "the running statistics");
    return XT_OK;
}

enum xt_status xt_xpu_graph_prepare(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status =
        add_crossing(graph, XT_XPU_FORWARD, graph->logits->value, &graph->xpu->logits, err);
    const struct xt_buffer *grad = graph->logits->grad[graph->logits->readers - 1];
    if (!status && graph->options.training)
        status = add_crossing(graph, XT_XPU_BACKWARD, grad, &graph->xpu->logits_grad, err);
    size_t most = graph->xpu->crossing.scratchpad_bytes;
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->program->scratchpad_bytes > most)
            most = graph->ops[i]->program->scratchpad_bytes;
    graph->scratchpad_bytes = most;
    return status;
}

static enum xt_status allocate_pinned(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < graph->xpu->pinned_count && !status; i++) {
        const struct xt_xpu_pinned *pinned = &graph->xpu->pinned[i];
        dnnl_memory_desc_t md = NULL;
        status = xt_xpu_desc(&pinned->operand, &md, err);
        if (!status)
            status = xt_device_memory_create(graph->options.device, md, XT_ON_HOST, pinned->what,
                                             pinned->memory, err);
        if (md)
            xt_dnnl.memory_desc_destroy(md);
    }
    return status;
}

enum xt_status xt_xpu_graph_allocate(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_plan *plan = &graph->plan;
    void *data[XT_PLAN_SEGMENTS_MAX] = {NULL};
    enum xt_status status = allocate_pinned(graph, err);
    for (size_t i = 0; i < plan->segments && !status; i++) {
        struct xt_device_memory *segment = &graph->xpu->arena[i];
        status = xt_device_memory_create_bytes(graph->options.device, plan->segment_bytes[i],
                                               XT_ON_DEVICE, "the activations", segment, err);
        if (!status)
            status = xt_dnnl_check(xt_dnnl.memory_get_data_handle(segment->memory, &data[i]),
                                   "the activations", err);
    }
    for (int i = 0; i < graph->buffer_count && !status; i++) {
        struct xt_buffer *buffer = graph->buffers[i];
        buffer->data = (uint8_t *)data[buffer->segment] + buffer->offset;
    }
    return status;
}

/* ---- running statistics ---- */

/* A norm's share of its batch's statistics: none where it is frozen. */
static void fill_rates(const struct xt_graph *graph, const struct norm *norm, float *keep,
                       float *gain)
{
    const struct xt_params *params = graph->options.params;
    const struct xt_tensor *in = norm->in;
    double m = (double)in->n * in->h * in->w;
    const int which[] = {norm->param.mean, norm->param.var};
    for (int i = 0; i < 2 && !norm->op.frozen; i++)
        for (size_t k = 0; k < (size_t)in->c; k++) {
            size_t at = params->items[which[i]].offset + k;
            keep[at] = (float)(1 - XT_BN_MOMENTUM);
            gain[at] = (float)(XT_BN_MOMENTUM * (i == 1 && m > 1 ? m / (m - 1) : 1));
        }
}

static enum xt_status write_rates(struct xt_graph *graph, struct xt_err *err)
{
    size_t count = graph->options.params->stat_floats;
    size_t bytes = count * sizeof(float);
    float *rates = NULL;
    enum xt_status status =
        xt_mem_calloc(&rates, 2 * count, sizeof *rates, "the statistics' rates", err);
    if (status)
        return status;
    float *gain = rates + count;
    status = xt_device_memory_write(&graph->xpu->batch_stats, gain, bytes, XT_CAUSE_OTHER, err);
    for (size_t i = 0; i < count; i++)
        rates[i] = 1;
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->class == &xt_xpu_norm)
            fill_rates(graph, (const struct norm *)graph->ops[i], rates, gain);
    if (!status)
        status = xt_device_memory_write(&graph->xpu->keep, rates, bytes, XT_CAUSE_OTHER, err);
    if (!status)
        status = xt_device_memory_write(&graph->xpu->gain, gain, bytes, XT_CAUSE_OTHER, err);
    free(rates);
    return status;
}

/* running = keep * running + gain * the batch's, over the whole arena. */
static enum xt_status prepare_statistics(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_xpu_graph *xpu = graph->xpu;
    struct xt_params *params = graph->options.params;
    size_t count = params->stat_floats;
    struct xt_device_memory *own[] = {&xpu->batch_stats, &xpu->keep, &xpu->gain};
    enum xt_status status = XT_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = xt_device_memory_create_bytes(graph->options.device, count * sizeof(float),
                                               XT_ON_DEVICE, "running statistics", own[i], err);
    struct xt_xpu_operand of[3];
    for (int i = 0; i < 3; i++)
        of[i] = xt_xpu_matrix(xt_xpu_in_memory(own[i]), dnnl_f32, 1, count);
    struct xt_xpu_operand running =
        xt_xpu_matrix(xt_xpu_in_memory(&params->device.stats), dnnl_f32, 1, count);
    struct xt_xpu_posts add_running = {.count = 1,
                                       .items = {xt_xpu_then_with(dnnl_binary_add, running)}};
    if (!status)
        status = xt_xpu_binary(&xpu->statistics, XT_XPU_FORWARD, dnnl_binary_mul, &running, &of[1],
                               &running, NULL, err);
    if (!status)
        status = xt_xpu_binary(&xpu->statistics, XT_XPU_FORWARD, dnnl_binary_mul, &of[0], &of[2],
                               &running, &add_running, err);
    return status ? status : write_rates(graph, err);
}

/* ---- int8 ---- */

/* They are as the tensors were described, and stay. */
static enum xt_status write_scales(struct xt_graph *graph, struct xt_err *err)
{
    static const char what[] = "the steps of int8 numbers";
    float scales[XT_TENSORS_MAX];
    size_t count = (size_t)graph->tensor_count;
    for (size_t i = 0; i < count; i++) {
        graph->xpu->scale_at[i] = i;
        scales[i] = graph->tensors[i]->scale;
    }
    size_t bytes = count * sizeof *scales;
    struct xt_device_memory *memory = &graph->xpu->scales;
    enum xt_status status = xt_device_memory_create_bytes(graph->options.device, bytes,
                                                          XT_ON_DEVICE, what, memory, err);
    return status ? status : xt_device_memory_write(memory, scales, bytes, XT_CAUSE_OTHER, err);
}

/* ---- making ---- */

struct progress {
    const struct xt_graph_observer *observer;
    int done, all;
};

static void count_made(void *context)
{
    struct progress *progress = context;
    progress->done++;
    if (progress->observer->made)
        progress->observer->made(progress->observer->context, progress->done, progress->all);
}

enum xt_status xt_xpu_graph_bind(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_xpu_graph *xpu = graph->xpu;
    bool learns = graph->options.training && !graph->options.bn_frozen;
    enum xt_status status = learns ? prepare_statistics(graph, err) : XT_OK;
    if (!status && graph->options.int8)
        status = write_scales(graph, err);
    if (status)
        return status;
    struct progress progress = {.observer = &graph->options.observer};
    struct xt_xpu_making making = {.made = count_made, .context = &progress};
    for (int i = 0; i < graph->op_count; i++)
        progress.all += (int)xt_xpu_program_count(graph->ops[i]->program);
    progress.all += (int)xt_xpu_program_count(&xpu->crossing);
    progress.all += (int)xt_xpu_program_count(&xpu->statistics);
    struct xt_xpu_place scratchpad = xt_xpu_in_buffer(graph->scratchpad);
    for (int i = 0; i < graph->op_count && !status; i++)
        status = xt_xpu_program_bind(graph->ops[i]->program, scratchpad, &making, err);
    if (!status)
        status = xt_xpu_program_bind(&xpu->crossing, scratchpad, &making, err);
    return status ? status : xt_xpu_program_bind(&xpu->statistics, scratchpad, &making, err);
}

/* ---- running ---- */

enum xt_status xt_xpu_graph_check_pass(const struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_graph_pass *pass = &graph->pass;
    if (pass->training != graph->options.training ||
        (pass->training && pass->bn_frozen != graph->options.bn_frozen))
        return xt_err_set(err, XT_ERR_RUN, "the kernels on %s were made for %s, the pass is for %s",
                          graph->options.device->name,
                          graph->options.training ? "training" : "inference",
                          pass->training ? "training" : "inference");
    return XT_OK;
}

enum xt_status xt_xpu_graph_after_forward(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_xpu_graph *xpu = graph->xpu;
    enum xt_status status = XT_OK;
    if (graph->options.training && !graph->options.bn_frozen) {
        status = xt_xpu_program_run(&xpu->statistics, XT_XPU_FORWARD, err);
        graph->options.params->device.is_newer = true;
    }
    if (!status)
        status = xt_xpu_program_run(&xpu->crossing, XT_XPU_FORWARD, err);
    xt_traffic_add(graph->options.device, XT_CAUSE_LOGITS, false, xpu->logits.bytes);
    return status ? status
                  : xt_dnnl_check(xt_dnnl.stream_wait(graph->options.device->stream),
                                  "the forward pass", err);
}

enum xt_status xt_xpu_graph_before_backward(struct xt_graph *graph, struct xt_err *err)
{
    xt_traffic_add(graph->options.device, XT_CAUSE_GRADIENTS, true, graph->xpu->logits_grad.bytes);
    return xt_xpu_program_run(&graph->xpu->crossing, XT_XPU_BACKWARD, err);
}

void xt_xpu_graph_destroy(struct xt_graph *graph)
{
    struct xt_xpu_graph *xpu = graph->xpu;
    if (!xpu)
        return;
    xt_xpu_program_clear(&xpu->crossing);
    xt_xpu_program_clear(&xpu->statistics);
    for (size_t i = 0; i < graph->plan.segments; i++)
        xt_device_memory_destroy(&xpu->arena[i]);
    struct xt_device_memory *own[] = {&xpu->logits, &xpu->logits_grad, &xpu->batch_stats,
                                      &xpu->keep,   &xpu->gain,        &xpu->scales};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        xt_device_memory_destroy(own[i]);
    free(xpu->pinned);
    free(xpu);
    graph->xpu = NULL;
}
