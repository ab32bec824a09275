/* Recurrent layers: LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000), GRU (Cho et al. 2014)
 * and Elman's. They are unrolled: each step becomes nodes of its own, by the same weights. ONNX
 * lays sequences out as [steps][n][channels], weights as [directions][gates][channels]. */
#include <string.h>

#include "models/onnx/read/ops.h"

/* A weight has as many readers. Concatenations of more than some values are of several. */
enum { STEPS_MAX = 256, AT_ONCE = 32, DIRECTIONS_MAX = 2, HIDDEN_MAX = 65536 };
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_STATE, IN_CELL, IN_PEEPHOLES };
enum { AXIS_STEPS, AXIS_BATCH, AXIS_CHANNELS };

struct layer {
    struct xt_reader *reader;
    struct xt_read_node *node;
    struct xt_read_view *x;
    int steps, directions, hidden;
    int gates;
    bool reverse;                       /* the only direction runs backwards */
    enum xt_activation_kind activation; /* of a layer without gates */
};

/* One direction's weights: [gates * hidden][channels]; vectors, NULL where there are none. */
struct weights {
    struct xt_read_view *by_input, *by_state, *input_bias, *state_bias;
};

/* What a step hands on, [1][n][hidden]; NULL: zeros. */
struct state {
    struct xt_read_view *h, *cell;
};

static struct xt_read_view *part_of(const struct layer *l, struct xt_read_view *view, int axis,
                                    int64_t first, int64_t count)
{
    return view ? xt_read_take(l->reader, l->node, view, axis, first, 1, count) : NULL;
}

/* Gates `first` to `first + count` of [1][n][gates * hidden]. */
static struct xt_read_view *gates_of(const struct layer *l, struct xt_read_view *view, int first,
                                     int count)
{
    return part_of(l, view, AXIS_CHANNELS, (int64_t)first * l->hidden, (int64_t)count * l->hidden);
}

static struct xt_read_view *add(const struct layer *l, struct xt_read_view *a,
                                struct xt_read_view *b)
{
    return a && b ? xt_read_combine(l->reader, l->node, a, b, false) : NULL;
}

static struct xt_read_view *times(const struct layer *l, struct xt_read_view *a,
                                  struct xt_read_view *b)
{
    return a && b ? xt_read_combine(l->reader, l->node, a, b, true) : NULL;
}

static struct xt_read_view *activate(const struct layer *l, const struct xt_read_view *view,
                                     enum xt_activation_kind kind)
{
    return view ? xt_read_activate(l->reader, l->node, view, (struct xt_activation){.kind = kind})
                : NULL;
}

static struct xt_read_view *less(const struct layer *l, struct xt_read_view *a,
                                 const struct xt_read_view *b)
{
    return add(l, a, xt_read_times(l->reader, b, -1));
}

/* ---- one step ---- */

/* Of the sums of its gates i, o, f and c. */
static bool step_lstm(const struct layer *l, struct xt_read_view *sums, struct state *state)
{
    struct xt_read_view *open = activate(l, gates_of(l, sums, 0, 3), XT_ACT_SIGMOID);
    struct xt_read_view *more =
        times(l, gates_of(l, open, 0, 1), activate(l, gates_of(l, sums, 3, 1), XT_ACT_TANH));
    if (state->cell)
        more = add(l, more, times(l, state->cell, gates_of(l, open, 2, 1)));
    state->cell = more;
    state->h = times(l, activate(l, more, XT_ACT_TANH), gates_of(l, open, 1, 1));
    return state->h != NULL;
}

/* Gates z, r and h, of the input and of the state apart (linear_before_reset). */
static bool step_gru(const struct layer *l, struct xt_read_view *of_input,
                     struct xt_read_view *of_state, struct state *state)
{
    struct xt_read_view *sums = gates_of(l, of_input, 0, 2);
    struct xt_read_view *candidate = gates_of(l, of_input, 2, 1);
    if (of_state)
        sums = add(l, sums, gates_of(l, of_state, 0, 2));
    struct xt_read_view *open = activate(l, sums, XT_ACT_SIGMOID);
    if (of_state)
        candidate =
            add(l, candidate, times(l, gates_of(l, of_state, 2, 1), gates_of(l, open, 1, 1)));
    candidate = activate(l, candidate, XT_ACT_TANH);
    struct xt_read_view *kept = gates_of(l, open, 0, 1);
    /* (1 - z) * candidate + z * h */
    state->h = state->h ? add(l, times(l, less(l, state->h, candidate), kept), candidate)
                        : less(l, candidate, times(l, candidate, kept));
    return state->h != NULL;
}

