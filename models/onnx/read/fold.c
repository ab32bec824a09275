/* Values that do not depend on the images: constants, and the arithmetic of shapes that exporters
 * write. Computed in double precision, whole numbers exactly up to 2^53. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/onnx/read/fold.h"

/* ---- constants ---- */

static bool count_of(const struct xt_read_constant *constant, size_t *count)
{
    int64_t product = 1;
    for (int i = 0; i < constant->ndims; i++)
        if (constant->dims[i] < 0 || __builtin_mul_overflow(product, constant->dims[i], &product))
            return false;
    *count = (size_t)product;
    return true;
}

static struct xt_read_constant *from_tensor(struct xt_reader *reader,
                                            const Onnx__TensorProto *proto, bool is_initializer)
{
    struct xt_file_tensor *tensor = xt_reader_take(reader, 1, sizeof *tensor);
    struct xt_read_constant *constant = xt_reader_take(reader, 1, sizeof *constant);
    if (!tensor || !constant ||
        xt_onnx_tensor(&reader->file, proto, &reader->store, tensor, &reader->err))
        return NULL;
    constant->ndims = tensor->ndims;
    memcpy(constant->dims, tensor->dims, sizeof constant->dims);
    constant->count = xt_file_tensor_count(tensor);
    constant->is_float = xt_dtype_is_float(tensor->dtype);
    constant->tensor = tensor;
    constant->name = tensor->name;
    for (int i = 0; i < tensor->ndims; i++)
        if (tensor->dims[i] >= XT_READ_BATCH)
            return xt_reader_refuse(reader, NULL,
                                    "the tensor \"%.80s\" is of %lld elements along one axis",
                                    tensor->name, (long long)tensor->dims[i]);
    if (is_initializer)
        return constant;
    if (!xt_read_numbers(reader, constant))
        return xt_reader_refuse(reader, NULL,
                                "the constant \"%.80s\" is of %zu numbers: %d are supported",
                                tensor->name, constant->count, XT_READ_STORED_MAX);
    constant->tensor = NULL;
    return constant;
}

struct xt_read_constant *xt_read_make(struct xt_reader *reader, int ndims, const int64_t dims[],
                                      bool is_float)
{
    struct xt_read_constant shape = {.ndims = ndims, .is_float = is_float};
    for (int i = 0; i < ndims; i++)
        shape.dims[i] = dims[i];
    if (!count_of(&shape, &shape.count) || shape.count > XT_READ_NUMBERS_MAX)
        return NULL;
    reader->computed += shape.count;
    if (reader->computed > XT_READ_COMPUTED_MAX)
        return xt_reader_refuse(reader, NULL,
                                "computes more than %d numbers of constants while it is read",
                                XT_READ_COMPUTED_MAX);
    struct xt_read_constant *out = xt_reader_take(reader, 1, sizeof *out);
    shape.numbers = xt_reader_take(reader, shape.count + 1, sizeof *shape.numbers);
    if (!out || !shape.numbers)
        return NULL;
    *out = shape;
    return out;
}

/* Constant's attribute, of one of several kinds. */
static struct xt_read_constant *from_node(struct xt_reader *reader, const struct xt_read_node *node)
{
    const Onnx__AttributeProto *value = xt_read_attribute(node, "value");
    const Onnx__AttributeProto *number = xt_read_attribute(node, "value_float");
    const Onnx__AttributeProto *whole = xt_read_attribute(node, "value_int");
    const Onnx__AttributeProto *wholes = xt_read_attribute(node, "value_ints");
    const Onnx__AttributeProto *numbers = xt_read_attribute(node, "value_floats");
    if (value && value->t)
        return from_tensor(reader, value->t, false);
    if ((number && number->has_f) || (whole && whole->has_i)) {
        struct xt_read_constant *out = xt_read_make(reader, 0, NULL, number != NULL);
        if (out)
            out->numbers[0] = number ? (double)number->f : (double)whole->i;
        return out;
    }
    if (!wholes && !numbers)
        return NULL;
    int64_t count = (int64_t)(wholes ? wholes->n_ints : numbers->n_floats);
    struct xt_read_constant *out = xt_read_make(reader, 1, &count, numbers != NULL);
    for (int64_t i = 0; out && i < count; i++)
        out->numbers[i] = wholes ? (double)wholes->ints[i] : (double)numbers->floats[i];
    return out;
}

struct xt_read_constant *xt_read_constant_of(struct xt_reader *reader, struct xt_read_value *value)
{
    if (!value || value->constant || value->view)
        return value ? value->constant : NULL;
    if (value->initializer)
        value->constant = from_tensor(reader, value->initializer, true);
    else if (xt_read_is(value->producer, "Constant"))
        value->constant = from_node(reader, value->producer);
    return value->constant;
}

