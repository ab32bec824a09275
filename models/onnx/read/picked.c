/* Operations that PyTorch's newer exporter (dynamo=True) writes as elements picked by their
 * indices.
 */
#include <string.h>

#include "models/onnx/read/fold.h"
#include "models/onnx/read/patterns.h"

/* Whole numbers as an input. */
static struct xt_read_value *list_of(struct xt_reader *reader, const int64_t numbers[], int count)
{
    struct xt_read_value *out = xt_reader_take(reader, 1, sizeof *out);
    struct xt_read_constant *constant = xt_read_make(reader, 1, (const int64_t[]){count}, false);
    if (!out || !constant)
        return NULL;
    for (int i = 0; i < count; i++)
        constant->numbers[i] = (double)numbers[i];
    *out = (struct xt_read_value){.name = "", .constant = constant};
    return out;
}

/* ---- strides ---- */

/* Indices into all elements: those of the first axis, whose length is the batch, times `step`, and
 * constants that are added to them. */
struct strided {
    double step;
    int ndims;
    struct xt_read_constant *parts[XT_READ_DIMS_MAX];
    int count;
};

/* Range(0, n, 1) times a number, along the first of several axes. */
static bool take_rows(struct xt_reader *reader, struct xt_read_node *unsqueeze, struct strided *out)
{
    int64_t axes[XT_READ_DIMS_MAX];
    double from = 1;
    double by = 0;
    int count = xt_read_ints(reader, unsqueeze, "axes", 1, axes);
    struct xt_read_value *rows = unsqueeze->input_count ? unsqueeze->inputs[0] : NULL;
    struct xt_read_node *product = xt_match_made_by(rows, "Mul");
    out->step = 1;
    if (product)
        rows = xt_match_beside_number(reader, product, &out->step);
    const struct xt_read_node *range = xt_match_made_by(rows, "Range");
    if (!range || range->input_count != 3 || out->ndims || count < 1 ||
        !xt_match_number_of(reader, range->inputs[0], &from) || from != 0 ||
        !xt_match_number_of(reader, range->inputs[2], &by) || by != 1)
        return false;
    for (int i = 0; i < count; i++)
        if (axes[i] != i + 1)
            return false;
    out->ndims = count + 1;
    return true;
}

static bool take_indices(struct xt_reader *reader, struct xt_read_value *value, int depth,
                         struct strided *out)
{
    struct xt_read_value *own = xt_match_origin(value);
    struct xt_read_constant *constant = own ? xt_read_constant_of(reader, own) : NULL;
    struct xt_read_node *sum = xt_match_made_by(own, "Add");
    if (constant && !constant->is_float && out->count < XT_READ_DIMS_MAX) {
        out->parts[out->count++] = constant;
        return true;
    }
    if (sum && sum->input_count == 2 && depth > 0)
        return take_indices(reader, sum->inputs[0], depth - 1, out) &&
               take_indices(reader, sum->inputs[1], depth - 1, out);
    return xt_match_made_by(own, "Unsqueeze") &&
           take_rows(reader, xt_match_made_by(own, "Unsqueeze"), out);
}

/* Whether the indices are those of all elements in their order; then the axes' lengths. */
static bool are_in_order(struct xt_reader *reader, const struct strided *strided,
                         struct xt_read_constant *shape)
{
    double none = 0;
    struct xt_read_constant one = {.ndims = strided->ndims, .numbers = &none};
    struct xt_read_constant *parts[XT_READ_DIMS_MAX + 1] = {&one};
    size_t count = 1;
    for (int i = 0; i < one.ndims; i++)
        one.dims[i] = 1;
    for (int p = 0; p < strided->count; p++) {
        parts[1 + p] = strided->parts[p];
        bool fits = !parts[1 + p]->ndims ||
                    (parts[1 + p]->ndims == one.ndims && parts[1 + p]->dims[0] == 1);
        if (!fits || !xt_read_numbers(reader, parts[1 + p]))
            return false;
    }
    if (!xt_fold_broadcast(parts, 1 + strided->count, shape))
        return false;
    for (int i = 1; i < shape->ndims; i++) {
        if (shape->dims[i] < 1 || shape->dims[i] > (int64_t)(XT_READ_STORED_MAX / count))
            return false;
        count *= (size_t)shape->dims[i];
    }
    for (size_t element = 0; element < count; element++) {
        double index = 0;
        for (int p = 0; p <= strided->count; p++)
            index += xt_fold_element(parts[p], shape, element);
        if (index != (double)element)
            return false;
    }
    return strided->step == (double)count;
}

