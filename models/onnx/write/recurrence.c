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

static const struct xt_op *op_of(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->output_count; k++)
            if (xt_op_out(graph->ops[i], k) == tensor)
                return graph->ops[i];
    return NULL;
}

static const struct xt_conv_op *linear_before(const struct xt_graph *graph, const struct xt_op *op)
{
    const struct xt_tensor *gates = xt_op_in(op, GATES);
    const struct xt_op *before = op_of(graph, gates);
    const struct xt_conv_op *conv = (const struct xt_conv_op *)before;
    if (!before || before->kind != &xt_kind_conv || gates->readers != 1 || conv->relu ||
        conv->folded || conv->groups != 1 || xt_dtype_is_int8(xt_op_in(before, 0)->dtype))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (conv->kernel[i] != 1 || conv->strides[i] != 1 || conv->pads[i] || conv->pads_after[i])
            return NULL;
    return conv;
}

bool xt_export_is_in_recurrence(const struct xt_graph *graph, const struct xt_op *op)
{
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->kind == &xt_kind_recurrence &&
            (const struct xt_op *)linear_before(graph, graph->ops[i]) == op)
            return true;
    return false;
}

/* PyTorch's gates in ONNX's order: i, o, f, c and z, r, h. */
static int gate_of(enum xt_recurrence kind, int i)
{
    static const int of_lstm[] = {0, 3, 1, 2};
    static const int of_gru[] = {1, 0, 2};
    return kind == XT_LSTM ? of_lstm[i] : kind == XT_GRU ? of_gru[i] : 0;
}

static const char *constant(const struct layer *l, const char *rest, int ndims, const int64_t *dims,
                            const float *numbers)
{
    return xt_export_constant(l->exporter, xt_export_name(l->op->name, rest).text, l->dtype, ndims,
                              dims, numbers);
}

/* Row `row` of ONNX's. */
static int64_t row_of(const struct layer *l, int64_t row)
{
    return gate_of(l->recurrence->spec.kind, (int)(row / l->hidden)) * l->hidden + row % l->hidden;
}