const double *xt_read_numbers(struct xt_reader *reader, struct xt_read_constant *constant)
{
    if (constant->numbers || constant->count > XT_READ_STORED_MAX)
        return constant->numbers;
    double *numbers = xt_reader_take(reader, constant->count + 1, sizeof *numbers);
    size_t columns = constant->transposed ? (size_t)constant->dims[1] : 1;
    size_t rows = constant->transposed ? (size_t)constant->dims[0] : constant->count;
    for (size_t i = 0; numbers && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            numbers[i * columns + k] = xt_onnx_tensor_number(constant->tensor, k * rows + i);
    constant->numbers = numbers;
    return numbers;
}

bool xt_read_is_vector(const int64_t *dims, int ndims)
{
    int axes = 0;
    for (int i = 0; i < ndims; i++)
        axes += dims[i] != 1;
    return axes == 1;
}

int64_t xt_read_whole(double number)
{
    static const double limit = 9e18;
    if (number >= limit)
        return INT64_MAX;
    return number > -limit ? (int64_t)number : INT64_MIN;
}

bool xt_read_all_equal(struct xt_reader *reader, struct xt_read_constant *constant, double *out)
{
    const double *numbers = constant && constant->count ? xt_read_numbers(reader, constant) : NULL;
    for (size_t i = 1; numbers && i < constant->count; i++)
        if (numbers[i] != numbers[0])
            return false;
    if (numbers)
        *out = numbers[0];
    return numbers != NULL;
}

bool xt_read_number(struct xt_reader *reader, struct xt_read_value *value, double *out)
{
    struct xt_read_constant *constant = xt_read_constant_of(reader, value);
    return constant && !xt_read_is_learned(reader, constant) &&
           xt_read_all_equal(reader, constant, out);
}

bool xt_read_limits(struct xt_reader *reader, const struct xt_read_node *node, double *low,
                    double *high)
{
    *low = xt_read_float(node, "min", -HUGE_VAL);
    *high = xt_read_float(node, "max", HUGE_VAL);
    return (!xt_read_input(node, 1) || xt_read_number(reader, xt_read_input(node, 1), low)) &&
           (!xt_read_input(node, 2) || xt_read_number(reader, xt_read_input(node, 2), high));
}

/* ---- element by element ---- */

static const struct {
    const char *op;
    char sign; /* in compute_binary */
} binaries[] = {
    {"Add", '+'},
    {"Sub", '-'},
    {"Mul", '*'},
    {"Div", '/'},
    {"Min", 'm'},
    {"Max", 'M'},
    {"Pow", '^'},
    {"Mod", '%'},
    {"Equal", '='},
    {"Less", '<'},
    {"LessOrEqual", 'l'},
    {"Greater", '>'},
    {"GreaterOrEqual", 'g'},
    {"And", '&'},
    {"Or", '|'},
};

static double compute_binary(char sign, double a, double b)
{
    switch (sign) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '/':
        return a / b;
    case 'm':
        return a < b ? a : b;
    case 'M':
        return a > b ? a : b;
    case '^':
        return pow(a, b);
    case '=':
        return a == b;
    case '<':
        return a < b;
    case 'l':
        return a <= b;
    case '>':
        return a > b;
    case 'g':
        return a >= b;
    case '&':
        return a != 0 && b != 0;
    case '|':
        return a != 0 || b != 0;
    default: /* Mod: of the divisor's sign, as ONNX has it without fmod */
        return a - b * floor(a / b);
    }
}

static double negate(double a)
{
    return -a;
}
static double invert(double a)
{
    return 1 / a;
}
static double sign_of(double a)
{
    return a > 0 ? 1 : a < 0 ? -1 : a;
}
static double is_not(double a)
{
    return a == 0;
}

static const struct {
    const char *op;
    double (*of)(double a);
} unaries[] = {
    {"Neg", negate}, {"Sqrt", sqrt}, {"Floor", floor},       {"Ceil", ceil},  {"Abs", fabs},
    {"Exp", exp},    {"Log", log},   {"Reciprocal", invert}, {"Not", is_not}, {"Round", rint},
    {"Sin", sin},    {"Cos", cos},   {"Sign", sign_of},
};

bool xt_fold_is_by_elements(const struct xt_read_node *node)
{
    static const char *const others[] = {"Cast", "CastLike", "Clip", "Where"};
    bool is = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        is = is || xt_read_is(node, others[i]);
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        is = is || xt_read_is(node, unaries[i].op);
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        is = is || xt_read_is(node, binaries[i].op);
    return is;
}

bool xt_fold_broadcast(struct xt_read_constant *const in[], int count, struct xt_read_constant *out)
{
    *out = (struct xt_read_constant){0};
    for (int i = 0; i < count; i++)
        out->ndims = in[i]->ndims > out->ndims ? in[i]->ndims : out->ndims;
    for (int axis = 0; axis < out->ndims; axis++) {
        out->dims[axis] = 1;
        for (int i = 0; i < count; i++) {
            int own = axis - (out->ndims - in[i]->ndims);
            int64_t dim = own < 0 ? 1 : in[i]->dims[own];
            if (dim != 1 && out->dims[axis] != 1 && dim != out->dims[axis])
                return false;
            out->dims[axis] = dim != 1 ? dim : out->dims[axis];
        }
    }
    return true;
}

double xt_fold_element(const struct xt_read_constant *in, const struct xt_read_constant *shape,
                       size_t index)
{
    size_t at = 0;
    size_t stride = 1;
    for (int axis = shape->ndims - 1, own = in->ndims - 1; own >= 0; axis--, own--) {
        size_t dim = (size_t)shape->dims[axis];
        at += index % dim % (size_t)in->dims[own] * stride;
        stride *= (size_t)in->dims[own];
        index /= dim;
    }
    return in->numbers[at];
}

static struct xt_read_constant *fold_binary(const struct xt_fold *f, char sign)
{
    struct xt_read_constant shape;
    if (!xt_fold_broadcast(f->in, 2, &shape))
        return NULL;
    bool is_float = f->in[0]->is_float;
    struct xt_read_constant *out = xt_read_make(f->reader, shape.ndims, shape.dims, is_float);
    for (size_t i = 0; out && i < out->count; i++) {
        double result = compute_binary(sign, xt_fold_element(f->in[0], out, i),
                                       xt_fold_element(f->in[1], out, i));
        out->numbers[i] = is_float ? result : trunc(result);
    }
    return out;
}

