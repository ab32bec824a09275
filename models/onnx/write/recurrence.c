/* Recurrent layers as LSTM, GRU and RNN. ONNX's have the product with the input too: the linear
 * layer in front, if nothing else reads it, else one by the identity.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

enum { GATES = XT_RECURRENCE_IN_GATES, WEIGHT = XT_RECURRENCE_IN_WEIGHT };

struct layer {
    struct xt_exporter *exporter;
    const struct xt_op *op;
    const struct xt_recurrence_op *recurrence;
    const struct xt_conv_op *linear; /* NULL: the identity */
    enum xt_dtype dtype;
    int64_t hidden, gates, inputs; /* gates: all of them, in channels */
};

static const struct xt_conv_op *linear_before(const struct xt_graph *graph, const struct xt_op *op)
{
    const struct xt_tensor *gates = xt_op_in(op, GATES);
    const struct xt_op *before = xt_graph_writer(graph, gates);
    const struct xt_conv_op *conv = (const struct xt_conv_op *)before;
    if (!before || before->kind != &xt_kind_conv || gates->readers != 1 || conv->relu ||
        conv->folded || conv->groups != 1 || xt_dtype_is_int8(xt_op_in(before, 0)->dtype))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (conv->kernel[i] != 1 || conv->strides[i] != 1 || conv->pads[i] || conv->pads_after[i])
            return NULL;
    return conv;
}

/* The parameter that the input is, and that nothing else reads; NULL: it is computed. */
static const struct xt_op *parameter_of(const struct xt_graph *graph, const struct xt_op *op,
                                        int input)
{
    const struct xt_op *before = xt_graph_writer(graph, xt_op_in(op, input));
    bool is_alone =
        before && before->kind == &xt_kind_parameter && xt_op_in(op, input)->readers == 1;
    return is_alone ? before : NULL;
}

bool xt_export_is_in_recurrence(const struct xt_graph *graph, const struct xt_op *op)
{
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *reader = graph->ops[i];
        if (reader->kind != &xt_kind_recurrence)
            continue;
        if ((const struct xt_op *)linear_before(graph, reader) == op)
            return true;
        for (int k = WEIGHT; k < reader->input_count; k++)
            if (parameter_of(graph, reader, k) == op)
                return true;
    }
    return false;
}

/* ---- the parameters: [gates] or [gates][columns] in PyTorch's order ---- */

static const char *node(const struct layer *l, const struct xt_onnx_node *n)
{
    return xt_export_node(l->exporter, l->op, n);
}

static const char *constant(const struct layer *l, const char *rest, int64_t rows, int64_t columns,
                            const float *numbers)
{
    const int64_t dims[] = {rows, columns};
    return xt_export_constant(l->exporter, xt_export_name(l->op->name, rest).text, l->dtype,
                              columns ? 2 : 1, dims, numbers);
}

/* An input that is the state's weight or bias. */
static const char *by_state(const struct layer *l, int input, int64_t columns)
{
    const int64_t dims[] = {l->gates, columns};
    struct xt_params *params = l->exporter->graph->options.params;
    const struct xt_op *parameter = parameter_of(l->exporter->graph, l->op, input);
    if (parameter) {
        const struct xt_param *item = &params->items[parameter->params[0]];
        return xt_export_constant(l->exporter, item->name, l->dtype, columns ? 2 : 1, dims,
                                  xt_params_value(params, item));
    }
    const char *x = xt_export_in(l->exporter, xt_op_in(l->op, input), l->dtype);
    x = xt_export_channels_last(l->exporter, l->op, x);
    return xt_export_reshaped(l->exporter, l->op, x, dims, columns ? 2 : 1);
}

/* A linear layer's parameters, under their own names. */
static enum xt_status name_linear(const struct layer *l, const char *names[2], struct xt_err *err)
{
    const struct xt_params *params = l->exporter->graph->options.params;
    size_t count = (size_t)(l->gates * l->inputs);
    float *numbers = NULL;
    enum xt_status status =
        xt_mem_calloc(&numbers, count + 2 * (size_t)l->gates, sizeof *numbers, l->op->name, err);
    if (!status)
        status = xt_conv_weights(l->linear, l->exporter->graph, 1, numbers, numbers + count,
                                 numbers + count + l->gates, err);
    if (!status) {
        const int64_t dims[] = {l->gates, l->inputs};
        names[0] = xt_export_constant(l->exporter, params->items[l->linear->weight].name, l->dtype,
                                      2, dims, numbers);
        if (l->linear->bias >= 0)
            names[1] = xt_export_constant(l->exporter, params->items[l->linear->bias].name,
                                          l->dtype, 1, dims, numbers + count);
    }
    free(numbers);
    return status;
}

