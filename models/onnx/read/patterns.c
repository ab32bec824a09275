/* Where exporters write one operation as several nodes, the last of them becomes that operation and
 * reads what the first one reads; nobody reads those in between then. */
#include <math.h>
#include <string.h>

#include "models/onnx/read/patterns.h"

/* ---- looking back ---- */

struct xt_read_value *xt_match_origin(struct xt_read_value *value)
{
    while (value && value->producer && value->producer->input_count &&
           (xt_read_is(value->producer, "Identity") || xt_read_is(value->producer, "Cast") ||
            xt_read_is(value->producer, "CastLike")))
        value = value->producer->inputs[0];
    return value;
}

struct xt_read_node *xt_match_made_by(struct xt_read_value *value, const char *op)
{
    struct xt_read_value *own = xt_match_origin(value);
    return own && xt_read_is(own->producer, op) ? own->producer : NULL;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b);
}

bool xt_match_number_of(struct xt_reader *reader, struct xt_read_value *value, double *out)
{
    struct xt_read_value *own = xt_match_origin(value);
    return own && xt_read_number(reader, own, out);
}

struct xt_read_value *xt_match_beside_number(struct xt_reader *reader, struct xt_read_node *node,
                                             double *number)
{
    for (int i = 0; node && node->input_count == 2 && i < 2; i++)
        if (xt_match_number_of(reader, node->inputs[1 - i], number))
            return xt_match_origin(node->inputs[i]);
    return NULL;
}

bool xt_match_replace(struct xt_reader *reader, struct xt_read_node *node, const char *op,
                      struct xt_read_value *const inputs[], int count)
{
    struct xt_read_value **own = xt_reader_take(reader, (size_t)count, sizeof *own);
    if (!own)
        return false;
    memcpy(own, inputs, (size_t)count * sizeof *own);
    node->inputs = own;
    node->input_count = count;
    node->op = op;
    return true;
}

static bool become(struct xt_reader *reader, struct xt_read_node *node,
                   struct xt_activation activation, struct xt_read_value *in)
{
    node->activation = activation;
    return xt_match_replace(reader, node, "(activation)", &in, 1);
}

/* ---- products ---- */

/* A tree of Mul and Div: its numbers as one, and its other factors. */
struct product {
    double number;
    struct xt_read_value *factors[4];
    int count;
    bool large;
};

static void collect(struct xt_reader *reader, struct xt_read_value *value, int depth,
                    struct product *out)
{
    double number = 0;
    struct xt_read_value *own = xt_match_origin(value);
    struct xt_read_node *node = own ? own->producer : NULL;
    bool inner = node && depth > 0 && own->readers == 1 && node->input_count == 2;
    if (own && xt_read_number(reader, own, &number)) {
        out->number *= number;
    } else if (inner && xt_read_is(node, "Mul")) {
        collect(reader, node->inputs[0], depth - 1, out);
        collect(reader, node->inputs[1], depth - 1, out);
    } else if (inner && xt_read_is(node, "Div") &&
               xt_match_number_of(reader, node->inputs[1], &number) && number != 0) {
        out->number /= number;
        collect(reader, node->inputs[0], depth - 1, out);
    } else if (out->count < 4) {
        out->factors[out->count++] = own;
    } else {
        out->large = true;
    }
}

static struct product product_of(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { DEPTH = 3 };
    struct product out = {.number = 1};
    double number = 0;
    if (!node || node->input_count != 2)
        return (struct product){.large = true};
    collect(reader, node->inputs[0], DEPTH, &out);
    if (xt_read_is(node, "Mul"))
        collect(reader, node->inputs[1], DEPTH, &out);
    else if (xt_match_number_of(reader, node->inputs[1], &number) && number != 0)
        out.number /= number;
    else
        out.large = true;
    return out;
}

/* ---- activations ---- */

