/* Pools, and reductions, which are pools over whole axes. */
#include <math.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* ---- pools ---- */

static struct xt_read_view *pool(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, const int homes[],
                                 const struct xt_net_pool *spec, bool is_max)
{
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    if (!value)
        return NULL;
    value = is_max ? xt_net_max_pool(reader->net, value, spec)
                   : xt_net_avg_pool(reader->net, value, spec);
    return xt_read_after(reader, node, view, NULL, homes, value);
}

/* What waits around the image becomes the window's: for a maximum beside its own; zeros, pixels
 * like any other, which an average counts, instead of its own. */
static void take_padding(struct xt_read_view *view, bool is_max, struct xt_net_pool *spec)
{
    bool waits = false;
    bool own = false;
    for (int k = 0; k < 4; k++) {
        waits = waits || view->pad[k];
        own = own || spec->pad[k];
    }
    if (!waits || (own && !is_max))
        return;
    spec->count_include_pad = true;
    for (int k = 0; k < 4; k++)
        spec->pad[k] += (int)view->pad[k];
    memset(view->pad, 0, sizeof view->pad);
    view->pads_least = false;
}

/* ---- along one axis ---- */

/* A window along the axis, which becomes the columns of an image of one row. */
static struct xt_read_view *pool_along(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_view *view, int axis,
                                       const struct xt_net_pool *columns, bool is_max)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    for (int i = 0; i < view->ndims; i++) {
        int64_t dim = xt_read_dim(view, i);
        homes[i] = dim == XT_READ_BATCH ? XT_READ_N : dim == 1 ? XT_READ_NONE : XT_AXIS_C;
    }
    homes[axis] = XT_AXIS_W;
    return pool(reader, node, view, homes, columns, is_max);
}

/* One number for each of an attribute's axes; refuses others. */
static bool read_each(struct xt_reader *reader, const struct xt_read_node *node, const char *name,
                      int count, int64_t least, int64_t out[XT_READ_DIMS_MAX])
{
    int64_t given[XT_READ_DIMS_MAX];
    int length = xt_read_ints(reader, node, name, -1, given);
    for (int i = 0; i < count; i++)
        out[i] = least;
    if (length == -1)
        return true;
    bool fits = length == count;
    for (int i = 0; fits && i < count; i++) {
        fits = given[i] >= least && given[i] <= 4096;
        out[i] = given[i];
    }
    return fits ||
           xt_reader_refuse(reader, node, "has %s that do not fit, or are above 4096", name);
}

/* Volumes, [n][c][d][h][w]: the largest or the mean of a box is that of its rows' columns' depths.
 */
static bool pool_volume(struct xt_reader *reader, struct xt_read_node *node,
                        struct xt_read_view *view, bool is_max)
{
    enum { SIDES = 3 };
    int64_t kernel[XT_READ_DIMS_MAX];
    int64_t stride[XT_READ_DIMS_MAX];
    int64_t dilation[XT_READ_DIMS_MAX];
    int64_t pads[XT_READ_DIMS_MAX];
    if (!read_each(reader, node, "kernel_shape", SIDES, 1, kernel) ||
        !read_each(reader, node, "strides", SIDES, 1, stride) ||
        !read_each(reader, node, "dilations", SIDES, 1, dilation) ||
        !read_each(reader, node, "pads", 2 * SIDES, 0, pads))
        return false;
    const struct xt_read_text mode = xt_read_string(node, "auto_pad");
    if (xt_str_starts(mode.text, "SAME"))
        return xt_reader_refuse(reader, node, "is a pool of volumes that is padded by auto_pad");
    for (int i = 0; i < SIDES && view; i++) {
        const struct xt_net_pool columns = {.kernel = {1, (int)kernel[i]},
                                            .stride = {1, (int)stride[i]},
                                            .pad = {0, (int)pads[i], 0, (int)pads[SIDES + i]},
                                            .ceil_mode = xt_read_int(node, "ceil_mode", 0) != 0,
                                            .count_include_pad =
                                                xt_read_int(node, "count_include_pad", 0) != 0};
        if (dilation[i] != 1)
            return xt_reader_refuse(reader, node, "is a pool with a dilation, which is not there");
        if (kernel[i] != 1 || stride[i] != 1 || pads[i] || pads[SIDES + i])
            view = pool_along(reader, node, view, 2 + i, &columns, is_max);
    }
    return xt_read_give(node, view);
}

