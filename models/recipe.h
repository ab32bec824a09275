/* A model's recipes: the settings that train it well, as lists of options and values, both spelt as
 * on the command line ({"batch", "64"}). They stand between the general defaults and what the user
 * says. A list ends in an item without a name.
 */
#ifndef XT_MODELS_RECIPE_H
#define XT_MODELS_RECIPE_H

struct xt_recipe_item {
    const char *option; /* without "--" */
    const char *value;  /* flags: "true" or "false" */
};

struct xt_recipes {
    const struct xt_recipe_item *train;     /* from whatever weights; NULL: none */
    const struct xt_recipe_item *fine_tune; /* over it, from given weights (--init); NULL: none */
};

#endif
