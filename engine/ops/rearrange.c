/* Ops that move or convert elements: slices, channel shuffles, transpositions, reshapes, casts.
 * Each is a copy between two layouts of the same dimensions; the gradient is copied back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

/* ---- the program ---- */

/* Views of the same elements in the input and in the output; strides are still to be set. */
struct layouts {
    struct xt_operand in, out;
};

/* A strided axis becomes two: [.. / step][step]. */
static struct layouts slice_of(const struct xt_rearrange_op *slice)
{
    struct layouts l = {xt_operand_tensor(xt_op_in(&slice->op, 0), NULL),
                        xt_operand_tensor(xt_op_out(&slice->op, 0), NULL)};
    int axis = xt_axis_dimension(slice->axis);
    int last = l.in.ndims++;
    l.out.ndims++;
    l.in.dims[axis] = l.out.dims[axis];
    l.in.offsets[axis] = slice->start / slice->step;
    l.in.strides[last] = l.in.strides[axis];
    l.in.strides[axis] *= slice->step;
    l.in.dims[last] = l.out.dims[last] = 1;
    l.in.offsets[last] = slice->start % slice->step;
    l.out.strides[last] = 1;
    return l;
}

/* [pixels][groups][c / groups] */
static struct layouts shuffle_of(const struct xt_rearrange_op *shuffle)
{
    const struct xt_tensor *t = xt_op_in(&shuffle->op, 0);
    int64_t each = t->c / shuffle->groups;
    struct xt_operand in =
        xt_operand_dense((struct xt_location){.buffer = NULL}, xt_dtype_dnnl(t->dtype), 3,
                         (int64_t[]){(int64_t)t->n * t->h * t->w, shuffle->groups, each});
    struct xt_operand out = in;
    out.strides[1] = 1;
    out.strides[2] = shuffle->groups;
    return (struct layouts){in, out};
}

static struct layouts transpose_of(const struct xt_rearrange_op *transpose)
{
    struct xt_operand in = xt_operand_tensor(xt_op_in(&transpose->op, 0), NULL);
    struct layouts l = {in, xt_operand_tensor(xt_op_out(&transpose->op, 0), NULL)};
    for (int i = 0; i < XT_AXES; i++) {
        int to = xt_axis_dimension((enum xt_axis)i);
        int from = xt_axis_dimension(transpose->from[i]);
        l.in.dims[to] = in.dims[from];
        l.in.strides[to] = in.strides[from];
    }
    return l;
}

static struct layouts layouts_of(const struct xt_op *op)
{
    const struct xt_rearrange_op *rearrange = (const struct xt_rearrange_op *)op;
    if (op->kind == &xt_kind_slice)
        return slice_of(rearrange);
    if (op->kind == &xt_kind_shuffle)
        return shuffle_of(rearrange);
    return transpose_of(rearrange);
}

static void add_copy(struct xt_op *op, enum xt_phase phase, struct xt_operand from,
                     const struct xt_buffer *from_buffer, struct xt_operand to,
                     const struct xt_buffer *to_buffer)
{
    from.place = xt_in_buffer(from_buffer);
    to.place = xt_in_buffer(to_buffer);
    xt_program_reorder(&op->program, phase, &from, &to);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct layouts l = layouts_of(op);
    xt_graph_use(op, graph, 0, 0);
    add_copy(op, XT_FORWARD, l.in, in->value, l.out, out->value);
    if (!xt_op_learns(op, graph) || !in->wants_grad)
        return;
    struct xt_operand all = xt_operand_tensor(in, xt_op_in_grad(op, 0));
    if (xt_tensor_count(out) < xt_tensor_count(in))
        xt_program_zero(&op->program, XT_BACKWARD, &all);
    add_copy(op, XT_BACKWARD, l.out, out->grad[0], l.in, xt_op_in_grad(op, 0));
}

/* Of dense elements, in their order in memory. */
static struct xt_operand as_row(struct xt_operand of)
{
    size_t count = 1;
    for (int i = 0; i < of.ndims; i++)
        count *= (size_t)of.dims[i];
    struct xt_operand row = xt_operand_matrix(of.place, of.dtype, 1, count);
    row.workers = of.workers;
    row.sample = of.sample;
    return row;
}

/* Forward of the batch or of a slice, from int8 too. */
static void describe_cast(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand from = as_row(xt_op_numbers(op, graph, 0));
    struct xt_operand to = as_row(xt_op_output(op, graph, 0));
    xt_program_reorder(&op->program, XT_FORWARD, &from, &to);
    if (!xt_op_learns(op, graph) || !in->wants_grad)
        return;
    struct xt_operand grad = as_row(xt_operand_tensor(out, out->grad[0]));
    struct xt_operand in_grad = as_row(xt_operand_tensor(in, xt_op_in_grad(op, 0)));
    xt_program_reorder(&op->program, XT_BACKWARD, &grad, &in_grad);
}