static struct xt_read_constant *fold_where(const struct xt_fold *f)
{
    struct xt_read_constant shape;
    if (!xt_fold_broadcast(f->in, 3, &shape))
        return NULL;
    struct xt_read_constant *out =
        xt_read_make(f->reader, shape.ndims, shape.dims, f->in[1]->is_float);
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] =
            xt_fold_element(f->in[xt_fold_element(f->in[0], out, i) != 0 ? 1 : 2], out, i);
    return out;
}

/* ---- shapes ---- */

struct xt_read_constant *xt_fold_copy_as(struct xt_reader *reader,
                                         const struct xt_read_constant *in, int ndims,
                                         const int64_t dims[])
{
    struct xt_read_constant *out = xt_read_make(reader, ndims, dims, in->is_float);
    if (!out || out->count != in->count)
        return NULL;
    memcpy(out->numbers, in->numbers, in->count * sizeof *in->numbers);
    return out;
}

static struct xt_read_constant *fold_clip(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    double low;
    double high;
    if (!xt_read_limits(f->reader, f->node, &low, &high))
        return NULL;
    struct xt_read_constant *out = xt_fold_copy_as(f->reader, in, in->ndims, in->dims);
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] = fmin(fmax(out->numbers[i], low), high);
    return out;
}

static struct xt_read_constant *fold_cast(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t to = xt_read_int(f->node, "to", 0);
    struct xt_read_constant *out = xt_fold_copy_as(f->reader, in, in->ndims, in->dims);
    if (!out)
        return NULL;
    out->is_float = xt_read_is(f->node, "CastLike")
                        ? (f->count < 2 || f->in[1]->is_float)
                        : to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
                              to == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
                              to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                              to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    for (size_t i = 0; i < out->count; i++) {
        if (to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
            out->numbers[i] = out->numbers[i] != 0;
        else if (!out->is_float)
            out->numbers[i] = trunc(out->numbers[i]);
    }
    return out;
}

static int normal_axis(int64_t axis, int ndims)
{
    int64_t own = axis < 0 ? axis + ndims : axis;
    return own >= 0 && own < ndims ? (int)own : -1;
}

/* `in` as [outer][dim][inner] about an axis. */
static void around(const struct xt_read_constant *in, int axis, size_t *outer, size_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < axis; i++)
        *outer *= (size_t)in->dims[i];
    for (int i = axis + 1; i < in->ndims; i++)
        *inner *= (size_t)in->dims[i];
}

static struct xt_read_constant *fold_gather(const struct xt_fold *f)
{
    int axis = normal_axis(xt_read_int(f->node, "axis", 0), f->in[0]->ndims);
    int64_t dims[2 * XT_READ_DIMS_MAX];
    int ndims = 0;
    size_t outer = 0;
    size_t inner = 0;
    if (axis < 0 || f->in[0]->ndims - 1 + f->in[1]->ndims > XT_READ_DIMS_MAX)
        return NULL;
    for (int i = 0; i < axis; i++)
        dims[ndims++] = f->in[0]->dims[i];
    for (int i = 0; i < f->in[1]->ndims; i++)
        dims[ndims++] = f->in[1]->dims[i];
    for (int i = axis + 1; i < f->in[0]->ndims; i++)
        dims[ndims++] = f->in[0]->dims[i];
    around(f->in[0], axis, &outer, &inner);
    struct xt_read_constant *out = xt_read_make(f->reader, ndims, dims, f->in[0]->is_float);
    for (size_t i = 0; out && i < out->count; i++) {
        size_t which = i / inner % f->in[1]->count;
        double wanted = f->in[1]->numbers[which];
        double dim = (double)f->in[0]->dims[axis];
        wanted += wanted < 0 ? dim : 0;
        if (!(wanted >= 0 && wanted < dim))
            return NULL;
        size_t row = i / inner / f->in[1]->count * (size_t)f->in[0]->dims[axis] + (size_t)wanted;
        out->numbers[i] = f->in[0]->numbers[row * inner + i % inner];
    }
    return out;
}

static struct xt_read_constant *fold_concat(const struct xt_fold *f)
{
    const struct xt_read_constant *first = f->in[0];
    int axis = (int)normal_axis(xt_read_int(f->node, "axis", 0), first->ndims);
    int64_t dims[XT_READ_DIMS_MAX];
    size_t outer = 1;
    if (axis < 0 || axis >= first->ndims)
        return NULL;
    memcpy(dims, first->dims, sizeof dims);
    for (int i = 1; i < f->count; i++) {
        const struct xt_read_constant *in = f->in[i];
        for (int k = 0; k < first->ndims; k++)
            if (in->ndims != first->ndims || (k != axis && in->dims[k] != first->dims[k]))
                return NULL;
        dims[axis] += in->dims[axis];
    }
    for (int k = 0; k < axis; k++)
        outer *= (size_t)dims[k];
    struct xt_read_constant *out = xt_read_make(f->reader, first->ndims, dims, first->is_float);
    size_t at = 0;
    for (size_t o = 0; out && o < outer; o++)
        for (int i = 0; i < f->count; i++) {
            size_t part = f->in[i]->count / outer;
            memcpy(out->numbers + at, f->in[i]->numbers + o * part, part * sizeof *out->numbers);
            at += part;
        }
    return out;
}

/* Where a slice of an axis begins and how many it takes, backwards too. */
static int64_t slice_count(int64_t dim, int64_t end, int64_t step, int64_t *start)
{
    int64_t first = step < 0 ? dim - 1 : dim; /* the largest start */
    int64_t last = step < 0 ? -1 : 0;         /* the least end */
    *start = *start < -dim ? last : *start < 0 ? *start + dim : *start;
    *start = *start > first ? first : *start;
    end = end < -dim ? last : end < 0 ? end + dim : end > dim ? dim : end;
    int64_t room = step < 0 ? *start - end : end - *start;
    int64_t size = step < 0 ? -step : step;
    return room > 0 ? (room - 1) / size + 1 : 0;
}

