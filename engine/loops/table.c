#include "engine/loops/table.h"
#include "engine/loops/vector.h"

#define XT_STRING(x) #x
#define XT_EXPAND_STRING(x) XT_STRING(x)

const struct xt_loops XT_LOOPS_NAME(table) = {
    .isa = XT_EXPAND_STRING(XT_LOOPS_ISA),
    .statistics = XT_LOOPS_NAME(statistics),
    .norm_forward = XT_LOOPS_NAME(norm_forward),
    .norm_backward = XT_LOOPS_NAME(norm_backward),
    .norm_backward_apply = XT_LOOPS_NAME(norm_backward_apply),
    .relu_backward = XT_LOOPS_NAME(relu_backward),
    .gelu = XT_LOOPS_NAME(gelu),
    .gelu_backward = XT_LOOPS_NAME(gelu_backward),
    .gate_backward = XT_LOOPS_NAME(gate_backward),
    .dropout = XT_LOOPS_NAME(dropout),
    .keep = XT_LOOPS_NAME(keep),
    .max_pool = XT_LOOPS_NAME(max_pool),
    .average_pool_row = XT_LOOPS_NAME(average_pool_row),
    .sum_rows = XT_LOOPS_NAME(sum_rows),
    .scale_rows = XT_LOOPS_NAME(scale_rows),
    .convert = XT_LOOPS_NAME(convert),
    .copy_weights = XT_LOOPS_NAME(copy_weights),
    .normalise = XT_LOOPS_NAME(normalise),
    .sparse_product = XT_LOOPS_NAME(sparse_product),
    .grid_sample = XT_LOOPS_NAME(grid_sample),
    .grid_sample_backward = XT_LOOPS_NAME(grid_sample_backward),
    .recurrence = XT_LOOPS_NAME(recurrence),
    .recurrence_backward = XT_LOOPS_NAME(recurrence_backward),
    .recurrence_pack = XT_LOOPS_NAME(recurrence_pack),
    .centre = XT_LOOPS_NAME(centre),
    .zero_insert = XT_LOOPS_NAME(zero_insert),
    .normal = XT_LOOPS_NAME(normal),
    .largest = XT_LOOPS_NAME(largest),
    .depthwise = XT_LOOPS_NAME(depthwise),
    .depthwise_data_grad = XT_LOOPS_NAME(depthwise_data_grad),
    .depthwise_weight_grad = XT_LOOPS_NAME(depthwise_weight_grad),
    .weight_grad_sum = XT_LOOPS_NAME(weight_grad_sum),
    .norm_product = XT_LOOPS_NAME(norm_product),
    .norm_statistics = XT_LOOPS_NAME(norm_statistics),
#ifdef __AVX512BF16__
    .multiplies_bf16 = true,
    .weight_grad_bf16 = XT_LOOPS_NAME(weight_grad_bf16),
#endif
#ifdef XT_LOOPS_HAVE_POINTWISE_INFER
    .pointwise_int8 = XT_LOOPS_NAME(pointwise_int8),
#ifdef __AVX512BF16__
    .pointwise_bf16 = XT_LOOPS_NAME(pointwise_bf16),
#endif
#endif
#ifdef XT_LOOPS_HAVE_VECTORS
    .lanes = XT_LANES,
    .weight_grad_f32 = XT_LOOPS_NAME(weight_grad_f32),
    .weight_grad_packed = XT_LOOPS_NAME(weight_grad_packed),
    .pointwise = XT_LOOPS_NAME(pointwise),
    .pointwise_turn = XT_LOOPS_NAME(pointwise_turn),
    .pointwise_f32 = XT_LOOPS_NAME(pointwise_f32),
    .winograd = XT_LOOPS_NAME(winograd),
    .winograd_grad = XT_LOOPS_NAME(winograd_grad),
    .winograd_weights = XT_LOOPS_NAME(winograd_weights),
#endif
#ifdef XT_LOOPS_HAVE_WINOGRAD_INT8
    .winograd_int8 = XT_LOOPS_NAME(winograd_int8),
#endif
#ifdef __AMX_BF16__
    .weight_grad = XT_LOOPS_NAME(weight_grad),
    .data_grad = XT_LOOPS_NAME(data_grad),
    .tile_conv = XT_LOOPS_NAME(tile_conv),
    .patches = XT_LOOPS_NAME(patches),
#endif
};
