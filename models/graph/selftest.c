#include "models/graph/selftest.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stop.h"
#include "base/number.h"
#include "models/graph/ops.h"
#include "models/graph/ranges.h"
#include "models/graph/reference.h"

/* Multiplications that the plain loops spend on one pass of a convolution. */
#define WORK_MAX 2e7
#define DROPOUT 0.4

enum { ARRAYS_MAX = 64, SEED = 11, STEP = 5 };

/* What has been noted of one pass of an op. */
struct seen {
    bool counted, wrong;
};

/* One network being walked. */
struct walk {
    const struct xt_selftest_options *options;
    struct xt_selftest *out;
    struct xt_params params;
    struct xt_ranges ranges; /* of an int8 graph */
    struct xt_graph *graph;
    enum xt_selftest_pass pass; /* of what runs forward */
    struct seen seen[XT_OPS_MAX][2];
    uint8_t *pixels;
    /* Of the op at hand; freed after it. */
    const struct xt_op *op;
    void *arrays[ARRAYS_MAX];
    int array_count;
    uint64_t stream; /* goes up with every array of random numbers */
    /* Of each running statistic, once its norm has run: what it becomes at the pass's end. */
    double *statistics[XT_PARAMS_MAX];
    const struct xt_op *owners[XT_PARAMS_MAX];
};

const char *xt_selftest_pass_name(enum xt_selftest_pass pass)
{
    static const char *const names[] = {"forward", "backward", "inference"};
    return names[pass];
}

/* ---- results ---- */

static struct xt_selftest_row *row_of(struct xt_selftest *out, const struct xt_op *op,
                                      enum xt_selftest_pass pass)
{
    for (int i = 0; i < out->row_count; i++) {
        struct xt_selftest_row *row = &out->rows[i];
        if (row->pass == pass && row->dtype == op->dtype && strcmp(row->kind, op->class->kind) == 0)
            return row;
    }
    if (out->row_count == XT_SELFTEST_ROWS_MAX)
        return NULL;
    struct xt_selftest_row *row = &out->rows[out->row_count++];
    *row = (struct xt_selftest_row){.dtype = op->dtype, .pass = pass};
    snprintf(row->kind, sizeof row->kind, "%s", op->class->kind);
    return row;
}

/* Largest differences while a tensor is gone through. */
struct comparison {
    double error;   /* absolute; infinite where something is not a number */
    double largest; /* of what is wanted */
};

static void look(struct comparison *c, double got, double wanted)
{
    double error = fabs(got - wanted);
    c->error = error <= c->error ? c->error : isnan(error) ? INFINITY : error;
    c->largest = fmax(c->largest, fabs(wanted));
}

/* `bound` is relative; `floor`: what the tensor's largest number counts as at least, where terms
 * that are larger may cancel. */
static enum xt_status note(struct walk *walk, enum xt_selftest_pass pass, const char *what,
                           const struct comparison *c, double floor, double bound,
                           struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_selftest_row *row = row_of(walk->out, op, pass);
    if (!row)
        return xt_err_set(err, XT_ERR_RUN, "more than %d kinds of ops", XT_SELFTEST_ROWS_MAX);
    double largest = fmax(c->largest, floor);
    double error = c->error > 0 ? c->error / largest : 0;
    bool wrong = !(error <= bound);
    struct seen *seen = &walk->seen[op->index][pass == XT_SELFTEST_BACKWARD];
    if (!seen->counted) {
        seen->counted = true;
        row->ops++;
    }
    if (wrong && !seen->wrong) {
        seen->wrong = true;
        row->wrong++;
        walk->out->wrong++;
    }
    if (!*row->where || error * row->bound > row->error * bound) {
        row->error = error;
        row->bound = bound;
        snprintf(row->where, sizeof row->where, "%s: %s", op->name, what);
    }
    return XT_OK;
}

static enum xt_status note_all(struct walk *walk, enum xt_selftest_pass pass, const char *what,
                               const double *got, const double *wanted, size_t count, double floor,
                               double bound, struct xt_err *err)
{
    struct comparison c = {0};
    for (size_t i = 0; i < count; i++)
        look(&c, got[i], wanted[i]);
    return note(walk, pass, what, &c, floor, bound, err);
}

/* Half a unit in the last place, of a number at 1. What int8 holds is exact, and computed with as
 * float32. */
static double rounding(enum xt_dtype dtype)
{
    return dtype == XT_BF16 ? 0x1p-8 : dtype == XT_F16 ? 0x1p-11 : 0x1p-24;
}

/* So many roundings to the type, and a float32 sum of `terms`. */
static double bound_of(enum xt_dtype dtype, double roundings, double terms)
{
    return roundings * rounding(dtype) + (4 + 4 * sqrt(terms)) * rounding(XT_F32);
}

/* ---- arrays of the op at hand ---- */

static void *take(struct walk *walk, size_t count, size_t size, struct xt_err *err)
{
    void *array = NULL;
    if (walk->array_count == ARRAYS_MAX) {
        xt_err_set(err, XT_ERR_RUN, "an op with more than %d arrays", ARRAYS_MAX);
        return NULL;
    }
    if (xt_mem_aligned(&array, count, size, walk->op->name, err))
        return NULL;
    return walk->arrays[walk->array_count++] = array;
}

static double *take_doubles(struct walk *walk, size_t count, struct xt_err *err)
{
    return take(walk, count, sizeof(double), err);
}

static void release(struct walk *walk)
{
    while (walk->array_count)
        free(walk->arrays[--walk->array_count]);
}

/* What a held number stands for. */
static double meaning_of(const struct xt_tensor *tensor, float held)
{
    return ((double)held + (double)tensor->offset) * (double)tensor->scale;
}

/* Numbers of both signs up to 1, as the tensor's type holds them; int8's over all of its range. */
static double *take_random(struct walk *walk, const struct xt_tensor *tensor, struct xt_err *err)
{
    struct xt_rng rng = xt_rng_begin(SEED, walk->stream++);
    enum xt_dtype dtype = tensor->dtype;
    size_t count = xt_tensor_count(tensor);
    float largest = xt_dtype_is_int8(dtype) ? 127.5f : 1;
    float middle = dtype == XT_U8 ? largest : 0;
    float *floats = take(walk, count, sizeof *floats, err);
    void *held = floats ? take(walk, count, xt_dtype_size(dtype), err) : NULL;
    double *values = held ? take_doubles(walk, count, err) : NULL;
    if (!values)
        return NULL;
    for (size_t i = 0; i < count; i++)
        floats[i] = middle + largest * (2 * xt_rng_uniform(&rng) - 1);
    xt_number_from_float(dtype, floats, count, held);
    xt_number_to_float(dtype, held, count, floats);
    for (size_t i = 0; i < count; i++)
        values[i] = meaning_of(tensor, floats[i]);
    return values;
}

