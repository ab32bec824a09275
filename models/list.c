/* The networks of the registry, a line a family. */
#include "models/registry.h"

extern const struct xt_model_info xt_model_lprnet[];
extern const struct xt_model_info xt_model_resnets[];
extern const struct xt_model_info xt_model_mobilenets[];
extern const struct xt_model_info xt_model_efficientnets[];

const struct xt_model_info *const xt_models[] = {
    xt_model_lprnet, xt_model_resnets, xt_model_mobilenets, xt_model_efficientnets, NULL,
};
