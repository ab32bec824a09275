#include "device/gpu/back_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "device/dnnl.h"
#include "device/gpu/opencl.h"

bool xt_back_end_is_opencl(const struct xt_back_end_choice *choice)
{
    if (choice->settled || choice->level_zero == 0)
        return false;
    return choice->masked ? choice->opencl == choice->level_zero
                          : choice->opencl >= choice->level_zero;
}

bool xt_back_end_choose(struct xt_back_end_choice *out, const struct xt_level_zero *zero)
{
    const char *selector = getenv("ONEAPI_DEVICE_SELECTOR");
    *out = (struct xt_back_end_choice){
        .level_zero = xt_level_zero_count(zero),
        .masked = getenv("ZE_AFFINITY_MASK") != NULL,
        .settled = (selector && *selector) || xt_dnnl_is_experimental(),
    };
    if (out->level_zero && !out->settled)
        out->opencl = xt_opencl_shared_count();
    return xt_back_end_is_opencl(out) && setenv("ONEAPI_DEVICE_SELECTOR", "opencl:gpu", 1) == 0;
}

void xt_back_end_say(const struct xt_back_end_choice *choice, const char *taken, char *out,
                     size_t size)
{
    bool opencl = xt_back_end_is_opencl(choice);
    *out = '\0';
    if (choice->settled || choice->level_zero == 0 ||
        strcmp(taken, opencl ? "OpenCL" : "Level Zero") != 0)
        return;
    if (opencl)
        snprintf(out, size, "through OpenCL, where the program's own kernels run");
    else
        snprintf(out, size, "through Level Zero, which has %s%s; OpenCL has %d with shared memory",
                 xt_count(choice->level_zero, "GPU").text,
                 choice->masked ? " by ZE_AFFINITY_MASK" : "", choice->opencl);
}