static enum xt_status write_buffer(struct walk *walk, const struct xt_tensor *tensor,
                                   const struct xt_buffer *buffer, const double *values,
                                   struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    float *floats = take(walk, count, sizeof *floats, err);
    if (!floats)
        return err->status;
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)(values[i] / (double)tensor->scale - (double)tensor->offset);
    return xt_graph_write(walk->graph, buffer, tensor->dtype, floats, count, err);
}

/* The tensor's value becomes random numbers. */
static double *give_value(struct walk *walk, const struct xt_tensor *tensor, struct xt_err *err)
{
    double *values = take_random(walk, tensor, err);
    if (!values || write_buffer(walk, tensor, tensor->value, values, err))
        return NULL;
    return values;
}

static double *read_buffer(struct walk *walk, const struct xt_tensor *tensor,
                           const struct xt_buffer *buffer, struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    float *floats = take(walk, count, sizeof *floats, err);
    double *values = floats ? take_doubles(walk, count, err) : NULL;
    if (!values || xt_graph_read_back(walk->graph, buffer, tensor->dtype, floats, count, err))
        return NULL;
    for (size_t i = 0; i < count; i++)
        values[i] = meaning_of(tensor, floats[i]);
    return values;
}

/* The gradients that the tensor's readers hand back become random numbers, 0 where `keep` (NULL:
 * everywhere 1) is 0. Their sum. */
static double *give_grads(struct walk *walk, const struct xt_tensor *tensor, const double *keep,
                          struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    double *sum = take_doubles(walk, count, err);
    for (int r = 0; sum && r < tensor->readers; r++) {
        double *grad = take_random(walk, tensor, err);
        if (!grad)
            return NULL;
        for (size_t i = 0; i < count; i++) {
            grad[i] = keep && keep[i] == 0 ? 0 : grad[i];
            sum[i] += grad[i];
        }
        if (write_buffer(walk, tensor, tensor->grad[r], grad, err))
            return NULL;
    }
    return sum;
}

static double largest_of(const double *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(values[i]));
    return largest;
}

static enum xt_status run(struct walk *walk, bool backward, struct xt_err *err)
{
    const struct xt_selftest_options *o = walk->options;
    if (o->before)
        o->before(o->context, walk->graph, walk->op, backward);
    return xt_graph_run_op(walk->graph, walk->op->index, backward, err);
}

/* Reads the tensor's value back and holds it against `wanted`. */
static enum xt_status check_value(struct walk *walk, const char *what,
                                  const struct xt_tensor *tensor, const double *wanted,
                                  double floor, double bound, struct xt_err *err)
{
    const double *got = read_buffer(walk, tensor, tensor->value, err);
    return got ? note_all(walk, walk->pass, what, got, wanted, xt_tensor_count(tensor), floor,
                          bound, err)
               : err->status;
}

static enum xt_status check_grad(struct walk *walk, const char *what,
                                 const struct xt_tensor *tensor, int reader, const double *wanted,
                                 double floor, double bound, struct xt_err *err)
{
    const double *got = read_buffer(walk, tensor, tensor->grad[reader], err);
    return got ? note_all(walk, XT_SELFTEST_BACKWARD, what, got, wanted, xt_tensor_count(tensor),
                          floor, bound, err)
               : err->status;
}

/* ---- parameters ---- */

static size_t part_count(const struct xt_param *param)
{
    size_t count = 1;
    for (int i = 0; i < param->ndims; i++)
        count *= (size_t)param->dims[i];
    return count;
}

static size_t file_count(const struct xt_param *param)
{
    size_t count = 1;
    for (int i = 0; i < param->ndims; i++)
        count *= (size_t)param->file_dims[i];
    return count;
}

/* Where element `index` of the part stands in the file's tensor. */
static size_t file_index(const struct xt_param *param, size_t index)
{
    size_t rest = param->ndims == 4 ? (size_t)param->dims[2] * (size_t)param->dims[3] : 1;
    size_t columns = param->ndims == 4 ? (size_t)param->dims[1] : 1;
    size_t row = index / rest / columns;
    size_t column = index / rest % columns;
    row = param->rows ? (size_t)param->rows[row] : row;
    column = param->columns ? (size_t)param->columns[column] : column;
    size_t file_columns = param->ndims == 4 ? (size_t)param->file_dims[1] : 1;
    return (row * file_columns + column) * rest + index % rest;
}

static uint64_t param_key(const struct xt_param *param)
{
    uint64_t key = SEED;
    for (const char *at = param->name; *at; at++)
        key = xt_rng_mix(key ^ (unsigned char)*at);
    return key;
}

/* What a parameter is in this test: a function of its name and element. Weights are such that sums
 * of products with numbers up to 1 stay near 1. */
static float param_value(const struct xt_param *param, uint64_t key, size_t file_element)
{
    float u = (float)(xt_rng_mix(key ^ file_element) >> 40) * 0x1p-23f - 1;
    switch (param->role) {
    case XT_PARAM_WEIGHT:
        return u * 3 / sqrtf((float)(param->dims[1] * param->dims[2] * param->dims[3]));
    case XT_PARAM_BN_SCALE:
    case XT_PARAM_BN_VAR:
        return 1 + 0.5f * u;
    default:
        return 0.3f * u;
    }
}

static enum xt_status fill_params(struct walk *walk, struct xt_err *err)
{
    struct xt_params *params = &walk->params;
    struct xt_params_view view = {params->values, params->stats};
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        float *plain = NULL;
        uint64_t key = param_key(param);
        status = xt_mem_aligned(&plain, file_count(param), sizeof *plain, param->name, err);
        for (size_t k = 0, count = file_count(param); k < count && !status; k++)
            plain[k] = param_value(param, key, k);
        if (!status)
            status = xt_params_import(param, walk->options->device, &view, plain, err);
        free(plain);
    }
    params->version++;
    return status;
}

/* The parameter as this part of the network has it. */
static double *take_param(struct walk *walk, int index, struct xt_err *err)
{
    const struct xt_param *param = &walk->params.items[index];
    size_t count = part_count(param);
    uint64_t key = param_key(param);
    double *values = take_doubles(walk, count, err);
    for (size_t i = 0; values && i < count; i++)
        values[i] = (double)param_value(param, key, file_index(param, i));
    return values;
}

/* As it stands in one of the arenas now. */
static double *read_param(struct walk *walk, int index, const struct xt_params_view *view,
                          struct xt_err *err)
{
    const struct xt_param *param = &walk->params.items[index];
    float *plain = take(walk, file_count(param), sizeof *plain, err);
    double *values = plain ? take_doubles(walk, part_count(param), err) : NULL;
    if (!values || xt_params_pull(&walk->params, err) ||
        xt_params_export(param, walk->options->device, view, plain, err))
        return NULL;
    for (size_t i = 0, count = part_count(param); i < count; i++)
        values[i] = (double)plain[file_index(param, i)];
    return values;
}

