/* Operators that become several nodes of the net. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* ---- element by element ---- */

static const struct xt_activation relu = {.kind = XT_ACT_RELU};

struct xt_read_view *xt_read_times(struct xt_reader *reader, const struct xt_read_view *view,
                                   double factor)
{
    struct xt_read_view *out = view ? xt_read_copy(reader, view) : NULL;
    if (out)
        out->scale *= factor;
    return out;
}

/* relu(x) + slope * min(x, 0) */
bool xt_read_prelu(struct xt_reader *reader, struct xt_read_node *node)
{
    static const struct xt_activation below_0 = {XT_ACT_CLIP, -FLT_MAX, 0};
    struct xt_read_view *x = xt_read_data(reader, node, 0);
    struct xt_read_view *slope = x ? xt_read_data(reader, node, 1) : NULL;
    struct xt_read_view *low = slope ? xt_read_activate(reader, node, x, below_0) : NULL;
    low = low ? xt_read_combine(reader, node, low, slope, true) : NULL;
    struct xt_read_view *high = low ? xt_read_activate(reader, node, x, relu) : NULL;
    return xt_read_give(node, high ? xt_read_combine(reader, node, high, low, false) : NULL);
}

/* Selu: gamma elu(x); Celu: alpha elu(x / alpha). */
bool xt_read_scaled_elu(struct xt_reader *reader, struct xt_read_node *node)
{
    bool is_celu = xt_read_is(node, "Celu");
    double alpha = xt_read_float(node, "alpha", is_celu ? 1 : 1.6732632423543772);
    double gamma = is_celu ? alpha : xt_read_float(node, "gamma", 1.0507009873554805);
    const struct xt_activation elu = {XT_ACT_ELU, is_celu ? 1 : (float)alpha, 0};
    struct xt_read_view *x = xt_read_data(reader, node, 0);
    if (!x)
        return false;
    if (!(alpha > 0))
        return xt_reader_refuse(reader, node, "has an alpha of %g", alpha);
    struct xt_read_view *y =
        xt_read_activate(reader, node, xt_read_times(reader, x, is_celu ? 1 / alpha : 1), elu);
    return xt_read_give(node, xt_read_times(reader, y, gamma));
}

struct xt_read_view *xt_read_extreme_of(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_view *a, struct xt_read_view *b, bool is_max)
{
    double sign = is_max ? 1 : -1;
    struct xt_read_view *apart = xt_read_combine(reader, node, xt_read_times(reader, b, sign),
                                                 xt_read_times(reader, a, -sign), false);
    struct xt_read_view *more = apart ? xt_read_activate(reader, node, apart, relu) : NULL;
    return more ? xt_read_combine(reader, node, a, xt_read_times(reader, more, sign), false) : NULL;
}

/* Of a number a clip. */
bool xt_read_extreme(struct xt_reader *reader, struct xt_read_node *node)
{
    bool is_max = xt_read_is(node, "Max");
    double number = 0;
    if (node->input_count == 1)
        return xt_read_same(reader, node);
    if (node->input_count != 2)
        return xt_reader_refuse(reader, node, "is of %d values, where 2 are supported",
                                node->input_count);
    for (int i = 0; i < 2; i++) {
        struct xt_read_value *other = xt_read_input(node, 1 - i);
        if (!xt_read_is_number(reader, node, other, &number)) {
            if (xt_reader_fails(reader))
                return false;
            continue;
        }
        const struct xt_activation clip = {XT_ACT_CLIP, is_max ? (float)number : -FLT_MAX,
                                           is_max ? FLT_MAX : (float)number};
        return xt_read_give(node, xt_read_activate(reader, node, xt_read_data(reader, node, i),
                                                   is_max && number == 0 ? relu : clip));
    }
    struct xt_read_view *a = xt_read_data(reader, node, 0);
    struct xt_read_view *b = a ? xt_read_data(reader, node, 1) : NULL;
    return b && xt_read_give(node, xt_read_extreme_of(reader, node, a, b, is_max));
}

/* ---- norms of a sample's groups of channels ---- */

/* Each group of the first axis behind the batch is normalised separately: a layer norm of rows.
 * Weights have no batch, what stands in its place belongs to the row. */
static struct xt_read_view *norm_rows(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *view)
{
    const struct xt_net_norm spec = {.eps = xt_read_float(node, "epsilon", 1e-5), .unscaled = true};
    int homes[XT_READ_DIMS_MAX] = {0};
    for (int i = 0; i < view->ndims; i++)
        homes[i] = i == 0 && !view->value->of_parameter ? XT_READ_N
                   : i == 1                             ? XT_AXIS_W
                                                        : XT_AXIS_C;
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_layer_norm(reader->net, value, &spec) : NULL;
    reader->norms++;
    return xt_read_after(reader, node, view, NULL, homes, value);
}

bool xt_read_is_neutral(struct xt_reader *reader, struct xt_read_node *node, int i, double neutral)
{
    double number = 0;
    struct xt_read_value *value = xt_read_input(node, i);
    return !value || (xt_read_number(reader, value, &number) && number == neutral);
}

