#include "engine/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/system/thread.h"
#include "base/number.h"
#include "engine/backend.h"
#include "engine/create_primitives.h"
#include "engine/ranges.h"
#include "engine/recompute.h"
#include "engine/slices.h"
#include "engine/ops/layout_kernel.h"

enum xt_status xt_graph_create(struct xt_graph **out, const struct xt_graph_options *options,
                               struct xt_err *err)
{
    if (options->int8 && (options->training || !options->fuse))
        return xt_err_set(err, XT_ERR_USAGE,
                          "int8 is for inference, and for networks whose batch norms are part of "
                          "their convolutions (not with --no-fuse)");
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "the graph", err);
    if (status)
        return status;
    (*out)->options = *options;
    (*out)->backend = options->backend ? options->backend : xt_backend_of(options->device);
    (*out)->describing_frozen = options->learn_from != NULL;
    (*out)->loops = xt_loops_get();
    return XT_OK;
}

void xt_graph_destroy(struct xt_graph *graph)
{
    if (!graph)
        return;
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        xt_program_clear(&op->program);
        if (op->kind->destroy)
            op->kind->destroy(op);
        free(op->own);
        free(op);
    }
    xt_program_clear(&graph->transfer);
    xt_program_clear(&graph->statistics);
    xt_layout_kernel_clear(graph);
    struct xt_device_memory *own[] = {
        &graph->staging, &graph->scales,      &graph->batch_stats,     &graph->part,
        &graph->gain,    &graph->host_logits, &graph->host_logits_grad};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        xt_device_memory_destroy(own[i]);
    for (size_t i = 0; i < graph->plan.segments; i++)
        xt_device_memory_destroy(&graph->arena[i]);
    for (int i = 0; i < graph->tensor_count; i++)
        free(graph->tensors[i]);
    for (int i = 0; i < graph->buffer_count; i++)
        free(graph->buffers[i]);
    free(graph->pinned);
    free(graph->loop_scratch);
    free(graph->turns);
    free(graph);
}

/* ---- planning ---- */

/* The first buffer that is larger than the device allocates in one piece; NULL: none. */
static const struct xt_buffer *too_large(const struct xt_graph *graph)
{
    size_t most = xt_device_allocation_most(graph->options.device);
    for (int i = 0; i < graph->buffer_count && most; i++)
        if (graph->buffers[i]->bytes > most)
            return graph->buffers[i];
    return NULL;
}

/* Lays out the buffers that all workers share, or those of one worker, where an op finishes a slice
 * before the next op begins. */
static enum xt_status lay_out_some(struct xt_graph *graph, bool of_worker, struct xt_plan *plan,
                                   struct xt_err *err)
{
    struct xt_buffer *buffers[sizeof graph->buffers / sizeof graph->buffers[0]];
    size_t count = 0;
    for (int i = 0; i < graph->buffer_count; i++)
        if (graph->buffers[i]->of_worker == of_worker)
            buffers[count++] = graph->buffers[i];
    struct xt_plan_item *items = NULL;
    enum xt_status status = xt_mem_calloc(&items, count, sizeof *items, "the memory plan", err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct xt_plan_item){.bytes = buffers[i]->bytes,
                                         .first = buffers[i]->first,
                                         .last = buffers[i]->last,
                                         .rest = buffers[i]->forward_last,
                                         .recompute = buffers[i]->recompute};
    if (!of_worker)
        xt_slices_extend(graph, items, count);
    status =
        xt_plan_layout(items, count, xt_device_allocation_most(graph->options.device), plan, err);
    for (size_t i = 0; i < count && !status; i++) {
        buffers[i]->segment = items[i].segment;
        buffers[i]->offset = items[i].offset;
    }
    free(items);
    return status;
}