/* Along one axis. */
static struct xt_read_constant *fold_slice(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t all[4][XT_READ_DIMS_MAX] = {{0}};
    int64_t dims[XT_READ_DIMS_MAX];
    size_t outer = 0;
    size_t inner = 0;
    bool given = xt_read_ints(f->reader, f->node, "starts", 1, all[0]) == 1 &&
                 xt_read_ints(f->reader, f->node, "ends", 2, all[1]) == 1;
    int axes = xt_read_ints(f->reader, f->node, "axes", 3, all[2]);
    int steps = xt_read_ints(f->reader, f->node, "steps", 4, all[3]);
    int64_t step = steps == 1 ? all[3][0] : 1;
    int axis = axes == 1 || axes == -1 ? normal_axis(axes == 1 ? all[2][0] : 0, in->ndims) : -1;
    if (!given || axis < 0 || (steps != 1 && steps != -1) || step == 0 || step < -INT32_MAX)
        return NULL;
    memcpy(dims, in->dims, sizeof dims);
    int64_t start = all[0][0];
    dims[axis] = slice_count(in->dims[axis], all[1][0], step, &start);
    around(in, axis, &outer, &inner);
    struct xt_read_constant *out = xt_read_make(f->reader, in->ndims, dims, in->is_float);
    size_t length = (size_t)dims[axis];
    for (size_t i = 0; out && length && i < out->count; i++) {
        size_t row = i / inner / length * (size_t)in->dims[axis];
        int64_t from = start + (int64_t)(i / inner % length) * step;
        out->numbers[i] = in->numbers[(row + (size_t)from) * inner + i % inner];
    }
    return out;
}

/* Of what Transpose gives, whose elements are walked through in order. */
struct layout {
    int ndims;
    int64_t dims[XT_READ_DIMS_MAX];
    size_t steps[XT_READ_DIMS_MAX]; /* of each axis in the input */
    int64_t at[XT_READ_DIMS_MAX];
    size_t place; /* of that element in the input */
};

static bool find_layout(struct xt_reader *reader, const struct xt_read_node *node,
                        const struct xt_read_constant *in, struct layout *out)
{
    int64_t perm[XT_READ_DIMS_MAX];
    size_t steps[XT_READ_DIMS_MAX]; /* of the input's axes */
    bool taken[XT_READ_DIMS_MAX] = {false};
    int ndims = in->ndims;
    int given = xt_read_ints(reader, node, "perm", -1, perm);
    for (int i = 0; i < ndims && given == -1; i++)
        perm[i] = ndims - 1 - i;
    if (given != -1 && given != ndims)
        return false;
    size_t step = 1;
    for (int i = ndims - 1; i >= 0; i--) {
        steps[i] = step;
        step *= (size_t)in->dims[i];
    }
    *out = (struct layout){.ndims = ndims};
    for (int i = 0; i < ndims; i++) {
        if (perm[i] < 0 || perm[i] >= ndims || taken[perm[i]])
            return false;
        taken[perm[i]] = true;
        out->dims[i] = in->dims[perm[i]];
        out->steps[i] = steps[perm[i]];
    }
    return true;
}

/* Where in the input the element is; then the next one. */
static size_t next_place(struct layout *layout)
{
    size_t place = layout->place;
    for (int i = layout->ndims - 1; i >= 0; i--) {
        layout->place += layout->steps[i];
        if (++layout->at[i] < layout->dims[i])
            break;
        layout->place -= (size_t)layout->dims[i] * layout->steps[i];
        layout->at[i] = 0;
    }
    return place;
}

static struct xt_read_constant *fold_transpose(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    struct layout layout;
    if (!find_layout(f->reader, f->node, in, &layout))
        return NULL;
    struct xt_read_constant *out = xt_read_make(f->reader, in->ndims, layout.dims, in->is_float);
    for (size_t i = 0; out && i < out->count; i++) {
        out->numbers[i] = in->numbers[next_place(&layout)];
    }
    return out;
}

static struct xt_read_constant *fold_squeeze(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t axes[XT_READ_DIMS_MAX];
    int64_t dims[XT_READ_DIMS_MAX];
    int count = xt_read_ints(f->reader, f->node, "axes", 1, axes);
    int ndims = 0;
    for (int i = 0; i < in->ndims; i++) {
        bool goes = count < 0 && in->dims[i] == 1;
        for (int k = 0; k < count; k++)
            goes = goes || normal_axis(axes[k], in->ndims) == i;
        if (!goes)
            dims[ndims++] = in->dims[i];
    }
    return xt_fold_copy_as(f->reader, in, ndims, dims);
}

static struct xt_read_constant *fold_unsqueeze(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t axes[XT_READ_DIMS_MAX];
    int64_t dims[XT_READ_DIMS_MAX];
    int count = xt_read_ints(f->reader, f->node, "axes", 1, axes);
    int ndims = in->ndims + count;
    if (count < 0 || ndims > XT_READ_DIMS_MAX)
        return NULL;
    int own = 0;
    for (int i = 0; i < ndims; i++) {
        bool is_new = false;
        for (int k = 0; k < count; k++)
            is_new = is_new || normal_axis(axes[k], ndims) == i;
        if (!is_new && own == in->ndims)
            return NULL;
        dims[i] = is_new ? 1 : in->dims[own++];
    }
    return xt_fold_copy_as(f->reader, in, ndims, dims);
}