/* The output is the input's memory; likewise the gradients. */
static void describe_reshape(struct xt_op *op, struct xt_graph *graph)
{
    xt_graph_use_inputs(op, graph, 0);
    xt_op_out(op, 0)->value = xt_op_in(op, 0)->value;
    if (xt_op_learns(op, graph))
        xt_op_out(op, 0)->grad[0] = xt_op_in_grad(op, 0);
    xt_graph_use_outputs(op, graph, 0);
}

/* ---- in double precision ---- */

/* Index of the input element that is the output's element `index`, both dense. */
static size_t source_of(const struct xt_op *op, size_t index)
{
    const struct xt_rearrange_op *rearrange = (const struct xt_rearrange_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_reference_shape shape = {in->n, in->h, in->w, in->c};
    size_t rest = index;
    int at[XT_AXES], from[XT_AXES];
    at[XT_AXIS_C] = (int)(rest % (size_t)out->c), rest /= (size_t)out->c;
    at[XT_AXIS_W] = (int)(rest % (size_t)out->w), rest /= (size_t)out->w;
    at[XT_AXIS_H] = (int)(rest % (size_t)out->h), rest /= (size_t)out->h;
    memcpy(from, at, sizeof from);
    if (op->kind == &xt_kind_slice) {
        from[rearrange->axis] = rearrange->start + at[rearrange->axis] * rearrange->step;
    } else if (op->kind == &xt_kind_shuffle) {
        int each = in->c / rearrange->groups;
        from[XT_AXIS_C] =
            at[XT_AXIS_C] % rearrange->groups * each + at[XT_AXIS_C] / rearrange->groups;
    } else if (op->kind == &xt_kind_transpose) {
        for (int i = 0; i < XT_AXES; i++)
            from[rearrange->from[i]] = at[i];
    } else {
        return index;
    }
    return xt_reference_at(&shape, (int)rest, from[XT_AXIS_H], from[XT_AXIS_W], from[XT_AXIS_C]);
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++)
        reference->out[0][i] = reference->in[0][source_of(reference->op, i)];
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++)
        reference->in_grad[0][source_of(reference->op, i)] = reference->out_grad[0][i];
    return XT_OK;
}

/* A cast rounds once, to the narrower of the two types; the other ops are exact. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    enum xt_dtype in = xt_op_in(reference->op, 0)->dtype;
    enum xt_dtype out = xt_op_out(reference->op, 0)->dtype;
    (void)part;
    (void)which;
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(in == XT_F32 ? out : in, in != out, 0)};
}

#define KIND(called, described)                                                                    \
    {                                                                                              \
        .name = called, .size = sizeof(struct xt_rearrange_op), .describe = described,             \
        .what = {xt_what_change, xt_what_change}, .reference = {                                   \
            .forward = reference_forward,                                                          \
            .backward = reference_backward,                                                        \
            .bound = bound                                                                         \
        }                                                                                          \
    }
const struct xt_op_kind xt_kind_slice = KIND("slice", describe);
const struct xt_op_kind xt_kind_shuffle = KIND("channel shuffle", describe);
const struct xt_op_kind xt_kind_transpose = KIND("transposition", describe);
const struct xt_op_kind xt_kind_reshape = KIND("reshape", describe_reshape);
const struct xt_op_kind xt_kind_cast = KIND("cast", describe_cast);

/* ---- adding them to a graph ---- */

/* The output inherits the input's type and value properties. */
static struct xt_tensor *write(struct xt_rearrange_op *rearrange, struct xt_graph *graph,
                               const char *name, int h, int w, int c)
{
    const struct xt_tensor *in = xt_op_in(&rearrange->op, 0);
    struct xt_tensor *out = xt_op_write(&rearrange->op, graph, name, in->n, h, w, c, in->dtype);
    if (!out)
        return NULL;
    out->scale = in->scale;
    out->offset = in->offset;
    out->above_0 = in->above_0;
    out->one_reader = true;
    return out;
}

static struct xt_rearrange_op *add(struct xt_graph *graph, const struct xt_op_kind *kind,
                                   struct xt_tensor *in, const char *name)
{
    struct xt_rearrange_op *rearrange = xt_graph_add_op(graph, kind, name);
    return rearrange && xt_op_read(&rearrange->op, graph, in) ? rearrange : NULL;
}

static struct xt_tensor *pick(struct xt_graph *graph, struct xt_tensor *in,
                              const struct xt_slice_spec *spec)
{
    struct xt_axis_map map = {.kind = XT_MAP_PICK, .picked_count = spec->count};
    int *picked = NULL;
    if (xt_mem_calloc(&picked, (size_t)spec->count, sizeof *picked, spec->name, &graph->err))
        return NULL;
    for (int i = 0; i < spec->count; i++)
        picked[i] = spec->start + i * spec->step;
    map.picked = picked;
    struct xt_tensor *out = xt_graph_axis_map(graph, in, spec->axis, &map, spec->name);
    free(picked);
    return out;
}

