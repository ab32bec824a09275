/* Einsum of two values: a product of matrices for each of the labels that all three have; of a
 * value and a parameter along some axes; or of elements. */
#include <ctype.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* A label of the equation, and where it lies in the first value, the second and the result; -1: it
 * is not there. */
struct label {
    char name;
    int at[3];
};

enum { FIRST, SECOND, RESULT, LABELS_MAX = XT_READ_DIMS_MAX };

struct equation {
    struct label labels[LABELS_MAX];
    int count;
    int ndims[3];
};

static struct label *label_of(struct equation *equation, char name)
{
    for (int i = 0; i < equation->count; i++)
        if (equation->labels[i].name == name)
            return &equation->labels[i];
    if (equation->count == LABELS_MAX)
        return NULL;
    struct label *out = &equation->labels[equation->count++];
    *out = (struct label){name, {-1, -1, -1}};
    return out;
}

/* "bhid,bhjd->bhij", with or without spaces; false: something else. */
static bool parse(const char *text, struct equation *out)
{
    int part = FIRST;
    for (; *text; text++) {
        bool ends_second = part == SECOND && text[0] == '-' && text[1] == '>';
        if (*text == ' ')
            continue;
        if ((part == FIRST && *text == ',') || ends_second) {
            part++;
            text += ends_second;
            continue;
        }
        struct label *label = isalpha((unsigned char)*text) ? label_of(out, *text) : NULL;
        if (!label || label->at[part] >= 0)
            return false;
        label->at[part] = out->ndims[part]++;
    }
    bool known = part == RESULT && out->ndims[RESULT] > 0;
    for (int i = 0; i < out->count; i++)
        known = known && (out->labels[i].at[FIRST] >= 0 || out->labels[i].at[SECOND] >= 0);
    return known;
}

/* Whether a label that both have is as long in both. */
static bool fit(const struct equation *equation, struct xt_read_view *const views[2])
{
    bool fit = true;
    for (int i = 0; i < equation->count; i++) {
        const int *at = equation->labels[i].at;
        if (at[FIRST] >= 0 && at[SECOND] >= 0)
            fit = fit && xt_read_dim(views[0], at[FIRST]) == xt_read_dim(views[1], at[SECOND]);
    }
    return fit;
}

/* The view with its axes in the order of the equation's labels; labels that it lacks have length 1.
 */
static struct xt_read_view *by_labels(struct xt_reader *reader, const struct equation *equation,
                                      const struct xt_read_view *view, int part)
{
    struct xt_read_view *out = xt_read_copy(reader, view);
    if (!out)
        return NULL;
    out->ndims = equation->count;
    for (int i = 0; i < equation->count; i++)
        out->axes[i] = equation->labels[i].at[part] < 0 ? (struct xt_read_axis){0}
                                                        : view->axes[equation->labels[i].at[part]];
    return out;
}

/* Where each label lies: what all have in the batch or h; in both factors, rows (w) of their own
 * and inner elements (c); in the product, rows of the first and (c) of the second. */
static bool homes_of(const struct equation *equation, const struct xt_read_view *views[2],
                     int homes[3][LABELS_MAX])
{
    for (int i = 0; i < equation->count; i++) {
        const int *at = equation->labels[i].at;
        bool has[] = {at[FIRST] >= 0, at[SECOND] >= 0, at[RESULT] >= 0};
        bool is_batch = (has[FIRST] && xt_read_dim(views[0], i) == XT_READ_BATCH) ||
                        (has[SECOND] && xt_read_dim(views[1], i) == XT_READ_BATCH);
        int common = is_batch ? XT_READ_N : XT_AXIS_H;
        if (has[FIRST] && has[SECOND]) {
            int home = has[RESULT] ? common : XT_AXIS_C;
            for (int part = 0; part < 3; part++)
                homes[part][i] = home;
            if ((is_batch && !has[RESULT]) || xt_read_dim(views[0], i) != xt_read_dim(views[1], i))
                return false;
            continue;
        }
        if (is_batch || !has[RESULT])
            return false;
        homes[FIRST][i] = homes[SECOND][i] = XT_AXIS_W;
        homes[RESULT][i] = has[FIRST] ? XT_AXIS_W : XT_AXIS_C;
    }
    return true;
}

/* The result's axes, out of one for each label. */
static struct xt_read_view *pick_result(struct xt_reader *reader, const struct equation *equation,
                                        const struct xt_read_view *view)
{
    struct xt_read_view *out = view ? xt_read_copy(reader, view) : NULL;
    for (int i = 0; out && i < equation->count; i++)
        if (equation->labels[i].at[RESULT] >= 0)
            out->axes[equation->labels[i].at[RESULT]] = view->axes[i];
    if (out)
        out->ndims = equation->ndims[RESULT];
    return out;
}

static bool is_summed(const struct label *label)
{
    return label->at[RESULT] < 0;
}