static struct xt_read_view *with_bias(const struct layer *l, struct xt_read_view *view,
                                      struct xt_read_view *bias)
{
    return bias ? add(l, view, xt_read_copy(l->reader, bias)) : view;
}

static bool step(const struct layer *l, const struct weights *weights, struct xt_read_view *input,
                 struct state *state)
{
    struct xt_read_view *of_state =
        state->h ? xt_read_contract(l->reader, l->node, xt_read_copy(l->reader, state->h),
                                    AXIS_CHANNELS, 1, weights->by_state)
                 : NULL;
    if (!input || xt_reader_fails(l->reader))
        return false;
    if (xt_read_is(l->node, "GRU")) {
        bool any = of_state || weights->state_bias;
        if (!of_state && any)
            of_state = xt_read_with_axes(l->reader, weights->state_bias, AXIS_CHANNELS + 1);
        else
            of_state = any ? with_bias(l, of_state, weights->state_bias) : NULL;
        return step_gru(l, input, of_state, state);
    }
    struct xt_read_view *sums = of_state ? add(l, input, of_state) : input;
    if (xt_read_is(l->node, "LSTM"))
        return step_lstm(l, sums, state);
    state->h = activate(l, sums, l->activation);
    return state->h != NULL;
}

/* ---- one direction ---- */

/* A direction's part of a weight, as a matrix. */
static struct xt_read_view *matrix_of(const struct layer *l, int i, int direction, int64_t columns)
{
    const int64_t dims[] = {(int64_t)l->gates * l->hidden, columns};
    struct xt_read_view *view = xt_read_data(l->reader, l->node, i);
    if (!view)
        return NULL;
    if (!view->value->of_parameter || view->ndims != 3 || xt_read_dim(view, 0) != l->directions ||
        xt_read_dim(view, 1) != dims[0] || xt_read_dim(view, 2) != columns)
        return xt_reader_refuse(l->reader, l->node,
                                "has weights that are computed from the images, or do not fit "
                                "%d directions of %d channels",
                                l->directions, l->hidden);
    view = part_of(l, view, 0, direction, 1);
    return view ? xt_read_reshape(l->reader, l->node, view, 2, dims) : NULL;
}

/* The biases of the input's products and of the state's; one after the other in the file. */
static bool read_bias(const struct layer *l, int direction, struct weights *out)
{
    const int64_t dims[] = {2 * (int64_t)l->gates * l->hidden};
    struct xt_read_view *view =
        xt_read_input(l->node, IN_B) ? xt_read_data(l->reader, l->node, IN_B) : NULL;
    if (!view)
        return !xt_reader_fails(l->reader);
    if (!view->value->of_parameter || view->ndims != 2 || xt_read_dim(view, 1) != dims[0] ||
        xt_read_dim(view, 0) != l->directions)
        return xt_reader_refuse(l->reader, l->node, "has biases that do not fit its weights");
    view = part_of(l, view, 0, direction, 1);
    view = view ? xt_read_reshape(l->reader, l->node, view, 1, dims) : NULL;
    out->input_bias = part_of(l, view, 0, 0, dims[0] / 2);
    out->state_bias = part_of(l, view, 0, dims[0] / 2, dims[0] / 2);
    if (out->state_bias && !xt_read_is(l->node, "GRU")) {
        out->input_bias = add(l, out->input_bias, out->state_bias);
        out->state_bias = NULL;
    }
    return !xt_reader_fails(l->reader);
}

/* The steps of a sequence, by halves: what a step gives back for its input is as long as the part
 * that it was taken from. */
static bool split(const struct layer *l, struct xt_read_view *view, int count,
                  struct xt_read_view *out[])
{
    int half = count / 2;
    if (count == 1)
        out[0] = view;
    return view && (count == 1 || (split(l, part_of(l, view, AXIS_STEPS, 0, half), half, out) &&
                                   split(l, part_of(l, view, AXIS_STEPS, half, count - half),
                                         count - half, out + half)));
}

