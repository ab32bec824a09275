#include "engine/selftest/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "base/number.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "engine/ranges.h"
#include "engine/selftest/values.h"

/* Most multiplications of the reference loops on one part of an op, and where its sums over the
 * channels are compared too. */
#define WORK_MAX 2e7
#define WORK_BESIDE_SUMS 4e6
#define DROPOUT 0.4

enum { SEED = XT_SELFTEST_SEED, STEP = 5, SAMPLES_BESIDE_SUMS = 512 };

/* Results of one pass of an op. */
struct seen {
    bool counted, wrong;
};

/* One network being walked. */
struct walk {
    const struct xt_selftest_options *options;
    struct xt_selftest *out;
    struct xt_params own_params; /* of a graph of this test's own */
    struct xt_params *params;
    struct xt_ranges ranges; /* of an int8 graph */
    struct xt_graph *graph;
    enum xt_selftest_pass pass; /* of what runs forward */
    struct seen seen[XT_OPS_MAX][2];
    uint8_t *pixels, *other_pixels;
    const struct xt_op *op;
    struct xt_reference_op reference;                 /* of the current op */
    double *given[XT_OP_OUTPUTS_MAX][XT_FAN_OUT_MAX]; /* its outputs' gradients, by reader */
    uint64_t stream; /* incremented with every array of random numbers */
    /* Of each running statistic, once its op has run: what it becomes at the pass's end. */
    double *statistics[XT_PARAMS_MAX];
    struct xt_bound bounds[XT_PARAMS_MAX];
    const struct xt_op *owners[XT_PARAMS_MAX];
};

const char *xt_selftest_pass_name(enum xt_selftest_pass pass)
{
    static const char *const names[] = {"forward", "backward", "inference"};
    return names[pass];
}

/* ---- results ---- */

struct xt_selftest_row *xt_selftest_row(struct xt_selftest *out, const char *kind,
                                        enum xt_dtype dtype, enum xt_selftest_pass pass,
                                        struct xt_err *err)
{
    for (int i = 0; i < out->row_count; i++) {
        struct xt_selftest_row *row = &out->rows[i];
        if (row->pass == pass && row->dtype == dtype && strcmp(row->kind, kind) == 0)
            return row;
    }
    if (out->row_count == XT_SELFTEST_ROWS_MAX) {
        xt_err_set(err, XT_ERR_RUN, "more than %d kinds of ops", XT_SELFTEST_ROWS_MAX);
        return NULL;
    }
    struct xt_selftest_row *row = &out->rows[out->row_count++];
    *row = (struct xt_selftest_row){.dtype = dtype, .pass = pass};
    snprintf(row->kind, sizeof row->kind, "%s", kind);
    return row;
}

/* Largest differences while a tensor is gone through. */
struct comparison {
    double error;   /* absolute; infinite if a value is NaN */
    double largest; /* of what is wanted */
};

static void compare_element(struct comparison *c, double got, double wanted)
{
    double error = fabs(got - wanted);
    /* A mask's infinity, to which no error is relative. */
    if (isinf(wanted) && got == wanted)
        return;
    c->error = error <= c->error ? c->error : isnan(error) ? INFINITY : error;
    c->largest = fmax(c->largest, fabs(wanted));
}

static enum xt_status note(struct walk *walk, enum xt_selftest_pass pass, const char *what,
                           const struct comparison *c, const struct xt_bound *bound,
                           struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_selftest_row *row = xt_selftest_row(walk->out, op->kind->name, op->dtype, pass, err);
    if (!row)
        return err->status;
    double largest = fmax(c->largest, bound->scale);
    double error = c->error > 0 ? c->error / largest : 0;
    double most = bound->relative + (bound->absolute > 0 ? bound->absolute / largest : 0);
    bool wrong = !(error <= most);
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
    if (!*row->where || error * row->bound > row->error * most) {
        row->error = error;
        row->bound = most;
        snprintf(row->where, sizeof row->where, "%s: %s", op->name, what);
    }
    return XT_OK;
}

/* ---- numbers in and out ---- */

/* The value that a stored number represents. */
static double meaning_of(const struct xt_tensor *tensor, float held)
{
    return ((double)held + (double)tensor->offset) * (double)tensor->scale;
}

/* In [0, 1). */
static float uniform(uint64_t stream, size_t i)
{
    return (float)(xt_rng_at(SEED, stream, i) >> 40) * 0x1p-24f;
}

