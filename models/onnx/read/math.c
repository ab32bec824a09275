/* Operators without parameters that compute. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* ---- element by element ---- */

static bool clip(struct xt_reader *reader, struct xt_read_node *node, struct xt_activation *out)
{
    double low;
    double high;
    if (!xt_read_check_inputs(reader, node))
        return false;
    if (!xt_read_limits(reader, node, &low, &high))
        return xt_reader_refuse(reader, node, "has limits that are not known while it is read");
    low = low < -(double)FLT_MAX ? -(double)FLT_MAX : low;
    high = high > (double)FLT_MAX ? (double)FLT_MAX : high;
    if (!(low < high))
        return xt_reader_refuse(reader, node, "clips to nothing");
    *out = (struct xt_activation){XT_ACT_CLIP, (float)low, (float)high};
    if (low == 0 && high == (double)FLT_MAX)
        out->kind = XT_ACT_RELU;
    return true;
}

static bool activation_of(struct xt_reader *reader, struct xt_read_node *node,
                          struct xt_activation *out)
{
    static const struct {
        const char *op;
        struct xt_activation activation; /* with ONNX's own numbers where none are said */
    } kinds[] = {
        {"Relu", {.kind = XT_ACT_RELU}},
        {"LeakyRelu", {.kind = XT_ACT_LEAKY_RELU, .alpha = 0.01f}},
        {"Elu", {.kind = XT_ACT_ELU, .alpha = 1}},
        {"Sigmoid", {.kind = XT_ACT_SIGMOID}},
        {"HardSigmoid", {.kind = XT_ACT_HARD_SIGMOID, .alpha = 0.2f, .beta = 0.5f}},
        {"HardSwish", {.kind = XT_ACT_HARD_SWISH}},
        {"Tanh", {.kind = XT_ACT_TANH}},
        {"Softplus", {.kind = XT_ACT_SOFTPLUS}},
        {"Mish", {.kind = XT_ACT_MISH}},
        {"Gelu", {.kind = XT_ACT_GELU}},
        {"Exp", {.kind = XT_ACT_EXP}},
        {"Log", {.kind = XT_ACT_LOG}},
        {"Neg", {.kind = XT_ACT_LINEAR, .alpha = -1}},
        {"Abs", {.kind = XT_ACT_LEAKY_RELU, .alpha = -1}},
        {"Sqrt", {.kind = XT_ACT_POWER, .alpha = 0.5f}},
        {"Reciprocal", {.kind = XT_ACT_POWER, .alpha = -1}},
    };
    if (xt_read_is(node, "(activation)")) {
        *out = node->activation;
        return true;
    }
    if (xt_read_is(node, "Clip"))
        return clip(reader, node, out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (xt_read_is(node, kinds[i].op))
            *out = kinds[i].activation;
    if (xt_read_is(node, "LeakyRelu") || out->kind == XT_ACT_HARD_SIGMOID ||
        out->kind == XT_ACT_ELU) {
        out->alpha = (float)xt_read_float(node, "alpha", (double)out->alpha);
        out->beta = (float)xt_read_float(node, "beta", (double)out->beta);
    }
    if (xt_read_is(node, "Gelu") && strcmp(xt_read_string(node, "approximate").text, "tanh") == 0)
        out->kind = XT_ACT_GELU_TANH;
    return true;
}

struct xt_read_view *xt_read_activate(struct xt_reader *reader, const struct xt_read_node *node,
                                      const struct xt_read_view *in,
                                      struct xt_activation activation)
{
    struct xt_read_view *out = in ? xt_read_copy(reader, in) : NULL;
    struct xt_value *value = out ? xt_read_settle(reader, node, out) : NULL;
    if (!value)
        return NULL;
    out->value = xt_net_activation(reader->net, value, activation, NULL);
    return out->value ? out : NULL;
}

static bool apply(struct xt_reader *reader, struct xt_read_node *node, struct xt_read_view *in,
                  struct xt_activation activation)
{
    return xt_read_give(node, xt_read_activate(reader, node, in, activation));
}

bool xt_read_activation(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_activation activation = {.kind = XT_ACT_RELU};
    return activation_of(reader, node, &activation) &&
           apply(reader, node, xt_read_data(reader, node, 0), activation);
}

static const struct xt_activation reciprocal = {.kind = XT_ACT_POWER, .alpha = -1};

/* exp(exponent * log(x)): of positive numbers, by an exponent that is trained or computed. */
static bool power_by_value(struct xt_reader *reader, struct xt_read_node *node)
{
    const struct xt_activation exponential = {.kind = XT_ACT_EXP};
    double base = 0;
    struct xt_read_view *exponent = xt_read_data(reader, node, 1);
    if (exponent && xt_read_is_number(reader, node, xt_read_input(node, 0), &base) && base > 0) {
        exponent->scale *= log(base);
        return apply(reader, node, exponent, exponential);
    }
    struct xt_read_view *x = exponent ? xt_read_data(reader, node, 0) : NULL;
    x = xt_read_activate(reader, node, x, (struct xt_activation){.kind = XT_ACT_LOG});
    return x && apply(reader, node, xt_read_combine(reader, node, x, exponent, true), exponential);
}

bool xt_read_power(struct xt_reader *reader, struct xt_read_node *node)
{
    double exponent;
    if (!xt_read_is_number(reader, node, xt_read_input(node, 1), &exponent))
        return power_by_value(reader, node);
    struct xt_read_view *in = xt_read_data(reader, node, 0);
    if (in && exponent == 1)
        return xt_read_give(node, in);
    return apply(reader, node, in,
                 (struct xt_activation){.kind = XT_ACT_POWER, .alpha = (float)exponent});
}

/* ---- two values ---- */

bool xt_read_is_number(struct xt_reader *reader, const struct xt_read_node *node,
                       struct xt_read_value *value, double *out)
{
    struct xt_read_constant *constant = value ? xt_read_constant_of(reader, value) : NULL;
    if (!constant || value->view || !xt_read_check_origin(reader, node, constant))
        return false;
    return xt_read_is_numbers(reader, constant) && xt_read_number(reader, value, out);
}

/* A matrix product that only this node reads takes the factor itself. */
static bool scale_product(struct xt_read_node *node, int i, const struct xt_read_view *view,
                          double factor)
{
    struct xt_node *of = view->value->of;
    bool alone = of->kind == XT_NODE_MATMUL && view->value->readers == 0 &&
                 xt_read_input(node, i)->readers == 1;
    if (alone)
        of->as.matmul.scale =
            (float)((of->as.matmul.scale == 0 ? 1 : of->as.matmul.scale) * factor);
    return alone;
}

static bool with_number(struct xt_reader *reader, struct xt_read_node *node, int data,
                        double number)
{
    struct xt_read_view *in = xt_read_data(reader, node, data);
    struct xt_activation linear = {.kind = XT_ACT_LINEAR, .alpha = 1};
    if (!in)
        return false;
    bool is_quotient = xt_read_is(node, "Div");
    bool divides = is_quotient && data == 0;
    if (divides && number == 0)
        return xt_reader_refuse(reader, node, "divides by 0");
    if (is_quotient && !divides)
        in = xt_read_activate(reader, node, in, reciprocal);
    if (!in)
        return false;
    if (is_quotient || xt_read_is(node, "Mul")) {
        double factor = divides ? 1 / number : number;
        if (!scale_product(node, data, in, factor))
            in->scale *= factor;
        return xt_read_give(node, in);
    }
    linear.beta = (float)number;
    if (xt_read_is(node, "Sub") && data == 0)
        linear.beta = (float)-number;
    if (xt_read_is(node, "Sub") && data == 1)
        linear.alpha = -1;
    return number == 0 && linear.alpha == 1 ? xt_read_give(node, in)
                                            : apply(reader, node, in, linear);
}

/* Whether `second` is broadcast along some of the axes that lie together, and not along others. */
static bool broadcasts_a_part(const struct xt_read_view *base, const struct xt_read_view *second,
                              const int homes[])
{
    bool whole[XT_AXES] = {false};
    bool broadcast[XT_AXES] = {false};
    for (int i = 0; i < base->ndims; i++) {
        if (homes[i] < 0 || homes[i] >= XT_AXES || xt_read_dim(base, i) == 1)
            continue;
        bool *has = xt_read_dim(second, i) == 1 ? broadcast : whole;
        has[homes[i]] = true;
    }
    for (int home = 0; home < XT_AXES; home++)
        if (whole[home] && broadcast[home])
            return true;
    return false;
}

/* Of two parameters: runs of axes along which `second` is broadcast, or is not. */
static void run_homes(const struct xt_read_view *base, const struct xt_read_view *second,
                      int homes[])
{
    int home = XT_AXIS_H;
    int last = -1;
    for (int i = 0; i < base->ndims; i++) {
        homes[i] = XT_READ_NONE;
        if (xt_read_dim(base, i) == 1)
            continue;
        int broadcast = xt_read_dim(second, i) == 1;
        home += last >= 0 && broadcast != last && home < XT_AXIS_C;
        last = broadcast;
        homes[i] = home;
    }
}

/* Homes for both: those of the one with more axes of more than 1, then those of the other. */
static void common_homes(const struct xt_read_view *a, const struct xt_read_view *b, int homes[])
{
    int other[XT_READ_DIMS_MAX];
    int axes = 0;
    for (int i = 0; i < a->ndims; i++)
        axes += (xt_read_dim(a, i) != 1) - (xt_read_dim(b, i) != 1);
    bool a_first = !a->value->of_parameter || b->value->of_parameter;
    const struct xt_read_view *base = axes >= 0 && a_first ? a : b;
    const struct xt_read_view *second = base == a ? b : a;
    bool apart = xt_read_homes(base, homes) && !broadcasts_a_part(base, second, homes);
    if (!apart && base->value->of_parameter)
        run_homes(base, second, homes);
    else if (!apart && !xt_read_image_homes(base, homes))
        xt_read_channel_homes(base, base->ndims - 1, homes);
    if (!xt_read_homes(second, other))
        return;
    for (int i = 0; i < base->ndims; i++) {
        bool taken = false;
        for (int k = 0; k < base->ndims; k++)
            taken = taken || homes[k] == other[i];
        if (homes[i] == XT_READ_NONE && xt_read_dim(second, i) != 1)
            homes[i] = taken ? XT_AXIS_H : other[i];
    }
}

/* Whether the batch lies at the same place of the same axis in both, or in one alone. */
static bool batches_agree(const struct xt_read_view *a, const struct xt_read_view *b)
{
    for (int axis = 0; axis < a->ndims; axis++) {
        const struct xt_read_view *views[] = {a, b};
        int64_t inner[2] = {0, 0};
        for (int v = 0; v < 2; v++)
            for (int i = 0; i < views[v]->axes[axis].count; i++) {
                const struct xt_read_factor *factor =
                    &views[v]->factors[views[v]->axes[axis].factors[i]];
                inner[v] = factor->home == XT_READ_N ? 1 : inner[v] * factor->size;
            }
        bool counts = xt_read_dim(a, axis) != 1 && xt_read_dim(b, axis) != 1;
        if (counts && inner[0] != inner[1])
            return false;
    }
    return true;
}

static bool check_broadcast(struct xt_reader *reader, const struct xt_read_node *node,
                            const struct xt_read_view *a, const struct xt_read_view *b)
{
    for (int i = 0; i < a->ndims; i++) {
        int64_t x = xt_read_dim(a, i);
        int64_t y = xt_read_dim(b, i);
        if (x != y && x != 1 && y != 1)
            return xt_reader_refuse(reader, node, "reads tensors whose shapes do not fit");
    }
    return batches_agree(a, b) ||
           xt_reader_refuse(reader, node, "reads tensors whose samples lie in different orders");
}

/* What is broadcast along some of the axes that lie together is repeated along these. */
static struct xt_read_view *repeat_parts(struct xt_reader *reader, const struct xt_read_node *node,
                                         struct xt_read_view *view,
                                         const struct xt_read_view *other, const int homes[])
{
    for (int i = 0; view && i < view->ndims; i++) {
        int64_t times = xt_read_dim(other, i);
        times /= times % XT_READ_BATCH == 0 ? XT_READ_BATCH : 1;
        bool shares = false;
        for (int k = 0; k < view->ndims && homes[i] < XT_AXES; k++)
            shares = shares || (homes[k] == homes[i] && xt_read_dim(view, k) != 1);
        if (xt_read_dim(view, i) == 1 && times > 1 && shares)
            view = xt_read_spread(reader, node, view, homes, i, times);
    }
    return view;
}

struct xt_read_view *xt_read_combine(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *a, struct xt_read_view *b, bool multiply)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    if (!a || !b)
        return NULL;
    int ndims = a->ndims > b->ndims ? a->ndims : b->ndims;
    a = xt_read_with_axes(reader, a, ndims);
    b = xt_read_with_axes(reader, b, ndims);
    if (!a || !b || !check_broadcast(reader, node, a, b))
        return NULL;
    common_homes(a, b, homes);
    a = repeat_parts(reader, node, a, b, homes);
    b = a ? repeat_parts(reader, node, b, a, homes) : NULL;
    if (!b)
        return NULL;
    struct xt_value *x = xt_read_lay_out(reader, node, a, homes);
    struct xt_value *y = x ? xt_read_lay_out(reader, node, b, homes) : NULL;
    if (!y)
        return NULL;
    /* Of both the one that is not a parameter stands first, whose graph op the other joins. */
    if (x->of_parameter) {
        struct xt_value *parameter = x;
        x = y;
        y = parameter;
    }
    struct xt_value *value =
        multiply ? xt_net_mul(reader->net, x, y, NULL) : xt_net_add(reader->net, x, y, NULL);
    return xt_read_after(reader, node, a, b, homes, value);
}

