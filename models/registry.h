/* The networks: what each one reads, how it is described, and the recipes that train it
 * well.
 *
 * A new network, or a family of them, is one file that defines an array of `struct xt_model_info`,
 * and one line in list.c. All
 * constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/graph.h"
#include "engine/net/net.h"
#include "models/recipe.h"

/* Larger than the weight file of any network here: ResNet-50 with the most classes takes 0.6 GB, a
 * checkpoint of it with two optimizer arrays three times that. */
#define XT_MODEL_BYTES_MAX ((size_t)2 << 30)

struct xt_model_options {
    int classes;                   /* LPRNet: symbols, the blank included */
    int height, width;             /* of the images; the model's own unless it takes any_size */
    struct xt_normalise normalise; /* zeroed: the model's own */
    bool context_over_batch; /* LPRNet's global context as published: the mean square over the batch
                              */
};

enum { XT_CLASS_LAYERS_MAX = 4 };

/* A layer with one channel per class, in their order: from weights for other classes the rows of
 * the classes that remain can be retained. */
struct xt_class_layer {
    const char *name;
    bool is_head;      /* its outputs are the logits */
    bool last_columns; /* its last inputs are a class layer's channels */
};

struct xt_model_info {
    const char *name;
    const char *title; /* for people */
    bool in_selftest;  /* part of the self-test without --model: the others have the same ops */
    int height, width; /* of the input, pixels; the default where any_size */
    bool any_size;
    int smallest;      /* least height and width, where any_size */
    bool bgr;          /* pixel order; RGB else */
    bool grey;         /* of one channel */
    float mean, scale; /* the network reads (byte - mean) * scale, by default */
    /* Normalisation of published weights, whose metadata lacks it: a name of xt_normalise_parse;
     * NULL: the same. */
    const char *published;
    int classes;      /* of a network from a file; 0 else */
    int time_steps;   /* CTC: columns of the logits; 0 for a classifier */
    const char *head; /* the first classifier head of class_layers, which are replaced when the
                         classes change; NULL: none */
    struct xt_class_layer class_layers[XT_CLASS_LAYERS_MAX + 1]; /* end in one without a name; none:
                                                                    unknown */
    float initial_bias;
    const char *default_data; /* used without --data */
    const char *default_val;
    struct xt_recipes recipes;
    /* Describes the network as data; returns the logits, [1][time_steps][classes] ([1][1][classes]
     * of a classifier). Called by xt_model_net. */
    struct xt_value *(*describe)(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options);
    const void *variant; /* the family's parameters, for its describe */
};

/* What classifiers of 224 x 224 pixels share, whose published weights are ImageNet's. */
#define XT_MODEL_OF_IMAGENET                                                                       \
    .height = 224, .width = 224, .any_size = true, .smallest = 32, .mean = 127.5F,                 \
    .scale = 1 / 127.5F, .published = "imagenet",                                                  \
    .default_data = "synth:shapes?count=20000&seed=1",                                             \
    .default_val = "synth:shapes?count=1000&seed=2"

/* All networks, in list.c: for each family an array that ends in one without a name; ends in NULL.
 * A test may link a list of its own. */
extern const struct xt_model_info *const xt_models[];

/* The model's default normalisation. */
struct xt_normalise xt_model_normalise(const struct xt_model_info *model);
/* In metadata and for people: "RGB", "BGR" or "GREY". */
const char *xt_model_pixel_order(const struct xt_model_info *model);

/* NULL where no network has that name, in whatever case, with or without - and _. */
const struct xt_model_info *xt_model_find(const char *name);
/* Which of the layers (NULL: none) the tensor, "fc.weight", is of; NULL: of none. */
const struct xt_class_layer *xt_class_layer_of(const struct xt_class_layer *layers,
                                               const char *tensor);
/* Whether that is a head. */
bool xt_is_of_head(const struct xt_class_layer *layers, const char *tensor);
/* The i-th; NULL past the last. */
const struct xt_model_info *xt_model_at(size_t i);
/* As xt_model_find, with an error that lists the networks. */
enum xt_status xt_model_get(const char *name, const struct xt_model_info **out, struct xt_err *err);

/* The network as data, which the caller destroys. */
enum xt_status xt_model_net(const struct xt_model_info *model,
                            const struct xt_model_options *options, struct xt_net **out,
                            struct xt_err *err);
/* Describes the network on an empty graph; logits of another shape than the loss reads are refused.
 * NULL after a failure, which is in the graph. */
struct xt_tensor *xt_model_describe(const struct xt_model_info *model, struct xt_graph *graph,
                                    const struct xt_model_options *options);

/* For display: the title; of a file, its name. */
const char *xt_model_title(const char *name);
/* Images to train on when none are given. */
const char *xt_model_default_data(const char *name);

/* The recipes of a model by name, empty where there is none; for the option parser. */
struct xt_recipes xt_model_recipes(const char *name);