/* Numbers of both signs up to 1, as the tensor's type holds them; int8's over all of its range. */
static double *take_random(struct walk *walk, const struct xt_tensor *tensor, struct xt_err *err)
{
    uint64_t stream = walk->stream++;
    enum xt_dtype dtype = tensor->dtype;
    size_t count = xt_tensor_count(tensor);
    float largest = xt_dtype_is_int8(dtype) ? 127.5f : 1;
    float middle = dtype == XT_U8 ? largest : 0;
    float *floats = NULL;
    void *held = NULL;
    double *values = xt_reference_op_take(&walk->reference, count);
    if (!values || xt_mem_aligned(&floats, count, sizeof *floats, tensor->name, err) ||
        xt_mem_aligned(&held, count, xt_dtype_size(dtype), tensor->name, err)) {
        free(floats);
        return NULL;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++)
        floats[i] = middle + largest * (2 * uniform(stream, i) - 1);
    xt_number_from_float(dtype, floats, count, held);
    xt_number_to_float(dtype, held, count, floats);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++)
        values[i] = meaning_of(tensor, floats[i]);
    free(floats);
    free(held);
    return values;
}

static enum xt_status write_buffer(struct walk *walk, const struct xt_tensor *tensor,
                                   const struct xt_buffer *buffer, const double *values,
                                   struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    float *floats = NULL;
    enum xt_status status = xt_mem_aligned(&floats, count, sizeof *floats, tensor->name, err);
    for (size_t i = 0; i < count && !status; i++)
        floats[i] = (float)(values[i] / (double)tensor->scale - (double)tensor->offset);
    if (!status)
        status = xt_graph_write(walk->graph, buffer, tensor->dtype, floats, count, err);
    free(floats);
    return status;
}

static double *read_buffer(struct walk *walk, const struct xt_tensor *tensor,
                           const struct xt_buffer *buffer, struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    float *floats = NULL;
    double *values = xt_reference_op_take(&walk->reference, count);
    if (!values || xt_mem_aligned(&floats, count, sizeof *floats, tensor->name, err))
        return NULL;
    if (xt_graph_read_back(walk->graph, buffer, tensor->dtype, floats, count, err))
        values = NULL;
    for (size_t i = 0; values && i < count; i++)
        values[i] = meaning_of(tensor, floats[i]);
    free(floats);
    return values;
}

/* ---- parameters ---- */

/* As this part of the network has it. */
static double *take_param(struct walk *walk, int which)
{
    const struct xt_param *param = &walk->params->items[walk->op->params[which]];
    size_t count = xt_reference_op_param_count(&walk->reference, which);
    uint64_t key = xt_selftest_key(param);
    double *values = xt_reference_op_take(&walk->reference, count);
    for (size_t i = 0; values && i < count; i++)
        values[i] = (double)xt_selftest_value(param, key, xt_selftest_file_index(param, i));
    return values;
}

/* As it stands in one of the arenas now. */
static double *read_param(struct walk *walk, int which, const struct xt_params_view *view,
                          struct xt_err *err)
{
    const struct xt_param *param = &walk->params->items[walk->op->params[which]];
    size_t count = xt_reference_op_param_count(&walk->reference, which);
    float *reference = NULL;
    double *values = xt_reference_op_take(&walk->reference, count);
    if (!values ||
        xt_mem_aligned(&reference, xt_param_file_count(param), sizeof *reference, param->name, err))
        return NULL;
    if (xt_params_pull(walk->params, err) ||
        xt_params_export(param, walk->graph->options.device, view, reference, err))
        values = NULL;
    for (size_t i = 0; values && i < count; i++)
        values[i] = (double)reference[xt_selftest_file_index(param, i)];
    free(reference);
    return values;
}

static double *read_param_grad(struct walk *walk, int which, struct xt_err *err)
{
    if (xt_params_pull_grads(walk->params, err))
        return NULL;
    return read_param(walk, which, &(struct xt_params_view){walk->params->grads, NULL}, err);
}

static enum xt_param_role role_of(const struct walk *walk, int which)
{
    return walk->params->items[walk->op->params[which]].role;
}

static bool is_statistic(const struct walk *walk, int which)
{
    return xt_param_is_statistic(&walk->params->items[walk->op->params[which]]);
}

/* ---- comparing ---- */

static double terms_of(const struct walk *walk, enum xt_part part, int which)
{
    const struct xt_reference_op_kind *kind = &walk->op->kind->reference;
    return kind->terms ? kind->terms(&walk->reference, part, which) : 1;
}

/* The number of `count` elements, of `terms` terms each, that are compared. */
static size_t sample_size(size_t count, double terms, bool has_sums)
{
    double most = has_sums ? fmin(SAMPLES_BESIDE_SUMS, WORK_BESIDE_SUMS / terms) : WORK_MAX / terms;
    return most < 64 ? (count < 64 ? count : 64) : (double)count < most ? count : (size_t)most;
}

/* The k-th of those: one per segment of equal length, at varying offsets, including the first and
 * the last. */