struct xt_read_view *xt_read_vector(struct xt_reader *reader, struct xt_read_node *node, int i,
                                    int axis, int ndims)
{
    struct xt_read_view *vector = xt_read_data(reader, node, i);
    struct xt_read_view *out = vector ? xt_read_copy(reader, vector) : NULL;
    if (out && out->ndims != 1)
        return xt_reader_refuse(reader, node, "has a scale or shift that is no vector");
    for (int k = 0; out && k < ndims; k++)
        out->axes[k] = k == axis ? vector->axes[0] : (struct xt_read_axis){0};
    if (out)
        out->ndims = ndims;
    return out;
}

static bool give_scaled(struct xt_reader *reader, struct xt_read_node *node,
                        struct xt_read_view *view)
{
    for (int i = 1; i <= 2 && view; i++) {
        if (xt_read_is_neutral(reader, node, i, i == 1))
            continue;
        struct xt_read_view *vector = xt_read_vector(reader, node, i, 1, view->ndims);
        view = vector ? xt_read_combine(reader, node, view, vector, i == 1) : NULL;
    }
    return xt_read_give(node, view);
}

static struct xt_read_view *image_of(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    if (!view || (view->ndims >= 3 && xt_read_dim(view, 0) == XT_READ_BATCH))
        return view;
    xt_reader_refuse(reader, node, "reads something else than [n][channels] and more axes");
    return NULL;
}

bool xt_read_weight_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    return view && give_scaled(reader, node, norm_rows(reader, node, view));
}

bool xt_read_instance_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = image_of(reader, node);
    return view && give_scaled(reader, node, norm_rows(reader, node, view));
}

/* From opset 21 on its scale and shift are those of channels; before, of groups. */
bool xt_read_group_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = image_of(reader, node);
    int64_t groups = xt_read_int(node, "num_groups", 0);
    int64_t grouped[XT_READ_DIMS_MAX];
    int64_t dims[XT_READ_DIMS_MAX];
    if (!view)
        return false;
    if (groups < 1 || xt_read_dim(view, 1) % groups || view->ndims == XT_READ_DIMS_MAX)
        return xt_reader_refuse(reader, node, "has %lld groups of %lld channels", (long long)groups,
                                (long long)xt_read_dim(view, 1));
    int ndims = view->ndims;
    for (int i = 0; i < ndims; i++) {
        dims[i] = xt_read_dim(view, i);
        grouped[i + (i > 0)] = dims[i];
    }
    grouped[1] = groups;
    grouped[2] = dims[1] / groups;
    view = xt_read_reshape(reader, node, view, ndims + 1, grouped);
    view = view ? norm_rows(reader, node, view) : NULL;
    if (reader->opset < 21)
        return view && give_scaled(reader, node, view) &&
               xt_read_give(node,
                            xt_read_reshape(reader, node, node->outputs[0]->view, ndims, dims));
    view = view ? xt_read_reshape(reader, node, view, ndims, dims) : NULL;
    return view && give_scaled(reader, node, view);
}

/* ---- blocks of pixels as channels ---- */

static struct xt_read_view *permuted(struct xt_reader *reader, struct xt_read_view *view,
                                     const int order[6])
{
    struct xt_read_view *out = view ? xt_read_copy(reader, view) : NULL;
    for (int i = 0; out && i < 6; i++)
        out->axes[i] = view->axes[order[i]];
    return out;
}

bool xt_read_blocks(struct xt_reader *reader, struct xt_read_node *node)
{
    static const int blocks_first[] = {0, 3, 4, 1, 5, 2}; /* DCR */
    static const int channels_first[] = {0, 1, 4, 2, 5, 3};
    static const int to_channels[] = {0, 3, 5, 1, 2, 4};
    struct xt_read_view *in = image_of(reader, node);
    int64_t b = xt_read_int(node, "blocksize", 1);
    if (!in)
        return false;
    int64_t c = xt_read_dim(in, 1);
    int64_t h = in->ndims == 4 ? xt_read_dim(in, 2) : 0;
    int64_t w = in->ndims == 4 ? xt_read_dim(in, 3) : 0;
    bool grows = xt_read_is(node, "DepthToSpace");
    bool crd = strcmp(xt_read_string(node, "mode").text, "CRD") == 0;
    if (b < 1 || b > 64 || !h || (grows ? c % (b * b) : h % b || w % b))
        return xt_reader_refuse(reader, node, "has blocks of %lld that do not fit", (long long)b);
    int64_t left = grows ? c / (b * b) : c;
    const int64_t crd_dims[] = {XT_READ_BATCH, left, b, b, h, w};
    const int64_t dcr_dims[] = {XT_READ_BATCH, b, b, left, h, w};
    const int64_t cut_dims[] = {XT_READ_BATCH, c, h / b, b, w / b, b};
    const int64_t after[] = {XT_READ_BATCH, grows ? left : c * b * b, grows ? h * b : h / b,
                             grows ? w * b : w / b};
    struct xt_read_view *view = xt_read_reshape(reader, node, in, 6,
                                                !grows ? cut_dims
                                                : crd  ? crd_dims
                                                       : dcr_dims);
    view = permuted(reader, view, !grows ? to_channels : crd ? channels_first : blocks_first);
    return xt_read_give(node, view ? xt_read_reshape(reader, node, view, 4, after) : NULL);
}
