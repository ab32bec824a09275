#include "models/graph/graph.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/number.h"
#include "models/graph/xpu_ops.h"
#include "models/graph/ranges.h"

size_t xt_tensor_count(const struct xt_tensor *tensor)
{
    return (size_t)tensor->n * (size_t)tensor->h * (size_t)tensor->w * (size_t)tensor->c;
}

size_t xt_tensor_bytes(const struct xt_tensor *tensor)
{
    return xt_tensor_count(tensor) * xt_dtype_size(tensor->dtype);
}

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
        if (op->class->destroy)
            op->class->destroy(op);
        if (op->program)
            xt_xpu_program_clear(op->program);
        free(op->program);
        free(op);
    }
    xt_xpu_graph_destroy(graph);
    for (int i = 0; i < graph->tensor_count; i++)
        free(graph->tensors[i]);
    for (int i = 0; i < graph->buffer_count; i++)
        free(graph->buffers[i]);
    free(graph->arena);
    free(graph->loop_scratch);
    free(graph);
}

/* "layer3" is, or holds, layer3.0.conv1. */
static bool is_in_layer(const char *name, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(name, layer, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

void *xt_graph_add_op(struct xt_graph *graph, size_t size, const struct xt_op_class *class,
                      const char *name, struct xt_err *err)
{
    if (graph->op_count == XT_OPS_MAX) {
        xt_err_set(err, XT_ERR_RUN, "a network of more than %d ops", XT_OPS_MAX);
        return NULL;
    }
    struct xt_op *op = NULL;
    if (xt_mem_calloc(&op, 1, size, name, err))
        return NULL;
    op->class = class;
    op->device = graph->options.device;
    op->index = graph->op_count;
    if (graph->describing_frozen && is_in_layer(name, graph->options.learn_from))
        graph->describing_frozen = false;
    op->frozen = graph->describing_frozen;
    snprintf(op->name, sizeof op->name, "%s", name);
    graph->ops[graph->op_count++] = op;
    return op;
}

struct xt_tensor *xt_graph_add_tensor(struct xt_graph *graph, const char *name, int n, int h, int w,
                                      int c, enum xt_dtype dtype, struct xt_err *err)
{
    if (graph->tensor_count == XT_TENSORS_MAX) {
        xt_err_set(err, XT_ERR_RUN, "a network of more than %d tensors", XT_TENSORS_MAX);
        return NULL;
    }
    struct xt_tensor *tensor = NULL;
    if (xt_mem_calloc(&tensor, 1, sizeof *tensor, name, err))
        return NULL;
    *tensor = (struct xt_tensor){.n = n,
                                 .h = h,
                                 .w = w,
                                 .c = c,
                                 .dtype = dtype,
                                 .scale = 1,
                                 .index = graph->tensor_count,
                                 .wants_grad = true};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    graph->tensors[graph->tensor_count++] = tensor;
    return tensor;
}

void xt_graph_run_last(struct xt_graph *graph, struct xt_op *op)
{
    int last = graph->op_count - 1;
    for (int i = op->index; i < last; i++) {
        graph->ops[i] = graph->ops[i + 1];
        graph->ops[i]->index = i;
    }
    graph->ops[last] = op;
    op->index = last;
}

int xt_graph_read(struct xt_tensor *tensor, struct xt_err *err)
{
    if (tensor->overwritten) {
        xt_err_set(err, XT_ERR_RUN, "tensor %s is read after it was added to", tensor->name);
        return -1;
    }
    int most = tensor->one_reader ? 1 : XT_READERS_MAX;
    if (tensor->readers == most) {
        xt_err_set(err, XT_ERR_RUN,
                   "tensor %s has more than %d reader%s: the op that makes it would lose the "
                   "gradient of another one",
                   tensor->name, most, most == 1 ? "" : "s");
        return -1;
    }
    return tensor->readers++;
}

int xt_graph_param(struct xt_graph *graph, const struct xt_param *param, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    if (!params->values)
        return xt_params_add(params, param, err);
    int index = graph->next_param++;
    if (index < params->count && strcmp(params->items[index].name, param->name) == 0)
        return index;
    xt_err_set(err, XT_ERR_RUN, "parameter %s is not in the network these parameters are of",
               param->name);
    return -1;
}

int xt_op_forward_time(const struct xt_op *op)
{
    return op->index;
}

int xt_op_backward_time(const struct xt_graph *graph, const struct xt_op *op)
{
    return 2 * graph->op_count - op->index;
}

struct xt_buffer *xt_graph_add_buffer(struct xt_graph *graph, const char *tensor, const char *kind,
                                      size_t bytes, struct xt_err *err)
{
    size_t most = sizeof graph->buffers / sizeof graph->buffers[0];
    struct xt_buffer *buffer = NULL;
    if ((size_t)graph->buffer_count == most) {
        xt_err_set(err, XT_ERR_RUN, "a network of more than %zu buffers", most);
        return NULL;
    }
    if (xt_mem_calloc(&buffer, 1, sizeof *buffer, tensor, err))
        return NULL;
    *buffer = (struct xt_buffer){.tensor = tensor,
                                 .kind = kind,
                                 .bytes = bytes,
                                 .first = 1 << 30,
                                 .last = -1,
                                 .device = graph->options.device};
    graph->buffers[graph->buffer_count++] = buffer;
    return buffer;
}

void xt_buffer_use(struct xt_buffer *buffer, int time)
{
    if (time < buffer->first)
        buffer->first = time;
    if (time > buffer->last)
        buffer->last = time;
}

/* The op that runs at `time` reads or writes this many bytes then; the loss is no op. */
static void count_bytes(struct xt_graph *graph, int time, size_t bytes)
{
    bool backward = time > graph->op_count;
    int index = backward ? 2 * graph->op_count - time : time;
    if (index < graph->op_count)
        graph->ops[index]->bytes[backward] += (double)bytes;
}

enum xt_status xt_graph_use_value(struct xt_graph *graph, struct xt_tensor *tensor, int time,
                                  struct xt_err *err)
{
    if (!tensor->value)
        tensor->value =
            xt_graph_add_buffer(graph, tensor->name, "value", xt_tensor_bytes(tensor), err);
    if (!tensor->value)
        return err->status;
    xt_buffer_use(tensor->value, time);
    count_bytes(graph, time, xt_tensor_bytes(tensor));
    return XT_OK;
}

enum xt_status xt_graph_use_grad(struct xt_graph *graph, struct xt_tensor *tensor, int reader,
                                 int time, struct xt_err *err)
{
    struct xt_buffer **grad = &tensor->grad[reader];
    if (!*grad)
        *grad = xt_graph_add_buffer(graph, tensor->name, "gradient", xt_tensor_bytes(tensor), err);
    if (!*grad)
        return err->status;
    xt_buffer_use(*grad, time);
    count_bytes(graph, time, xt_tensor_bytes(tensor));
    return XT_OK;
}

float *xt_graph_loop_scratch(const struct xt_graph *graph)
{
    return graph->loop_scratch + (size_t)omp_get_thread_num() * graph->loop_scratch_floats;
}

/* The first buffer that is larger than the device allocates in one piece; NULL: none. */
static const struct xt_buffer *too_large(const struct xt_graph *graph)
{
    size_t most = xt_device_allocation_most(graph->options.device);
    for (int i = 0; i < graph->buffer_count && most; i++)
        if (graph->buffers[i]->bytes > most)
            return graph->buffers[i];
    return NULL;
}

static enum xt_status lay_out(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    const struct xt_buffer *large = too_large(graph);
    if (large) {
        char what[128];
        snprintf(what, sizeof what, "%.64s (%s)", large->tensor, large->kind);
        return xt_device_refuse_piece(device, what, large->bytes, err);
    }
    size_t count = (size_t)graph->buffer_count;
    struct xt_plan_item *items = NULL;
    enum xt_status status = xt_mem_calloc(&items, count, sizeof *items, "the memory plan", err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct xt_plan_item){.bytes = graph->buffers[i]->bytes,
                                         .first = graph->buffers[i]->first,
                                         .last = graph->buffers[i]->last};
    status = xt_plan_layout(items, count, xt_device_allocation_most(device), &graph->plan, err);
    for (size_t i = 0; i < count && !status; i++) {
        graph->buffers[i]->segment = items[i].segment;
        graph->buffers[i]->offset = items[i].offset;
    }
    free(items);
    return status;
}

static enum xt_status add_scratch(struct xt_graph *graph, struct xt_err *err)
{
    graph->loop_scratch_floats = (graph->loop_scratch_floats + 31) / 16 * 16;
    graph->scratchpad =
        xt_graph_add_buffer(graph, "oneDNN", "scratchpad", graph->scratchpad_bytes, err);
    if (!graph->scratchpad)
        return err->status;
    xt_buffer_use(graph->scratchpad, 0);
    xt_buffer_use(graph->scratchpad, 2 * graph->op_count + 1);
    return XT_OK;
}

static enum xt_status allocate(struct xt_graph *graph, struct xt_err *err)
{
    if (xt_on_xpu(graph))
        return xt_xpu_graph_allocate(graph, err);
    size_t threads = (size_t)graph->options.device->threads;
    enum xt_status status =
        xt_mem_aligned(&graph->loop_scratch, threads * graph->loop_scratch_floats, sizeof(float),
                       "the loops' scratch", err);
    if (!status)
        status = xt_mem_aligned(&graph->arena, graph->plan.bytes, 1, "the activations", err);
    for (int i = 0; i < graph->buffer_count && !status; i++)
        graph->buffers[i]->data = graph->arena + graph->buffers[i]->offset;
    return status;
}

/* Parameters have memory, on the device too, from the first graph on that is built with them. */
static enum xt_status allocate_params(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    bool on_xpu = xt_on_xpu(graph);
    bool training = graph->options.training;
    enum xt_status status =
        params->values ? XT_OK : xt_params_allocate(params, training && !on_xpu, err);
    return status || !on_xpu ? status
                             : xt_params_place(params, graph->options.device, training, err);
}

static enum xt_status bind(struct xt_graph *graph, struct xt_err *err)
{
    if (xt_on_xpu(graph))
        return xt_xpu_graph_bind(graph, err);
    enum xt_status status = XT_OK;
    for (int i = 0; i < graph->op_count && !status; i++)
        if (graph->ops[i]->class->bind)
            status = graph->ops[i]->class->bind(graph->ops[i], graph, err);
    return status;
}

static enum xt_status check_description(const struct xt_graph *graph, struct xt_err *err)
{
    if (graph->describing_frozen)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--freeze-until %s: the network has no layer of that name",
                          graph->options.learn_from);
    if (graph->options.int8 && graph->options.int8->tensors != graph->tensor_count)
        return xt_err_set(err, XT_ERR_RUN, "the int8 ranges are of another network");
    return XT_OK;
}

enum xt_status xt_graph_plan(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err)
{
    graph->logits = logits;
    int loss_time = graph->op_count;
    enum xt_status status = check_description(graph, err);
    if (!status && xt_on_xpu(graph))
        status = xt_xpu_graph_begin(graph, err);
    if (!status && graph->options.training) {
        int reader = xt_graph_read(logits, err);
        status =
            reader < 0 ? err->status : xt_graph_use_grad(graph, logits, reader, loss_time, err);
    }
    for (int i = 0; i < graph->op_count && !status; i++) {
        const struct xt_op *op = graph->ops[i];
        status = op->class->prepare(graph->ops[i], graph, err);
        if (status == XT_ERR_DEVICE)
            xt_err_prefix(err, "%s in %s: ", op->name, xt_dtype_name(op->dtype));
        else if (status)
            xt_err_prefix(err, "%s: ", op->name);
    }
    if (!status)
        status = xt_graph_use_value(graph, logits, loss_time, err);
    if (!status && xt_on_xpu(graph))
        status = xt_xpu_graph_prepare(graph, err);
    if (!status)
        status = add_scratch(graph, err);
    if (!status)
        status = lay_out(graph, err);
    if (!status && !graph->options.params->values)
        xt_params_lay_out(graph->options.params);
    graph->planned = !status;
    return status;
}

enum xt_status xt_graph_build(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err)
{
    enum xt_status status = graph->planned ? XT_OK : xt_graph_plan(graph, logits, err);
    if (!status)
        status = allocate_params(graph, err);
    if (!status)
        status = allocate(graph, err);
    return status ? status : bind(graph, err);
}

/* The parameters where the ops read them: on the device, and on the host for those that fold. */
static enum xt_status share_params(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    if (!xt_on_xpu(graph))
        return XT_OK;
    enum xt_status status = graph->options.fuse ? xt_params_pull(params, err) : XT_OK;
    return status ? status : xt_params_push(params, err);
}

/* Working copies of the weights follow the parameters. */
static enum xt_status refresh(struct xt_graph *graph, struct xt_err *err)
{
    uint64_t version = graph->options.params->version;
    if (graph->params_version == version)
        return XT_OK;
    double start = graph->profile ? xt_thread_seconds() : 0;
    if (share_params(graph, err))
        return err->status;
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        enum xt_status status = op->class->refresh ? op->class->refresh(op, graph, err) : XT_OK;
        if (status)
            return status;
    }
    if (graph->profile)
        graph->refresh_seconds += xt_thread_seconds() - start;
    graph->params_version = version;
    return XT_OK;
}