/* Whether the product of elements is as large as one of the factors, or nothing is summed over. */
static bool is_of_elements(const struct equation *equation,
                           const struct xt_read_view *const views[2])
{
    bool whole[2] = {true, true};
    bool any = false;
    for (int i = 0; i < equation->count; i++) {
        for (int part = 0; part < 2; part++)
            whole[part] = whole[part] && equation->labels[i].at[part] >= 0;
        any = any || is_summed(&equation->labels[i]);
    }
    return !any || (whole[0] && views[1]->value->of_parameter) ||
           (whole[1] && views[0]->value->of_parameter);
}

/* Elements are multiplied, and summed up. */
static struct xt_read_view *by_elements(struct xt_reader *reader, struct xt_read_node *node,
                                        const struct equation *equation,
                                        struct xt_read_view *const views[2])
{
    struct xt_read_view *view = xt_read_combine(reader, node, views[0], views[1], true);
    bool goes[LABELS_MAX] = {false};
    double count = 1;
    for (int i = 0; view && i < equation->count; i++) {
        goes[i] = is_summed(&equation->labels[i]);
        count *= goes[i] ? (double)xt_read_dim(view, i) : 1;
        if (goes[i] && xt_read_dim(view, i) == XT_READ_BATCH)
            return xt_reader_refuse(reader, node, "is over the batch");
    }
    if (count > 1)
        view = xt_read_reduced(reader, node, view, goes, false);
    if (view)
        view->scale *= count;
    return pick_result(reader, equation, view);
}

/* What a label is to a value that a parameter multiplies. */
enum role { KEPT, COMMON, MADE, SUMMED }; /* the value's, both's, the parameter's; both's, gone */

static enum role role_of(const struct label *label, int value)
{
    if (is_summed(label))
        return SUMMED;
    return label->at[value] < 0 ? MADE : label->at[1 - value] < 0 ? KEPT : COMMON;
}

/* The labels of a role. */
struct labels {
    int count;
    int which[LABELS_MAX];
    int64_t dims[LABELS_MAX];
    int64_t elements;
};

/* As long as they are in that part's view. */
static struct labels labels_of(const struct equation *equation, const struct xt_read_view *view,
                               int value, enum role role, int part)
{
    struct labels out = {.elements = 1};
    for (int i = 0; i < equation->count; i++) {
        const struct label *label = &equation->labels[i];
        if (role_of(label, value) != role)
            continue;
        out.dims[out.count] = xt_read_dim(view, label->at[part]);
        out.elements *= out.dims[out.count] == XT_READ_BATCH ? 1 : out.dims[out.count];
        out.which[out.count++] = i;
    }
    return out;
}

/* Whether what is summed over is in both, and the parameter has no axis of the batch. */
static bool is_linear(const struct equation *equation, const struct xt_read_view *view, int value)
{
    bool is = true;
    bool any = false;
    for (int i = 0; i < equation->count; i++) {
        const struct label *label = &equation->labels[i];
        enum role role = role_of(label, value);
        is = is && (role != SUMMED || (label->at[0] >= 0 && label->at[1] >= 0)) &&
             (role != COMMON || xt_read_dim(view, label->at[value]) != XT_READ_BATCH);
        any = any || role == SUMMED;
    }
    return is && any;
}

/* The view with the axes of these labels in their order. */
static struct xt_read_view *in_order(struct xt_reader *reader, const struct equation *equation,
                                     const struct xt_read_view *view, int part,
                                     const struct labels *const groups[], int count)
{
    struct xt_read_view *out = xt_read_copy(reader, view);
    int at = 0;
    for (int k = 0; out && k < count; k++)
        for (int i = 0; i < groups[k]->count; i++)
            out->axes[at++] = view->axes[equation->labels[groups[k]->which[i]].at[part]];
    return out;
}

/* A linear map of the axes that are summed over, by a parameter; where both have other axes too,
 * each of their elements has a map of its own. */
static struct xt_read_view *by_parameter(struct xt_reader *reader, struct xt_read_node *node,
                                         const struct equation *equation,
                                         struct xt_read_view *const views[2], int value)
{
    int parameter = 1 - value;
    const struct labels kept = labels_of(equation, views[value], value, KEPT, value);
    const struct labels common = labels_of(equation, views[value], value, COMMON, value);
    const struct labels summed = labels_of(equation, views[value], value, SUMMED, value);
    const struct labels made = labels_of(equation, views[parameter], value, MADE, parameter);
    const int64_t rows[] = {common.elements * made.elements, summed.elements};
    int64_t dims[LABELS_MAX];
    memcpy(dims, kept.dims, sizeof dims);
    dims[kept.count] = common.elements * summed.elements;
    struct xt_read_view *x = in_order(reader, equation, views[value], value,
                                      (const struct labels *const[]){&kept, &common, &summed}, 3);
    struct xt_read_view *weight =
        in_order(reader, equation, views[parameter], parameter,
                 (const struct labels *const[]){&common, &made, &summed}, 3);
    x = x ? xt_read_reshape(reader, node, x, kept.count + 1, dims) : NULL;
    weight = x && weight ? xt_read_reshape(reader, node, weight, 2, rows) : NULL;
    x = weight ? xt_read_contract(reader, node, x, kept.count, (int)common.elements, weight) : NULL;
    memcpy(dims + kept.count, common.dims, (size_t)common.count * sizeof *dims);
    memcpy(dims + kept.count + common.count, made.dims, (size_t)made.count * sizeof *dims);
    x = x ? xt_read_reshape(reader, node, x, kept.count + common.count + made.count, dims) : NULL;
    struct xt_read_view *out = x ? xt_read_copy(reader, x) : NULL;
    const struct labels *const groups[] = {&kept, &common, &made};
    for (int k = 0, at = 0; out && k < 3; k++)
        for (int i = 0; i < groups[k]->count; i++)
            out->axes[equation->labels[groups[k]->which[i]].at[RESULT]] = x->axes[at++];
    return out;
}