/* The number or numbers, one for each channel, by which the network normalises its pixels; NULL: it
 * does not. */
static struct xt_read_constant *normaliser_of(struct xt_reader *reader, struct xt_read_node *node)
{
    for (int i = 0; i < 2; i++) {
        const struct xt_read_value *data = xt_read_input(node, i);
        struct xt_read_value *by = xt_read_input(node, 1 - i);
        struct xt_read_constant *constant =
            data && data->view && data->view->value == reader->pixels && by && !by->view
                ? xt_read_constant_of(reader, by)
                : NULL;
        if (constant && (constant->count == 1 || constant->count == (size_t)reader->colours) &&
            !(constant->tensor && xt_read_origin_of(reader, constant->name) == XT_READ_PARAMETER))
            return constant;
    }
    return NULL;
}

static bool binary(struct xt_reader *reader, struct xt_read_node *node)
{
    double number = 0;
    for (int i = 0; i < 2; i++)
        if (xt_read_is_number(reader, node, xt_read_input(node, 1 - i), &number))
            return with_number(reader, node, i, number);
    struct xt_read_view *a = xt_read_data(reader, node, 0);
    struct xt_read_view *b = a ? xt_read_data(reader, node, 1) : NULL;
    bool divides = xt_read_is(node, "Div");
    if (!b)
        return false;
    if (divides)
        b = xt_read_activate(reader, node, b, reciprocal);
    if (!b)
        return false;
    if (xt_read_is(node, "Sub"))
        b->scale = -b->scale;
    return xt_read_give(node,
                        xt_read_combine(reader, node, a, b, divides || xt_read_is(node, "Mul")));
}