/* The workers' arenas follow each other after the shared part. */
static void add_workers(struct xt_graph *graph, const struct xt_plan *worker)
{
    enum { PAGE = 4096 };
    size_t before = (graph->plan.bytes + PAGE - 1) / PAGE * PAGE;
    size_t each = (worker->bytes + PAGE - 1) / PAGE * PAGE;
    for (int i = 0; i < graph->buffer_count; i++) {
        struct xt_buffer *buffer = graph->buffers[i];
        buffer->offset += buffer->of_worker ? before : 0;
        buffer->worker_bytes = buffer->of_worker ? each : buffer->worker_bytes;
    }
    graph->plan.bytes = before + each * (size_t)graph->slices.workers;
    graph->plan.segment_bytes[0] = graph->plan.bytes;
}

static enum xt_status lay_out(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_buffer *large = too_large(graph);
    struct xt_plan worker = {.segments = 0};
    if (large) {
        char what[128];
        snprintf(what, sizeof what, "%.64s (%s)", large->tensor, large->kind);
        return xt_device_refuse_piece(graph->options.device, what, large->bytes, err);
    }
    enum xt_status status = lay_out_some(graph, false, &graph->plan, err);
    if (status || graph->options.training || !graph->slices.workers)
        return status;
    status = lay_out_some(graph, true, &worker, err);
    if (!status)
        add_workers(graph, &worker);
    return status;
}

static void add_transfer(struct xt_graph *graph, enum xt_phase phase, const struct xt_buffer *there,
                         struct xt_device_memory *here)
{
    struct xt_operand device = xt_operand_tensor(graph->logits, there);
    struct xt_operand host = device;
    host.place = xt_in_memory(here);
    bool up = phase == XT_BACKWARD;
    xt_graph_pin(graph, &host, "the logits", here);
    xt_program_reorder(&graph->transfer, phase, up ? &host : &device, up ? &device : &host);
}

static const struct xt_buffer *logits_grad(const struct xt_graph *graph)
{
    return graph->logits->grad[graph->logits->readers - 1];
}

/* Transfers of the logits to the host and of their gradient back. */
static void describe_transfer(struct xt_graph *graph)
{
    if (!graph->options.device->own_memory || xt_graph_fails(graph))
        return;
    add_transfer(graph, XT_FORWARD, graph->logits->value, &graph->host_logits);
    if (graph->options.training)
        add_transfer(graph, XT_BACKWARD, logits_grad(graph), &graph->host_logits_grad);
}

static void describe_casts(struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    struct xt_operand from =
        xt_operand_matrix(xt_in_memory(&params->device.values), dnnl_f32, 1, params->value_floats);
    struct xt_operand to = from;
    to.place = xt_in_buffer(graph->casts);
    to.dtype = xt_dtype_dnnl(graph->options.dtype);
    if (graph->casts)
        xt_program_reorder(&graph->transfer, XT_BEFORE, &from, &to);
    xt_layout_kernel_describe(graph);
}

/* running = running + part * (gain * the batch's - running), over the whole arena. */
static void describe_statistics(struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    size_t count = params->stat_floats;
    const struct xt_device_memory *memories[] = {&params->device.stats, &graph->batch_stats,
                                                 &graph->gain, &graph->part};
    struct xt_operand of[4];
    for (int i = 0; i < 4; i++)
        of[i] = xt_operand_matrix(xt_in_memory(memories[i]), dnnl_f32, 1, count);
    struct xt_post_ops towards = {.count = 3,
                                  .items = {xt_then_with(dnnl_binary_sub, of[0]),
                                            xt_then_with(dnnl_binary_mul, of[3]),
                                            xt_then_with(dnnl_binary_add, of[0])}};
    xt_program_binary(&graph->statistics, XT_FORWARD, dnnl_binary_mul, &of[1], &of[2], &of[0],
                      &towards);
}

static void add_scratchpad(struct xt_graph *graph)
{
    size_t most = graph->transfer.scratchpad_bytes;
    if (graph->statistics.scratchpad_bytes > most)
        most = graph->statistics.scratchpad_bytes;
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->program.scratchpad_bytes > most)
            most = graph->ops[i]->program.scratchpad_bytes;
    graph->scratchpad = xt_graph_permanent(graph, "oneDNN", "scratchpad", most);
    graph->loop_scratch_floats = (graph->loop_scratch_floats + 31) / 16 * 16;
}

/* The gradient of a parameter that ops behind this one have too: the op overwrites theirs, which is
 * added again. */
