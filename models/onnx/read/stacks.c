/* Images of which each sample has several: windows, patches, the glyphs of a plate, [n *
 * count][c][h][w]. They lie below one another as one image of the sample, with so much padding
 * between them that no kernel reads two; of its output the rows of each are picked. */
#include "models/onnx/read/ops.h"

int xt_read_stack_of(const struct xt_read_view *view)
{
    int64_t count = view->ndims == 4 && xt_read_dim(view, 0) % XT_READ_BATCH == 0
                        ? xt_read_dim(view, 0) / XT_READ_BATCH
                        : 1;
    return count < INT16_MAX ? (int)count : 1;
}

/* The view's axes in this order. */
static struct xt_read_view *turned(struct xt_reader *reader, struct xt_read_view *view,
                                   const int from[])
{
    struct xt_read_view *out = view ? xt_read_copy(reader, view) : NULL;
    for (int i = 0; out && i < view->ndims; i++)
        out->axes[i] = view->axes[from[i]];
    return out;
}

/* [n * count][c][h][w] becomes [n][c][count * period][w]. */
struct xt_read_view *xt_read_below_one_another(struct xt_reader *reader,
                                               const struct xt_read_node *node,
                                               struct xt_read_view *view, struct xt_read_stack *out,
                                               const struct xt_read_rows *rows, float fill)
{
    static const int rows_outside[] = {0, 1, 3, 4, 2};
    static const int channels_outside[] = {0, 3, 1, 2};
    int height = (int)xt_read_dim(view, 2);
    int padded = height + rows->before + rows->behind;
    int reach = (rows->kernel - 1) * rows->dilation + 1;
    int more = (rows->stride - padded % rows->stride) % rows->stride;
    struct xt_axis_map around = {.kind = XT_MAP_CONSTANT,
                                 .before = rows->before,
                                 .behind = rows->behind + more,
                                 .fill = fill};
    const int64_t apart[] = {XT_READ_BATCH, out->count, xt_read_dim(view, 1), height,
                             xt_read_dim(view, 3)};
    const int64_t joined[] = {XT_READ_BATCH, (int64_t)out->count * (padded + more),
                              xt_read_dim(view, 3), xt_read_dim(view, 1)};
    if (reach > padded)
        return xt_reader_refuse(reader, node, "has a kernel that is larger than the image");
    out->period = (padded + more) / rows->stride;
    out->rows = (padded - reach) / rows->stride + 1;
    view = turned(reader, xt_read_reshape(reader, node, view, 5, apart), rows_outside);
    if (view && (around.before || around.behind))
        view = xt_read_map(reader, node, view, 2, &around);
    view = view ? xt_read_reshape(reader, node, view, 4, joined) : NULL;
    return turned(reader, view, channels_outside);
}

/* The other way round, of what a kernel made of it. */
struct xt_read_view *xt_read_as_stack(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *view, const struct xt_read_stack *stack)
{
    static const int channels_inside[] = {0, 2, 3, 1};
    static const int channels_outside[] = {0, 1, 4, 2, 3};
    size_t count = (size_t)stack->count * (size_t)stack->rows;
    double *at = view ? xt_reader_take(reader, count, sizeof *at) : NULL;
    if (!at)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t row = i / (size_t)stack->rows * (size_t)stack->period + i % (size_t)stack->rows;
        at[i] = (double)row;
    }
    const int64_t apart[] = {XT_READ_BATCH, stack->count, stack->rows, xt_read_dim(view, 3),
                             xt_read_dim(view, 1)};
    const int64_t joined[] = {XT_READ_BATCH * stack->count, xt_read_dim(view, 1), stack->rows,
                              xt_read_dim(view, 3)};
    view = xt_read_pick(reader, node, turned(reader, view, channels_inside), 1, at, count);
    view = view ? xt_read_reshape(reader, node, view, 5, apart) : NULL;
    view = turned(reader, view, channels_outside);
    return view ? xt_read_reshape(reader, node, view, 4, joined) : NULL;
}