static enum xt_status wait(const struct xt_graph *graph, struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.stream_wait(graph->options.device->stream), "the device", err);
}

static enum xt_status run(struct xt_graph *graph, struct xt_op *op, bool backward,
                          struct xt_err *err)
{
    double start = graph->profile ? xt_thread_seconds() : 0;
    enum xt_status status =
        backward ? op->class->backward(op, graph, err) : op->class->forward(op, graph, err);
    if (!status && graph->profile)
        status = wait(graph, err);
    if (graph->profile)
        op->seconds[backward] += xt_thread_seconds() - start;
    if (status)
        xt_err_prefix(err, "%s: ", op->name);
    return status;
}

enum xt_status xt_graph_forward(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = xt_on_xpu(graph) ? xt_xpu_graph_check_pass(graph, err) : XT_OK;
    if (!status)
        status = refresh(graph, err);
    for (int i = 0; i < graph->op_count && !status; i++)
        status = run(graph, graph->ops[i], false, err);
    return status || !xt_on_xpu(graph) ? status : xt_xpu_graph_after_forward(graph, err);
}

enum xt_status xt_graph_backward(struct xt_graph *graph, struct xt_err *err)
{
    enum xt_status status = xt_on_xpu(graph) ? xt_xpu_graph_before_backward(graph, err) : XT_OK;
    for (int i = graph->op_count - 1; i >= 0 && !status; i--)
        if (!graph->ops[i]->frozen)
            status = run(graph, graph->ops[i], true, err);
    return status;
}

