/* What a convolution's kernel covers at each place, side by side as channels, so that it is a 1x1
 * convolution of them: for kernels over few numbers.
 */
#pragma once

/* Most numbers that a kernel covers. */
enum { XT_PATCH_MAX = 64 };

/* One sample in bf16: [h][w][c] to [out_h][out_w][width]. */
struct xt_patches {
    int h, w, c, out_h, out_w;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int width; /* kernel_h * kernel_w * c, then zeros up to a multiple of 32 */
};
typedef void xt_patches_loop(const struct xt_patches *job, const void *in, void *out);