static void describe_sum(struct xt_graph *graph, struct xt_op *op, int param)
{
    size_t count = xt_param_floats(&graph->options.params->items[param]);
    struct xt_buffer *aside =
        xt_graph_add_buffer(graph, op->name, "temporary", count * sizeof(float));
    if (xt_graph_fails(graph))
        return;
    xt_buffer_use(aside, xt_op_backward_time(graph, op));
    struct xt_operand grad = xt_operand_matrix(xt_graph_grad_of(graph, param), dnnl_f32, 1, count);
    struct xt_operand others = xt_operand_matrix(xt_in_buffer(aside), dnnl_f32, 1, count);
    xt_program_reorder(&op->program, XT_SET_ASIDE, &grad, &others);
    xt_program_binary(&op->program, XT_ADD, dnnl_binary_add, &grad, &others, &grad, NULL);
}

static void describe_op(struct xt_graph *graph, struct xt_op *op)
{
    const struct xt_override *override = xt_backend_override(graph->backend, op->kind);
    op->override = override;
    for (int i = 0; i < 2 && override && override->prepare; i++)
        op->own_name[i] = "xtrain loops";
    xt_program_init(&op->program, graph->options.device, op->name, &graph->err);
    if (override && override->prepare)
        override->prepare(op, graph);
    else
        op->kind->describe(op, graph);
    for (int i = 0; i < op->param_count; i++)
        if (xt_op_adds_grad(graph, op, op->params[i]))
            describe_sum(graph, op, op->params[i]);
    if (graph->err.status == XT_ERR_DEVICE)
        xt_err_prefix(&graph->err, "%s in %s: ", op->name, xt_dtype_name(op->dtype));
    else if (xt_graph_fails(graph))
        xt_err_prefix(&graph->err, "%s: ", op->name);
}

static void check_description(struct xt_graph *graph, const struct xt_tensor *logits)
{
    if (!logits)
        xt_graph_refuse(graph, XT_ERR_RUN, "the network has no logits");
    if (graph->describing_frozen)
        xt_graph_refuse(graph, XT_ERR_USAGE,
                        "--freeze-until %s: the network has no layer of that name",
                        graph->options.learn_from);
    if (graph->options.int8 && graph->options.int8->count != graph->range_count)
        xt_graph_refuse(graph, XT_ERR_RUN, "the int8 ranges belong to another network");
    if (logits && logits->dtype != XT_F32)
        xt_graph_refuse(graph, XT_ERR_RUN, "the logits %s are in %s: the loss reads float32",
                        logits->name, xt_dtype_name(logits->dtype));
}

static void add_loss_as_reader(struct xt_graph *graph, struct xt_tensor *logits)
{
    if (logits->readers >= xt_tensor_readers_most(logits))
        xt_graph_refuse(
            graph, XT_ERR_RUN,
            "tensor %s has more than %s: the op that writes it would lose the gradient of the loss",
            logits->name, xt_count((long long)logits->readers, "reader").text);
    else
        logits->readers++;
}

/* The loss reads the logits and writes their gradient, which may be in the memory of that of the
 * last op's input. */
static void use_logits(struct xt_graph *graph)
{
    struct xt_tensor *logits = graph->logits;
    xt_graph_use_value(graph, logits, graph->op_count);
    if (graph->options.training)
        xt_graph_use_grad(graph, logits, logits->readers - 1, graph->op_count);
}