enum xt_status xt_graph_convolutions_alone(struct xt_graph *graph, bool training,
                                           struct xt_err *err)
{
    enum xt_status status = refresh(graph, err);
    for (int backward = 0; backward <= (training ? 1 : 0) && !status; backward++)
        for (int i = 0; i < graph->op_count && !status; i++)
            if (xt_is_conv(graph->ops[i]) && !(backward && graph->ops[i]->frozen))
                status = xt_conv_run_alone(graph->ops[i], graph, backward, err);
    return status ? status : wait(graph, err);
}

float *xt_graph_logits(struct xt_graph *graph)
{
    return xt_on_xpu(graph) ? graph->xpu->logits.host : graph->logits->value->data;
}

float *xt_graph_logits_grad(struct xt_graph *graph)
{
    return xt_on_xpu(graph) ? graph->xpu->logits_grad.host
                            : graph->logits->grad[graph->logits->readers - 1]->data;
}

enum xt_status xt_graph_run_op(struct xt_graph *graph, int index, bool backward, struct xt_err *err)
{
    enum xt_status status = refresh(graph, err);
    if (!status && index < graph->op_count)
        status = run(graph, graph->ops[index], backward, err);
    else if (!status && xt_on_xpu(graph))
        status = xt_xpu_graph_after_forward(graph, err);
    return status ? status : wait(graph, err);
}

