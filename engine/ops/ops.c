#include "engine/ops/ops.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

bool xt_graph_fails(const struct xt_graph *graph)
{
    return graph->err.status != XT_OK;
}

void *xt_graph_refuse(struct xt_graph *graph, enum xt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    xt_err_set_first(&graph->err, status, format, args);
    va_end(args);
    return NULL;
}

/* ---- adding an op ---- */

/* Whether `layer` ("layer3") is or contains `name` (layer3.0.conv1). */
static bool is_in_layer(const char *name, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(name, layer, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

void *xt_graph_add_op(struct xt_graph *graph, const struct xt_op_kind *kind, const char *name)
{
    struct xt_op *op = NULL;
    if (graph->op_count == XT_OPS_MAX)
        return xt_graph_refuse(
            graph, XT_ERR_DATA,
            "the network has more than %d ops, of which each step of a recurrent "
            "layer takes about 20",
            XT_OPS_MAX);
    if (xt_graph_fails(graph) || xt_mem_calloc(&op, 1, kind->size, name, &graph->err))
        return NULL;
    op->kind = kind;
    op->index = graph->op_count;
    if (graph->describing_frozen && is_in_layer(name, graph->options.learn_from))
        graph->describing_frozen = false;
    op->frozen = graph->describing_frozen;
    snprintf(op->name, sizeof op->name, "%s", name);
    graph->ops[graph->op_count++] = op;
    return op;
}

bool xt_op_read(struct xt_op *op, struct xt_graph *graph, struct xt_tensor *tensor)
{
    if (!op || xt_graph_fails(graph))
        return false;
    if (!tensor)
        return xt_graph_refuse(graph, XT_ERR_RUN, "%s reads a tensor that does not exist",
                               op->name);
    if (tensor->overwritten)
        return xt_graph_refuse(graph, XT_ERR_RUN, "tensor %s is read after it was added to",
                               tensor->name);
    if (op->input_count == XT_OP_INPUTS_MAX)
        return xt_graph_refuse(graph, XT_ERR_RUN, "%s reads more than %d tensors", op->name,
                               XT_OP_INPUTS_MAX);
    int most = xt_tensor_readers_most(tensor);
    if (tensor->readers >= most && (graph->options.training || most == XT_FAN_OUT_MAX))
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "tensor %s has more than %s: the op that writes it would lose the "
                               "gradient of another one",
                               tensor->name, xt_count((long long)most, "reader").text);
    op->of_parameters = tensor->of_parameters && (op->input_count == 0 || op->of_parameters);
    op->inputs[op->input_count++] = (struct xt_op_input){tensor, tensor->readers++};
    return true;
}

const struct xt_op *xt_graph_writer(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->output_count; k++)
            if (graph->ops[i]->outputs[k] == tensor)
                return graph->ops[i];
    return NULL;
}

/* Whether the op computes with constants alone. */
static bool is_of_constants(const struct xt_op *op)
{
    bool is = op->of_parameters && op->input_count && !op->param_count;
    for (int i = 0; i < op->input_count && is; i++)
        is = !op->inputs[i].tensor->wants_grad;
    return is;
}

struct xt_tensor *xt_op_write(struct xt_op *op, struct xt_graph *graph, const char *name, int n,
                              int h, int w, int c, enum xt_dtype dtype)
{
    struct xt_tensor *tensor = NULL;
    if (!op || xt_graph_fails(graph))
        return NULL;
    if (graph->tensor_count == XT_TENSORS_MAX)
        return xt_graph_refuse(graph, XT_ERR_RUN, "a network of more than %d tensors",
                               XT_TENSORS_MAX);
    if (n < 1 || h < 1 || w < 1 || c < 1)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: the output would be %d samples of %dx%d with %d channels: "
                               "the network needs larger images here",
                               name, n, h, w, c);
    if (xt_mem_calloc(&tensor, 1, sizeof *tensor, name, &graph->err))
        return NULL;
    op->frozen = op->frozen || is_of_constants(op);
    *tensor = (struct xt_tensor){.n = n,
                                 .h = h,
                                 .w = w,
                                 .c = c,
                                 .dtype = dtype,
                                 .scale = 1,
                                 .index = graph->tensor_count,
                                 .wants_grad = !op->frozen,
                                 .of_parameters = op->of_parameters};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    graph->tensors[graph->tensor_count++] = tensor;
    op->outputs[op->output_count++] = tensor;
    if (op->output_count == 1)
        op->dtype = dtype;
    op->out_bytes += xt_tensor_bytes(tensor);
    return tensor;
}

