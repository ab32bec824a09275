/* Concatenation along an axis: each input is copied to its part of the output, and its gradient
 * back. A parameter's tensor, of one sample, is repeated for each sample.
 */
#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

/* ---- the program ---- */

/* The input, expanded to all samples. */
static struct xt_tensor whole(const struct xt_op *op, int i)
{
    struct xt_tensor t = *xt_op_in(op, i);
    t.n = xt_op_out(op, 0)->n;
    return t;
}

static bool is_expanded(const struct xt_op *op, int i)
{
    return xt_op_in(op, i)->n < xt_op_out(op, 0)->n;
}

/* The i-th input's part of the output's layout. */
static struct xt_operand part_of(const struct xt_op *op, int i, const struct xt_buffer *buffer)
{
    enum xt_axis axis = ((const struct xt_concat_op *)op)->axis;
    struct xt_operand part = xt_operand_tensor(xt_op_out(op, 0), buffer);
    int dimension = xt_axis_dimension(axis);
    for (int k = 0; k < i; k++)
        part.offsets[dimension] += xt_axis_size(xt_op_in(op, k), axis);
    part.dims[dimension] = xt_axis_size(xt_op_in(op, i), axis);
    return part;
}

/* Memory for an expanded input, as operands of sums and of copies. */
static struct xt_operand add_room(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                                  int i, struct xt_operand *as_tensor)
{
    struct xt_tensor all = whole(op, i);
    struct xt_operand shape = xt_operand_channels_last(&all, NULL);
    struct xt_operand room = xt_op_room(op, graph, phase, shape.dtype, shape.dims);
    *as_tensor = xt_operand_tensor(&all, room.place.buffer);
    return room;
}

static void add_forward(struct xt_op *op, struct xt_graph *graph, int i)
{
    struct xt_operand part = part_of(op, i, xt_op_out(op, 0)->value);
    struct xt_operand from;
    if (is_expanded(op, i)) {
        const struct xt_tensor *in = xt_op_in(op, i);
        struct xt_operand room = add_room(op, graph, XT_FORWARD, i, &from);
        struct xt_operand sample = xt_operand_channels_last(in, in->value);
        xt_op_expand(op, graph, XT_FORWARD, &sample, &room);
    } else {
        from = xt_op_numbers(op, graph, i);
    }
    xt_program_reorder(&op->program, XT_FORWARD, &from, &part);
}

static void add_backward(struct xt_op *op, struct xt_graph *graph, int i)
{
    const struct xt_tensor *in = xt_op_in(op, i);
    struct xt_operand part = part_of(op, i, xt_op_out(op, 0)->grad[0]);
    struct xt_operand to = xt_operand_tensor(in, xt_op_in_grad(op, i));
    if (!is_expanded(op, i)) {
        xt_program_reorder(&op->program, XT_BACKWARD, &part, &to);
        return;
    }
    struct xt_operand room = add_room(op, graph, XT_BACKWARD, i, &to);
    struct xt_operand sums = xt_operand_channels_last(in, xt_op_in_grad(op, i));
    xt_program_reorder(&op->program, XT_BACKWARD, &part, &to);
    xt_op_sum(op, graph, XT_BACKWARD, &room, &sums);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    xt_graph_use(op, graph, 0, 0);
    for (int i = 0; i < op->input_count; i++)
        add_forward(op, graph, i);
    for (int i = 0; i < op->input_count && xt_op_learns(op, graph); i++)
        if (xt_op_in(op, i)->wants_grad)
            add_backward(op, graph, i);
}

/* ---- in double precision ---- */

/* Each element of the i-th input in the output, forward or backward. */
static void copy(struct xt_reference_op *reference, int i, int first, bool backward)
{
    const struct xt_op *op = reference->op;
    const struct xt_concat_op *concat = (const struct xt_concat_op *)op;
    const struct xt_tensor *in = xt_op_in(op, i);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_reference_shape from = {in->n, in->h, in->w, in->c};
    const struct xt_reference_shape to = {out->n, out->h, out->w, out->c};
    int move[XT_AXES] = {0};
    move[concat->axis] = first;
    for (int n = 0; n < out->n; n++)
        for (int y = 0; y < in->h; y++)
            for (int x = 0; x < in->w; x++)
                for (int k = 0; k < in->c; k++) {
                    size_t here = xt_reference_at(&from, in->n == 1 ? 0 : n, y, x, k);
                    size_t there = xt_reference_at(&to, n, y + move[XT_AXIS_H], x + move[XT_AXIS_W],
                                                   k + move[XT_AXIS_C]);
                    if (backward)
                        reference->in_grad[i][here] += reference->out_grad[0][there];
                    else
                        reference->out[0][there] = reference->in[i][here];
                }
}

static enum xt_status copy_all(struct xt_reference_op *reference, bool backward)
{
    int first = 0;
    for (int i = 0; i < reference->op->input_count; i++) {
        copy(reference, i, first, backward);
        first += xt_axis_size(xt_op_in(reference->op, i),
                              ((const struct xt_concat_op *)reference->op)->axis);
    }
    return XT_OK;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    return copy_all(reference, false);
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    return copy_all(reference, true);
}

const struct xt_op_kind xt_kind_concat = {
    .name = "concatenation",
    .size = sizeof(struct xt_concat_op),
    .describe = describe,
    .what = {xt_what_change, xt_what_change},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .roundings = 1,
                  .terms_summed = 4},
};

/* Whether all axes but the given one equal the first input's. */
static bool fits(const struct xt_tensor *first, const struct xt_tensor *t, enum xt_axis axis)
{
    for (int i = 0; i < XT_AXES; i++)
        if (i != (int)axis &&
            xt_axis_size(t, (enum xt_axis)i) != xt_axis_size(first, (enum xt_axis)i))
            return false;
    return true;
}

struct xt_tensor *xt_graph_concat(struct xt_graph *graph, struct xt_tensor *const *in, int count,
                                  enum xt_axis axis, const char *name)
{
    struct xt_concat_op *concat = xt_graph_add_op(graph, &xt_kind_concat, name);
    int shape[XT_AXES] = {0};
    int n = 1;
    int length = 0;
    for (int i = 0; i < count; i++) {
        if (!concat || !xt_op_read(&concat->op, graph, in[i]))
            return NULL;
        if (!fits(in[0], in[i], axis))
            return xt_graph_refuse(graph, XT_ERR_USAGE,
                                   "%s: %s of %dx%dx%d cannot be appended to %s of %dx%dx%d", name,
                                   in[i]->name, in[i]->h, in[i]->w, in[i]->c, in[0]->name, in[0]->h,
                                   in[0]->w, in[0]->c);
        n = in[i]->n > n ? in[i]->n : n;
        length += xt_axis_size(in[i], axis);
    }
    if (!concat || !count)
        return xt_graph_refuse(graph, XT_ERR_USAGE, "%s: no tensors to concatenate", name);
    concat->axis = axis;
    for (int i = 0; i < XT_AXES; i++)
        shape[i] = i == (int)axis ? length : xt_axis_size(in[0], (enum xt_axis)i);
    struct xt_tensor *out =
        xt_op_write(&concat->op, graph, name, n, shape[XT_AXIS_H], shape[XT_AXIS_W],
                    shape[XT_AXIS_C], xt_op_numbers_type(graph, in[0]));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = true;
    for (int i = 0; i < count; i++)
        out->above_0 = out->above_0 && in[i]->above_0;
    return out;
}