static double *read_param_grad(struct walk *walk, int index, struct xt_err *err)
{
    if (xt_params_pull_grads(&walk->params, err))
        return NULL;
    return read_param(walk, index, &(struct xt_params_view){walk->params.grads, NULL}, err);
}

/* As the arithmetic takes them: rounded to the type. */
static void round_to(enum xt_dtype dtype, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)values[i];
        uint32_t held = 0;
        xt_number_from_float(dtype, &value, 1, &held);
        xt_number_to_float(dtype, &held, 1, &value);
        values[i] = (double)value;
    }
}

/* ---- input ---- */

static enum xt_status check_input(struct walk *walk, struct xt_err *err)
{
    const struct input *input = (const struct input *)walk->op;
    size_t count = xt_tensor_count(input->out);
    double *wanted = take_doubles(walk, count, err);
    if (!wanted)
        return err->status;
    for (size_t i = 0; i < count; i++)
        wanted[i] = ((double)walk->pixels[i] - (double)input->mean) * (double)input->scale;
    enum xt_status status = run(walk, false, err);
    return status ? status
                  : check_value(walk, "output", input->out, wanted, 0,
                                bound_of(input->out->dtype, 2, 1), err);
}

/* ---- convolution ---- */

static struct xt_reference_shape shape_of(const struct xt_tensor *t)
{
    return (struct xt_reference_shape){t->n, t->h, t->w, t->c};
}

struct conv_check {
    const struct conv *conv;
    struct xt_reference_conv plain;
    double *in;
    double *weight;
    double *bias; /* NULL: none */
    double *residual;
    double *out_grad;
    double step; /* int8: the largest of the output channels' weights */
};

/* Scale and shift of the norm that the convolution took in go into weights and bias. */
static enum xt_status fold(struct walk *walk, struct conv_check *check, struct xt_err *err)
{
    const struct conv *conv = check->conv;
    const struct xt_norm_params *norm = &conv->fold.params;
    const int indices[] = {norm->scale, norm->shift, norm->mean, norm->var};
    double *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = take_param(walk, indices[i], err);
        if (!p[i])
            return err->status;
    }
    double *bias = take_doubles(walk, (size_t)conv->out->c, err);
    if (!bias)
        return err->status;
    size_t row = part_count(&walk->params.items[conv->weight]) / (size_t)conv->out->c;
    for (size_t o = 0; o < (size_t)conv->out->c; o++) {
        double factor = p[0][o] / sqrt(p[3][o] + XT_BN_EPS);
        bias[o] = p[1][o] + ((check->bias ? check->bias[o] : 0) - p[2][o]) * factor;
        for (size_t i = 0; i < row; i++)
            check->weight[o * row + i] *= factor;
    }
    check->bias = bias;
    return XT_OK;
}

/* Each output channel's weights as whole numbers of steps. What lies outside of the input counts as
 * a 0 that is held, so the input's offset is a part of the bias. */
static enum xt_status quantise(struct walk *walk, struct conv_check *check, struct xt_err *err)
{
    const struct conv *conv = check->conv;
    size_t channels = (size_t)conv->out->c;
    size_t row = part_count(&walk->params.items[conv->weight]) / channels;
    double offset = (double)conv->in->offset * (double)conv->in->scale;
    if (!check->bias && !(check->bias = take_doubles(walk, channels, err)))
        return err->status;
    for (size_t o = 0; o < channels; o++) {
        double *weight = check->weight + o * row;
        double step = largest_of(weight, row) / xt_conv_weight_most(conv);
        for (size_t i = 0; i < row && step > 0; i++) {
            weight[i] = rint(weight[i] / step) * step;
            check->bias[o] += weight[i] * offset;
        }
        check->step = fmax(check->step, step);
    }
    for (size_t i = 0; i < xt_tensor_count(conv->in); i++)
        check->in[i] -= offset;
    return XT_OK;
}

static enum xt_status begin_conv(struct walk *walk, struct conv_check *check, struct xt_err *err)
{
    const struct conv *conv = check->conv;
    check->plain = (struct xt_reference_conv){
        .in = shape_of(conv->in),
        .out = shape_of(conv->out),
        .kernel_h = (int)conv->kernel[0],
        .kernel_w = (int)conv->kernel[1],
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .pad_h = (int)conv->pads[0],
        .pad_w = (int)conv->pads[1],
    };
    check->weight = take_param(walk, conv->weight, err);
    if (!check->weight)
        return err->status;
    if (conv->bias >= 0 && !(check->bias = take_param(walk, conv->bias, err)))
        return err->status;
    if (conv->folded && fold(walk, check, err))
        return err->status;
    check->in = give_value(walk, conv->in, err);
    if (check->in && conv->fold.residual)
        check->residual = give_value(walk, conv->fold.residual, err);
    if (!check->in || (conv->fold.residual && !check->residual))
        return err->status;
    if (xt_conv_reads_int8(conv))
        return quantise(walk, check, err);
    round_to(conv->in->dtype, check->weight, part_count(&walk->params.items[conv->weight]));
    return XT_OK;
}

/* How many of `count` elements, each of so many terms, are looked at; the k-th is k * count /
 * looked. */
static size_t looked_at(size_t count, double terms)
{
    double most = WORK_MAX / terms;
    return most < 64 ? (count < 64 ? count : 64) : (double)count < most ? count : (size_t)most;
}

/* The k-th of those: evenly spread, the offset within each stretch varying, the first and the last
 * among them. */
static size_t element(size_t k, size_t looked, size_t count)
{
    if (looked == count || k == 0)
        return k;
    if (k == looked - 1)
        return count - 1;
    size_t stretch = count / looked;
    return k * count / looked + (size_t)(xt_rng_at(SEED, count, k) % (stretch ? stretch : 1));
}

/* Elements of a convolution's pass by plain loops, beside those that came out. */
enum conv_result { CONV_OUTPUT, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD };

/* An 8-bit type's ends. */
static double cut_off(const struct xt_tensor *tensor, double value)
{
    double least = (tensor->dtype == XT_U8 ? 0 : -128) * (double)tensor->scale;
    double most = (tensor->dtype == XT_U8 ? 255 : 127) * (double)tensor->scale;
    return xt_dtype_is_int8(tensor->dtype) ? fmin(fmax(value, least), most) : value;
}