bool xt_read_binary(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_constant *by = normaliser_of(reader, node);
    if (!by)
        return binary(reader, node);
    by->is_fixed = true;
    const double *numbers = xt_read_numbers(reader, by);
    if (!numbers || !binary(reader, node))
        return false;
    const struct xt_read_value *out = node->output_count ? node->outputs[0] : NULL;
    double largest = 0;
    for (size_t i = 0; i < by->count; i++)
        largest = fmax(largest, fabs(numbers[i]));
    if (xt_read_is(node, "Mul"))
        reader->pixel_scale *= largest;
    else if (xt_read_is(node, "Div") && largest > 0)
        reader->pixel_scale /= largest;
    reader->pixels = out && out->view ? out->view->value : reader->pixels;
    return true;
}

/* ---- dropout ---- */

/* By the shape of its mask: all axes, the batch of axes of 1s, or with channels. */
enum dropped { OF_ELEMENTS, OF_SAMPLES, OF_CHANNELS, OF_OTHERS };

static enum dropped dropped_by(struct xt_reader *reader, const struct xt_read_node *node,
                               const struct xt_read_view *in)
{
    if (!xt_read_is(node, "(dropout)"))
        return OF_ELEMENTS;
    struct xt_read_constant *shape = xt_read_constant_of(reader, xt_read_input(node, 1));
    const double *dims = shape && shape->count ? xt_read_numbers(reader, shape) : NULL;
    bool of_channels = false;
    bool of_elements = dims && shape->count == (size_t)in->ndims;
    for (size_t i = 0; of_elements && i < shape->count; i++)
        of_elements = dims[i] == (double)xt_read_dim(in, (int)i);
    if (of_elements)
        return OF_ELEMENTS;
    for (size_t i = 0; dims && i < shape->count; i++) {
        double wanted = i ? 1 : (double)XT_READ_BATCH;
        bool is_channel = i == 1 && in->ndims > 2 && dims[i] == (double)xt_read_dim(in, 1);
        of_channels = of_channels || (is_channel && dims[i] != 1);
        if (dims[i] != wanted && !is_channel)
            return OF_OTHERS;
    }
    return !dims ? OF_OTHERS : of_channels ? OF_CHANNELS : OF_SAMPLES;
}