static struct xt_read_constant *fold_reshape(const struct xt_fold *f)
{
    int64_t dims[XT_READ_DIMS_MAX];
    int open = -1;
    int64_t product = 1;
    if (f->in[1]->count > XT_READ_DIMS_MAX)
        return NULL;
    for (size_t i = 0; i < f->in[1]->count; i++) {
        dims[i] = xt_read_whole(f->in[1]->numbers[i]);
        if (dims[i] == 0 && (int)i < f->in[0]->ndims)
            dims[i] = f->in[0]->dims[i];
        if (dims[i] == -1)
            open = (int)i;
        else if (dims[i] < 0 || __builtin_mul_overflow(product, dims[i], &product))
            return NULL;
    }
    if (open >= 0)
        dims[open] = product ? (int64_t)f->in[0]->count / product : 0;
    return xt_fold_copy_as(f->reader, f->in[0], (int)f->in[1]->count, dims);
}

static struct xt_read_constant *fold_flatten(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t axis = xt_read_int(f->node, "axis", 1);
    int64_t dims[] = {1, 1};
    axis += axis < 0 ? in->ndims : 0;
    if (axis < 0 || axis > in->ndims)
        return NULL;
    for (int i = 0; i < in->ndims; i++)
        dims[i >= axis] *= in->dims[i]; /* their product is the count */
    return xt_fold_copy_as(f->reader, in, 2, dims);
}

/* Whether a constant of these dimensions is made for each sample, which is computed where sines are
 * made of it: for one then. */
static bool is_for_each_sample(const struct xt_reader *reader, int64_t dims[], int ndims)
{
    bool is = reader->has_sines && ndims > 0 && dims[0] == XT_READ_BATCH;
    if (is)
        dims[0] = 1;
    return is;
}

static struct xt_read_constant *fold_filled(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t dims[XT_READ_DIMS_MAX];
    const Onnx__AttributeProto *value = xt_read_attribute(f->node, "value");
    struct xt_read_constant *fill =
        value && value->t ? from_tensor(f->reader, value->t, false) : NULL;
    if (in->count > XT_READ_DIMS_MAX)
        return NULL;
    for (size_t i = 0; i < in->count; i++)
        dims[i] = xt_read_whole(in->numbers[i]);
    bool each_sample = is_for_each_sample(f->reader, dims, (int)in->count);
    struct xt_read_constant *out =
        xt_read_make(f->reader, (int)in->count, dims, !fill || fill->is_float);
    if (out)
        out->each_sample = each_sample;
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] = fill && fill->count ? fill->numbers[0] : 0;
    return out;
}

static struct xt_read_constant *fold_expand(const struct xt_fold *f)
{
    struct xt_read_constant wanted = {.ndims = (int)f->in[1]->count};
    struct xt_read_constant shape;
    struct xt_read_constant *const pair[] = {f->in[0], &wanted};
    if (f->in[1]->count > XT_READ_DIMS_MAX)
        return NULL;
    for (int i = 0; i < wanted.ndims; i++)
        wanted.dims[i] = xt_read_whole(f->in[1]->numbers[i]);
    bool each_sample =
        f->in[0]->count == 1 && is_for_each_sample(f->reader, wanted.dims, wanted.ndims);
    if (!xt_fold_broadcast(pair, 2, &shape))
        return NULL;
    struct xt_read_constant *out =
        xt_read_make(f->reader, shape.ndims, shape.dims, f->in[0]->is_float);
    if (out)
        out->each_sample = each_sample;
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] = xt_fold_element(f->in[0], out, i);
    return out;
}

static struct xt_read_constant *fold_tile(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t dims[XT_READ_DIMS_MAX] = {0};
    if (f->in[1]->count != (size_t)in->ndims)
        return NULL;
    for (int i = 0; i < in->ndims; i++) {
        int64_t times = xt_read_whole(f->in[1]->numbers[i]);
        if (times < 0 || in->dims[i] > XT_READ_NUMBERS_MAX || times > XT_READ_NUMBERS_MAX)
            return NULL;
        dims[i] = in->dims[i] * times;
    }
    struct xt_read_constant *out = xt_read_make(f->reader, in->ndims, dims, in->is_float);
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] = xt_fold_element(in, out, i);
    return out;
}

static struct xt_read_constant *fold_running_sum(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    int64_t axis = f->in[1]->count == 1 ? xt_read_whole(f->in[1]->numbers[0]) : in->ndims;
    axis += axis < 0 ? in->ndims : 0;
    if (axis < 0 || axis >= in->ndims || xt_read_int(f->node, "exclusive", 0) ||
        xt_read_int(f->node, "reverse", 0))
        return NULL;
    size_t step = 1;
    for (int i = in->ndims - 1; i > axis; i--)
        step *= (size_t)in->dims[i];
    struct xt_read_constant *out = xt_fold_copy_as(f->reader, in, in->ndims, in->dims);
    for (size_t i = step; out && i < out->count; i++)
        if (i / step % (size_t)in->dims[axis])
            out->numbers[i] += out->numbers[i - step];
    return out;
}

/* ScatterND, without a reduction: each row of indices names a part of the data, which is replaced.
 */
