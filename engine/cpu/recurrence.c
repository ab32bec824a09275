/* Recurrent layers: the program's primitives of each step are many and small. Loops run a row's
 * steps one after the other without waiting for other threads; the gradients of the weight and the
 * bias are one product each over all steps.
 */
#include "engine/cpu/cpu.h"

enum {
    GATES = XT_RECURRENCE_IN_GATES,
    WEIGHT = XT_RECURRENCE_IN_WEIGHT,
    BIAS = XT_RECURRENCE_IN_BIAS,
    KEPT = XT_RECURRENCE_GATES_MAX /* numbers of a unit for the backward pass */
};

/* The widest strip of the loops: outputs of a product are padded to a whole number of them. */
static size_t padded(int count)
{
    enum { STRIP_MAX = 32 };
    return (size_t)(count + STRIP_MAX - 1) / STRIP_MAX * STRIP_MAX;
}

size_t xt_recurrence_packed(int outputs, int inputs)
{
    return padded(outputs) * (size_t)inputs;
}

size_t xt_recurrence_scratch(enum xt_recurrence kind, int hidden)
{
    size_t gates = padded(xt_recurrence_gates(kind) * hidden);
    return XT_RECURRENCE_ROWS * (gates + padded(hidden) + (size_t)hidden + gates / 2);
}

static bool is_own(const struct xt_op *op)
{
    enum xt_dtype dtype = xt_op_out(op, 0)->dtype;
    return dtype == XT_F32 || dtype == XT_BF16;
}

static bool is_gated(const struct xt_recurrence_op *op)
{
    return op->spec.kind == XT_LSTM || op->spec.kind == XT_GRU;
}

/* Of all rows and steps. */
static size_t pixels_of(const struct xt_op *op)
{
    const struct xt_tensor *in = xt_op_in(op, GATES);
    return xt_tensor_count(in) / (size_t)in->c;
}

/* Their gradients as products over all steps. */
static void add_parameters(struct xt_recurrence_op *recurrence, struct xt_graph *graph)
{
    struct xt_op *op = &recurrence->op;
    const struct xt_tensor *weight = xt_op_in(op, WEIGHT);
    dnnl_data_type_t dtype = xt_dtype_dnnl(xt_op_out(op, 0)->dtype);
    size_t count = pixels_of(op);
    size_t outputs = (size_t)xt_op_in(op, GATES)->c;
    struct xt_operand behind =
        xt_operand_matrix(xt_in_buffer(recurrence->dstate), dtype, count, outputs);
    struct xt_operand before =
        xt_operand_matrix(xt_in_buffer(recurrence->before), dtype, count, (size_t)weight->c);
    struct xt_operand ones = {0};
    if (op->input_count > BIAS && xt_op_in(op, BIAS)->wants_grad)
        ones = xt_op_ones(op, graph, count, dtype);
    xt_recurrence_add_gradients(recurrence, &behind, &before, &ones, false);
}

static void prepare_backward(struct xt_recurrence_op *recurrence, struct xt_graph *graph)
{
    struct xt_op *op = &recurrence->op;
    const struct xt_tensor *gates = xt_op_in(op, GATES);
    const struct xt_tensor *weight = xt_op_in(op, WEIGHT);
    const struct xt_tensor *out = xt_op_out(op, 0);
    int time = xt_op_backward_time(graph, op);
    size_t size = xt_dtype_size(out->dtype);
    size_t states = pixels_of(op) * (size_t)weight->c;
    size_t all = pixels_of(op) * (size_t)gates->c;
    recurrence->activated =
        is_gated(recurrence) ? xt_graph_saved(graph, op, "gates", KEPT * states * size) : NULL;
    recurrence->cells = recurrence->spec.kind == XT_LSTM
                            ? xt_graph_saved(graph, op, "cells", states * sizeof(float))
                            : NULL;
    recurrence->packed[1] = xt_graph_temporary(
        graph, weight, xt_recurrence_packed(weight->c, gates->c) * sizeof(float), time);
    recurrence->before = xt_graph_temporary(graph, out, states * size, time);
    recurrence->dgates = gates->wants_grad ? xt_op_in_grad(op, GATES)
                                           : xt_graph_temporary(graph, gates, all * size, time);
    recurrence->dstate = recurrence->spec.kind == XT_GRU
                             ? xt_graph_temporary(graph, gates, all * size, time)
                             : recurrence->dgates;
    add_parameters(recurrence, graph);
}

