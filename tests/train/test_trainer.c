/* A trainer driven as a library; runs of the whole program are tested by tests/cli/test_*.sh. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/log.h"
#include "support.h"
#include "train/run/checkpoint.h"
#include "train/memory_plan.h"

static struct xt_settings small_run(const char *out)
{
    return (struct xt_settings){
        .model = "lprnet",
        .data = "synth:plates?count=24&seed=3",
        .val = "synth:plates?count=5&seed=4",
        .out = out,
        .steps = 2,
        .eval_every = 1,
        .log_every = 1,
        .keep = 2,
        .batch = 4,
        .lr = 1e-3,
        .optim = XT_OPTIM_ADAMW,
        .gamma = 0.1,
        .head_lr_factor = 1,
        .device = "cpu",
        .threads = 1,
    };
}

static void open_and_run(struct xt_trainer *trainer, const struct xt_settings *settings)
{
    struct xt_err err = {0};
    enum xt_status status = xt_trainer_init(trainer, settings, &err);
    if (!status)
        status = xt_trainer_open_run(trainer, &err);
    if (!status)
        status = xt_trainer_run(trainer, &(struct xt_train_observer){0}, &err);
    if (status)
        fail_msg("%s", err.text);
}

/* Of the process so far, bytes. */
static double peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

/* First of all tests: the peak is the process's. */
static void the_memory_plan_is_within_5_percent_of_the_peak(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    support_skip("a sanitizer has memory of its own");
#endif
    struct xt_settings settings = small_run(support_path(*state, "run"));
    settings.batch = 12;
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
    struct xt_settings settings = small_run(NULL);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.slots = slots;
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
    struct xt_settings settings = small_run(NULL);
    settings.batch = 65536;
    settings.data = "synth:plates?count=65536";
    struct xt_trainer trainer;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, " fits, which --batch auto finds");
    xt_trainer_clear(&trainer);
    /* It is planned, and not tried: the norms' sums alone would be 2 GB. */
    assert_true(peak_memory() - before < 1e9);
}

static void one_step(struct xt_trainer *trainer, const struct xt_settings *settings, float scale)
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
    struct xt_settings settings = small_run(support_path(*state, "plain"));
    struct xt_trainer plain;
    struct xt_trainer scaled;
    settings.optim = XT_OPTIM_SGD;
    settings.clip = 5;
    one_step(&plain, &settings, 0);
    settings.out = support_path(*state, "scaled");
    one_step(&scaled, &settings, 65536);
    assert_memory_equal(scaled.network.params.values, plain.network.params.values,
                        plain.network.params.value_floats * sizeof(float));
    assert_int_equal(scaled.scaler.skipped, 0);
    xt_trainer_clear(&scaled);
    xt_trainer_clear(&plain);
}

static void a_step_whose_scaled_gradients_overflow_is_skipped(void **state)
{
    struct xt_settings settings = small_run(support_path(*state, "run"));
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
    struct xt_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.val = NULL;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    trainer.scaler = (struct xt_scaler){.scale = 1024, .on = true, .fine = 7, .skipped = 3};
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_int_equal(xt_trainer_run(&trainer, &(struct xt_train_observer){0}, &err), XT_OK);
    xt_trainer_clear(&trainer);
    settings.resume = "auto";
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
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    struct xt_err err = {0};
    int count = 0;
    const char *path = support_path(run, "metrics.jsonl");
    assert_int_equal(xt_file_read(path, 1 << 20, &bytes, &capacity, &size, &err), XT_OK);
    for (size_t at = 0; at + strlen(text) <= size; at++)
        count += memcmp(bytes + at, text, strlen(text)) == 0;
    free(bytes);
    return count;
}

