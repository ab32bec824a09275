/* A trainer driven as a library; runs of the whole program are tested by tests/cli/test_*.sh. */
#include "runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "support.h"
#include "runs/checkpoint.h"
#include "train/trainer/state.h"
#include "infer/network/memory_plan.h"
#include "train/trainer/step.h"

/* Of a network that a step takes a millisecond of, by classes. */
static struct xt_train_settings small_run(const char *out)
{
    return (struct xt_train_settings){
        .network.model = "tests/models/fixtures/parts/distilled.onnx",
        .data.images = "synth:shapes?count=24&seed=3",
        .data.val = "synth:shapes?count=5&seed=4",
        .record.out = out,
        .run.steps = 2,
        .run.eval_every = 1,
        .record.log_every = 1,
        .record.keep = 2,
        .network.batch = 4,
        .recipe.lr = 1e-3,
        .recipe.optim = XT_OPTIM_ADAMW,
        .recipe.gamma = 0.1,
        .recipe.head_lr_factor = 1,
        .device.name = "cpu",
        .device.threads = 1,
    };
}

/* Of one whose answers are strings. */
static struct xt_train_settings plates_run(const char *out)
{
    struct xt_train_settings settings = small_run(out);
    settings.network.model = "lprnet";
    settings.data.images = "synth:plates?count=24&seed=3";
    settings.data.val = "synth:plates?count=5&seed=4";
    return settings;
}

/* Of the process so far, bytes. */
static double peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

/* Must be the first test: the peak is the process's. */
static void the_memory_plan_is_within_5_percent_of_the_peak(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    support_skip("a sanitizer has memory of its own");
#endif
    struct xt_train_settings settings = plates_run(support_path(*state, "run"));
    settings.network.batch = 12;
    struct xt_trainer trainer;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    struct xt_memory_plan plan = xt_trainer_memory_plan(&trainer);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_int_equal(xt_trainer_run(&trainer, &(struct xt_train_observer){0}, &err), XT_OK);
    xt_trainer_clear(&trainer);
    double peak = peak_memory();
    double all = plan.host.all;
    if (all < 0.95 * peak || all > 1.05 * peak)
        fail_msg("planned %.1f MB, took %.1f MB", all / 1e6, peak / 1e6);
}

static double planned_slots(int slots)
{
    struct xt_train_settings settings = plates_run(NULL);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.data.slots = slots;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    double bytes = xt_trainer_memory_plan(&trainer).host.parts[XT_MEMORY_SLOTS];
    xt_trainer_clear(&trainer);
    return bytes;
}

static void more_slots_are_planned_for_training_alone(void **state)
{
    (void)state;
    assert_true(planned_slots(9) - planned_slots(4) == 5 * 4 * 24 * 94 * 3);
}

static void a_batch_beyond_the_memory_is_refused_with_one_that_fits(void **state)
{
    (void)state;
    double before = peak_memory();
    struct xt_train_settings settings = plates_run(NULL);
    settings.network.batch = 65536;
    settings.data.images = "synth:plates?count=65536";
    struct xt_trainer trainer;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, " fits, which --batch auto finds");
    xt_trainer_clear(&trainer);
    /* It is planned, not allocated: the norms' sums alone would be 2 GB. */
    assert_true(peak_memory() - before < 1e9);
}

static void one_step(struct xt_trainer *trainer, const struct xt_train_settings *settings,
                     float scale)
{
    struct xt_feed_batch batch;
    struct xt_err err = {0};
    bool end = false;
    double loss = 0;
    enum xt_status status = xt_trainer_init(trainer, settings, &err);
    if (!status)
        status = xt_trainer_open_run(trainer, &err);
    if (scale > 0) {
        xt_scaler_init(&trainer->scaler, true);
        trainer->scaler.scale = scale;
    }
    if (!status)
        status = xt_feed_next(trainer->feed, &batch, &end, NULL, &err);
    if (!status)
        status = xt_trainer_step(trainer, &batch, &loss, &err);
    if (status)
        fail_msg("%s", err.text);
    xt_feed_release(trainer->feed, &batch);
}

/* Powers of two are exact, and so small a network's gradients are far from the ends of float32. */
static void scaling_the_loss_changes_no_weight(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "unscaled"));
    struct xt_trainer unscaled;
    struct xt_trainer scaled;
    settings.recipe.optim = XT_OPTIM_SGD;
    settings.recipe.clip = 5;
    one_step(&unscaled, &settings, 0);
    settings.record.out = support_path(*state, "scaled");
    one_step(&scaled, &settings, 65536);
    assert_memory_equal(scaled.network.params.values, unscaled.network.params.values,
                        unscaled.network.params.value_floats * sizeof(float));
    assert_int_equal(scaled.scaler.skipped, 0);
    xt_trainer_clear(&scaled);
    xt_trainer_clear(&unscaled);
}