/* Local response normalisation (Krizhevsky et al. 2012): x / (bias + alpha * mean(x^2))^beta, the
 * mean over `size` channels, of which those that are not there are zeros. */
bool xt_read_response_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    const struct xt_activation square = {.kind = XT_ACT_POWER, .alpha = 2};
    const struct xt_activation above = {.kind = XT_ACT_LINEAR,
                                        .alpha = (float)xt_read_float(node, "alpha", 1e-4),
                                        .beta = (float)xt_read_float(node, "bias", 1)};
    const struct xt_activation root = {.kind = XT_ACT_POWER,
                                       .alpha = (float)-xt_read_float(node, "beta", 0.75)};
    int64_t size = xt_read_int(node, "size", 0);
    struct xt_read_view *x = xt_read_data(reader, node, 0);
    if (!x)
        return false;
    if (x->ndims < 3 || size < 1 || size > 4096)
        return xt_reader_refuse(reader, node, "is over %lld channels of %d dimensions",
                                (long long)size, x->ndims);
    int before = (int)(size - 1) / 2;
    const struct xt_net_pool window = {.kernel = {1, (int)size},
                                       .stride = {1, 1},
                                       .pad = {0, before, 0, (int)size - 1 - before},
                                       .count_include_pad = true};
    struct xt_read_view *mean = xt_read_activate(reader, node, x, square);
    mean = mean ? pool_along(reader, node, mean, 1, &window, false) : NULL;
    mean = mean ? xt_read_activate(reader, node, mean, above) : NULL;
    mean = mean ? xt_read_activate(reader, node, mean, root) : NULL;
    return mean && xt_read_give(node, xt_read_combine(reader, node, x, mean, true));
}

/* ---- of images ---- */

/* What a window of pixels apart reads, side by side: windows that do not overlap, with what no
 * maximum is around the image. Axis 0 is the rows. */
static struct xt_read_view *gather_windows(struct xt_reader *reader,
                                           const struct xt_read_node *node,
                                           struct xt_read_view *view, int axis, int dilation,
                                           struct xt_net_pool *spec)
{
    int kernel = spec->kernel[axis];
    int place = view->ndims - 2 + axis;
    const struct xt_axis_map around = {.kind = XT_MAP_CONSTANT,
                                       .before = spec->pad[axis],
                                       .behind = spec->pad[axis + 2],
                                       .fill = (float)xt_read_finite(-INFINITY)};
    if (around.before || around.behind)
        view = xt_read_map(reader, node, view, place, &around);
    int64_t length = view ? xt_read_dim(view, place) : 0;
    int64_t count = (length - (kernel - 1) * (int64_t)dilation - 1) / spec->stride[axis] + 1;
    if (view && (length <= (kernel - 1) * (int64_t)dilation || count * kernel > INT16_MAX))
        return xt_reader_refuse(reader, node, "is a pool whose window does not fit");
    double *at = view ? xt_reader_take(reader, (size_t)(count * kernel), sizeof *at) : NULL;
    for (int64_t i = 0; at && i < count * kernel; i++) {
        int64_t pixel = i / kernel * spec->stride[axis] + i % kernel * dilation;
        at[i] = (double)pixel;
    }
    spec->stride[axis] = kernel;
    spec->pad[axis] = spec->pad[axis + 2] = 0;
    return at ? xt_read_pick(reader, node, view, place, at, (size_t)(count * kernel)) : NULL;
}

/* Of several images of a sample. */
static struct xt_read_view *pool_stack(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_view *view, struct xt_read_stack *stack,
                                       struct xt_net_pool *spec, bool is_max)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    const struct xt_read_rows rows = {spec->kernel[0], spec->stride[0], 1, spec->pad[XT_SIDE_TOP],
                                      spec->pad[XT_SIDE_BOTTOM]};
    bool is_padded = rows.before || rows.behind;
    if (spec->ceil_mode || (is_padded && !is_max && !spec->count_include_pad))
        return xt_reader_refuse(reader, node,
                                "is a pool, of several images of a sample, with ceil_mode or "
                                "without count_include_pad, which is not there");
    spec->pad[XT_SIDE_TOP] = spec->pad[XT_SIDE_BOTTOM] = 0;
    view = xt_read_below_one_another(reader, node, view, stack, &rows,
                                     is_max ? (float)xt_read_finite(-INFINITY) : 0);
    view = view && xt_read_image_homes(view, homes) ? pool(reader, node, view, homes, spec, is_max)
                                                    : NULL;
    return view ? xt_read_as_stack(reader, node, view, stack) : NULL;
}