enum xt_status xt_graph_plan(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err)
{
    struct xt_device *device = graph->options.device;
    xt_device_use_threads(device);
    graph->logits = logits;
    check_description(graph, logits);
    if (!xt_graph_fails(graph) && graph->backend->begin)
        graph->backend->begin(graph, &graph->err);
    xt_program_init(&graph->transfer, device, "the parameters or logits", &graph->err);
    xt_program_init(&graph->statistics, device, "the running statistics", &graph->err);
    if (!xt_graph_fails(graph) && graph->options.training)
        add_loss_as_reader(graph, logits);
    if (!xt_graph_fails(graph))
        xt_slices_plan(graph);
    if (graph->backend->hwio && !graph->options.params->values)
        xt_params_lay_out(graph->options.params);
    for (int i = 0; i < graph->op_count && !xt_graph_fails(graph); i++)
        describe_op(graph, graph->ops[i]);
    if (!xt_graph_fails(graph)) {
        use_logits(graph);
        describe_transfer(graph);
        describe_casts(graph);
        add_scratchpad(graph);
    }
    if (!xt_graph_fails(graph) && graph->options.recompute && graph->options.training)
        xt_graph_plan_recompute(graph);
    if (!xt_graph_fails(graph))
        lay_out(graph, &graph->err);
    if (xt_graph_fails(graph))
        return xt_err_set(err, graph->err.status, "%s", graph->err.text);
    if (!graph->options.params->values)
        xt_params_lay_out(graph->options.params);
    graph->planned = true;
    return XT_OK;
}

size_t xt_graph_working_bytes(const struct xt_graph *graph)
{
    size_t bytes = 0;
    for (int i = 0; i < graph->buffer_count; i++)
        if (strcmp(graph->buffers[i]->kind, XT_WORKING_WEIGHTS) == 0)
            bytes += graph->buffers[i]->bytes;
    return bytes;
}

size_t xt_graph_untouched_bytes(const struct xt_graph *graph)
{
    size_t bytes = 0;
    for (size_t i = 0; i < graph->plan.segments; i++)
        if (graph->arena[i].host)
            bytes += xt_mem_untouched(graph->arena[i].host, graph->arena[i].bytes);
    return bytes;
}

/* ---- building ---- */

/* Parameters have memory, on the device too, from the first graph on that is built with them. */
static enum xt_status allocate_params(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    bool training = graph->options.training;
    enum xt_status status =
        params->values
            ? XT_OK
            : xt_params_allocate(params, training && !graph->options.device->own_memory, err);
    return status ? status : xt_params_place(params, graph->options.device, training, err);
}

static enum xt_status allocate_arena(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_plan *plan = &graph->plan;
    void *data[XT_PLAN_SEGMENTS_MAX] = {NULL};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < plan->segments && !status; i++) {
        struct xt_device_memory *segment = &graph->arena[i];
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

static enum xt_status allocate_host(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_device *device = graph->options.device;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < graph->pinned_count && !status; i++) {
        const struct xt_pinned *pinned = &graph->pinned[i];
        dnnl_memory_desc_t md = NULL;
        status = xt_operand_desc(&pinned->operand, &md, err);
        if (!status)
            status =
                xt_device_memory_create(device, md, XT_ON_HOST, pinned->what, pinned->memory, err);
        if (md)
            xt_dnnl.memory_desc_destroy(md);
    }
    if (!status && graph->staging_floats)
        status = xt_device_memory_create_bytes(device, graph->staging_floats * sizeof(float),
                                               XT_ON_HOST, "folded weights", &graph->staging, err);
    if (!status && graph->loop_scratch_floats)
        status = xt_mem_aligned(&graph->loop_scratch,
                                (size_t)device->threads * graph->loop_scratch_floats, sizeof(float),
                                "the loops' scratch", err);
    if (!status)
        status = xt_mem_aligned(&graph->turns, (size_t)device->threads, sizeof *graph->turns,
                                "the threads' turns", err);
    return status;
}

/* A norm's update rate of the running statistics: 0 if frozen, and for those of several norms,
 * which move as these run. */
