/* The back end of the CPU: convolutions and GELU are their programs, the rest are loops. */
#include "models/graph/cpu/cpu.h"

static const struct xt_override overrides[] = {
    {&xt_kind_input, xt_cpu_input_prepare, xt_cpu_input_forward, NULL, NULL, NULL},
    {&xt_kind_conv, xt_cpu_conv_prepare, NULL, xt_cpu_conv_backward, NULL, NULL},
    {&xt_kind_norm, xt_cpu_norm_prepare, xt_cpu_norm_forward, xt_cpu_norm_backward,
     xt_cpu_norm_can_again, xt_cpu_norm_again},
    {&xt_kind_pool, xt_cpu_pool_prepare, xt_cpu_pool_forward, NULL, NULL, NULL},
    {&xt_kind_dropout, xt_dropout_use, xt_cpu_dropout_forward, xt_cpu_dropout_backward, NULL, NULL},
    {&xt_kind_context, xt_cpu_context_prepare, xt_cpu_context_forward, xt_cpu_context_backward,
     NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

const struct xt_backend xt_backend_programs = {.master_format = true};

/* Its loops run whatever pass they are asked for. */
const struct xt_backend xt_backend_cpu = {
    .averages_in_f32 = true,
    .any_pass = true,
    .master_format = true,
    .overrides = overrides,
};