/* clip(x + 3, 0, 6): x. */
static struct xt_read_value *relu6_of_3(struct xt_reader *reader, struct xt_read_value *value)
{
    struct xt_read_node *clip = xt_match_made_by(value, "Clip");
    double low = clip ? xt_read_float(clip, "min", 0) : 0;
    double high = clip ? xt_read_float(clip, "max", 6) : 0;
    double three = 0;
    if (!clip || (clip->input_count > 1 && !xt_match_number_of(reader, clip->inputs[1], &low)) ||
        (clip->input_count > 2 && !xt_match_number_of(reader, clip->inputs[2], &high)) ||
        low != 0 || high != 6)
        return NULL;
    struct xt_read_value *in =
        xt_match_beside_number(reader, xt_match_made_by(clip->inputs[0], "Add"), &three);
    return three == 3 ? in : NULL;
}

/* 1 + OP(y): y. */
static struct xt_read_value *one_and(struct xt_reader *reader, struct xt_read_value *value,
                                     const char *op)
{
    double one = 0;
    struct xt_read_value *in = xt_match_beside_number(reader, xt_match_made_by(value, "Add"), &one);
    struct xt_read_node *node = in ? xt_match_made_by(in, op) : NULL;
    return node && node->input_count && one == 1 ? node->inputs[0] : NULL;
}

/* x / sqrt(2), as a product or a division. */
static bool is_over_root_2(struct xt_reader *reader, struct xt_read_value *value,
                           struct xt_read_value *x)
{
    struct xt_read_value *own = xt_match_origin(value);
    struct xt_read_node *node = own ? own->producer : NULL;
    if (!xt_read_is(node, "Mul") && !xt_read_is(node, "Div"))
        return false;
    struct product product = product_of(reader, node);
    return product.count == 1 && product.factors[0] == x && is_near(product.number, M_SQRT1_2);
}

/* -x / sqrt(2): of that Erfc is 1 + Erf(x / sqrt(2)); no operator of ONNX's, but what tf2onnx
 * leaves of TensorFlow's GELU. */
static bool is_under_root_2(struct xt_reader *reader, struct xt_read_value *value,
                            const struct xt_read_value *x)
{
    struct xt_read_node *times = xt_match_made_by(value, "Mul");
    struct product product = times ? product_of(reader, times) : (struct product){.large = true};
    struct xt_read_node *minus =
        product.count == 1 ? xt_match_made_by(product.factors[0], "Neg") : NULL;
    return minus && !product.large && minus->input_count &&
           xt_match_origin(minus->inputs[0]) == x && is_near(product.number, M_SQRT1_2);
}

/* x * x * x, or x to the third. */
static bool is_cube(struct xt_reader *reader, struct xt_read_value *value, struct xt_read_value *x)
{
    double three = 0;
    struct xt_read_node *power = xt_match_made_by(value, "Pow");
    if (power)
        return xt_match_beside_number(reader, power, &three) == x && three == 3;
    struct xt_read_node *node = xt_match_made_by(value, "Mul");
    struct product product = node ? product_of(reader, node) : (struct product){0};
    return product.count == 3 && product.number == 1 && product.factors[0] == x &&
           product.factors[1] == x && product.factors[2] == x;
}

/* sqrt(2 / pi) * (x + 0.044715 x^3). */
static bool is_tanh_argument(struct xt_reader *reader, struct xt_read_value *value,
                             struct xt_read_value *x)
{
    struct xt_read_node *outer = xt_match_made_by(value, "Mul");
    struct product product = outer ? product_of(reader, outer) : (struct product){0};
    struct xt_read_node *sum =
        product.count == 1 ? xt_match_made_by(product.factors[0], "Add") : NULL;
    if (!sum || sum->input_count != 2 || !is_near(product.number, 0.7978845608))
        return false;
    struct xt_read_value *cubic =
        xt_match_origin(sum->inputs[xt_match_origin(sum->inputs[0]) == x]);
    struct xt_read_node *node = cubic ? xt_match_made_by(cubic, "Mul") : NULL;
    double number = 0;
    struct xt_read_value *cube = node ? xt_match_beside_number(reader, node, &number) : NULL;
    if (cube)
        return is_near(number, 0.044715) && is_cube(reader, cube, x);
    struct product inner = node ? product_of(reader, node) : (struct product){0};
    return inner.count == 3 && inner.factors[0] == x && inner.factors[1] == x &&
           inner.factors[2] == x && is_near(inner.number, 0.044715);
}

