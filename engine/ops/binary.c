/* Sums and products of two tensors with broadcasting: residuals, gates on channels
 * (squeeze-and-excitation), layer scales, position embeddings. An input of the output's shape
 * shares the output's gradient memory; a broadcast one gets sums.
 */
#include <math.h>

#include "engine/ops/ops.h"

static bool multiplies(const struct xt_op *op)
{
    return op->kind == &xt_kind_mul;
}

static bool is_whole(const struct xt_op *op, int i)
{
    return xt_tensor_count(xt_op_in(op, i)) == xt_tensor_count(xt_op_out(op, 0));
}

/* ---- the program ---- */

/* The input whose gradient shares the output's memory; -1: none. */
static int sharing(const struct xt_op *op, const struct xt_graph *graph)
{
    for (int i = 0; i < 2 && xt_op_learns(op, graph); i++)
        if (is_whole(op, i) && xt_op_in(op, i)->dtype == xt_op_out(op, 0)->dtype &&
            xt_op_in(op, i)->wants_grad)
            return i;
    return -1;
}

static void use(struct xt_op *op, struct xt_graph *graph)
{
    int shared = sharing(op, graph);
    xt_graph_use_inputs(op, graph, multiplies(op) ? 3 : 0);
    if (shared >= 0)
        xt_op_out(op, 0)->grad[0] = xt_op_in_grad(op, shared);
    xt_graph_use_outputs(op, graph, 0);
}

/* If both are broadcast, the first is expanded to the output's shape. */
static void add_forward(struct xt_op *op, struct xt_graph *graph, const struct xt_operand *in)
{
    dnnl_alg_kind_t alg = multiplies(op) ? dnnl_binary_mul : dnnl_binary_add;
    struct xt_operand y = xt_op_output(op, graph, 0);
    int first = is_whole(op, 0) || !is_whole(op, 1) ? 0 : 1;
    struct xt_operand a = in[first];
    if (!is_whole(op, first)) {
        xt_program_zero(&op->program, XT_FORWARD, &y);
        xt_program_binary(&op->program, XT_FORWARD, dnnl_binary_add, &y, &a, &y, NULL);
        a = y;
    }
    xt_program_binary(&op->program, XT_FORWARD, alg, &a, &in[1 - first], &y, NULL);
}

/* The gradient of a sum is the output's; of a product, the output's times the other factor. */
static void add_gradient(struct xt_op *op, struct xt_graph *graph, int i,
                         const struct xt_operand *in)
{
    const struct xt_tensor *t = xt_op_in(op, i);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    struct xt_operand behind = xt_operand_channels_last(out, out->grad[0]);
    struct xt_operand before = xt_operand_channels_last(t, xt_op_in_grad(op, i));
    if (multiplies(op) && is_whole(op, i)) {
        struct xt_operand dx = xt_operand_tensor(t, xt_op_in_grad(op, i));
        xt_program_binary(&op->program, XT_BACKWARD, dnnl_binary_mul, &dy, &in[1 - i], &dx, NULL);
        return;
    }
    if (multiplies(op)) {
        /* In its own type: oneDNN's CPU kernels do not mix types. */
        behind = xt_op_room(op, graph, XT_BACKWARD, behind.dtype, behind.dims);
        struct xt_operand product = xt_operand_tensor(out, behind.place.buffer);
        xt_program_binary(&op->program, XT_BACKWARD, dnnl_binary_mul, &dy, &in[1 - i], &product,
                          NULL);
    }
    if (behind.place.buffer != before.place.buffer)
        xt_op_sum(op, graph, XT_BACKWARD, &behind, &before);
}

/* The one in the output's memory is last. */
static void add_backward(struct xt_op *op, struct xt_graph *graph, const struct xt_operand *in)
{
    int shared = sharing(op, graph);
    for (int i = 0; i < 2; i++)
        if (i != shared && xt_op_in(op, i)->wants_grad)
            add_gradient(op, graph, i, in);
    if (shared >= 0)
        add_gradient(op, graph, shared, in);
}

static void describe_passes(struct xt_op *op, struct xt_graph *graph, bool backward)
{
    use(op, graph);
    struct xt_operand in[] = {xt_op_numbers(op, graph, 0), xt_op_numbers(op, graph, 1)};
    add_forward(op, graph, in);
    if (backward)
        add_backward(op, graph, in);
}

