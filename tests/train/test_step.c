/* The effect of one step on the weights, and the order in which a checkpoint is written. */
#include "disk_calls.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "runs.h"

static struct xt_train_settings one_step(const char *out)
{
    return (struct xt_train_settings){
        .network.model = "lprnet",
        .data.images = "synth:plates?count=8&seed=3",
        .record.out = out,
        .run.steps = 1,
        .record.log_every = 1,
        .record.keep = 1,
        .network.batch = 4,
        .recipe.lr = 1e-2,
        .recipe.optim = XT_OPTIM_SGD,
        .recipe.sched = XT_SCHED_CONSTANT,
        .network.lprnet_norm = XT_CONTEXT_SAMPLE,
        .recipe.head_lr_factor = 1,
        .device.name = "cpu",
        .device.threads = 1,
    };
}

/* The largest difference between the parameters that are weights of convolutions, or the others. */
static double largest_difference(const struct xt_trainer *a, const struct xt_trainer *b,
                                 bool weights)
{
    const struct xt_params *params = &a->network.params;
    double largest = 0;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (xt_param_is_statistic(param) || (param->role == XT_PARAM_WEIGHT) != weights)
            continue;
        for (size_t k = param->offset; k < param->offset + param->floats; k++)
            largest = fmax(largest,
                           fabs((double)params->values[k] - (double)b->network.params.values[k]));
    }
    return largest;
}

static void weight_decay_takes_biases_and_norms_only_where_asked_to(void **state)
{
    struct xt_train_settings settings = one_step(support_path(*state, "none"));
    struct xt_trainer none;
    trainer_run(&none, &settings);
    for (int all = 0; all < 2; all++) {
        struct xt_trainer decayed;
        settings.record.out = support_path(*state, all ? "all" : "weights");
        settings.recipe.weight_decay = 0.1;
        settings.recipe.decay_all = all;
        trainer_run(&decayed, &settings);
        assert_true(largest_difference(&none, &decayed, true) > 1e-5);
        double others = largest_difference(&none, &decayed, false);
        assert_true(all ? others > 1e-5 : others == 0);
        xt_trainer_clear(&decayed);
    }
    xt_trainer_clear(&none);
}

static void a_step_of_two_batches_is_as_long_as_one_of_a_large_batch(void **state)
{
    struct xt_train_settings settings = one_step(support_path(*state, "large"));
    struct xt_trainer large;
    struct xt_trainer parts;
    settings.network.bn = XT_BN_FROZEN;
    settings.recipe.weight_decay = 0.1;
    trainer_run(&large, &settings);
    settings.record.out = support_path(*state, "parts");
    settings.network.batch = 2;
    settings.recipe.accumulate = 2;
    trainer_run(&parts, &settings);
    /* Biases move by about 1. Winograd's convolutions, which round more, run from 4 images on. */
    assert_true(largest_difference(&large, &parts, true) < 1e-6);
    assert_true(largest_difference(&large, &parts, false) < 4e-6);
    settings.record.out = support_path(*state, "half");
    settings.recipe.accumulate = 1;
    xt_trainer_clear(&parts);
    trainer_run(&parts, &settings);
    assert_true(largest_difference(&large, &parts, true) > 1e-5);
    xt_trainer_clear(&large);
    xt_trainer_clear(&parts);
}

/* The record must be synced before the checkpoint is written, in case of a power failure. */
static void the_record_is_on_the_disk_before_the_checkpoint(void **state)
{
    const struct xt_train_settings settings = one_step(support_path(*state, "run"));
    struct xt_trainer trainer;
    disk_calls[0] = '\0';
    trainer_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    const char *record = strstr(disk_calls, "sync metrics.jsonl\n");
    const char *checkpoint = strstr(disk_calls, "rename last");
    if (!record || !checkpoint || record > checkpoint)
        fail_msg("the calls were\n%s", disk_calls);
}

static size_t copy_bytes(const struct xt_weight_copy *copy)
{
    return xt_weight_copy_panels(copy) * xt_weight_copy_panel(copy) * sizeof *copy->to;
}

/* Compares the copies of all weights with those kept at `kept`, or keeps them; returns bytes. */
static size_t each_copy(const struct xt_graph *graph, unsigned char *kept, bool compares)
{
    size_t at = 0;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_conv_op *conv = (const struct xt_conv_op *)graph->ops[i];
        for (int k = 0; graph->ops[i]->kind == &xt_kind_conv && k < conv->copy_count; k++) {
            const struct xt_weight_copy *copy = &conv->copies[k];
            if (compares)
                assert_memory_equal(kept + at, copy->to, copy_bytes(copy));
            else if (kept)
                memcpy(kept + at, copy->to, copy_bytes(copy));
            at += copy_bytes(copy);
        }
    }
    return at;
}

/* They are written while values change; all written again, they are the same. */
static void the_copies_of_weights_follow_an_update(void **state)
{
    support_need_any_bf16();
    struct xt_train_settings settings = one_step(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.network.amp = XT_AMP_BF16;
    trainer_run(&trainer, &settings);
    struct xt_graph *graph = trainer.network.graph;
    size_t bytes = each_copy(graph, NULL, false);
    unsigned char *kept = malloc(bytes + 1);
    assert_true(kept && xt_graph_can_copy_values(graph));
    each_copy(graph, kept, false);
    assert_int_equal(graph->backend->copy_weights(graph, &err), XT_OK);
    each_copy(graph, kept, true);
    free(kept);
    xt_trainer_clear(&trainer);
    if (!bytes)
        support_skip("this CPU's kernels need no copies");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, support_make_folder, support_remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(weight_decay_takes_biases_and_norms_only_where_asked_to),
        TEST(a_step_of_two_batches_is_as_long_as_one_of_a_large_batch),
        TEST(the_record_is_on_the_disk_before_the_checkpoint),
        TEST(the_copies_of_weights_follow_an_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
