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

/* The labels of one part that are summed over, or that are not. */
struct labels {
    int count;
    int which[LABELS_MAX];
    int64_t elements;
};

static struct labels labels_of(const struct equation *equation, const struct xt_read_view *view,
                               int part, bool summed)
{
    struct labels out = {.elements = 1};
    for (int i = 0; i < equation->count; i++) {
        const struct label *label = &equation->labels[i];
        if (label->at[part] < 0 || is_summed(label) != summed)
            continue;
        out.which[out.count++] = i;
        if (xt_read_dim(view, label->at[part]) != XT_READ_BATCH)
            out.elements *= xt_read_dim(view, label->at[part]);
    }
    return out;
}

/* Whether the parameter's labels are summed over, those of the value too, or the result's alone. */
static bool is_linear(const struct equation *equation, int value, int parameter)
{
    bool is = true;
    bool any = false;
    for (int i = 0; i < equation->count; i++) {
        const int *at = equation->labels[i].at;
        bool in_both = at[value] >= 0 && at[parameter] >= 0;
        is = is && in_both == is_summed(&equation->labels[i]);
        any = any || in_both;
    }
    return is && any;
}

/* The view's axes of the one group of labels, each for itself or all as one, then those of the
 * other, as one. */
static struct xt_read_view *grouped(struct xt_reader *reader, const struct xt_read_node *node,
                                    const struct equation *equation,
                                    const struct xt_read_view *view, int part, bool first_as_one)
{
    const struct labels kept = labels_of(equation, view, part, false);
    const struct labels summed = labels_of(equation, view, part, true);
    struct xt_read_view *out = xt_read_copy(reader, view);
    int64_t dims[LABELS_MAX];
    int at = 0;
    for (int i = 0; out && i < kept.count + summed.count; i++) {
        int which = i < kept.count ? kept.which[i] : summed.which[i - kept.count];
        out->axes[i] = view->axes[equation->labels[which].at[part]];
        if (i < kept.count && !first_as_one)
            dims[at++] = xt_read_dim(out, i);
    }
    if (first_as_one)
        dims[at++] = kept.elements;
    dims[at++] = summed.elements;
    return out ? xt_read_reshape(reader, node, out, at, dims) : NULL;
}

/* A linear map of the axes that are summed over, by a parameter. */
static bool by_parameter(struct xt_reader *reader, struct xt_read_node *node,
                         const struct equation *equation, struct xt_read_view *const views[2],
                         int value)
{
    int parameter = 1 - value;
    const struct labels kept = labels_of(equation, views[value], value, false);
    const struct labels made = labels_of(equation, views[parameter], parameter, false);
    int64_t dims[LABELS_MAX];
    struct xt_read_view *x = grouped(reader, node, equation, views[value], value, false);
    struct xt_read_view *weight =
        x ? grouped(reader, node, equation, views[parameter], parameter, true) : NULL;
    x = weight ? xt_read_contract(reader, node, x, kept.count, weight) : NULL;
    for (int i = 0; i < kept.count; i++)
        dims[i] = xt_read_dim(views[value], equation->labels[kept.which[i]].at[value]);
    for (int i = 0; i < made.count; i++)
        dims[kept.count + i] =
            xt_read_dim(views[parameter], equation->labels[made.which[i]].at[parameter]);
    x = x ? xt_read_reshape(reader, node, x, kept.count + made.count, dims) : NULL;
    struct xt_read_view *out = x ? xt_read_copy(reader, x) : NULL;
    for (int i = 0; out && i < kept.count + made.count; i++) {
        int which = i < kept.count ? kept.which[i] : made.which[i - kept.count];
        out->axes[equation->labels[which].at[RESULT]] = x->axes[i];
    }
    return xt_read_give(node, out);
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
            is_linear(&equation, i, 1 - i))
            return by_parameter(reader, node, &equation, views, i);
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