static void a_step_whose_scaled_gradients_overflow_is_skipped(void **state)
{
    struct xt_train_settings settings = plates_run(support_path(*state, "run"));
    struct xt_trainer start;
    struct xt_trainer skipped;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&start, &settings, &err), XT_OK);
    one_step(&skipped, &settings, 0x1p127f);
    assert_int_equal(skipped.scaler.skipped, 1);
    assert_true(skipped.scaler.scale == 0x1p126f);
    assert_int_equal(skipped.step, 1);
    assert_int_equal(skipped.optim.step, 0);
    assert_memory_equal(skipped.network.params.values, start.network.params.values,
                        start.network.params.value_floats * sizeof(float));
    xt_trainer_clear(&skipped);
    xt_trainer_clear(&start);
}

static void a_resumed_run_goes_on_with_its_loss_scale(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.data.val = NULL;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    trainer.scaler = (struct xt_scaler){.scale = 1024, .on = true, .fine = 7, .skipped = 3};
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_int_equal(xt_trainer_run(&trainer, &(struct xt_train_observer){0}, &err), XT_OK);
    xt_trainer_clear(&trainer);
    settings.record.resume = "auto";
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    xt_scaler_init(&trainer.scaler, true);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_true(trainer.scaler.scale == 1024);
    assert_int_equal(trainer.scaler.fine, 9);
    assert_int_equal(trainer.scaler.skipped, 3);
    xt_trainer_clear(&trainer);
}

/* How often the record holds the text. */
static int count_in_record(const char *run, const char *text)
{
    size_t size = 0;
    int count = 0;
    const char *path = support_path(run, "metrics.jsonl");
    uint8_t *bytes = support_read_file(path, &size);
    for (size_t at = 0; at + strlen(text) <= size; at++)
        count += memcmp(bytes + at, text, strlen(text)) == 0;
    free(bytes);
    return count;
}

/* Their metadata may name different runs. */
static void assert_same_weights(const char *a, const char *b)
{
    struct xt_weight_file files[2];
    struct xt_err err = {0};
    assert_int_equal(xt_weight_file_read(&files[0], a, 1 << 24, &err), XT_OK);
    assert_int_equal(xt_weight_file_read(&files[1], b, 1 << 24, &err), XT_OK);
    assert_string_equal(xt_weight_file_meta(&files[0], "xtrain_sha256_tensors"),
                        xt_weight_file_meta(&files[1], "xtrain_sha256_tensors"));
    xt_weight_file_clear(&files[0]);
    xt_weight_file_clear(&files[1]);
}

static void given_weights_are_evaluated_first_and_may_be_the_best(void **state)
{
    const char *first = support_path(*state, "first");
    const char *second = support_path(*state, "second");
    struct xt_train_settings settings = small_run(first);
    struct xt_trainer trainer;
    settings.data.val = NULL;
    trainer_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings = small_run(second);
    settings.network.init = support_path(first, "last.safetensors");
    settings.recipe.lr = 1e-30; /* too little to change anything */
    settings.network.bn = XT_BN_FROZEN;
    trainer_run(&trainer, &settings);
    assert_int_equal(trainer.best_step, 0);
    xt_trainer_clear(&trainer);
    assert_same_weights(settings.network.init, support_path(second, "best.safetensors"));
    assert_int_equal(count_in_record(second, "{\"step\":0,\"epoch\":0,"), 1);

    /* Restarted, as there is no checkpoint: the record has the line once. */
    assert_int_equal(remove(support_path(second, "state-00000002.safetensors")), 0);
    settings.record.resume = "auto";
    trainer_run(&trainer, &settings);
    assert_int_equal(trainer.best_step, 0);
    xt_trainer_clear(&trainer);
    assert_int_equal(count_in_record(second, "{\"step\":0,"), 1);
    assert_int_equal(count_in_record(second, "{\"step\":2,"), 2);
}