/* The rows in ONNX's order: weights [1][gates][columns], vectors with columns 0 [1][gates]. */
static const char *in_order(const struct layer *l, const char *rest, const float *numbers,
                            int64_t columns)
{
    const int64_t dims[] = {1, l->gates, columns};
    int64_t each = columns ? columns : 1;
    float *ordered = NULL;
    struct xt_err err = {0};
    if (xt_mem_calloc(&ordered, (size_t)(l->gates * each), sizeof *ordered, l->op->name, &err)) {
        xt_onnx_refuse(l->exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int64_t row = 0; row < l->gates; row++)
        for (int64_t k = 0; k < each; k++)
            ordered[row * each + k] = numbers[row_of(l, row) * each + k];
    const char *name = constant(l, rest, columns ? 3 : 2, dims, ordered);
    free(ordered);
    return name;
}

/* The same of a tensor that is computed from parameters. */
static const char *tensor_in_order(const struct layer *l, const struct xt_tensor *tensor,
                                   const char *rest, int64_t columns)
{
    const int64_t dims[] = {1, l->gates, columns};
    int64_t *rows = NULL;
    struct xt_err err = {0};
    if (xt_mem_calloc(&rows, (size_t)l->gates, sizeof *rows, l->op->name, &err)) {
        xt_onnx_refuse(l->exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int64_t row = 0; row < l->gates; row++)
        rows[row] = row_of(l, row);
    const char *at =
        xt_export_axes(l->exporter, xt_export_name(l->op->name, rest).text, rows, (int)l->gates);
    free(rows);
    const char *x = xt_export_in(l->exporter, tensor, l->dtype);
    x = xt_export_channels_last(l->exporter, l->op, x);
    x = xt_export_node(l->exporter, l->op,
                       &(struct xt_onnx_node){.type = "Gather",
                                              .inputs = {x, at},
                                              .attributes = {{"axis", .number = columns ? 2 : 3}}});
    return xt_export_reshaped(l->exporter, l->op, x, dims, columns ? 3 : 2);
}

/* The linear layer's weight and bias; or the identity, and no bias. */
static void name_linear(const struct layer *l, const char *names[2])
{
    size_t count = (size_t)(l->gates * l->inputs);
    float *numbers = NULL;
    struct xt_err err = {0};
    enum xt_status status =
        xt_mem_calloc(&numbers, count + 2 * (size_t)l->gates, sizeof *numbers, l->op->name, &err);
    if (!status && l->linear)
        status = xt_conv_weights(l->linear, l->exporter->graph, 1, numbers, numbers + count,
                                 numbers + count + l->gates, &err);
    for (int64_t i = 0; !status && !l->linear && i < l->gates; i++)
        numbers[i * l->gates + i] = 1;
    if (status) {
        xt_onnx_refuse(l->exporter->onnx, err.status, "%s", err.text);
    } else {
        names[0] = in_order(l, "/W", numbers, l->inputs);
        names[1] = in_order(l, "/Wb", numbers + count, 0);
    }
    free(numbers);
}

static const char *name_bias(const struct layer *l, const char *of_input)
{
    const char *of_state = NULL;
    float *zeros = NULL;
    struct xt_err err = {0};
    if (l->op->input_count > XT_RECURRENCE_IN_BIAS) {
        of_state = tensor_in_order(l, xt_op_in(l->op, XT_RECURRENCE_IN_BIAS), "/Rb", 0);
    } else if (xt_mem_calloc(&zeros, (size_t)l->gates, sizeof *zeros, l->op->name, &err)) {
        xt_onnx_refuse(l->exporter->onnx, err.status, "%s", err.text);
        return "";
    } else {
        of_state = in_order(l, "/Rb", zeros, 0);
        free(zeros);
    }
    return xt_export_node(l->exporter, l->op,
                          &(struct xt_onnx_node){.type = "Concat",
                                                 .inputs = {of_input, of_state},
                                                 .attributes = {{"axis", .number = 1}}});
}

/* [n][c][h][w] to ONNX's [w][n * h][c]. */
static const char *as_sequence(const struct layer *l, const char *x)
{
    static const int64_t steps_first[] = {3, 0, 2, 1};
    const int64_t dims[] = {0, -1, l->inputs};
    x = xt_export_transposed(l->exporter, l->op, x, steps_first, 4);
    return xt_export_reshaped(l->exporter, l->op, x, dims, 3);
}

/* [w][1][n * h][c] back. */
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
    const int64_t dims[] = {1, -1, out->h, l->hidden};
    const int64_t steps[] = {1, 1, 1, out->w};
    static const int64_t channels_first[] = {1, 3, 2, 0};
    char last[XT_ONNX_NAME_MAX];
    snprintf(last, sizeof last, "%s:2", y);
    const char *cell = xt_export_reshaped(l->exporter, l->op, last, dims, 4);
    cell = xt_export_transposed(l->exporter, l->op, cell, channels_first, 4);
    const char *times =
        xt_export_axes(l->exporter, xt_export_name(l->op->name, "/steps").text, steps, 4);
    cell = xt_export_node(l->exporter, l->op,
                          &(struct xt_onnx_node){.type = "Tile", .inputs = {cell, times}});
    return xt_export_node(l->exporter, l->op,
                          &(struct xt_onnx_node){.type = "Concat",
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
    const char *of_input[2] = {"", ""};
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
    name_linear(&l, of_input);
    const struct xt_onnx_node node = {
        .type = kind == XT_LSTM  ? "LSTM"
                : kind == XT_GRU ? "GRU"
                                 : "RNN",
        .inputs = {as_sequence(&l, xt_export_in(exporter, in, l.dtype)), of_input[0],
                   tensor_in_order(&l, xt_op_in(op, WEIGHT), "/R", l.hidden),
                   name_bias(&l, of_input[1])},
        .attributes = {{"hidden_size", .number = l.hidden},
                       {"direction", .text = recurrence->spec.backwards ? "reverse" : "forward"},
                       more},
        .more_outputs = recurrence->spec.with_cell ? 2 : 0};
    const char *y = xt_export_node(exporter, op, &node);
    const char *states = as_image(&l, y);
    if (recurrence->spec.with_cell)
        states = with_cells(&l, y, states);
    xt_export_out(exporter, xt_op_out(op, 0), states, l.dtype);
}