/* The equation of such a MatMul; the parameter's axes of length 1 are left out of its view. */
static bool equation_of_stack(const struct xt_read_view *x, struct xt_read_view *weight,
                              struct equation *out)
{
    int last = x->ndims - 1;
    int ahead = x->ndims - weight->ndims;
    int at = 0;
    if (x->ndims < 2 || ahead < 0 || x->ndims + 1 > LABELS_MAX)
        return false;
    out->count = x->ndims + 1;
    for (int i = 0; i < out->count; i++)
        out->labels[i] = (struct label){.at = {i <= last ? i : -1, -1, i < last ? i : i - 1}};
    out->labels[last].at[RESULT] = -1;
    for (int k = 0; k < weight->ndims; k++) {
        bool in_stack = k < weight->ndims - 2;
        int label = in_stack ? ahead + k : ahead + k + 1;
        if (in_stack && xt_read_dim(weight, k) == 1)
            continue;
        if (label <= last && xt_read_dim(weight, k) != xt_read_dim(x, label))
            return false;
        weight->axes[at] = weight->axes[k];
        out->labels[label].at[SECOND] = at++;
    }
    weight->ndims = at;
    return true;
}

bool xt_read_stack_product(struct xt_reader *reader, struct xt_read_node *node)
{
    struct equation equation = {0};
    struct xt_read_view *x = xt_read_data(reader, node, 0);
    struct xt_read_view *weight = x ? xt_read_data(reader, node, 1) : NULL;
    if (!weight)
        return false;
    if (!equation_of_stack(x, weight, &equation) || !is_linear(&equation, x, FIRST))
        return xt_reader_refuse(reader, node,
                                "multiplies by a stack of a parameter's matrices that do not fit");
    return xt_read_give(node, by_parameter(reader, node, &equation,
                                           (struct xt_read_view *const[]){x, weight}, FIRST));
}

bool xt_read_einsum(struct xt_reader *reader, struct xt_read_node *node)
{
    struct equation equation = {0};
    const Onnx__AttributeProto *given = xt_read_attribute(node, "equation");
    int homes[3][LABELS_MAX];
    struct xt_read_view *views[2];
    char text[64] = "";
    if (given && given->has_s && given->s.len < sizeof text)
        memcpy(text, given->s.data, given->s.len);
    bool known = node->input_count == 2 && parse(text, &equation);
    for (int i = 0; known && i < 2; i++) {
        views[i] = xt_read_data(reader, node, i);
        known = views[i] && views[i]->ndims == equation.ndims[i];
    }
    known = known && fit(&equation, views);
    for (int i = 0; known && i < 2; i++)
        if (views[1 - i]->value->of_parameter && !views[i]->value->of_parameter &&
            is_linear(&equation, views[i], i))
            return xt_read_give(node, by_parameter(reader, node, &equation, views, i));
    for (int i = 0; known && i < 2; i++) {
        views[i] = by_labels(reader, &equation, views[i], i);
        if (!views[i])
            return false;
    }
    if (known && is_of_elements(&equation, (const struct xt_read_view *[]){views[0], views[1]}))
        return xt_read_give(node, by_elements(reader, node, &equation, views));
    if (!known || !homes_of(&equation, (const struct xt_read_view *[]){views[0], views[1]}, homes))
        return xt_reader_refuse(reader, node,
                                "is neither a product of two matrices for each sample, such as "
                                "\"bhid,bhjd->bhij\", nor one by a parameter along some axes, such "
                                "as \"bchw,dc->bdhw\"");
    const struct xt_net_matmul spec = {.transpose = true,
                                       .scale = (float)(views[0]->scale * views[1]->scale)};
    views[0]->scale = views[1]->scale = 1;
    struct xt_value *a = xt_read_lay_out(reader, node, views[0], homes[FIRST]);
    struct xt_value *b = a ? xt_read_lay_out(reader, node, views[1], homes[SECOND]) : NULL;
    struct xt_value *value = b ? xt_net_matmul(reader->net, a, b, &spec) : NULL;
    /* What is summed over is gone. */
    for (int i = 0; i < equation.count; i++)
        if (equation.labels[i].at[RESULT] < 0)
            views[0]->axes[i] = views[1]->axes[i] = (struct xt_read_axis){0};
    return xt_read_give(
        node, pick_result(reader, &equation,
                          xt_read_after(reader, node, views[0], views[1], homes[RESULT], value)));
}
