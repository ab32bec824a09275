/* The ops of the self-test's small network, beside what the self-test says of them. The gradient
 * that an op's double-precision reference gives is the slope of what it gives forward: for each
 * input and parameter of each op of the self-test's small network, along a random direction. (The
 * self-test holds the devices against the references.) */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "engine/selftest/selftest.h"

static const double step = 1e-6;

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_err err;
    struct xt_rng rng;
    uint8_t pixels[3 * 13 * 15 * 3];
};

/* What is before the op `learn_from` (NULL: nothing) is frozen. */
static void open_pass(struct bench *b, const char *learn_from, bool training)
{
    *b = (struct bench){.rng = xt_rng_begin(3, 4)};
    if (xt_device_open(&b->device, "cpu", 1, &b->err))
        fail_msg("%s", b->err.text);
    struct xt_graph_options options = {.device = &b->device,
                                       .params = &b->params,
                                       .batch = 3,
                                       .training = training,
                                       .learn_from = learn_from};
    assert_int_equal(xt_graph_create(&b->graph, &options, &b->err), XT_OK);
    struct xt_tensor *logits = xt_selftest_small.describe(b->graph, NULL);
    if (xt_graph_build(b->graph, logits, &b->err))
        fail_msg("%s", b->err.text);
    b->graph->pass = (struct xt_graph_pass){
        .pixels = b->pixels, .count = 3, .training = training, .dropout = 0.4, .seed = 1};
}

static void open_small(struct bench *b, const char *learn_from)
{
    open_pass(b, learn_from, true);
}

static void close_small(struct bench *b)
{
    xt_graph_destroy(b->graph);
    xt_params_clear(&b->params);
    xt_device_close(&b->device);
}

static double *take(struct bench *b, struct xt_reference_op *reference, size_t count, bool random)
{
    double *values = xt_reference_op_take(reference, count);
    assert_non_null(values);
    for (size_t i = 0; i < count && random; i++)
        values[i] = 2 * (double)xt_rng_uniform(&b->rng) - 1;
    return values;
}

/* Random inputs, parameters and gradients behind the op. */
static void fill(struct bench *b, struct xt_reference_op *reference)
{
    const struct xt_op *op = reference->op;
    for (int i = 0; i < op->input_count; i++) {
        size_t count = xt_tensor_count(xt_op_in(op, i));
        reference->in[i] = take(b, reference, count, true);
        double least = op->kind->reference.least ? op->kind->reference.least(op) : -INFINITY;
        for (size_t k = 0; k < count && least > -INFINITY; k++)
            reference->in[i][k] = least + fabs(reference->in[i][k]);
        reference->in_grad[i] = take(b, reference, count, false);
    }
    for (int p = 0; p < op->param_count; p++) {
        size_t count = xt_reference_op_param_count(reference, p);
        reference->param[p] = take(b, reference, count, true);
        reference->param_grad[p] = take(b, reference, count, false);
        reference->statistic[p] = take(b, reference, count, false);
    }
    for (int o = 0; o < op->output_count; o++) {
        if (!op->outputs[o])
            continue;
        size_t count = xt_tensor_count(op->outputs[o]);
        reference->out[o] = take(b, reference, count, false);
        reference->out_grad[o] = take(b, reference, count, true);
    }
}

/* What comes out, times the gradients behind the op. */
static double value_of(struct xt_reference_op *reference)
{
    double sum = 0;
    assert_int_equal(reference->op->kind->reference.forward(reference), XT_OK);
    for (int o = 0; o < reference->op->output_count; o++)
        for (size_t i = 0; reference->out[o] && i < xt_tensor_count(reference->op->outputs[o]); i++)
            sum += reference->out[o][i] * reference->out_grad[o][i];
    return sum;
}

static void move(double *values, const double *direction, size_t count, double by)
{
    for (size_t i = 0; i < count; i++)
        values[i] += by * direction[i];
}