/* With ceil_mode a window larger than the image, by less than a stride, is one over all of it. */
static void clip_windows(const int sides[2], struct xt_net_pool *spec)
{
    for (int i = 0; i < 2 && spec->ceil_mode; i++)
        if (!spec->pad[i] && !spec->pad[2 + i] && spec->kernel[i] > sides[i] &&
            spec->kernel[i] - sides[i] < spec->stride[i])
            spec->kernel[i] = sides[i];
}

/* With its own window, or over the whole image. */
bool xt_read_pool(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_net_pool spec = {.kernel = {1, 1}, .stride = {1, 1}};
    int dilation[2] = {1, 1};
    int sides[2] = {1, 1};
    int homes[XT_READ_DIMS_MAX] = {0};
    struct xt_read_stack stack = {.count = view ? xt_read_stack_of(view) : 1};
    if (!view)
        return false;
    bool is_max = strstr(node->op, "MaxPool") != NULL;
    if (view->ndims == 5 && !xt_str_starts(node->op, "Global"))
        return pool_volume(reader, node, view, is_max);
    if (view->ndims < 3 || (stack.count == 1 && !xt_read_image_homes(view, homes)))
        return xt_reader_refuse(reader, node, "is a pool of something else than [n][c][h][w]");
    if (xt_str_starts(node->op, "Global") && stack.count > 1)
        return xt_read_give(
            node,
            xt_read_reduced(reader, node, view, (const bool[]){false, false, true, true}, is_max));
    int line = view->ndims == 3;
    for (int i = line; i < 2; i++)
        sides[i] = (int)xt_read_dim(view, 2 + i - line);
    if (xt_str_starts(node->op, "Global")) {
        memcpy(spec.kernel, sides, sizeof sides);
        memcpy(spec.stride, sides, sizeof sides);
        return xt_read_give(node, pool(reader, node, view, homes, &spec, is_max));
    }
    if (!xt_read_window(reader, node, "kernel_shape", 0, 2 - line, spec.kernel + line) ||
        !xt_read_window(reader, node, "strides", 1, 2 - line, spec.stride + line) ||
        !xt_read_window(reader, node, "dilations", 1, 2 - line, dilation + line) ||
        !xt_read_pads(reader, node, sides, spec.kernel, spec.stride, dilation, spec.pad))
        return false;
    bool is_apart = dilation[0] != 1 || dilation[1] != 1;
    if (!spec.kernel[1] || (is_apart && (!is_max || xt_read_int(node, "ceil_mode", 0))))
        return xt_reader_refuse(reader, node,
                                "is an average pool with a dilation, or one with ceil_mode, which "
                                "is not there; a max pool with a dilation is");
    if (node->output_count > 1 && node->outputs[1] && node->outputs[1]->readers)
        return xt_reader_refuse(reader, node,
                                "gives the indices of the largest, which are not read");
    spec.ceil_mode = xt_read_int(node, "ceil_mode", 0) != 0;
    spec.count_include_pad = xt_read_int(node, "count_include_pad", 0) != 0;
    take_padding(view, is_max, &spec);
    clip_windows(sides, &spec);
    for (int i = 1; i >= line && view && is_apart; i--)
        view = gather_windows(reader, node, view, i, dilation[i], &spec);
    if (view && stack.count > 1)
        return xt_read_give(node, pool_stack(reader, node, view, &stack, &spec, is_max));
    return view && xt_read_give(node, pool(reader, node, view, homes, &spec, is_max));
}

/* ---- reductions ---- */

/* A pool over these axes, each of which lies in H or W. */
static struct xt_read_view *pool_over(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *view, const bool goes[],
                                      const int homes[], bool is_max)
{
    struct xt_net_pool spec = {.kernel = {1, 1}};
    for (int i = 0; i < view->ndims; i++)
        if (goes[i] && homes[i] != XT_READ_NONE)
            spec.kernel[homes[i]] *= (int)xt_read_dim(view, i);
    return pool(reader, node, view, homes, &spec, is_max);
}

