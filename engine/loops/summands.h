/* Numbers of float32 as sums of three of bf16, for products by matrix tiles: to the last bit but
 * one (G. Henry, P. Tang, A. Heinecke, arXiv:1904.06376).
 */
#pragma once

#include <stdbool.h>

enum { XT_SUMMANDS = 3, XT_SPLIT = 32 /* numbers at a time */ };

/* Of a number of float32; else of bf16, which is one itself. */
static inline int xt_summands_of(bool f32)
{
    return f32 ? XT_SUMMANDS : 1;
}
