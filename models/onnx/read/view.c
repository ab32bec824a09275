/* Views: which axis of ONNX is which part of a net's value. A transpose or reshape only changes the
 * view; nodes are added once an operation needs its input to lie otherwise than it does. */
#include <string.h>

#include "models/onnx/read/reader.h"

int64_t xt_read_dim(const struct xt_read_view *view, int axis)
{
    int64_t dim = 1;
    for (int i = 0; i < view->axes[axis].count; i++)
        dim *= view->factors[view->axes[axis].factors[i]].size;
    return dim;
}

static int64_t side(const struct xt_value *value, int home)
{
    if (home == XT_READ_N)
        return XT_READ_BATCH;
    return home == XT_AXIS_H ? value->h : home == XT_AXIS_W ? value->w : value->c;
}

/* A new factor, inner to all of its axis so far. */
static bool add_factor(struct xt_read_view *view, int axis, int64_t size, int home)
{
    struct xt_read_axis *at = &view->axes[axis];
    if (size == 1)
        return true;
    if (view->factor_count == XT_READ_FACTORS_MAX)
        return false;
    view->factors[view->factor_count] = (struct xt_read_factor){size, home};
    at->factors[at->count++] = view->factor_count++;
    return true;
}

struct xt_read_view *xt_read_copy(struct xt_reader *reader, const struct xt_read_view *view)
{
    struct xt_read_view *out = xt_reader_take(reader, 1, sizeof *out);
    if (out)
        *out = *view;
    return out;
}

struct xt_read_view *xt_read_with_axes(struct xt_reader *reader, const struct xt_read_view *view,
                                       int ndims)
{
    struct xt_read_view *out = xt_read_copy(reader, view);
    int more = ndims - view->ndims;
    for (int i = ndims - 1; out && i >= 0; i--)
        out->axes[i] = i < more ? (struct xt_read_axis){0} : view->axes[i - more];
    if (out)
        out->ndims = ndims;
    return out;
}

/* Puts the factors into the value's order; axes still name the same ones. */
static void order_factors(struct xt_read_view *view)
{
    static const int homes[] = {XT_READ_N, XT_AXIS_H, XT_AXIS_W, XT_AXIS_C};
    struct xt_read_factor sorted[XT_READ_FACTORS_MAX];
    int place[XT_READ_FACTORS_MAX];
    int count = 0;
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < view->factor_count; i++)
            if (view->factors[i].home == homes[h]) {
                place[i] = count;
                sorted[count++] = view->factors[i];
            }
    memcpy(view->factors, sorted, sizeof sorted);
    for (int axis = 0; axis < view->ndims; axis++)
        for (int i = 0; i < view->axes[axis].count; i++)
            view->axes[axis].factors[i] = place[view->axes[axis].factors[i]];
}

struct xt_read_view *xt_read_view(struct xt_reader *reader, struct xt_value *value, int ndims,
                                  const int homes[])
{
    struct xt_read_view *view = value ? xt_reader_take(reader, 1, sizeof *view) : NULL;
    if (!view)
        return NULL;
    view->value = value;
    view->ndims = ndims;
    view->scale = 1;
    for (int i = 0; i < ndims; i++)
        if (homes[i] != XT_READ_NONE)
            add_factor(view, i, side(value, homes[i]), homes[i]);
    order_factors(view);
    return view;
}

/* ---- factors ---- */

/* Takes the factor out: another one has its elements, or there is one of it. */
static void drop_factor(struct xt_read_view *view, int factor)
{
    for (int axis = 0; axis < view->ndims; axis++) {
        struct xt_read_axis *at = &view->axes[axis];
        int count = 0;
        for (int i = 0; i < at->count; i++) {
            int own = at->factors[i];
            if (own == factor)
                continue;
            at->factors[count++] = own > factor ? own - 1 : own;
        }
        at->count = count;
    }
    view->factor_count--;
    memmove(view->factors + factor, view->factors + factor + 1,
            (size_t)(view->factor_count - factor) * sizeof *view->factors);
}

/* Factors that lie behind each other in the value and in an axis become one. */
static void merge_factors(struct xt_read_view *view)
{
    for (int axis = 0; axis < view->ndims; axis++)
        for (int i = 0; i + 1 < view->axes[axis].count;) {
            int a = view->axes[axis].factors[i];
            int b = view->axes[axis].factors[i + 1];
            bool joined = b == a + 1 && view->factors[a].home == view->factors[b].home &&
                          view->factors[a].home != XT_READ_N;
            if (!joined) {
                i++;
                continue;
            }
            view->factors[a].size *= view->factors[b].size;
            drop_factor(view, b);
        }
}

