/* The back end of the CPU: ops without loops here run their program. */
#include "engine/cpu/cpu.h"

bool xt_cpu_is_large(const struct xt_tensor *tensor)
{
    enum { NEAR_MOST = 8 << 20 };
    return xt_tensor_bytes(tensor) > NEAR_MOST;
}

static const struct xt_override overrides[] = {
    {.kind = &xt_kind_input,
     .prepare = xt_cpu_input_prepare,
     .forward = xt_cpu_input_forward,
     .by_slices = &xt_cpu_input_by_slices},
    {.kind = &xt_kind_conv,
     .prepare = xt_cpu_conv_prepare,
     .refresh = xt_cpu_conv_refresh,
     .forward = xt_cpu_conv_forward,
     .backward = xt_cpu_conv_backward,
     .by_slices = &xt_cpu_conv_by_slices},
    {.kind = &xt_kind_norm,
     .prepare = xt_cpu_norm_prepare,
     .forward = xt_cpu_norm_forward,
     .backward = xt_cpu_norm_backward,
     .can_recompute = xt_cpu_norm_can_recompute,
     .recompute = xt_cpu_norm_recompute,
     .by_slices = &xt_cpu_norm_by_slices},
    {.kind = &xt_kind_pool,
     .prepare = xt_cpu_pool_prepare,
     .forward = xt_cpu_pool_forward,
     .by_slices = &xt_cpu_pool_by_slices},
    {.kind = &xt_kind_dropout,
     .prepare = xt_dropout_use,
     .forward = xt_cpu_dropout_forward,
     .backward = xt_cpu_dropout_backward,
     .by_slices = &xt_cpu_dropout_by_slices},
    {.kind = &xt_kind_eltwise,
     .prepare = xt_cpu_gelu_prepare,
     .forward = xt_cpu_gelu_forward,
     .backward = xt_cpu_gelu_backward,
     .by_slices = &xt_cpu_gelu_by_slices},
    {.kind = &xt_kind_axis_map,
     .prepare = xt_cpu_axis_map_prepare,
     .forward = xt_cpu_axis_map_forward,
     .backward = xt_cpu_axis_map_backward},
    {.kind = &xt_kind_grid_sample,
     .prepare = xt_cpu_grid_sample_prepare,
     .forward = xt_cpu_grid_sample_forward,
     .backward = xt_cpu_grid_sample_backward},
    {.kind = &xt_kind_recurrence,
     .prepare = xt_cpu_recurrence_prepare,
     .forward = xt_cpu_recurrence_forward,
     .backward = xt_cpu_recurrence_backward},
    {.kind = &xt_kind_add, .by_slices = &xt_cpu_program_by_slices},
    {.kind = &xt_kind_cast, .by_slices = &xt_cpu_program_by_slices},
    {.kind = &xt_kind_mul,
     .prepare = xt_cpu_gate_prepare,
     .backward = xt_cpu_gate_backward,
     .by_slices = &xt_cpu_program_by_slices},
    {.kind = &xt_kind_context,
     .prepare = xt_cpu_context_prepare,
     .forward = xt_cpu_context_forward,
     .backward = xt_cpu_context_backward,
     .by_slices = &xt_cpu_context_by_slices},
    {.kind = NULL},
};

const struct xt_backend xt_backend_programs = {.master_format = true};

/* Its loops support every kind of pass. */
const struct xt_backend xt_backend_cpu = {
    .averages_in_f32 = true,
    .any_pass = true,
    .by_slices = true,
    .master_format = true,
    .copy_weights = xt_cpu_copy_weights,
    .copy_values = xt_cpu_copy_values,
    .overrides = overrides,
};