static double wanted_element(const struct conv_check *check, enum conv_result result, size_t i)
{
    if (result == CONV_INPUT_GRAD)
        return xt_reference_conv_input_grad(&check->plain, check->out_grad, check->weight, i);
    if (result == CONV_WEIGHT_GRAD)
        return xt_reference_conv_weight_grad(&check->plain, check->in, check->out_grad, i);
    double value = xt_reference_conv_output(&check->plain, check->in, check->weight, i);
    value += check->bias ? check->bias[i % (size_t)check->plain.out.c] : 0;
    value += check->residual ? check->residual[i] : 0;
    return cut_off(check->conv->out, check->conv->relu && value < 0 ? 0 : value);
}

static struct comparison compare_conv(const struct conv_check *check, enum conv_result result,
                                      const double *got, size_t count, double terms)
{
    size_t looked = looked_at(count, terms);
    double error = 0;
    double largest = 0;
#pragma omp parallel for schedule(static) reduction(max : error, largest)
    for (size_t k = 0; k < looked; k++) {
        struct comparison one = {0};
        size_t i = element(k, looked, count);
        look(&one, got[i], wanted_element(check, result, i));
        error = one.error > error ? one.error : error;
        largest = one.largest > largest ? one.largest : largest;
    }
    return (struct comparison){error, largest};
}

static double terms_of(const struct conv_check *check, enum conv_result result)
{
    const struct xt_reference_conv *p = &check->plain;
    double kernel = (double)p->kernel_h * p->kernel_w;
    if (result == CONV_WEIGHT_GRAD)
        return (double)p->out.n * p->out.h * p->out.w;
    return kernel * (result == CONV_OUTPUT ? p->in.c : p->out.c);
}

static enum xt_status check_conv_bias(struct walk *walk, const struct conv_check *check,
                                      double bound, struct xt_err *err)
{
    const struct conv *conv = check->conv;
    size_t c = (size_t)conv->out->c;
    double *wanted = take_doubles(walk, c, err);
    const double *got = wanted ? read_param_grad(walk, conv->bias, err) : NULL;
    if (!got)
        return err->status;
    for (size_t i = 0; i < xt_tensor_count(conv->out); i++)
        wanted[i % c] += check->out_grad[i];
    return note_all(walk, XT_SELFTEST_BACKWARD, "gradient of the bias", got, wanted, c, 0, bound,
                    err);
}

static enum xt_status check_conv_backward(struct walk *walk, struct conv_check *check,
                                          const double *out, struct xt_err *err)
{
    const struct conv *conv = check->conv;
    check->out_grad = give_grads(walk, conv->out, NULL, err);
    if (!check->out_grad)
        return err->status;
    /* The ReLU's gradient goes by what came out, which has been checked. */
    for (size_t i = 0; i < xt_tensor_count(conv->out) && conv->relu; i++)
        check->out_grad[i] = out[i] > 0 ? check->out_grad[i] : 0;
    enum xt_status status = run(walk, true, err);
    if (status)
        return status;
    /* Two readers' gradients are rounded when they are added up. */
    double sums = conv->out->readers > 1 ? 2 : 0;
    double terms = terms_of(check, CONV_WEIGHT_GRAD);
    double bound = bound_of(conv->out->dtype, sums, terms) + bound_of(XT_F32, 2, terms);
    const double *got = read_param_grad(walk, conv->weight, err);
    if (!got)
        return err->status;
    struct comparison c = compare_conv(check, CONV_WEIGHT_GRAD, got,
                                       part_count(&walk->params.items[conv->weight]), terms);
    status = note(walk, XT_SELFTEST_BACKWARD, "gradient of the weights", &c, 0, bound, err);
    if (!status && conv->bias >= 0)
        status = check_conv_bias(walk, check, bound, err);
    if (status || !conv->in->wants_grad)
        return status;
    got = read_buffer(walk, conv->in, conv->in->grad[conv->reader], err);
    if (!got)
        return err->status;
    terms = terms_of(check, CONV_INPUT_GRAD);
    c = compare_conv(check, CONV_INPUT_GRAD, got, xt_tensor_count(conv->in), terms);
    return note(walk, XT_SELFTEST_BACKWARD, "gradient of the input", &c, 0,
                bound_of(conv->in->dtype, 2 + sums, terms), err);
}

/* An output of int8 is right to half a step. Of thousands of weights that fall between two whole
 * numbers a few do so either way. */
static double int8_bound(const struct conv_check *check, double terms)
{
    const struct conv *conv = check->conv;
    double largest = largest_of(check->in, xt_tensor_count(conv->in));
    double turned = 2 + 1e-3 * terms;
    /* Without VNNI oneDNN halves the weights of a source with a sign, rounding them once more. */
    bool halved = conv->op.device->kind == XT_DEVICE_CPU && conv->in->dtype == XT_S8 &&
                  !xt_device_cpu_has_vnni();
    if (halved)
        turned += sqrt(terms);
    double output = xt_dtype_is_int8(conv->out->dtype) ? 0.501 * (double)conv->out->scale : 0;
    return output + turned * check->step * largest;
}

static enum xt_status note_int8_conv(struct walk *walk, const struct conv_check *check,
                                     const struct comparison *c, double terms, struct xt_err *err)
{
    double bound = int8_bound(check, terms) / c->largest + bound_of(XT_F32, 2, 1);
    return note(walk, walk->pass, "output", c, 0, bound, err);
}

static enum xt_status check_conv(struct walk *walk, struct xt_err *err)
{
    struct conv_check check = {.conv = (const struct conv *)walk->op};
    const struct xt_tensor *out = check.conv->out;
    enum xt_status status = begin_conv(walk, &check, err);
    if (!status)
        status = run(walk, false, err);
    const double *got = status ? NULL : read_buffer(walk, out, out->value, err);
    if (!got)
        return err->status;
    double terms = terms_of(&check, CONV_OUTPUT);
    struct comparison c = compare_conv(&check, CONV_OUTPUT, got, xt_tensor_count(out), terms);
    if (xt_conv_reads_int8(check.conv))
        return note_int8_conv(walk, &check, &c, terms, err);
    /* Folded weights are rounded after the folding, which may go either way. */
    double roundings = check.conv->folded ? 3 : 2;
    status = note(walk, walk->pass, "output", &c, 0, bound_of(out->dtype, roundings, terms), err);
    if (status || !walk->graph->options.training || walk->op->frozen)
        return status;
    return check_conv_backward(walk, &check, got, err);
}

/* ---- batch normalisation ---- */

struct norm_check {
    const struct norm *norm;
    struct xt_reference_norm plain;
    struct xt_reference_shape shape;
    size_t count;
    double *z;
    double *residual;
    double *before; /* the ReLU */
    double *y;
    double *lead;  /* of the max pool's windows */
    double *doubt; /* [count] 1 where rounding may decide what the ReLU does */
    double margin;
    double *means, *variances; /* [c] that the pass normalises by */
    double magnitude;          /* the largest term that is added */
};

