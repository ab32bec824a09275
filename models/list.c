/* The networks, a line each: what the registry finds. */
#include "models/registry.h"

extern const struct xt_model_info xt_model_lprnet;
extern const struct xt_model_info xt_model_resnet50;

const struct xt_model_info *const xt_models[] = {
    &xt_model_lprnet,
    &xt_model_resnet50,
    NULL,
};
