/* The steps of a recurrent layer (net/recurrence.h): its gates by the input are there for all of
 * them; each adds those by the state before it. Primitives of one step on float32, the same for
 * each, at addresses that move: a GPU compiles them once. Backward, the steps the other way round.
 */
#include <math.h>
#include <string.h>

#include "engine/ops/ops.h"

enum {
    GATES = XT_RECURRENCE_IN_GATES,
    WEIGHT = XT_RECURRENCE_IN_WEIGHT,
    BIAS = XT_RECURRENCE_IN_BIAS
};

int xt_recurrence_at(const struct xt_recurrence_op *op, int step)
{
    int steps = xt_op_in(&op->op, GATES)->w;
    return op->spec.backwards ? steps - 1 - step : step;
}

/* ---- the program ---- */

struct description {
    struct xt_recurrence_op *recurrence;
    struct xt_graph *graph;
    struct xt_program *program;
    int steps, count; /* count: of gates */
    int64_t rows, hidden;
    enum xt_dtype dtype;      /* of the products with the weight */
    struct xt_operand weight; /* in that type */
    struct xt_operand bias;
    bool has_bias;
    /* Sequences: [steps][parts][rows][columns]. A part of a step is a dense matrix that begins on a
     * line of memory, since oneDNN's (3.13) kernels for GPUs take a matrix's columns for whole
     * rows.
     */
    struct xt_operand states;   /* in that type */
    struct xt_operand gates;    /* by the input, then behind their functions */
    struct xt_operand by_state; /* of a GRU: with the bias */
    struct xt_operand cells;    /* of an LSTM */
    struct xt_operand zeros;    /* a state before the first step */
    struct xt_operand sums;     /* [rows][count * hidden]: products with a state */
};

static size_t part_bytes(const struct description *d, enum xt_dtype dtype, int64_t columns)
{
    enum { LINE = 64 };
    size_t bytes = (size_t)(d->rows * columns) * xt_dtype_size(dtype);
    return (bytes + LINE - 1) / LINE * LINE;
}

static struct xt_operand sequence(const struct description *d, struct xt_buffer *buffer,
                                  enum xt_dtype dtype, int parts, int64_t columns)
{
    int64_t stride = (int64_t)(part_bytes(d, dtype, columns) / xt_dtype_size(dtype));
    struct xt_operand out = xt_operand_dense(xt_in_buffer(buffer), xt_dtype_dnnl(dtype), 4,
                                             (int64_t[]){d->steps, parts, d->rows, columns});
    out.strides[0] = parts * stride;
    out.strides[1] = stride;
    return out;
}

/* Kept from the forward to the backward pass, or used in one of them. */
static struct xt_operand kept(const struct description *d, const char *what, enum xt_dtype dtype,
                              int parts)
{
    size_t bytes = (size_t)d->steps * (size_t)parts * part_bytes(d, dtype, d->hidden);
    struct xt_buffer *buffer =
        xt_op_learns(&d->recurrence->op, d->graph)
            ? xt_graph_saved(d->graph, &d->recurrence->op, what, bytes)
            : xt_graph_temporary(d->graph, xt_op_out(&d->recurrence->op, 0), bytes,
                                 xt_op_forward_time(&d->recurrence->op));
    return sequence(d, buffer, dtype, parts, d->hidden);
}
static struct xt_operand used(const struct description *d, int time, enum xt_dtype dtype, int parts,
                              int64_t columns)
{
    size_t bytes = (size_t)d->steps * (size_t)parts * part_bytes(d, dtype, columns);
    const struct xt_tensor *out = xt_op_out(&d->recurrence->op, 0);
    return sequence(d, xt_graph_temporary(d->graph, out, bytes, time), dtype, parts, columns);
}

/* The gates of one step at a time. */
static struct xt_operand of_a_step(const struct description *d, int time)
{
    const struct xt_tensor *out = xt_op_out(&d->recurrence->op, 0);
    size_t bytes = (size_t)d->count * part_bytes(d, XT_F32, d->hidden);
    struct xt_operand all =
        sequence(d, xt_graph_temporary(d->graph, out, bytes, time), XT_F32, d->count, d->hidden);
    all.strides[0] = 0;
    return all;
}

/* Numbers of one step that are used in a pass: [rows][columns]. */
static struct xt_operand room(const struct description *d, int time, int64_t columns)
{
    const struct xt_tensor *out = xt_op_out(&d->recurrence->op, 0);
    struct xt_buffer *buffer =
        xt_graph_temporary(d->graph, out, part_bytes(d, XT_F32, columns), time);
    return xt_operand_matrix(xt_in_buffer(buffer), dnnl_f32, (size_t)d->rows, (size_t)columns);
}