struct xt_tensor *xt_graph_slice(struct xt_graph *graph, struct xt_tensor *in,
                                 const struct xt_slice_spec *spec)
{
    if (!in || xt_graph_fails(graph))
        return NULL;
    int shape[XT_AXES] = {in->h, in->w, in->c};
    int step = spec->step ? spec->step : 1;
    if ((unsigned)spec->axis >= XT_AXES || step < 1 || spec->start < 0 || spec->count < 1 ||
        spec->start >= shape[spec->axis] ||
        (spec->count - 1) > (shape[spec->axis] - 1 - spec->start) / step)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: a slice of %d from %d on in steps of %d is not within %dx%dx%d",
                               spec->name, spec->count, spec->start, step, in->h, in->w, in->c);
    /* oneDNN's layouts want the last step to end within the axis too. */
    if (step > 1 && (spec->start / step + spec->count) > shape[spec->axis] / step)
        return pick(graph, in, spec);
    struct xt_rearrange_op *slice = add(graph, &xt_kind_slice, in, spec->name);
    if (!slice)
        return NULL;
    slice->axis = spec->axis;
    slice->start = spec->start;
    slice->step = step;
    shape[spec->axis] = spec->count;
    return write(slice, graph, spec->name, shape[XT_AXIS_H], shape[XT_AXIS_W], shape[XT_AXIS_C]);
}

struct xt_tensor *xt_graph_shuffle(struct xt_graph *graph, struct xt_tensor *in, int groups,
                                   const char *name)
{
    struct xt_rearrange_op *shuffle = add(graph, &xt_kind_shuffle, in, name);
    if (!shuffle)
        return NULL;
    if (groups < 1 || in->c % groups)
        return xt_graph_refuse(graph, XT_ERR_USAGE, "%s: %d channels are not %d groups of as many",
                               name, in->c, groups);
    shuffle->groups = groups;
    return write(shuffle, graph, name, in->h, in->w, in->c);
}

struct xt_tensor *xt_graph_transpose(struct xt_graph *graph, struct xt_tensor *in,
                                     const enum xt_axis from[XT_AXES], const char *name)
{
    struct xt_rearrange_op *transpose = add(graph, &xt_kind_transpose, in, name);
    unsigned seen = 0;
    if (!transpose)
        return NULL;
    for (int i = 0; i < XT_AXES; i++)
        seen |= (unsigned)from[i] < XT_AXES ? 1U << from[i] : 0;
    if (seen != (1U << XT_AXES) - 1)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: %d, %d, %d is not a permutation of three axes", name,
                               (int)from[0], (int)from[1], (int)from[2]);
    memcpy(transpose->from, from, sizeof transpose->from);
    const int shape[XT_AXES] = {in->h, in->w, in->c};
    return write(transpose, graph, name, shape[from[0]], shape[from[1]], shape[from[2]]);
}

struct xt_tensor *xt_graph_reshape(struct xt_graph *graph, struct xt_tensor *in, int h, int w,
                                   int c, const char *name)
{
    struct xt_rearrange_op *reshape = add(graph, &xt_kind_reshape, in, name);
    if (!reshape)
        return NULL;
    if ((int64_t)h * w * c != (int64_t)in->h * in->w * in->c)
        return xt_graph_refuse(graph, XT_ERR_USAGE, "%s: %dx%dx%d elements are not %dx%dx%d", name,
                               in->h, in->w, in->c, h, w, c);
    struct xt_tensor *out = write(reshape, graph, name, h, w, c);
    if (!out)
        return NULL;
    in->shared = out->shared = true;
    reshape->op.out_bytes = 0; /* the input's memory */
    return out;
}

struct xt_tensor *xt_graph_cast(struct xt_graph *graph, struct xt_tensor *in, enum xt_dtype dtype,
                                const char *name)
{
    char own[80];
    if (!in || in->dtype == dtype)
        return in;
    if (!name) {
        snprintf(own, sizeof own, "%.60s in %s", in->name,
                 dtype == XT_F32 ? "float32" : xt_dtype_name(dtype));
        name = own;
    }
    struct xt_rearrange_op *cast = add(graph, &xt_kind_cast, in, name);
    if (!cast)
        return NULL;
    struct xt_tensor *out = write(cast, graph, name, in->h, in->w, in->c);
    if (out) {
        out->scale = 1;
        out->offset = 0;
        out->dtype = cast->op.dtype = dtype;
        cast->op.out_bytes = xt_tensor_bytes(out);
    }
    return out;
}

struct xt_tensor *xt_graph_dequantise(struct xt_graph *graph, struct xt_tensor *in)
{
    return in ? xt_graph_cast(graph, in, xt_op_numbers_type(graph, in), NULL) : NULL;
}
