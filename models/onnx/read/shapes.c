/* Operators that only move elements: most change a view alone. */
#include <string.h>

#include "models/onnx/read/ops.h"

int xt_read_axis_of(struct xt_reader *reader, const struct xt_read_node *node, int64_t axis,
                    int ndims)
{
    int64_t own = axis < 0 ? axis + ndims : axis;
    if (own >= 0 && own < ndims)
        return (int)own;
    xt_reader_refuse(reader, node, "has the axis %lld of %d", (long long)axis, ndims);
    return -1;
}

/* ---- homes ---- */

bool xt_read_image_homes(const struct xt_read_view *view, int homes[])
{
    static const int image[] = {XT_READ_N, XT_AXIS_C, XT_AXIS_H, XT_AXIS_W};
    static const int line[] = {XT_READ_N, XT_AXIS_C, XT_AXIS_W};
    if (view->ndims < 2 || view->ndims > 4)
        return false;
    memcpy(homes, view->ndims == 3 ? line : image, (size_t)view->ndims * sizeof *homes);
    return xt_read_dim(view, 0) == XT_READ_BATCH;
}

bool xt_read_layer_homes(const struct xt_read_view *view, int homes[])
{
    if (xt_read_image_homes(view, homes))
        return true;
    homes[0] = XT_READ_NONE;
    return view->ndims >= 2 && view->ndims <= 4 && view->value->of_parameter &&
           xt_read_dim(view, 0) == 1;
}

/* Whether several axes lie in the channels. */
static bool are_shared(const struct xt_read_view *view, const int homes[], int axis)
{
    for (int i = 0; i < view->ndims; i++)
        if (i != axis && homes[i] == XT_AXIS_C)
            return true;
    return false;
}

void xt_read_channel_homes(const struct xt_read_view *view, int axis, int homes[])
{
    bool fit = xt_read_homes(view, homes);
    if (fit && (homes[axis] == XT_AXIS_C || homes[axis] == XT_READ_NONE) &&
        !are_shared(view, homes, axis)) {
        homes[axis] = XT_AXIS_C;
        return;
    }
    /* The other axes become rows, the first of several lies outside. */
    int others = 0;
    for (int i = 0; i < view->ndims; i++)
        others += i != axis && xt_read_dim(view, i) != 1 && xt_read_dim(view, i) != XT_READ_BATCH;
    int seen = 0;
    for (int i = 0; i < view->ndims; i++) {
        int64_t dim = xt_read_dim(view, i);
        homes[i] = dim == XT_READ_BATCH      ? XT_READ_N
                   : dim == 1                ? XT_READ_NONE
                   : others > 1 && seen == 0 ? XT_AXIS_H
                                             : XT_AXIS_W;
        seen += i != axis && dim != 1 && dim != XT_READ_BATCH;
    }
    homes[axis] = XT_AXIS_C;
}

/* ---- views ---- */

bool xt_read_transpose(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *in = xt_read_data(reader, node, 0);
    struct xt_read_view *out = in ? xt_read_copy(reader, in) : NULL;
    int64_t perm[XT_READ_DIMS_MAX];
    bool seen[XT_READ_DIMS_MAX] = {false};
    if (!out)
        return false;
    int count = xt_read_ints(reader, node, "perm", -1, perm);
    for (int i = 0; i < in->ndims && count == -1; i++)
        perm[i] = in->ndims - 1 - i;
    if (count != -1 && count != in->ndims)
        return xt_reader_refuse(reader, node, "has a perm of %d axes for %d", count, in->ndims);
    for (int i = 0; i < in->ndims; i++) {
        if (perm[i] < 0 || perm[i] >= in->ndims || seen[perm[i]])
            return xt_reader_refuse(reader, node, "has a perm that is not a permutation");
        seen[perm[i]] = true;
        out->axes[i] = in->axes[perm[i]];
    }
    return xt_read_give(node, out);
}

/* Elements that the axes and factors outside of the batch's have; 0: there is no batch. */
static int64_t outside_batch(const struct xt_read_view *view)
{
    int64_t count = 1;
    for (int i = 0; i < view->ndims; i++) {
        for (int k = 0; k < view->axes[i].count; k++) {
            const struct xt_read_factor *factor = &view->factors[view->axes[i].factors[k]];
            if (factor->home == XT_READ_N)
                return count;
            count *= factor->size;
        }
    }
    return 0;
}

/* The open axis of a shape, in a file for one size of batch. */
static void close_axis(const struct xt_read_view *view, int64_t batch, int ndims, int64_t dims[])
{
    int64_t left = batch;
    int open = -1;
    for (int i = 0; i < view->factor_count; i++)
        left *= view->factors[i].home == XT_READ_N ? 1 : view->factors[i].size;
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == -1 && open >= 0)
            return;
        if (dims[i] == -1)
            open = i;
        else if (dims[i] < 1 || left % dims[i])
            return;
        else
            left /= dims[i];
    }
    if (open >= 0)
        dims[open] = left;
}