static size_t element(size_t k, size_t samples, size_t count)
{
    if (samples == count || k == 0)
        return k;
    if (k == samples - 1)
        return count - 1;
    size_t segment = count / samples;
    return k * count / samples + (size_t)(xt_rng_at(SEED, count, k) % (segment ? segment : 1));
}

/* Compares a part's output with the reference: with `wanted`, or, if the kind computes single
 * elements, with some of them. */
static struct comparison compare(const struct walk *walk, enum xt_part part, int which,
                                 const double *got, const double *wanted, size_t count,
                                 bool has_sums)
{
    const struct xt_reference_op_kind *kind = &walk->op->kind->reference;
    const struct xt_reference_op *reference = &walk->reference;
    size_t samples =
        kind->element ? sample_size(count, terms_of(walk, part, which), has_sums) : count;
    double error = 0;
    double largest = 0;
#pragma omp parallel for schedule(static) reduction(max : error, largest)
    for (size_t k = 0; k < samples; k++) {
        struct comparison one = {0};
        size_t i = element(k, samples, count);
        compare_element(&one, got[i],
                        kind->element ? kind->element(reference, part, which, i) : wanted[i]);
        error = one.error > error ? one.error : error;
        largest = one.largest > largest ? one.largest : largest;
    }
    return (struct comparison){error, largest};
}

/* Errors of the terms have either sign: their sum grows with the square root of their number. */
static struct comparison compare_sums(const struct xt_reference_sums *sums, double largest)
{
    struct comparison c = {0};
    for (size_t i = 0; i < sums->count; i++)
        compare_element(&c, sums->got[i], sums->wanted[i]);
    c.largest = largest * sqrt(sums->terms);
    return c;
}

static struct xt_bound bound_of(const struct xt_reference_op *reference, enum xt_part part,
                                int which)
{
    const struct xt_reference_op_kind *kind = &reference->op->kind->reference;
    if (kind->bound)
        return kind->bound(reference, part, which);
    return (struct xt_bound){.relative = xt_reference_op_relative(
                                 reference->op->dtype, kind->roundings, kind->terms_summed)};
}

static enum xt_status check_part(struct walk *walk, enum xt_part part, int which, const char *what,
                                 const double *got, const double *wanted, size_t count,
                                 struct xt_err *err)
{
    if (!got)
        return err->status;
    const struct xt_reference_op_kind *kind = &walk->op->kind->reference;
    struct xt_reference_sums sums = {.count = 0};
    enum xt_status status =
        kind->sums ? kind->sums(&walk->reference, part, which, got, &sums) : XT_OK;
    if (status)
        return status;
    struct xt_bound bound = bound_of(&walk->reference, part, which);
    struct comparison c = compare(walk, part, which, got, wanted, count, sums.count > 0);
    bool backward = part == XT_PART_INPUT_GRAD || part == XT_PART_PARAM_GRAD;
    enum xt_selftest_pass pass = backward ? XT_SELFTEST_BACKWARD : walk->pass;
    status = note(walk, pass, what, &c, &bound, err);
    if (status || !sums.count)
        return status;
    char summed[96];
    snprintf(summed, sizeof summed, "%s, summed over channels", what);
    c = compare_sums(&sums, c.largest);
    return note(walk, pass, summed, &c, &bound, err);
}

/* ---- one op ---- */

static enum xt_status run(struct walk *walk, bool backward, struct xt_err *err)
{
    const struct xt_selftest_options *o = walk->options;
    if (o->before)
        o->before(o->context, walk->graph, walk->op, backward);
    return xt_graph_run_op(walk->graph, walk->op->index, backward, err);
}

/* The first of the op's inputs that is in this tensor's memory: an op may read one twice, also by a
 * view. */
static int first_input(const struct xt_op *op, const struct xt_tensor *tensor)
{
    int i = 0;
    while (xt_op_in(op, i)->value != tensor->value)
        i++;
    return i;
}

/* Inputs that are random numbers, among those that the op takes. */
static enum xt_status take_inputs(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    for (int i = 0; i < op->input_count; i++) {
        const struct xt_tensor *in = xt_op_in(op, i);
        int same = first_input(op, in);
        double *values = same < i ? walk->reference.in[same] : take_random(walk, in, err);
        walk->reference.in[i] = values;
        if (!values)
            return err->status;
        double (*least)(const struct xt_op *) = op->kind->reference.least;
        for (size_t k = 0; k < xt_tensor_count(in) && least; k++)
            values[k] = fmax(values[k], least(op));
    }
    for (int p = 0; p < op->param_count; p++)
        if (!(walk->reference.param[p] = take_param(walk, p)))
            return err->status;
    return XT_OK;
}

