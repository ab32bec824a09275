/* The networks: what each one reads, how it is described, and the recipes that train it
 * well.
 *
 * A new network, or a family of them, is one file that defines an array of `struct xt_model_info`,
 * and one line in list.c. All
 * constant.
 */
#ifndef XT_MODELS_REGISTRY_H
#define XT_MODELS_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/graph.h"
#include "engine/net.h"
#include "models/recipe.h"

/* More than the weights of any network here take in a file: ResNet-50 of the most classes takes 0.6
 * GB, a checkpoint of it with two arrays of the optimizer three times that. */
#define XT_MODEL_BYTES_MAX ((size_t)2 << 30)

struct xt_model_options {
    int classes;                   /* LPRNet: symbols, the blank included */
    int height, width;             /* of the images; the model's own unless it takes any_size */
    struct xt_normalise normalise; /* zeroed: the model's own */
    bool context_over_batch; /* LPRNet's global context as published: the mean square over the batch
                              */
};

/* A layer whose channels are the classes, one by one and in their order: of weights for other
 * classes those of the classes that remain can be kept. */
struct xt_class_layer {
    const char *name;
    bool is_head;      /* its outputs are the logits */
    bool last_columns; /* it reads a class layer's channels too, as the last of its inputs */
};

struct xt_model_info {
    const char *name;
    const char *title; /* for people */
    bool in_selftest;  /* held op by op where no --model says which: the others have the same ops */
    int height, width; /* of the input, pixels; unless the run says otherwise where any_size */
    bool any_size;
    int smallest;      /* height and width that it takes at least, where any_size */
    bool bgr;          /* pixel order; RGB else */
    float mean, scale; /* the network reads (byte - mean) * scale, unless the run says otherwise */
    /* What weights from elsewhere read, which do not say it themselves: a name of
     * xt_normalise_parse; NULL: the same. */
    const char *published;
    int classes;      /* that the file's network tells apart, of one from a file; 0 else */
    int time_steps;   /* CTC: columns of the logits; 0 for a classifier */
    const char *head; /* the layer that is one of classes and replaced with them; NULL: none */
    const struct xt_class_layer *class_layers; /* ends in one without a name; NULL: none is known */
    float initial_bias;
    const char *default_data; /* trained on when no --data is given */
    const char *default_val;
    struct xt_recipes recipes;
    /* Describes the network as data; returns the logits, [1][time_steps][classes] ([1][1][classes]
     * of a classifier). Called by xt_model_net. */
    struct xt_value *(*describe)(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options);
    const void *variant; /* of a family, what its describe goes by */
};

/* The networks that there are, in list.c: of each family an array that ends in one without a name;
 * ends in NULL. A test may link a list of its own. */
extern const struct xt_model_info *const xt_models[];

/* What the model reads unless someone says otherwise. */
struct xt_normalise xt_model_normalise(const struct xt_model_info *model);

/* NULL where there is none of that name. */
const struct xt_model_info *xt_model_find(const char *name);
/* The i-th; NULL behind the last. */
const struct xt_model_info *xt_model_at(size_t i);
/* As xt_model_find, with an error that names what there is. */
enum xt_status xt_model_get(const char *name, const struct xt_model_info **out, struct xt_err *err);

/* The network as data, which the caller destroys. */
enum xt_status xt_model_net(const struct xt_model_info *model,
                            const struct xt_model_options *options, struct xt_net **out,
                            struct xt_err *err);
/* Describes the network on a fresh graph; logits of another shape than the loss reads are refused.
 * NULL where that failed, with the failure in the graph. */
struct xt_tensor *xt_model_describe(const struct xt_model_info *model, struct xt_graph *graph,
                                    const struct xt_model_options *options);

/* For people: the title, else the name itself, of a file. */
const char *xt_model_title(const char *name);
/* Images that it can be trained on when none are given. */
const char *xt_model_default_data(const char *name);

/* The recipes of a model by name, empty where there is none: what the option parser asks for. */
struct xt_recipes xt_model_recipes(const char *name);

#endif
