/* The program's networks and one more: linked before the library, whose own list is then left. */
#include "models/registry.h"

extern const struct xt_model_info xt_model_lprnet[];
extern const struct xt_model_info xt_model_resnets[];
extern const struct xt_model_info xt_model_separable[];

const struct xt_model_info *const xt_models[] = {
    xt_model_lprnet,
    xt_model_resnets,
    xt_model_separable,
    NULL,
};
