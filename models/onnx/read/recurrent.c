/* Recurrent layers: LSTM, GRU and Elman's (engine/net/recurrence.h). The gates by the input are a
 * linear layer over all steps. ONNX lays sequences out as [steps][n][channels], weights as
 * [directions][gates][channels], the gates in an order of its own.
 */
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/ops.h"

enum { DIRECTIONS_MAX = 2, HIDDEN_MAX = 65536, STEPS_MAX = 1024 };
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_STATE, IN_CELL, IN_PEEPHOLES };
enum { OUT_STATES, OUT_STATE, OUT_CELL };
enum { AXIS_STEPS, AXIS_BATCH, AXIS_CHANNELS };

/* Several sequences of a sample are rows of an image: [steps][n][rows][channels]. */
enum { SPLIT_CHANNELS = 3, SPLIT_AXES };
static const int split_homes[] = {XT_AXIS_W, XT_READ_N, XT_AXIS_H, XT_AXIS_C};

struct layer {
    struct xt_reader *reader;
    struct xt_read_node *node;
    struct xt_read_view *x; /* split */
    int64_t rows;
    int steps, directions, hidden;
    enum xt_recurrence kind;
    int gates;
    bool reverse;   /* the only direction runs backwards */
    bool with_cell; /* the last cell is read */
    int place;      /* among the layers of its module; -1: not known */
};

/* Which of ONNX's gates (LSTM i, o, f, c; GRU z, r, h) is each of PyTorch's. */
static const int of_onnx[XT_RECURRENCES][XT_RECURRENCE_GATES_MAX] = {
    [XT_LSTM] = {0, 2, 3, 1},
    [XT_GRU] = {1, 0, 2},
};

/* ---- one direction ---- */

/* The gates along the first axis in PyTorch's order: vectors lie along the channels. */
static struct xt_value *in_order(const struct layer *l, struct xt_read_view *view)
{
    static const int matrix[] = {XT_AXIS_W, XT_AXIS_C};
    static const int vector[] = {XT_AXIS_C};
    struct xt_value *parts[XT_RECURRENCE_GATES_MAX] = {NULL};
    for (int i = 0; i < l->gates; i++) {
        int64_t first = (int64_t)of_onnx[l->kind][i] * l->hidden;
        struct xt_read_view *gate =
            view ? xt_read_take(l->reader, l->node, view, 0, first, 1, l->hidden) : NULL;
        parts[i] =
            gate ? xt_read_lay_out(l->reader, l->node, gate, view->ndims == 2 ? matrix : vector)
                 : NULL;
        if (!parts[i])
            return NULL;
    }
    return xt_net_concat(l->reader->net, parts, l->gates, view->ndims == 2 ? XT_AXIS_W : XT_AXIS_C,
                         NULL);
}

/* A direction's weight, [gates * hidden][columns], or vector (columns 0). */
static struct xt_read_view *direction_of(const struct layer *l, int i, int direction,
                                         int64_t columns)
{
    const int64_t dims[] = {(columns ? 1 : 2) * (int64_t)l->gates * l->hidden, columns};
    int ndims = columns ? 2 : 1;
    struct xt_read_view *view = xt_read_data(l->reader, l->node, i);
    if (!view)
        return NULL;
    bool fits = view->value->of_parameter && view->ndims == ndims + 1 &&
                xt_read_dim(view, 0) == l->directions;
    for (int axis = 0; axis < ndims && fits; axis++)
        fits = xt_read_dim(view, axis + 1) == dims[axis];
    if (!fits)
        return xt_reader_refuse(l->reader, l->node,
                                "has weights that are computed from the images, or do not fit "
                                "%d directions of %d channels",
                                l->directions, l->hidden);
    view = xt_read_take(l->reader, l->node, view, 0, direction, 1, 1);
    return view ? xt_read_reshape(l->reader, l->node, view, ndims, dims) : NULL;
}

/* The numbers of a direction in PyTorch's order, from element `first` of those of an input on. */
static float *reordered(const struct layer *l, const struct xt_file_tensor *tensor, size_t first,
                        size_t columns)
{
    size_t gate = (size_t)l->hidden * columns;
    size_t all = xt_file_tensor_count(tensor);
    float *numbers = xt_reader_take(l->reader, all, sizeof *numbers);
    float *out = xt_reader_take(l->reader, (size_t)l->gates * gate, sizeof *out);
    if (!numbers || !out || first + (size_t)l->gates * gate > all ||
        xt_file_tensor_floats(tensor, numbers, all, &l->reader->err))
        return NULL;
    for (size_t i = 0; i < (size_t)l->gates; i++)
        memcpy(out + i * gate, numbers + first + (size_t)of_onnx[l->kind][i] * gate,
               gate * sizeof *out);
    return out;
}