void xt_binary_describe_forward(struct xt_op *op, struct xt_graph *graph)
{
    describe_passes(op, graph, false);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    describe_passes(op, graph, xt_op_learns(op, graph));
}

/* ---- in double precision ---- */

/* The input element that the output's element at n, y, x, k reads. */
static size_t element_of(const struct xt_tensor *t, const int *at)
{
    const int dims[] = {t->n, t->h, t->w, t->c};
    size_t index = 0;
    for (int i = 0; i < XT_DENSE_AXES; i++)
        index = index * (size_t)dims[i] + (size_t)(dims[i] == 1 ? 0 : at[i]);
    return index;
}

static void place_of(const struct xt_tensor *t, size_t index, int *at)
{
    const int dims[] = {t->n, t->h, t->w, t->c};
    for (int i = XT_DENSE_AXES - 1; i >= 0; i--) {
        at[i] = (int)(index % (size_t)dims[i]);
        index /= (size_t)dims[i];
    }
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    for (size_t i = 0; i < xt_tensor_count(out); i++) {
        int at[XT_DENSE_AXES];
        place_of(out, i, at);
        double a = reference->in[0][element_of(xt_op_in(reference->op, 0), at)];
        double b = reference->in[1][element_of(xt_op_in(reference->op, 1), at)];
        reference->out[0][i] = multiplies(reference->op) ? a * b : a + b;
    }
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    bool product = multiplies(reference->op);
    for (size_t i = 0; i < xt_tensor_count(out); i++) {
        int at[XT_DENSE_AXES];
        place_of(out, i, at);
        size_t a = element_of(xt_op_in(reference->op, 0), at);
        size_t b = element_of(xt_op_in(reference->op, 1), at);
        double dy = reference->out_grad[0][i];
        reference->in_grad[0][a] += dy * (product ? reference->in[1][b] : 1);
        reference->in_grad[1][b] += dy * (product ? reference->in[0][a] : 1);
    }
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    const struct xt_tensor *t = part == XT_PART_OUTPUT ? out : xt_op_in(reference->op, which);
    double terms = (double)xt_tensor_count(out) / (double)xt_tensor_count(t);
    /* Products of random numbers, rounded before they are summed, are a third on average. */
    return (struct xt_bound){.relative = xt_reference_op_relative(t->dtype, 2, terms),
                             .scale = terms > 1 ? sqrt(terms) / 3 : 0};
}

#define REFERENCE                                                                                  \
    {                                                                                              \
        .forward = reference_forward, .backward = reference_backward, .bound = bound, .inputs = {  \
            "first input",                                                                         \
            "second input"                                                                         \
        }                                                                                          \
    }

const struct xt_op_kind xt_kind_add = {
    .name = "addition",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {xt_what_binary, xt_what_change},
    .reference = REFERENCE,
};

const struct xt_op_kind xt_kind_mul = {
    .name = "multiplication",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {xt_what_binary, xt_what_binary},
    .reference = REFERENCE,
};

/* The broadcast length; 0: incompatible. */
static int common(int a, int b)
{
    return a == b || b == 1 ? a : a == 1 ? b : 0;
}

static struct xt_tensor *add(struct xt_graph *graph, const struct xt_op_kind *kind,
                             struct xt_tensor *a, struct xt_tensor *b, const char *name)
{
    struct xt_op *op = xt_graph_add_op(graph, kind, name);
    if (!xt_op_read(op, graph, a) || !xt_op_read(op, graph, b))
        return NULL;
    int n = common(a->n, b->n), h = common(a->h, b->h), w = common(a->w, b->w);
    int c = common(a->c, b->c);
    if (!n || !h || !w || !c)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: %s of %dx%dx%d does not fit %s of %dx%dx%d", name, a->name,
                               a->h, a->w, a->c, b->name, b->h, b->w, b->c);
    bool by_second = (int64_t)a->n * a->h * a->w * a->c < (int64_t)n * h * w * c;
    struct xt_tensor *out =
        xt_op_write(op, graph, name, n, h, w, c, xt_op_numbers_type(graph, by_second ? b : a));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = a->above_0 && b->above_0;
    return out;
}

struct xt_tensor *xt_graph_add(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                               const char *name)
{
    return add(graph, &xt_kind_add, a, b, name);
}

struct xt_tensor *xt_graph_mul(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                               const char *name)
{
    return add(graph, &xt_kind_mul, a, b, name);
}