/* x times a hard sigmoid of x with PyTorch's slope. */
static bool is_hard_swish(struct xt_read_node *hard, double number, const struct xt_read_value *x)
{
    return number == 1 && hard && xt_match_origin(hard->inputs[0]) == x &&
           is_near(xt_read_float(hard, "alpha", 0.2), 1.0 / 6) &&
           xt_read_float(hard, "beta", 0.5) == 0.5;
}

static bool is_erfc_of(struct xt_reader *reader, struct xt_read_node *erfc,
                       const struct xt_read_value *x)
{
    return erfc && erfc->input_count && is_under_root_2(reader, erfc->inputs[0], x);
}

/* What x is multiplied by, and by which number: the activation that this is. */
static bool gate_of(struct xt_reader *reader, struct xt_read_value *x, struct xt_read_value *gate,
                    double number, struct xt_activation *out)
{
    struct xt_read_node *sigmoid = xt_match_made_by(gate, "Sigmoid");
    struct xt_read_node *hard = xt_match_made_by(gate, "HardSigmoid");
    struct xt_read_node *tanh = xt_match_made_by(gate, "Tanh");
    struct xt_read_node *softplus = tanh ? xt_match_made_by(tanh->inputs[0], "Softplus") : NULL;
    struct xt_read_value *erf = one_and(reader, gate, "Erf");
    struct xt_read_node *erfc = xt_match_made_by(gate, "Erfc");
    struct xt_read_value *inner = one_and(reader, gate, "Tanh");
    if (number == 1 && sigmoid && xt_match_origin(sigmoid->inputs[0]) == x)
        *out = (struct xt_activation){.kind = XT_ACT_SILU};
    else if (is_hard_swish(hard, number, x) ||
             (is_near(number, 1.0 / 6) && relu6_of_3(reader, gate) == x))
        *out = (struct xt_activation){.kind = XT_ACT_HARD_SWISH};
    else if (number == 1 && softplus && xt_match_origin(softplus->inputs[0]) == x)
        *out = (struct xt_activation){.kind = XT_ACT_MISH};
    else if (number == 0.5 &&
             ((erf && is_over_root_2(reader, erf, x)) || is_erfc_of(reader, erfc, x)))
        *out = (struct xt_activation){.kind = XT_ACT_GELU};
    else if (number == 0.5 && inner && is_tanh_argument(reader, inner, x))
        *out = (struct xt_activation){.kind = XT_ACT_GELU_TANH};
    else
        return false;
    return true;
}

static bool match_activation(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_activation activation;
    if (!xt_read_is(node, "Mul") && !xt_read_is(node, "Div"))
        return false;
    struct product product = product_of(reader, node);
    if (product.large)
        return false;
    for (int i = 0; product.count == 2 && i < 2; i++)
        if (gate_of(reader, product.factors[i], product.factors[1 - i], product.number,
                    &activation))
            return become(reader, node, activation, product.factors[i]);
    struct xt_read_value *x = product.count == 1 && is_near(product.number, 1.0 / 6)
                                  ? relu6_of_3(reader, product.factors[0])
                                  : NULL;
    activation = (struct xt_activation){XT_ACT_HARD_SIGMOID, 1.0f / 6, 0.5f};
    return x && become(reader, node, activation, x);
}