static void check_slope(struct bench *b, struct xt_reference_op *reference, double *values,
                        const double *grad, size_t count)
{
    const double *direction = take(b, reference, count, true);
    double wanted = 0;
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        wanted += grad[i] * direction[i];
        size += fabs(grad[i] * direction[i]);
    }
    move(values, direction, count, step);
    double slope = value_of(reference);
    move(values, direction, count, -2 * step);
    slope = (slope - value_of(reference)) / (2 * step);
    move(values, direction, count, step);
    if (!(fabs(slope - wanted) <= 1e-6 * (1 + size)))
        fail_msg("%s: the gradient is %g along a direction where the slope is %g",
                 reference->op->name, wanted, slope);
}

static void check_op(struct bench *b, const struct xt_op *op)
{
    struct xt_reference_op reference = {.op = op, .graph = b->graph, .err = &b->err};
    fill(b, &reference);
    value_of(&reference);
    assert_int_equal(op->kind->reference.backward(&reference), XT_OK);
    for (int i = 0; i < op->input_count; i++)
        check_slope(b, &reference, reference.in[i], reference.in_grad[i],
                    xt_tensor_count(xt_op_in(op, i)));
    for (int p = 0; p < op->param_count; p++)
        if (!xt_param_is_statistic(&b->params.items[op->params[p]]))
            check_slope(b, &reference, reference.param[p], reference.param_grad[p],
                        xt_reference_op_param_count(&reference, p));
    xt_reference_op_clear(&reference);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    struct bench b;
    int checked = 0;
    open_small(&b, NULL);
    for (int i = 0; i < b.graph->op_count; i++) {
        const struct xt_reference_op_kind *kind = &b.graph->ops[i]->kind->reference;
        /* What is made element by element has its own tests. */
        if (!kind->backward || kind->element)
            continue;
        check_op(&b, b.graph->ops[i]);
        checked++;
    }
    assert_true(checked > 10);
    close_small(&b);
}

/* An op whose input takes no gradient: each of them once. */
static void the_part_that_learns_may_begin_at_any_op(void **state)
{
    (void)state;
    struct bench b;
    open_small(&b, NULL);
    int count = b.graph->op_count;
    for (int i = 1; i < count; i++) {
        char name[64];
        struct bench frozen;
        snprintf(name, sizeof name, "%s", b.graph->ops[i]->name);
        open_small(&frozen, name);
        assert_int_equal(xt_params_initialise(&frozen.params, &frozen.device, 1, 0, &frozen.err),
                         XT_OK);
        if (xt_graph_forward(frozen.graph, &frozen.err))
            fail_msg("from %s on: %s", name, frozen.err.text);
        memset(xt_graph_logits_grad(frozen.graph), 0, xt_tensor_bytes(frozen.graph->logits));
        if (xt_graph_backward(frozen.graph, &frozen.err))
            fail_msg("from %s on: %s", name, frozen.err.text);
        close_small(&frozen);
    }
    close_small(&b);
}

/* Memory that others used before holds anything. */
static void what_a_slice_leaves_out_has_no_gradient_whatever_was_there(void **state)
{
    (void)state;
    struct bench b;
    const struct xt_op *op = NULL;
    open_small(&b, NULL);
    for (int i = b.graph->op_count - 1; i >= 0; i--)
        op = b.graph->ops[i]->kind == &xt_kind_slice ? b.graph->ops[i] : op;
    assert_non_null(op);
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    size_t count = xt_tensor_count(in);
    float numbers[9000];
    size_t zeros = 0;
    assert_true(count <= sizeof numbers / sizeof numbers[0]);
    for (size_t i = 0; i < count; i++)
        numbers[i] = i < xt_tensor_count(out) ? 1 : NAN;
    assert_int_equal(
        xt_graph_write(b.graph, out->grad[0], XT_F32, numbers, xt_tensor_count(out), &b.err),
        XT_OK);
    for (size_t i = 0; i < count; i++)
        numbers[i] = NAN;
    assert_int_equal(xt_graph_write(b.graph, xt_op_in_grad(op, 0), XT_F32, numbers, count, &b.err),
                     XT_OK);
    assert_int_equal(xt_graph_run_op(b.graph, op->index, true, &b.err), XT_OK);
    assert_int_equal(
        xt_graph_read_back(b.graph, xt_op_in_grad(op, 0), XT_F32, numbers, count, &b.err), XT_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(numbers[i] == 0 || numbers[i] == 1);
        zeros += numbers[i] == 0;
    }
    assert_int_equal(zeros, count - xt_tensor_count(out));
    close_small(&b);
}

