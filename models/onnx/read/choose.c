/* Comparisons, which give 1 where they hold and 0 elsewhere, and what is chosen by them. As in
 * PyTorch their gradient is 0. */
#include <math.h>

#include "models/onnx/read/ops.h"

/* Clipped to 0 .. 1, any normal float32 above 0 times this is 1. */
static const struct xt_activation above_0 = {.kind = XT_ACT_HARD_SIGMOID, .alpha = 0x1p126F};

/* 1 - x */
static struct xt_read_view *opposite(struct xt_reader *reader, const struct xt_read_node *node,
                                     const struct xt_read_view *view)
{
    return xt_read_activate(reader, node, view, (struct xt_activation){XT_ACT_LINEAR, -1, 1});
}

/* x - number, or number - x */
static struct xt_read_view *less_number(struct xt_reader *reader, struct xt_read_node *node, int i,
                                        double number, bool turned)
{
    struct xt_read_view *view = xt_read_data(reader, node, i);
    view = turned ? xt_read_times(reader, view, -1) : view;
    return !view || number == 0
               ? view
               : xt_read_activate(
                     reader, node, view,
                     (struct xt_activation){XT_ACT_LINEAR, 1, (float)(turned ? number : -number)});
}

/* Input `a` less input `b`, one of which may be a number. */
static struct xt_read_view *difference(struct xt_reader *reader, struct xt_read_node *node, int a,
                                       int b)
{
    double number = 0;
    if (xt_read_is_number(reader, node, xt_read_input(node, b), &number))
        return less_number(reader, node, a, number, false);
    if (xt_read_is_number(reader, node, xt_read_input(node, a), &number))
        return less_number(reader, node, b, number, true);
    struct xt_read_view *first = xt_read_data(reader, node, a);
    struct xt_read_view *second = first ? xt_read_data(reader, node, b) : NULL;
    return second ? xt_read_combine(reader, node, first, xt_read_times(reader, second, -1), false)
                  : NULL;
}

/* Whether input `a` is greater than input `b`. */
static struct xt_read_view *greater(struct xt_reader *reader, struct xt_read_node *node, int a,
                                    int b)
{
    struct xt_read_view *apart = difference(reader, node, a, b);
    return apart ? xt_read_activate(reader, node, apart, above_0) : NULL;
}

static struct xt_read_view *differ(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *more = greater(reader, node, 0, 1);
    struct xt_read_view *less = more ? greater(reader, node, 1, 0) : NULL;
    return less ? xt_read_combine(reader, node, more, less, false) : NULL;
}

bool xt_read_compare(struct xt_reader *reader, struct xt_read_node *node)
{
    if (xt_read_is(node, "Greater"))
        return xt_read_give(node, greater(reader, node, 0, 1));
    if (xt_read_is(node, "Less"))
        return xt_read_give(node, greater(reader, node, 1, 0));
    struct xt_read_view *view = xt_read_is(node, "GreaterOrEqual") ? greater(reader, node, 1, 0)
                                : xt_read_is(node, "LessOrEqual")  ? greater(reader, node, 0, 1)
                                                                   : differ(reader, node);
    return view && xt_read_give(node, opposite(reader, node, view));
}

/* Of conditions: both, either, the opposite. */
bool xt_read_logic(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *a = xt_read_data(reader, node, 0);
    if (a && xt_read_is(node, "Not"))
        return xt_read_give(node, opposite(reader, node, a));
    struct xt_read_view *b = a ? xt_read_data(reader, node, 1) : NULL;
    if (!b)
        return false;
    return xt_read_give(node, xt_read_is(node, "And")
                                  ? xt_read_combine(reader, node, a, b, true)
                                  : xt_read_extreme_of(reader, node, a, b, true));
}

/* Where x is above 0 plus, times `below`, where it is below. */
static struct xt_read_view *by_sign(struct xt_reader *reader, struct xt_read_node *node, int below)
{
    struct xt_read_view *x = xt_read_data(reader, node, 0);
    struct xt_read_view *more = x ? xt_read_activate(reader, node, x, above_0) : NULL;
    struct xt_read_view *less =
        more ? xt_read_activate(reader, node, xt_read_times(reader, x, -1), above_0) : NULL;
    if (less)
        less->scale *= below;
    return less ? xt_read_combine(reader, node, more, less, false) : NULL;
}

bool xt_read_sign(struct xt_reader *reader, struct xt_read_node *node)
{
    return xt_read_give(node, by_sign(reader, node, -1));
}

static bool is_condition(const struct xt_read_node *node)
{
    static const char *const ops[] = {
        "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or", "Not"};
    for (size_t i = 0; node && i < sizeof ops / sizeof *ops; i++)
        if (xt_read_is(node, ops[i]))
            return true;
    /* a Cast to BOOL */
    return node && xt_read_is(node, "Cast") &&
           xt_read_int(node, "to", 0) == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
}

bool xt_read_condition(struct xt_reader *reader, struct xt_read_node *node)
{
    if (is_condition(node->inputs[0]->producer))
        return xt_read_give(node, xt_read_data(reader, node, 0));
    return xt_read_give(node, by_sign(reader, node, 1));
}

double xt_read_finite(double number)
{
    enum { AS_INFINITE = 60000 };
    return isinf(number) ? copysign(AS_INFINITE, number) : number;
}

/* Input i where `weight` is 1, and 0 where it is 0; NULL and *is_0: nothing, which is 0. */
static struct xt_read_view *chosen(struct xt_reader *reader, struct xt_read_node *node, int i,
                                   struct xt_read_view *weight, bool *is_0)
{
    double number = 0;
    if (xt_read_is_number(reader, node, xt_read_input(node, i), &number)) {
        struct xt_read_view *out = xt_read_copy(reader, weight);
        *is_0 = number == 0;
        if (out)
            out->scale *= xt_read_finite(number);
        return *is_0 ? NULL : out;
    }
    struct xt_read_view *view = xt_read_data(reader, node, i);
    return view ? xt_read_combine(reader, node, view, weight, true) : NULL;
}

/* Where: condition * a + (1 - condition) * b. */
bool xt_read_where(struct xt_reader *reader, struct xt_read_node *node)
{
    bool is_0[2] = {false};
    struct xt_read_view *holds = xt_read_data(reader, node, 0);
    struct xt_read_view *fails = holds ? opposite(reader, node, holds) : NULL;
    struct xt_read_view *a = fails ? chosen(reader, node, 1, holds, &is_0[0]) : NULL;
    struct xt_read_view *b = a || is_0[0] ? chosen(reader, node, 2, fails, &is_0[1]) : NULL;
    if (is_0[0] || is_0[1])
        return xt_read_give(node, is_0[0] ? b : a);
    return a && b && xt_read_give(node, xt_read_combine(reader, node, a, b, false));
}