/* A part of a step, as a matrix. */
static struct xt_operand at(const struct description *d, const struct xt_operand *all, int step,
                            int part)
{
    size_t place = (size_t)xt_recurrence_at(d->recurrence, step);
    struct xt_operand one = xt_operand_dense(all->place, all->dtype, 2, all->dims + 2);
    size_t size = all->dtype == dnnl_f32 ? sizeof(float) : sizeof(uint16_t);
    one.place.bytes = (place * (size_t)all->strides[0] + (size_t)(part * all->strides[1])) * size;
    return one;
}

/* All parts of a step, as [parts][rows][hidden]. */
static struct xt_operand parts_at(const struct description *d, const struct xt_operand *all,
                                  int step)
{
    struct xt_operand parts = at(d, all, step, 0);
    parts.ndims = 3;
    for (int i = 0; i < 3; i++) {
        parts.dims[i] = all->dims[i + 1];
        parts.strides[i] = all->strides[i + 1];
    }
    return parts;
}

/* A matrix [rows][parts * hidden] as that. */
static struct xt_operand in_parts(const struct description *d, const struct xt_operand *matrix)
{
    struct xt_operand parts = *matrix;
    parts.ndims = 3;
    parts.dims[0] = matrix->dims[1] / d->hidden;
    parts.dims[1] = d->rows;
    parts.dims[2] = d->hidden;
    parts.strides[0] = d->hidden;
    parts.strides[1] = matrix->dims[1];
    parts.strides[2] = 1;
    return parts;
}

/* A tensor [n][h][steps][parts * hidden] as a sequence. */
static struct xt_operand by_steps(const struct description *d, const struct xt_tensor *t,
                                  const struct xt_buffer *buffer, dnnl_data_type_t dtype)
{
    struct xt_operand operand =
        xt_operand_dense(xt_in_buffer(buffer), dtype, 4,
                         (int64_t[]){d->steps, t->c / d->hidden, d->rows, d->hidden});
    operand.strides[0] = t->c;
    operand.strides[1] = d->hidden;
    operand.strides[2] = (int64_t)d->steps * t->c;
    return operand;
}

static void combine(const struct description *d, enum xt_phase phase, dnnl_alg_kind_t alg,
                    struct xt_operand a, struct xt_operand b, struct xt_operand to)
{
    xt_program_binary(d->program, phase, alg, &a, &b, &to, NULL);
}

static void multiply(const struct description *d, enum xt_phase phase, struct xt_operand a,
                     struct xt_operand b, struct xt_operand to)
{
    combine(d, phase, dnnl_binary_mul, a, b, to);
}

static void add_product(const struct description *d, enum xt_phase phase, struct xt_operand a,
                        struct xt_operand b, struct xt_operand to, bool adds)
{
    const struct xt_post_ops sum = {.count = adds, .items = {xt_then_sum()}};
    xt_program_matmul(d->program, phase, &a, &b, &to, &sum);
}

/* The state before a step, for a product. */
static struct xt_operand state_before(const struct description *d, int step)
{
    struct xt_operand state = step ? at(d, &d->states, step - 1, 0) : d->zeros;
    state.dtype = xt_dtype_dnnl(d->dtype);
    return state;
}

static struct xt_operand cell_before(const struct description *d, int step)
{
    return step ? at(d, &d->cells, step - 1, 0) : d->zeros;
}

/* ---- forward ---- */

/* What a step uses. */
struct forward {
    struct xt_operand by_state; /* a GRU's are kept */
    struct xt_operand h;        /* the state before, then the next one, in float32 */
    struct xt_operand room;
};

/* to = function(a + b) */
static void apply_to_sum(const struct description *d, dnnl_alg_kind_t function, struct xt_operand a,
                         struct xt_operand b, struct xt_operand to)
{
    const struct xt_post_ops then = {.count = 1, .items = {xt_then(function, 0, 0)}};
    xt_program_binary(d->program, XT_FORWARD, dnnl_binary_add, &a, &b, &to, &then);
}

/* A gate behind its function. */
static struct xt_operand add_gate(const struct description *d, const struct forward *f, int step,
                                  int gate, dnnl_alg_kind_t function)
{
    struct xt_operand of = at(d, &d->gates, step, gate);
    apply_to_sum(d, function, of, at(d, &f->by_state, step, gate), of);
    return of;
}