static enum xt_status write_inputs(struct walk *walk, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < walk->op->input_count && !status; i++) {
        const struct xt_tensor *in = xt_op_in(walk->op, i);
        status = write_buffer(walk, in, in->value, walk->reference.in[i], err);
    }
    return status;
}

/* Allocates the outputs. */
static enum xt_status take_outputs(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_reference_op *reference = &walk->reference;
    for (int o = 0; o < op->output_count; o++)
        if (op->outputs[o] &&
            !(reference->out[o] = xt_reference_op_take(reference, xt_tensor_count(op->outputs[o]))))
            return err->status;
    for (int p = 0; p < op->param_count; p++)
        if (walk->graph->options.training && is_statistic(walk, p) &&
            !(reference->statistic[p] =
                  xt_reference_op_take(reference, xt_reference_op_param_count(reference, p))))
            return err->status;
    return XT_OK;
}

/* ---- a first run, with other numbers and NaNs: the second must show nothing of it ---- */

/* Where the last sample begins, which is NaNs: of a single pixel it may be that nothing reads it.
 */
static size_t last_sample(const struct xt_tensor *tensor)
{
    return xt_tensor_count(tensor) / (size_t)tensor->n * (size_t)(tensor->n - 1);
}

/* Other numbers than these, with NaNs from `nan` on if that is below `count`. */
static enum xt_status write_others(struct walk *walk, const struct xt_tensor *tensor,
                                   const struct xt_buffer *buffer, const double *values, size_t nan,
                                   struct xt_err *err)
{
    size_t count = xt_tensor_count(tensor);
    double *others = NULL;
    enum xt_status status = xt_mem_aligned(&others, count, sizeof *others, tensor->name, err);
    for (size_t i = 0; i < count && !status; i++)
        others[i] = i >= nan ? (double)NAN : 0.5 * values[i] * fabs(values[i]);
    if (!status)
        status = write_buffer(walk, tensor, buffer, others, err);
    free(others);
    return status;
}

static bool has_nan(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i]))
            return true;
    return false;
}

/* A result in which a NaN has to be. */
static enum xt_status demand_nan(struct walk *walk, enum xt_selftest_pass pass, const char *what,
                                 const double *got, size_t count, struct xt_err *err)
{
    const struct xt_bound none = {0};
    const struct comparison lost = {.error = INFINITY, .largest = 1};
    char text[96];
    if (!got)
        return err->status;
    if (has_nan(got, count))
        return XT_OK;
    snprintf(text, sizeof text, "%s, where a NaN is lost", what);
    return note(walk, pass, text, &lost, &none, err);
}

/* On the CPU an op moves its running statistics as it runs; so does on others one of several that
 * have the same. */
static enum xt_status restore_statistics(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    bool is_copied = walk->graph->options.device->own_memory;
    enum xt_status status = XT_OK;
    for (int p = 0; p < op->param_count && !status; p++) {
        if (!is_statistic(walk, p) ||
            (is_copied && !xt_param_is_shared(walk->graph, op->params[p])))
            continue;
        status = xt_selftest_fill(walk->params, walk->graph->options.device, op->params[p], err);
        walk->params->version += is_copied; /* all are copied again, so only where it has to be */
    }
    return status;
}

/* What the op would add its gradients to. */
static enum xt_status clear_grads(struct walk *walk, struct xt_err *err)
{
    struct xt_device_memory *there = &walk->params->device.grads;
    bool adds = false;
    void *zeros = NULL;
    for (int p = 0; p < walk->op->param_count; p++)
        adds = adds || xt_op_adds_grad(walk->graph, walk->op, walk->op->params[p]);
    if (!adds)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(&zeros, there->bytes, 1, "zeros", err);
    if (!status)
        status = xt_device_memory_write(there, zeros, there->bytes, XT_CAUSE_OTHER, err);
    free(zeros);
    return status;
}

static enum xt_status rehearse_forward(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_graph *graph = walk->graph;
    enum xt_status status = XT_OK;
    const struct xt_reference_op_kind *kind = &op->kind->reference;
    bool demanded = kind->passes_nan && kind->passes_nan(op);
    for (int i = 0; i < op->input_count && !status; i++) {
        const struct xt_tensor *in = xt_op_in(op, i);
        status = write_others(walk, in, in->value, walk->reference.in[i],
                              demanded && i == 0 ? last_sample(in) : SIZE_MAX, err);
    }
    graph->pass.pixels = walk->other_pixels;
    if (!status)
        status = xt_graph_run_op(graph, op->index, false, err);
    graph->pass.pixels = walk->pixels;
    status = status ? status : restore_statistics(walk, err);
    if (status || !demanded)
        return status;
    const struct xt_tensor *out = xt_op_out(op, 0);
    return demand_nan(walk, walk->pass, "output", read_buffer(walk, out, out->value, err),
                      xt_tensor_count(out), err);
}

