/* --freeze-until and --head-lr-factor, by their effect on the parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "train/trainer/trainer_internal.h"

static struct xt_train_settings settings_of(const char *out, const char *freeze_until)
{
    return (struct xt_train_settings){
        .network.model = "resnet18",
        .data.images = "synth:shapes?count=8&seed=1&classes=3",
        .network.image_size = 32,
        .record.out = out,
        .run.steps = 2,
        .record.log_every = 1,
        .record.keep = 1,
        .network.batch = 4,
        .recipe.lr = 1e-2,
        .recipe.momentum = 0.9,
        .recipe.weight_decay = 0.1,
        .recipe.decay_all = true,
        .recipe.optim = XT_OPTIM_SGD,
        .recipe.sched = XT_SCHED_CONSTANT,
        .network.freeze_until = freeze_until,
        .recipe.head_lr_factor = 1,
        .device.name = "cpu",
        .device.threads = 1,
    };
}

/* A trainer with copies of its parameters as they were before its steps. */
struct run {
    struct xt_trainer trainer;
    float *values;
    float *stats;
};

static void train(struct run *run, const struct xt_train_settings *settings)
{
    struct xt_err err = {0};
    const struct xt_params *params = &run->trainer.network.params;
    enum xt_status status = xt_trainer_init(&run->trainer, settings, &err);
    if (!status)
        status = xt_trainer_open_run(&run->trainer, &err);
    if (status)
        fail_msg("%s", err.text);
    run->values = malloc(params->value_floats * sizeof(float));
    run->stats = malloc(params->stat_floats * sizeof(float));
    assert_true(run->values && run->stats);
    memcpy(run->values, params->values, params->value_floats * sizeof(float));
    memcpy(run->stats, params->stats, params->stat_floats * sizeof(float));
    if (xt_trainer_run(&run->trainer, &(struct xt_train_observer){0}, &err))
        fail_msg("%s", err.text);
}

static void clear(struct run *run)
{
    xt_trainer_clear(&run->trainer);
    free(run->values);
    free(run->stats);
}

static const float *before(const struct run *run, const struct xt_param *param)
{
    return (xt_param_is_statistic(param) ? run->stats : run->values) + param->offset;
}

static void frozen_layers_keep_every_bit_and_the_others_learn(void **state)
{
    struct xt_train_settings settings = settings_of(support_path(*state, "run"), "layer4");
    struct run run = {0};
    train(&run, &settings);
    struct xt_params *params = &run.trainer.network.params;
    int unchanged = 0;
    int learnt = 0;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        bool learns = strncmp(param->name, "layer4", 6) == 0 || strncmp(param->name, "fc", 2) == 0;
        bool same = memcmp(before(&run, param), xt_params_value(params, param),
                           param->floats * sizeof(float)) == 0;
        if (same == learns)
            fail_msg("%s has %s", param->name, same ? "stayed the same" : "changed");
        unchanged += same;
        learnt += !same;
    }
    /* ResNet-18 has 102 tensors: 5 convolutions, 5 norms of four and fc are from layer4 on. */
    assert_int_equal(unchanged, 75);
    assert_int_equal(learnt, 27);
    clear(&run);
}

static const struct xt_param *find(const struct xt_params *params, const char *name)
{
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->items[i].name, name) == 0)
            return &params->items[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* What the first step has added to a parameter's element. */
static double step_of(struct run *run, const char *name, size_t element)
{
    struct xt_params *params = &run->trainer.network.params;
    const struct xt_param *param = find(params, name);
    return (double)xt_params_value(params, param)[element] - (double)before(run, param)[element];
}

static void the_head_s_step_is_larger_by_its_factor(void **state)
{
    struct run runs[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct xt_train_settings settings =
            settings_of(support_path(*state, i ? "ten" : "one"), "layer4.1.conv2");
        settings.run.steps = 1;
        settings.recipe.head_lr_factor = i ? 10 : 1;
        train(&runs[i], &settings);
    }
    static const char *const names[] = {"fc.weight", "fc.bias", "layer4.1.conv2.weight",
                                        "layer4.1.bn2.weight"};
    double moved = 0;
    for (int n = 0; n < 4; n++)
        for (size_t i = 0; i < 3; i++) {
            double one = step_of(&runs[0], names[n], i);
            double ten = step_of(&runs[1], names[n], i);
            moved = fmax(moved, fabs(one));
            if (!(fabs(ten - (n < 2 ? 10 : 1) * one) <= 1e-6))
                fail_msg("%s moved by %g, and by %g at ten times the rate", names[n], one, ten);
        }
    assert_true(moved > 1e-4);
    clear(&runs[0]);
    clear(&runs[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frozen_layers_keep_every_bit_and_the_others_learn),
        TEST(the_head_s_step_is_larger_by_its_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