static bool is_same_order(struct xt_reader *reader, const struct xt_read_node *a,
                          const struct xt_read_node *b)
{
    int64_t order[2][XT_READ_DIMS_MAX];
    int count = xt_read_ints(reader, a, "perm", -1, order[0]);
    return count > 0 && xt_read_ints(reader, b, "perm", -1, order[1]) == count &&
           memcmp(order[0], order[1], (size_t)count * sizeof *order[0]) == 0;
}

/* Of images tf2onnx turns both factors of TensorFlow's GELU: half of x, and what Erfc is of. Here x
 * is turned. */
static bool match_turned_gelu(struct xt_reader *reader, struct xt_read_node *node)
{
    for (int i = 0; i < 2 && xt_read_is(node, "Mul") && node->input_count == 2; i++) {
        struct xt_read_node *half = xt_match_made_by(node->inputs[i], "Transpose");
        struct xt_read_node *erfc = half ? xt_match_made_by(node->inputs[1 - i], "Erfc") : NULL;
        struct xt_read_node *turn =
            erfc && erfc->input_count ? xt_match_made_by(erfc->inputs[0], "Transpose") : NULL;
        double number = 0;
        struct xt_read_value *x =
            turn && half->input_count && turn->input_count && is_same_order(reader, half, turn)
                ? xt_match_beside_number(reader, xt_match_made_by(half->inputs[0], "Mul"), &number)
                : NULL;
        if (!x || number != 0.5 || xt_match_origin(node->inputs[i])->readers != 1 ||
            !is_under_root_2(reader, turn->inputs[0], x))
            continue;
        half->inputs[0] = x;
        return become(reader, node, (struct xt_activation){.kind = XT_ACT_GELU}, node->inputs[i]);
    }
    return false;
}

/* ---- stochastic depth ---- */