static struct xt_read_constant *fold_scatter(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    const struct xt_read_constant *at = f->in[1];
    const struct xt_read_constant *by = f->in[2];
    int depth =
        at->ndims && at->dims[at->ndims - 1] <= in->ndims ? (int)at->dims[at->ndims - 1] : 0;
    const struct xt_read_text reduction = xt_read_string(f->node, "reduction");
    if (depth < 1 || (*reduction.text && strcmp(reduction.text, "none") != 0))
        return NULL;
    size_t part = 1;
    for (int i = depth; i < in->ndims; i++)
        part *= (size_t)in->dims[i];
    size_t rows = at->count / (size_t)depth;
    struct xt_read_constant *out = xt_fold_copy_as(f->reader, in, in->ndims, in->dims);
    if (!part || by->count / part != rows || by->count % part)
        return NULL;
    for (size_t row = 0; out && row < rows; row++) {
        size_t place = 0;
        for (int i = 0; i < depth; i++) {
            int64_t index = xt_read_whole(at->numbers[row * (size_t)depth + (size_t)i]);
            index += index < 0 ? in->dims[i] : 0;
            if (index < 0 || index >= in->dims[i])
                return NULL;
            place = place * (size_t)in->dims[i] + (size_t)index;
        }
        memcpy(out->numbers + place * part, by->numbers + row * part, part * sizeof *out->numbers);
    }
    return out;
}

/* Trilu: zeros below the k-th diagonal (upper), or above it. */
static struct xt_read_constant *fold_triangle(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    bool upper = xt_read_int(f->node, "upper", 1) != 0;
    double k = f->count > 1 && f->in[1]->count == 1 ? f->in[1]->numbers[0] : 0;
    struct xt_read_constant *out =
        in->ndims < 2 ? NULL : xt_fold_copy_as(f->reader, in, in->ndims, in->dims);
    for (size_t i = 0; out && i < out->count; i++) {
        size_t columns = (size_t)in->dims[in->ndims - 1];
        size_t rows = (size_t)in->dims[in->ndims - 2];
        double right = (double)(i % columns) - (double)(i / columns % rows) - k;
        if (upper ? right < 0 : right > 0)
            out->numbers[i] = 0;
    }
    return out;
}

static struct xt_read_constant *fold_range(const struct xt_fold *f)
{
    if (f->in[0]->count != 1 || f->in[1]->count != 1 || f->in[2]->count != 1)
        return NULL;
    double steps = ceil((f->in[1]->numbers[0] - f->in[0]->numbers[0]) / f->in[2]->numbers[0]);
    if (!(steps >= 0 && steps <= XT_READ_NUMBERS_MAX))
        return NULL;
    int64_t count = (int64_t)steps;
    struct xt_read_constant *out = xt_read_make(f->reader, 1, &count, f->in[0]->is_float);
    for (int64_t i = 0; out && i < count; i++)
        out->numbers[i] = f->in[0]->numbers[0] + (double)i * f->in[2]->numbers[0];
    return out;
}

/* The axes that a reduction removes; false: not known. */
static bool reduced_axes(const struct xt_fold *f, bool goes[XT_READ_DIMS_MAX])
{
    int ndims = f->in[0]->ndims;
    int64_t axes[XT_READ_DIMS_MAX];
    int count = xt_read_ints(f->reader, f->node, "axes", 1, axes);
    if (count < -1 || (count <= 0 && xt_read_int(f->node, "noop_with_empty_axes", 0)))
        return false;
    for (int i = 0; i < ndims; i++)
        goes[i] = count <= 0;
    for (int i = 0; i < count; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? ndims : 0);
        if (axis < 0 || axis >= ndims)
            return false;
        goes[axis] = true;
    }
    return true;
}

static struct xt_read_constant *fold_reduce(const struct xt_fold *f)
{
    const struct xt_read_constant *in = f->in[0];
    bool is_product = xt_read_is(f->node, "ReduceProd");
    bool goes[XT_READ_DIMS_MAX] = {false};
    int64_t dims[XT_READ_DIMS_MAX] = {0};
    int64_t kept[XT_READ_DIMS_MAX];
    int ndims = 0;
    if (!reduced_axes(f, goes))
        return NULL;
    bool keeps = xt_read_int(f->node, "keepdims", 1) != 0;
    for (int i = 0; i < in->ndims; i++) {
        dims[i] = goes[i] ? 1 : in->dims[i];
        if (!goes[i] || keeps)
            kept[ndims++] = dims[i];
    }
    struct xt_read_constant *out = xt_read_make(f->reader, in->ndims, dims, in->is_float);
    for (size_t i = 0; out && i < out->count; i++)
        out->numbers[i] = is_product;
    for (size_t i = 0; out && i < in->count; i++) {
        size_t place = 0;
        size_t stride = 1;
        size_t rest = i;
        for (int axis = in->ndims - 1; axis >= 0; axis--) {
            size_t at = rest % (size_t)in->dims[axis];
            rest /= (size_t)in->dims[axis];
            place += goes[axis] ? 0 : at * stride;
            stride *= (size_t)dims[axis];
        }
        double so_far = out->numbers[place];
        out->numbers[place] = is_product ? so_far * in->numbers[i] : so_far + in->numbers[i];
    }
    return out ? xt_fold_copy_as(f->reader, out, ndims, kept) : NULL;
}

/* Whether its output is called as a module's parameter: "layer.weight". */
static bool is_parameter_name(const struct xt_read_node *node)
{
    const char *name = node->output_count && node->outputs[0] ? node->outputs[0]->name : "/";
    return *name != '/' && strchr(name, '.') && !strstr(name, "::");
}