static void of_equal_accuracies_characters_and_then_the_loss_decide(void **state)
{
    (void)state;
    const struct xt_selection_metric best = {0.5, 0.8, 2};
    const struct {
        struct xt_selection_metric metric;
        bool better;
    } cases[] = {
        {{0.6, 0.1, 9}, true},    {{0.4, 0.9, 1}, false},  {{0.5, 0.9, 9}, true},
        {{0.5, 0.7, 1}, false},   {{0.5, 0.8, 1.9}, true}, {{0.5, 0.8, 2}, false},
        {{0.5, 0.8, NAN}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(xt_selection_metric_is_better(&cases[i].metric, &best), cases[i].better);
    assert_true(xt_selection_metric_is_better(&best, &(struct xt_selection_metric){0.5, 0.8, NAN}));
}

/* From scratch neither plates nor characters are correct yet: only the loss falls. */
static void of_many_zeros_the_one_with_the_least_loss_is_the_best(void **state)
{
    struct xt_train_settings settings = plates_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    settings.run.steps = 18; /* three evaluations */
    settings.recipe.lr = 3e-3;
    trainer_run(&trainer, &settings);
    assert_true(trainer.best.accuracy == 0);
    assert_true(trainer.best_step > 6);
    struct xt_selection_metric best = trainer.best;
    xt_trainer_clear(&trainer);
    settings.record.resume = "auto";
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_memory_equal(&trainer.best, &best, sizeof best);
    xt_trainer_clear(&trainer);
}

/* A batch's own statistics hide it: the loss stays finite. */
static void running_statistics_that_overflow_end_the_run(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_train_settings settings = plates_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    struct xt_params *params = &trainer.network.params;
    for (size_t i = 0; i < params->items[0].floats; i++)
        params->values[params->items[0].offset + i] *= 1e25F;
    params->version++;
    assert_int_equal(xt_trainer_run(&trainer, &(struct xt_train_observer){0}, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN,
                         "backbone.1.running_var is infinite or NaN by "
                         "step 1");
    xt_trainer_clear(&trainer);
    assert_false(xt_file_exists(support_path(run, "last.safetensors")));
}

/* The same number of symbols, in another order. */
static void another_alphabet_cannot_go_on_with_a_run(void **state)
{
    const char *run = support_path(*state, "run");
    const char *alphabet = support_path(*state, "alphabet.txt");
    struct xt_train_settings settings = plates_run(run);
    struct xt_trainer trainer;
    trainer_run(&trainer, &settings);
    char text[1024];
    snprintf(text, sizeof text, "%s", xt_alphabet_text(trainer.network.alphabet));
    xt_trainer_clear(&trainer);
    char *nine = strchr(text, '9');
    char *eight = strchr(text, '8');
    assert_non_null(nine);
    assert_non_null(eight);
    *nine = '8';
    *eight = '9';
    support_write_file(alphabet, text, strlen(text));
    settings.network.alphabet = alphabet;
    settings.record.resume = "auto";
    settings.run.steps = 3;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "was made with another alphabet");
    xt_trainer_clear(&trainer);
}

/* An XPU's kernels are created for batch norms that learn, or for frozen ones. */
static void frozen_batch_norms_stay_frozen_from_the_building_on(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.network.bn = XT_BN_FROZEN;
    trainer_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings.record.resume = "auto";
    const struct {
        enum xt_bn_mode said;
        bool frozen;
    } starts[] = {{XT_BN_AUTO, true}, {XT_BN_FROZEN, true}, {XT_BN_BATCH, false}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        settings.network.bn = starts[i].said;
        assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
        assert_int_equal(trainer.network.graph->options.bn_frozen, starts[i].frozen);
        assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
        assert_int_equal(trainer.network.bn_frozen, starts[i].frozen);
        xt_trainer_clear(&trainer);
    }
}

/* Another process trains on between the reading of the checkpoint and the folder's lock. */
static void a_checkpoint_that_came_meanwhile_is_not_set_aside(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_train_settings settings = small_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    trainer_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings.record.resume = "auto";
    settings.run.steps = 3;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    support_write_file(support_path(run, "state-00000003.safetensors"), "newer", 5);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "another xtrain has continued the run");
    xt_trainer_clear(&trainer);
    assert_true(xt_file_exists(support_path(run, "state-00000003.safetensors")));
}

static void any_flipped_bit_of_a_checkpoint_is_seen(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_train_settings settings = small_run(run);
    settings.data.val = NULL;
    struct xt_trainer trainer;
    trainer_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    const char *path = support_path(run, "state-00000002.safetensors");
    size_t size = 0;
    struct xt_err err = {0};
    uint8_t *bytes = support_read_file(path, &size);
    xt_log_set_level(XT_LOG_QUIET);
    enum { PLACES = 16 };
    for (size_t i = 0; i < PLACES; i++) {
        /* Half of them in the header, which is at the beginning. */
        size_t at = i % 2 ? i * 500 : i * (size / PLACES);
        bytes[at] ^= (uint8_t)(1 << i % 8);
        support_write_file(path, bytes, size);
        bytes[at] ^= (uint8_t)(1 << i % 8);
        struct xt_checkpoint_file found;
        assert_int_equal(xt_checkpoint_open_newest(&found, run, &err), XT_OK);
        if (found.path)
            fail_msg("the flip at byte %zu of %zu was not seen", at, size);
    }
    support_write_file(path, bytes, size);
    struct xt_checkpoint_file found;
    assert_int_equal(xt_checkpoint_open_newest(&found, run, &err), XT_OK);
    assert_string_equal(found.path, path);
    xt_log_set_level(XT_LOG_NORMAL);
    xt_checkpoint_close(&found);
    free(bytes);
}

/* The first norm's num_batches_tracked. */
static int first_count(const struct xt_params *params)
{
    for (int i = 0; i < params->count; i++)
        if (params->items[i].role == XT_PARAM_BN_COUNT)
            return i;
    fail_msg("there is no norm");
    return 0;
}

static void save_with(struct xt_trainer *trainer, const struct xt_train_state *state,
                      const char *refused)
{
    struct xt_err err = {0};
    assert_int_equal(xt_train_state_save(trainer, state, &err), XT_OK);
    struct xt_checkpoint_file file;
    struct xt_train_state read;
    const struct xt_path path = xt_checkpoint_path(trainer->folder.path, state->run.step);
    enum xt_status status = xt_checkpoint_open(&file, path.text, &err);
    if (!status)
        status = xt_train_state_read(&file, &read, &err);
    if (refused)
        support_assert_error(&err, XT_ERR_DATA, refused);
    assert_int_equal(status, refused ? XT_ERR_DATA : XT_OK);
    xt_checkpoint_close(&file);
    assert_int_equal(remove(path.text), 0);
}

static void counters_that_cannot_be_are_refused(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    trainer_run(&trainer, &settings);
    settings.record.keep = 1000;
    const struct xt_train_state good = {
        .run = {.step = 7, .steps = 9, .samples = 24, .best_step = 6, .loss_steps = 2},
        .own = {.optim_step = 7},
    };
    struct xt_train_state bad[12];
    for (size_t i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].run.step = bad[0].run.steps = INT64_MAX;
    bad[1].run.steps = INT64_MAX;
    bad[2].run.steps = 6;
    bad[3].run.samples = INT64_MAX;
    bad[4].run.samples = 0;
    bad[5].run.best_step = INT64_MAX;
    bad[6].run.evaluated_step = INT64_MAX;
    bad[7].run.loss_steps = INT64_MAX;
    bad[8].own.optim_step = INT64_MAX;
    bad[9].own.spikes.seen = 8;
    bad[10].run.seconds = INFINITY;
    bad[11].own.loss_scale = 1e10;
    save_with(&trainer, &good, NULL);
    for (size_t i = 0; i < 10; i++)
        save_with(&trainer, &bad[i], "is damaged: its \"");
    save_with(&trainer, &bad[10], "\"seconds\" is not a number");
    save_with(&trainer, &bad[11], "holds a loss scale of 1e+10");
    struct xt_network *network = &trainer.network;
    network->params.tracked[first_count(&network->params)] = INT64_MAX;
    struct xt_err err = {0};
    struct xt_checkpoint_file file = {.path = NULL};
    assert_int_equal(xt_train_state_save(&trainer, &good, &err), XT_OK);
    const struct xt_path path = xt_checkpoint_path(trainer.folder.path, good.run.step);
    assert_int_equal(xt_checkpoint_open(&file, path.text, &err), XT_OK);
    xt_checkpoint_load(&file, &settings.lister, network, NULL, 0, &err);
    support_assert_error(&err, XT_ERR_DATA, "num_batches_tracked is 9223372036854775807");
    xt_checkpoint_close(&file);
    xt_trainer_clear(&trainer);
}

/* ---- several batches a step ---- */

/* The values after N steps of batch * accumulate images; gradients clipped by the sum's norm. */
static void train_frozen(const char *run, int batch, int accumulate, enum xt_optim_kind optim,
                         struct xt_trainer *trainer)
{
    struct xt_train_settings settings = small_run(run);
    settings.network.batch = batch;
    settings.recipe.accumulate = accumulate;
    settings.network.bn = XT_BN_FROZEN;
    settings.recipe.optim = optim;
    settings.recipe.momentum = 0.9;
    settings.run.steps = 5;
    settings.recipe.clip = 0.5;
    settings.recipe.dropout = 0.3;
    settings.network.lprnet_norm = XT_CONTEXT_SAMPLE;
    trainer_run(trainer, &settings);
}

static double largest_difference(const struct xt_params *a, const struct xt_params *b)
{
    double largest = 0;
    for (size_t i = 0; i < a->value_floats; i++)
        largest = fmax(largest, fabs((double)a->values[i] - (double)b->values[i]));
    return largest;
}

static void accumulated_batches_are_the_large_batch(void **state)
{
    const enum xt_optim_kind kinds[] = {XT_OPTIM_SGD, XT_OPTIM_ADAMW};
    for (size_t i = 0; i < 2; i++) {
        struct xt_trainer large;
        struct xt_trainer parts;
        char name[2][16];
        snprintf(name[0], sizeof name[0], "large%zu", i);
        snprintf(name[1], sizeof name[1], "parts%zu", i);
        train_frozen(support_path(*state, name[0]), 10, 1, kinds[i], &large);
        train_frozen(support_path(*state, name[1]), 2, 5, kinds[i], &parts);
        assert_int_equal(parts.steps, large.steps);
        assert_int_equal(parts.epoch_steps, large.epoch_steps); /* 24 images: 2, not 12 / 5 */
        assert_int_equal(parts.optim.step, 5);
        double difference = largest_difference(&large.network.params, &parts.network.params);
        /* Adam's step is as large for a gradient that is only rounding error. */
        if (difference > (kinds[i] == XT_OPTIM_SGD ? 2e-6 : 5e-3) || difference == 0)
            fail_msg("%zu: values differ by %g", i, difference);
        assert_true(fabs(parts.last_evaluation.loss / large.last_evaluation.loss - 1) < 1e-4);
        xt_trainer_clear(&large);
        xt_trainer_clear(&parts);
    }
}

/* The last batch of a set may be smaller: its images count as much as the others. */
static void a_smaller_batch_counts_by_its_images(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    struct xt_feed_batch batch;
    bool end = false;
    double loss = 0;
    settings.network.bn = XT_BN_FROZEN;
    settings.recipe.accumulate = 2;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_int_equal(xt_feed_next(trainer.feed, &batch, &end, NULL, &err), XT_OK);
    float *one = NULL;
    size_t bytes = trainer.network.params.value_floats * sizeof(float);
    assert_int_equal(xt_mem_aligned(&one, bytes / sizeof(float), sizeof(float), "x", &err), XT_OK);
    /* All four images at once, then as three and one: the same mean gradient. */
    double means[2];
    for (int parts = 1; parts <= 2; parts++) {
        int lengths[4];
        memcpy(lengths, batch.host.label_lengths, sizeof lengths);
        xt_train_step_begin(&trainer);
        for (int part = 0; part < parts; part++) {
            int own[4];
            for (int i = 0; i < 4; i++)
                own[i] = parts == 1 || (i == 3) == (part == 1) ? lengths[i] : 0;
            struct xt_feed_batch some = batch;
            some.host.label_lengths = own;
            assert_int_equal(xt_train_step_forward(&trainer, &some, &loss, &err), XT_OK);
            assert_int_equal(xt_train_step_backward(&trainer, &some, loss, &err), XT_OK);
        }
        xt_gradient_sum_take(trainer.sum, &err);
        means[parts - 1] = trainer.parts.loss_sum / trainer.parts.weight;
        assert_true(trainer.parts.weight == 4);
        const float *grads = trainer.network.params.grads;
        double largest = 0;
        double apart = 0;
        for (size_t i = 0; parts == 2 && i < bytes / sizeof(float); i++) {
            largest = fmax(largest, fabs((double)one[i]));
            apart = fmax(apart, fabs((double)one[i] - (double)grads[i]));
        }
        assert_true(apart <= 1e-5 * largest);
        memcpy(one, grads, bytes);
    }
    assert_true(fabs(means[0] / means[1] - 1) < 1e-6);
    (void)loss;
    free(one);
    xt_feed_release(trainer.feed, &batch);
    xt_trainer_clear(&trainer);
}

static void fewer_images_than_a_step_takes_are_refused(void **state)
{
    (void)state;
    struct xt_train_settings settings = small_run(NULL);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.recipe.accumulate = 7;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "fewer than --accumulate 7 batches of 4");
    xt_trainer_clear(&trainer);
}