/* PyTorch's newer exporter computes some of the weights in ONNX's order and stores those: they get
 * their names and order back, "weight_ih" (`what`) of this layer and direction. NULL: it did not.
 */
static struct xt_value *restored(const struct layer *l, int input, int direction, int64_t columns,
                                 const char *what)
{
    char own[48];
    struct xt_read_value *value = xt_read_input(l->node, input);
    struct xt_read_constant *constant =
        value && value->initializer ? xt_read_constant_of(l->reader, value) : NULL;
    bool is_made = constant && constant->tensor && xt_read_is_made_up(l->reader, constant->name);
    if (!is_made || l->place < 0)
        return NULL;
    snprintf(own, sizeof own, "%s_l%d%s", what, l->place, direction ? "_reverse" : "");
    const char *name = xt_read_lost_of(l->reader, l->node, own);
    size_t each = (size_t)l->gates * (size_t)l->hidden * (size_t)(columns ? columns : 2);
    bool is_second = !columns && strcmp(what, "bias_hh") == 0;
    size_t first = (size_t)direction * each + (is_second ? each / 2 : 0);
    if (!name || xt_file_tensor_count(constant->tensor) != (size_t)l->directions * each)
        return NULL;
    const float *numbers = reordered(l, constant->tensor, first, (size_t)(columns ? columns : 1));
    return numbers ? xt_read_restored(l->reader, name, numbers, l->gates * l->hidden, (int)columns)
                   : NULL;
}

static struct xt_value *weight_of(const struct layer *l, int input, int direction, int64_t columns,
                                  const char *what)
{
    struct xt_value *weight = restored(l, input, direction, columns, what);
    return weight || xt_reader_fails(l->reader)
               ? weight
               : in_order(l, direction_of(l, input, direction, columns));
}

/* The vector by the input, or the one by the state, which lie one after the other; NULL: none. */
static struct xt_value *bias_of(const struct layer *l, int direction, bool by_state)
{
    struct xt_value *own = restored(l, IN_B, direction, 0, by_state ? "bias_hh" : "bias_ih");
    if (own || xt_reader_fails(l->reader))
        return own;
    struct xt_read_view *both =
        xt_read_input(l->node, IN_B) ? direction_of(l, IN_B, direction, 0) : NULL;
    int64_t count = (int64_t)l->gates * l->hidden;
    return both ? in_order(
                      l, xt_read_take(l->reader, l->node, both, 0, by_state ? count : 0, 1, count))
                : NULL;
}

/* The states of all steps, in the order of the images. */
static struct xt_value *run(const struct layer *l, int direction)
{
    static const int matrix[] = {XT_AXIS_W, XT_AXIS_C};
    struct xt_reader *reader = l->reader;
    struct xt_value *by_input =
        weight_of(l, IN_W, direction, xt_read_dim(l->x, SPLIT_CHANNELS), "weight_ih");
    struct xt_value *by_state = weight_of(l, IN_R, direction, l->hidden, "weight_hh");
    struct xt_read_view *weight = by_input ? xt_read_view(reader, by_input, 2, matrix) : NULL;
    struct xt_read_view *inputs =
        weight ? xt_read_contract(reader, l->node, xt_read_copy(reader, l->x), SPLIT_CHANNELS, 1,
                                  weight)
               : NULL;
    struct xt_value *gates = inputs ? xt_read_lay_out(reader, l->node, inputs, split_homes) : NULL;
    struct xt_value *bias = bias_of(l, direction, false);
    if (bias)
        gates = xt_net_add(reader->net, gates, bias, NULL);
    bias = bias_of(l, direction, true);
    const struct xt_net_recurrence spec = {
        .kind = l->kind, .backwards = direction || l->reverse, .with_cell = l->with_cell};
    return xt_reader_fails(reader) ? NULL
                                   : xt_net_recurrence(reader->net, gates, by_state, bias, &spec);
}

/* ---- the layer ---- */