static struct xt_read_node *random_node(struct xt_read_value *value)
{
    static const char *const ops[] = {"RandomUniformLike", "RandomUniform", "Bernoulli"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (xt_match_made_by(value, ops[i]))
            return xt_match_made_by(value, ops[i]);
    return NULL;
}

/* The shape of what a constant is repeated to. */
static struct xt_read_value *filled_shape(struct xt_read_value *value)
{
    struct xt_read_node *filled = xt_match_made_by(value, "ConstantOfShape");
    struct xt_read_node *expanded = xt_match_made_by(value, "Expand");
    if (filled && filled->input_count)
        return filled->inputs[0];
    return expanded && expanded->input_count == 2 ? expanded->inputs[1] : NULL;
}

/* A mask of zeros and ones: the part that stays, and its shape. */
static struct xt_read_value *mask_of(struct xt_reader *reader, struct xt_read_value *value,
                                     double *stays)
{
    struct xt_read_node *less = xt_match_made_by(value, "Less");
    struct xt_read_node *floors = xt_match_made_by(value, "Floor");
    struct xt_read_value *random = NULL;
    if (less && less->input_count == 2 && xt_match_number_of(reader, less->inputs[1], stays))
        random = less->inputs[0];
    else if (floors && floors->input_count)
        random = xt_match_beside_number(reader, xt_match_made_by(floors->inputs[0], "Add"), stays);
    struct xt_read_node *node = random ? random_node(random) : NULL;
    return node && node->input_count ? filled_shape(node->inputs[0]) : NULL;
}

/* Whether the only node that reads the product multiplies or divides it by a number. */
static bool is_scaled_later(struct xt_reader *reader, const struct xt_read_node *node)
{
    const struct xt_read_value *value = node->outputs[0];
    double number = 0;
    for (size_t i = 0; value && value->readers == 1 && i < reader->node_count; i++) {
        struct xt_read_node *reads = &reader->nodes[i];
        bool is_product = xt_read_is(reads, "Mul") || xt_read_is(reads, "Div");
        for (int k = 0; is_product && reads->input_count == 2 && k < 2; k++)
            if (reads->inputs[k] == value)
                return xt_match_number_of(reader, reads->inputs[1 - k], &number);
    }
    return false;
}

static bool become_dropout(struct xt_reader *reader, struct xt_read_node *node, double stays,
                           struct xt_read_value *in, struct xt_read_value *shape)
{
    node->number = 1 - stays;
    return xt_match_replace(reader, node, "(dropout)", (struct xt_read_value *[]){in, shape}, 2);
}

/* x * (mask / stays), where x may be a product of others. */
static bool match_scaled_mask(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { DEPTH = 1 };
    for (int i = 0; xt_read_is(node, "Mul") && node->input_count == 2 && i < 2; i++) {
        struct product mask = {.number = 1};
        double stays = 0;
        collect(reader, node->inputs[i], DEPTH, &mask);
        struct xt_read_value *shape =
            mask.count == 1 ? mask_of(reader, mask.factors[0], &stays) : NULL;
        if (shape && is_near(mask.number * stays, 1))
            return become_dropout(reader, node, stays, node->inputs[1 - i], shape);
    }
    return false;
}

/* Of elements, samples or channels, by the mask's shape. */
static bool match_dropout(struct xt_reader *reader, struct xt_read_node *node)
{
    if (match_scaled_mask(reader, node))
        return true;
    if (!xt_read_is(node, "Mul") && !xt_read_is(node, "Div"))
        return false;
    struct product product = product_of(reader, node);
    for (int i = 0; product.count == 2 && !product.large && i < 2; i++) {
        double stays = 0;
        double ratio = 0.5;
        struct xt_read_value *shape = mask_of(reader, product.factors[1 - i], &stays);
        struct xt_read_node *dropout = xt_match_made_by(product.factors[1 - i], "Dropout");
        if (!shape && dropout && product.number == 1 && dropout->input_count > 1 &&
            xt_match_number_of(reader, dropout->inputs[1], &ratio)) {
            shape = filled_shape(dropout->inputs[0]);
            stays = 1 - ratio;
        } else if (shape && !is_near(product.number * stays, 1)) {
            if (is_scaled_later(reader, node))
                return false;
            return xt_reader_refuse(reader, node,
                                    "drops samples without making the others larger, which "
                                    "stochastic depth does (scale_by_keep)");
        }
        if (!shape)
            continue;
        return become_dropout(reader, node, stays, product.factors[i], shape);
    }
    return false;
}

/* ---- layer norm ---- */

/* x - mean(x) over the last axis: x. */
static struct xt_read_value *centred(struct xt_reader *reader, struct xt_read_value *value)
{
    int64_t axes[XT_READ_DIMS_MAX];
    struct xt_read_node *minus = xt_match_made_by(value, "Sub");
    struct xt_read_node *mean =
        minus && minus->input_count == 2 ? xt_match_made_by(minus->inputs[1], "ReduceMean") : NULL;
    bool last = mean && xt_read_ints(reader, mean, "axes", 1, axes) == 1 && axes[0] == -1;
    return last && xt_match_origin(mean->inputs[0]) == xt_match_origin(minus->inputs[0])
               ? xt_match_origin(minus->inputs[0])
               : NULL;
}

static bool is_square(struct xt_reader *reader, struct xt_read_value *value,
                      struct xt_read_value *of)
{
    double two = 0;
    struct xt_read_node *power = xt_match_made_by(value, "Pow");
    struct xt_read_node *product = xt_match_made_by(value, "Mul");
    if (power)
        return xt_match_beside_number(reader, power, &two) == of && two == 2;
    return product && product->input_count == 2 && xt_match_origin(product->inputs[0]) == of &&
           xt_match_origin(product->inputs[1]) == of;
}

/* (x - mean) / sqrt(mean((x - mean)^2) + eps): x, and eps. */
static struct xt_read_value *normed(struct xt_reader *reader, struct xt_read_value *value,
                                    double *eps)
{
    int64_t axes[XT_READ_DIMS_MAX];
    struct xt_read_node *divide = xt_match_made_by(value, "Div");
    struct xt_read_node *root =
        divide && divide->input_count == 2 ? xt_match_made_by(divide->inputs[1], "Sqrt") : NULL;
    struct xt_read_value *variance =
        root && root->input_count
            ? xt_match_beside_number(reader, xt_match_made_by(root->inputs[0], "Add"), eps)
            : NULL;
    struct xt_read_node *mean = variance ? xt_match_made_by(variance, "ReduceMean") : NULL;
    struct xt_read_value *middle = mean ? xt_match_origin(divide->inputs[0]) : NULL;
    bool fits = middle && xt_read_ints(reader, mean, "axes", 1, axes) == 1 && axes[0] == -1 &&
                is_square(reader, mean->inputs[0], middle);
    return fits ? centred(reader, middle) : NULL;
}

/* `value * weight`, or `value + bias`, in either order: the value. */
static struct xt_read_value *beside_weight(struct xt_read_node *node, struct xt_read_value **weight)
{
    for (int i = 0; node && node->input_count == 2 && i < 2; i++) {
        *weight = xt_match_origin(node->inputs[1 - i]);
        if (*weight && (*weight)->initializer)
            return xt_match_origin(node->inputs[i]);
    }
    return NULL;
}

static bool match_layer_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_value *weight = NULL;
    struct xt_read_value *bias = NULL;
    double eps = 0;
    struct xt_read_value *sum = xt_read_is(node, "Add") ? beside_weight(node, &bias) : NULL;
    struct xt_read_value *scaled =
        sum ? beside_weight(xt_match_made_by(sum, "Mul"), &weight) : NULL;
    struct xt_read_value *x = scaled ? normed(reader, scaled, &eps) : NULL;
    if (!x)
        return false;
    node->number = eps;
    return xt_match_replace(reader, node, "(layer norm)",
                            (struct xt_read_value *[]){x, weight, bias}, 3);
}

