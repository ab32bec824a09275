/* Element-wise functions (activation.h). If the gradient can be computed from the output, that is
 * stored for the backward pass instead of the input, since the next op reads it anyway.
 */
#include <math.h>

#include "base/number.h"
#include "engine/ops/ops.h"

static const char what_gradient[] = "an activation's gradient";

/* ---- the program ---- */

/* The output equals a bound exactly if it was clipped, provided the type represents the bound. */
static bool holds(enum xt_dtype dtype, float number)
{
    uint32_t held = 0;
    float back = 0;
    xt_number_from_float(dtype, &number, 1, &held);
    xt_number_to_float(dtype, &held, 1, &back);
    return back == number;
}

static struct xt_eltwise_algorithm clip_of(const struct xt_activation *a, enum xt_dtype dtype)
{
    bool exact = holds(dtype, a->alpha) && holds(dtype, a->beta);
    return (struct xt_eltwise_algorithm){
        dnnl_eltwise_clip_v2, exact ? dnnl_eltwise_clip_v2_use_dst_for_bwd : dnnl_eltwise_clip_v2,
        a->alpha, a->beta, exact};
}

static struct xt_eltwise_algorithm leaky_of(const struct xt_activation *a)
{
    bool keeps_signs = a->alpha > 0;
    return (struct xt_eltwise_algorithm){
        dnnl_eltwise_relu, keeps_signs ? dnnl_eltwise_relu_use_dst_for_bwd : dnnl_eltwise_relu,
        a->alpha, 0, keeps_signs};
}

static struct xt_eltwise_algorithm from_input(dnnl_alg_kind_t alg, float alpha, float beta)
{
    return (struct xt_eltwise_algorithm){alg, alg, alpha, beta, false};
}

static struct xt_eltwise_algorithm power_of(const struct xt_activation *a)
{
    if (a->alpha == 0.5F)
        return (struct xt_eltwise_algorithm){dnnl_eltwise_sqrt, dnnl_eltwise_sqrt_use_dst_for_bwd,
                                             0, 0, true};
    return a->alpha == 2 ? from_input(dnnl_eltwise_square, 0, 0)
                         : from_input(dnnl_eltwise_pow, 1, a->alpha);
}

struct xt_eltwise_algorithm xt_eltwise_algorithm(const struct xt_activation *a, enum xt_dtype dtype)
{
    switch (a->kind) {
    case XT_ACT_RELU:
        return (struct xt_eltwise_algorithm){dnnl_eltwise_relu, dnnl_eltwise_relu_use_dst_for_bwd,
                                             0, 0, true};
    case XT_ACT_CLIP:
        return clip_of(a, dtype);
    case XT_ACT_LEAKY_RELU:
        return leaky_of(a);
    case XT_ACT_ELU:
        return from_input(dnnl_eltwise_elu, a->alpha, 0);
    case XT_ACT_SIGMOID:
        return (struct xt_eltwise_algorithm){dnnl_eltwise_logistic,
                                             dnnl_eltwise_logistic_use_dst_for_bwd, 0, 0, true};
    case XT_ACT_SILU:
        return from_input(dnnl_eltwise_swish, 1, 0);
    case XT_ACT_HARD_SIGMOID:
        return from_input(dnnl_eltwise_hardsigmoid, a->alpha, a->beta);
    case XT_ACT_HARD_SWISH:
        return from_input(dnnl_eltwise_hardswish, 1.0F / 6, 0.5F);
    case XT_ACT_GELU:
        return from_input(dnnl_eltwise_gelu_erf, 0, 0);
    case XT_ACT_GELU_TANH:
        return from_input(dnnl_eltwise_gelu_tanh, 0, 0);
    case XT_ACT_TANH:
        return (struct xt_eltwise_algorithm){dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd,
                                             0, 0, true};
    case XT_ACT_SOFTPLUS:
        return from_input(dnnl_eltwise_soft_relu, 1, 0);
    case XT_ACT_MISH:
        return from_input(dnnl_eltwise_mish, 0, 0);
    case XT_ACT_POWER:
        return power_of(a);
    case XT_ACT_EXP:
        return (struct xt_eltwise_algorithm){dnnl_eltwise_exp, dnnl_eltwise_exp_use_dst_for_bwd, 0,
                                             0, true};
    case XT_ACT_LOG:
        return from_input(dnnl_eltwise_log, 0, 0);
    default:
        return from_input(dnnl_eltwise_linear, a->alpha, a->beta);
    }
}