static void fill_rates(const struct xt_graph *graph, const struct xt_op *op, float *part,
                       float *gain)
{
    const struct xt_params *params = graph->options.params;
    if (op->kind != &xt_kind_norm)
        return;
    double momentum = ((const struct xt_norm_op *)op)->spec.momentum;
    for (int i = 0; i < op->param_count && !op->frozen; i++) {
        const struct xt_param *param = &params->items[op->params[i]];
        const struct xt_tensor *in = xt_op_in(op, 0);
        double m = in ? (double)in->n * in->h * in->w : 0;
        double unbiased = param->role == XT_PARAM_BN_VAR && m > 1 ? m / (m - 1) : 1;
        bool moves = xt_param_is_statistic(param) && !xt_param_is_shared(graph, op->params[i]);
        for (size_t k = 0; moves && k < (size_t)param->dims[0]; k++) {
            part[param->offset + k] = (float)momentum;
            gain[param->offset + k] = (float)unbiased;
        }
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
    status = xt_device_memory_write(&graph->batch_stats, gain, bytes, XT_CAUSE_OTHER, err);
    for (int i = 0; i < graph->op_count; i++)
        fill_rates(graph, graph->ops[i], rates, gain);
    if (!status)
        status = xt_device_memory_write(&graph->part, rates, bytes, XT_CAUSE_OTHER, err);
    if (!status)
        status = xt_device_memory_write(&graph->gain, gain, bytes, XT_CAUSE_OTHER, err);
    free(rates);
    return status;
}

/* How many statistics there are is known once the parameters are laid out. */
static enum xt_status allocate_statistics(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_device_memory *own[] = {&graph->batch_stats, &graph->part, &graph->gain};
    size_t bytes = graph->options.params->stat_floats * sizeof(float);
    enum xt_status status = XT_OK;
    if (!graph->moves_statistics)
        return XT_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = xt_device_memory_create_bytes(graph->options.device, bytes, XT_ON_DEVICE,
                                               "running statistics", own[i], err);
    if (status)
        return status;
    describe_statistics(graph);
    return xt_graph_fails(graph) ? xt_err_set(err, graph->err.status, "%s", graph->err.text)
                                 : write_rates(graph, err);
}

/* They follow from the tensors' descriptions and do not change. */
static enum xt_status write_scales(struct xt_graph *graph, struct xt_err *err)
{
    float scales[XT_TENSORS_MAX];
    size_t count = (size_t)graph->tensor_count;
    if (!graph->options.int8)
        return XT_OK;
    for (size_t i = 0; i < count; i++) {
        graph->scale_at[i] = i;
        scales[i] = graph->tensors[i]->scale;
    }
    size_t bytes = count * sizeof *scales;
    enum xt_status status =
        xt_device_memory_create_bytes(graph->options.device, bytes, XT_ON_DEVICE,
                                      "the steps of int8 numbers", &graph->scales, err);
    return status ? status
                  : xt_device_memory_write(&graph->scales, scales, bytes, XT_CAUSE_OTHER, err);
}

static void report_created(void *context, int done, int all)
{
    const struct xt_graph *graph = context;
    const struct xt_graph_observer *observer = &graph->options.observer;
    observer->created(observer->context, &graph->options.device->cache, done, all);
}

static enum xt_status bind(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    struct xt_creation creation = {.threads = device->threads};
    struct xt_program *programs[XT_OPS_MAX + 2];
    int count = 0;
    if (device->compiles && graph->options.observer.created) {
        creation.created = report_created;
        creation.context = graph;
    }
    for (int i = 0; i < graph->op_count; i++)
        programs[count++] = &graph->ops[i]->program;
    programs[count++] = &graph->transfer;
    programs[count++] = &graph->statistics;
    enum xt_status status = xt_programs_create(programs, count, &creation, err);
    for (int i = 0; i < count && !status; i++)
        status = xt_program_bind(programs[i], xt_in_buffer(graph->scratchpad), err);
    return status;
}

enum xt_status xt_graph_build(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err)
{
    xt_device_use_threads(graph->options.device);
    enum xt_status status = graph->planned ? XT_OK : xt_graph_plan(graph, logits, err);
    if (!status)
        status = allocate_params(graph, err);
    if (!status)
        status = allocate_host(graph, err);
    if (!status)
        status = allocate_arena(graph, err);
    if (!status)
        status = allocate_statistics(graph, err);
    if (!status)
        status = write_scales(graph, err);
    if (!status)
        status = xt_layout_kernel_write(graph, err);
    return status ? status : bind(graph, err);
}

/* ---- running ---- */

static enum xt_status wait(const struct xt_graph *graph, struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.stream_wait(graph->options.device->stream), "the device", err);
}

/* Uploads one op's parameters and updates their copies; the staging memory is read before the next
 * op reuses it. */