static void assert_same_file(const char *a, const char *b)
{
    uint8_t *bytes[2] = {NULL, NULL};
    size_t capacity[2] = {0, 0};
    size_t size[2];
    struct xt_err err = {0};
    assert_int_equal(xt_file_read(a, 1 << 24, &bytes[0], &capacity[0], &size[0], &err), XT_OK);
    assert_int_equal(xt_file_read(b, 1 << 24, &bytes[1], &capacity[1], &size[1], &err), XT_OK);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void given_weights_are_evaluated_first_and_may_be_the_best(void **state)
{
    const char *first = support_path(*state, "first");
    const char *second = support_path(*state, "second");
    struct xt_settings settings = small_run(first);
    struct xt_trainer trainer;
    settings.val = NULL;
    open_and_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings = small_run(second);
    settings.init = support_path(first, "last.safetensors");
    settings.lr = 1e-30; /* too little to change anything */
    settings.bn = XT_BN_FROZEN;
    open_and_run(&trainer, &settings);
    assert_int_equal(trainer.best_step, 0);
    xt_trainer_clear(&trainer);
    assert_same_file(settings.init, support_path(second, "best.safetensors"));
    assert_int_equal(count_in_record(second, "{\"step\":0,\"epoch\":0,"), 1);

    /* Begun again for want of a checkpoint: the record has the line once. */
    assert_int_equal(remove(support_path(second, "state-00000002.safetensors")), 0);
    settings.resume = "auto";
    open_and_run(&trainer, &settings);
    assert_int_equal(trainer.best_step, 0);
    xt_trainer_clear(&trainer);
    assert_int_equal(count_in_record(second, "{\"step\":0,"), 1);
    assert_int_equal(count_in_record(second, "{\"step\":2,"), 2);
}

static void of_equal_accuracies_characters_and_then_the_loss_decide(void **state)
{
    (void)state;
    const struct xt_merit best = {0.5, 0.8, 2};
    const struct {
        struct xt_merit merit;
        bool better;
    } cases[] = {
        {{0.6, 0.1, 9}, true},    {{0.4, 0.9, 1}, false},  {{0.5, 0.9, 9}, true},
        {{0.5, 0.7, 1}, false},   {{0.5, 0.8, 1.9}, true}, {{0.5, 0.8, 2}, false},
        {{0.5, 0.8, NAN}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(xt_merit_is_better(&cases[i].merit, &best), cases[i].better);
    assert_true(xt_merit_is_better(&best, &(struct xt_merit){0.5, 0.8, NAN}));
}

/* From scratch no plate is read yet, and not one character: the loss alone falls. */
static void of_many_zeros_the_one_with_the_least_loss_is_the_best(void **state)
{
    struct xt_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    settings.steps = 18; /* three evaluations */
    settings.lr = 3e-3;
    open_and_run(&trainer, &settings);
    assert_true(trainer.best.accuracy == 0);
    assert_true(trainer.best_step > 6);
    struct xt_merit best = trainer.best;
    xt_trainer_clear(&trainer);
    settings.resume = "auto";
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
    assert_memory_equal(&trainer.best, &best, sizeof best);
    xt_trainer_clear(&trainer);
}

/* A batch's own statistics hide it: the loss stays a number. */
static void running_statistics_that_overflow_end_the_run(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_settings settings = small_run(run);
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
                         "backbone.1.running_var is infinite or not a number by "
                         "step 1");
    xt_trainer_clear(&trainer);
    assert_false(xt_file_exists(support_path(run, "last.safetensors")));
}

/* The same number of symbols, in another order. */
static void another_alphabet_cannot_go_on_with_a_run(void **state)
{
    const char *run = support_path(*state, "run");
    const char *alphabet = support_path(*state, "alphabet.txt");
    struct xt_settings settings = small_run(run);
    struct xt_trainer trainer;
    open_and_run(&trainer, &settings);
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
    settings.alphabet = alphabet;
    settings.resume = "auto";
    settings.steps = 3;
    struct xt_err err = {0};
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "was made with another alphabet");
    xt_trainer_clear(&trainer);
}

/* An XPU's kernels are made for batch norms that learn, or for those that do not. */
static void frozen_batch_norms_stay_frozen_from_the_building_on(void **state)
{
    struct xt_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    struct xt_err err = {0};
    settings.bn = XT_BN_FROZEN;
    open_and_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings.resume = "auto";
    const struct {
        enum xt_bn_mode said;
        bool frozen;
    } starts[] = {{XT_BN_AUTO, true}, {XT_BN_FROZEN, true}, {XT_BN_BATCH, false}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        settings.bn = starts[i].said;
        assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
        assert_int_equal(trainer.network.graph->options.bn_frozen, starts[i].frozen);
        assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_OK);
        assert_int_equal(trainer.network.bn_frozen, starts[i].frozen);
        xt_trainer_clear(&trainer);
    }
}