/* A linear function's gradient is linear, and reads neither. */
static bool is_linear(const struct xt_eltwise_op *eltwise)
{
    return eltwise->activation.kind == XT_ACT_LINEAR;
}

void xt_eltwise_use(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_eltwise_op *eltwise = (const struct xt_eltwise_op *)op;
    bool from_output =
        xt_eltwise_algorithm(&eltwise->activation, xt_op_out(op, 0)->dtype).from_output;
    bool reads = !is_linear(eltwise);
    xt_graph_use_inputs(op, graph, reads && !from_output);
    xt_op_share_memory(op, graph, from_output || !reads);
    xt_graph_use_outputs(op, graph, reads && from_output);
}

static void add_backward(struct xt_op *op, const struct xt_eltwise_algorithm *a,
                         const struct xt_operand *x, const struct xt_operand *y)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    struct xt_operand dx = xt_operand_tensor(xt_op_in(op, 0), xt_op_in_grad(op, 0));
    if (a->forward == dnnl_eltwise_linear)
        xt_program_eltwise(&op->program, XT_BACKWARD, dnnl_eltwise_linear, a->alpha, 0, &dy, &dx);
    else
        xt_program_eltwise_backward(&op->program, a->backward, a->alpha, a->beta,
                                    a->from_output ? y : x, &dy, &dx, what_gradient);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_eltwise_op *eltwise = (const struct xt_eltwise_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_eltwise_algorithm a = xt_eltwise_algorithm(&eltwise->activation, out->dtype);
    xt_eltwise_use(op, graph);
    struct xt_operand x = xt_op_numbers(op, graph, 0);
    struct xt_operand y = xt_op_output(op, graph, 0);
    xt_program_eltwise(&op->program, XT_FORWARD, a.forward, a.alpha, a.beta, &x, &y);
    if (xt_op_learns(op, graph) && xt_op_in(op, 0)->wants_grad)
        add_backward(op, &a, &x, &y);
}

/* ---- in double precision ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double clip(double x, double least, double most)
{
    return fmin(fmax(x, least), most);
}

/* GELU's approximation: 0.5 x (1 + tanh(u(x))). */
static double gelu_u(double x)
{
    return sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}

double xt_activation_value(const struct xt_activation *a, double x)
{
    double alpha = (double)a->alpha;
    double beta = (double)a->beta;
    switch (a->kind) {
    case XT_ACT_RELU:
        return fmax(x, 0);
    case XT_ACT_CLIP:
        return clip(x, alpha, beta);
    case XT_ACT_LEAKY_RELU:
        return x > 0 ? x : alpha * x;
    case XT_ACT_ELU:
        return x > 0 ? x : alpha * expm1(x);
    case XT_ACT_SIGMOID:
        return sigmoid(x);
    case XT_ACT_SILU:
        return x * sigmoid(x);
    case XT_ACT_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case XT_ACT_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case XT_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case XT_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(gelu_u(x)));
    case XT_ACT_TANH:
        return tanh(x);
    case XT_ACT_SOFTPLUS:
        return softplus(x);
    case XT_ACT_MISH:
        return x * tanh(softplus(x));
    case XT_ACT_POWER:
        return pow(x, alpha);
    case XT_ACT_EXP:
        return exp(x);
    case XT_ACT_LOG:
        return log(x);
    default:
        return alpha * x + beta;
    }
}

static double gelu_tanh_slope(double x)
{
    double t = tanh(gelu_u(x));
    double du = sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du;
}