/* A weight that is handed on as it is, or with its two dimensions swapped, is still that weight. */
static struct xt_read_constant *hand_on(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_constant *in)
{
    int64_t perm[XT_READ_DIMS_MAX];
    bool same =
        xt_read_is(node, "Identity") || xt_read_is(node, "Cast") || xt_read_is(node, "CastLike");
    if (same && !is_parameter_name(node))
        return in;
    if (!same && (!xt_read_is(node, "Transpose") || in->ndims != 2 ||
                  (xt_read_ints(reader, node, "perm", -1, perm) == 2 && perm[0] == 0)))
        return NULL;
    struct xt_read_constant *out = xt_reader_take(reader, 1, sizeof *out);
    if (!out)
        return NULL;
    *out = *in;
    if (same) {
        out->name = node->outputs[0]->name;
        return out;
    }
    out->numbers = NULL;
    out->dims[0] = in->dims[1];
    out->dims[1] = in->dims[0];
    out->transposed = !in->transposed;
    return out;
}

/* Along a new last axis: values[1] at the index, values[0] elsewhere. */
static struct xt_read_constant *fold_one_hot(const struct xt_fold *f)
{
    const struct xt_read_constant *indices = f->in[0];
    const struct xt_read_constant *values = f->in[2];
    int64_t dims[XT_READ_DIMS_MAX];
    int64_t depth = f->in[1]->count == 1 ? xt_read_whole(f->in[1]->numbers[0]) : 0;
    if (depth < 1 || depth > XT_READ_NUMBERS_MAX || indices->ndims >= XT_READ_DIMS_MAX ||
        values->count != 2 || xt_read_int(f->node, "axis", -1) != -1)
        return NULL;
    memcpy(dims, indices->dims, (size_t)indices->ndims * sizeof *dims);
    dims[indices->ndims] = depth;
    struct xt_read_constant *out =
        xt_read_make(f->reader, indices->ndims + 1, dims, values->is_float);
    for (size_t i = 0; out && i < out->count; i++) {
        int64_t hot = xt_read_whole(indices->numbers[i / (size_t)depth]);
        hot += hot < 0 ? depth : 0;
        out->numbers[i] = values->numbers[(int64_t)(i % (size_t)depth) == hot];
    }
    return out;
}

static struct xt_read_constant *fold_einsum(const struct xt_fold *f)
{
    return xt_read_einsum_of(f->reader, f->node, f->in);
}

struct xt_read_constant *xt_fold_compute(const struct xt_fold *f)
{
    static const struct {
        const char *op;
        int count; /* of inputs that are known; 0: any */
        struct xt_read_constant *(*fold)(const struct xt_fold *f);
    } folds[] = {
        {"Cast", 0, fold_cast},         {"CastLike", 0, fold_cast},
        {"Clip", 0, fold_clip},         {"Where", 3, fold_where},
        {"Gather", 2, fold_gather},     {"Concat", 0, fold_concat},
        {"Slice", 0, fold_slice},       {"Transpose", 0, fold_transpose},
        {"Squeeze", 0, fold_squeeze},   {"Unsqueeze", 0, fold_unsqueeze},
        {"Reshape", 2, fold_reshape},   {"ConstantOfShape", 0, fold_filled},
        {"Expand", 2, fold_expand},     {"Range", 3, fold_range},
        {"ReduceProd", 0, fold_reduce}, {"ReduceSum", 0, fold_reduce},
        {"Tile", 2, fold_tile},         {"CumSum", 2, fold_running_sum},
        {"Trilu", 0, fold_triangle},    {"ScatterND", 3, fold_scatter},
        {"Einsum", 2, fold_einsum},     {"OneHot", 3, fold_one_hot},
        {"Flatten", 1, fold_flatten},
    };
    bool is_one = f->count == 1 && (xt_read_is(f->node, "Max") || xt_read_is(f->node, "Min"));
    if (f->count == 0 || is_one || xt_read_is(f->node, "Identity"))
        return f->count ? f->in[0] : NULL;
    for (size_t i = 0; f->count == 2 && i < sizeof binaries / sizeof *binaries; i++)
        if (xt_read_is(f->node, binaries[i].op))
            return fold_binary(f, binaries[i].sign);
    for (size_t i = 0; f->count == 1 && i < sizeof unaries / sizeof *unaries; i++)
        if (xt_read_is(f->node, unaries[i].op)) {
            struct xt_read_constant *out =
                xt_fold_copy_as(f->reader, f->in[0], f->in[0]->ndims, f->in[0]->dims);
            for (size_t k = 0; out && k < out->count; k++)
                out->numbers[k] = unaries[i].of(out->numbers[k]);
            return out;
        }
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (xt_read_is(f->node, folds[i].op) && (!folds[i].count || folds[i].count == f->count))
            return folds[i].fold(f);
    return NULL;
}

/* ---- the shape of what depends on images ---- */

static struct xt_read_constant *shape_of(struct xt_reader *reader, const struct xt_read_node *node)
{
    struct xt_read_value *value = xt_read_input(node, 0);
    struct xt_read_constant *constant = xt_read_constant_of(reader, value);
    int ndims = constant ? constant->ndims : value && value->view ? value->view->ndims : -1;
    if (ndims < 0)
        return NULL;
    int64_t start = xt_read_int(node, "start", 0);
    int64_t end = xt_read_int(node, "end", ndims);
    start = start < -ndims ? 0 : start < 0 ? start + ndims : start > ndims ? ndims : start;
    end = end < -ndims ? 0 : end < 0 ? end + ndims : end > ndims ? ndims : end;
    int64_t count = end > start ? end - start : 0;
    struct xt_read_constant *out = xt_read_make(reader, 1, &count, false);
    for (int64_t i = 0; out && i < count; i++)
        out->numbers[i] = (double)(constant ? constant->dims[start + i]
                                            : xt_read_dim(value->view, (int)(start + i)));
    if (out && count && start == 0 && constant && constant->each_sample)
        out->numbers[0] = (double)XT_READ_BATCH;
    return out;
}