static void add_lstm_step(const struct description *d, const struct forward *f, int step)
{
    struct xt_operand c = at(d, &d->cells, step, 0);
    struct xt_operand i = add_gate(d, f, step, 0, dnnl_eltwise_logistic);
    struct xt_operand keep = add_gate(d, f, step, 1, dnnl_eltwise_logistic);
    struct xt_operand g = add_gate(d, f, step, 2, dnnl_eltwise_tanh);
    struct xt_operand o = add_gate(d, f, step, 3, dnnl_eltwise_logistic);
    multiply(d, XT_FORWARD, cell_before(d, step), keep, c);
    multiply(d, XT_FORWARD, i, g, f->room);
    combine(d, XT_FORWARD, dnnl_binary_add, c, f->room, c);
    xt_program_eltwise(d->program, XT_FORWARD, dnnl_eltwise_tanh, 0, 0, &c, &f->room);
    multiply(d, XT_FORWARD, f->room, o, f->h);
}

static void add_gru_step(const struct description *d, const struct forward *f, int step)
{
    struct xt_operand r = add_gate(d, f, step, 0, dnnl_eltwise_logistic);
    struct xt_operand z = add_gate(d, f, step, 1, dnnl_eltwise_logistic);
    struct xt_operand n = at(d, &d->gates, step, 2);
    multiply(d, XT_FORWARD, r, at(d, &f->by_state, step, 2), f->room);
    apply_to_sum(d, dnnl_eltwise_tanh, n, f->room, n);
    combine(d, XT_FORWARD, dnnl_binary_sub, step ? f->h : d->zeros, n, f->room);
    multiply(d, XT_FORWARD, f->room, z, f->room);
    combine(d, XT_FORWARD, dnnl_binary_add, f->room, n, f->h);
}

static void add_step(const struct description *d, const struct forward *f, int step)
{
    enum xt_recurrence kind = d->recurrence->spec.kind;
    add_product(d, XT_FORWARD, state_before(d, step), xt_operand_transposed(d->weight), d->sums,
                false);
    if (d->has_bias)
        combine(d, XT_FORWARD, dnnl_binary_add, d->sums, d->bias, d->sums);
    struct xt_operand from = in_parts(d, &d->sums);
    struct xt_operand to = parts_at(d, &f->by_state, step);
    xt_program_reorder(d->program, XT_FORWARD, &from, &to);
    if (kind == XT_LSTM)
        add_lstm_step(d, f, step);
    else if (kind == XT_GRU)
        add_gru_step(d, f, step);
    else
        apply_to_sum(d, kind == XT_RNN_RELU ? dnnl_eltwise_relu : dnnl_eltwise_tanh,
                     at(d, &d->gates, step, 0), at(d, &f->by_state, step, 0), f->h);
    struct xt_operand state = at(d, &d->states, step, 0);
    xt_program_reorder(d->program, XT_FORWARD, &f->h, &state);
}

static void add_forward(struct description *d, const struct xt_operand *in)
{
    const struct xt_tensor *out = xt_op_out(&d->recurrence->op, 0);
    int time = xt_op_forward_time(&d->recurrence->op);
    struct forward f = {.h = room(d, time, d->hidden), .room = room(d, time, d->hidden)};
    f.by_state = d->recurrence->spec.kind == XT_GRU ? d->by_state : of_a_step(d, time);
    d->sums = room(d, time, d->count * d->hidden);
    xt_program_reorder(d->program, XT_FORWARD, in, &d->gates);
    for (int step = 0; step < d->steps && !xt_program_fails(d->program); step++)
        add_step(d, &f, step);
    struct xt_operand y = by_steps(d, out, out->value, xt_dtype_dnnl(out->dtype));
    y.dims[1] = 1;
    xt_program_reorder(d->program, XT_FORWARD, &d->states, &y);
    y.offsets[1] = 1;
    if (d->recurrence->spec.with_cell)
        xt_program_reorder(d->program, XT_FORWARD, &d->cells, &y);
}

/* ---- backward ---- */

/* What a step reads and writes. */
struct backward {
    struct xt_operand dy;        /* of states and cells */
    struct xt_operand dgates;    /* before their functions */
    struct xt_operand dby_state; /* of a GRU, the same for all steps; else those */
    struct xt_operand typed;     /* [rows][count * hidden]: these for the products */
    struct xt_operand carried; /* to the step before: an LSTM's cell's gradient, a GRU's state's */
    struct xt_operand x, y, z; /* room */
};

/* Of a function's gradient from the one behind it, by its value: behind * value * (1 - value), and
 * behind * (1 - value * value). */
