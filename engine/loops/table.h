/* The functions of one instruction set's build, named by XT_LOOPS_NAME; documented in loops.h.
 */
#pragma once

#include "engine/loops/element.h"
#include "engine/loops/loops.h"

void XT_LOOPS_NAME(statistics)(enum xt_dtype dtype, const void *z, size_t pixels, int c,
                               const float *pivot, double *sums, double *squares, float *scratch);
void XT_LOOPS_NAME(norm_forward)(const struct xt_norm_sample *sample);
void XT_LOOPS_NAME(norm_backward)(const struct xt_norm_sample *sample);
/* The same without max pools; false, doing nothing, if the case is not supported. */
bool XT_LOOPS_NAME(norm_strips_forward)(const struct xt_norm_sample *sample);
bool XT_LOOPS_NAME(norm_strips_backward)(const struct xt_norm_sample *sample);
void XT_LOOPS_NAME(norm_backward_apply)(enum xt_dtype dtype, const void *da, const void *z,
                                        size_t pixels, int c, const float *factors, void *dz,
                                        bool far);
void XT_LOOPS_NAME(relu_backward)(enum xt_dtype dtype, const void *y, void *dy, const void *more,
                                  size_t count);
void XT_LOOPS_NAME(gelu)(enum xt_dtype dtype, const void *in, size_t count, void *out);
void XT_LOOPS_NAME(gelu_backward)(enum xt_dtype dtype, const void *in, const void *dy, size_t count,
                                  void *dx);
void XT_LOOPS_NAME(gate_backward)(enum xt_dtype dtype, const void *x, const void *gate, void *dy,
                                  size_t pixels, int c, float *sums);
void XT_LOOPS_NAME(dropout)(enum xt_dtype dtype, const void *in, void *out, size_t count,
                            uint32_t key, uint32_t first, uint32_t threshold, float factor);
void XT_LOOPS_NAME(keep)(uint8_t *out, size_t count, uint32_t key, uint32_t first,
                         uint32_t threshold);
void XT_LOOPS_NAME(max_pool)(enum xt_dtype dtype, const void *in, int h, int w, int c,
                             const struct xt_window *window, const int rows[2], float *scratch,
                             void *out);
void XT_LOOPS_NAME(average_pool_row)(enum xt_dtype dtype, const void *in, int w, int c,
                                     const struct xt_window *window, int oy, float factor,
                                     float *scratch, float *out);
double XT_LOOPS_NAME(sum_rows)(const float *in, int h, int w, int c, float *out, size_t stride);
void XT_LOOPS_NAME(scale_rows)(float *numbers, int w, int c, size_t stride, float factor);
void XT_LOOPS_NAME(convert)(enum xt_dtype dtype, const float *in, size_t count, void *out);
void XT_LOOPS_NAME(copy_weights)(const struct xt_weight_copy *copy, size_t first, size_t end);
void XT_LOOPS_NAME(normalise)(enum xt_dtype dtype, const uint8_t *in, size_t count,
                              const float mean[3], const float scale[3], void *out);
void XT_LOOPS_NAME(grid_sample)(const struct xt_grid_points *points, enum xt_dtype dtype,
                                const void *image, void *out);
void XT_LOOPS_NAME(grid_sample_backward)(const struct xt_grid_points *points, enum xt_dtype dtype,
                                         const void *image, const void *dout, float *dimage,
                                         float *dgrid);
xt_recurrence_loop XT_LOOPS_NAME(recurrence);
xt_recurrence_loop XT_LOOPS_NAME(recurrence_backward);
xt_recurrence_pack_loop XT_LOOPS_NAME(recurrence_pack);
void XT_LOOPS_NAME(sparse_product)(enum xt_dtype dtype, const struct xt_sparse_rows *rows,
                                   const int part[2], const float *fill, const void *from,
                                   size_t inner, void *to);
void XT_LOOPS_NAME(centre)(const uint8_t *in, size_t count, int8_t *out);
void XT_LOOPS_NAME(zero_insert)(const void *pixels, size_t bytes, const int size[2],
                                const int strides[2], void *to);
void XT_LOOPS_NAME(normal)(struct xt_rng rng, size_t first, size_t count, float scale, float *out);
float XT_LOOPS_NAME(largest)(const float *in, size_t count);
xt_depthwise_loop XT_LOOPS_NAME(depthwise);
xt_depthwise_loop XT_LOOPS_NAME(depthwise_data_grad);
xt_depthwise_sums_loop XT_LOOPS_NAME(depthwise_weight_grad);
xt_weight_grad_sum_loop XT_LOOPS_NAME(weight_grad_sum);
xt_norm_product_loop XT_LOOPS_NAME(norm_product);
xt_norm_statistics_loop XT_LOOPS_NAME(norm_statistics);
extern const struct xt_loops XT_LOOPS_NAME(table);

#ifdef __AVX512BW__
/* Faster versions of the functions of the same names; false, doing nothing, if the case is not
 * supported. */
bool XT_LOOPS_NAME(norm_wide_forward)(const struct xt_norm_sample *sample);
bool XT_LOOPS_NAME(norm_wide_backward)(const struct xt_norm_sample *sample);
bool XT_LOOPS_NAME(norm_wide_apply)(enum xt_dtype dtype, const void *da, const void *z,
                                    size_t pixels, int c, const float *factors, void *dz, bool far);
bool XT_LOOPS_NAME(norm_wide_statistics)(enum xt_dtype dtype, const void *z, size_t pixels, int c,
                                         const float *pivot, double *sums, double *squares);
#endif
#if defined __AVX512BW__ && !defined __AMX_BF16__
#define XT_LOOPS_HAVE_POINTWISE_INFER
xt_pointwise_infer_loop XT_LOOPS_NAME(pointwise_int8);
#ifdef __AVX512BF16__
xt_pointwise_infer_loop XT_LOOPS_NAME(pointwise_bf16);
#endif
#endif
#if defined __AVX2__ && !defined __AVX512F__
#define XT_LOOPS_HAVE_WINOGRAD_INT8
xt_winograd_loop XT_LOOPS_NAME(winograd_int8);
#endif
#ifdef __AVX512BF16__
xt_weight_grad_loop XT_LOOPS_NAME(weight_grad_bf16);
#endif
#ifdef __AVX2__
xt_weight_grad_loop XT_LOOPS_NAME(weight_grad_f32);
xt_weight_grad_loop XT_LOOPS_NAME(weight_grad_packed);
xt_pointwise_loop XT_LOOPS_NAME(pointwise);
xt_pointwise_turn_loop XT_LOOPS_NAME(pointwise_turn);
xt_pointwise_infer_loop XT_LOOPS_NAME(pointwise_f32);
xt_winograd_loop XT_LOOPS_NAME(winograd);
xt_winograd_grad_loop XT_LOOPS_NAME(winograd_grad);
xt_winograd_weights_loop XT_LOOPS_NAME(winograd_weights);
#endif
#ifdef __AMX_BF16__
xt_weight_grad_loop XT_LOOPS_NAME(weight_grad);
xt_data_grad_loop XT_LOOPS_NAME(data_grad);
xt_tile_conv_loop XT_LOOPS_NAME(tile_conv);
xt_patches_loop XT_LOOPS_NAME(patches);
#endif