void xt_op_write_none(struct xt_op *op)
{
    if (op)
        op->outputs[op->output_count++] = NULL;
}

static int find_declared(struct xt_graph *graph, const char *name)
{
    const struct xt_params *params = graph->options.params;
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->items[i].name, name) == 0)
            return i;
    xt_graph_refuse(graph, XT_ERR_RUN, "parameter %s has not been declared", name);
    return -1;
}

int xt_graph_param(struct xt_graph *graph, const struct xt_param *param)
{
    struct xt_params *params = graph->options.params;
    if (xt_graph_fails(graph))
        return -1;
    if (graph->params_declared)
        return find_declared(graph, param->name);
    if (!params->values)
        return xt_params_add(params, param, &graph->err);
    int index = graph->next_param++;
    if (index < params->count && strcmp(params->items[index].name, param->name) == 0)
        return index;
    xt_graph_refuse(graph, XT_ERR_RUN, "parameter %s is not in the network of these parameters",
                    param->name);
    return -1;
}

void xt_op_take_param(struct xt_op *op, struct xt_graph *graph, int param)
{
    if (!op || xt_graph_fails(graph))
        return;
    struct xt_param *item = &graph->options.params->items[param];
    if (!xt_param_is_statistic(item))
        item->frozen = op->frozen;
    op->params[op->param_count++] = param;
}

bool xt_op_takes(const struct xt_op *op, int param)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->params[i] == param)
            return true;
    return false;
}

bool xt_param_is_shared(const struct xt_graph *graph, int param)
{
    int count = 0;
    for (int i = 0; i < graph->op_count; i++)
        count += xt_op_takes(graph->ops[i], param);
    return count > 1;
}

/* Whether the op writes the parameter's gradient. */
static bool has_grad(const struct xt_graph *graph, const struct xt_op *op, int param)
{
    return xt_op_learns(op, graph) && xt_op_takes(op, param) &&
           !xt_param_is_statistic(&graph->options.params->items[param]);
}

bool xt_op_adds_grad(const struct xt_graph *graph, const struct xt_op *op, int param)
{
    bool adds = false;
    for (int i = op->index + 1; i < graph->op_count && has_grad(graph, op, param); i++)
        adds = adds || has_grad(graph, graph->ops[i], param);
    return adds;
}

bool xt_op_ends_grad(const struct xt_graph *graph, const struct xt_op *op, int param)
{
    bool ends = has_grad(graph, op, param);
    for (int i = 0; i < op->index && ends; i++)
        ends = !has_grad(graph, graph->ops[i], param);
    return ends;
}

int xt_op_param(struct xt_op *op, struct xt_graph *graph, const struct xt_param *param)
{
    int index = op ? xt_graph_param(graph, param) : -1;
    if (index >= 0)
        xt_op_take_param(op, graph, index);
    return index;
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

/* ---- buffers ---- */

bool xt_op_learns(const struct xt_op *op, const struct xt_graph *graph)
{
    return graph->options.training && !op->frozen;
}

int xt_op_forward_time(const struct xt_op *op)
{
    return op->index;
}

int xt_op_backward_time(const struct xt_graph *graph, const struct xt_op *op)
{
    return 2 * graph->op_count - op->index;
}

struct xt_buffer *xt_op_in_grad(const struct xt_op *op, int i)
{
    return op->inputs[i].tensor->grad[op->inputs[i].reader];
}

struct xt_buffer *xt_graph_add_buffer(struct xt_graph *graph, const char *owner, const char *kind,
                                      size_t bytes)
{
    size_t most = sizeof graph->buffers / sizeof graph->buffers[0];
    struct xt_buffer *buffer = NULL;
    if ((size_t)graph->buffer_count == most)
        return xt_graph_refuse(graph, XT_ERR_RUN, "a network of more than %zu buffers", most);
    if (xt_graph_fails(graph) || xt_mem_calloc(&buffer, 1, sizeof *buffer, owner, &graph->err))
        return NULL;
    *buffer = (struct xt_buffer){.tensor = owner,
                                 .kind = kind,
                                 .bytes = bytes,
                                 .first = 1 << 30,
                                 .last = -1,
                                 .loss = graph->op_count,
                                 .forward_last = -1,
                                 .device = graph->options.device};
    graph->buffers[graph->buffer_count++] = buffer;
    return buffer;
}

struct xt_buffer *xt_graph_temporary(struct xt_graph *graph, const struct xt_tensor *tensor,
                                     size_t bytes, int time)
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, tensor->name, "temporary", bytes);
    xt_buffer_use(buffer, time);
    return buffer;
}