void xt_cpu_recurrence_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_recurrence_op *recurrence = (struct xt_recurrence_op *)op;
    const struct xt_tensor *weight = xt_op_in(op, WEIGHT);
    if (!is_own(op)) {
        op->own_name[0] = op->own_name[1] = NULL;
        op->kind->describe(op, graph);
        return;
    }
    xt_graph_use(op, graph, 1U << WEIGHT, 1);
    recurrence->gates = xt_op_numbers(op, graph, GATES);
    size_t bytes = xt_recurrence_packed(xt_op_in(op, GATES)->c, weight->c) * sizeof(float);
    recurrence->packed[0] = graph->options.training
                                ? xt_graph_temporary(graph, weight, bytes, xt_op_forward_time(op))
                                : xt_graph_permanent(graph, op->name, XT_WORKING_WEIGHTS, bytes);
    xt_graph_want_scratch(graph, xt_recurrence_scratch(recurrence->spec.kind, weight->c));
    if (xt_op_learns(op, graph))
        prepare_backward(recurrence, graph);
}

/* The weight for a pass: its rows are the outputs, backward its columns. */
static void pack(const struct xt_recurrence_op *recurrence, const struct xt_graph *graph,
                 bool backward)
{
    const struct xt_tensor *weight = xt_op_in(&recurrence->op, WEIGHT);
    int rows = xt_op_in(&recurrence->op, GATES)->c;
    int columns = weight->c;
    const size_t strides[] = {backward ? 1 : (size_t)columns, backward ? (size_t)columns : 1};
    int parts = graph->options.device->threads;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++)
        graph->loops->recurrence_pack(xt_op_out(&recurrence->op, 0)->dtype, weight->value->data,
                                      strides, backward ? columns : rows, backward ? rows : columns,
                                      part, parts, recurrence->packed[backward]->data);
}

static void *data_of(const struct xt_buffer *buffer)
{
    return buffer ? buffer->data : NULL;
}

static void run(const struct xt_recurrence_op *recurrence, const struct xt_graph *graph,
                bool backward)
{
    const struct xt_op *op = &recurrence->op;
    const struct xt_tensor *in = xt_op_in(op, GATES);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_recurrence_job job = {.kind = recurrence->spec.kind,
                                    .dtype = out->dtype,
                                    .steps = in->w,
                                    .hidden = xt_op_in(op, WEIGHT)->c,
                                    .backwards = recurrence->spec.backwards,
                                    .with_cell = recurrence->spec.with_cell,
                                    .weight = recurrence->packed[backward]->data,
                                    .bias = op->input_count > BIAS ? xt_op_in(op, BIAS)->value->data
                                                                   : NULL,
                                    .gates = recurrence->gates.place.buffer->data,
                                    .out = out->value->data,
                                    .activated = data_of(recurrence->activated),
                                    .cells = data_of(recurrence->cells)};
    if (backward) {
        job.dout = out->grad[0]->data;
        job.dgates = recurrence->dgates->data;
        job.dstate = recurrence->dstate->data;
        job.before = recurrence->before->data;
    }
    size_t rows = (size_t)in->n * (size_t)in->h;
    size_t threads = (size_t)graph->options.device->threads;
#pragma omp parallel for schedule(static) firstprivate(job)
    for (size_t part = 0; part < threads; part++) {
        job.scratch = xt_graph_loop_scratch(graph);
        size_t first = rows * part / threads;
        size_t end = rows * (part + 1) / threads;
        if (backward)
            graph->loops->recurrence_backward(&job, first, end);
        else
            graph->loops->recurrence(&job, first, end);
    }
}

enum xt_status xt_cpu_recurrence_forward(struct xt_op *op, struct xt_graph *graph,
                                         struct xt_err *err)
{
    const struct xt_recurrence_op *recurrence = (const struct xt_recurrence_op *)op;
    enum xt_status status = xt_program_run(&op->program, XT_FORWARD, err);
    if (status || !is_own(op))
        return status;
    if (!graph->computed)
        pack(recurrence, graph, false);
    run(recurrence, graph, false);
    return XT_OK;
}

enum xt_status xt_cpu_recurrence_backward(struct xt_op *op, struct xt_graph *graph,
                                          struct xt_err *err)
{
    const struct xt_recurrence_op *recurrence = (const struct xt_recurrence_op *)op;
    if (is_own(op)) {
        pack(recurrence, graph, true);
        run(recurrence, graph, true);
    }
    return xt_program_run(&op->program, XT_BACKWARD, err);
}
