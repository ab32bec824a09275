/* Products by labels of axes: Einsum, two values at a time, and MatMul by a stack of a parameter's
 * matrices. They are products of matrices for each of the labels that all three have; of a value
 * and a parameter along some axes; or of elements. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* A label of the equation, and where it lies in the first value, the second and the result; -1: it
 * is not there. */
struct label {
    char name;
    int at[3];
};

enum { FIRST, SECOND, RESULT };
enum { LABELS_MAX = XT_READ_DIMS_MAX, TERMS_MAX = 4, TERM_MAX = 16 };

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

/* Adds a term's labels, one for each of its axes; false: something else than letters, or one twice.
 */
static bool add_term(struct equation *out, int part, const char *term)
{
    for (; *term; term++) {
        struct label *label = isalpha((unsigned char)*term) ? label_of(out, *term) : NULL;
        if (!label || label->at[part] >= 0)
            return false;
        label->at[part] = out->ndims[part]++;
    }
    return true;
}

static bool parse(struct equation *out, const char *first, const char *second, const char *result)
{
    bool known = add_term(out, FIRST, first) && add_term(out, SECOND, second) &&
                 add_term(out, RESULT, result) && *result;
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

/* Leaves an axis out of a view, and the label out of that part. */
static void leave_out(struct equation *equation, struct xt_read_view *view, int part,
                      struct label *label)
{
    int axis = label->at[part];
    view->ndims--;
    equation->ndims[part]--;
    for (int i = axis; i < view->ndims; i++)
        view->axes[i] = view->axes[i + 1];
    for (int i = 0; i < equation->count; i++)
        equation->labels[i].at[part] -= equation->labels[i].at[part] > axis;
    label->at[part] = -1;
}

/* A parameter that is repeated for each sample is the same for all of them. */
static void leave_out_batch(struct equation *equation, struct xt_read_view *view, int part)
{
    bool has_batch = view->factor_count && view->factors[0].home == XT_READ_N;
    for (int i = 0; i < equation->count && has_batch && view->value->of_parameter; i++) {
        struct label *label = &equation->labels[i];
        if (label->at[part] < 0 || xt_read_dim(view, label->at[part]) != XT_READ_BATCH)
            continue;
        leave_out(equation, view, part, label);
        view->factor_count--;
        memmove(view->factors, view->factors + 1,
                (size_t)view->factor_count * sizeof *view->factors);
        for (int axis = 0; axis < view->ndims; axis++)
            for (int k = 0; k < view->axes[axis].count; k++)
                view->axes[axis].factors[k]--;
        return;
    }
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

/* The equation of a MatMul, whose stacks broadcast; axes of length 1 that the other one has longer
 * are left out. */
static bool equation_of_stacks(struct xt_read_view *const views[2], struct equation *out)
{
    const int ndims[] = {views[0]->ndims, views[1]->ndims};
    int most = ndims[0] > ndims[1] ? ndims[0] : ndims[1];
    int row = most - 2;
    int inner = most - 1;
    if (ndims[0] < 2 || ndims[1] < 2 || most + 1 > LABELS_MAX)
        return false;
    *out = (struct equation){.count = most + 1, .ndims = {ndims[0], ndims[1], most}};
    for (int i = 0; i <= most; i++) {
        int first = i + ndims[0] - most;
        int second = i - 1 + ndims[1] - most;
        out->labels[i] =
            i < row
                ? (struct label){.at = {first < 0 ? -1 : first, second < -1 ? -1 : second + 1, i}}
            : i == row   ? (struct label){.at = {first, -1, row}}
            : i == inner ? (struct label){.at = {first, second, -1}}
                         : (struct label){.at = {-1, second, inner}};
    }
    for (int i = 0; i < row; i++) {
        struct label *label = &out->labels[i];
        for (int part = 0; part < 2; part++)
            if (label->at[FIRST] >= 0 && label->at[SECOND] >= 0 &&
                xt_read_dim(views[part], label->at[part]) == 1)
                leave_out(out, views[part], part, label);
    }
    return true;
}

bool xt_read_stack_product(struct xt_reader *reader, struct xt_read_node *node, int parameter)
{
    struct equation equation;
    struct xt_read_view *views[2] = {xt_read_data(reader, node, 0), NULL};
    views[1] = views[0] ? xt_read_data(reader, node, 1) : NULL;
    if (!views[1])
        return false;
    bool known = equation_of_stacks(views, &equation);
    if (known)
        leave_out_batch(&equation, views[parameter], parameter);
    if (!known || !fit(&equation, views) ||
        !is_linear(&equation, views[1 - parameter], 1 - parameter))
        return xt_reader_refuse(reader, node,
                                "multiplies by a stack of a parameter's matrices that do not fit");
    return xt_read_give(node, by_parameter(reader, node, &equation, views, 1 - parameter));
}

/* ---- Einsum ---- */

/* One sum of products of two values. */
static struct xt_read_view *product(struct xt_reader *reader, struct xt_read_node *node,
                                    struct equation equation, struct xt_read_view *first,
                                    struct xt_read_view *second)
{
    struct xt_read_view *views[] = {first, second};
    int homes[3][LABELS_MAX];
    bool known = fit(&equation, views);
    for (int i = 0; known && i < 2; i++) {
        leave_out_batch(&equation, views[i], i);
        if (views[1 - i]->value->of_parameter && !views[i]->value->of_parameter &&
            is_linear(&equation, views[i], i))
            return by_parameter(reader, node, &equation, views, i);
    }
    for (int i = 0; known && i < 2; i++) {
        views[i] = by_labels(reader, &equation, views[i], i);
        if (!views[i])
            return NULL;
    }
    if (known && is_of_elements(&equation, (const struct xt_read_view *[]){views[0], views[1]}))
        return by_elements(reader, node, &equation, views);
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
    return pick_result(reader, &equation,
                       xt_read_after(reader, node, views[0], views[1], homes[RESULT], value));
}

/* "bhid,bhjd->bhij" without its spaces: a term for each input, then the result's. */
struct terms {
    int count;
    char text[TERMS_MAX + 1][TERM_MAX];
};

static bool read_terms(const struct xt_read_node *node, struct terms *out)
{
    const Onnx__AttributeProto *given = xt_read_attribute(node, "equation");
    size_t length = given && given->has_s ? given->s.len : 0;
    int at = 0;
    for (size_t i = 0; i < length; i++) {
        char c = (char)given->s.data[i];
        bool ends = c == ',' || (c == '-' && i + 1 < length && given->s.data[i + 1] == '>');
        i += ends && c == '-';
        if (ends && ++out->count > TERMS_MAX)
            return false;
        at = ends ? 0 : at;
        if (ends || c == ' ')
            continue;
        if (at == TERM_MAX - 1)
            return false;
        out->text[out->count][at++] = c;
    }
    return out->count == node->input_count;
}

/* What is left of the first terms' labels, once the next one is among them: those that a later term
 * or the result has. */
static void join(const struct terms *terms, int next, char left[TERM_MAX * TERMS_MAX])
{
    char all[TERM_MAX * TERMS_MAX];
    int count = 0;
    snprintf(all, sizeof all, "%s%s", left, terms->text[next]);
    for (const char *c = all; *c; c++) {
        bool stays = !memchr(left, *c, (size_t)count);
        bool later = false;
        for (int i = next + 1; i <= terms->count; i++)
            later = later || strchr(terms->text[i], *c);
        if (stays && later)
            left[count++] = *c;
    }
    left[count] = 0;
}

/* Several products one after the other, from the left. */
bool xt_read_einsum(struct xt_reader *reader, struct xt_read_node *node)
{
    struct terms terms = {0};
    char left[TERM_MAX * TERMS_MAX];
    bool known = node->input_count >= 2 && read_terms(node, &terms);
    struct xt_read_view *view = known ? xt_read_data(reader, node, 0) : NULL;
    memcpy(left, terms.text[0], sizeof terms.text[0]);
    for (int i = 1; view && known && i < terms.count; i++) {
        struct equation equation = {0};
        char before[sizeof left];
        struct xt_read_view *next = xt_read_data(reader, node, i);
        memcpy(before, left, sizeof left);
        join(&terms, i, left);
        const char *result = i + 1 < terms.count ? left : terms.text[terms.count];
        known = next && parse(&equation, before, terms.text[i], result) &&
                view->ndims == equation.ndims[FIRST] && next->ndims == equation.ndims[SECOND];
        view = known ? product(reader, node, equation, view, next) : NULL;
    }
    return (known || xt_reader_refuse(reader, node,
                                      "has an equation of %d values that is not "
                                      "understood, such as one with \"...\"",
                                      node->input_count)) &&
           xt_read_give(node, view);
}

/* ---- of constants ---- */

/* Each label's size, and the result's dimensions. */
struct sum {
    struct equation equation;
    int64_t sizes[LABELS_MAX];
    int64_t dims[LABELS_MAX];
    int64_t products;
};

static bool measure(struct sum *sum, struct xt_read_constant *const in[2])
{
    sum->products = 1;
    for (int i = 0; i < sum->equation.count; i++) {
        const int *at = sum->equation.labels[i].at;
        int64_t size = at[FIRST] >= 0 ? in[0]->dims[at[FIRST]] : in[1]->dims[at[SECOND]];
        if (size < 1 || (at[SECOND] >= 0 && in[1]->dims[at[SECOND]] != size) ||
            __builtin_mul_overflow(sum->products, size, &sum->products) ||
            sum->products > XT_READ_COMPUTED_MAX)
            return false;
        sum->sizes[i] = size;
        if (at[RESULT] >= 0)
            sum->dims[at[RESULT]] = size;
    }
    return true;
}

/* The element of a part that belongs to these indices of the labels. */
static size_t element_at(const struct sum *sum, int part, const int64_t index[LABELS_MAX])
{
    size_t element = 0;
    for (int axis = 0; axis < sum->equation.ndims[part]; axis++)
        for (int i = 0; i < sum->equation.count; i++)
            if (sum->equation.labels[i].at[part] == axis)
                element = element * (size_t)sum->sizes[i] + (size_t)index[i];
    return element;
}

/* The next indices, the last label's first. */
static void step(const struct sum *sum, int64_t index[LABELS_MAX])
{
    int i = sum->equation.count - 1;
    while (i >= 0 && ++index[i] == sum->sizes[i])
        index[i--] = 0;
}

struct xt_read_constant *xt_read_einsum_of(struct xt_reader *reader,
                                           const struct xt_read_node *node,
                                           struct xt_read_constant *const in[2])
{
    struct terms terms = {0};
    struct sum sum = {0};
    int64_t index[LABELS_MAX] = {0};
    if (node->input_count != 2 || !read_terms(node, &terms) ||
        !parse(&sum.equation, terms.text[0], terms.text[1], terms.text[2]) ||
        in[0]->ndims != sum.equation.ndims[FIRST] || in[1]->ndims != sum.equation.ndims[SECOND] ||
        !measure(&sum, in))
        return NULL;
    reader->computed += (size_t)sum.products;
    struct xt_read_constant *out = xt_read_make(reader, sum.equation.ndims[RESULT], sum.dims, true);
    for (int64_t k = 0; out && k < sum.products; k++, step(&sum, index))
        out->numbers[element_at(&sum, RESULT, index)] +=
            in[0]->numbers[element_at(&sum, FIRST, index)] *
            in[1]->numbers[element_at(&sum, SECOND, index)];
    return out;
}