/* Whether a constant of zeros, or some of its elements in any order. */
static bool gives_zeros(const struct xt_node *node, int depth)
{
    enum { DEPTH_MAX = 8 };
    bool zeros = node->kind == XT_NODE_CONSTANT;
    for (size_t i = 0; zeros && i < node->as.constant.count; i++)
        zeros = node->as.constant.numbers[i] == 0;
    bool moves = node->kind == XT_NODE_SLICE || node->kind == XT_NODE_RESHAPE ||
                 node->kind == XT_NODE_TRANSPOSE || node->kind == XT_NODE_CONCAT ||
                 node->kind == XT_NODE_MUL ||
                 (node->kind == XT_NODE_AXIS_MAP && node->as.axis_map.map.fill == 0);
    for (int i = 0; moves && depth < DEPTH_MAX && i < node->input_count; i++) {
        zeros = gives_zeros(node->inputs[i]->of, depth + 1);
        if (zeros == (node->kind == XT_NODE_MUL)) /* one factor is enough, and one part is not */
            break;
    }
    return zeros;
}

static bool is_zero(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    struct xt_read_value *value = xt_read_input(node, i);
    double number = 1;
    return !value || (xt_read_number(reader, value, &number) && number == 0) ||
           (value->view && gives_zeros(value->view->value->of, 0));
}

static bool is_named(const ProtobufCBinaryData *given, const char *name)
{
    return given->len == strlen(name) && memcmp(given->data, name, given->len) == 0;
}

/* Whether these are the activations, which are given for each direction; or none are. */
static bool has_activations(const struct xt_read_node *node, const char *const names[],
                            size_t count, bool unless_given)
{
    const Onnx__AttributeProto *given = xt_read_attribute(node, "activations");
    bool has = given ? given->n_strings && given->n_strings % count == 0 : unless_given;
    for (size_t i = 0; given && i < given->n_strings && has; i++)
        has = is_named(&given->strings[i], names[i % count]);
    return has;
}

static bool is_relu(const struct xt_read_node *node)
{
    return has_activations(node, (const char *const[]){"Relu"}, 1, false);
}

static bool has_usual_activations(const struct xt_read_node *node)
{
    static const char *const gated[] = {"Sigmoid", "Tanh", "Tanh"};
    static const char *const simple[] = {"Tanh"};
    if (xt_read_is(node, "RNN"))
        return is_relu(node) || has_activations(node, simple, 1, true);
    return has_activations(node, gated, xt_read_is(node, "LSTM") ? 3 : 2, true);
}

static bool check(struct xt_reader *reader, const struct xt_read_node *node)
{
    if (xt_read_input(node, IN_LENGTHS))
        return xt_reader_refuse(reader, node, "has sequences of several lengths");
    if (xt_read_input(node, IN_PEEPHOLES) || xt_read_attribute(node, "clip") ||
        xt_read_int(node, "input_forget", 0) || xt_read_int(node, "layout", 0) ||
        !has_usual_activations(node))
        return xt_reader_refuse(
            reader, node,
            "has peepholes, a clip, input_forget, a layout or activations other "
            "than torch.nn's, which are not there");
    if (xt_read_is(node, "GRU") && !xt_read_int(node, "linear_before_reset", 0))
        return xt_reader_refuse(reader, node, "has linear_before_reset = 0; torch.nn.GRU's is 1");
    return (is_zero(reader, node, IN_STATE) && is_zero(reader, node, IN_CELL)) ||
           xt_reader_refuse(reader, node, "begins with a state that is not zeros");
}

static bool gives(const struct xt_read_node *node, int output)
{
    return output < node->output_count && node->outputs[output] && node->outputs[output]->readers;
}

static bool begin(struct xt_reader *reader, struct xt_read_node *node, struct layer *out)
{
    const struct xt_read_text direction = xt_read_string(node, "direction");
    int64_t hidden = xt_read_int(node, "hidden_size", 0);
    *out = (struct layer){.reader = reader,
                          .node = node,
                          .x = xt_read_data(reader, node, IN_X),
                          .directions = strcmp(direction.text, "bidirectional") == 0 ? 2 : 1,
                          .reverse = strcmp(direction.text, "reverse") == 0,
                          .hidden = (int)hidden,
                          .kind = xt_read_is(node, "LSTM")  ? XT_LSTM
                                  : xt_read_is(node, "GRU") ? XT_GRU
                                  : is_relu(node)           ? XT_RNN_RELU
                                                            : XT_RNN_TANH};
    out->gates = xt_recurrence_gates(out->kind);
    out->with_cell = out->kind == XT_LSTM && gives(node, OUT_CELL);
    out->place = reader->signature.lost ? xt_read_place_in_module(reader, node) : -1;
    if (!out->x || !check(reader, node))
        return false;
    if (hidden < 1 || hidden > HIDDEN_MAX)
        return xt_reader_refuse(reader, node, "has a hidden_size of %lld: 1 to %d are supported",
                                (long long)hidden, HIDDEN_MAX);
    if (*direction.text && strcmp(direction.text, "forward") != 0 && !out->reverse &&
        out->directions == 1)
        return xt_reader_refuse(reader, node, "has an unknown direction: \"%s\"",
                                xt_str_quote(direction.text, strlen(direction.text)).text);
    int64_t steps = out->x->ndims == 3 ? xt_read_dim(out->x, AXIS_STEPS) : 0;
    if (steps < 1 || xt_read_dim(out->x, AXIS_BATCH) % XT_READ_BATCH)
        return xt_reader_refuse(reader, node, "reads something else than [steps][n][channels]");
    if (steps > STEPS_MAX)
        return xt_reader_refuse(reader, node, "runs over %lld steps: %d at most", (long long)steps,
                                STEPS_MAX);
    out->steps = (int)steps;
    out->rows = xt_read_dim(out->x, AXIS_BATCH) / XT_READ_BATCH;
    out->x = xt_read_reshape(
        reader, node, out->x, SPLIT_AXES,
        (const int64_t[]){steps, XT_READ_BATCH, out->rows, xt_read_dim(out->x, AXIS_CHANNELS)});
    return out->x != NULL;
}