/* Channels have to lie where the mask has them. */
static struct xt_value *drop_channels(struct xt_reader *reader, struct xt_read_node *node,
                                      struct xt_read_view *view, const struct xt_net_dropout *spec)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    xt_read_channel_homes(view, 1, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    return value ? xt_net_drop_channels(reader->net, value, spec) : NULL;
}

bool xt_read_dropout(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *out = xt_read_data(reader, node, 0);
    enum dropped dropped = out ? dropped_by(reader, node, out) : OF_OTHERS;
    bool is_spelt = xt_read_is(node, "(dropout)");
    double p = is_spelt ? node->number : xt_read_float(node, "ratio", 0.5);
    if (!out)
        return false;
    if (!is_spelt && xt_read_input(node, 1) && !xt_read_number(reader, xt_read_input(node, 1), &p))
        return xt_reader_refuse(reader, node, "has a ratio that is not known while it is read");
    if (!(p >= 0 && p < 1))
        return xt_reader_refuse(reader, node, "drops with the probability %g", p);
    if (node->output_count > 1 && node->outputs[1] && node->outputs[1]->readers)
        return xt_reader_refuse(reader, node, "gives its mask, which is not read");
    if (dropped == OF_OTHERS)
        return xt_reader_refuse(reader, node,
                                "drops something else than elements, channels or samples, such as "
                                "rows or a whole batch; stochastic depth that drops samples (mode "
                                "\"row\") is supported");
    if (p == 0)
        return xt_read_give(node, out);
    const struct xt_net_dropout spec = {.p = (float)p};
    if (dropped == OF_CHANNELS) {
        struct xt_value *value = drop_channels(reader, node, out, &spec);
        out->value = value;
        return xt_read_give(node, value ? out : NULL);
    }
    struct xt_value *value = xt_read_settle(reader, node, out);
    if (!value)
        return false;
    out->value = dropped ? xt_net_drop_path(reader->net, value, &spec)
                         : xt_net_dropout(reader->net, value, &spec);
    return xt_read_give(node, out->value ? out : NULL);
}

