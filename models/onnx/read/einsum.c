/* Einsum of two values: a product of matrices for each of the labels that all three have. */
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
    return part == RESULT && out->ndims[RESULT] > 0;
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
        struct xt_read_view *view = xt_read_data(reader, node, i);
        known = view && view->ndims == equation.ndims[i];
        views[i] = known ? by_labels(reader, &equation, view, i) : NULL;
        if (known && !views[i])
            return false;
    }
    if (!known || !homes_of(&equation, (const struct xt_read_view *[]){views[0], views[1]}, homes))
        return xt_reader_refuse(reader, node,
                                "is no product of two matrices for each sample: "
                                "\"bhid,bhjd->bhij\" would be");
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