struct xt_buffer *xt_graph_saved(struct xt_graph *graph, const struct xt_op *op, const char *kind,
                                 size_t bytes)
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, op->name, kind, bytes);
    xt_buffer_use(buffer, xt_op_forward_time(op));
    xt_buffer_use(buffer, xt_op_backward_time(graph, op));
    return buffer;
}

struct xt_buffer *xt_graph_permanent(struct xt_graph *graph, const char *owner, const char *kind,
                                     size_t bytes)
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, owner, kind, bytes);
    xt_buffer_use(buffer, 0);
    xt_buffer_use(buffer, 2 * graph->op_count + 1);
    return buffer;
}

/* Counts bytes that the op at `time` reads or writes; the loss is not an op. */
static void count_bytes(struct xt_graph *graph, int time, size_t bytes)
{
    bool backward = time > graph->op_count;
    int index = backward ? 2 * graph->op_count - time : time;
    if (index < graph->op_count)
        graph->ops[index]->bytes[backward] += (double)bytes;
}

/* The buffer holds one slice of samples per worker. */
static void make_ring(const struct xt_graph *graph, struct xt_buffer *buffer, int samples,
                      size_t sample)
{
    if (!buffer)
        return;
    buffer->ring = samples;
    buffer->worker_samples = graph->slices.worker_samples;
    buffer->worker_bytes = sample * (size_t)samples;
    buffer->bytes = buffer->worker_bytes * (size_t)graph->slices.workers;
}

/* In an arena of the worker's own. */
static void make_worker_ring(const struct xt_graph *graph, struct xt_buffer *buffer, int samples,
                             size_t sample)
{
    make_ring(graph, buffer, samples, sample);
    if (!buffer)
        return;
    buffer->of_worker = true;
    buffer->bytes = buffer->worker_bytes;
}

static struct xt_buffer *add_value(struct xt_graph *graph, const struct xt_tensor *tensor)
{
    struct xt_buffer *value =
        xt_graph_add_buffer(graph, tensor->name, "value", xt_tensor_bytes(tensor));
    if (tensor->value_ring)
        make_worker_ring(graph, value, xt_graph_writer(graph, tensor)->by_slices[0],
                         xt_tensor_sample_bytes(tensor));
    return value;
}

void xt_graph_use_value(struct xt_graph *graph, struct xt_tensor *tensor, int time)
{
    if (!tensor->value)
        tensor->value = add_value(graph, tensor);
    xt_buffer_use(tensor->value, time);
    count_bytes(graph, time, xt_tensor_bytes(tensor));
}

static struct xt_buffer *add_grad(struct xt_graph *graph, const struct xt_tensor *tensor,
                                  int reader)
{
    if (tensor->value && tensor->written_over)
        return tensor->value;
    struct xt_buffer *grad =
        xt_graph_add_buffer(graph, tensor->name, "gradient", xt_tensor_bytes(tensor));
    if (tensor->ring[reader])
        make_ring(graph, grad, xt_graph_writer(graph, tensor)->by_slices[1],
                  xt_tensor_sample_bytes(tensor));
    return grad;
}

void xt_graph_use_grad(struct xt_graph *graph, struct xt_tensor *tensor, int reader, int time)
{
    struct xt_buffer **grad = &tensor->grad[reader];
    if (!*grad)
        *grad = add_grad(graph, tensor, reader);
    xt_buffer_use(*grad, time);
    count_bytes(graph, time, xt_tensor_bytes(tensor));
}

/* In inference what is computed of parameters alone stays, for passes that do not compute it. */
static void keep_value(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    xt_buffer_use(tensor->value, 0);
    xt_buffer_use(tensor->value, 2 * graph->op_count + 1);
}