/* PyTorch's newer exporter writes as_strided, which sides of one element may need, as elements
 * picked from all of them; where these are all in their order, they only get other axes. */
bool xt_match_strides(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { DEPTH = 6 };
    struct strided strided = {0};
    struct xt_read_constant indices;
    struct xt_read_node *flat =
        xt_read_is(node, "Gather") && node->input_count == 2 && xt_read_int(node, "axis", 0) == 0
            ? xt_match_made_by(node->inputs[0], "Reshape")
            : NULL;
    int64_t shape[XT_READ_DIMS_MAX];
    if (!flat || xt_read_ints(reader, flat, "shape", 1, shape) != 1 || shape[0] != -1 ||
        !take_indices(reader, node->inputs[1], DEPTH, &strided) || !strided.ndims ||
        !are_in_order(reader, &strided, &indices))
        return false;
    indices.dims[0] = -1;
    struct xt_read_value *wanted = list_of(reader, indices.dims, strided.ndims);
    return wanted && xt_match_replace(reader, node, "Reshape",
                                      (struct xt_read_value *[]){flat->inputs[0], wanted}, 2);
}

/* ---- adaptive pools ---- */

/* Windows of an image as PyTorch takes those that are not all alike: elements picked by rows and
 * columns, 0 where a window is shorter than the longest one. */
struct windows {
    struct xt_read_value *image;           /* [n][c][h][w] */
    const struct xt_read_constant *picked; /* [out h][kernel h][out w][kernel w][2] */
    struct xt_read_constant *outside[2];
    int outside_count;
};

static bool has_perm(struct xt_reader *reader, const struct xt_read_node *node,
                     const int64_t wanted[], int count)
{
    int64_t perm[XT_READ_DIMS_MAX];
    return xt_read_ints(reader, node, "perm", -1, perm) == count &&
           memcmp(perm, wanted, (size_t)count * sizeof *perm) == 0;
}

/* What makes the value of one input, where it is that operator. */
static struct xt_read_node *made_by(struct xt_read_value *value, const char *op, int inputs)
{
    struct xt_read_node *node = value ? xt_match_made_by(value, op) : NULL;
    return node && node->input_count >= inputs ? node : NULL;
}

static bool find_windows(struct xt_reader *reader, struct xt_read_value *value, struct windows *out)
{
    static const int64_t sides_first[] = {2, 3, 0, 1};
    static const int64_t sides_last[] = {4, 5, 0, 1, 2, 3};
    struct xt_read_node *where;
    double zero = 1;
    while (out->outside_count < 2 && (where = made_by(value, "Where", 3)) &&
           xt_match_number_of(reader, where->inputs[1], &zero) && zero == 0) {
        struct xt_read_constant *outside = xt_read_constant_of(reader, where->inputs[0]);
        if (!outside || !xt_read_numbers(reader, outside))
            return false;
        out->outside[out->outside_count++] = outside;
        value = where->inputs[2];
    }
    const struct xt_read_node *last = made_by(value, "Transpose", 1);
    struct xt_read_node *gather = last ? made_by(last->inputs[0], "GatherND", 2) : NULL;
    const struct xt_read_node *first = gather ? made_by(gather->inputs[0], "Transpose", 1) : NULL;
    struct xt_read_constant *picked = first ? xt_read_constant_of(reader, gather->inputs[1]) : NULL;
    if (!picked || picked->ndims != 5 || picked->dims[4] != 2 || !picked->count ||
        !xt_read_numbers(reader, picked) || xt_read_int(gather, "batch_dims", 0) != 0 ||
        !has_perm(reader, last, sides_last, 6) || !has_perm(reader, first, sides_first, 4))
        return false;
    out->image = first->inputs[0];
    out->picked = picked;
    return true;
}