static enum xt_status refresh_op(struct xt_graph *graph, struct xt_op *op, struct xt_err *err)
{
    enum xt_status status = op->kind->refresh ? op->kind->refresh(op, graph, err) : XT_OK;
    if (!status && op->override && op->override->refresh)
        status = op->override->refresh(op, graph, err);
    if (!status)
        status = xt_program_run(&op->program, XT_BEFORE, err);
    return status || !graph->staging_floats ? status : wait(graph, err);
}

/* Updates the working copies of the weights: on the device, and on the host for ops that fold. */
static enum xt_status refresh(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    if (graph->params_version == params->version)
        return XT_OK;
    double start = graph->profile ? xt_thread_seconds() : 0;
    enum xt_status status = graph->staging_floats ? xt_params_pull(params, err) : XT_OK;
    if (!status)
        status = xt_params_push(params, err);
    if (!status)
        status = xt_program_run(&graph->transfer, XT_BEFORE, err);
    for (int i = 0; i < graph->op_count && !status; i++)
        status = refresh_op(graph, graph->ops[i], err);
    if (!status && graph->backend->copy_weights && graph->copied_version != params->version)
        status = graph->backend->copy_weights(graph, err);
    if (status)
        return status;
    graph->copied_version = params->version;
    if (graph->profile)
        graph->refresh_seconds += xt_thread_seconds() - start;
    graph->params_version = params->version;
    return XT_OK;
}

bool xt_graph_can_copy_values(const struct xt_graph *graph)
{
    return graph->backend->copy_values && graph->copied_version == graph->options.params->version;
}

void xt_graph_copy_values(void *graph, size_t offset, size_t count)
{
    struct xt_graph *of = graph;
    of->backend->copy_values(of, offset, count);
}

void xt_graph_values_copied(struct xt_graph *graph)
{
    graph->copied_version = graph->options.params->version;
}

/* Reads `bytes` of a buffer to the host, or writes them. */
static enum xt_status copy_buffer(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  void *host, size_t bytes, bool write, struct xt_err *err)
{
    struct xt_device_memory view;
    enum xt_status status =
        xt_device_memory_view(graph->options.device, buffer->data, buffer->bytes, &view, err);
    if (!status)
        status = write ? xt_device_memory_write(&view, host, bytes, XT_CAUSE_OTHER, err)
                       : xt_device_memory_read(&view, host, bytes, XT_CAUSE_OTHER, err);
    xt_device_memory_destroy(&view);
    return status;
}

/* Records the output for int8's ranges. */
static enum xt_status record(struct xt_graph *graph, const struct xt_op *op, struct xt_err *err)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    void *values = NULL;
    size_t bytes = xt_tensor_bytes(out);
    enum xt_status status = xt_mem_aligned(&values, bytes, 1, out->name, err);
    if (!status)
        status = copy_buffer(graph, out->value, values, bytes, false, err);
    if (!status)
        status = xt_recording_see(graph->recording, graph, out, values, err);
    free(values);
    return status;
}

static enum xt_status run_program(struct xt_graph *graph, struct xt_op *op, bool backward,
                                  struct xt_err *err)
{
    bool runs = true;
    enum xt_status status =
        op->kind->before ? op->kind->before(op, graph, backward, &runs, err) : XT_OK;
    return status || !runs ? status
                           : xt_program_run(&op->program, backward ? XT_BACKWARD : XT_FORWARD, err);
}

static enum xt_status run(struct xt_graph *graph, struct xt_op *op, bool backward,
                          struct xt_err *err)
{
    const struct xt_override *override = op->override;
    double start = graph->profile ? xt_thread_seconds() : 0;
    enum xt_status status = XT_OK;
    if (backward || !graph->computed)
        status = xt_program_run(&op->program, backward ? XT_SET_ASIDE : XT_COMPUTED, err);
    if (!status && override && (backward ? override->backward : override->forward))
        status = (backward ? override->backward : override->forward)(op, graph, err);
    else if (!status)
        status = run_program(graph, op, backward, err);
    if (!status && backward)
        status = xt_program_run(&op->program, XT_ADD, err);
    if (!status && !backward && graph->recording && xt_ranged_by(op) &&
        xt_op_out(op, 0)->dtype == XT_F32)
        status = record(graph, op, err);
    if (!status && graph->profile)
        status = wait(graph, err);
    if (graph->profile)
        op->seconds[backward] += xt_thread_seconds() - start;
    if (status)
        xt_err_prefix(err, "%s: ", op->name);
    else if (graph->watch.ran)
        graph->watch.ran(graph->watch.context, op, backward);
    return status;
}