/* ---- attention ---- */

/* [..][rows][inner]: what is left of the last two axes is h. */
static void matrix_homes(const struct xt_read_view *view, int rows, int columns, int homes[])
{
    for (int i = 0; i < view->ndims; i++)
        homes[i] = xt_read_dim(view, i) == XT_READ_BATCH ? XT_READ_N : XT_AXIS_H;
    homes[view->ndims - 2] = rows;
    homes[view->ndims - 1] = columns;
}

/* Whether the last axis but one is what lies innermost in the value. */
static bool lies_transposed(const struct xt_read_view *view)
{
    const struct xt_read_axis *axis = &view->axes[view->ndims - 2];
    return axis->count && axis->factors[axis->count - 1] == view->factor_count - 1;
}

/* Whether input i is a parameter, or computed from some. */
static bool is_of_parameters(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    struct xt_read_value *value = xt_read_input(node, i);
    if (value && value->view)
        return value->view->value->of_parameter;
    return value && xt_read_constant_of(reader, value);
}

/* Whether it is one matrix, the same for all samples. */
static bool is_matrix(const struct xt_read_view *view)
{
    bool is = view->ndims >= 2;
    for (int i = 0; i < view->ndims - 2; i++)
        is = is && xt_read_dim(view, i) == 1;
    return is;
}