/* ---- batch norm ---- */

/* A vector of the file, along one axis of any. */
static bool is_vector(struct xt_read_value *value)
{
    struct xt_read_value *own = xt_match_origin(value);
    while (own && (xt_match_made_by(own, "Reshape") || xt_match_made_by(own, "Unsqueeze")))
        own = own->producer->input_count ? xt_match_origin(own->producer->inputs[0]) : NULL;
    return own && own->initializer && own->initializer->n_dims == 1;
}

/* 1 / sqrt(VARIANCE + eps): the variance. */
static struct xt_read_value *variance_of(struct xt_reader *reader, struct xt_read_value *value,
                                         double *eps)
{
    double one = 1;
    struct xt_read_node *divide = xt_match_made_by(value, "Div");
    struct xt_read_node *inverse = divide ? divide : xt_match_made_by(value, "Reciprocal");
    bool fits = inverse && inverse->input_count == (divide ? 2 : 1) &&
                (!divide || (xt_match_number_of(reader, divide->inputs[0], &one) && one == 1));
    struct xt_read_node *root =
        fits ? xt_match_made_by(inverse->inputs[divide ? 1 : 0], "Sqrt") : NULL;
    struct xt_read_value *variance =
        root && root->input_count
            ? xt_match_beside_number(reader, xt_match_made_by(root->inputs[0], "Add"), eps)
            : NULL;
    return variance && is_vector(variance) ? variance : NULL;
}

/* The input of `node` that is made by that, and its other one. */
static struct xt_read_node *beside_made(const struct xt_read_node *node, const char *op,
                                        struct xt_read_value **other)
{
    for (int i = 0; node->input_count == 2 && i < 2; i++) {
        struct xt_read_node *made = xt_match_made_by(node->inputs[i], op);
        *other = node->inputs[1 - i];
        if (made && made->input_count == 2)
            return made;
    }
    return NULL;
}

/* (x - MEAN) * (1 / sqrt(VARIANCE + eps) * scale) + shift in evaluation, as Keras writes it by its
 * backend of PyTorch. */