/* Splits a factor into `outer` times the rest, which follows it in its axis. */
static bool split_factor(struct xt_read_view *view, int factor, int64_t outer)
{
    if (view->factor_count == XT_READ_FACTORS_MAX)
        return false;
    memmove(view->factors + factor + 1, view->factors + factor,
            (size_t)(view->factor_count - factor) * sizeof *view->factors);
    view->factor_count++;
    view->factors[factor].size = outer;
    view->factors[factor + 1].size /= outer;
    for (int axis = 0; axis < view->ndims; axis++) {
        struct xt_read_axis *at = &view->axes[axis];
        for (int i = 0; i < at->count; i++) {
            if (at->factors[i] < factor)
                continue;
            if (at->factors[i] > factor) {
                at->factors[i]++;
                continue;
            }
            memmove(at->factors + i + 1, at->factors + i,
                    (size_t)(at->count - i) * sizeof *at->factors);
            at->count++;
            at->factors[++i] = factor + 1;
        }
    }
    return true;
}

/* ---- laying out ---- */

/* Blocks of elements in the order in which they lie, each with its place in the order that is
 * wanted. */
struct order {
    int count;
    int place[XT_READ_FACTORS_MAX];
    int64_t size[XT_READ_FACTORS_MAX]; /* by place */
};

/* One transpose: the order cut into three, which are put together otherwise. */
struct move {
    int cut[2];
    int from[3];
};

static int64_t size_of(const struct order *order, int begin, int end)
{
    int64_t size = 1;
    for (int i = begin; i < end; i++)
        size *= order->size[order->place[i]];
    return size;
}

static void apply(struct order *order, const struct move *move)
{
    const int begin[] = {0, move->cut[0], move->cut[1]};
    const int end[] = {move->cut[0], move->cut[1], order->count};
    struct order before = *order;
    int at = 0;
    for (int part = 0; part < 3; part++)
        for (int i = begin[move->from[part]]; i < end[move->from[part]]; i++)
            order->place[at++] = before.place[i];
}

static bool is_sorted(const struct order *order)
{
    for (int i = 0; i < order->count; i++)
        if (order->place[i] != i)
            return false;
    return true;
}