static struct xt_read_view *as_matrix(struct xt_read_view *view)
{
    view->axes[0] = view->axes[view->ndims - 2];
    view->axes[1] = view->axes[view->ndims - 1];
    view->ndims = 2;
    return view;
}

/* How many axes an input has; 0: not known. */
static int axes_of(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    struct xt_read_value *value = xt_read_input(node, i);
    const struct xt_read_constant *constant =
        value && !value->view ? xt_read_constant_of(reader, value) : NULL;
    return constant ? constant->ndims : value && value->view ? value->view->ndims : 0;
}

/* Matrices of the first value that one of the second's multiplies are rows of one. */
static bool join_rows(const struct xt_read_view *a, const struct xt_read_view *b, int homes[])
{
    bool fit = true;
    for (int i = 0; i < a->ndims - 2; i++) {
        if (xt_read_dim(a, i) == xt_read_dim(b, i))
            continue;
        fit = fit && xt_read_dim(b, i) == 1 && xt_read_dim(a, i) != XT_READ_BATCH;
        homes[i] = XT_AXIS_W;
    }
    return fit;
}

/* Of a matrix of each by one of the other's, on the last two axes. */
static struct xt_read_view *product_of(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_view *a, struct xt_read_view *b)
{
    struct xt_net_matmul spec = {0};
    int homes[XT_READ_DIMS_MAX] = {0};
    int second_homes[XT_READ_DIMS_MAX] = {0};
    if (a->ndims != b->ndims || a->ndims < 2 ||
        xt_read_dim(a, a->ndims - 1) != xt_read_dim(b, b->ndims - 2))
        return xt_reader_refuse(reader, node,
                                "multiplies matrices whose shapes do not fit, or are "
                                "not one for each sample");
    matrix_homes(a, XT_AXIS_W, XT_AXIS_C, homes);
    if (!join_rows(a, b, homes))
        return xt_reader_refuse(reader, node,
                                "multiplies two stacks of different numbers of matrices");
    spec.transpose = lies_transposed(b);
    spec.scale = (float)(a->scale * b->scale);
    a->scale = b->scale = 1;
    matrix_homes(b, spec.transpose ? XT_AXIS_C : XT_AXIS_W, spec.transpose ? XT_AXIS_W : XT_AXIS_C,
                 second_homes);
    struct xt_value *x = xt_read_lay_out(reader, node, a, homes);
    struct xt_value *y = x ? xt_read_lay_out(reader, node, b, second_homes) : NULL;
    struct xt_value *value = y ? xt_net_matmul(reader->net, x, y, &spec) : NULL;
    return xt_read_after(reader, node, a, NULL, homes, value);
}