static enum xt_status name_identity(const struct layer *l, const char *names[2], struct xt_err *err)
{
    float *numbers = NULL;
    enum xt_status status =
        xt_mem_calloc(&numbers, (size_t)(l->gates * l->gates), sizeof *numbers, l->op->name, err);
    for (int64_t i = 0; !status && i < l->gates; i++)
        numbers[i * l->gates + i] = 1;
    if (!status)
        names[0] = constant(l, "/identity", l->gates, l->gates, numbers);
    free(numbers);
    return status;
}

static const char *zeros(const struct layer *l)
{
    float *numbers = NULL;
    struct xt_err err = {0};
    if (xt_mem_calloc(&numbers, (size_t)l->gates, sizeof *numbers, l->op->name, &err)) {
        xt_onnx_refuse(l->exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    const char *name = constant(l, "/zeros", l->gates, 0, numbers);
    free(numbers);
    return name;
}

/* In ONNX's order, i, o, f, c and z, r, h; with the axis of the directions in front. */
static const char *in_order(const struct layer *l, const char *value, int64_t columns)
{
    static const char *const of_lstm[] = {"", ":3", ":1", ":2"};
    static const char *const of_gru[] = {":1", "", ":2"};
    const int64_t dims[] = {1, l->gates, columns};
    enum xt_recurrence kind = l->recurrence->spec.kind;
    int count = xt_recurrence_gates(kind);
    char names[XT_RECURRENCE_GATES_MAX][XT_ONNX_NAME_MAX];
    struct xt_onnx_node all = {.type = "Concat", .attributes = {{"axis", .number = 0}}};
    if (count > 1)
        value = node(l, &(struct xt_onnx_node){.type = "Split",
                                               .inputs = {value},
                                               .attributes = {{"axis", .number = 0}},
                                               .more_outputs = count - 1});
    for (int i = 0; i < count; i++) {
        const char *which = kind == XT_LSTM ? of_lstm[i] : kind == XT_GRU ? of_gru[i] : "";
        snprintf(names[i], sizeof names[i], "%s%s", value, which);
        all.inputs[i] = names[i];
    }
    if (count > 1)
        value = node(l, &all);
    return xt_export_reshaped(l->exporter, l->op, value, dims, columns ? 3 : 2);
}

/* Both biases, one after the other; NULL: there is none. */
static const char *biases(const struct layer *l, const char *by_input)
{
    bool has_state = l->op->input_count > XT_RECURRENCE_IN_BIAS;
    if (!by_input && !has_state)
        return NULL;
    by_input = by_input ? by_input : zeros(l);
    const char *of_state = has_state ? by_state(l, XT_RECURRENCE_IN_BIAS, 0) : zeros(l);
    return node(
        l, &(struct xt_onnx_node){.type = "Concat",
                                  .inputs = {in_order(l, by_input, 0), in_order(l, of_state, 0)},
                                  .attributes = {{"axis", .number = 1}}});
}

/* ---- the layer ---- */

/* [n][c][h][w] to ONNX's [w][n * h][c]. */
static const char *as_sequence(const struct layer *l, const char *x)
{
    static const int64_t steps_first[] = {3, 0, 2, 1};
    const int64_t dims[] = {0, -1, l->inputs};
    x = xt_export_transposed(l->exporter, l->op, x, steps_first, 4);
    return xt_export_reshaped(l->exporter, l->op, x, dims, 3);
}

/* [w][1][n * h][c] back, and the cell of one step, [1][n * h][c]. */
static const char *as_image(const struct layer *l, const char *y)
{
    static const int64_t samples_first[] = {1, 3, 2, 0};
    const int64_t dims[] = {0, -1, xt_op_out(l->op, 0)->h, l->hidden};
    y = xt_export_reshaped(l->exporter, l->op, y, dims, 4);
    return xt_export_transposed(l->exporter, l->op, y, samples_first, 4);
}

/* Whether the reader takes states alone, or the last step. */
static bool takes_no_other_cell(const struct layer *l, const struct xt_op *reader)
{
    const struct xt_rearrange_op *slice = (const struct xt_rearrange_op *)reader;
    int last = l->recurrence->spec.backwards ? 0 : xt_op_out(l->op, 0)->w - 1;
    if (reader->kind != &xt_kind_slice)
        return false;
    const struct xt_tensor *part = xt_op_out(reader, 0);
    return slice->axis == XT_AXIS_W   ? slice->start == last && part->w == 1
           : slice->axis == XT_AXIS_C ? slice->start + slice->step * (part->c - 1) < l->hidden
                                      : false;
}

static bool needs_last_cell_alone(const struct layer *l)
{
    const struct xt_graph *graph = l->exporter->graph;
    bool fits = true;
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->input_count; k++)
            if (xt_op_in(graph->ops[i], k) == xt_op_out(l->op, 0))
                fits = fits && takes_no_other_cell(l, graph->ops[i]);
    return fits;
}

/* The states, and behind each the last cell: ONNX has no other. */
static const char *with_cells(const struct layer *l, const char *y, const char *states)
{
    const struct xt_tensor *out = xt_op_out(l->op, 0);
    const int64_t steps[] = {1, 1, 1, out->w};
    char last[XT_ONNX_NAME_MAX];
    snprintf(last, sizeof last, "%s:2", y);
    const char *cell = as_image(l, last);
    const char *times =
        xt_export_axes(l->exporter, xt_export_name(l->op->name, "/steps").text, steps, 4);
    cell = node(l, &(struct xt_onnx_node){.type = "Tile", .inputs = {cell, times}});
    return node(l, &(struct xt_onnx_node){.type = "Concat",
                                          .inputs = {states, cell},
                                          .attributes = {{"axis", .number = 1}}});
}

void xt_export_recurrence(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_recurrence_op *recurrence = (const struct xt_recurrence_op *)op;
    const struct xt_conv_op *linear = linear_before(exporter->graph, op);
    const struct xt_tensor *in = linear ? xt_op_in(&linear->op, 0) : xt_op_in(op, GATES);
    const struct layer l = {.exporter = exporter,
                            .op = op,
                            .recurrence = recurrence,
                            .linear = linear,
                            .dtype = xt_export_dtype(xt_op_out(op, 0)),
                            .hidden = xt_op_in(op, WEIGHT)->c,
                            .gates = xt_op_in(op, GATES)->c,
                            .inputs = in->c};
    enum xt_recurrence kind = recurrence->spec.kind;
    const char *by_input[2] = {"", NULL};
    struct xt_err err = {0};
    if (recurrence->spec.with_cell && !needs_last_cell_alone(&l)) {
        xt_onnx_refuse(
            exporter->onnx, XT_ERR_USAGE,
            "%s: the network reads cells of an LSTM, of which ONNX has the last one alone",
            op->name);
        return;
    }
    struct xt_onnx_attribute more = {0};
    if (kind == XT_GRU)
        more = (struct xt_onnx_attribute){"linear_before_reset", .number = 1};
    else if (kind == XT_RNN_RELU)
        more = (struct xt_onnx_attribute){"activations", .text = "Relu", .count = 1};
    if (linear ? name_linear(&l, by_input, &err) : name_identity(&l, by_input, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return;
    }
    const struct xt_onnx_node layer = {
        .type = kind == XT_LSTM  ? "LSTM"
                : kind == XT_GRU ? "GRU"
                                 : "RNN",
        .inputs = {as_sequence(&l, xt_export_in(exporter, in, l.dtype)),
                   in_order(&l, by_input[0], l.inputs),
                   in_order(&l, by_state(&l, WEIGHT, l.hidden), l.hidden), biases(&l, by_input[1])},
        .attributes = {{"hidden_size", .number = l.hidden},
                       {"direction", .text = recurrence->spec.backwards ? "reverse" : "forward"},
                       more},
        .more_outputs = recurrence->spec.with_cell ? 2 : 0};
    const char *y = node(&l, &layer);
    const char *states = as_image(&l, y);
    if (recurrence->spec.with_cell)
        states = with_cells(&l, y, states);
    xt_export_out(exporter, xt_op_out(op, 0), states, l.dtype);
}
