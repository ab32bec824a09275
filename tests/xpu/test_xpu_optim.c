/* The optimizers on an XPU against those on the CPU, and what a program refuses. */
#include "train/optim/xpu_optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/program.h"
#include "support.h"

enum { STEPS = 3 };

struct fixture {
    struct xt_device device;
    struct xt_params params;
    struct xt_optim_range ranges[4];
    size_t range_count;
    struct xt_err err;
};

static struct fixture f;

static void need_double(void)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
}

static void ok(enum xt_status status)
{
    if (status)
        fail_msg("%s", f.err.text);
}

static void add(const char *name, enum xt_param_role role, int count)
{
    struct xt_param param = {.role = role, .ndims = 1, .dims = {count}, .file_dims = {count}};
    snprintf(param.name, sizeof param.name, "%s", name);
    assert_true(xt_params_add(&f.params, &param, &f.err) >= 0);
}

static int setup(void **state)
{
    (void)state;
    f = (struct fixture){.range_count = 0};
    if (!getenv("OPENCL_LAYERS"))
        return 0;
    ok(xt_device_open(&f.device, "xpu", 0, &f.err));
    add("a.weight", XT_PARAM_WEIGHT, 300);
    add("a.bias", XT_PARAM_BIAS, 20);
    add("b.weight", XT_PARAM_WEIGHT, 500);
    add("frozen.bias", XT_PARAM_BIAS, 40);
    ok(xt_params_allocate(&f.params, true, &f.err));
    ok(xt_params_place(&f.params, &f.device, true, &f.err));
    for (int i = 0; i < f.params.count; i++) {
        const struct xt_param *param = &f.params.items[i];
        f.ranges[f.range_count++] = (struct xt_optim_range){
            .offset = param->offset,
            .count = param->floats,
            .decay = param->role == XT_PARAM_WEIGHT,
            .lr_factor = i == 3   ? 0
                         : i == 2 ? 10
                                  : 1,
        };
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!getenv("OPENCL_LAYERS"))
        return 0;
    xt_params_clear(&f.params);
    xt_device_close(&f.device);
    return 0;
}

static void fill(float *values, uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 0);
    for (size_t i = 0; i < f.params.value_floats; i++)
        values[i] = (float)((double)(xt_rng_next(&rng) >> 11) * 0x1p-52 - 1);
    /* Padding and frozen gradients are 0 where a graph writes them. */
    for (int i = 0; i < f.params.count; i++) {
        const struct xt_param *param = &f.params.items[i];
        for (size_t k = (size_t)param->dims[0] * (i != 3); k < param->floats; k++)
            values[param->offset + k] = 0;
    }
    const struct xt_param *last = &f.params.items[3];
    for (size_t i = last->offset + last->floats; i < f.params.value_floats; i++)
        values[i] = 0;
}

static float *floats(void)
{
    float *values = NULL;
    ok(xt_mem_aligned(&values, f.params.value_floats, sizeof *values, "a test's values", &f.err));
    return values;
}