static void through_logistic(const struct description *d, const struct backward *b,
                             struct xt_operand value, struct xt_operand behind,
                             struct xt_operand to)
{
    multiply(d, XT_BACKWARD, behind, value, to);
    multiply(d, XT_BACKWARD, to, value, b->z);
    combine(d, XT_BACKWARD, dnnl_binary_sub, to, b->z, to);
}
static void through_tanh(const struct description *d, const struct backward *b,
                         struct xt_operand value, struct xt_operand behind, struct xt_operand to)
{
    multiply(d, XT_BACKWARD, value, value, b->z);
    multiply(d, XT_BACKWARD, b->z, behind, b->z);
    combine(d, XT_BACKWARD, dnnl_binary_sub, behind, b->z, to);
}

static void add_lstm_backward(const struct description *d, const struct backward *b,
                              struct xt_operand dh, int step)
{
    struct xt_operand c = at(d, &d->cells, step, 0);
    struct xt_operand i = at(d, &d->gates, step, 0);
    struct xt_operand f = at(d, &d->gates, step, 1);
    struct xt_operand g = at(d, &d->gates, step, 2);
    struct xt_operand o = at(d, &d->gates, step, 3);
    xt_program_eltwise(d->program, XT_BACKWARD, dnnl_eltwise_tanh, 0, 0, &c, &b->x);
    multiply(d, XT_BACKWARD, dh, b->x, b->y);
    through_logistic(d, b, o, b->y, at(d, &b->dgates, step, 3));
    multiply(d, XT_BACKWARD, dh, o, b->y);
    through_tanh(d, b, b->x, b->y, b->y);
    combine(d, XT_BACKWARD, dnnl_binary_add, b->carried, b->y, b->carried);
    multiply(d, XT_BACKWARD, b->carried, g, b->y);
    through_logistic(d, b, i, b->y, at(d, &b->dgates, step, 0));
    multiply(d, XT_BACKWARD, b->carried, i, b->y);
    through_tanh(d, b, g, b->y, at(d, &b->dgates, step, 2));
    multiply(d, XT_BACKWARD, b->carried, cell_before(d, step), b->y);
    through_logistic(d, b, f, b->y, at(d, &b->dgates, step, 1));
    multiply(d, XT_BACKWARD, b->carried, f, b->carried);
}

static void add_gru_backward(const struct description *d, const struct backward *b,
                             struct xt_operand dh, int step)
{
    struct xt_operand r = at(d, &d->gates, step, 0);
    struct xt_operand z = at(d, &d->gates, step, 1);
    struct xt_operand n = at(d, &d->gates, step, 2);
    struct xt_operand dr = at(d, &b->dgates, step, 0);
    struct xt_operand dn = at(d, &b->dgates, step, 2);
    struct xt_operand before = state_before(d, step);
    xt_program_reorder(d->program, XT_BACKWARD, &before, &b->y);
    combine(d, XT_BACKWARD, dnnl_binary_sub, b->y, n, b->y);
    multiply(d, XT_BACKWARD, dh, b->y, b->y);
    through_logistic(d, b, z, b->y, at(d, &b->dgates, step, 1));
    multiply(d, XT_BACKWARD, dh, z, b->carried);
    combine(d, XT_BACKWARD, dnnl_binary_sub, dh, b->carried, b->y);
    through_tanh(d, b, n, b->y, dn);
    multiply(d, XT_BACKWARD, dn, at(d, &d->by_state, step, 2), b->y);
    through_logistic(d, b, r, b->y, dr);
    struct xt_operand from = parts_at(d, &b->dgates, step);
    struct xt_operand to = parts_at(d, &b->dby_state, step);
    xt_program_reorder(d->program, XT_BACKWARD, &from, &to);
    multiply(d, XT_BACKWARD, dn, r, at(d, &b->dby_state, step, 2));
}

static void add_simple_backward(const struct description *d, const struct backward *b,
                                struct xt_operand dh, int step)
{
    struct xt_operand h = at(d, &d->states, step, 0);
    struct xt_operand to = at(d, &b->dgates, step, 0);
    xt_program_reorder(d->program, XT_BACKWARD, &h, &b->x);
    if (d->recurrence->spec.kind == XT_RNN_TANH)
        through_tanh(d, b, b->x, dh, to);
    else
        xt_program_eltwise_backward(d->program, dnnl_eltwise_relu_use_dst_for_bwd, 0, 0, &b->x, &dh,
                                    &to, "a state's gradient");
}