static enum xt_status check_pass(const struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_graph_pass *pass = &graph->pass;
    if (!graph->backend->any_pass &&
        (pass->training != graph->options.training ||
         (pass->training && pass->bn_frozen != graph->options.bn_frozen)))
        return xt_err_set(err, XT_ERR_RUN, "the kernels on %s were made for %s, the pass is for %s",
                          graph->options.device->name,
                          graph->options.training ? "training" : "inference",
                          pass->training ? "training" : "inference");
    return XT_OK;
}

static enum xt_status pull_logits(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = xt_program_run(&graph->transfer, XT_FORWARD, err);
    xt_traffic_add(graph->options.device, XT_CAUSE_LOGITS, false, graph->host_logits.bytes);
    return status ? status : wait(graph, err);
}

static enum xt_status push_logits_grad(struct xt_graph *graph, struct xt_err *err)
{
    xt_traffic_add(graph->options.device, XT_CAUSE_GRADIENTS, true, graph->host_logits_grad.bytes);
    return xt_program_run(&graph->transfer, XT_BACKWARD, err);
}

/* Transfers the logits to the host, and then updates the running statistics: the device does that
 * while the host computes the loss. */
static enum xt_status after_forward(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = graph->pass.keeps_logits ? XT_OK : pull_logits(graph, err);
    if (status || !graph->moves_statistics)
        return status;
    graph->options.params->device.is_newer = graph->options.device->own_memory;
    return xt_program_run(&graph->statistics, XT_FORWARD, err);
}

/* All ops; in inference those that compute of parameters alone once for each version of them. */
static enum xt_status run_forward(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    uint64_t version = graph->options.params->version;
    graph->computed = graph->computed && graph->computed_of == version;
    for (int i = 0; i < graph->op_count && !status; i++)
        if (!graph->computed || !graph->ops[i]->of_parameters)
            status = run(graph, graph->ops[i], false, err);
    graph->computed = !status && !graph->options.training;
    graph->computed_of = version;
    return status;
}

enum xt_status xt_graph_forward(struct xt_graph *graph, struct xt_err *err)
{
    xt_device_use_threads(graph->options.device);
    enum xt_status status = check_pass(graph, err);
    if (!status)
        status = refresh(graph, err);
    if (!status)
        status =
            graph->slices.workers ? xt_slices_run(graph, false, run, err) : run_forward(graph, err);
    return status ? status : after_forward(graph, err);
}

static enum xt_status run_backward(struct xt_graph *graph, struct xt_op *op, struct xt_err *err)
{
    const struct xt_graph_communicator *communicator = graph->communicator;
    enum xt_status status = run(graph, op, true, err);
    return status || !communicator || !communicator->learned
               ? status
               : communicator->learned(communicator->context, op, err);
}

enum xt_status xt_graph_backward(struct xt_graph *graph, struct xt_err *err)
{
    xt_device_use_threads(graph->options.device);
    xt_params_grads_changed(graph->options.params);
    enum xt_status status = graph->pass.keeps_logits ? XT_OK : push_logits_grad(graph, err);
    if (!status && graph->slices.workers)
        return xt_slices_run(graph, true, run, err);
    for (int i = graph->op_count - 1; i >= 0 && !status; i--) {
        xt_graph_recompute(graph, xt_op_backward_time(graph, graph->ops[i]));
        if (xt_op_learns(graph->ops[i], graph) && graph->ops[i]->kind->what[1])
            status = run_backward(graph, graph->ops[i], err);
    }
    return status;
}

