/* Element-wise functions; those that ONNX has only in later opsets are composed of several ops. */
#include <float.h>
#include <math.h>

#include "models/onnx/write/exporter.h"

/* The op being written and its input value. */
struct writing {
    struct xt_exporter *exporter;
    const struct xt_op *op;
    enum xt_dtype dtype;
};

static const char *one(const struct writing *w, const char *type, const char *x)
{
    return xt_export_node(w->exporter, w->op, &(struct xt_onnx_node){.type = type, .inputs = {x}});
}

static const char *two(const struct writing *w, const char *type, const char *a, const char *b)
{
    return xt_export_node(w->exporter, w->op,
                          &(struct xt_onnx_node){.type = type, .inputs = {a, b}});
}

static const char *with(const struct writing *w, const char *type, const char *x, double number)
{
    return xt_export_with_number(w->exporter, w->op, type, x, w->dtype, (float)number);
}

static const char *clip(const struct writing *w, const char *x, float least, float most)
{
    if (least > -FLT_MAX)
        x = with(w, "Max", x, (double)least);
    return most < FLT_MAX ? with(w, "Min", x, (double)most) : x;
}

static const char *with_alpha(const struct writing *w, const char *type, const char *x, float alpha)
{
    return xt_export_node(w->exporter, w->op,
                          &(struct xt_onnx_node){.type = type,
                                                 .inputs = {x},
                                                 .attributes = {{"alpha", .real = &alpha}}});
}

static const char *hard_sigmoid(const struct writing *w, const char *x, float alpha, float beta)
{
    return xt_export_node(
        w->exporter, w->op,
        &(struct xt_onnx_node){.type = "HardSigmoid",
                               .inputs = {x},
                               .attributes = {{"alpha", .real = &alpha}, {"beta", .real = &beta}}});
}

static const char *gelu(const struct writing *w, const char *x)
{
    const char *y = one(w, "Erf", with(w, "Mul", x, 1 / sqrt(2)));
    return with(w, "Mul", two(w, "Mul", x, with(w, "Add", y, 1)), 0.5);
}

static const char *gelu_tanh(const struct writing *w, const char *x)
{
    const char *cube = two(w, "Mul", two(w, "Mul", x, x), x);
    const char *u = two(w, "Add", x, with(w, "Mul", cube, 0.044715));
    const char *y = one(w, "Tanh", with(w, "Mul", u, sqrt(2 / acos(-1))));
    return with(w, "Mul", two(w, "Mul", x, with(w, "Add", y, 1)), 0.5);
}

static const char *linear(const struct writing *w, const char *x, float alpha, float beta)
{
    x = alpha != 1 ? with(w, "Mul", x, (double)alpha) : x;
    return beta != 0 ? with(w, "Add", x, (double)beta) : x;
}

static const char *write(const struct writing *w, const struct xt_activation *a, const char *x)
{
    switch (a->kind) {
    case XT_ACT_RELU:
        return one(w, "Relu", x);
    case XT_ACT_CLIP:
        return clip(w, x, a->alpha, a->beta);
    case XT_ACT_LEAKY_RELU:
        return with_alpha(w, "LeakyRelu", x, a->alpha);
    case XT_ACT_ELU:
        return with_alpha(w, "Elu", x, a->alpha);
    case XT_ACT_SIGMOID:
        return one(w, "Sigmoid", x);
    case XT_ACT_SILU:
        return two(w, "Mul", x, one(w, "Sigmoid", x));
    case XT_ACT_HARD_SIGMOID:
        return hard_sigmoid(w, x, a->alpha, a->beta);
    case XT_ACT_HARD_SWISH:
        return two(w, "Mul", x, hard_sigmoid(w, x, 1.0F / 6, 0.5F));
    case XT_ACT_GELU:
        return gelu(w, x);
    case XT_ACT_GELU_TANH:
        return gelu_tanh(w, x);
    case XT_ACT_TANH:
        return one(w, "Tanh", x);
    case XT_ACT_SOFTPLUS:
        return one(w, "Softplus", x);
    case XT_ACT_MISH:
        return two(w, "Mul", x, one(w, "Tanh", one(w, "Softplus", x)));
    case XT_ACT_POWER:
        return with(w, "Pow", x, (double)a->alpha);
    case XT_ACT_EXP:
        return one(w, "Exp", x);
    case XT_ACT_LOG:
        return one(w, "Log", x);
    default:
        return linear(w, x, a->alpha, a->beta);
    }
}

const char *xt_export_activation(struct xt_exporter *exporter, const struct xt_op *op,
                                 const struct xt_activation *activation, const char *value,
                                 enum xt_dtype dtype)
{
    const struct writing w = {exporter, op, dtype};
    return write(&w, activation, value);
}

void xt_export_eltwise(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_activation *activation = &((const struct xt_eltwise_op *)op)->activation;
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    xt_export_out(exporter, out, xt_export_activation(exporter, op, activation, x, dtype), dtype);
}
