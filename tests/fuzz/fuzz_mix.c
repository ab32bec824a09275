/* Any bytes as a mixture's file; what is taken can be mixed. */
#include <stdbool.h>
#include <stdlib.h>

#include "data/sources/mix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_mix_plan plan = {0};
    struct xt_err err;
    bool good = !xt_mix_parse(&plan, "mix.yaml", data, size, &err);
    for (size_t i = 0; good && i < plan.count; i++)
        if (!plan.parts[i].data || !*plan.parts[i].data || !(plan.parts[i].weight > 0))
            abort();
    if (good && (plan.count == 0 || plan.count > XT_MIX_SOURCES_MAX))
        abort();
    xt_mix_plan_clear(&plan);
    return 0;
}