void xt_recurrence_add_gradients(struct xt_recurrence_op *recurrence,
                                 const struct xt_operand *behind, const struct xt_operand *states,
                                 const struct xt_operand *ones, bool adds)
{
    struct xt_op *op = &recurrence->op;
    const struct xt_post_ops sum = {.count = adds, .items = {xt_then_sum()}};
    const struct xt_tensor *weight = xt_op_in(op, WEIGHT);
    size_t gates = (size_t)xt_op_in(op, GATES)->c;
    if (weight->wants_grad) {
        struct xt_operand to = xt_operand_matrix(xt_in_buffer(xt_op_in_grad(op, WEIGHT)), dnnl_f32,
                                                 gates, (size_t)weight->c);
        struct xt_operand columns = xt_operand_transposed(*behind);
        xt_program_matmul(&op->program, XT_BACKWARD, &columns, states, &to, &sum);
    }
    if (op->input_count > BIAS && xt_op_in(op, BIAS)->wants_grad) {
        struct xt_operand to =
            xt_operand_matrix(xt_in_buffer(xt_op_in_grad(op, BIAS)), dnnl_f32, 1, gates);
        xt_program_matmul(&op->program, XT_BACKWARD, ones, behind, &to, &sum);
    }
}

static void add_backward_step(const struct description *d, const struct backward *b, int step)
{
    enum xt_recurrence kind = d->recurrence->spec.kind;
    struct xt_operand dh = at(d, &b->dy, step, 0);
    if (step < d->steps - 1) {
        add_product(d, XT_BACKWARD, at(d, &b->typed, step + 1, 0), d->weight, dh, true);
        if (kind == XT_GRU)
            combine(d, XT_BACKWARD, dnnl_binary_add, dh, b->carried, dh);
    }
    if (d->recurrence->spec.with_cell)
        combine(d, XT_BACKWARD, dnnl_binary_add, b->carried, at(d, &b->dy, step, 1), b->carried);
    if (kind == XT_LSTM)
        add_lstm_backward(d, b, dh, step);
    else if (kind == XT_GRU)
        add_gru_backward(d, b, dh, step);
    else
        add_simple_backward(d, b, dh, step);
    struct xt_operand from = parts_at(d, &b->dby_state, step);
    struct xt_operand typed = at(d, &b->typed, step, 0);
    struct xt_operand to = in_parts(d, &typed);
    xt_program_reorder(d->program, XT_BACKWARD, &from, &to);
}

static void add_backward(struct description *d)
{
    struct xt_op *op = &d->recurrence->op;
    const struct xt_tensor *in = xt_op_in(op, GATES);
    const struct xt_tensor *out = xt_op_out(op, 0);
    int time = xt_op_backward_time(d->graph, op);
    struct backward b = {.dy = used(d, time, XT_F32, (int)(out->c / d->hidden), d->hidden),
                         .dgates = used(d, time, XT_F32, d->count, d->hidden),
                         .typed = used(d, time, d->dtype, 1, d->count * d->hidden),
                         .carried = room(d, time, d->hidden),
                         .x = room(d, time, d->hidden),
                         .y = room(d, time, d->hidden),
                         .z = room(d, time, d->hidden)};
    struct xt_operand from = by_steps(d, out, out->grad[0], xt_dtype_dnnl(out->dtype));
    struct xt_operand ones = {0};
    if (d->has_bias)
        ones = xt_op_ones(op, d->graph, (size_t)d->rows, xt_dtype_dnnl(d->dtype));
    b.dby_state = d->recurrence->spec.kind == XT_GRU ? of_a_step(d, time) : b.dgates;
    xt_program_reorder(d->program, XT_BACKWARD, &from, &b.dy);
    xt_program_zero(d->program, XT_BACKWARD, &b.carried);
    for (int step = d->steps - 1; step >= 0 && !xt_program_fails(d->program); step--) {
        add_backward_step(d, &b, step);
        struct xt_operand behind = at(d, &b.typed, step, 0);
        struct xt_operand states = state_before(d, step);
        xt_recurrence_add_gradients(d->recurrence, &behind, &states, &ones, step < d->steps - 1);
    }
    if (!in->wants_grad)
        return;
    struct xt_operand to = by_steps(d, in, xt_op_in_grad(op, GATES), xt_dtype_dnnl(in->dtype));
    xt_program_reorder(d->program, XT_BACKWARD, &b.dgates, &to);
}