/* In a file for one size of batch that size stands where others have the batch: as many elements
 * are outside of it in the shape as in the input. Where there is no axis of that length, it is part
 * of the one that lies there, but not of the last, if another is beside that: layers read it. */
static void free_batch(const struct xt_reader *reader, const struct xt_read_view *view, int ndims,
                       int64_t dims[])
{
    int64_t batch = reader->fixed_batch;
    int64_t outside = outside_batch(view);
    int64_t passed = 1;
    int axis = 0;
    for (int i = 0; i < ndims; i++)
        if (dims[i] % XT_READ_BATCH == 0)
            return;
    if (!batch || !outside || !ndims)
        return;
    close_axis(view, batch, ndims, dims);
    while (axis < ndims && passed < outside && dims[axis] >= 1 && passed <= outside / dims[axis])
        passed *= dims[axis++];
    while (axis < ndims - 1 && dims[axis] == 1 && batch > 1)
        axis++;
    if (axis == ndims ||
        (axis == ndims - 1 && axis > 0 && dims[axis] != batch && batch == 1 && passed == outside))
        axis--;
    if (dims[axis] > 0 && dims[axis] % batch == 0 && dims[axis] < XT_READ_BATCH)
        dims[axis] = dims[axis] / batch * XT_READ_BATCH;
}

static bool reshape_to(struct xt_reader *reader, struct xt_read_node *node,
                       struct xt_read_view *view, int ndims, int64_t dims[])
{
    int64_t all = 1;
    int64_t product = 1;
    int open = -1;
    for (int i = 0; i < view->ndims; i++)
        if (__builtin_mul_overflow(all, xt_read_dim(view, i), &all))
            return xt_reader_refuse(reader, node, "reads a tensor that is too large");
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == -1 && open >= 0)
            return xt_reader_refuse(reader, node, "leaves two axes of its shape open");
        if (dims[i] == -1)
            open = i;
        else if (dims[i] < 1 || __builtin_mul_overflow(product, dims[i], &product))
            return xt_reader_refuse(reader, node, "has a shape that cannot be");
    }
    if (open >= 0 && all % product == 0)
        dims[open] = all / product;
    if (all != (open >= 0 ? product * dims[open] : product))
        return xt_reader_refuse(reader, node,
                                "makes another number of elements of its input than that has; a "
                                "batch that is fixed is the reason as a rule: export it with "
                                "dynamic_axes (or dynamic_shapes) for the batch");
    return xt_read_give(node, xt_read_reshape(reader, node, view, ndims, dims));
}

bool xt_read_reshape_op(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t dims[XT_READ_DIMS_MAX];
    int count = view ? xt_read_ints(reader, node, "shape", 1, dims) : -1;
    if (!view)
        return false;
    if (count < 0)
        return xt_reader_refuse(reader, node,
                                "has a shape that is not known while it is read: "
                                "dynamic shapes but the batch cannot be trained here");
    for (int i = 0; i < count; i++)
        if (dims[i] == 0 && !xt_read_int(node, "allowzero", 0) && i < view->ndims)
            dims[i] = xt_read_dim(view, i);
    free_batch(reader, view, count, dims);
    return reshape_to(reader, node, view, count, dims);
}

bool xt_read_flatten(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t dims[2] = {1, -1};
    if (!view)
        return false;
    int64_t axis = xt_read_int(node, "axis", 1);
    axis += axis < 0 ? view->ndims : 0;
    if (axis < 0 || axis > view->ndims)
        return xt_reader_refuse(reader, node, "has an axis that its input has not");
    for (int i = 0; i < axis; i++)
        dims[0] *= xt_read_dim(view, i);
    return reshape_to(reader, node, view, 2, dims);
}

bool xt_read_squeeze(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t axes[XT_READ_DIMS_MAX];
    bool goes[XT_READ_DIMS_MAX] = {false};
    if (!view)
        return false;
    int count = xt_read_ints(reader, node, "axes", 1, axes);
    if (count < -1)
        return xt_reader_refuse(reader, node, "has axes that are not known while it is read");
    for (int i = 0; i < view->ndims && count < 0; i++)
        goes[i] = xt_read_dim(view, i) == 1;
    for (int i = 0; i < count; i++) {
        int axis = xt_read_axis_of(reader, node, axes[i], view->ndims);
        if (axis < 0)
            return false;
        if (xt_read_dim(view, axis) != 1)
            return xt_reader_refuse(reader, node, "removes an axis of %lld elements",
                                    (long long)xt_read_dim(view, axis));
        goes[axis] = true;
    }
    int ndims = 0;
    for (int i = 0; i < view->ndims; i++)
        if (!goes[i])
            view->axes[ndims++] = view->axes[i];
    view->ndims = ndims;
    return xt_read_give(node, view);
}