/* What trained on between the reading of the checkpoint and the folder's lock. */
static void a_checkpoint_that_came_meanwhile_is_not_set_aside(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_settings settings = small_run(run);
    struct xt_trainer trainer;
    struct xt_err err = {0};
    open_and_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    settings.resume = "auto";
    settings.steps = 3;
    assert_int_equal(xt_trainer_init(&trainer, &settings, &err), XT_OK);
    support_write_file(support_path(run, "state-00000003.safetensors"), "newer", 5);
    assert_int_equal(xt_trainer_open_run(&trainer, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "another xtrain has gone on with the run");
    xt_trainer_clear(&trainer);
    assert_true(xt_file_exists(support_path(run, "state-00000003.safetensors")));
}

static void any_flipped_bit_of_a_checkpoint_is_seen(void **state)
{
    const char *run = support_path(*state, "run");
    struct xt_settings settings = small_run(run);
    settings.val = NULL;
    struct xt_trainer trainer;
    open_and_run(&trainer, &settings);
    xt_trainer_clear(&trainer);
    const char *path = support_path(run, "state-00000002.safetensors");
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    struct xt_err err = {0};
    assert_int_equal(xt_file_read(path, 1 << 30, &bytes, &capacity, &size, &err), XT_OK);
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

static void save_with(const struct xt_trainer *trainer, const struct xt_checkpoint *state,
                      const char *refused)
{
    struct xt_network network = trainer->network;
    struct xt_err err = {0};
    assert_int_equal(xt_checkpoint_save(state, trainer->settings, &network, &trainer->optim,
                                        trainer->folder.path, 1000, &err),
                     XT_OK);
    struct xt_checkpoint_file file;
    char *path = NULL;
    assert_int_equal(xt_checkpoint_path(trainer->folder.path, state->step, &path, &err), XT_OK);
    enum xt_status status = xt_checkpoint_open(&file, path, &err);
    if (refused)
        support_assert_error(&err, XT_ERR_DATA, refused);
    assert_int_equal(status, refused ? XT_ERR_DATA : XT_OK);
    xt_checkpoint_close(&file);
    assert_int_equal(remove(path), 0);
    free(path);
}

static void counters_that_cannot_be_are_refused(void **state)
{
    struct xt_settings settings = small_run(support_path(*state, "run"));
    struct xt_trainer trainer;
    open_and_run(&trainer, &settings);
    const struct xt_checkpoint good = {
        .step = 7, .steps = 9, .optim_step = 7, .samples = 24, .best_step = 6, .loss_steps = 2};
    struct xt_checkpoint bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].step = bad[0].steps = INT64_MAX;
    bad[1].steps = INT64_MAX;
    bad[2].steps = 6;
    bad[3].samples = INT64_MAX;
    bad[4].samples = 0;
    bad[5].best_step = INT64_MAX;
    bad[6].evaluated_step = INT64_MAX;
    bad[7].loss_steps = INT64_MAX;
    bad[8].optim_step = INT64_MAX;
    bad[9].seconds = INFINITY;
    save_with(&trainer, &good, NULL);
    for (size_t i = 0; i < 10; i++)
        save_with(&trainer, &bad[i], i < 9 ? "is damaged: its \"" : "\"seconds\" is not a number");
    struct xt_network *network = &trainer.network;
    network->params.batches_tracked = INT64_MAX;
    struct xt_err err = {0};
    struct xt_checkpoint_file file = {.path = NULL};
    char *path = NULL;
    assert_int_equal(xt_checkpoint_save(&good, &settings, network, &trainer.optim,
                                        trainer.folder.path, 1000, &err),
                     XT_OK);
    assert_int_equal(xt_checkpoint_path(trainer.folder.path, good.step, &path, &err), XT_OK);
    assert_int_equal(xt_checkpoint_open(&file, path, &err), XT_OK);
    xt_checkpoint_load(&file, &settings, network, &trainer.optim, &err);
    support_assert_error(&err, XT_ERR_DATA, "num_batches_tracked is 9223372036854775807");
    xt_checkpoint_close(&file);
    free(path);
    xt_trainer_clear(&trainer);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