static bool match_batch_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_value *shift = NULL;
    struct xt_read_value *by = NULL;
    struct xt_read_value *scale = NULL;
    struct xt_read_value *variance = NULL;
    double eps = 0;
    struct xt_read_node *product =
        xt_read_is(node, "Add") ? beside_made(node, "Mul", &shift) : NULL;
    struct xt_read_node *minus = product ? beside_made(product, "Sub", &by) : NULL;
    struct xt_read_node *factor = minus ? xt_match_made_by(by, "Mul") : NULL;
    for (int i = 0; factor && factor->input_count == 2 && !variance && i < 2; i++) {
        scale = factor->inputs[1 - i];
        variance = variance_of(reader, factor->inputs[i], &eps);
    }
    if (!variance || !is_vector(minus->inputs[1]))
        return false;
    node->number = eps;
    return xt_match_replace(
        reader, node, "(batch norm)",
        (struct xt_read_value *[]){minus->inputs[0], scale, shift, minus->inputs[1], variance}, 5);
}

/* ---- weights ---- */

/* The mean over all axes but that of channels, of weights whose rows stand in one sample: what it
 * is the mean of. */
static struct xt_read_value *mean_of_rows(struct xt_reader *reader, struct xt_read_value *value)
{
    int64_t axes[XT_READ_DIMS_MAX];
    struct xt_read_node *mean = value ? xt_match_made_by(value, "ReduceMean") : NULL;
    bool fits =
        mean && xt_read_ints(reader, mean, "axes", 1, axes) == 2 && axes[0] == 0 && axes[1] == 2;
    return fits ? xt_match_origin(mean->inputs[0]) : NULL;
}

/* Whether they are the mean and the variance of x, as its exporter wrote them with optimize=False.
 */
static bool are_own_statistics(struct xt_reader *reader, struct xt_read_value *mean,
                               struct xt_read_value *variance, struct xt_read_value *x)
{
    struct xt_read_value *square = mean_of_rows(reader, variance);
    struct xt_read_node *product = square ? xt_match_made_by(square, "Mul") : NULL;
    struct xt_read_value *middle =
        product && product->input_count ? xt_match_origin(product->inputs[0]) : NULL;
    struct xt_read_node *minus = middle ? xt_match_made_by(middle, "Sub") : NULL;
    return minus && minus->input_count == 2 && is_square(reader, square, middle) &&
           xt_match_origin(minus->inputs[0]) == x && mean_of_rows(reader, minus->inputs[1]) == x &&
           mean_of_rows(reader, mean) == x;
}

/* A batch norm of weights, by their own mean and variance: the running ones, which exporters write
 * as computed too, are not used. */
static bool match_weight_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    bool fits = xt_read_is(node, "BatchNormalization") && node->input_count == 5 &&
                node->inputs[0] && !node->inputs[0]->of_images;
    fits = fits && (xt_read_norm_trains(reader, node) ||
                    are_own_statistics(reader, node->inputs[3], node->inputs[4],
                                       xt_match_origin(node->inputs[0])));
    return fits && xt_match_replace(reader, node, "(weight norm)", node->inputs, 3);
}

/* ---- softmax ---- */

/* A softmax, and 0 where it is not a number: in rows that are masked as a whole, which are refused.
 */
static bool match_safe_softmax(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_node *is_nan = xt_read_is(node, "Where") && node->input_count == 3
                                      ? xt_match_made_by(node->inputs[0], "IsNaN")
                                      : NULL;
    double zero = 1;
    return is_nan && is_nan->input_count == 1 && xt_match_made_by(node->inputs[2], "Softmax") &&
           is_nan->inputs[0] == node->inputs[2] &&
           xt_match_number_of(reader, node->inputs[1], &zero) && zero == 0 &&
           xt_match_replace(reader, node, "Identity", &node->inputs[2], 1);
}

/* ---- linear ---- */