/* The element [..., i, :, j] of all windows: of what. */
static struct xt_read_value *element_of(struct xt_reader *reader, struct xt_read_value *value,
                                        int64_t *i, int64_t *j)
{
    double at[2] = {-1, -1};
    for (int axis = 4; axis >= 3; axis--) {
        struct xt_read_node *select = made_by(value, "Gather", 2);
        if (!select || xt_read_int(select, "axis", 0) != axis ||
            !xt_match_number_of(reader, select->inputs[1], &at[axis - 3]))
            return NULL;
        value = select->inputs[0];
    }
    *i = xt_read_whole(at[0]);
    *j = xt_read_whole(at[1]);
    return value;
}

/* A sum of the elements of each window, every one of them once. */
static bool find_sum(struct xt_reader *reader, struct xt_read_value *sum, struct windows *out)
{
    int64_t i = 0;
    int64_t j = 0;
    struct xt_read_node *add = made_by(sum, "Add", 2);
    struct xt_read_value *all = add ? element_of(reader, add->inputs[1], &i, &j) : NULL;
    if (!all || !find_windows(reader, all, out))
        return false;
    size_t columns = (size_t)out->picked->dims[3];
    size_t left = (size_t)out->picked->dims[1] * columns;
    bool *seen = xt_reader_take(reader, left, sizeof *seen);
    while (seen && left) {
        struct xt_read_value *element = add ? add->inputs[1] : sum;
        if (element_of(reader, element, &i, &j) != all || i < 0 || i >= out->picked->dims[1] ||
            j < 0 || j >= (int64_t)columns || seen[(size_t)i * columns + (size_t)j])
            return false;
        seen[(size_t)i * columns + (size_t)j] = true;
        left--;
        sum = add ? add->inputs[0] : NULL;
        add = made_by(sum, "Add", 2);
    }
    return seen && !sum;
}

/* A mean of the elements of each window. */
static bool find_mean(struct xt_reader *reader, const struct xt_read_node *node,
                      struct windows *out)
{
    int64_t axes[XT_READ_DIMS_MAX];
    return xt_read_ints(reader, node, "axes", 1, axes) == 2 &&
           xt_read_int(node, "keepdims", 1) == 0 && axes[0] == 3 && axes[1] == 5 &&
           find_windows(reader, node->inputs[0], out) && !out->outside_count;
}

/* One side's windows. */
struct side {
    int64_t in, out, kernel;
};

/* Whether the windows are those of adaptive pooling, and the numbers that their sums are divided
 * by, if there are such, their sizes. */
static bool are_adaptive(const struct windows *windows, const struct xt_read_constant *divisor,
                         const struct side sides[2])
{
    struct xt_read_constant each = {
        .ndims = 4, .dims = {sides[0].out, sides[0].kernel, sides[1].out, sides[1].kernel}};
    const struct xt_read_constant size = {.ndims = 2, .dims = {sides[0].out, sides[1].out}};
    const double *picked = windows->picked->numbers;
    for (size_t element = 0; element < windows->picked->count / 2; element++) {
        size_t rest = element;
        size_t window[2];
        double length = 1; /* of all sides: elements */
        bool inside = true;
        bool same = true;
        for (int s = 1; s >= 0; s--) {
            size_t at = rest % (size_t)sides[s].kernel;
            rest /= (size_t)sides[s].kernel;
            window[s] = rest % (size_t)sides[s].out;
            rest /= (size_t)sides[s].out;
            struct xt_axis_window own =
                xt_axis_map_window((int)sides[s].in, (int)sides[s].out, (int)window[s]);
            length *= own.count;
            inside = inside && at < (size_t)own.count;
            same = same && picked[2 * element + (size_t)s] == own.first + (double)at;
        }
        bool taken = true;
        for (int i = 0; i < windows->outside_count; i++)
            taken = taken && xt_fold_element(windows->outside[i], &each, element) == 0;
        if (taken != inside || (inside && !same))
            return false;
        size_t place = window[0] * (size_t)sides[1].out + window[1];
        if (divisor && xt_fold_element(divisor, &size, place) != length)
            return false;
    }
    return true;
}

/* The element of the last window that lies furthest away is the last of the image; more than an
 * image may have: there is one beyond. */
static int64_t length_along(const struct xt_read_constant *picked, int side)
{
    double most = 0;
    for (size_t i = (size_t)side; i < picked->count; i += 2)
        most = picked->numbers[i] > most ? picked->numbers[i] : most;
    return most < (double)XT_READ_BATCH ? (int64_t)most + 1 : XT_READ_BATCH + 1;
}