/* Over the channels: they become the image's columns, all else its rows. */
static struct xt_read_view *pool_channels(struct xt_reader *reader, const struct xt_read_node *node,
                                          struct xt_read_view *view, int axis, bool is_max)
{
    bool goes[XT_READ_DIMS_MAX] = {false};
    int homes[XT_READ_DIMS_MAX] = {0};
    for (int i = 0; i < view->ndims; i++) {
        int64_t dim = xt_read_dim(view, i);
        homes[i] = dim == XT_READ_BATCH ? XT_READ_N : dim == 1 ? XT_READ_NONE : XT_AXIS_H;
    }
    goes[axis] = true;
    homes[axis] = XT_AXIS_W;
    return pool_over(reader, node, view, goes, homes, is_max);
}

/* Over one of five axes, as groups of channels have them: the mean or the largest of its parts. */
static struct xt_read_view *pool_groups(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_view *view, int axis, bool is_max)
{
    enum { PARTS_MOST = 16 };
    int64_t parts = xt_read_dim(view, axis);
    struct xt_read_view *out = NULL;
    if (parts > PARTS_MOST)
        return xt_reader_refuse(reader, node, "is over %lld groups of channels: %d at most",
                                (long long)parts, PARTS_MOST);
    for (int64_t i = 0; i < parts; i++) {
        struct xt_read_view *part = xt_read_take(reader, node, view, axis, i, 1, 1);
        if (!part || !out)
            out = part;
        else
            out = is_max ? xt_read_extreme_of(reader, node, out, part, true)
                         : xt_read_combine(reader, node, out, part, false);
        if (!out)
            return NULL;
    }
    if (out && !is_max)
        out->scale /= (double)parts;
    return out;
}

/* Which axes go, and how many elements they are; false: refused. All of a parameter's may. */
static bool axes_to_reduce(struct xt_reader *reader, const struct xt_read_node *node,
                           const struct xt_read_view *view, bool goes[], double *count)
{
    int64_t axes[XT_READ_DIMS_MAX];
    int given = xt_read_ints(reader, node, "axes", 1, axes);
    for (int i = 0; i < view->ndims && given == -1 && view->value->of_parameter; i++)
        axes[i] = i;
    given = given == -1 && view->value->of_parameter ? view->ndims : given;
    if (given < 1)
        return xt_reader_refuse(reader, node,
                                "is over axes that are not known while it is read, or over all");
    for (int i = 0; i < given; i++) {
        int axis = xt_read_axis_of(reader, node, axes[i], view->ndims);
        if (axis < 0)
            return false;
        if (xt_read_dim(view, axis) % XT_READ_BATCH == 0)
            return xt_reader_refuse(reader, node, "is over the batch");
        *count *= goes[axis] ? 1 : (double)xt_read_dim(view, axis);
        goes[axis] = true;
    }
    return true;
}

/* Whether one axis goes of several that lie together. */
static bool reduces_a_part(const struct xt_read_view *view, const bool goes[], const int homes[])
{
    for (int i = 0; i < view->ndims; i++)
        for (int k = 0; k < view->ndims; k++)
            if (goes[i] && !goes[k] && homes[i] == homes[k] && homes[i] < XT_AXES &&
                xt_read_dim(view, k) != 1)
                return true;
    return false;
}

/* The root of a sum of squares. The 1e-30 gives the length of zeros a gradient of 0, as PyTorch
 * does, not an infinite one. */
static struct xt_read_view *length_of(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *squares)
{
    const struct xt_activation root = {.kind = XT_ACT_POWER, .alpha = 0.5f};
    const struct xt_activation above_0 = {XT_ACT_LINEAR, (float)squares->scale, 1e-30f};
    squares->scale = 1;
    squares = xt_read_activate(reader, node, squares, above_0);
    return squares ? xt_read_activate(reader, node, squares, root) : NULL;
}

/* The mean or the largest over these axes, which stay with length 1: first over those that are an
 * image's sides, then over others. */