/* ---- the moving average ---- */

/* Step by step against the formula, from the weights as they were after each step. */
static void the_average_follows_the_weights(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.recipe.ema = 0.3;
    settings.run.steps = 6;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    const struct xt_params *params = &trainer.network.params;
    size_t counts[2] = {params->value_floats, params->stat_floats};
    double *expected[2];
    for (int k = 0; k < 2; k++) {
        expected[k] = malloc(counts[k] * sizeof(double));
        for (size_t i = 0; i < counts[k]; i++)
            expected[k][i] = (double)(k ? params->stats : params->values)[i];
    }
    for (int n = 0; n < 6; n++) {
        struct xt_feed_batch batch;
        bool end = false;
        double loss = 0;
        assert_int_equal(xt_feed_next(trainer.feed, &batch, &end, NULL, &err), XT_OK);
        assert_int_equal(xt_trainer_step(&trainer, &batch, &loss, &err), XT_OK);
        xt_feed_release(trainer.feed, &batch);
        double keep = fmin(0.3, (1.0 + n) / (10.0 + n));
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < counts[k]; i++)
                expected[k][i] = keep * expected[k][i] +
                                 (1 - keep) * (double)(k ? params->stats : params->values)[i];
    }
    struct xt_params_view view;
    assert_int_equal(xt_ema_map(trainer.ema, &view, &err), XT_OK);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < counts[k]; i++)
            assert_true(fabs((double)(k ? view.stats : view.values)[i] - expected[k][i]) <=
                        1e-6 * (1 + fabs(expected[k][i])));
        free(expected[k]);
    }
    assert_int_equal(xt_ema_unmap(trainer.ema, false, &err), XT_OK);
    xt_trainer_clear(&trainer);
}