static enum xt_status open_buffer(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  enum xt_dtype dtype, size_t count, struct xt_device_memory *out,
                                  void **data, struct xt_err *err)
{
    if (count * xt_dtype_size(dtype) > buffer->bytes)
        return xt_err_set(err, XT_ERR_RUN, "%s holds %zu bytes, not %zu numbers", buffer->tensor,
                          buffer->bytes, count);
    enum xt_status status =
        xt_device_memory_view(graph->options.device, buffer->data, buffer->bytes, out, err);
    return status ? status : xt_device_memory_map(out, XT_CAUSE_OTHER, data, err);
}

static enum xt_status close_buffer(struct xt_device_memory *memory, struct xt_err *err)
{
    enum xt_status status = xt_device_memory_unmap(memory, XT_CAUSE_OTHER, err);
    xt_device_memory_destroy(memory);
    return status;
}

enum xt_status xt_graph_write(struct xt_graph *graph, const struct xt_buffer *buffer,
                              enum xt_dtype dtype, const float *from, size_t count,
                              struct xt_err *err)
{
    struct xt_device_memory memory;
    void *data = NULL;
    enum xt_status status = open_buffer(graph, buffer, dtype, count, &memory, &data, err);
    if (status)
        return status;
    xt_number_from_float(dtype, from, count, data);
    return close_buffer(&memory, err);
}

enum xt_status xt_graph_read_back(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  enum xt_dtype dtype, float *to, size_t count, struct xt_err *err)
{
    struct xt_device_memory memory;
    void *data = NULL;
    enum xt_status status = open_buffer(graph, buffer, dtype, count, &memory, &data, err);
    if (status)
        return status;
    xt_number_to_float(dtype, data, count, to);
    return close_buffer(&memory, err);
}