static bool uses_batch(const struct walk *walk, const struct norm *norm)
{
    const struct xt_graph_pass *pass = &walk->graph->pass;
    return pass->training && !pass->bn_frozen && !norm->op.frozen;
}

static bool begin_norm(struct walk *walk, struct norm_check *check, struct xt_err *err)
{
    const struct norm *norm = check->norm;
    size_t c = (size_t)norm->in->c;
    check->shape = shape_of(norm->in);
    check->count = xt_tensor_count(norm->in);
    double *gamma = take_param(walk, norm->param.scale, err);
    double *beta = gamma ? take_param(walk, norm->param.shift, err) : NULL;
    check->means = beta ? take_param(walk, norm->param.mean, err) : NULL;
    check->variances = check->means ? take_param(walk, norm->param.var, err) : NULL;
    check->z = check->variances ? give_value(walk, norm->in, err) : NULL;
    if (check->z && norm->spec.residual &&
        !(check->residual = give_value(walk, norm->spec.residual, err)))
        return false;
    check->before = check->z ? take_doubles(walk, check->count, err) : NULL;
    check->y = check->before ? take_doubles(walk, check->count, err) : NULL;
    check->doubt = check->y ? take_doubles(walk, check->count, err) : NULL;
    if (!check->doubt)
        return false;
    bool of_batch = uses_batch(walk, norm);
    for (int k = 0; k < norm->in->c && of_batch; k++)
        xt_reference_moments(&check->shape, check->z, k, &check->means[k], &check->variances[k]);
    check->plain = (struct xt_reference_norm){.shape = check->shape,
                                              .mean = check->means,
                                              .variance = check->variances,
                                              .gamma = gamma,
                                              .beta = beta,
                                              .of_batch = of_batch};
    for (size_t i = 0; i < check->count; i++) {
        double scale = fabs(gamma[i % c]) / sqrt(check->variances[i % c] + XT_BN_EPS);
        double term = fmax(fabs(check->z[i]), fabs(check->means[i % c])) * scale;
        check->magnitude = fmax(check->magnitude, term);
    }
    return true;
}

static void run_norm_plain(struct norm_check *check)
{
    const struct norm *norm = check->norm;
    assert(check->y && check->before);
    xt_reference_norm(&check->plain, check->z, check->residual, check->before);
    memcpy(check->y, check->before, check->count * sizeof *check->y);
    double largest = largest_of(check->before, check->count);
    check->margin = 3 * rounding(norm->in->dtype) * largest +
                    16 * rounding(XT_F32) * fmax(largest, check->magnitude);
    for (size_t i = 0; i < check->count && norm->spec.relu; i++)
        check->doubt[i] = fabs(check->before[i]) < check->margin;
    if (norm->spec.relu)
        xt_reference_relu(check->y, check->count);
}

static enum xt_status check_norm_outputs(struct walk *walk, struct norm_check *check,
                                         struct xt_err *err)
{
    const struct norm *norm = check->norm;
    enum xt_dtype dtype = norm->in->dtype;
    /* Of the normalised value, and again with the residual added. */
    double bound = bound_of(dtype, norm->spec.residual ? 3 : 2, 4);
    enum xt_status status = XT_OK;
    if (norm->full)
        status = check_value(walk, "output", norm->full, check->y, check->magnitude, bound, err);
    if (!status && norm->max) {
        double *wanted = take_doubles(walk, xt_tensor_count(norm->max), err);
        check->lead = wanted ? take_doubles(walk, xt_tensor_count(norm->max), err) : NULL;
        if (!check->lead)
            return err->status;
        xt_reference_max_pool(&check->shape, &norm->spec.max, check->y, wanted, check->lead);
        status = check_value(walk, "max pool", norm->max, wanted, check->magnitude, bound, err);
    }
    if (!status && norm->average) {
        double *wanted = take_doubles(walk, xt_tensor_count(norm->average), err);
        if (!wanted)
            return err->status;
        xt_reference_average_pool(&check->shape, &norm->spec.average, check->y, wanted);
        status =
            check_value(walk, "average pool", norm->average, wanted, check->magnitude, bound, err);
    }
    return status;
}

/* Running mean and variance, which a pass with the batch's statistics moves on. */
static enum xt_status expect_statistics(struct walk *walk, const struct norm_check *check,
                                        struct xt_err *err)
{
    const struct norm *norm = check->norm;
    const int indices[] = {norm->param.mean, norm->param.var};
    double pixels = (double)check->count / check->shape.c;
    double unbiased = pixels > 1 ? pixels / (pixels - 1) : 1;
    for (int i = 0; i < 2; i++) {
        const double *before = take_param(walk, indices[i], err);
        double **wanted = &walk->statistics[indices[i]];
        if (!before || xt_mem_calloc(wanted, (size_t)check->shape.c, sizeof **wanted,
                                     "running statistics", err))
            return err->status;
        for (int k = 0; k < check->shape.c; k++)
            (*wanted)[k] =
                check->plain.of_batch
                    ? 0.9 * before[k] + 0.1 * (i ? check->variances[k] * unbiased : check->means[k])
                    : before[k];
        walk->owners[indices[i]] = walk->op;
    }
    return XT_OK;
}

/* At the end of a training pass: some devices move all on at once. */
static enum xt_status check_statistics(struct walk *walk, struct xt_err *err)
{
    struct xt_params *params = &walk->params;
    struct xt_params_view view = {params->values, params->stats};
    enum xt_status status = xt_graph_run_op(walk->graph, walk->graph->op_count, false, err);
    for (int i = 0; i < params->count && !status; i++) {
        if (!walk->statistics[i])
            continue;
        walk->op = walk->owners[i];
        const struct norm *norm = (const struct norm *)walk->op;
        double pixels = (double)xt_tensor_count(norm->in) / norm->in->c;
        bool is_mean = params->items[i].role == XT_PARAM_BN_MEAN;
        const double *got = read_param(walk, i, &view, err);
        status = got ? note_all(walk, walk->pass, is_mean ? "running mean" : "running variance",
                                got, walk->statistics[i], part_count(&params->items[i]), 0,
                                bound_of(XT_F32, 4, pixels), err)
                     : err->status;
        release(walk);
    }
    return status;
}