/* Channels `first` to `first + hidden` of the last state of each direction. */
static struct xt_value *last_of(const struct layer *l, struct xt_value *const states[], int first)
{
    struct xt_value *last[DIRECTIONS_MAX] = {NULL};
    for (int d = 0; d < l->directions; d++) {
        const struct xt_net_slice channels = {
            .axis = XT_AXIS_C, .start = first, .count = l->hidden};
        const struct xt_net_slice step = {
            .axis = XT_AXIS_W, .start = d || l->reverse ? 0 : l->steps - 1, .count = 1};
        last[d] = xt_net_slice(l->reader->net, states[d], &step);
        last[d] = xt_net_slice(l->reader->net, last[d], &channels);
    }
    return xt_net_concat(l->reader->net, last, l->directions, XT_AXIS_C, NULL);
}

static struct xt_value *all_of(const struct layer *l, struct xt_value *const states[])
{
    struct xt_value *all[DIRECTIONS_MAX] = {NULL};
    const struct xt_net_slice channels = {.axis = XT_AXIS_C, .count = l->hidden};
    for (int d = 0; d < l->directions; d++)
        all[d] = xt_net_slice(l->reader->net, states[d], &channels);
    return xt_net_concat(l->reader->net, all, l->directions, XT_AXIS_C, NULL);
}

/* [steps][n][directions * hidden], as ONNX has it: [steps][directions][n][hidden]; without steps
 * where there is one state alone. */
static bool give(const struct layer *l, int output, struct xt_value *value, int64_t steps)
{
    const int64_t dims[] = {steps, XT_READ_BATCH * l->rows, l->directions, l->hidden};
    struct xt_read_view *view =
        value ? xt_read_view(l->reader, value, SPLIT_AXES, split_homes) : NULL;
    view = view ? xt_read_reshape(l->reader, l->node, view, 4, dims) : NULL;
    if (!view)
        return false;
    struct xt_read_axis batch = view->axes[1];
    view->axes[1] = view->axes[2];
    view->axes[2] = batch;
    if (output != OUT_STATES) {
        memmove(view->axes, view->axes + 1, 3 * sizeof *view->axes);
        view->ndims = 3;
    }
    l->node->outputs[output]->view = view;
    return true;
}

static bool read(struct xt_reader *reader, struct xt_read_node *node)
{
    struct layer l;
    struct xt_value *states[DIRECTIONS_MAX] = {NULL};
    if (!begin(reader, node, &l))
        return false;
    for (int d = 0; d < l.directions; d++)
        states[d] = run(&l, d);
    return !xt_reader_fails(reader) &&
           (!gives(node, OUT_STATES) || give(&l, OUT_STATES, all_of(&l, states), l.steps)) &&
           (!gives(node, OUT_STATE) || give(&l, OUT_STATE, last_of(&l, states, 0), 1)) &&
           (!l.with_cell || give(&l, OUT_CELL, last_of(&l, states, l.hidden), 1));
}

bool xt_read_recurrent(struct xt_reader *reader, struct xt_read_node *node)
{
    char module[XT_PARAM_NAME_MAX];
    bool named = xt_read_module_of(node, module, sizeof module);
    xt_net_begin_layer(reader->net, named ? module : node->op);
    bool done = read(reader, node);
    xt_net_begin_layer(reader->net, NULL);
    return done;
}