static enum xt_status check_forward(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_reference_op *reference = &walk->reference;
    enum xt_status status = take_inputs(walk, err);
    if (!status)
        status = rehearse_forward(walk, err);
    if (!status)
        status = write_inputs(walk, err);
    if (!status)
        status = take_outputs(walk, err);
    if (!status)
        status = op->kind->reference.forward(reference);
    if (!status)
        status = run(walk, false, err);
    for (int o = 0; o < op->output_count && !status; o++) {
        const struct xt_tensor *out = op->outputs[o];
        const char *name = op->kind->reference.outputs[o];
        if (!out)
            continue;
        reference->came[o] = read_buffer(walk, out, out->value, err);
        status = check_part(walk, XT_PART_OUTPUT, o, name ? name : "output", reference->came[o],
                            reference->out[o], xt_tensor_count(out), err);
    }
    return status;
}

/* Running statistics are compared when the pass ends: some devices update all at once.
 */
static enum xt_status remember_statistics(struct walk *walk, struct xt_err *err)
{
    for (int p = 0; p < walk->op->param_count; p++) {
        int index = walk->op->params[p];
        size_t count = xt_reference_op_param_count(&walk->reference, p);
        if (!walk->reference.statistic[p])
            continue;
        free(walk->statistics[index]); /* another op's that has them too */
        if (xt_mem_calloc(&walk->statistics[index], count, sizeof(double), "running statistics",
                          err))
            return err->status;
        memcpy(walk->statistics[index], walk->reference.statistic[p], count * sizeof(double));
        walk->bounds[index] = bound_of(&walk->reference, XT_PART_STATISTIC, p);
        walk->owners[index] = walk->op;
    }
    return XT_OK;
}

/* Gradients from an output's readers that are random numbers, except where rounding may decide the
 * result. */
static enum xt_status take_out_grads(struct walk *walk, int o, struct xt_err *err)
{
    struct xt_reference_op *reference = &walk->reference;
    const struct xt_tensor *out = walk->op->outputs[o];
    size_t count = xt_tensor_count(out);
    double *sum = reference->out_grad[o] = xt_reference_op_take(reference, count);
    double *keep = sum ? xt_reference_op_take(reference, count) : NULL;
    if (!keep)
        return err->status;
    if (walk->op->kind->reference.certain)
        walk->op->kind->reference.certain(reference, o, keep);
    for (int r = 0; r < out->readers; r++) {
        double *grad = walk->given[o][r] = take_random(walk, out, err);
        if (!grad)
            return err->status;
        for (size_t i = 0; i < count; i++) {
            grad[i] = walk->op->kind->reference.certain && keep[i] == 0 ? 0 : grad[i];
            sum[i] += grad[i];
        }
    }
    return XT_OK;
}

static enum xt_status write_out_grads(struct walk *walk, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int o = 0; o < walk->op->output_count; o++) {
        const struct xt_tensor *out = walk->op->outputs[o];
        for (int r = 0; out && r < out->readers && !status; r++)
            status = write_buffer(walk, out, out->grad[r], walk->given[o][r], err);
    }
    return status;
}

/* Allocates the resulting gradients. */
static enum xt_status take_grads(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    struct xt_reference_op *reference = &walk->reference;
    for (int i = 0; i < op->input_count; i++)
        if (!(reference->in_grad[i] =
                  xt_reference_op_take(reference, xt_tensor_count(xt_op_in(op, i)))))
            return err->status;
    for (int p = 0; p < op->param_count; p++)
        if (!(reference->param_grad[p] =
                  xt_reference_op_take(reference, xt_reference_op_param_count(reference, p))))
            return err->status;
    return XT_OK;
}

static const char *const param_names[] = {
    [XT_PARAM_WEIGHT] = "gradient of the weights",  [XT_PARAM_BIAS] = "gradient of the bias",
    [XT_PARAM_BN_SCALE] = "gradient of the scale",  [XT_PARAM_BN_SHIFT] = "gradient of the shift",
    [XT_PARAM_OTHER] = "gradient of the parameter", [XT_PARAM_RAW] = "gradient of the weights",
};

static enum xt_status check_param_grads(struct walk *walk, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int p = 0; p < walk->op->param_count && !status; p++)
        if (!is_statistic(walk, p))
            status = check_part(walk, XT_PART_PARAM_GRAD, p, param_names[role_of(walk, p)],
                                read_param_grad(walk, p, err), walk->reference.param_grad[p],
                                xt_reference_op_param_count(&walk->reference, p), err);
    return status;
}

