/* The element-wise functions that a network may apply, as PyTorch defines them. */
#pragma once

enum xt_activation_kind {
    XT_ACT_RELU,
    XT_ACT_CLIP,         /* to alpha .. beta; ReLU6 is 0 .. 6 */
    XT_ACT_LEAKY_RELU,   /* alpha * x below 0 */
    XT_ACT_ELU,          /* alpha * (exp(x) - 1) below 0 */
    XT_ACT_SIGMOID,      /* 1 / (1 + exp(-x)) */
    XT_ACT_SILU,         /* x * sigmoid(x) */
    XT_ACT_HARD_SIGMOID, /* clip(alpha * x + beta, 0, 1); PyTorch's are 1/6 and 1/2 */
    XT_ACT_HARD_SWISH,   /* x * clip(x / 6 + 1/2, 0, 1) */
    XT_ACT_GELU,         /* by the error function */
    XT_ACT_GELU_TANH,    /* by its approximation with tanh */
    XT_ACT_TANH,
    XT_ACT_SOFTPLUS, /* log(1 + exp(x)) */
    XT_ACT_MISH,     /* x * tanh(softplus(x)) */
    XT_ACT_POWER,    /* x to the power of alpha */
    XT_ACT_EXP,
    XT_ACT_LOG,    /* natural; NaN below 0, as PyTorch's */
    XT_ACT_LINEAR, /* alpha * x + beta */
    XT_ACT_COUNT
};

struct xt_activation {
    enum xt_activation_kind kind;
    float alpha, beta; /* where the kind takes them */
};

const char *xt_activation_name(enum xt_activation_kind kind); /* "ReLU" */