/* After the last step the weights are turned about; their average hardly is. */
static void turn_about(void *context, const struct xt_train_progress *progress)
{
    struct xt_params *params = &((struct xt_trainer *)context)->network.params;
    for (size_t i = 0; progress->step == progress->steps && i < params->items[0].floats; i++)
        params->values[params->items[0].offset + i] *= -1;
    params->version++;
}

static void the_average_is_the_best_where_it_is_better(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_train_settings settings = small_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.recipe.ema = 0.5;
    settings.run.steps = 6;
    settings.network.bn = XT_BN_FROZEN;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    const struct xt_train_observer observer = {.context = &trainer, .progress = turn_about};
    assert_int_equal(xt_trainer_run(&trainer, &observer, &err), XT_OK);
    assert_true(trainer.best_is_average);
    assert_true(trainer.average_evaluation.loss < trainer.last_evaluation.loss);
    xt_trainer_clear(&trainer);
    assert_same_weights(support_path(run, "ema.safetensors"),
                        support_path(run, "best.safetensors"));
    assert_int_equal(count_in_record(run, "\"ema_val_loss\""), 1);
}

/* ---- the end ---- */

static void a_run_without_gain_ends_and_stays_ended(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_train_settings settings = small_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.run.steps = 60;
    settings.run.patience = 2;
    settings.recipe.lr = 1e-30;
    settings.network.bn = XT_BN_FROZEN;
    trainer_run(&trainer, &settings);
    assert_int_equal(trainer.step, 18); /* the first evaluation, and two more */
    assert_int_equal(trainer.end, XT_END_PATIENCE);
    xt_trainer_clear(&trainer);
    settings.record.resume = "auto";
    trainer_run(&trainer, &settings);
    assert_int_equal(trainer.step, 18);
    assert_int_equal(trainer.end, XT_END_PATIENCE);
    xt_trainer_clear(&trainer);
    settings.run.patience = 3;
    trainer_run(&trainer, &settings);
    assert_int_equal(trainer.step, 24);
    xt_trainer_clear(&trainer);
    settings.data.val = NULL;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "--patience 3 counts evaluations");
    xt_trainer_clear(&trainer);
}