/* Whether the gradient of an element of the last sample passes: it is above 0 and at no end of a
 * clip, and rounding does not decide. */
static bool passes_grad(const struct walk *walk, int o)
{
    const struct xt_tensor *out = walk->op->outputs[o];
    size_t count = xt_tensor_count(out);
    const double *came = walk->reference.came[o];
    double least = INFINITY;
    double most = 0;
    bool passes = false;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, came[i]);
        most = fmax(most, came[i]);
    }
    for (size_t i = last_sample(out); i < count && !passes; i++)
        passes = came[i] > fmax(least, 0) && came[i] < most && walk->given[o][0][i] != 0;
    return passes;
}

/* A convolution's and a norm's gradients take a NaN on, from where it cannot vanish. */
static enum xt_status demand_nan_grads(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    enum xt_status status = XT_OK;
    for (int p = 0; p < op->param_count && !status; p++)
        if (!is_statistic(walk, p))
            status = demand_nan(walk, XT_SELFTEST_BACKWARD, param_names[role_of(walk, p)],
                                read_param_grad(walk, p, err),
                                xt_reference_op_param_count(&walk->reference, p), err);
    if (status || !in->wants_grad)
        return status;
    return demand_nan(walk, XT_SELFTEST_BACKWARD, "gradient of the input",
                      read_buffer(walk, in, xt_op_in_grad(op, 0), err), xt_tensor_count(in), err);
}

static enum xt_status rehearse_backward(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    bool demanded = op->kind->reference.grads_pass_nan;
    bool written = false;
    enum xt_status status = XT_OK;
    for (int o = 0; o < op->output_count; o++) {
        const struct xt_tensor *out = op->outputs[o];
        bool passes = out && demanded && !written && passes_grad(walk, o);
        for (int r = 0; out && r < out->readers && !status; r++)
            status = write_others(walk, out, out->grad[r], walk->given[o][r],
                                  passes && r == 0 ? last_sample(out) : SIZE_MAX, err);
        written = written || passes;
    }
    if (!status)
        status = clear_grads(walk, err);
    if (!status)
        status = xt_graph_run_op(walk->graph, op->index, true, err);
    return status || !written ? status : demand_nan_grads(walk, err);
}

static enum xt_status check_backward(struct walk *walk, struct xt_err *err)
{
    const struct xt_op *op = walk->op;
    enum xt_status status = XT_OK;
    for (int o = 0; o < op->output_count && !status; o++)
        if (op->outputs[o])
            status = take_out_grads(walk, o, err);
    if (!status)
        status = rehearse_backward(walk, err);
    if (!status)
        status = write_out_grads(walk, err);
    if (!status)
        status = take_grads(walk, err);
    if (!status)
        status = op->kind->reference.backward(&walk->reference);
    if (!status)
        status = clear_grads(walk, err);
    if (!status)
        status = run(walk, true, err);
    if (!status)
        status = check_param_grads(walk, err);
    for (int i = 0; i < op->input_count && !status; i++) {
        const struct xt_tensor *in = xt_op_in(op, i);
        const char *name = op->kind->reference.inputs[i];
        char what[64];
        if (!in->wants_grad)
            continue;
        snprintf(what, sizeof what, "gradient of the %s", name ? name : "input");
        status = check_part(walk, XT_PART_INPUT_GRAD, i, what,
                            read_buffer(walk, in, xt_op_in_grad(op, i), err),
                            walk->reference.in_grad[i], xt_tensor_count(in), err);
    }
    return status;
}

static enum xt_status check_op(struct walk *walk, const struct xt_op *op, struct xt_err *err)
{
    walk->op = op;
    walk->reference = (struct xt_reference_op){.op = op, .graph = walk->graph, .err = err};
    enum xt_status status = check_forward(walk, err);
    if (!status)
        status = remember_statistics(walk, err);
    if (!status && xt_op_learns(op, walk->graph) && op->kind->what[1])
        status = check_backward(walk, err);
    xt_reference_op_clear(&walk->reference);
    return status;
}

/* ---- a network ---- */

static enum xt_status check_statistic(struct walk *walk, int which, struct xt_err *err)
{
    int index = walk->op->params[which];
    struct xt_params_view view = {walk->params->values, walk->params->stats};
    bool is_mean = role_of(walk, which) == XT_PARAM_BN_MEAN;
    const double *got = read_param(walk, which, &view, err);
    struct comparison c = {0};
    if (!got)
        return err->status;
    for (size_t i = 0; i < xt_reference_op_param_count(&walk->reference, which); i++)
        compare_element(&c, got[i], walk->statistics[index][i]);
    return note(walk, walk->pass, is_mean ? "running mean" : "running variance", &c,
                &walk->bounds[index], err);
}