/* Of two values, or of a parameter and a value. */
bool xt_read_matmul(struct xt_reader *reader, struct xt_read_node *node)
{
    bool of_weights = is_of_parameters(reader, node, 0); /* which become another one */
    if (is_of_parameters(reader, node, 1) && axes_of(reader, node, 1) == 2 &&
        (!of_weights || axes_of(reader, node, 0) > 2))
        return xt_read_linear(reader, node);
    if (is_of_parameters(reader, node, 1) && !of_weights)
        return xt_read_stack_product(reader, node, 1);
    if (of_weights && !is_of_parameters(reader, node, 1) && axes_of(reader, node, 0) > 2)
        return xt_read_stack_product(reader, node, 0);
    struct xt_read_view *a = xt_read_data(reader, node, 0);
    struct xt_read_view *b = a ? xt_read_data(reader, node, 1) : NULL;
    if (!b)
        return false;
    if (of_weights && !is_of_parameters(reader, node, 1) && is_matrix(a) && b->ndims >= a->ndims)
        return xt_read_give(node, xt_read_contract(reader, node, b, b->ndims - 2, 1, as_matrix(a)));
    if (a->ndims < 3 && !of_weights)
        return xt_reader_refuse(reader, node, "multiplies matrices over the batch");
    return xt_read_give(node, product_of(reader, node, a, b));
}

int xt_read_softmax_axis(struct xt_reader *reader, const struct xt_read_node *node,
                         const struct xt_read_view *view)
{
    return xt_read_axis_of(reader, node, xt_read_int(node, "axis", reader->opset < 13 ? 1 : -1),
                           view->ndims);
}

static struct xt_read_view *softmax_of(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_view *view, int axis)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    xt_read_channel_homes(view, axis, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_softmax(reader->net, value, NULL) : NULL;
    return xt_read_after(reader, node, view, NULL, homes, value);
}

bool xt_read_softmax(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int axis = view ? xt_read_softmax_axis(reader, node, view) : -1;
    return axis >= 0 && xt_read_give(node, softmax_of(reader, node, view, axis));
}

/* softmax(scale * Q K^T + mask) V of [n][heads][rows][channels], since opset 23. */
bool xt_read_attention(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { Q, K, V, MASK, PAST };
    struct xt_read_view *views[MASK] = {NULL};
    for (int i = Q; i <= V; i++) {
        views[i] = xt_read_data(reader, node, i);
        if (!views[i])
            return false;
        if (views[i]->ndims != 4)
            return xt_reader_refuse(reader, node,
                                    "reads tensors of %d dimensions, not of 4 (heads apart)",
                                    views[i]->ndims);
    }
    for (int i = 1; i < node->output_count; i++)
        if (node->outputs[i] && node->outputs[i]->readers)
            return xt_reader_refuse(reader, node, "gives more than its result");
    if (xt_read_input(node, PAST) || xt_read_int(node, "is_causal", 0) ||
        xt_read_float(node, "softcap", 0) != 0)
        return xt_reader_refuse(reader, node,
                                "has keys of before, is_causal or softcap, which are not there: "
                                "export with opset_version=18");
    struct xt_read_value *mask = xt_read_input(node, MASK);
    const struct xt_read_constant *known = mask ? xt_read_constant_of(reader, mask) : NULL;
    if (known && !known->is_float)
        return xt_reader_refuse(reader, node, "has a mask of booleans, not of numbers to be added");
    struct xt_read_view *keys = xt_read_copy(reader, views[K]);
    if (!keys)
        return false;
    keys->axes[2] = views[K]->axes[3];
    keys->axes[3] = views[K]->axes[2];
    keys->scale *= xt_read_float(node, "scale", 1 / sqrt((double)xt_read_dim(views[Q], 3)));
    struct xt_read_view *scores = product_of(reader, node, views[Q], keys);
    if (scores && mask)
        scores = xt_read_combine(reader, node, scores, xt_read_data(reader, node, MASK), false);
    scores = scores ? softmax_of(reader, node, scores, 3) : NULL;
    return scores && xt_read_give(node, product_of(reader, node, scores, views[V]));
}