/* ---- non-finite numbers ---- */

/* From step `at` until it is restored, a norm's scale is NaN. */
struct poison {
    struct xt_trainer *trainer;
    int64_t at;
    float before;
    int times;
    const char *weight; /* NULL: norm.weight */
    bool in_variance;   /* of a batch norm: finite, but no evaluation can use it */
};

static float *poisoned(const struct poison *poison)
{
    struct xt_params *params = &poison->trainer->network.params;
    const char *weight = poison->weight ? poison->weight : "norm.weight";
    const char *name = poison->in_variance ? "stem.1.running_var" : weight;
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->items[i].name, name) == 0)
            return xt_params_value(params, &params->items[i]);
    fail_msg("the network has no such weight");
    return NULL;
}

static void do_poison(void *context, const struct xt_train_progress *progress)
{
    struct poison *poison = context;
    if (progress->step != poison->at || poison->times-- <= 0)
        return;
    poison->before = *poisoned(poison);
    *poisoned(poison) = poison->in_variance ? -5 : NAN;
    poison->trainer->network.params.version++;
}

static enum xt_status run_poisoned(struct xt_trainer *trainer,
                                   const struct xt_train_settings *settings, struct poison *poison,
                                   struct xt_err *err)
{
    poison->trainer = trainer;
    assert_int_equal(xt_trainer_init(trainer, settings, err), XT_OK);
    assert_int_equal(xt_trainer_open_run(trainer, err), XT_OK);
    xt_log_set_level(XT_LOG_QUIET);
    enum xt_status status = xt_trainer_run(
        trainer, &(struct xt_train_observer){.context = poison, .progress = do_poison}, err);
    xt_log_set_level(XT_LOG_NORMAL);
    return status;
}