static enum xt_status check_statistics(struct walk *walk, struct xt_err *err)
{
    enum xt_status status = xt_graph_run_op(walk->graph, walk->graph->op_count, false, err);
    for (int i = 0; i < walk->graph->op_count && !status; i++) {
        const struct xt_op *op = walk->op = walk->graph->ops[i];
        walk->reference = (struct xt_reference_op){.op = op, .graph = walk->graph, .err = err};
        for (int p = 0; p < op->param_count && !status; p++)
            if (walk->owners[op->params[p]] == op)
                status = check_statistic(walk, p, err);
        xt_reference_op_clear(&walk->reference);
    }
    return status;
}

/* Chosen so that some outputs are clipped, and neighbouring tensors have different steps. */
static void make_up_ranges(struct xt_ranges *ranges)
{
    for (int i = 0; i < XT_TENSORS_MAX; i++)
        ranges->limit[i] = 1 + 0.25f * (float)(i % 4);
}

/* The pass and the parameters of a graph that is built. */
static enum xt_status prepare(struct walk *walk, struct xt_err *err)
{
    const struct xt_graph_options *o = &walk->graph->options;
    size_t count = xt_graph_slot_bytes(walk->graph);
    enum xt_status status = xt_mem_aligned(&walk->pixels, 2 * count, 1, "random pixels", err);
    if (status)
        return status;
    walk->other_pixels = walk->pixels + count;
    for (size_t i = 0; i < 2 * count; i++)
        walk->pixels[i] = (uint8_t)xt_rng_at(SEED, 0, i);
    walk->graph->pass = (struct xt_graph_pass){.pixels = walk->pixels,
                                               .count = o->batch,
                                               .training = o->training,
                                               .bn_frozen = o->bn_frozen,
                                               .dropout = o->training ? DROPOUT : 0,
                                               .seed = SEED,
                                               .step = STEP};
    return xt_selftest_fill_all(walk->params, o->device, err);
}

static enum xt_status build(struct walk *walk, bool training, bool bn_frozen, bool fuse,
                            struct xt_err *err)
{
    const struct xt_selftest_options *o = walk->options;
    struct xt_graph_options options = {.device = o->device,
                                       .params = walk->params,
                                       .backend = o->backend,
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
    struct xt_tensor *logits = o->network.describe(walk->graph, o->network.context);
    walk->ranges.count = walk->graph->range_count;
    status = xt_graph_build(walk->graph, logits, err);
    return status ? status : prepare(walk, err);
}

static enum xt_status begin_walk(struct walk **walk, struct xt_selftest *out,
                                 const struct xt_selftest_options *options, bool training,
                                 struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(walk, 1, sizeof **walk, "the self-test", err);
    if (!status)
        **walk = (struct walk){.options = options,
                               .out = out,
                               .pass = training ? XT_SELFTEST_FORWARD : XT_SELFTEST_INFERENCE,
                               .stream = 1};
    if (!status)
        (*walk)->params = &(*walk)->own_params;
    return status;
}

/* A graph that is the caller's stays. */
static void end_walk(struct walk *walk)
{
    for (int i = 0; i < XT_PARAMS_MAX; i++)
        free(walk->statistics[i]);
    free(walk->pixels);
    if (walk->params == &walk->own_params)
        xt_graph_destroy(walk->graph);
    xt_params_clear(&walk->own_params);
    free(walk);
}

static enum xt_status check_ops(struct walk *walk, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; !status && i < walk->graph->op_count; i++) {
        status = check_op(walk, walk->graph->ops[i], err);
        if (!status)
            status = xt_stop_check(err, "before all ops were checked");
    }
    return status || !walk->graph->options.training ? status : check_statistics(walk, err);
}

static enum xt_status walk_graph(struct xt_selftest *out, const struct xt_selftest_options *options,
                                 bool training, bool bn_frozen, bool fuse, struct xt_err *err)
{
    struct walk *walk = NULL;
    enum xt_status status = begin_walk(&walk, out, options, training, err);
    if (status)
        return status;
    status = build(walk, training, bn_frozen, fuse, err);
    if (!status)
        status = check_ops(walk, err);
    end_walk(walk);
    return status;
}

/* A graph of a run, which has weights and a pass of its own. */

struct put_aside {
    struct xt_graph_pass pass;
    struct xt_graph_watch watch;
    float *values, *stats;
};