bool xt_read_unsqueeze(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *in = xt_read_data(reader, node, 0);
    struct xt_read_view *out = in ? xt_read_copy(reader, in) : NULL;
    int64_t axes[XT_READ_DIMS_MAX];
    bool is_new[XT_READ_DIMS_MAX] = {false};
    if (!out)
        return false;
    int count = xt_read_ints(reader, node, "axes", 1, axes);
    if (count < 0 || in->ndims + count > XT_READ_DIMS_MAX)
        return xt_reader_refuse(reader, node,
                                "has axes that are not known while it is read, or too many");
    out->ndims = in->ndims + count;
    for (int i = 0; i < count; i++) {
        int axis = xt_read_axis_of(reader, node, axes[i], out->ndims);
        if (axis < 0)
            return false;
        if (is_new[axis])
            return xt_reader_refuse(reader, node, "names an axis twice");
        is_new[axis] = true;
    }
    for (int i = 0, own = 0; i < out->ndims; i++)
        out->axes[i] = is_new[i] ? (struct xt_read_axis){0} : in->axes[own++];
    return xt_read_give(node, out);
}

bool xt_read_same(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t to = xt_read_int(node, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    bool is_float = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
                    to == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
                    to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                    to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    if (view && to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
        return xt_read_condition(reader, node);
    if (view && !is_float)
        return xt_reader_refuse(reader, node, "converts values of the network to integers");
    return xt_read_give(node, view);
}

/* Of a condition that shapes decide: what the branch gives that is taken. */
bool xt_read_if(struct xt_reader *reader, struct xt_read_node *node)
{
    double condition = 0;
    struct xt_read_value *decides = xt_read_input(node, 0);
    if (!decides || !xt_read_number(reader, decides, &condition))
        return xt_reader_refuse(reader, node,
                                "chooses by what the network computes, which cannot be trained "
                                "here: export it with its branches decided (torch.jit.trace, or "
                                "the model without the `if`)");
    struct xt_read_value *taken = xt_read_input(node, condition != 0 ? 1 : 2);
    if (!taken)
        return xt_reader_refuse(reader, node, "has a branch that gives nothing");
    if (!taken->view && node->outputs[0])
        node->outputs[0]->constant = xt_read_constant_of(reader, taken);
    if (taken->view || !node->outputs[0] || !node->outputs[0]->constant)
        return xt_read_give(node, xt_read_view_of(reader, node, taken));
    return true;
}

bool xt_read_repeat_for_batch(struct xt_read_view *view, int axis)
{
    bool has_batch = view->factor_count && view->factors[0].home == XT_READ_N;
    if (!view->value->of_parameter || has_batch || view->factor_count == XT_READ_FACTORS_MAX)
        return false;
    memmove(view->factors + 1, view->factors, (size_t)view->factor_count * sizeof *view->factors);
    view->factor_count++;
    view->factors[0] = (struct xt_read_factor){XT_READ_BATCH, XT_READ_N};
    for (int i = 0; i < view->ndims; i++)
        for (int k = 0; k < view->axes[i].count; k++)
            view->axes[i].factors[k]++;
    view->axes[axis] = (struct xt_read_axis){1, {0}};
    return true;
}

/* Whether all readers of the value broadcast. */
static bool is_broadcast_later(const struct xt_reader *reader, const struct xt_read_value *value)
{
    static const char *const ops[] = {"Mul", "Div", "Add", "Sub"};
    for (size_t i = 0; i < reader->node_count; i++)
        for (int k = 0; k < reader->nodes[i].input_count; k++) {
            bool known = reader->nodes[i].inputs[k] != value;
            for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
                known = known || xt_read_is(&reader->nodes[i], ops[o]);
            if (!known)
                return false;
        }
    return value != reader->output;
}

/* ---- parts ---- */

/* Where a slice of an axis begins and ends, as ONNX clamps both. */
static int64_t clamp(int64_t at, int64_t dim)
{
    int64_t own = at < 0 ? at + dim : at;
    return own < 0 ? 0 : own > dim ? dim : own;
}

/* Where a step of more than 0 reaches none. */
static bool is_empty_part(int64_t dim, const int64_t bounds[2], int64_t step)
{
    return step > 0 && dim % XT_READ_BATCH && clamp(bounds[0], dim) >= clamp(bounds[1], dim);
}

/* The elements start, start + step, ... before `end`, which is behind them where the step is
 * negative: backwards. */
static struct xt_read_view *take_part(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *view, int axis, const int64_t bounds[2],
                                      int64_t step)
{
    int64_t dim = xt_read_dim(view, axis);
    int64_t start = clamp(bounds[0], dim);
    int64_t end = clamp(bounds[1], dim);
    int64_t size = step < 0 ? -step : step;
    if (step < 0) {
        /* Forwards: the first that is taken lies behind `end`, or where that is before all at 0. */
        int64_t first = bounds[1] < -dim ? 0 : end + 1;
        int64_t last = start < dim ? start : dim - 1;
        end = last + 1;
        start = last < first ? end : last - (last - first) / size * size;
    }
    if (start >= end || step == 0)
        return xt_reader_refuse(reader, node, "takes an empty part");
    if (dim % XT_READ_BATCH == 0 && (start || end != dim || step != 1))
        return xt_reader_refuse(reader, node, "takes a part of the batch");
    view = xt_read_take(reader, node, view, axis, start, size, (end - start - 1) / size + 1);
    return step < 0 ? xt_read_reverse(reader, node, view, axis) : view;
}

bool xt_read_slice(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t starts[XT_READ_DIMS_MAX];
    int64_t ends[XT_READ_DIMS_MAX];
    int64_t axes[XT_READ_DIMS_MAX];
    int64_t steps[XT_READ_DIMS_MAX];
    int count = view ? xt_read_ints(reader, node, "starts", 1, starts) : 0;
    if (!view)
        return false;
    int end_count = xt_read_ints(reader, node, "ends", 2, ends);
    int axis_count = xt_read_ints(reader, node, "axes", 3, axes);
    int step_count = xt_read_ints(reader, node, "steps", 4, steps);
    if (count < 0 || end_count != count || (axis_count != count && axis_count != -1) ||
        (step_count != count && step_count != -1))
        return xt_reader_refuse(reader, node, "takes a part whose bounds are not constant");
    for (int i = 0; i < count && view; i++) {
        int64_t step = step_count < 0 ? 1 : steps[i];
        int axis = xt_read_axis_of(reader, node, axis_count < 0 ? i : axes[i], view->ndims);
        if (axis < 0)
            return false;
        const int64_t bounds[] = {starts[i], ends[i]};
        if (node->outputs[0] && is_empty_part(xt_read_dim(view, axis), bounds, step)) {
            node->outputs[0]->is_empty = true;
            return true;
        }
        view = take_part(reader, node, view, axis, bounds, step < -INT32_MAX ? -INT32_MAX : step);
    }
    return xt_read_give(node, view);
}

/* Whole sequences backwards, as TensorFlow reverses those of a layer that runs backwards. */
bool xt_read_reverse_sequence(struct xt_reader *reader, struct xt_read_node *node)
{
    static const int64_t backwards[] = {-1, INT64_MIN};
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int axis =
        view ? xt_read_axis_of(reader, node, xt_read_int(node, "time_axis", 0), view->ndims) : -1;
    struct xt_read_value *lengths = xt_read_input(node, 1);
    double length = 0;
    if (axis < 0)
        return false;
    if (lengths && xt_read_is(lengths->producer, "Expand")) /* to the batch */
        lengths = xt_read_input(lengths->producer, 0);
    if (!lengths || !xt_read_number(reader, lengths, &length) ||
        length != (double)xt_read_dim(view, axis))
        return xt_reader_refuse(reader, node, "reverses sequences of several lengths");
    return xt_read_give(node, take_part(reader, node, view, axis, backwards, -1));
}

/* How long each part is: said, or as many equal ones as there are outputs. */
static bool split_sizes(struct xt_reader *reader, struct xt_read_node *node, int64_t dim,
                        int64_t *sizes)
{
    int count = node->output_count;
    int given = xt_read_int_list(reader, node, "split", 1, sizes, (size_t)count);
    if (count < 1 || (given != count && given != -1))
        return xt_reader_refuse(reader, node,
                                "splits into parts that are not known while it is read");
    int64_t whole = (dim + count - 1) / count;
    int64_t left = dim;
    for (int i = 0; i < count; i++) {
        sizes[i] = given == count ? sizes[i] : left < whole ? left : whole;
        if (sizes[i] < 1 || sizes[i] > left)
            return xt_reader_refuse(reader, node, "splits %lld elements into other parts",
                                    (long long)dim);
        left -= sizes[i];
    }
    return left == 0 || xt_reader_refuse(reader, node, "splits off less than there is");
}

bool xt_read_split(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t *sizes = xt_reader_take(reader, (size_t)node->output_count + 1, sizeof *sizes);
    if (!view || !sizes)
        return false;
    int axis = xt_read_axis_of(reader, node, xt_read_int(node, "axis", 0), view->ndims);
    if (axis < 0 || !split_sizes(reader, node, xt_read_dim(view, axis), sizes))
        return false;
    int64_t at = 0;
    for (int i = 0; i < node->output_count; at += sizes[i++]) {
        if (!node->outputs[i] || !node->outputs[i]->readers)
            continue;
        node->outputs[i]->view = xt_read_take(reader, node, view, axis, at, 1, sizes[i]);
        if (!node->outputs[i]->view)
            return false;
    }
    return true;
}

/* The axis as those of the indices. */
static bool cut_as(struct xt_reader *reader, struct xt_read_node *node, struct xt_read_view *view,
                   int axis, const struct xt_read_constant *which)
{
    int64_t dims[XT_READ_DIMS_MAX];
    int more = which->ndims - 1;
    if (!view || more == 0)
        return xt_read_give(node, view);
    if (view->ndims + more > XT_READ_DIMS_MAX)
        return xt_reader_refuse(reader, node, "makes too many axes");
    for (int i = 0; i < view->ndims + more; i++)
        dims[i] = i < axis           ? xt_read_dim(view, i)
                  : i <= axis + more ? which->dims[i - axis]
                                     : xt_read_dim(view, i - more);
    return xt_read_give(node, xt_read_reshape(reader, node, view, view->ndims + more, dims));
}

/* GatherND's indices of the first axes as Gather's of one, which the view gets in their place. */
static struct xt_read_constant *of_one_axis(struct xt_reader *reader,
                                            const struct xt_read_node *node,
                                            struct xt_read_view **view,
                                            const struct xt_read_constant *which)
{
    int64_t dims[XT_READ_DIMS_MAX] = {1};
    int axes = which->ndims ? (int)which->dims[which->ndims - 1] : 0;
    if (axes < 1 || axes > (*view)->ndims || xt_read_int(node, "batch_dims", 0))
        return xt_reader_refuse(reader, node,
                                "takes elements by indices for each sample, which is not there");
    struct xt_read_constant *out = xt_read_make(reader, which->ndims - 1, which->dims, false);
    for (size_t i = 0; out && i < out->count; i++)
        for (int axis = 0; axis < axes; axis++) {
            double dim = (double)xt_read_dim(*view, axis);
            double at = which->numbers[i * (size_t)axes + (size_t)axis];
            at += at < 0 ? dim : 0;
            if (at < 0 || at >= dim)
                return xt_reader_refuse(reader, node, "takes elements that are not there");
            out->numbers[i] = out->numbers[i] * dim + at;
        }
    for (int axis = 0; axis < axes; axis++)
        dims[0] *= xt_read_dim(*view, axis);
    for (int axis = axes; axis < (*view)->ndims; axis++)
        dims[1 + axis - axes] = xt_read_dim(*view, axis);
    if (axes > 1)
        *view = xt_read_reshape(reader, node, *view, (*view)->ndims - axes + 1, dims);
    return *view ? out : NULL;
}

/* For each axis of indices how far apart its elements lie in the row that they index, if that is
 * so throughout. */
static bool find_strides(const struct xt_read_constant *which, const double *at, int64_t strides[])
{
    size_t inner = 1;
    bool fits = true;
    for (int i = which->ndims - 1; i >= 0; inner *= (size_t)which->dims[i--]) {
        strides[i] = which->dims[i] > 1 ? xt_read_whole(at[inner]) : 0;
        fits = fits && strides[i] >= 0 && strides[i] < (int64_t)which->count;
    }
    for (size_t p = 0; p < which->count && fits; p++) {
        int64_t wanted = 0;
        size_t left = p;
        for (int i = which->ndims - 1; i >= 0; left /= (size_t)which->dims[i--])
            wanted += (int64_t)(left % (size_t)which->dims[i]) * strides[i];
        fits = at[p] == (double)wanted;
    }
    return fits;
}

/* In a file for one image, a row of all its elements, taken each once in the order of other axes:
 * PyTorch's exporter writes as_strided so. NULL: it is something else. */
static struct xt_read_view *as_strided(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_view *view,
                                       const struct xt_read_constant *which, const double *at)
{
    int64_t left = (int64_t)which->count;
    int64_t strides[XT_READ_DIMS_MAX];
    int64_t dims[XT_READ_DIMS_MAX] = {XT_READ_BATCH};
    int lies[XT_READ_DIMS_MAX]; /* the axis of the indices that axis i + 1 of the row's is */
    int count = 0;
    if (reader->fixed_batch != 1 || view->ndims != 1 || which->ndims < 2 || which->dims[0] != 1 ||
        xt_read_dim(view, 0) != XT_READ_BATCH * left || !find_strides(which, at, strides))
        return NULL;
    for (int i = 0; i < which->ndims; i++)
        if (which->dims[i] > 1 && strides[i] * which->dims[i] == left) {
            left = strides[i];
            lies[count++] = i;
            dims[count] = which->dims[i];
            i = -1; /* the next may lie before it */
        }
    if (left != 1)
        return NULL;
    struct xt_read_view *row = xt_read_reshape(reader, node, view, count + 1, dims);
    struct xt_read_view *out = row ? xt_read_copy(reader, row) : NULL;
    if (!out)
        return NULL;
    memset(out->axes, 0, sizeof out->axes);
    out->ndims = which->ndims;
    out->axes[0] = row->axes[0];
    for (int i = 0; i < count; i++)
        out->axes[lies[i]] = row->axes[i + 1];
    return out;
}

/* By one index, by several in a row, or by any; GatherND too. */
bool xt_read_gather(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_read_constant *which =
        view ? xt_read_constant_of(reader, xt_read_input(node, 1)) : NULL;
    const double *at = which && which->count ? xt_read_numbers(reader, which) : NULL;
    if (at && xt_read_is(node, "GatherND")) {
        which = of_one_axis(reader, node, &view, which);
        at = which ? which->numbers : NULL;
    }
    if (!view || xt_reader_fails(reader))
        return false;
    int axis = xt_read_axis_of(reader, node, xt_read_int(node, "axis", 0), view->ndims);
    if (axis < 0)
        return false;
    if (!at)
        return xt_reader_refuse(reader, node, "takes elements by indices that are not constant");
    struct xt_read_view *strided = as_strided(reader, node, view, which, at);
    if (strided || xt_reader_fails(reader))
        return strided && xt_read_give(node, strided);
    int64_t dim = xt_read_dim(view, axis);
    int64_t start = xt_read_whole(at[0]);
    int64_t step = which->count > 1 ? xt_read_whole(at[1] - at[0]) : 1;
    bool even = step > 0 && which->ndims <= 1;
    for (size_t i = 0; i < which->count; i++)
        even = even && at[i] == (double)start + (double)i * (double)step;
    if (!even)
        return cut_as(reader, node, xt_read_pick(reader, node, view, axis, at, which->count), axis,
                      which);
    struct xt_read_view *out = xt_read_take(reader, node, view, axis, start + (start < 0 ? dim : 0),
                                            step, (int64_t)which->count);
    if (!out || which->ndims == 1)
        return xt_read_give(node, out);
    for (int i = axis; i + 1 < out->ndims; i++)
        out->axes[i] = out->axes[i + 1];
    out->ndims--;
    return xt_read_give(node, out);
}

/* ---- concat ---- */

/* Of the views that are put together the one with the most axes of more than 1. */
static struct xt_read_view *fullest(struct xt_read_view *const views[], int count)
{
    int best = -1;
    struct xt_read_view *out = NULL;
    for (int i = 0; i < count; i++) {
        int axes = 0;
        for (int k = 0; k < views[i]->ndims; k++)
            axes += xt_read_dim(views[i], k) != 1;
        if (axes > best)
            out = views[i];
        best = axes > best ? axes : best;
    }
    return out;
}

/* A home in which nothing else lies. */
static int free_home(const struct xt_read_view *view, const int homes[], int axis)
{
    for (int home = XT_AXIS_W; home != XT_AXES; home = home == XT_AXIS_W   ? XT_AXIS_H
                                                       : home == XT_AXIS_H ? XT_AXIS_C
                                                                           : XT_AXES) {
        bool taken = false;
        for (int i = 0; i < view->ndims; i++)
            taken = taken || (i != axis && homes[i] == home);
        if (!taken)
            return home;
    }
    return XT_READ_NONE;
}

static bool concat_homes(struct xt_reader *reader, const struct xt_read_node *node,
                         const struct xt_read_view *view, int axis, int homes[])
{
    if (!xt_read_homes(view, homes))
        xt_read_channel_homes(view, axis, homes);
    bool shared = homes[axis] == XT_READ_NONE;
    for (int i = 0; i < view->ndims; i++)
        shared = shared || (i != axis && homes[i] == homes[axis]);
    if (shared && homes[axis] != XT_READ_NONE)
        xt_read_channel_homes(view, axis, homes);
    else if (shared)
        homes[axis] = free_home(view, homes, axis);
    return homes[axis] < XT_AXES ||
           xt_reader_refuse(reader, node,
                            "puts together along the batch, or along an axis of four");
}

static struct xt_read_view *concat(struct xt_reader *reader, const struct xt_read_node *node,
                                   struct xt_read_view *const views[], int count, int axis)
{
    struct xt_value **values = xt_reader_take(reader, (size_t)count, sizeof *values);
    struct xt_read_view *base = fullest(views, count);
    int homes[XT_READ_DIMS_MAX] = {0};
    if (!values || !concat_homes(reader, node, base, axis, homes))
        return NULL;
    for (int i = 0; i < count; i++) {
        values[i] = xt_read_lay_out(reader, node, views[i], homes);
        if (!values[i])
            return NULL;
    }
    struct xt_value *value =
        xt_net_concat(reader->net, values, count, (enum xt_axis)homes[axis], NULL);
    return xt_read_after(reader, node, base, NULL, homes, value);
}

/* Moves an axis to another place among the view's. */
static void move_axis(struct xt_read_view *view, int from, int to)
{
    struct xt_read_axis axis = view->axes[from];
    for (int i = from; i < to; i++)
        view->axes[i] = view->axes[i + 1];
    for (int i = from; i > to; i--)
        view->axes[i] = view->axes[i - 1];
    view->axes[to] = axis;
}

/* Of five axes, as groups of channels are stacked: an axis and the one behind it are put together
 * as one, whose elements lie in the same order. */
static struct xt_read_view *concat_groups(struct xt_reader *reader, const struct xt_read_node *node,
                                          struct xt_read_view *views[], int count, int axis)
{
    int ndims = views[0]->ndims;
    int64_t whole[XT_READ_DIMS_MAX] = {0};
    int64_t dims[XT_READ_DIMS_MAX];
    for (int k = 0; k < ndims; k++)
        whole[k] = k == axis ? 0 : xt_read_dim(views[0], k);
    for (int i = 0; i < count; i++) {
        int64_t own = xt_read_dim(views[i], axis);
        if (xt_read_dim(views[i], axis + 1) != whole[axis + 1])
            return xt_reader_refuse(reader, node, "puts tensors of different shapes together");
        for (int k = 0; k + 1 < ndims; k++)
            dims[k] = k == axis ? own * whole[k + 1] : whole[k + (k > axis)];
        whole[axis] += own;
        views[i] = xt_read_reshape(reader, node, views[i], ndims - 1, dims);
        if (!views[i])
            return NULL;
    }
    struct xt_read_view *out = concat(reader, node, views, count, axis);
    return out ? xt_read_reshape(reader, node, out, ndims, whole) : NULL;
}

static struct xt_read_view *join(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *views[], int count, int axis)
{
    if (views[0]->ndims <= 4)
        return concat(reader, node, views, count, axis);
    /* The first and the last axis have nothing on one side; next to the batch all have. */
    bool moves = axis == 0 || axis + 1 == views[0]->ndims;
    for (int i = 0; i < count && moves; i++)
        move_axis(views[i], axis, 1);
    struct xt_read_view *out = concat_groups(reader, node, views, count, moves ? 1 : axis);
    if (out && moves)
        move_axis(out, 1, axis);
    return out;
}

bool xt_read_concat(struct xt_reader *reader, struct xt_read_node *node)
{
    int count = 0;
    struct xt_read_view **views =
        xt_reader_take(reader, (size_t)node->input_count + 1, sizeof *views);
    for (int i = 0; views && i < node->input_count; i++) {
        if (node->inputs[i] && node->inputs[i]->is_empty)
            continue;
        views[count] = xt_read_data(reader, node, i);
        if (!views[count])
            return false;
        if (views[count]->ndims != views[0]->ndims)
            return xt_reader_refuse(reader, node, "puts tensors of %d and %d axes together",
                                    views[0]->ndims, views[count]->ndims);
        count++;
    }
    if (!count)
        return xt_reader_refuse(reader, node, "puts nothing together");
    int axis = xt_read_axis_of(reader, node, xt_read_int(node, "axis", 0), views[0]->ndims);
    return axis >= 0 && xt_read_give(node, join(reader, node, views, count, axis));
}

/* ---- repetition ---- */

/* Whether it gives something for several images of each sample. */
static bool is_of_images(int count, const int64_t dims[])
{
    bool is = false;
    for (int i = 0; i < count; i++)
        is = is || (dims[i] > XT_READ_BATCH && dims[i] % XT_READ_BATCH == 0);
    return is;
}

/* Whether a file for one size of batch calls that length, of the batch or of images of it, so. */
static bool is_fixed_length(const struct xt_reader *reader, int64_t length, int64_t dim)
{
    return length % XT_READ_BATCH == 0 && length / XT_READ_BATCH * reader->fixed_batch == dim;
}

/* Repeats nothing where all readers broadcast. */
bool xt_read_expand(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_value *value = xt_read_input(node, 0);
    double number = 0;
    struct xt_read_view *view = value ? xt_read_view_of(reader, node, value) : NULL;
    int64_t dims[XT_READ_DIMS_MAX];
    int count = view ? xt_read_ints(reader, node, "shape", 1, dims) : 0;
    if (!view)
        return false;
    if (count < view->ndims)
        return xt_reader_refuse(reader, node, "has a shape that is not known while it is read");
    if (is_of_images(count, dims) && xt_read_number(reader, value, &number))
        return xt_read_give_filled(reader, node, (float)number, count, dims);
    view = xt_read_with_axes(reader, view, count);
    bool later = is_broadcast_later(reader, node->outputs[0]);
    for (int i = 0; view && i < count; i++) {
        int64_t own = xt_read_dim(view, i);
        if (dims[i] == 1 || dims[i] == -1 || dims[i] == own || (own == 1 && later) ||
            is_fixed_length(reader, own, dims[i]) ||
            (own == 1 && dims[i] == XT_READ_BATCH && xt_read_repeat_for_batch(view, i)))
            continue;
        if (own != 1 || dims[i] >= XT_READ_BATCH)
            return xt_reader_refuse(reader, node,
                                    "repeats axis %d, of %lld, to another length, or samples", i,
                                    (long long)own);
        const struct xt_axis_map copies = {.kind = XT_MAP_EDGE, .behind = (int)dims[i] - 1};
        view = xt_read_map(reader, node, view, i, &copies);
    }
    return view && xt_read_give(node, view);
}

bool xt_read_tile(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int64_t times[XT_READ_DIMS_MAX];
    int count = view ? xt_read_ints(reader, node, "repeats", 1, times) : 0;
    if (!view)
        return false;
    if (count != view->ndims)
        return xt_reader_refuse(reader, node, "repeats an unknown number of times");
    for (int axis = 0; axis < count && view; axis++) {
        int64_t dim = xt_read_dim(view, axis);
        if (times[axis] == 1 ||
            (times[axis] == XT_READ_BATCH && dim == 1 && xt_read_repeat_for_batch(view, axis)))
            continue;
        if (times[axis] < 1 || times[axis] > XT_READ_NUMBERS_MAX / dim)
            return xt_reader_refuse(reader, node, "repeats an axis of %lld %lld times",
                                    (long long)dim, (long long)times[axis]);
        size_t length = (size_t)(dim * times[axis]);
        double *at = xt_reader_take(reader, length, sizeof *at);
        for (size_t i = 0; at && i < length; i++)
            at[i] = (double)((int64_t)i % dim);
        view = at ? xt_read_pick(reader, node, view, axis, at, length) : NULL;
    }
    return xt_read_give(node, view);
}

/* ---- padding ---- */

bool xt_read_window(struct xt_reader *reader, const struct xt_read_node *node, const char *name,
                    int64_t otherwise, int count, int out[])
{
    int64_t list[XT_READ_DIMS_MAX];
    int given = xt_read_ints(reader, node, name, -1, list);
    if (given != count && given != -1)
        return xt_reader_refuse(reader, node, "has %d %s; %d are supported", given, name, count);
    for (int i = 0; i < count; i++) {
        int64_t number = given < 0 ? otherwise : list[i];
        if (number < 0 || number > 16384 || (given > 0 && number == 0))
            return xt_reader_refuse(reader, node, "has %lld among its %s", (long long)number, name);
        out[i] = (int)number;
    }
    return true;
}

/* As many zeros as make the output ceil(in / stride) long; the odd one lies at the end, or
 * (`lower`) at the beginning. */
static void pad_same(int side, int kernel, int stride, int dilation, bool lower, int *begin,
                     int *end)
{
    int windows = (side + stride - 1) / stride;
    int need = (windows - 1) * stride + (kernel - 1) * dilation + 1 - side;
    need = need < 0 ? 0 : need;
    *begin = lower ? (need + 1) / 2 : need / 2;
    *end = need - *begin;
}

bool xt_read_pads(struct xt_reader *reader, const struct xt_read_node *node, const int sides[2],
                  const int kernel[2], const int stride[2], const int dilation[2], int pad[4])
{
    int64_t list[XT_READ_DIMS_MAX];
    const struct xt_read_text mode = xt_read_string(node, "auto_pad");
    bool lower = strcmp(mode.text, "SAME_LOWER") == 0;
    int count = xt_read_ints(reader, node, "pads", -1, list);
    memset(pad, 0, 4 * sizeof *pad);
    if (lower || strcmp(mode.text, "SAME_UPPER") == 0) {
        for (int i = 0; i < 2; i++)
            pad_same(sides[i], kernel[i], stride[i], dilation[i], lower, &pad[i], &pad[i + 2]);
        return true;
    }
    if (strcmp(mode.text, "VALID") == 0 || count == -1)
        return true;
    if (count != 4 && count != 2)
        return xt_reader_refuse(reader, node, "has %d pads; 4 are supported", count);
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] > 4096)
            return xt_reader_refuse(reader, node, "pads by %lld pixels", (long long)list[i]);
        pad[count == 4 ? i : 1 + 2 * i] = (int)list[i];
    }
    return true;
}