enum xt_status xt_graph_convolutions_alone(struct xt_graph *graph, bool training,
                                           struct xt_err *err)
{
    xt_device_use_threads(graph->options.device);
    enum xt_status status = refresh(graph, err);
    for (int backward = 0; backward <= (training ? 1 : 0) && !status; backward++)
        for (int i = 0; i < graph->op_count && !status; i++)
            status = xt_program_run_lower_bound(&graph->ops[i]->program,
                                                backward ? XT_BACKWARD : XT_FORWARD, err);
    return status ? status : wait(graph, err);
}

float *xt_graph_logits(struct xt_graph *graph)
{
    return graph->options.device->own_memory ? graph->host_logits.host : graph->logits->value->data;
}

float *xt_graph_logits_grad(struct xt_graph *graph)
{
    return graph->options.device->own_memory ? graph->host_logits_grad.host
                                             : logits_grad(graph)->data;
}

bool xt_graph_averages_in_f32(const struct xt_graph *graph)
{
    return graph->backend->averages_in_f32;
}

int xt_op_layer_length(const char *name)
{
    const char *own = strstr(name, ": ");
    return own ? (int)(own - name) : 0;
}

bool xt_op_shares_layer(const char *name, const char *other)
{
    int length = xt_op_layer_length(name);
    return length && strncmp(other, name, (size_t)length + 2) == 0;
}

int xt_graph_layer_end(const struct xt_graph *graph, int first, int *length)
{
    const char *name = graph->ops[first]->name;
    int layer = xt_op_layer_length(name);
    int end = first + 1;
    *length = layer ? layer : (int)strlen(name);
    while (end < graph->op_count && xt_op_shares_layer(name, graph->ops[end]->name))
        end++;
    return end;
}

const char *xt_op_kind_name(const struct xt_op *op)
{
    return op->kind->name;
}

const char *xt_op_implementation(const struct xt_op *op, bool backward)
{
    if (backward && (op->frozen || !op->kind->what[1]))
        return "";
    if (op->own_name[backward])
        return op->own_name[backward];
    enum xt_phase phase = backward ? XT_BACKWARD : XT_FORWARD;
    const char *own = xt_program_implementation(&op->program, phase, op->kind->what[backward]);
    return *own ? own : xt_program_implementation(&op->program, phase, NULL);
}

/* ---- one op alone ---- */

enum xt_status xt_graph_run_op(struct xt_graph *graph, int index, bool backward, struct xt_err *err)
{
    xt_device_use_threads(graph->options.device);
    graph->computed = false;
    enum xt_status status = refresh(graph, err);
    if (!status && index < graph->op_count)
        status = run(graph, graph->ops[index], backward, err);
    else if (!status)
        status = after_forward(graph, err);
    return status ? status : wait(graph, err);
}

/* Numbers of the buffer's type, on the host. */
static enum xt_status take_numbers(const struct xt_buffer *buffer, enum xt_dtype dtype,
                                   size_t count, void **out, struct xt_err *err)
{
    size_t bytes = count * xt_dtype_size(dtype);
    if (bytes > buffer->bytes)
        return xt_err_set(err, XT_ERR_RUN, "%s holds %zu bytes, not %zu numbers", buffer->tensor,
                          buffer->bytes, count);
    return xt_mem_aligned(out, bytes, 1, buffer->tensor, err);
}

enum xt_status xt_graph_write(struct xt_graph *graph, const struct xt_buffer *buffer,
                              enum xt_dtype dtype, const float *from, size_t count,
                              struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = take_numbers(buffer, dtype, count, &data, err);
    if (status)
        return status;
    xt_number_from_float(dtype, from, count, data);
    status = copy_buffer(graph, buffer, data, count * xt_dtype_size(dtype), true, err);
    free(data);
    return status;
}

enum xt_status xt_graph_read_back(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  enum xt_dtype dtype, float *to, size_t count, struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = take_numbers(buffer, dtype, count, &data, err);
    if (!status)
        status = copy_buffer(graph, buffer, data, count * xt_dtype_size(dtype), false, err);
    if (!status)
        xt_number_to_float(dtype, data, count, to);
    free(data);
    return status;
}
