/* Constants that a network makes for each sample, such as a mask of the batch's shape: they are
 * computed as one sample's, whose first axis stands for the batch, as far as nodes keep it. */
#include "models/onnx/read/fold.h"

/* Whether the node names axes, none of which is the first of `ndims`. */
static bool spares_first(const struct xt_fold *f, const char *attribute, int input, int ndims)
{
    int64_t axes[XT_READ_DIMS_MAX];
    int count = xt_read_ints(f->reader, f->node, attribute, input, axes);
    for (int i = 0; i < count; i++)
        if (axes[i] == 0 || axes[i] == -ndims)
            return false;
    return count > 0;
}

/* Whether the first axis of what the node gives is still the batch. */
static bool keeps_samples(const struct xt_fold *f)
{
    const struct xt_read_node *node = f->node;
    int ndims = 0;
    for (int i = 0; i < f->count; i++)
        ndims = f->in[i]->ndims > ndims ? f->in[i]->ndims : ndims;
    for (int i = 0; i < f->count; i++)
        if (f->in[i]->each_sample && f->in[i]->ndims < ndims && xt_fold_is_by_elements(node))
            return false;
    if (xt_fold_is_by_elements(node))
        return true;
    if (!f->in[0]->each_sample)
        return false;
    if (xt_read_is(node, "Reshape") || xt_read_is(node, "Expand"))
        return f->count == 2 && f->in[1]->count && f->in[1]->numbers[0] == (double)XT_READ_BATCH;
    if (xt_read_is(node, "Concat") || xt_read_is(node, "Gather")) {
        int64_t axis = xt_read_int(node, "axis", 0);
        return axis != 0 && axis != -f->in[0]->ndims;
    }
    if (xt_read_is(node, "Transpose")) {
        int64_t perm[XT_READ_DIMS_MAX];
        return xt_read_ints(f->reader, node, "perm", -1, perm) > 0 && perm[0] == 0;
    }
    return xt_read_is(node, "CumSum")      ? spares_first(f, "axis", 1, f->in[0]->ndims)
           : xt_read_is(node, "Unsqueeze") ? spares_first(f, "axes", 1, f->in[0]->ndims + 1)
           : xt_read_is(node, "Slice")     ? spares_first(f, "axes", 3, f->in[0]->ndims)
                                           : false;
}

/* A shape for one sample. */
static struct xt_read_constant *of_one_sample(struct xt_reader *reader,
                                              const struct xt_read_constant *shape)
{
    struct xt_read_constant *out = xt_fold_copy_as(reader, shape, shape->ndims, shape->dims);
    if (out && out->count)
        out->numbers[0] = 1;
    return out;
}

struct xt_read_constant *xt_fold_for_each_sample(const struct xt_fold *f)
{
    if (!keeps_samples(f))
        return NULL;
    bool has_shape =
        f->count == 2 && (xt_read_is(f->node, "Reshape") || xt_read_is(f->node, "Expand"));
    struct xt_read_constant *shape = has_shape ? of_one_sample(f->reader, f->in[1]) : NULL;
    if (has_shape)
        f->in[1] = shape;
    struct xt_read_constant *out = has_shape && !shape ? NULL : xt_fold_compute(f);
    if (!out || out->ndims < 1 || out->dims[0] != 1)
        return NULL;
    out->each_sample = true;
    return out;
}
