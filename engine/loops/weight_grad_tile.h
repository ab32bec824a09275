/* What the loops of weight gradients in bf16 share: a tile of the gradient. */
#pragma once

#include <immintrin.h>

#include "engine/loops/element.h"
#include "engine/loops/weight_grad_job.h"

enum { CHANNELS = XT_TILE_CHANNELS, SUMS = CHANNELS * CHANNELS };

/* The lanes of a tile's channels, of which `left` are left. */
XT_INLINE __mmask16 tile_mask(int left)
{
    return (__mmask16)(left >= CHANNELS ? 0xFFFF : (1 << left) - 1);
}
