/* Weights that several layers use, as the two branches of an attention on channels do: of 1x1
 * convolutions and linear layers one layer computes the rows of all. */
#include <string.h>

#include "models/onnx/read/ops.h"

/* Searches take time by the distance of the layers: a file of nothing else would take hours. */
enum { SHARED_MOST = 1000 };

/* ---- which layers ---- */

static bool all_are(const struct xt_read_node *node, const char *name, int64_t number)
{
    const Onnx__AttributeProto *list = xt_read_attribute(node, name);
    for (size_t i = 0; list && i < list->n_ints; i++)
        if (list->ints[i] != number)
            return false;
    return true;
}

/* The initializer that a node's weight is, also where an exporter swaps its axes. */
static struct xt_read_value *stored_weight(const struct xt_read_node *node)
{
    struct xt_read_value *weight = xt_read_input(node, 1);
    if (weight && !weight->initializer && xt_read_is(weight->producer, "Transpose"))
        weight = xt_read_input(weight->producer, 0);
    return weight && weight->initializer ? weight : NULL;
}

static bool is_pointwise(const struct xt_read_node *node, const Onnx__TensorProto *weight)
{
    if (!xt_read_is(node, "Conv"))
        return xt_read_is(node, "Gemm") || xt_read_is(node, "MatMul") ||
               xt_read_is(node, "(linear)");
    for (size_t i = 2; i < weight->n_dims; i++)
        if (weight->dims[i] != 1)
            return false;
    const struct xt_read_value *in = xt_read_input(node, 0);
    return in && all_are(node, "strides", 1) && all_are(node, "pads", 0) &&
           !xt_read_is(in->producer, "Pad");
}

static bool are_alike(const struct xt_read_node *a, const struct xt_read_node *b)
{
    return strcmp(a->op, b->op) == 0 && xt_read_input(a, 2) == xt_read_input(b, 2) &&
           xt_read_int(a, "transB", 0) == xt_read_int(b, "transB", 0) &&
           xt_read_int(a, "group", 1) == xt_read_int(b, "group", 1);
}

/* Joins layers of the same weight, the first of them to the others. */
static bool join(struct xt_reader *reader)
{
    int count = 0;
    for (size_t i = 0; i < reader->node_count; i++) {
        struct xt_read_node *node = &reader->nodes[i];
        struct xt_read_value *weight = node->live ? stored_weight(node) : NULL;
        if (!weight || !is_pointwise(node, weight->initializer))
            continue;
        if (weight->layer && are_alike(weight->layer, node)) {
            weight->layer->shares = node;
            node->is_shared = true;
            if (count++ == SHARED_MOST)
                return xt_reader_refuse(reader, node,
                                        "is one of more than %d layers that share "
                                        "weights with another",
                                        SHARED_MOST);
        }
        weight->layer = node;
    }
    return true;
}

/* ---- their order ---- */

static bool is_one_of(const struct xt_read_node *node, const struct xt_read_node *first)
{
    while (first && first != node)
        first = first->shares;
    return first != NULL;
}

static bool reads_late(const struct xt_read_node *node)
{
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && node->inputs[i]->producer && node->inputs[i]->producer->late)
            return true;
    return false;
}

/* Puts a layer at `at` and those that share its weights side by side, and what reads them behind
 * all. */
static bool gather_layers(struct xt_reader *reader, struct xt_read_node **order, size_t at,
                          struct xt_read_node **behind)
{
    struct xt_read_node *first = order[at];
    const struct xt_read_node *last = first;
    while (last->shares)
        last = last->shares;
    size_t kept = at;
    size_t late = 0;
    size_t end = at;
    for (bool found = false; !found; end++) {
        struct xt_read_node *node = order[end];
        bool is_layer = is_one_of(node, first);
        found = node == last;
        if (is_layer && reads_late(node))
            return xt_reader_refuse(reader, node,
                                    "uses the weights of a layer that it reads the output of, "
                                    "which cannot be trained here");
        node->late = is_layer || reads_late(node);
        if (node->late && !is_layer)
            behind[late++] = node;
        else if (!is_layer)
            order[kept++] = node;
    }
    for (struct xt_read_node *node = first; node; node = node->shares)
        order[kept++] = node;
    memcpy(order + kept, behind, late * sizeof *behind);
    for (size_t i = at; i < end; i++)
        order[i]->late = false;
    return true;
}

struct xt_read_node **xt_read_order(struct xt_reader *reader)
{
    size_t count = reader->node_count;
    struct xt_read_node **order = xt_reader_take(reader, count + 1, sizeof *order);
    struct xt_read_node **behind = xt_reader_take(reader, count + 1, sizeof *behind);
    if (!order || !behind || !join(reader))
        return NULL;
    for (size_t i = 0; i < count; i++)
        order[i] = &reader->nodes[i];
    for (size_t i = 0; i < count; i++) {
        /* Another node may be at this place after it. */
        while (order[i]->shares && !order[i]->is_shared && !order[i]->is_gathered) {
            order[i]->is_gathered = true;
            if (!gather_layers(reader, order, i, behind))
                return NULL;
        }
    }
    return order;
}

/* ---- their rows ---- */

struct xt_value *xt_read_rows(struct xt_reader *reader, struct xt_read_node *node,
                              struct xt_read_view *view, const int homes[])
{
    struct xt_value *values[SHARED_MOST + 1] = {xt_read_lay_out(reader, node, view, homes)};
    int count = values[0] != NULL;
    for (struct xt_read_node *other = node->shares; count && other; other = other->shares) {
        other->laid = xt_read_data(reader, other, 0);
        if (!other->laid)
            return NULL;
        bool fits = other->laid->ndims == view->ndims;
        for (int i = 0; i < view->ndims && fits; i++)
            fits = xt_read_dim(other->laid, i) == xt_read_dim(view, i);
        if (!fits)
            return xt_reader_refuse(reader, other,
                                    "uses the weights of another layer for an input of another "
                                    "shape, which cannot be trained here");
        values[count] = xt_read_lay_out(reader, other, other->laid, homes);
        if (!values[count++])
            return NULL;
    }
    return count < 2 ? values[0] : xt_net_concat(reader->net, values, count, XT_AXIS_H, NULL);
}

bool xt_read_give_rows(struct xt_reader *reader, struct xt_read_node *node,
                       const struct xt_read_view *view, const int homes[], struct xt_value *value)
{
    int count = 1;
    for (const struct xt_read_node *other = node->shares; other; other = other->shares)
        count++;
    struct xt_net_slice rows = {.axis = XT_AXIS_H, .count = value ? value->h / count : 0};
    for (; value && node; node = node->shares, view = node ? node->laid : NULL) {
        struct xt_value *own = count > 1 ? xt_net_slice(reader->net, value, &rows) : value;
        if (!xt_read_give(node, xt_read_after(reader, node, view, NULL, homes, own)))
            return false;
        rows.start += rows.count;
    }
    return value != NULL;
}