static void assert_named(struct xt_train_settings settings, struct poison poison, const char *where)
{
    struct xt_trainer trainer;
    struct xt_err err = {0};
    poison.at = 3;
    poison.times = 1;
    settings.run.steps = 9;
    assert_int_equal(run_poisoned(&trainer, &settings, &poison, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, where);
    xt_trainer_clear(&trainer);
}

static void a_number_that_is_none_is_named_where_it_begins(void **state)
{
    assert_named(small_run(support_path(*state, "loss")), (struct poison){0},
                 "the loss of step 4 is not finite; it begins in the weights norm.weight, 1 of 8 ");
    /* oneDNN's ReLU behind a convolution hides it from the loss; that of matrix tiles does not. */
    bool hidden = !xt_device_cpu_has_tiles();
    assert_named(plates_run(support_path(*state, "gradient")),
                 (struct poison){.weight = "backbone.9.weight"},
                 hidden ? "a gradient of step 4 is not finite; it begins in the weights "
                          "backbone.9.weight, 1 of "
                        : "the loss of step 4 is not finite; it begins in the weights "
                          "backbone.9.weight, 1 of ");
}

/* Weights far too large: the squares of their outputs exceed float32. */
static void an_overflow_is_named_by_its_layer(void **state)
{
    struct xt_train_settings settings = plates_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.network.bn = XT_BN_FROZEN;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    struct xt_params *params = &trainer.network.params;
    for (int i = 0; i < params->count; i++)
        for (size_t k = 0; strcmp(params->items[i].name, "backbone.20.weight") == 0 &&
                           k < params->items[i].floats;
             k++)
            params->values[params->items[i].offset + k] *= 3e38F;
    params->version++;
    assert_int_equal(xt_trainer_run(&trainer, &(struct xt_train_observer){0}, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "it begins in the output of context (global context), ");
    xt_trainer_clear(&trainer);
}

static void a_rollback_goes_on_from_the_checkpoint_at_half_the_rate(void **state)
{
    char run[256];
    snprintf(run, sizeof run, "%s", support_path(*state, "run"));
    struct xt_train_settings settings = small_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.run.steps = 9;
    settings.record.save_every = 3;
    settings.recipe.ema = 0.9;
    settings.run.on_nan = XT_ON_NAN_ROLLBACK;
    struct poison poison = {.at = 4, .times = 1};
    assert_int_equal(run_poisoned(&trainer, &settings, &poison, &err), XT_OK);
    assert_int_equal(trainer.step, 9);
    assert_true(trainer.lr_factor == 0.5);
    xt_trainer_clear(&trainer);
    assert_int_equal(count_in_record(run, "{\"step\":5,\"time\":"), 1);
    assert_int_equal(count_in_record(run, "\"rolled_back_to\":3,\"lr_factor\":0.5"), 1);
    for (int step = 1; step <= 9; step++) {
        char text[48];
        snprintf(text, sizeof text, "{\"step\":%d,\"epoch\":%d,", step, (step - 1) / 6 + 1);
        assert_int_equal(count_in_record(run, text), step == 6 || step == 9 ? 2 : 1);
    }
    settings.record.resume = "auto";
    settings.run.steps = 10;
    trainer_run(&trainer, &settings);
    assert_true(trainer.lr_factor == 0.5);
    xt_trainer_clear(&trainer);
}

/* In the middle and at the end; the record keeps each rollback, also when the run is resumed. */
static void an_evaluation_that_is_nan_leads_back_to_the_checkpoint(void **state)
{
    for (int at = 6; at <= 9; at += 3) {
        char run[256];
        char line[96];
        snprintf(run, sizeof run, "%s", support_path(*state, at == 6 ? "middle" : "end"));
        struct xt_train_settings settings = small_run(run);
        struct xt_trainer trainer;
        struct xt_err err = {0};
        settings.run.steps = 9;
        settings.record.save_every = 3;
        settings.run.on_nan = XT_ON_NAN_ROLLBACK;
        struct poison poison = {.at = at, .times = 2, .in_variance = at == 9};
        assert_int_equal(run_poisoned(&trainer, &settings, &poison, &err), XT_OK);
        assert_int_equal(trainer.step, 9);
        assert_true(trainer.lr_factor == 0.25);
        xt_trainer_clear(&trainer);
        snprintf(line, sizeof line, "\"rolled_back_to\":%d,\"lr_factor\":0.", at - 3);
        assert_int_equal(count_in_record(run, line), 2);
        snprintf(line, sizeof line, "{\"step\":%d,\"time\":", at);
        assert_int_equal(count_in_record(run, line), 2);
        settings.record.resume = support_path(run, at == 6 ? "state-00000006.safetensors" : "");
        trainer_run(&trainer, &settings);
        xt_trainer_clear(&trainer);
        assert_int_equal(count_in_record(run, line), 2);
    }
}

static void a_rollback_that_does_not_help_ends_the_run(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.run.steps = 9;
    settings.run.on_nan = XT_ON_NAN_ROLLBACK;
    struct poison poison = {.at = 1, .times = 100};
    assert_int_equal(run_poisoned(&trainer, &settings, &poison, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "3 times it went back to the checkpoint before");
    assert_int_equal(poison.times, 100 - 4);
    xt_trainer_clear(&trainer);
}

/* A label that cannot be aligned gives a non-finite loss, in that batch only. */
static void a_skipped_step_changes_nothing(void **state)
{
    struct xt_train_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    struct xt_feed_batch batch;
    bool end = false;
    double loss = 0;
    settings.run.on_nan = XT_ON_NAN_SKIP;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    struct poison poison = {.trainer = &trainer};
    struct xt_params *params = &trainer.network.params;
    float *stats = NULL;
    size_t bytes = params->stat_floats * sizeof(float);
    assert_int_equal(xt_mem_aligned(&stats, params->stat_floats, sizeof(float), "x", &err), XT_OK);
    memcpy(stats, params->stats, bytes);
    assert_int_equal(xt_feed_next(trainer.feed, &batch, &end, NULL, &err), XT_OK);
    float before = *poisoned(&poison);
    *poisoned(&poison) = NAN;
    params->version++;
    xt_log_set_level(XT_LOG_QUIET);
    for (int i = 1; i <= 9; i++) {
        assert_int_equal(xt_trainer_step(&trainer, &batch, &loss, &err), XT_OK);
        assert_true(isnan(loss));
        assert_int_equal(trainer.step, i);
        assert_int_equal(trainer.optim.step, 0);
        assert_memory_equal(params->stats, stats, bytes);
        assert_int_equal(params->tracked[first_count(params)], 0);
    }
    *poisoned(&poison) = before;
    params->version++;
    assert_int_equal(xt_trainer_step(&trainer, &batch, &loss, &err), XT_OK);
    assert_true(isfinite(loss));
    assert_int_equal(trainer.optim.step, 1);
    assert_int_equal(trainer.nan_skips, 9);
    *poisoned(&poison) = NAN;
    params->version++;
    for (int i = 1; i < 10; i++)
        assert_int_equal(xt_trainer_step(&trainer, &batch, &loss, &err), XT_OK);
    assert_int_equal(xt_trainer_step(&trainer, &batch, &loss, &err), XT_ERR_RUN);
    xt_log_set_level(XT_LOG_NORMAL);
    support_assert_error(&err, XT_ERR_RUN, "the last of 10 steps in a row");
    free(stats);
    xt_feed_release(trainer.feed, &batch);
    xt_trainer_clear(&trainer);
}

/* ---- recomputed activations ---- */

static double activations(const struct xt_train_settings *settings, const char *run, bool recompute,
                          struct xt_trainer *trainer)
{
    struct xt_train_settings own = *settings;
    own.network.recompute = recompute;
    own.record.out = run;
    trainer_run(trainer, &own);
    return xt_trainer_memory_plan(trainer).host.parts[XT_MEMORY_ACTIVATIONS];
}

static void recomputed_activations_have_the_same_bits_and_need_less(void **state)
{
    const struct {
        const char *model, *data;
        int image_size;
        enum xt_amp amp;
        double share; /* of the activations, at most */
    } cases[] = {
        {"lprnet", "synth:plates?count=24&seed=3", 0, XT_AMP_OFF, 0.85},
        {"lprnet", "synth:plates?count=24&seed=3", 0, XT_AMP_BF16, 0.85},
        {"resnet18", "synth:shapes?count=24&seed=3", 64, XT_AMP_OFF, 0.8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_train_settings settings = small_run(NULL);
        struct xt_trainer stored;
        struct xt_trainer recomputed;
        if (cases[i].amp == XT_AMP_BF16 && !xt_device_cpu_has_bf16())
            continue;
        char names[2][16];
        settings.network.model = cases[i].model;
        settings.data.images = cases[i].data;
        settings.network.image_size = cases[i].image_size;
        settings.network.amp = cases[i].amp;
        settings.data.val = NULL;
        settings.network.batch = 8;
        settings.recipe.dropout = 0.3;
        snprintf(names[0], sizeof names[0], "stored%zu", i);
        snprintf(names[1], sizeof names[1], "recomputed%zu", i);
        xt_log_set_level(XT_LOG_QUIET);
        double all = activations(&settings, support_path(*state, names[0]), false, &stored);
        double rest = activations(&settings, support_path(*state, names[1]), true, &recomputed);
        xt_log_set_level(XT_LOG_NORMAL);
        assert_memory_equal(recomputed.network.params.values, stored.network.params.values,
                            stored.network.params.value_floats * sizeof(float));
        assert_memory_equal(recomputed.network.params.stats, stored.network.params.stats,
                            stored.network.params.stat_floats * sizeof(float));
        if (rest > cases[i].share * all)
            fail_msg("%s: %g MB instead of %g MB", cases[i].model, rest / 1e6, all / 1e6);
        xt_trainer_clear(&stored);
        xt_trainer_clear(&recomputed);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_memory_plan_is_within_5_percent_of_the_peak),
        TEST(more_slots_are_planned_for_training_alone),
        TEST(a_batch_beyond_the_memory_is_refused_with_one_that_fits),
        TEST(scaling_the_loss_changes_no_weight),
        TEST(a_step_whose_scaled_gradients_overflow_is_skipped),
        TEST(a_resumed_run_goes_on_with_its_loss_scale),
        TEST(given_weights_are_evaluated_first_and_may_be_the_best),
        TEST(of_equal_accuracies_characters_and_then_the_loss_decide),
        TEST(of_many_zeros_the_one_with_the_least_loss_is_the_best),
        TEST(running_statistics_that_overflow_end_the_run),
        TEST(another_alphabet_cannot_go_on_with_a_run),
        TEST(frozen_batch_norms_stay_frozen_from_the_building_on),
        TEST(a_checkpoint_that_came_meanwhile_is_not_set_aside),
        TEST(any_flipped_bit_of_a_checkpoint_is_seen),
        TEST(counters_that_cannot_be_are_refused),
        TEST(accumulated_batches_are_the_large_batch),
        TEST(a_smaller_batch_counts_by_its_images),
        TEST(fewer_images_than_a_step_takes_are_refused),
        TEST(the_average_follows_the_weights),
        TEST(the_average_is_the_best_where_it_is_better),
        TEST(a_run_without_gain_ends_and_stays_ended),
        TEST(a_number_that_is_none_is_named_where_it_begins),
        TEST(an_overflow_is_named_by_its_layer),
        TEST(a_rollback_goes_on_from_the_checkpoint_at_half_the_rate),
        TEST(an_evaluation_that_is_nan_leads_back_to_the_checkpoint),
        TEST(a_rollback_that_does_not_help_ends_the_run),
        TEST(a_skipped_step_changes_nothing),
        TEST(recomputed_activations_have_the_same_bits_and_need_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
