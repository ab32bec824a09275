/* What fold.c and each_sample.c share: the arithmetic of constants. */
#pragma once

#include "models/onnx/read/reader.h"

/* A node whose inputs are known. */
struct xt_fold {
    struct xt_reader *reader;
    const struct xt_read_node *node;
    struct xt_read_constant **in;
    int count;
};

/* What the node gives; NULL: it is not known how, or too large. */
struct xt_read_constant *xt_fold_compute(const struct xt_fold *f);
/* The same where an input is the same for each sample, as the output is then. */
struct xt_read_constant *xt_fold_for_each_sample(const struct xt_fold *f);
/* Whether it computes element by element, with broadcasting. */
bool xt_fold_is_by_elements(const struct xt_read_node *node);
/* The shape that several have together; false where they have none. */
bool xt_fold_broadcast(struct xt_read_constant *const in[], int count,
                       struct xt_read_constant *out);
/* The element that stands where `index` is in the larger shape: broadcast, or repeated. */
double xt_fold_element(const struct xt_read_constant *in, const struct xt_read_constant *shape,
                       size_t index);
/* As many numbers in another shape. */
struct xt_read_constant *xt_fold_copy_as(struct xt_reader *reader,
                                         const struct xt_read_constant *in, int ndims,
                                         const int64_t dims[]);