static double mish_slope(double x)
{
    double t = tanh(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
}

double xt_activation_slope(const struct xt_activation *a, double x)
{
    double alpha = (double)a->alpha;
    double beta = (double)a->beta;
    switch (a->kind) {
    case XT_ACT_RELU:
        return x > 0;
    case XT_ACT_CLIP:
        return x > alpha && x < beta;
    case XT_ACT_LEAKY_RELU:
        return x > 0 ? 1 : alpha;
    case XT_ACT_ELU:
        return x > 0 ? 1 : alpha * exp(x);
    case XT_ACT_SIGMOID:
        return sigmoid(x) * sigmoid(-x);
    case XT_ACT_SILU:
        return sigmoid(x) * (1 + x * sigmoid(-x));
    case XT_ACT_HARD_SIGMOID:
        return alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0;
    case XT_ACT_HARD_SWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case XT_ACT_GELU:
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
    case XT_ACT_GELU_TANH:
        return gelu_tanh_slope(x);
    case XT_ACT_TANH:
        return 1 - tanh(x) * tanh(x);
    case XT_ACT_SOFTPLUS:
        return sigmoid(x);
    case XT_ACT_MISH:
        return mish_slope(x);
    case XT_ACT_POWER:
        return alpha * pow(x, alpha - 1);
    case XT_ACT_EXP:
        return exp(x);
    case XT_ACT_LOG:
        return 1 / x;
    default:
        return alpha;
    }
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_eltwise_op *eltwise = (const struct xt_eltwise_op *)reference->op;
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++)
        reference->out[0][i] = xt_activation_value(&eltwise->activation, reference->in[0][i]);
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_eltwise_op *eltwise = (const struct xt_eltwise_op *)reference->op;
    for (size_t i = 0; i < xt_tensor_count(xt_op_in(reference->op, 0)); i++)
        reference->in_grad[0][i] = reference->out_grad[0][i] *
                                   xt_activation_slope(&eltwise->activation, reference->in[0][i]);
    return XT_OK;
}

/* Roots, reciprocals and logarithms of positive numbers, and not of those near 0. */
static double least_input(const struct xt_op *op)
{
    const struct xt_activation *a = &((const struct xt_eltwise_op *)op)->activation;
    bool is_whole = a->alpha >= 1 && fmodf(a->alpha, 1) == 0;
    return a->kind == XT_ACT_LOG || (a->kind == XT_ACT_POWER && !is_whole) ? 0.25 : -INFINITY;
}

/* Two roundings: the result's, and the output's if the gradient is computed from it. oneDNN's
 * logarithm on the CPU is off by up to 40 units in the last place of 1. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_eltwise_op *eltwise = (const struct xt_eltwise_op *)reference->op;
    double terms = eltwise->activation.kind == XT_ACT_LOG ? 400 : 4;
    (void)part;
    (void)which;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(xt_op_out(reference->op, 0)->dtype, 2, terms)};
}

const struct xt_op_kind xt_kind_eltwise = {
    .name = "activation",
    .size = sizeof(struct xt_eltwise_op),
    .describe = describe,
    .what = {xt_what_eltwise, what_gradient},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .bound = bound,
                  .least = least_input},
};

bool xt_activation_is_above_0(const struct xt_activation *a)
{
    return a->kind == XT_ACT_RELU || a->kind == XT_ACT_SIGMOID || a->kind == XT_ACT_HARD_SIGMOID ||
           a->kind == XT_ACT_SOFTPLUS || a->kind == XT_ACT_EXP ||
           (a->kind == XT_ACT_CLIP && a->alpha >= 0) ||
           (a->kind == XT_ACT_POWER && fmodf(a->alpha, 2) == 0);
}

struct xt_tensor *xt_graph_eltwise(struct xt_graph *graph, struct xt_tensor *in,
                                   const struct xt_activation *activation, const char *name)
{
    struct xt_eltwise_op *eltwise = xt_graph_add_op(graph, &xt_kind_eltwise, name);
    if (!eltwise || !xt_op_read(&eltwise->op, graph, in))
        return NULL;
    if (activation->kind < 0 || activation->kind >= XT_ACT_COUNT ||
        (activation->kind == XT_ACT_CLIP && !(activation->alpha < activation->beta)))
        return xt_graph_refuse(
            graph, XT_ERR_USAGE, "%s: unknown activation (kind %d, from %g to %g)", name,
            (int)activation->kind, (double)activation->alpha, (double)activation->beta);
    eltwise->activation = *activation;
    struct xt_tensor *out = xt_op_write(&eltwise->op, graph, name, in->n, in->h, in->w, in->c,
                                        xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = xt_activation_is_above_0(activation);
    return out;
}
