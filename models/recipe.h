/* A model's recipes: settings that train it well, as lists of options and values, both spelt as on
 * the command line ({"batch", "64"}). They override the general defaults, and the user overrides
 * them. A list ends in an item without a name.
 */
#pragma once

struct xt_recipe_item {
    const char *option; /* without "--" */
    const char *value;  /* flags: "true" or "false" */
};

struct xt_recipes {
    const struct xt_recipe_item *train; /* from any weights; NULL: no recipe */
    const struct xt_recipe_item
        *fine_tune; /* overrides it when starting from weights (--init); NULL: no recipe */
};