static double largest_difference(const float *a, const float *b)
{
    double largest = 0;
    for (size_t i = 0; i < f.params.value_floats; i++)
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

/* A few steps on both; values and states end up alike. On the device alone gradients are clipped to
 * half of their length, as on the CPU. */
static void follow(struct xt_optim optim, struct xt_xpu_optim_norm norm_by)
{
    struct xt_optim on_cpu = optim;
    for (int i = 0; i < xt_optim_states(optim.kind, optim.momentum); i++) {
        optim.state[i] = floats();
        on_cpu.state[i] = floats();
    }
    float *values = floats();
    fill(f.params.values, 1);
    f.params.version++;
    memcpy(values, f.params.values, f.params.value_floats * sizeof *values);
    struct xt_xpu_optim *on_xpu = NULL;
    ok(xt_params_push(&f.params, &f.err));
    ok(xt_xpu_optim_create(&on_xpu, &f.device, &optim, &f.params, f.ranges, f.range_count, norm_by,
                           &f.err));
    for (int step = 0; step < STEPS; step++) {
        double norm = 0;
        fill(f.params.grads, (uint64_t)step + 2);
        ok(xt_device_memory_write(&f.params.device.grads, f.params.grads,
                                  f.params.value_floats * sizeof(float), XT_CAUSE_OTHER, &f.err));
        ok(xt_xpu_optim_grad_norm(on_xpu, &norm, &f.err));
        double expected = xt_optim_grad_norm(f.params.grads, f.ranges, f.range_count);
        assert_true(fabs(norm - expected) < 1e-5 * expected);
        float factor = norm_by.by_device ? (float)(norm_by.clip / expected) : 0.5F;
        ok(xt_xpu_optim_update(on_xpu, 0.01, norm_by.by_device ? 1 : factor, &f.err));
        if (norm_by.by_device)
            assert_true(xt_xpu_optim_judge(on_xpu));
        xt_optim_update(&on_cpu, values, f.params.grads, f.ranges, f.range_count, 0.01, factor);
    }
    ok(xt_params_pull(&f.params, &f.err));
    ok(xt_xpu_optim_pull(on_xpu, &f.err));
    assert_true(largest_difference(values, f.params.values) < 2e-6);
    for (int i = 0; i < 2; i++) {
        if (optim.state[i])
            assert_true(largest_difference(on_cpu.state[i], optim.state[i]) < 2e-6);
        free(on_cpu.state[i]);
        free(optim.state[i]);
    }
    free(values);
    xt_xpu_optim_destroy(on_xpu);
}

static void follows_the_cpu(struct xt_optim optim)
{
    follow(optim, (struct xt_xpu_optim_norm){.by_device = false});
    follow(optim, (struct xt_xpu_optim_norm){.by_device = true, .clip = 2});
}

static void sgd_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_SGD, .weight_decay = 0.1});
}

static void sgd_with_momentum_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_SGD, .momentum = 0.9});
}

static void nesterov_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){
        .kind = XT_OPTIM_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
}

static void adam_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_ADAM, .weight_decay = 0.1});
}

static void adamw_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_ADAMW, .weight_decay = 0.1});
}

static void rmsprop_follows_the_cpu(void **state)
{
    (void)state;
    need_double();
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_RMSPROP, .weight_decay = 0.1});
    follows_the_cpu((struct xt_optim){.kind = XT_OPTIM_RMSPROP, .momentum = 0.9});
}

static void a_norm_that_is_no_number_is_seen(void **state)
{
    (void)state;
    need_double();
    struct xt_optim optim = {.kind = XT_OPTIM_SGD};
    struct xt_xpu_optim *on_xpu = NULL;
    double norm = 0;
    ok(xt_xpu_optim_create(&on_xpu, &f.device, &optim, &f.params, f.ranges, f.range_count,
                           (struct xt_xpu_optim_norm){.by_device = false}, &f.err));
    fill(f.params.grads, 2);
    f.params.grads[5] = INFINITY;
    ok(xt_device_memory_write(&f.params.device.grads, f.params.grads,
                              f.params.value_floats * sizeof(float), XT_CAUSE_OTHER, &f.err));
    ok(xt_xpu_optim_grad_norm(on_xpu, &norm, &f.err));
    assert_true(isinf(norm) != 0);
    xt_xpu_optim_destroy(on_xpu);
}

/* One update of gradients of which one is as given; whether values are as they were, and the norm.
 */