/* 0 for the windows in which something is in doubt, whose gradient therefore stays 0. */
static double *certain_windows(struct walk *walk, const struct norm_check *check, bool max,
                               struct xt_err *err)
{
    const struct norm *norm = check->norm;
    const struct xt_tensor *out = max ? norm->max : norm->average;
    size_t count = xt_tensor_count(out);
    double *keep = take_doubles(walk, count, err);
    if (!keep)
        return NULL;
    if (!max) {
        /* The mean of the doubts is above 0 where there is one. */
        xt_reference_average_pool(&check->shape, &norm->spec.average, check->doubt, keep);
        for (size_t i = 0; i < count; i++)
            keep[i] = keep[i] > 0 ? 0 : 1;
        return keep;
    }
    double *largest = take_doubles(walk, count, err);
    if (!largest)
        return NULL;
    xt_reference_max_pool(&check->shape, &norm->spec.max, check->y, largest, NULL);
    for (size_t i = 0; i < count; i++)
        keep[i] = check->lead[i] > check->margin && largest[i] > check->margin;
    return keep;
}

/* The gradient of y from all that reads it, written for the op and summed up here. */
static double *give_norm_grads(struct walk *walk, const struct norm_check *check,
                               struct xt_err *err)
{
    const struct norm *norm = check->norm;
    double *keep = take_doubles(walk, check->count, err);
    double *sum = keep ? take_doubles(walk, check->count, err) : NULL;
    if (!sum)
        return NULL;
    for (size_t i = 0; i < check->count; i++)
        keep[i] = check->doubt[i] > 0 ? 0 : 1;
    if (norm->full) {
        const double *grad = give_grads(walk, norm->full, keep, err);
        if (!grad)
            return NULL;
        memcpy(sum, grad, check->count * sizeof *sum);
    }
    for (int max = 0; max < 2; max++) {
        const struct xt_tensor *pooled = max ? norm->max : norm->average;
        if (!pooled)
            continue;
        const double *certain = certain_windows(walk, check, max, err);
        const double *grad = certain ? give_grads(walk, pooled, certain, err) : NULL;
        if (!grad)
            return NULL;
        if (max)
            xt_reference_max_pool_grad(&check->shape, &norm->spec.max, check->y, grad, sum);
        else
            xt_reference_average_pool_grad(&check->shape, &norm->spec.average, grad, sum);
    }
    for (size_t i = 0; i < check->count && norm->spec.relu; i++)
        sum[i] = check->before[i] > 0 ? sum[i] : 0;
    return sum;
}

static enum xt_status check_norm_backward(struct walk *walk, const struct norm_check *check,
                                          struct xt_err *err)
{
    const struct norm *norm = check->norm;
    enum xt_dtype dtype = norm->in->dtype;
    size_t c = (size_t)check->shape.c;
    double *sum = give_norm_grads(walk, check, err);
    double *wanted = sum ? take_doubles(walk, check->count, err) : NULL;
    double *gamma = wanted ? take_doubles(walk, c, err) : NULL;
    double *beta = gamma ? take_doubles(walk, c, err) : NULL;
    if (!beta)
        return err->status;
    enum xt_status status = run(walk, true, err);
    if (status)
        return status;
    xt_reference_norm_grad(&check->plain, check->z, sum, wanted, gamma, beta);
    double pixels = (double)check->count / (double)c;
    double largest = largest_of(sum, check->count);
    double scale = 0;
    double steepest =
        1; /* of few numbers the variance may be tiny: (z - mean) / deviation cancels */
    for (size_t k = 0; k < c; k++) {
        double invstd = 1 / sqrt(check->variances[k] + XT_BN_EPS);
        scale = fmax(scale, fabs(check->plain.gamma[k]) * invstd);
        steepest = fmax(steepest, invstd);
    }
    /* Up to two readers and two pools are added up, each time rounded. */
    status =
        check_grad(walk, "gradient of the input", norm->in, norm->reader, wanted, scale * largest,
                   bound_of(dtype, 5, pixels) + steepest * bound_of(XT_F32, 4, 1), err);
    if (!status && norm->spec.residual)
        status = check_grad(walk, "gradient of the residual", norm->spec.residual,
                            norm->residual_reader, sum, largest, bound_of(dtype, 4, 1), err);
    const int indices[] = {norm->param.scale, norm->param.shift};
    const double *params[] = {gamma, beta};
    static const char *const what[] = {"gradient of the scale", "gradient of the shift"};
    for (int i = 0; i < 2 && !status; i++) {
        const double *got = read_param_grad(walk, indices[i], err);
        status = got ? note_all(walk, XT_SELFTEST_BACKWARD, what[i], got, params[i], c, largest,
                                bound_of(dtype, 4, pixels), err)
                     : err->status;
    }
    return status;
}

static enum xt_status check_norm(struct walk *walk, struct xt_err *err)
{
    struct norm_check check = {.norm = (const struct norm *)walk->op};
    if (!begin_norm(walk, &check, err))
        return err->status;
    run_norm_plain(&check);
    enum xt_status status = run(walk, false, err);
    if (!status)
        status = check_norm_outputs(walk, &check, err);
    if (!status && walk->graph->options.training)
        status = expect_statistics(walk, &check, err);
    if (status || !walk->graph->options.training || walk->op->frozen)
        return status;
    return check_norm_backward(walk, &check, err);
}

/* ---- dropout ---- */

static void drop(const struct walk *walk, const struct dropout *dropout, double *values)
{
    assert(values);
    const struct xt_graph_pass *pass = &walk->graph->pass;
    size_t count = xt_tensor_count(dropout->in);
    size_t sample = count / (size_t)dropout->in->n;
    for (size_t i = 0; i < count && pass->training; i++) {
        bool keeps = xt_reference_dropout_keeps(pass->seed, pass->step, walk->op->index,
                                                (int)(i / sample), i % sample, pass->dropout);
        values[i] = keeps ? values[i] / (1 - pass->dropout) : 0;
    }
}

static enum xt_status check_dropout(struct walk *walk, struct xt_err *err)
{
    const struct dropout *dropout = (const struct dropout *)walk->op;
    double *value = give_value(walk, dropout->in, err);
    if (!value)
        return err->status;
    enum xt_status status = run(walk, false, err);
    if (status)
        return status;
    drop(walk, dropout, value);
    double bound = bound_of(dropout->in->dtype, 2, 1);
    status = check_value(walk, "output", dropout->out, value, 0, bound, err);
    if (status || !walk->graph->options.training || walk->op->frozen)
        return status;
    double *grad = give_grads(walk, dropout->out, NULL, err);
    if (!grad)
        return err->status;
    status = run(walk, true, err);
    if (status)
        return status;
    drop(walk, dropout, grad);
    return check_grad(walk, "gradient of the input", dropout->in, dropout->reader, grad, 0, bound,
                      err);
}

/* ---- global context ---- */