/* Of 2000 samples as many fall as should, to four standard deviations, and the mean stays. */
static void stochastic_depth_drops_its_share(void **state)
{
    (void)state;
    struct bench b;
    const struct xt_op *op = NULL;
    int fell = 0;
    open_small(&b, NULL);
    for (int i = 0; i < b.graph->op_count; i++)
        op = b.graph->ops[i]->kind == &xt_kind_drop_path ? b.graph->ops[i] : op;
    assert_non_null(op);
    struct xt_reference_op reference = {.op = op, .graph = b.graph, .err = &b.err};
    fill(&b, &reference);
    reference.in[0][0] = 1;
    double p = (double)((const struct xt_drop_path_op *)op)->p;
    for (uint64_t at = 0; at < 2000; at++) {
        b.graph->pass.step = at;
        value_of(&reference);
        double y = reference.out[0][0];
        assert_true(y == 0 || fabs(y - 1 / (1 - p)) < 1e-12);
        fell += y == 0;
    }
    assert_true(fabs(fell - 2000 * p) < 4 * sqrt(2000 * p * (1 - p)));
    xt_reference_op_clear(&reference);
    close_small(&b);
}

static void count_parameters(void *context, const struct xt_op *op, bool backward)
{
    (void)backward;
    *(int *)context += op->kind == &xt_kind_parameter;
}

/* The sum of a pass's logits; how many parameters' ops it ran. */
static double infer(struct bench *b, int *ran)
{
    double sum = 0;
    *ran = 0;
    b->graph->watch = (struct xt_graph_watch){count_parameters, ran};
    if (xt_graph_forward(b->graph, &b->err))
        fail_msg("%s", b->err.text);
    const float *logits = xt_graph_logits(b->graph);
    for (size_t i = 0; i < xt_tensor_count(b->graph->logits); i++)
        sum += (double)logits[i];
    return sum;
}

static void inference_computes_weights_when_parameters_change(void **state)
{
    (void)state;
    struct bench b;
    int ran = 0;
    open_pass(&b, NULL, false);
    assert_int_equal(xt_params_initialise(&b.params, &b.device, 1, 0, &b.err), XT_OK);
    for (size_t i = 0; i < b.params.value_floats; i++)
        b.params.values[i] = xt_rng_uniform(&b.rng) - 0.5F;
    for (size_t i = 0; i < sizeof b.pixels; i++)
        b.pixels[i] = (uint8_t)(i * 37);
    struct xt_param *raw = NULL;
    for (int i = 0; i < b.params.count; i++)
        raw = strcmp(b.params.items[i].name, "raw") == 0 ? &b.params.items[i] : raw;
    assert_non_null(raw);
    double first = infer(&b, &ran);
    assert_true(ran > 0);
    assert_float_equal(infer(&b, &ran), first, 0);
    assert_int_equal(ran, 0);
    float *values = xt_params_value(&b.params, raw);
    values[0] += 1;
    b.params.version++;
    double second = infer(&b, &ran);
    assert_true(ran > 0);
    assert_true(second != first);
    assert_float_equal(infer(&b, &ran), second, 0);
    values[0] -= 1;
    b.params.version++;
    assert_float_equal(infer(&b, &ran), first, 1e-6);
    close_small(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(the_part_that_learns_may_begin_at_any_op),
        cmocka_unit_test(what_a_slice_leaves_out_has_no_gradient_whatever_was_there),
        cmocka_unit_test(stochastic_depth_drops_its_share),
        cmocka_unit_test(inference_computes_weights_when_parameters_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