static enum xt_status put_aside(struct put_aside *aside, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    *aside = (struct put_aside){.pass = graph->pass, .watch = graph->watch};
    graph->watch = (struct xt_graph_watch){0};
    enum xt_status status = xt_params_pull(params, err);
    if (!status)
        status =
            xt_mem_aligned(&aside->values, params->value_floats, sizeof(float), "the weights", err);
    if (!status)
        status = xt_mem_aligned(&aside->stats, params->stat_floats, sizeof(float),
                                "running statistics", err);
    if (status)
        return status;
    memcpy(aside->values, params->values, params->value_floats * sizeof(float));
    memcpy(aside->stats, params->stats, params->stat_floats * sizeof(float));
    return XT_OK;
}

/* They are uploaded before the next pass. */
static void put_back(struct put_aside *aside, struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    if (aside->values && aside->stats) {
        memcpy(params->values, aside->values, params->value_floats * sizeof(float));
        memcpy(params->stats, aside->stats, params->stat_floats * sizeof(float));
        params->device.is_newer = false;
        params->version++;
    }
    graph->pass = aside->pass;
    graph->watch = aside->watch;
    free(aside->values);
    free(aside->stats);
}

enum xt_status xt_selftest_graph(struct xt_selftest *out, struct xt_graph *graph,
                                 struct xt_err *err)
{
    const struct xt_selftest_options none = {.device = graph->options.device};
    struct walk *walk = NULL;
    struct put_aside aside;
    enum xt_status status = begin_walk(&walk, out, &none, graph->options.training, err);
    if (status)
        return status;
    walk->graph = graph;
    walk->params = graph->options.params;
    status = put_aside(&aside, graph, err);
    if (!status)
        status = prepare(walk, err);
    if (!status)
        status = check_ops(walk, err);
    put_back(&aside, graph);
    end_walk(walk);
    return status;
}

enum xt_status xt_selftest_run(struct xt_selftest *out, const struct xt_selftest_options *options,
                               struct xt_err *err)
{
    if (options->int8)
        return walk_graph(out, options, false, false, true, err);
    enum xt_status status = walk_graph(out, options, true, false, false, err);
    if (options->training_alone)
        return status;
    if (!status && options->thorough)
        status = walk_graph(out, options, true, true, false, err);
    if (!status && options->thorough)
        status = walk_graph(out, options, false, false, false, err);
    return status ? status : walk_graph(out, options, false, false, true, err);
}

/* The mean of `passes` passes, including the wait for the device. */
static enum xt_status time_passes(struct xt_graph *graph, int passes, double *seconds,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    double start = xt_thread_seconds();
    for (int i = 0; i < passes && !status; i++) {
        status = xt_graph_forward(graph, err);
        if (!status)
            status = xt_graph_backward(graph, err);
    }
    if (!status)
        status =
            xt_dnnl_check(xt_dnnl.stream_wait(graph->options.device->stream), "the device", err);
    *seconds = (xt_thread_seconds() - start) / passes;
    return status;
}

enum xt_status xt_selftest_time(const struct xt_selftest_options *options, int passes,
                                double *seconds, struct xt_err *err)
{
    enum { TURNS = 5 };
    struct walk *walk = NULL;
    double turn = 0;
    enum xt_status status = begin_walk(&walk, NULL, options, true, err);
    if (status)
        return status;
    status = build(walk, true, false, false, err);
    if (!status) {
        float *grad = xt_graph_logits_grad(walk->graph);
        for (size_t i = 0; i < xt_tensor_count(walk->graph->logits); i++)
            grad[i] = 1e-3f;
        status = time_passes(walk->graph, 1, seconds, err);
    }
    for (int i = 0; i < TURNS && !status; i++) {
        status = time_passes(walk->graph, passes, &turn, err);
        *seconds = i && *seconds < turn ? *seconds : turn;
    }
    end_walk(walk);
    return status;
}

enum xt_status xt_selftest_verdict(const struct xt_selftest *result, const char *device,
                                   struct xt_err *err)
{
    for (int i = 0; i < result->row_count; i++) {
        const struct xt_selftest_row *row = &result->rows[i];
        if (row->wrong)
            return xt_err_set(
                err, XT_ERR_RUN,
                "%d %s wrong on %s: %s (%s)%s has an error of %.1e, above the bound of "
                "%.1e",
                result->wrong, result->wrong == 1 ? "pass of an op is" : "passes of ops are",
                device, row->where, xt_dtype_name(row->dtype),
                result->wrong == 1 ? "" : ", for one,", row->error, row->bound);
    }
    return XT_OK;
}

enum xt_status xt_selftest_refuse(const struct xt_selftest *result, const char *device,
                                  const char *check, struct xt_err *err)
{
    struct xt_err why = {0};
    return xt_selftest_verdict(result, device, &why)
               ? xt_err_set(err, XT_ERR_DEVICE,
                            "%s computes wrong results, so it is not used: %s; \"%s\" checks each "
                            "op",
                            device, why.text, check)
               : XT_OK;
}