/* The fewest moves that sort; -1: more than `depth`. */
static int find_moves(const struct order *order, int depth, struct move moves[])
{
    static const int ways[][3] = {{1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    if (is_sorted(order))
        return 0;
    if (depth == 0)
        return -1;
    for (int a = 1; a < order->count; a++)
        for (int b = a; b <= order->count; b++)
            for (int way = 0; way < 5; way++) {
                struct order next = *order;
                moves[0] = (struct move){{a, b}, {ways[way][0], ways[way][1], ways[way][2]}};
                apply(&next, &moves[0]);
                int more = find_moves(&next, depth - 1, moves + 1);
                if (more >= 0)
                    return more + 1;
            }
    return -1;
}

static struct xt_value *shaped(struct xt_reader *reader, struct xt_value *value, int64_t h,
                               int64_t w, int64_t c)
{
    struct xt_net_reshape shape = {(int)h, (int)w, (int)c};
    if (value && value->h == h && value->w == w && value->c == c)
        return value;
    return xt_net_reshape(reader->net, value, &shape, NULL);
}

/* Of the first place that is wrong, its block and all behind that; sorts in as many moves as there
 * are blocks. */
static struct move next_move(const struct order *order)
{
    int first = 0;
    int at = 0;
    while (order->place[first] == first)
        first++;
    while (order->place[at] != first)
        at++;
    return first ? (struct move){{first, at}, {0, 2, 1}}
                 : (struct move){{at, order->count}, {1, 0, 2}};
}

static struct xt_value *apply_to(struct xt_reader *reader, struct xt_value *value,
                                 struct order *order, const struct move *move)
{
    enum xt_axis from[] = {(enum xt_axis)move->from[0], (enum xt_axis)move->from[1],
                           (enum xt_axis)move->from[2]};
    value = shaped(reader, value, size_of(order, 0, move->cut[0]),
                   size_of(order, move->cut[0], move->cut[1]),
                   size_of(order, move->cut[1], order->count));
    apply(order, move);
    return xt_net_transpose(reader->net, value, from, NULL);
}

static struct xt_value *move_blocks(struct xt_reader *reader, struct xt_value *value,
                                    struct order order)
{
    enum { MOVES_MAX = 3, SEARCHED_MAX = 6 }; /* more are searched in fewer moves: it takes long */
    struct move moves[MOVES_MAX + 1];
    int most = order.count > SEARCHED_MAX ? MOVES_MAX - 1 : MOVES_MAX;
    int count = -1;
    while (count < 0 && !xt_reader_fails(reader)) {
        for (int depth = 0; depth <= most && count < 0; depth++)
            count = find_moves(&order, depth, moves);
        if (count < 0) {
            moves[0] = next_move(&order);
            value = apply_to(reader, value, &order, &moves[0]);
        }
    }
    for (int i = 0; i < count; i++)
        value = apply_to(reader, value, &order, &moves[i]);
    return value;
}

/* The factors but the batch's, as they are wanted: by home, then by axis. */
static int wanted_order(const struct xt_read_view *view, const int homes[], int out[],
                        int64_t sides[XT_AXES])
{
    int count = 0;
    for (int home = 0; home < XT_AXES; home++) {
        sides[home] = 1;
        for (int axis = 0; axis < view->ndims; axis++)
            for (int i = 0; homes[axis] == home && i < view->axes[axis].count; i++) {
                int factor = view->axes[axis].factors[i];
                if (view->factors[factor].home == XT_READ_N)
                    continue;
                sides[home] *= view->factors[factor].size;
                out[count++] = factor;
            }
    }
    return count;
}

/* Neighbours in both orders become one block. */
static struct order order_of(const struct xt_read_view *view, const int wanted[], int count)
{
    struct order order = {0};
    int block[XT_READ_FACTORS_MAX] = {0};
    for (int i = 0; i < count; i++) {
        bool joins = i > 0 && wanted[i] == wanted[i - 1] + 1;
        block[wanted[i]] = joins ? order.count - 1 : order.count;
        if (!joins)
            order.size[order.count++] = 1;
        order.size[order.count - 1] *= view->factors[wanted[i]].size;
    }
    int at = 0;
    for (int i = 0; i < view->factor_count; i++) {
        if (view->factors[i].home == XT_READ_N)
            continue;
        if (at == 0 || order.place[at - 1] != block[i])
            order.place[at++] = block[i];
    }
    return order;
}

/* The channels as [groups][c / groups], swapped: how many groups; 0: it is something else. */
static int64_t shuffled(const struct order *order, const struct xt_value *value)
{
    int last = order->count - 1;
    for (int i = 0; i < last - 1; i++)
        if (order->place[i] != i)
            return 0;
    bool swaps = last > 0 && order->place[last] == last - 1 && order->place[last - 1] == last;
    return swaps && order->size[last] * order->size[last - 1] == value->c ? order->size[last] : 0;
}

static bool is_flatten(const struct order *order, const struct xt_value *value,
                       const int64_t sides[XT_AXES])
{
    return sides[XT_AXIS_H] == 1 && sides[XT_AXIS_W] == 1 && order->count == 2 &&
           order->place[0] == 1 && order->size[0] == value->c;
}

static struct xt_value *rearrange(struct xt_reader *reader, struct xt_value *value,
                                  const struct order *order, const int64_t sides[XT_AXES])
{
    int64_t groups = shuffled(order, value);
    if (groups && value->h == sides[XT_AXIS_H] && value->w == sides[XT_AXIS_W])
        return xt_net_channel_shuffle(reader->net, value, (int)groups, NULL);
    if (is_flatten(order, value, sides))
        return xt_net_flatten(reader->net, value, NULL);
    value = move_blocks(reader, value, *order);
    return value ? shaped(reader, value, sides[XT_AXIS_H], sides[XT_AXIS_W], sides[XT_AXIS_C])
                 : NULL;
}

struct xt_value *xt_read_settle(struct xt_reader *reader, const struct xt_read_node *node,
                                struct xt_read_view *view)
{
    const struct xt_activation scale = {.kind = XT_ACT_LINEAR, .alpha = (float)view->scale};
    if (view->pad[0] || view->pad[1] || view->pad[2] || view->pad[3])
        return xt_reader_refuse(reader, node,
                                "pads what a Pad has padded already; one of the two can");
    if (view->scale != 1)
        view->value = xt_net_activation(reader->net, view->value, scale, NULL);
    view->scale = 1;
    return view->value;
}

/* Whether all that lies in the value is wanted somewhere. */
static bool order_is_whole(const struct xt_read_view *view, int wanted)
{
    for (int i = 0; i < view->factor_count; i++)
        wanted -= view->factors[i].home != XT_READ_N;
    return wanted == 0;
}

struct xt_value *xt_read_lay_out(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, const int homes[])
{
    int wanted[XT_READ_FACTORS_MAX] = {0};
    int64_t sides[XT_AXES];
    merge_factors(view);
    int count = wanted_order(view, homes, wanted, sides);
    struct order order = order_of(view, wanted, count);
    for (int i = 0; i < XT_AXES; i++)
        if (sides[i] > INT32_MAX)
            return NULL;
    struct xt_value *value = xt_read_settle(reader, node, view);
    value = value && order_is_whole(view, count) ? rearrange(reader, value, &order, sides) : NULL;
    if (!value)
        return xt_reader_refuse(
            reader, node,
            "reads its input in an order of elements that cannot be made here: an axis of the "
            "images lies within the batch, or is no longer there");
    struct xt_read_view *after =
        value == view->value ? NULL : xt_read_after(reader, node, view, NULL, homes, value);
    if (after)
        *view = *after;
    return xt_reader_fails(reader) ? NULL : value;
}

/* The view that an axis is taken from: the one in which it is longer. */
static const struct xt_read_view *source(const struct xt_read_view *view,
                                         const struct xt_read_view *other, int axis)
{
    return other && xt_read_dim(view, axis) < xt_read_dim(other, axis) ? other : view;
}

/* What lies in one home: elements of a sample, factors, and the first axis. */
struct home {
    int64_t product;
    int parts, first;
};

static struct home home_of(const struct xt_read_view *view, const struct xt_read_view *other,
                           const int homes[], int home)
{
    struct home out = {1, 0, -1};
    for (int axis = 0; axis < view->ndims; axis++) {
        const struct xt_read_view *from = source(view, other, axis);
        if (homes[axis] != home)
            continue;
        out.first = out.first < 0 ? axis : out.first;
        for (int i = 0; i < from->axes[axis].count; i++) {
            const struct xt_read_factor *factor = &from->factors[from->axes[axis].factors[i]];
            bool is_batch = factor->home == XT_READ_N;
            out.product *= is_batch ? 1 : factor->size;
            out.parts += !is_batch;
        }
    }
    return out;
}

/* The axis's factors; a length of 0: as they are, else the one that is not the batch is as long. */
static bool add_axis(struct xt_read_view *out, const struct xt_read_view *from, int axis, int home,
                     int64_t length)
{
    bool added = length == 0;
    for (int i = 0; i < from->axes[axis].count; i++) {
        const struct xt_read_factor *factor = &from->factors[from->axes[axis].factors[i]];
        bool is_batch = factor->home == XT_READ_N;
        int64_t size = is_batch || length == 0 ? factor->size : length;
        added = added || !is_batch;
        if (!add_factor(out, axis, size, is_batch ? XT_READ_N : home))
            return false;
    }
    return added || add_factor(out, axis, length, home);
}

struct xt_read_view *xt_read_after(struct xt_reader *reader, const struct xt_read_node *node,
                                   const struct xt_read_view *view,
                                   const struct xt_read_view *other, const int homes[],
                                   struct xt_value *value)
{
    struct xt_read_view *out = value ? xt_reader_take(reader, 1, sizeof *out) : NULL;
    if (!out)
        return NULL;
    *out = (struct xt_read_view){.value = value, .ndims = view->ndims, .scale = 1};
    bool fits = true;
    for (int axis = 0; axis < view->ndims && fits; axis++) {
        const struct xt_read_view *from = source(view, other, axis);
        if (homes[axis] >= XT_AXES) {
            fits = add_axis(out, from, axis, homes[axis], 0);
            continue;
        }
        struct home home = home_of(view, other, homes, homes[axis]);
        int64_t length = side(value, homes[axis]);
        bool same = home.product == length;
        /* An axis of length 1 grows where it is the home's first; of a home of length 1 all have
         * it. */
        bool grows = !same && (home.parts > 0 ? from->axes[axis].count > 0 : axis == home.first);
        fits = (same || home.parts <= 1 || length == 1) &&
               add_axis(out, from, axis, homes[axis], grows ? length : 0);
    }
    if (!fits)
        return xt_reader_refuse(reader, node,
                                "changes its axes in a way that cannot be followed here");
    order_factors(out);
    merge_factors(out);
    return out;
}

bool xt_read_homes(const struct xt_read_view *view, int homes[])
{
    for (int axis = 0; axis < view->ndims; axis++) {
        homes[axis] = XT_READ_NONE;
        for (int i = 0; i < view->axes[axis].count; i++) {
            int home = view->factors[view->axes[axis].factors[i]].home;
            bool first = homes[axis] == XT_READ_NONE || homes[axis] == XT_READ_N;
            if (!first && home != XT_READ_N && home != homes[axis] &&
                (home == XT_AXIS_C || homes[axis] == XT_AXIS_C))
                return false;
            /* An image's pixels as a row. */
            if (first || (home != XT_READ_N && home != homes[axis]))
                homes[axis] = first ? home : XT_AXIS_W;
        }
    }
    return true;
}

/* ---- repetition ---- */

static int axis_of(const struct xt_read_view *view, int factor)
{
    for (int axis = 0; axis < view->ndims; axis++)
        for (int i = 0; i < view->axes[axis].count; i++)
            if (view->axes[axis].factors[i] == factor)
                return axis;
    return -1;
}

/* Where the axis's own factor would stand among those of a view that was laid out so. */
static int place_of(const struct xt_read_view *view, const int homes[], int axis)
{
    int place = 0;
    while (place < view->factor_count) {
        int home = view->factors[place].home;
        bool before = home == XT_READ_N || home < homes[axis] ||
                      (home == homes[axis] && axis_of(view, place) < axis);
        if (!before)
            break;
        place++;
    }
    return place;
}

struct xt_read_view *xt_read_spread(struct xt_reader *reader, const struct xt_read_node *node,
                                    struct xt_read_view *view, const int homes[], int axis,
                                    int64_t times)
{
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    struct xt_read_view *out = value ? xt_read_copy(reader, view) : NULL;
    int64_t outer = 1;
    int64_t inner = 1;
    if (!out)
        return NULL;
    if (out->factor_count == XT_READ_FACTORS_MAX)
        return xt_reader_refuse(reader, node, "has too many axes");
    int place = place_of(out, homes, axis);
    for (int i = 0; i < out->factor_count; i++)
        if (out->factors[i].home != XT_READ_N)
            *(i < place ? &outer : &inner) *= out->factors[i].size;
    int64_t sides[] = {value->h, value->w, value->c};
    sides[homes[axis]] *= times;
    const struct xt_net_axis_map copies = {.axis = XT_AXIS_W,
                                           .map = {.kind = XT_MAP_EDGE, .behind = (int)times - 1}};
    value = shaped(reader, value, outer, 1, inner);
    value = value ? xt_net_axis_map(reader->net, value, &copies) : NULL;
    out->value = shaped(reader, value, sides[XT_AXIS_H], sides[XT_AXIS_W], sides[XT_AXIS_C]);
    memmove(out->factors + place + 1, out->factors + place,
            (size_t)(out->factor_count - place) * sizeof *out->factors);
    out->factor_count++;
    out->factors[place] = (struct xt_read_factor){times, homes[axis]};
    for (int k = 0; k < out->ndims; k++)
        for (int i = 0; i < out->axes[k].count; i++)
            out->axes[k].factors[i] += out->axes[k].factors[i] >= place;
    out->axes[axis] = (struct xt_read_axis){1, {place}};
    return out->value ? out : NULL;
}

/* ---- reshape and slices ---- */

/* The same elements in all, cut into axes otherwise; false where a cut falls into the middle of
 * something. */
static bool regroup(struct xt_read_view *view, int ndims, const int64_t dims[])
{
    struct xt_read_axis all = {0};
    for (int axis = 0; axis < view->ndims; axis++)
        for (int i = 0; i < view->axes[axis].count; i++)
            all.factors[all.count++] = view->axes[axis].factors[i];
    view->ndims = 1;
    view->axes[0] = all;
    merge_factors(view);
    int at = 0;
    struct xt_read_axis axes[XT_READ_DIMS_MAX] = {0};
    for (int i = 0; i < ndims; i++) {
        for (int64_t left = dims[i]; left > 1; at++) {
            if (at == view->axes[0].count)
                return false;
            int factor = view->axes[0].factors[at];
            int64_t size = view->factors[factor].size;
            if (left % size != 0) {
                if (size % left != 0 || view->factors[factor].home == XT_READ_N ||
                    !split_factor(view, factor, left))
                    return false;
                /* Factors behind the split one have other numbers now. */
                for (int k = 0; k <= i; k++)
                    for (int j = 0; j < axes[k].count; j++)
                        axes[k].factors[j] += axes[k].factors[j] > factor;
                size = left;
            }
            axes[i].factors[axes[i].count++] = view->axes[0].factors[at];
            left /= size;
        }
    }
    if (at != view->axes[0].count)
        return false;
    view->ndims = ndims;
    memcpy(view->axes, axes, sizeof axes);
    return true;
}

struct xt_read_view *xt_read_reshape(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *view, int ndims, const int64_t dims[])
{
    struct xt_read_view *out = xt_read_copy(reader, view);
    if (!out || regroup(out, ndims, dims))
        return out;
    /* All in one row first, which can be cut anywhere. */
    int homes[XT_READ_DIMS_MAX] = {0};
    for (int i = 0; i < XT_READ_DIMS_MAX; i++)
        homes[i] = XT_AXIS_C;
    *out = *view;
    if (!xt_read_lay_out(reader, node, out, homes))
        return NULL;
    if (regroup(out, ndims, dims))
        return out;
    xt_reader_refuse(reader, node, "cuts its input's axes where they cannot be cut here");
    return NULL;
}

/* The factor, where the axis is that alone; -1 else. */
static int only_factor(const struct xt_read_view *view, int axis)
{
    return view->axes[axis].count == 1 ? view->axes[axis].factors[0] : -1;
}

/* What a slice along a factor is of the value's axis that it lies in; false: no slice. */
static bool slice_of(const struct xt_read_view *view, int factor, int64_t start, int64_t step,
                     int64_t count, struct xt_net_slice *out)
{
    int64_t outer = 1;
    int64_t inner = 1;
    const struct xt_read_factor *own = &view->factors[factor];
    for (int i = 0; i < view->factor_count; i++)
        if (view->factors[i].home == own->home && i != factor)
            *(i < factor ? &outer : &inner) *= view->factors[i].size;
    out->axis = (enum xt_axis)own->home;
    out->step = 1;
    if (outer == 1 && (inner == 1 || step == 1 || count == 1)) {
        out->start = (int)(start * inner);
        out->count = (int)(count * inner);
        out->step = (int)(inner == 1 ? step : 1);
        return true;
    }
    out->start = (int)start;
    out->count = (int)outer;
    out->step = (int)own->size;
    return inner == 1 && count == 1;
}

struct xt_read_view *xt_read_take(struct xt_reader *reader, const struct xt_read_node *node,
                                  struct xt_read_view *view, int axis, int64_t start, int64_t step,
                                  int64_t count)
{
    struct xt_net_slice slice = {0};
    int homes[XT_READ_DIMS_MAX] = {0};
    int64_t dim = xt_read_dim(view, axis);
    if (start < 0 || step < 1 || count < 1 || start >= dim ||
        (count - 1) > (dim - 1 - start) / step)
        return xt_reader_refuse(reader, node, "takes a part outside its input");
    struct xt_read_view *out = xt_read_copy(reader, view);
    if (!out || count == dim)
        return out;
    merge_factors(out);
    int factor = only_factor(out, axis);
    if (factor < 0 || !slice_of(out, factor, start, step, count, &slice)) {
        for (int i = 0; i < out->ndims; i++)
            homes[i] = i < axis ? XT_AXIS_H : i == axis ? XT_AXIS_W : XT_AXIS_C;
        if (!xt_read_lay_out(reader, node, out, homes))
            return NULL;
        factor = only_factor(out, axis);
    }
    if (factor < 0 || out->factors[factor].home == XT_READ_N ||
        !slice_of(out, factor, start, step, count, &slice))
        return xt_reader_refuse(reader, node, "takes a part of the batch");
    out->value = xt_net_slice(reader->net, out->value, &slice);
    out->factors[factor].size = count;
    if (count == 1)
        drop_factor(out, factor);
    return out->value ? out : NULL;
}