void xt_graph_use_inputs(struct xt_op *op, struct xt_graph *graph, uint64_t saved)
{
    int backward = xt_op_backward_time(graph, op);
    bool learns = xt_op_learns(op, graph);
    for (int i = 0; i < op->input_count; i++) {
        const struct xt_op_input *in = &op->inputs[i];
        xt_graph_use_value(graph, in->tensor, xt_op_forward_time(op));
        if (!graph->options.training && in->tensor->of_parameters && !op->of_parameters)
            keep_value(graph, in->tensor);
        if (learns && saved >> i & 1)
            xt_graph_use_value(graph, in->tensor, backward);
        if (learns && in->tensor->wants_grad)
            xt_graph_use_grad(graph, in->tensor, in->reader, backward);
    }
}

/* An output in an input's memory was counted with the input. */
static bool is_in_place(const struct xt_op *op, const struct xt_tensor *out)
{
    for (int i = 0; i < op->input_count; i++)
        if (out->value && out->value == op->inputs[i].tensor->value)
            return true;
    return false;
}

void xt_graph_use_outputs(struct xt_op *op, struct xt_graph *graph, uint64_t saved)
{
    int backward = xt_op_backward_time(graph, op);
    for (int i = 0; i < op->output_count; i++) {
        struct xt_tensor *out = op->outputs[i];
        if (!out)
            continue;
        if (!is_in_place(op, out))
            xt_graph_use_value(graph, out, xt_op_forward_time(op));
        if (!xt_op_learns(op, graph))
            continue;
        if (saved >> i & 1)
            xt_graph_use_value(graph, out, backward);
        for (int r = 0; r < out->readers; r++)
            xt_graph_use_grad(graph, out, r, backward);
    }
}

void xt_graph_use(struct xt_op *op, struct xt_graph *graph, uint64_t saved_inputs,
                  uint64_t saved_outputs)
{
    xt_graph_use_inputs(op, graph, saved_inputs);
    xt_graph_use_outputs(op, graph, saved_outputs);
}

/* Whether only the op reads the tensor from here on. */
static bool is_free(const struct xt_tensor *tensor)
{
    return tensor->readers == 1 && !tensor->shared && tensor->value &&
           !tensor->value->backward_first;
}

void xt_op_share_memory(struct xt_op *op, struct xt_graph *graph, bool in_place)
{
    struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_tensor *out = xt_op_out(op, 0);
    if (!xt_op_learns(op, graph) || in->dtype != out->dtype)
        return;
    if (in_place && is_free(in))
        out->value = in->value;
    out->grad[0] = xt_op_in_grad(op, 0);
}

enum xt_dtype xt_op_numbers_type(const struct xt_graph *graph, const struct xt_tensor *in)
{
    return xt_dtype_is_int8(in->dtype) ? graph->options.dtype : in->dtype;
}

/* Of a slice if the op runs by slices forward. */
static struct xt_operand operand_of(const struct xt_op *op, const struct xt_graph *graph,
                                    const struct xt_tensor *tensor, const struct xt_buffer *buffer,
                                    size_t sample)
{
    struct xt_operand operand = xt_operand_tensor(tensor, buffer);
    if (!op->by_slices[0])
        return operand;
    operand.dims[0] = op->by_slices[0];
    operand.workers = graph->slices.workers;
    operand.sample = sample;
    return operand;
}

struct xt_operand xt_op_output(const struct xt_op *op, const struct xt_graph *graph, int i)
{
    const struct xt_tensor *out = xt_op_out(op, i);
    return operand_of(op, graph, out, out->value, xt_tensor_sample_bytes(out));
}

struct xt_operand xt_op_numbers(struct xt_op *op, struct xt_graph *graph, int i)
{
    const struct xt_tensor *in = xt_op_in(op, i);
    struct xt_operand held = operand_of(op, graph, in, in->value, xt_tensor_sample_bytes(in));
    if (!xt_dtype_is_int8(in->dtype))
        return held;
    size_t count = xt_tensor_count(in), sample = count / (size_t)in->n * sizeof(float);
    struct xt_buffer *buffer =
        xt_graph_temporary(graph, in, count * sizeof(float), xt_op_forward_time(op));
    if (op->by_slices[0])
        make_worker_ring(graph, buffer, op->by_slices[0], sample);
    struct xt_operand numbers = operand_of(op, graph, in, buffer, sample);
    numbers.dtype = dnnl_f32;
    xt_program_dequantise(&op->program, XT_FORWARD, &held, xt_graph_scale_of(graph, in), &numbers);
    if (in->offset != 0)
        xt_program_eltwise(&op->program, XT_FORWARD, dnnl_eltwise_linear, 1, in->offset * in->scale,
                           &numbers, &numbers);
    return numbers;
}