static struct xt_operand weight_of(struct xt_op *op, struct xt_graph *graph, enum xt_dtype dtype)
{
    const struct xt_tensor *weight = xt_op_in(op, WEIGHT);
    struct xt_operand held = xt_operand_matrix(xt_in_buffer(weight->value), dnnl_f32,
                                               (size_t)weight->w, (size_t)weight->c);
    if (dtype == XT_F32)
        return held;
    struct xt_operand to = held;
    size_t bytes = xt_tensor_count(weight) * xt_dtype_size(dtype);
    to.place = xt_in_buffer(graph->options.training
                                ? xt_graph_saved(graph, op, XT_WORKING_WEIGHTS, bytes)
                                : xt_graph_permanent(graph, op->name, XT_WORKING_WEIGHTS, bytes));
    to.dtype = xt_dtype_dnnl(dtype);
    xt_program_reorder(&op->program, XT_COMPUTED, &held, &to);
    return to;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, GATES);
    struct xt_recurrence_op *recurrence = (struct xt_recurrence_op *)op;
    enum xt_recurrence kind = recurrence->spec.kind;
    struct description d = {.recurrence = recurrence,
                            .graph = graph,
                            .program = &op->program,
                            .steps = in->w,
                            .rows = (int64_t)in->n * in->h,
                            .count = xt_recurrence_gates(kind),
                            .hidden = xt_op_in(op, WEIGHT)->c,
                            .dtype = xt_op_out(op, 0)->dtype,
                            .has_bias = op->input_count > BIAS};
    xt_graph_use(op, graph, 1U << WEIGHT, 0);
    struct xt_operand numbers = xt_op_numbers(op, graph, GATES);
    struct xt_operand gates = by_steps(&d, in, numbers.place.buffer, numbers.dtype);
    d.weight = weight_of(op, graph, d.dtype);
    if (d.has_bias)
        d.bias = xt_operand_matrix(xt_in_buffer(xt_op_in(op, BIAS)->value), dnnl_f32, 1,
                                   (size_t)xt_op_in(op, BIAS)->c);
    d.states = kept(&d, "states", d.dtype, 1);
    d.gates = kept(&d, "gates", XT_F32, d.count);
    if (kind == XT_GRU)
        d.by_state = kept(&d, "gates by the state", XT_F32, d.count);
    if (kind == XT_LSTM)
        d.cells = kept(&d, "cells", XT_F32, 1);
    struct xt_buffer *zeros = xt_graph_permanent(graph, op->name, "state before the first step",
                                                 part_bytes(&d, XT_F32, d.hidden));
    d.zeros = xt_operand_matrix(xt_in_buffer(zeros), dnnl_f32, (size_t)d.rows, (size_t)d.hidden);
    xt_program_zero(d.program, XT_BEFORE, &d.zeros);
    add_forward(&d, &gates);
    if (xt_op_learns(op, graph))
        add_backward(&d);
}

/* ---- in double precision ---- */

/* One row's sequence, and what its gradients follow from. */
struct row {
    const struct xt_recurrence_op *recurrence;
    struct xt_reference_op *reference;
    size_t first; /* the row's first pixel */
    size_t hidden, count;
    double *gates;    /* [steps][count * hidden], behind their functions */
    double *by_state; /* [steps][count * hidden], with the bias */
    double *cells;    /* [steps][hidden] */
    double *states;   /* [steps][hidden] */
};

