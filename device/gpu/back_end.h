/* The back end over which oneDNN's SYCL runtime reaches the GPUs: Level Zero, which it prefers, or
 * OpenCL, over which the program's own kernels run (kernels/own.h). Stateless.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device/gpu/level_zero.h"

struct xt_back_end_choice {
    int level_zero; /* the number of its GPUs */
    int opencl;     /* and of those with unified shared memory */
    bool masked;    /* ZE_AFFINITY_MASK leaves Level Zero fewer than there are */
    bool settled;   /* by ONEAPI_DEVICE_SELECTOR, or by a runtime that has one alone */
};

/* Whether it is OpenCL: nobody has chosen, and it has all the GPUs of Level Zero. */
bool xt_back_end_is_opencl(const struct xt_back_end_choice *choice);

/* Counts what both offer, and selects OpenCL for this process if it is that; true:
 * ONEAPI_DEVICE_SELECTOR has been set. `zero` may be NULL. After oneDNN was loaded and Level Zero,
 * which a selector would exclude, opened; before SYCL looks for GPUs. */
bool xt_back_end_choose(struct xt_back_end_choice *out, const struct xt_level_zero *zero);

/* Why a GPU is reached over `taken` ("OpenCL", "Level Zero"), in a few words; "" where there was no
 * choice, or the runtime took another. */
void xt_back_end_say(const struct xt_back_end_choice *choice, const char *taken, char *out,
                     size_t size);