/* A weight, as it is or transposed. */
static bool is_weight(struct xt_read_value *value)
{
    struct xt_read_value *own = xt_match_origin(value);
    struct xt_read_node *transpose = own ? xt_match_made_by(own, "Transpose") : NULL;
    own = transpose && transpose->input_count ? xt_match_origin(transpose->inputs[0]) : own;
    return own && own->initializer;
}

/* Whether the matrix, as it is, gives a number for each of the bias's, and more than one. */
static bool gives_channels(struct xt_read_value *matrix, const struct xt_read_value *bias)
{
    const Onnx__TensorProto *weight = xt_match_origin(matrix)->initializer;
    int64_t channels = bias->initializer->dims[0];
    return weight && weight->n_dims == 2 && weight->dims[1] == channels && channels > 1;
}

/* A product whose bias is added to it, or, as TensorFlow multiplies rows, to it in the rows' shape.
 */
static bool match_linear(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_value *bias = NULL;
    struct xt_read_value *sum = xt_read_is(node, "Add") ? beside_weight(node, &bias) : NULL;
    struct xt_read_node *reshape = sum && sum->readers == 1 && bias->initializer->n_dims == 1
                                       ? xt_match_made_by(sum, "Reshape")
                                       : NULL;
    struct xt_read_value *product = !reshape               ? sum
                                    : reshape->input_count ? xt_match_origin(reshape->inputs[0])
                                                           : NULL;
    struct xt_read_node *matmul = product ? xt_match_made_by(product, "MatMul") : NULL;
    if (!matmul || product->readers != 1 || matmul->input_count != 2 ||
        bias->initializer->n_dims != 1 || !is_weight(matmul->inputs[1]))
        return false;
    struct xt_read_value *const layer[] = {matmul->inputs[0], matmul->inputs[1], bias};
    if (!reshape)
        return xt_match_replace(reader, node, "(linear)", layer, 3);
    return gives_channels(matmul->inputs[1], bias) &&
           xt_match_replace(reader, matmul, "(linear)", layer, 3) &&
           xt_match_replace(reader, node, "Identity", &sum, 1);
}

/* Nodes stand behind those that they read. */
static void find_images(struct xt_reader *reader)
{
    reader->input->of_images = true;
    for (size_t i = 0; i < reader->node_count; i++) {
        const struct xt_read_node *node = &reader->nodes[i];
        bool of_images = false;
        for (int k = 0; k < node->input_count; k++)
            of_images = of_images || (node->inputs[k] && node->inputs[k]->of_images);
        for (int k = 0; k < node->output_count; k++)
            if (node->outputs[k])
                node->outputs[k]->of_images = of_images;
    }
}

/* Computes what is of constants alone, which files that are not optimised have much of: patterns
 * have numbers in them. */
static void fold_constants(struct xt_reader *reader)
{
    enum { FOLDED_MAX = 4096 };
    for (size_t i = 0; i < reader->node_count && !xt_reader_fails(reader); i++) {
        struct xt_read_node *node = &reader->nodes[i];
        bool known = node->input_count > 0 && !node->choice;
        for (int k = 0; k < node->input_count && known; k++) {
            struct xt_read_constant *in =
                node->inputs[k] ? xt_read_constant_of(reader, node->inputs[k]) : NULL;
            known = in && in->count <= FOLDED_MAX && !xt_read_is_learned(reader, in);
        }
        if (known)
            xt_read_fold(reader, node);
    }
}

bool xt_reader_match(struct xt_reader *reader)
{
    static bool (*const patterns[])(struct xt_reader * reader, struct xt_read_node * node) = {
        match_activation, match_turned_gelu,      match_dropout,      match_layer_norm,
        match_batch_norm, match_weight_norm,      match_safe_softmax, match_linear,
        xt_match_strides, xt_match_adaptive_pool, xt_match_sequence};
    find_images(reader);
    fold_constants(reader);
    for (size_t i = 0; i < reader->node_count; i++)
        for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++)
            if (xt_reader_fails(reader) || patterns[k](reader, &reader->nodes[i]))
                break;
    return !xt_reader_fails(reader);
}