static size_t pixel(const struct row *r, int step)
{
    return r->first + (size_t)xt_recurrence_at(r->recurrence, step);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static void run_unit(const struct row *r, int step, size_t j)
{
    enum xt_recurrence kind = r->recurrence->spec.kind;
    size_t hidden = r->hidden;
    size_t now = (size_t)step * hidden + j;
    double *gate = r->gates + (size_t)step * r->count * hidden + j;
    const double *u = r->by_state + (size_t)step * r->count * hidden + j;
    const double *a = r->reference->in[GATES] + pixel(r, step) * r->count * hidden + j;
    for (size_t k = 0; k < r->count; k++)
        gate[k * hidden] = a[k * hidden] + (kind == XT_GRU && k == 2 ? 0 : u[k * hidden]);
    if (kind == XT_RNN_TANH || kind == XT_RNN_RELU) {
        r->states[now] = kind == XT_RNN_TANH ? tanh(*gate) : fmax(*gate, 0);
        return;
    }
    gate[0] = logistic(gate[0]);
    gate[hidden] = logistic(gate[hidden]);
    if (kind == XT_GRU) {
        double z = gate[hidden];
        gate[2 * hidden] = tanh(gate[2 * hidden] + gate[0] * u[2 * hidden]);
        r->states[now] = (1 - z) * gate[2 * hidden] + (step ? z * r->states[now - hidden] : 0);
        return;
    }
    gate[2 * hidden] = tanh(gate[2 * hidden]);
    gate[3 * hidden] = logistic(gate[3 * hidden]);
    r->cells[now] = gate[0] * gate[2 * hidden] + (step ? gate[hidden] * r->cells[now - hidden] : 0);
    r->states[now] = gate[3 * hidden] * tanh(r->cells[now]);
}

static void run_row(const struct row *r)
{
    const double *weight = r->reference->in[WEIGHT];
    const double *bias = r->recurrence->op.input_count > BIAS ? r->reference->in[BIAS] : NULL;
    const struct xt_tensor *out = xt_op_out(&r->recurrence->op, 0);
    for (int step = 0; step < out->w; step++) {
        double *u = r->by_state + (size_t)step * r->count * r->hidden;
        const double *before = r->states + (size_t)(step - 1) * r->hidden;
        for (size_t i = 0; i < r->count * r->hidden; i++) {
            u[i] = bias ? bias[i] : 0;
            for (size_t k = 0; k < r->hidden && step; k++)
                u[i] += weight[i * r->hidden + k] * before[k];
        }
        for (size_t j = 0; j < r->hidden; j++)
            run_unit(r, step, j);
        double *y = r->reference->out[0] + pixel(r, step) * (size_t)out->c;
        memcpy(y, r->states + (size_t)step * r->hidden, r->hidden * sizeof *y);
        if (r->recurrence->spec.with_cell)
            memcpy(y + r->hidden, r->cells + (size_t)step * r->hidden, r->hidden * sizeof *y);
    }
}

/* The gradients of a unit's gates by the input, and by the state; `carried` as in struct backward.
 */
static void run_unit_backward(const struct row *r, int step, size_t j, double dh, double *carried,
                              double *du)
{
    enum xt_recurrence kind = r->recurrence->spec.kind;
    size_t hidden = r->hidden;
    size_t now = (size_t)step * hidden + j;
    const double *gate = r->gates + (size_t)step * r->count * hidden + j;
    double *da = r->reference->in_grad[GATES] + pixel(r, step) * r->count * hidden + j;
    double h = r->states[now];
    double before = step ? (kind == XT_LSTM ? r->cells : r->states)[now - hidden] : 0;
    if (kind == XT_LSTM) {
        double i = gate[0], f = gate[hidden], g = gate[2 * hidden], o = gate[3 * hidden];
        double t = tanh(r->cells[now]);
        double dc = *carried + dh * o * (1 - t * t);
        da[0] = dc * g * i * (1 - i);
        da[hidden] = dc * before * f * (1 - f);
        da[2 * hidden] = dc * i * (1 - g * g);
        da[3 * hidden] = dh * t * o * (1 - o);
        *carried = dc * f;
    } else if (kind == XT_GRU) {
        double open = gate[0], z = gate[hidden], n = gate[2 * hidden];
        const double *u = r->by_state + (size_t)step * r->count * hidden + j;
        da[2 * hidden] = dh * (1 - z) * (1 - n * n);
        da[0] = da[2 * hidden] * u[2 * hidden] * open * (1 - open);
        da[hidden] = dh * (before - n) * z * (1 - z);
        *carried = dh * z;
    } else {
        da[0] = dh * (kind == XT_RNN_TANH ? 1 - h * h : h > 0);
    }
    for (size_t k = 0; k < r->count; k++)
        du[j + k * hidden] = da[k * hidden] * (kind == XT_GRU && k == 2 ? gate[0] : 1);
}

/* `room`: the state's gradient, what is carried, and those of the gates by the state. */
static void run_row_backward(const struct row *r, double *room)
{
    const struct xt_tensor *out = xt_op_out(&r->recurrence->op, 0);
    bool is_gru = r->recurrence->spec.kind == XT_GRU;
    double *dh = room;
    double *carried = room + r->hidden;
    double *du = room + 2 * r->hidden;
    memset(room, 0, 2 * r->hidden * sizeof *room);
    for (int step = out->w - 1; step >= 0; step--) {
        const double *dy = r->reference->out_grad[0] + pixel(r, step) * (size_t)out->c;
        for (size_t j = 0; j < r->hidden; j++) {
            if (r->recurrence->spec.with_cell)
                carried[j] += dy[r->hidden + j];
            run_unit_backward(r, step, j, dh[j] + dy[j], &carried[j], du);
        }
        const double *before = r->states + (size_t)(step - 1) * r->hidden;
        for (size_t k = 0; k < r->hidden; k++)
            dh[k] = is_gru ? carried[k] : 0;
        for (size_t i = 0; i < r->count * r->hidden; i++) {
            if (r->recurrence->op.input_count > BIAS)
                r->reference->in_grad[BIAS][i] += du[i];
            for (size_t k = 0; k < r->hidden && step; k++) {
                r->reference->in_grad[WEIGHT][i * r->hidden + k] += du[i] * before[k];
                dh[k] += du[i] * r->reference->in[WEIGHT][i * r->hidden + k];
            }
        }
    }
}

static enum xt_status run(struct xt_reference_op *reference, bool backward)
{
    const struct xt_recurrence_op *recurrence = (const struct xt_recurrence_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, GATES);
    const struct xt_tensor *weight = xt_op_in(reference->op, WEIGHT);
    size_t steps = (size_t)in->w;
    struct row r = {.recurrence = recurrence,
                    .reference = reference,
                    .hidden = (size_t)weight->c,
                    .count = (size_t)xt_recurrence_gates(recurrence->spec.kind)};
    if (!backward && xt_op_out(reference->op, 0)->dtype != XT_F32)
        xt_reference_op_round(xt_op_out(reference->op, 0)->dtype, reference->in[WEIGHT],
                              xt_tensor_count(weight));
    r.gates = xt_reference_op_take(reference, steps * r.count * r.hidden);
    r.by_state = xt_reference_op_take(reference, steps * r.count * r.hidden);
    r.cells = xt_reference_op_take(reference, steps * r.hidden);
    r.states = xt_reference_op_take(reference, steps * r.hidden);
    double *room = xt_reference_op_take(reference, (2 + r.count) * r.hidden);
    if (!r.gates || !r.by_state || !r.cells || !r.states || !room)
        return reference->err->status;
    for (size_t row = 0; row < (size_t)in->n * (size_t)in->h; row++) {
        r.first = row * steps;
        run_row(&r);
        if (backward)
            run_row_backward(&r, room);
    }
    return XT_OK;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    return run(reference, false);
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    return run(reference, true);
}

/* What a step rounds is handed on to the next ones, and fades. Terms of the weight's and the bias's
 * gradients cancel. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    const struct xt_tensor *weight = xt_op_in(reference->op, WEIGHT);
    bool of_parameters = part == XT_PART_INPUT_GRAD && which != GATES;
    int terms = of_parameters                ? out->n * out->h * out->w
                : part == XT_PART_INPUT_GRAD ? weight->w
                                             : weight->c;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(out->dtype, of_parameters ? 8 : 4, terms)};
}

const struct xt_op_kind xt_kind_recurrence = {
    .name = "recurrence",
    .size = sizeof(struct xt_recurrence_op),
    .describe = describe,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .bound = bound,
                  .inputs = {"gates", "weight", "bias"}},
};

struct xt_tensor *xt_graph_recurrence(struct xt_graph *graph, struct xt_tensor *gates,
                                      struct xt_tensor *weight, struct xt_tensor *bias,
                                      const struct xt_recurrence_spec *spec)
{
    struct xt_recurrence_op *recurrence = xt_graph_add_op(graph, &xt_kind_recurrence, spec->name);
    if (!recurrence || !xt_op_read(&recurrence->op, graph, gates) ||
        !xt_op_read(&recurrence->op, graph, weight) ||
        (bias && !xt_op_read(&recurrence->op, graph, bias)))
        return NULL;
    int count = xt_recurrence_gates(spec->kind);
    if (weight->dtype != XT_F32 ||
        (int64_t)xt_tensor_count(weight) != (int64_t)gates->c * weight->c ||
        gates->c != count * weight->c || (spec->with_cell && spec->kind != XT_LSTM) ||
        (bias && (bias->dtype != XT_F32 || (int64_t)xt_tensor_count(bias) != gates->c)))
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: %d gates of %d channels in all do not fit a weight of %dx%d",
                               spec->name, count, gates->c, weight->w, weight->c);
    recurrence->spec = *spec;
    recurrence->op.flops = 2.0 * (double)xt_tensor_count(gates) * weight->c;
    recurrence->op.backward_flops = 2 * recurrence->op.flops;
    struct xt_tensor *out =
        xt_op_write(&recurrence->op, graph, spec->name, gates->n, gates->h, gates->w,
                    (spec->with_cell ? 2 : 1) * weight->c, xt_op_numbers_type(graph, gates));
    if (!out)
        return NULL;
    out->above_0 = spec->kind == XT_RNN_RELU;
    out->one_reader = true;
    return out;
}