static enum xt_status check_context(struct walk *walk, struct xt_err *err)
{
    const struct context *context = (const struct context *)walk->op;
    const struct xt_context_spec *spec = &context->spec;
    struct xt_reference_tap taps[XT_TAPS_MAX] = {0};
    int over = spec->over_batch ? walk->graph->pass.count : 0;
    double elements = 0;
    for (int i = 0; i < spec->count; i++) {
        double *grad = take_doubles(walk, xt_tensor_count(spec->taps[i]), err);
        taps[i] =
            (struct xt_reference_tap){.shape = shape_of(spec->taps[i]),
                                      .group = spec->group[i],
                                      .value = grad ? give_value(walk, spec->taps[i], err) : NULL,
                                      .grad = grad};
        if (!taps[i].value)
            return err->status;
        elements += (double)xt_tensor_count(spec->taps[i]);
    }
    double *wanted = take_doubles(walk, xt_tensor_count(context->out), err);
    if (!wanted)
        return err->status;
    enum xt_status status = run(walk, false, err);
    if (status)
        return status;
    xt_reference_context(taps, spec->count, over, wanted);
    double bound = bound_of(XT_F32, 4, elements);
    status = check_value(walk, "output", context->out, wanted, 0, bound, err);
    if (status || !walk->graph->options.training)
        return status;
    const double *grad = give_grads(walk, context->out, NULL, err);
    if (!grad)
        return err->status;
    status = run(walk, true, err);
    if (!status)
        xt_reference_context_grad(taps, spec->count, over, grad);
    for (int i = 0; i < spec->count && !status; i++)
        status = check_grad(walk, "gradient of a tap", spec->taps[i], context->reader[i],
                            taps[i].grad, 0, bound, err);
    return status;
}

/* ---- pool ---- */

static enum xt_status check_pool(struct walk *walk, struct xt_err *err)
{
    const struct pool *pool = (const struct pool *)walk->op;
    struct xt_reference_shape shape = shape_of(pool->in);
    double *value = give_value(walk, pool->in, err);
    double *wanted = value ? take_doubles(walk, xt_tensor_count(pool->out), err) : NULL;
    if (!wanted)
        return err->status;
    /* It stands behind a ReLU and may rely on that. */
    xt_reference_relu(value, xt_tensor_count(pool->in));
    enum xt_status status = write_buffer(walk, pool->in, pool->in->value, value, err);
    if (!status)
        status = run(walk, false, err);
    if (status)
        return status;
    if (pool->average)
        xt_reference_average_pool(&shape, &pool->window, value, wanted);
    else
        xt_reference_max_pool(&shape, &pool->window, value, wanted, NULL);
    double terms = pool->average ? pool->window.kernel_h * pool->window.kernel_w : 1;
    return check_value(walk, "output", pool->out, wanted, 0, bound_of(pool->in->dtype, 2, terms),
                       err);
}

/* ---- a network ---- */

static const struct {
    const char *kind;
    enum xt_status (*check)(struct walk *walk, struct xt_err *err);
} checks[] = {
    {"input", check_input},     {"convolution", check_conv},       {"batch norm", check_norm},
    {"dropout", check_dropout}, {"global context", check_context}, {"pool", check_pool},
};

static enum xt_status check_op(struct walk *walk, const struct xt_op *op, struct xt_err *err)
{
    walk->op = op;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (strcmp(checks[i].kind, op->class->kind) == 0) {
            enum xt_status status = checks[i].check(walk, err);
            release(walk);
            return status;
        }
    return xt_err_set(err, XT_ERR_RUN, "%s: there are no plain loops for an op of kind %s",
                      op->name, op->class->kind);
}

/* Such that some outputs are cut off, and each tensor has another step than those beside it. */
static void make_up_ranges(struct xt_ranges *ranges)
{
    for (int i = 0; i < XT_TENSORS_MAX; i++)
        ranges->limit[i] = 1 + 0.25f * (float)(i % 4);
}

static enum xt_status build(struct walk *walk, bool training, bool bn_frozen, bool fuse,
                            struct xt_err *err)
{
    const struct xt_selftest_options *o = walk->options;
    struct xt_graph_options options = {.device = o->device,
                                       .params = &walk->params,
                                       .batch = o->batch,
                                       .training = training,
                                       .bn_frozen = bn_frozen,
                                       .fuse = fuse,
                                       .dtype = o->dtype,
                                       .int8 = o->int8 ? &walk->ranges : NULL};
    make_up_ranges(&walk->ranges);
    enum xt_status status = xt_graph_create(&walk->graph, &options, err);
    if (status)
        return status;
    struct xt_tensor *logits = o->describe(walk->graph, &o->network, err);
    walk->ranges.tensors = walk->graph->tensor_count;
    status = logits ? xt_graph_build(walk->graph, logits, err) : err->status;
    if (status)
        return status;
    size_t count = xt_tensor_count(walk->graph->tensors[0]);
    status = xt_mem_aligned(&walk->pixels, count, 1, "random pixels", err);
    for (size_t i = 0; i < count && !status; i++)
        walk->pixels[i] = (uint8_t)xt_rng_at(SEED, 0, i);
    walk->graph->pass = (struct xt_graph_pass){.pixels = walk->pixels,
                                               .count = o->batch,
                                               .training = training,
                                               .bn_frozen = bn_frozen,
                                               .dropout = training ? DROPOUT : 0,
                                               .seed = SEED,
                                               .step = STEP};
    return status ? status : fill_params(walk, err);
}

static enum xt_status walk_graph(struct xt_selftest *out, const struct xt_selftest_options *options,
                                 bool training, bool bn_frozen, bool fuse, struct xt_err *err)
{
    struct walk *walk = NULL;
    enum xt_status status = xt_mem_calloc(&walk, 1, sizeof *walk, "the self-test", err);
    if (status)
        return status;
    *walk = (struct walk){.options = options,
                          .out = out,
                          .pass = training ? XT_SELFTEST_FORWARD : XT_SELFTEST_INFERENCE,
                          .stream = 1};
    status = build(walk, training, bn_frozen, fuse, err);
    for (int i = 0; !status && i < walk->graph->op_count; i++) {
        status = check_op(walk, walk->graph->ops[i], err);
        if (!status && xt_stop_requested())
            status = xt_err_set(err, XT_INTERRUPTED, "interrupted before all ops were checked");
    }
    if (!status && training)
        status = check_statistics(walk, err);
    release(walk);
    for (int i = 0; i < XT_PARAMS_MAX; i++)
        free(walk->statistics[i]);
    free(walk->pixels);
    xt_graph_destroy(walk->graph);
    xt_params_clear(&walk->params);
    free(walk);
    return status;
}

enum xt_status xt_selftest_run(struct xt_selftest *out, const struct xt_selftest_options *options,
                               struct xt_err *err)
{
    if (options->int8)
        return walk_graph(out, options, false, false, true, err);
    enum xt_status status = walk_graph(out, options, true, false, false, err);
    if (!status && options->thorough)
        status = walk_graph(out, options, true, true, false, err);
    if (!status && options->thorough)
        status = walk_graph(out, options, false, false, false, err);
    return status ? status : walk_graph(out, options, false, false, true, err);
}