/* The states after each step, in the order of the images, and the last one. */
static bool run(const struct layer *l, int direction, struct xt_read_view *states[STEPS_MAX],
                struct state *last)
{
    struct weights weights = {.by_input =
                                  matrix_of(l, IN_W, direction, xt_read_dim(l->x, AXIS_CHANNELS)),
                              .by_state = matrix_of(l, IN_R, direction, l->hidden)};
    if (!weights.by_input || !weights.by_state || !read_bias(l, direction, &weights))
        return false;
    struct xt_read_view *inputs = xt_read_contract(
        l->reader, l->node, xt_read_copy(l->reader, l->x), AXIS_CHANNELS, 1, weights.by_input);
    inputs = inputs ? with_bias(l, inputs, weights.input_bias) : NULL;
    *last = (struct state){0};
    if (!split(l, inputs, l->steps, states))
        return false;
    for (int i = 0; i < l->steps; i++) {
        int at = direction || l->reverse ? l->steps - 1 - i : i;
        if (!step(l, &weights, states[at], last))
            return false;
        states[at] = xt_read_copy(l->reader, last->h);
    }
    return !xt_reader_fails(l->reader);
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
                          .activation = is_relu(node) ? XT_ACT_RELU : XT_ACT_TANH,
                          .gates = xt_read_is(node, "LSTM")  ? 4
                                   : xt_read_is(node, "GRU") ? 3
                                                             : 1};
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
    if (steps < 1 || xt_read_dim(out->x, AXIS_BATCH) != XT_READ_BATCH)
        return xt_reader_refuse(reader, node, "reads something else than [steps][n][channels]");
    if (steps > STEPS_MAX)
        return xt_reader_refuse(reader, node, "runs over %lld steps: %d at most", (long long)steps,
                                STEPS_MAX);
    out->steps = (int)steps;
    return true;
}

/* The values, [1][n][hidden] each, side by side along an axis of the net. */
static struct xt_value *side_by_side(const struct layer *l, struct xt_read_view *const views[],
                                     int count, enum xt_axis axis)
{
    static const int homes[] = {XT_READ_NONE, XT_READ_N, XT_AXIS_C};
    struct xt_value *values[STEPS_MAX] = {NULL};
    for (int i = 0; i < count; i++) {
        values[i] = views[i] ? xt_read_lay_out(l->reader, l->node, views[i], homes) : NULL;
        if (!values[i])
            return NULL;
    }
    while (count > 1) {
        int left = 0;
        for (int i = 0; i < count; i += AT_ONCE) {
            int part = count - i < AT_ONCE ? count - i : AT_ONCE;
            values[left++] =
                part == 1 ? values[i] : xt_net_concat(l->reader->net, values + i, part, axis, NULL);
            if (!values[left - 1])
                return NULL;
        }
        count = left;
    }
    return values[0];
}

/* [steps][n][directions * hidden], as ONNX has it: [steps][directions][n][hidden]; without steps
 * where there is one state alone. */
static bool give(const struct layer *l, int output, struct xt_value *value, int64_t steps)
{
    static const int homes[] = {XT_AXIS_W, XT_READ_N, XT_AXIS_C};
    const int64_t dims[] = {steps, XT_READ_BATCH, l->directions, l->hidden};
    if (output >= l->node->output_count || !l->node->outputs[output])
        return true;
    struct xt_read_view *view = value ? xt_read_view(l->reader, value, 3, homes) : NULL;
    view = view ? xt_read_reshape(l->reader, l->node, view, 4, dims) : NULL;
    if (!view)
        return false;
    struct xt_read_axis batch = view->axes[1];
    view->axes[1] = view->axes[2];
    view->axes[2] = batch;
    if (output) {
        memmove(view->axes, view->axes + 1, 3 * sizeof *view->axes);
        view->ndims = 3;
    }
    l->node->outputs[output]->view = view;
    return true;
}

static bool unroll(struct xt_reader *reader, struct xt_read_node *node)
{
    struct layer l;
    struct xt_read_view *states[STEPS_MAX] = {NULL};
    struct state last[DIRECTIONS_MAX] = {{0}};
    struct xt_value *of_direction[DIRECTIONS_MAX] = {NULL};
    if (!begin(reader, node, &l))
        return false;
    for (int d = 0; d < l.directions; d++) {
        if (!run(&l, d, states, &last[d]))
            return false;
        of_direction[d] = side_by_side(&l, states, l.steps, XT_AXIS_W);
    }
    struct xt_value *all =
        l.directions == 1 || !of_direction[1]
            ? of_direction[0]
            : xt_net_concat(reader->net, of_direction, l.directions, XT_AXIS_C, NULL);
    struct xt_read_view *h[] = {last[0].h, last[1].h};
    struct xt_read_view *cell[] = {last[0].cell, last[1].cell};
    return give(&l, 0, all, l.steps) &&
           give(&l, 1, side_by_side(&l, h, l.directions, XT_AXIS_C), 1) &&
           (!xt_read_is(node, "LSTM") ||
            give(&l, 2, side_by_side(&l, cell, l.directions, XT_AXIS_C), 1));
}

bool xt_read_recurrent(struct xt_reader *reader, struct xt_read_node *node)
{
    char module[XT_PARAM_NAME_MAX];
    bool named = xt_read_module_of(node, module, sizeof module);
    xt_net_begin_layer(reader->net, named ? module : node->op);
    bool done = unroll(reader, node);
    xt_net_begin_layer(reader->net, NULL);
    return done;
}