static struct xt_read_constant *size_of(struct xt_reader *reader, const struct xt_read_node *node)
{
    const struct xt_read_constant *shape = shape_of(reader, node);
    struct xt_read_constant *out = shape ? xt_read_make(reader, 0, NULL, false) : NULL;
    if (out)
        out->numbers[0] = 1;
    for (size_t i = 0; out && i < shape->count; i++)
        out->numbers[0] *= shape->numbers[i];
    return out;
}

static bool changes_axes(const struct xt_read_node *node)
{
    return xt_read_is(node, "Unsqueeze") || xt_read_is(node, "Squeeze") ||
           xt_read_is(node, "Reshape");
}

/* A weight of few numbers whose axes alone change is still that weight. */
static struct xt_read_constant *same_weight(struct xt_reader *reader,
                                            const struct xt_read_node *node,
                                            const struct xt_read_constant *in,
                                            struct xt_read_constant *out)
{
    if (!out || !changes_axes(node) || !in->tensor || !in->is_float || in->transposed)
        return out;
    out->tensor = in->tensor;
    out->name = in->name;
    if (!reader->is_foreign || in->tensor->ndims < 3 || out->ndims > XT_FILE_DIMS_MAX)
        return out;
    struct xt_file_tensor *reshaped = xt_reader_take(reader, 1, sizeof *reshaped);
    if (!reshaped)
        return NULL;
    *reshaped = *in->tensor;
    reshaped->ndims = out->ndims;
    memcpy(reshaped->dims, out->dims, (size_t)out->ndims * sizeof *out->dims);
    out->tensor = reshaped;
    return out;
}

/* A weight of another exporter's file that is given PyTorch's order or shape: it is stored so.
 * NULL: it is not. */
static struct xt_read_constant *moved_weight(struct xt_reader *reader,
                                             const struct xt_read_node *node,
                                             const struct xt_read_constant *in)
{
    struct layout layout;
    if (!reader->is_foreign || !xt_read_is(node, "Transpose") || in->ndims < 3 ||
        !xt_read_is_learned(reader, in) || in->count > XT_READ_MOVED_MAX - reader->moved ||
        in->ndims > XT_FILE_DIMS_MAX || !find_layout(reader, node, in, &layout))
        return NULL;
    reader->moved += in->count;
    float *from = xt_reader_take(reader, in->count + 1, sizeof *from);
    float *to = xt_reader_take(reader, in->count + 1, sizeof *to);
    struct xt_file_tensor *tensor = xt_reader_take(reader, 1, sizeof *tensor);
    struct xt_read_constant *out = xt_reader_take(reader, 1, sizeof *out);
    if (!from || !to || !tensor || !out ||
        xt_file_tensor_floats(in->tensor, from, in->count, &reader->err))
        return NULL;
    for (size_t i = 0; i < in->count; i++)
        to[i] = from[next_place(&layout)];
    *tensor = (struct xt_file_tensor){.name = in->name,
                                      .dtype = XT_F32,
                                      .ndims = in->ndims,
                                      .data = to,
                                      .bytes = in->count * sizeof *to};
    *out = (struct xt_read_constant){.ndims = in->ndims,
                                     .count = in->count,
                                     .is_float = true,
                                     .tensor = tensor,
                                     .name = in->name};
    memcpy(tensor->dims, layout.dims, (size_t)in->ndims * sizeof *tensor->dims);
    memcpy(out->dims, layout.dims, (size_t)in->ndims * sizeof *out->dims);
    return out;
}

static bool give(struct xt_read_node *node, struct xt_read_constant *constant)
{
    if (constant && node->output_count && node->outputs[0])
        node->outputs[0]->constant = constant;
    return constant != NULL;
}

bool xt_read_fold(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { INPUTS_MAX = 16 };
    struct xt_read_constant *in[INPUTS_MAX];
    if (xt_read_is(node, "Constant"))
        return node->output_count && xt_read_constant_of(reader, node->outputs[0]);
    if (xt_read_is(node, "Shape"))
        return give(node, shape_of(reader, node));
    if (xt_read_is(node, "Size"))
        return give(node, size_of(reader, node));
    if (node->input_count > INPUTS_MAX)
        return false;
    int count = 0;
    for (int i = 0; i < node->input_count; i++) {
        struct xt_read_value *value = xt_read_input(node, i);
        /* What CastLike takes its type from may depend on images: that is float then. */
        if (!value || (i == 1 && xt_read_is(node, "CastLike") && !value->constant))
            continue;
        in[count] = xt_read_constant_of(reader, value);
        if (!in[count])
            return false;
        xt_read_note_fixed(reader, node, in[count]);
        count++;
    }
    if (count && in[0]->tensor &&
        (give(node, hand_on(reader, node, in[0])) || give(node, moved_weight(reader, node, in[0]))))
        return true;
    for (int i = 0; i < count; i++)
        if ((xt_read_is_learned(reader, in[i]) && !changes_axes(node)) ||
            !xt_read_numbers(reader, in[i]))
            return false;
    const struct xt_fold fold = {reader, node, in, count};
    bool each_sample = false;
    for (int i = 0; i < count; i++)
        each_sample = each_sample || in[i]->each_sample;
    struct xt_read_constant *out =
        each_sample ? xt_fold_for_each_sample(&fold) : xt_fold_compute(&fold);
    for (int i = 0; out && i < count && !xt_read_is(node, "Identity"); i++)
        out->of_weights = out->of_weights || !xt_read_is_numbers(reader, in[i]);
    return give(node, count ? same_weight(reader, node, in[0], out) : out);
}