/* ---- the host's side ---- */

void xt_graph_pin(struct xt_graph *graph, const struct xt_operand *operand, const char *what,
                  struct xt_device_memory *out)
{
    const struct xt_device *device = graph->options.device;
    size_t most = xt_device_allocation_most(device);
    dnnl_memory_desc_t md = NULL;
    if (xt_graph_fails(graph) || xt_operand_desc(operand, &md, &graph->err))
        return;
    size_t bytes = xt_layout_bytes(md);
    xt_dnnl.memory_desc_destroy(md);
    if (most && bytes > most) {
        xt_device_refuse_piece(device, what, bytes, &graph->err);
        return;
    }
    if (xt_mem_grow(&graph->pinned, &graph->pinned_capacity, graph->pinned_count + 1,
                    sizeof *graph->pinned, what, &graph->err))
        return;
    graph->pinned[graph->pinned_count++] = (struct xt_pinned){*operand, what, out};
    graph->pinned_bytes += bytes;
}

struct xt_location xt_op_follow_host(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                     size_t count, struct xt_device_memory *host)
{
    struct xt_operand from = xt_operand_matrix(xt_in_memory(host), dnnl_f32, 1, count);
    xt_graph_pin(graph, &from, kind, host);
    struct xt_location there =
        xt_in_buffer(xt_graph_permanent(graph, op->name, kind, count * sizeof(float)));
    struct xt_operand to = xt_operand_matrix(there, dnnl_f32, 1, count);
    xt_program_reorder(&op->program, XT_BEFORE, &from, &to);
    return there;
}

struct xt_location xt_graph_staging(struct xt_graph *graph, size_t count)
{
    if (count > graph->staging_floats)
        graph->staging_floats = count;
    return xt_in_memory(&graph->staging);
}

/* ---- parameters and scratch ---- */

struct xt_location xt_graph_value_of(const struct xt_graph *graph, int param)
{
    struct xt_params *params = graph->options.params;
    const struct xt_param *item = &params->items[param];
    return xt_in_arena(xt_param_is_statistic(item) ? &params->device.stats : &params->device.values,
                       &item->offset);
}

struct xt_location xt_graph_cast_of(struct xt_graph *graph, int param)
{
    const struct xt_params *params = graph->options.params;
    size_t size = xt_dtype_size(graph->options.dtype);
    if (!graph->casts)
        graph->casts = xt_graph_permanent(graph, "the parameters", XT_WORKING_WEIGHTS,
                                          params->value_floats * size);
    graph->cast_at[param] = params->items[param].offset * size / sizeof(float);
    return (struct xt_location){.buffer = graph->casts, .floats_before = &graph->cast_at[param]};
}

struct xt_location xt_graph_grad_of(const struct xt_graph *graph, int param)
{
    struct xt_params *params = graph->options.params;
    return xt_in_arena(&params->device.grads, &params->items[param].offset);
}

struct xt_location xt_graph_batch_stat_of(struct xt_graph *graph, int param)
{
    graph->moves_statistics = true;
    return xt_in_arena(&graph->batch_stats, &graph->options.params->items[param].offset);
}

struct xt_location xt_graph_scale_of(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    return xt_in_arena(&graph->scales, &graph->scale_at[tensor->index]);
}

/* Each process evaluates its own images. */
static bool is_reduced(const struct xt_graph *graph)
{
    return graph->communicator && graph->communicator->sum && graph->pass.training;
}

enum xt_status xt_graph_add_up(struct xt_graph *graph, double *values, size_t count,
                               struct xt_err *err)
{
    return is_reduced(graph)
               ? graph->communicator->sum(graph->communicator->context, values, count, err)
               : XT_OK;
}

int xt_graph_samples(const struct xt_graph *graph, int own)
{
    return is_reduced(graph) ? graph->communicator->samples : own;
}

void xt_graph_want_scratch(struct xt_graph *graph, size_t floats)
{
    if (floats > graph->loop_scratch_floats)
        graph->loop_scratch_floats = floats;
}

float *xt_graph_loop_scratch(const struct xt_graph *graph)
{
    return graph->loop_scratch + (size_t)omp_get_thread_num() * graph->loop_scratch_floats;
}