struct xt_read_view *xt_read_reduced(struct xt_reader *reader, const struct xt_read_node *node,
                                     const struct xt_read_view *in, const bool goes[], bool is_max)
{
    struct xt_read_view *view = in ? xt_read_copy(reader, in) : NULL;
    int homes[XT_READ_DIMS_MAX] = {0};
    bool sides[XT_READ_DIMS_MAX] = {false};
    bool any = false;
    if (!view)
        return NULL;
    if (view->value->of_parameter && !is_max)
        return xt_read_parameter_mean(reader, node, view, goes);
    bool known = (xt_read_homes(view, homes) && !reduces_a_part(view, goes, homes)) ||
                 xt_read_image_homes(view, homes);
    for (int i = 0; i < view->ndims; i++) {
        sides[i] = known && goes[i] && (homes[i] == XT_AXIS_H || homes[i] == XT_AXIS_W);
        any = any || sides[i];
    }
    if (any)
        view = pool_over(reader, node, view, sides, homes, is_max);
    for (int i = 0; view && i < in->ndims; i++)
        if (goes[i] && xt_read_dim(view, i) != 1)
            view = view->ndims > 4 ? pool_groups(reader, node, view, i, is_max)
                                   : pool_channels(reader, node, view, i, is_max);
    return view;
}

/* log(sum(exp(x))) as max + log(sum(exp(x - max))), which does not overflow. */
static struct xt_read_view *log_sum_exp(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_view *in, const bool goes[], double count)
{
    struct xt_read_view *largest = xt_read_reduced(reader, node, in, goes, true);
    struct xt_read_view *view =
        xt_read_combine(reader, node, in, xt_read_times(reader, largest, -1), false);
    view = xt_read_activate(reader, node, view, (struct xt_activation){.kind = XT_ACT_EXP});
    view = xt_read_reduced(reader, node, view, goes, false);
    if (!view)
        return NULL;
    view->scale *= count;
    view = xt_read_activate(reader, node, view, (struct xt_activation){.kind = XT_ACT_LOG});
    return xt_read_combine(reader, node, view, largest, false);
}

static void drop_axes(struct xt_read_view *view, const bool goes[])
{
    int left = 0;
    for (int i = 0; i < view->ndims; i++)
        if (!goes[i])
            view->axes[left++] = view->axes[i];
    view->ndims = left;
}

/* x - log(sum(exp(x))) */
bool xt_read_log_softmax(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    bool goes[XT_READ_DIMS_MAX] = {false};
    if (!view)
        return false;
    int axis = xt_read_softmax_axis(reader, node, view);
    if (axis < 0)
        return false;
    if (xt_read_dim(view, axis) % XT_READ_BATCH == 0)
        return xt_reader_refuse(reader, node, "is over the batch");
    goes[axis] = true;
    struct xt_read_view *sum =
        log_sum_exp(reader, node, view, goes, (double)xt_read_dim(view, axis));
    return xt_read_give(node,
                        xt_read_combine(reader, node, view, xt_read_times(reader, sum, -1), false));
}

/* The mean, the sum (of magnitudes), the largest, the least, the sum of squares or its root, the
 * logarithm of the sum of exponentials. */
bool xt_read_reduce(struct xt_reader *reader, struct xt_read_node *node)
{
    const struct xt_activation square = {.kind = XT_ACT_POWER, .alpha = 2};
    const struct xt_activation magnitude = {.kind = XT_ACT_LEAKY_RELU, .alpha = -1};
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    bool is_length = xt_read_is(node, "ReduceL2");
    bool of_squares = is_length || xt_read_is(node, "ReduceSumSquare");
    bool of_magnitudes = xt_read_is(node, "ReduceL1");
    bool is_least = xt_read_is(node, "ReduceMin"); /* -max(-x) */
    bool goes[XT_READ_DIMS_MAX] = {false};
    double count = 1;
    if (!view || !axes_to_reduce(reader, node, view, goes, &count))
        return false;
    if (of_squares)
        view = xt_read_activate(reader, node, view, square);
    if (of_magnitudes)
        view = xt_read_activate(reader, node, view, magnitude);
    if (is_least)
        view->scale = -view->scale;
    if (xt_read_is(node, "ReduceLogSumExp"))
        view = log_sum_exp(reader, node, view, goes, count);
    else
        view = xt_read_reduced(reader, node, view, goes, is_least || xt_read_is(node, "ReduceMax"));
    if (!view)
        return false;
    view->scale *= of_squares || of_magnitudes || xt_read_is(node, "ReduceSum") ? count
                   : is_least                                                   ? -1
                                                                                : 1;
    view = is_length ? length_of(reader, node, view) : view;
    if (view && !xt_read_int(node, "keepdims", 1))
        drop_axes(view, goes);
    return xt_read_give(node, view);
}
