#include "models/registry.h"

#include <string.h>

#include "base/str.h"

extern const struct xt_model_info xt_model_lprnet;
extern const struct xt_model_info xt_model_resnet50;

static const struct xt_model_info *const models[] = {
    &xt_model_lprnet,
    &xt_model_resnet50,
};

const struct xt_model_info *const *xt_model_all(size_t *count)
{
    *count = sizeof models / sizeof models[0];
    return models;
}

const struct xt_model_info *xt_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}

enum xt_status xt_model_get(const char *name, const struct xt_model_info **out, struct xt_err *err)
{
    *out = xt_model_find(name);
    if (*out)
        return XT_OK;
    struct xt_str names = {0};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < sizeof models / sizeof models[0] && !status; i++)
        status = xt_str_printf(&names, err, "%s%s", i ? ", " : "", models[i]->name);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "--model %s: there is no such network; there is %s",
                            name, xt_str_get(&names));
    xt_str_clear(&names);
    return status;
}

const struct xt_recipe_item *xt_model_recipe(const char *name)
{
    const struct xt_model_info *model = xt_model_find(name);
    return model ? model->recipe : NULL;
}