static bool stays(struct xt_optim optim, float gradient, double *norm)
{
    struct xt_xpu_optim *on_xpu = NULL;
    float *before = floats();
    for (int i = 0; i < xt_optim_states(optim.kind, optim.momentum); i++)
        optim.state[i] = floats();
    fill(f.params.values, 1);
    memcpy(before, f.params.values, f.params.value_floats * sizeof *before);
    f.params.version++;
    ok(xt_params_push(&f.params, &f.err));
    ok(xt_xpu_optim_create(&on_xpu, &f.device, &optim, &f.params, f.ranges, f.range_count,
                           (struct xt_xpu_optim_norm){.by_device = true, .clip = 5}, &f.err));
    fill(f.params.grads, 2);
    f.params.grads[5] = gradient;
    ok(xt_device_memory_write(&f.params.device.grads, f.params.grads,
                              f.params.value_floats * sizeof(float), XT_CAUSE_OTHER, &f.err));
    ok(xt_xpu_optim_begin_norm(on_xpu, &f.err));
    ok(xt_xpu_optim_update(on_xpu, 0.01, 1, &f.err));
    ok(xt_params_pull(&f.params, &f.err));
    *norm = xt_xpu_optim_norm_of(on_xpu);
    assert_int_equal(xt_xpu_optim_judge(on_xpu), isfinite(*norm));
    assert_int_equal(optim.step, isfinite(*norm));
    double difference = largest_difference(before, f.params.values);
    xt_xpu_optim_destroy(on_xpu);
    free(before);
    for (int i = 0; i < 2; i++)
        free(optim.state[i]);
    return difference == 0;
}

static void gradients_that_are_no_numbers_change_no_value(void **state)
{
    (void)state;
    static const struct xt_optim kinds[] = {
        {.kind = XT_OPTIM_SGD},
        {.kind = XT_OPTIM_SGD, .momentum = 0.9},
        {.kind = XT_OPTIM_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
        {.kind = XT_OPTIM_ADAM, .weight_decay = 0.1},
        {.kind = XT_OPTIM_ADAMW},
        {.kind = XT_OPTIM_RMSPROP, .momentum = 0.9},
    };
    double norm = 0;
    need_double();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_false(stays(kinds[i], 1, &norm));
        assert_true(isfinite(norm));
        assert_true(stays(kinds[i], NAN, &norm));
        assert_true(isnan(norm));
        assert_true(stays(kinds[i], -INFINITY, &norm));
        assert_true(isinf(norm) != 0);
    }
}

static void memory_on_another_device_is_refused_by_name(void **state)
{
    (void)state;
    need_double();
    struct xt_device other = {.name = "cpu: another one"};
    struct xt_buffer buffer = {
        .tensor = "conv1", .kind = "value", .device = &other, .data = &other};
    struct xt_program program;
    struct xt_location place = xt_in_buffer(&buffer);
    xt_program_init(&program, &f.device, "bn1", &f.err);
    assert_null(xt_program_address(&program, &place, &f.err));
    char expected[512];
    snprintf(expected, sizeof expected, "bn1 runs on %s, but its conv1 is on cpu: another one",
             f.device.name);
    assert_string_equal(f.err.text, expected);
    xt_program_clear(&program);
}

static void what_there_is_no_kernel_for_is_named(void **state)
{
    (void)state;
    need_double();
    struct xt_program program;
    struct xt_location place = xt_in_memory(&f.params.device.values);
    struct xt_operand bytes = xt_operand_matrix(place, dnnl_u8, 2, 3);
    f.err = (struct xt_err){0};
    xt_program_init(&program, &f.device, "bn1", &f.err);
    xt_program_matmul(&program, XT_FORWARD, &bytes, &bytes, &bytes, NULL);
    assert_int_not_equal(f.err.status, XT_OK);
    assert_non_null(strstr(f.err.text, "a matrix product"));
    xt_program_clear(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_the_cpu),
        cmocka_unit_test(sgd_with_momentum_follows_the_cpu),
        cmocka_unit_test(nesterov_follows_the_cpu),
        cmocka_unit_test(adam_follows_the_cpu),
        cmocka_unit_test(adamw_follows_the_cpu),
        cmocka_unit_test(rmsprop_follows_the_cpu),
        cmocka_unit_test(a_norm_that_is_no_number_is_seen),
        cmocka_unit_test(gradients_that_are_no_numbers_change_no_value),
        cmocka_unit_test(memory_on_another_device_is_refused_by_name),
        cmocka_unit_test(what_there_is_no_kernel_for_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