enum xt_status xt_selftest_verdict(const struct xt_selftest *result, const char *device,
                                   struct xt_err *err)
{
    for (int i = 0; i < result->row_count; i++) {
        const struct xt_selftest_row *row = &result->rows[i];
        if (row->wrong)
            return xt_err_set(err, XT_ERR_RUN,
                              "%d passes of ops are off on %s: %s (%s), for one, has an error of "
                              "%.1e where %.1e is the bound",
                              result->wrong, device, row->where, xt_dtype_name(row->dtype),
                              row->error, row->bound);
    }
    return XT_OK;
}

/* ---- the small network ---- */

struct builder {
    struct xt_graph *graph;
    struct xt_err *err;
};

static struct xt_tensor *add_conv(const struct builder *b, struct xt_tensor *in,
                                  struct xt_conv_spec spec)
{
    return in ? xt_graph_conv(b->graph, in, &spec, b->err) : NULL;
}

static struct xt_norm_outputs add_norm(const struct builder *b, struct xt_tensor *in,
                                       struct xt_norm_spec spec)
{
    struct xt_norm_outputs out = {0};
    if (in && xt_graph_norm(b->graph, in, &spec, &out, b->err))
        return (struct xt_norm_outputs){0};
    return out;
}

/* What the second half of the small network reads. */
struct half {
    struct xt_tensor *fork;
    struct xt_norm_outputs stem, block, shortcut;
};

/* As LPRNet begins: a block of 1x1, 3x1, 1x3 and 1x1 convolutions; and a way past it. The comments
 * give h x w x c. */
static struct half add_first_half(const struct builder *b)
{
    struct half half = {0};
    struct xt_window max = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2};
    struct xt_tensor *x = xt_graph_input(b->graph, 13, 15, 127.5f, 1 / 128.0f, b->err);
    x = add_conv(b, x,
                 (struct xt_conv_spec){.name = "stem",
                                       .channels = 20,
                                       .kernel_h = 3,
                                       .kernel_w = 3,
                                       .bias = true}); /* 11x13x20 */
    half.stem =
        add_norm(b, x,
                 (struct xt_norm_spec){
                     .name = "stem.norm",
                     .relu = true,
                     .max = max, /* 9x6 */
                     .average = {.kernel_h = 5, .kernel_w = 6, .stride_h = 5, .stride_w = 6}});
    x = add_conv(b, half.stem.max,
                 (struct xt_conv_spec){.name = "block.0",
                                       .channels = 8,
                                       .kernel_h = 1,
                                       .kernel_w = 1,
                                       .bias = true,
                                       .relu = true});
    x = add_conv(b, x,
                 (struct xt_conv_spec){.name = "block.1",
                                       .channels = 8,
                                       .kernel_h = 3,
                                       .kernel_w = 1,
                                       .pad_h = 1,
                                       .bias = true,
                                       .relu = true});
    half.fork = add_conv(b, x,
                         (struct xt_conv_spec){.name = "block.2",
                                               .channels = 8,
                                               .kernel_h = 1,
                                               .kernel_w = 3,
                                               .pad_w = 1,
                                               .bias = true,
                                               .relu = true});
    x = add_conv(
        b, half.fork,
        (struct xt_conv_spec){
            .name = "block.3", .channels = 32, .kernel_h = 1, .kernel_w = 1, .bias = true});
    half.block =
        add_norm(b, x,
                 (struct xt_norm_spec){
                     .name = "block.norm",
                     .relu = true,
                     .full = true,
                     .average = {.kernel_h = 4, .kernel_w = 4, .stride_h = 4, .stride_w = 2}});
    x = add_conv(b, half.block.full,
                 (struct xt_conv_spec){.name = "shortcut",
                                       .channels = 24,
                                       .kernel_h = 3,
                                       .kernel_w = 3,
                                       .stride_h = 2,
                                       .stride_w = 2,
                                       .pad_h = 1,
                                       .pad_w = 1}); /* 5x3x24 */
    half.shortcut = add_norm(b, x, (struct xt_norm_spec){.name = "shortcut.norm", .full = true});
    return half;
}

/* As ResNet goes on, with a residual read by two; then LPRNet's end. */
struct xt_tensor *xt_selftest_small(struct xt_graph *graph, const struct xt_model_options *options,
                                    struct xt_err *err)
{
    const struct builder b = {graph, err};
    struct xt_window padded = {
        .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};
    struct half half = add_first_half(&b);
    if (!half.block.full || !half.shortcut.full)
        return NULL;
    struct xt_tensor *x = add_conv(&b, half.fork,
                                   (struct xt_conv_spec){.name = "branch",
                                                         .channels = 32,
                                                         .kernel_h = 3,
                                                         .kernel_w = 3,
                                                         .pad_h = 1,
                                                         .pad_w = 1,
                                                         .bias = true});
    struct xt_norm_outputs branch = add_norm(&b, x,
                                             (struct xt_norm_spec){.name = "branch.norm",
                                                                   .relu = true,
                                                                   .residual = half.block.full,
                                                                   .max = padded}); /* 5x3 */
    x = add_conv(&b, branch.max,
                 (struct xt_conv_spec){
                     .name = "join", .channels = 24, .kernel_h = 1, .kernel_w = 1, .bias = true});
    struct xt_norm_outputs join =
        add_norm(&b, x,
                 (struct xt_norm_spec){
                     .name = "join.norm",
                     .relu = true,
                     .residual = half.shortcut.full,
                     .full = true,
                     .average = {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 1}});
    x = join.full ? xt_graph_dropout(graph, join.full, "dropout", err) : NULL;
    x = add_conv(
        &b, x,
        (struct xt_conv_spec){
            .name = "tail", .channels = 20, .kernel_h = 2, .kernel_w = 2, .bias = true}); /* 4x2 */
    struct xt_norm_outputs tail =
        add_norm(&b, x,
                 (struct xt_norm_spec){
                     .name = "tail.norm",
                     .relu = true,
                     .average = {.kernel_h = 2, .kernel_w = 1, .stride_h = 2, .stride_w = 1}});
    if (!tail.average)
        return NULL;
    struct xt_context_spec context = {
        .count = 4,
        .taps = {half.stem.average, half.block.average, join.average, tail.average}, /* each 2x2 */
        .group = {0, 1, 1, 2},
        .over_batch = options->context_over_batch};
    x = xt_graph_context(graph, &context, err);
    struct xt_conv_spec head = {.name = "head",
                                .channels = 7,
                                .kernel_h = 1,
                                .kernel_w = 1,
                                .bias = true,
                                .why_f32 = "its logits go into the loss"};
    return x ? xt_graph_conv(graph, x, &head, err) : NULL;
}