/* Whether the shape can be broadcast to that one. */
static bool fits(struct xt_read_constant *constant, int ndims, const int64_t dims[])
{
    struct xt_read_constant to = {.ndims = ndims};
    struct xt_read_constant both;
    memcpy(to.dims, dims, (size_t)ndims * sizeof *dims);
    if (!xt_fold_broadcast((struct xt_read_constant *[]){&to, constant}, 2, &both) ||
        both.ndims != ndims)
        return false;
    return memcmp(both.dims, dims, (size_t)ndims * sizeof *dims) == 0;
}

/* Pools to a size that does not divide the image's. It becomes "(adaptive pool)" of the image to
 * [out h, out w] from [in h, in w]. */
bool xt_match_adaptive_pool(struct xt_reader *reader, struct xt_read_node *node)
{
    struct windows windows = {0};
    struct xt_read_constant *divisor = NULL;
    if (xt_read_is(node, "Div") && node->input_count == 2 && node->inputs[1])
        divisor = xt_read_constant_of(reader, node->inputs[1]);
    if (divisor ? !xt_read_numbers(reader, divisor) || !find_sum(reader, node->inputs[0], &windows)
                : !xt_read_is(node, "ReduceMean") || !find_mean(reader, node, &windows))
        return false;
    const int64_t *dims = windows.picked->dims;
    const struct side sides[2] = {{length_along(windows.picked, 0), dims[0], dims[1]},
                                  {length_along(windows.picked, 1), dims[2], dims[3]}};
    if (sides[0].in > XT_READ_BATCH || sides[1].in > XT_READ_BATCH)
        return false;
    for (int i = 0; i < windows.outside_count; i++)
        if (!fits(windows.outside[i], 4, dims))
            return false;
    if ((divisor && !fits(divisor, 2, (const int64_t[]){sides[0].out, sides[1].out})) ||
        !are_adaptive(&windows, divisor, sides))
        return false;
    struct xt_read_value *sizes =
        list_of(reader, (const int64_t[]){sides[0].out, sides[1].out, sides[0].in, sides[1].in}, 4);
    return sizes && xt_match_replace(reader, node, "(adaptive pool)",
                                     (struct xt_read_value *[]){windows.image, sizes}, 2);
}

/* ---- parts ---- */

/* Where a part of a sequence lies along its axis: each is of `lengths`, or of its one of these. */
static bool find_part(struct xt_reader *reader, struct xt_read_value *lengths, size_t which,
                      int64_t *first, int64_t *end)
{
    struct xt_read_constant *constant = xt_read_constant_of(reader, lengths);
    const double *numbers = constant && constant->count ? xt_read_numbers(reader, constant) : NULL;
    double sum = 0;
    bool is_list = constant && constant->ndims == 1;
    if (!numbers || (is_list && which >= constant->count))
        return false;
    for (size_t i = 0; i <= which; i++) {
        double length = numbers[is_list ? i : 0];
        *first = (int64_t)sum;
        sum += length;
        if (!(length >= 1 && sum <= XT_READ_NUMBERS_MAX))
            return false;
    }
    *end = (int64_t)sum;
    return true;
}

/* One of the parts that an axis is cut into, as a slice. */
bool xt_match_sequence(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_node *parts = xt_read_is(node, "SequenceAt") && node->input_count == 2
                                     ? made_by(node->inputs[0], "SplitToSequence", 1)
                                     : NULL;
    double which = -1;
    int64_t first = 0;
    int64_t end = 0;
    if (!parts || !node->inputs[1] || !xt_match_number_of(reader, node->inputs[1], &which) ||
        !(which >= 0 && which < XT_READ_NUMBERS_MAX) || !xt_read_input(parts, 1) ||
        !find_part(reader, parts->inputs[1], (size_t)which, &first, &end))
        return false;
    struct xt_read_value *starts = list_of(reader, &first, 1);
    struct xt_read_value *ends = list_of(reader, &end, 1);
    struct xt_read_value *axes =
        list_of(reader, (const int64_t[]){xt_read_int(parts, "axis", 0)}, 1);
    return starts && ends && axes &&
           xt_match_replace(reader, node, "Slice",
                            (struct xt_read_value *[]){parts->inputs[0], starts, ends, axes}, 4);
}
