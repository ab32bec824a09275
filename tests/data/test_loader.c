#include "support.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/loader.h"
#include "data/sources/registry.h"

enum { W = 20, H = 8, SLOTS_MOST = 16, BATCH_MOST = 16 };

/* Samples derived from their index; those in `bad` cannot be read. */
struct made {
    struct xt_source base;
    uint8_t bad[1000];
    enum xt_status bad_status;
    int delay_us;
};

static enum xt_status made_read(const struct xt_source *source, size_t index,
                                const struct xt_want *want, struct xt_decoder *decoder,
                                struct xt_sample *sample, struct xt_err *err)
{
    (void)decoder;
    const struct made *made = (const struct made *)source;
    if (made->delay_us)
        usleep((unsigned)made->delay_us);
    if (made->bad[index])
        return xt_err_set(err, made->bad_status, "made #%zu is bad", index);
    /* Some have the loader's size, some not. */
    int width = index % 3 ? W : W + (int)(index % 7);
    enum xt_status status = xt_image_reserve(&sample->picture.image, width, H, err);
    for (int i = 0; !status && i < width * H * 3; i++)
        sample->picture.image.pixels[i] = (uint8_t)(index * 31 + (size_t)i * (index % 5));
    xt_picture_whole(&sample->picture, want);
    sample->label[0] = (int)index;
    sample->label_length = 1;
    return status;
}

static void made_destroy(struct xt_source *source)
{
    (void)source;
}

static const struct xt_source_class made_class = {.read = made_read, .destroy = made_destroy};

static struct made made;
static struct xt_loader_config config;
static struct xt_loader *loader;
static uint8_t *pixels[SLOTS_MOST];
static struct xt_err err;

static int setup(void **state)
{
    (void)state;
    memset(&made, 0, sizeof made);
    made.base = (struct xt_source){.class = &made_class, .count = 50, .description = "50 made"};
    made.bad_status = XT_ERR_DATA;
    for (int i = 0; i < SLOTS_MOST; i++) {
        pixels[i] = malloc(BATCH_MOST * W * H * 3);
        memset(pixels[i], 0xAA, BATCH_MOST * W * H * 3);
    }
    config = (struct xt_loader_config){.source = &made.base,
                                       .batch = 8,
                                       .width = W,
                                       .height = H,
                                       .workers = 2,
                                       .slots = 3,
                                       .slot_pixels = pixels,
                                       .shuffle = true,
                                       .augment = true,
                                       .repeat = true,
                                       .seed = 5};
    loader = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    xt_loader_destroy(loader);
    for (int i = 0; i < SLOTS_MOST; i++)
        free(pixels[i]);
    return 0;
}

static void start(void)
{
    xt_loader_destroy(loader);
    if (xt_loader_create(&loader, &config, &err))
        fail_msg("%s", err.text);
}

/* The next batch; false at the end. */
static bool next(struct xt_batch *batch)
{
    bool end = false;
    if (xt_loader_next(loader, batch, &end, NULL, &err))
        fail_msg("%s", err.text);
    return !end;
}

/* Consumes batches until one fails, at most `steps`. */
static enum xt_status run_until_error(int steps)
{
    struct xt_batch batch;
    bool end = false;
    enum xt_status status = XT_OK;
    for (int i = 0; i < steps && !status && !end; i++) {
        status = xt_loader_next(loader, &batch, &end, NULL, &err);
        if (!status && !end)
            xt_loader_release(loader, &batch);
    }
    return status;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ b[i]) * 1099511628211u;
    return hash;
}

static uint64_t hash_batch(const struct xt_batch *batch)
{
    uint64_t hash = 14695981039346656037u;
    size_t rows = (size_t)config.batch;
    hash = mix(hash, &batch->count, sizeof batch->count);
    hash = mix(hash, &batch->epoch, sizeof batch->epoch);
    hash = mix(hash, &batch->step, sizeof batch->step);
    hash = mix(hash, batch->pixels, rows * W * H * 3);
    hash = mix(hash, batch->labels, rows * XT_LABEL_MAX * sizeof(int));
    hash = mix(hash, batch->label_lengths, rows * sizeof(int));
    return mix(hash, batch->indices, rows * sizeof(size_t));
}

static void take(uint64_t *hashes, int steps)
{
    struct xt_batch batch;
    start();
    for (int i = 0; i < steps; i++) {
        assert_true(next(&batch));
        hashes[i] = hash_batch(&batch);
        xt_loader_release(loader, &batch);
    }
}

static void the_number_of_workers_and_slots_changes_nothing(void **state)
{
    (void)state;
    enum { STEPS = 25 };
    uint64_t one[STEPS];
    uint64_t many[STEPS];
    made.bad[7] = 1;
    config.workers = 1;
    take(one, STEPS);
    config.workers = 2;
    take(many, STEPS);
    assert_memory_equal(one, many, sizeof one);
    config.workers = 5;
    config.slots = 7;
    take(many, STEPS);
    assert_memory_equal(one, many, sizeof one);
    config.fit = XT_FIT_RANDOM_CROP;
    config.flip = true;
    config.jitter = 0.4F;
    take(many, STEPS);
    assert_memory_not_equal(one, many, sizeof one);
    config.workers = 1;
    take(one, STEPS);
    assert_memory_equal(one, many, sizeof one);
    config.seed++;
    take(many, STEPS);
    assert_true(one[0] != many[0] && one[24] != many[24]);
}

/* The same at any number of workers; the others are the samples that they would be without. */
static void negatives_are_the_stated_part_of_the_batches(void **state)
{
    (void)state;
    enum { STEPS = 50 };
    uint64_t one[STEPS];
    uint64_t many[STEPS];
    static struct made photos;
    photos.base = (struct xt_source){.class = &made_class, .count = 9, .description = "9 made"};
    photos.bad_status = XT_ERR_DATA;
    photos.bad[4] = 1;
    config.negatives = &photos.base;
    config.negatives_part = 0.25;
    config.workers = 1;
    take(one, STEPS);
    config.workers = 5;
    take(many, STEPS);
    assert_memory_equal(one, many, sizeof one);
    int negatives = 0;
    start();
    for (int i = 0; i < STEPS; i++) {
        struct xt_batch batch;
        assert_true(next(&batch));
        for (int k = 0; k < batch.count; k++) {
            bool is_negative = batch.label_lengths[k] == XT_LABEL_NEGATIVE;
            negatives += is_negative;
            assert_true(is_negative || batch.label_lengths[k] == 1);
            assert_int_equal(batch.labels[k * XT_LABEL_MAX], is_negative ? 0 : batch.indices[k]);
        }
        xt_loader_release(loader, &batch);
    }
    assert_in_range(negatives, 75, 125);
    memset(photos.bad, 1, sizeof photos.bad);
    start();
    assert_int_equal(run_until_error(STEPS), XT_ERR_DATA);
    assert_non_null(strstr(err.text, "--negatives: no good picture was found"));
}

/* Whether the batch's image i is the expected one, or its mirror image. */
static bool is_mirrored(const struct xt_batch *batch, int i)
{
    const uint8_t *row = batch->pixels + (size_t)i * W * H * 3;
    bool mirrored = row[0] != (uint8_t)(batch->indices[i] * 31);
    assert_int_equal(row[mirrored ? (W - 1) * 3 : 0], (uint8_t)(batch->indices[i] * 31));
    return mirrored;
}

/* Within four standard deviations of a half. */
static void every_second_image_is_mirrored(void **state)
{
    (void)state;
    enum { STEPS = 200 };
    struct xt_batch batch;
    int count = 0;
    int mirrored = 0;
    config.augment = false;
    config.flip = true;
    start();
    for (int step = 0; step < STEPS; step++) {
        assert_true(next(&batch));
        for (int i = 0; i < batch.count; i++) {
            /* Of the loader's size, and not symmetric. */
            if (batch.indices[i] % 3 == 0 || batch.indices[i] % 5 == 0)
                continue;
            mirrored += is_mirrored(&batch, i);
            count++;
        }
        xt_loader_release(loader, &batch);
    }
    assert_true(count > 500);
    assert_true(fabs(mirrored - count / 2.0) < 4 * sqrt(count / 4.0));
}

static void a_run_starts_again_at_the_exact_batch(void **state)
{
    (void)state;
    uint64_t whole[20];
    uint64_t rest[7];
    take(whole, 20);
    config.start_step = 13;
    take(rest, 7);
    assert_memory_equal(whole + 13, rest, sizeof rest);
}

static void every_epoch_has_each_sample_once_in_an_order_of_its_own(void **state)
{
    (void)state;
    int first_of_epoch[3] = {0};
    struct xt_batch batch;
    start();
    assert_int_equal(xt_loader_epoch_steps(&config), 7);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen[50] = {0};
        for (int i = 0; i < 7; i++) {
            assert_true(next(&batch));
            assert_int_equal(batch.epoch, epoch);
            assert_int_equal(batch.step, epoch * 7 + (uint64_t)i);
            assert_int_equal(batch.count, i < 6 ? 8 : 2);
            for (int row = 0; row < batch.count; row++) {
                assert_int_equal(batch.label_lengths[row], 1);
                assert_int_equal(batch.labels[row * XT_LABEL_MAX], batch.indices[row]);
                seen[batch.indices[row]]++;
            }
            if (i == 0)
                first_of_epoch[epoch] = batch.labels[0] * 1000 + batch.labels[XT_LABEL_MAX];
            xt_loader_release(loader, &batch);
        }
        for (int i = 0; i < 50; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_int_not_equal(first_of_epoch[0], first_of_epoch[1]);
    assert_int_not_equal(first_of_epoch[1], first_of_epoch[2]);
}

static void without_shuffling_and_augmenting_samples_come_as_they_are(void **state)
{
    (void)state;
    config.shuffle = config.augment = config.repeat = false;
    struct xt_batch batch;
    start();
    size_t index = 0;
    while (next(&batch)) {
        for (int row = 0; row < batch.count; row++, index++) {
            assert_int_equal(batch.indices[row], index);
            if (index % 3)
                for (int i = 0; i < W * H * 3; i++)
                    assert_int_equal(batch.pixels[row * W * H * 3 + i],
                                     (uint8_t)(index * 31 + (size_t)i * (index % 5)));
        }
        for (int i = batch.count * W * H * 3; i < config.batch * W * H * 3; i++)
            assert_int_equal(batch.pixels[i], 0);
        xt_loader_release(loader, &batch);
    }
    assert_int_equal(index, 50);
    assert_false(next(&batch));
}

static void the_last_small_batch_can_be_dropped(void **state)
{
    (void)state;
    config.drop_last = true;
    config.repeat = false;
    int count = 0;
    struct xt_batch batch;
    start();
    for (; next(&batch); count++) {
        assert_int_equal(batch.count, 8);
        xt_loader_release(loader, &batch);
    }
    assert_int_equal(count, 6);
}

static void slots_may_reach_over_several_epochs(void **state)
{
    (void)state;
    made.base.count = 3;
    config.batch = 2;
    config.slots = 16;
    config.workers = 5;
    uint64_t many[40];
    uint64_t one[40];
    take(many, 40);
    config.slots = 2;
    config.workers = 1;
    take(one, 40);
    assert_memory_equal(many, one, sizeof one);
}

static void in_training_another_sample_stands_for_a_bad_one(void **state)
{
    (void)state;
    made.base.count = 1000;
    made.bad[5] = made.bad[600] = 1;
    struct xt_batch batch;
    start();
    for (int i = 0; i < 2 * 125; i++) {
        assert_true(next(&batch));
        for (int row = 0; row < batch.count; row++) {
            assert_int_equal(batch.label_lengths[row], 1);
            assert_int_equal(batch.labels[row * XT_LABEL_MAX], batch.indices[row]);
            assert_false(made.bad[batch.indices[row]]);
        }
        xt_loader_release(loader, &batch);
    }
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    assert_int_equal(xt_loader_bad(loader, &bad, &count, &err), XT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(bad[0].index + bad[1].index, 605);
    assert_string_equal(bad[bad[0].index == 5 ? 0 : 1].reason, "made #5 is bad");
    xt_loader_free_bad(bad, count);
}

static void in_evaluation_a_bad_sample_is_marked_and_black(void **state)
{
    (void)state;
    config.repeat = config.shuffle = false;
    made.bad[3] = 1;
    struct xt_batch batch;
    start();
    assert_true(next(&batch));
    assert_int_equal(batch.indices[3], 3);
    assert_int_equal(batch.label_lengths[3], 0);
    assert_int_equal(batch.label_lengths[2], 1);
    for (int i = 0; i < W * H * 3; i++)
        assert_int_equal(batch.pixels[3 * W * H * 3 + i], 0);
}

static void more_than_one_percent_of_bad_samples_end_the_run(void **state)
{
    (void)state;
    made.bad[20] = made.bad[30] = 1;
    start();
    assert_int_equal(run_until_error(20), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "at least 2 of 50 samples are bad");
    support_assert_error(&err, XT_ERR_DATA, "made #20 is bad");
    assert_int_equal(run_until_error(1), XT_ERR_DATA);
}

static void strict_data_end_the_run_at_the_first_bad_sample(void **state)
{
    (void)state;
    config.strict = true;
    made.bad[30] = 1;
    start();
    assert_int_equal(run_until_error(20), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "made #30 is bad");
}

static void an_error_that_is_no_bad_sample_ends_the_run(void **state)
{
    (void)state;
    made.bad[11] = 1;
    made.bad_status = XT_ERR_MEMORY;
    start();
    assert_int_equal(run_until_error(20), XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, "made #11");
}

static void a_source_of_one_bad_sample_ends_in_an_error(void **state)
{
    (void)state;
    made.base.count = 1;
    made.bad[0] = 1;
    start();
    assert_int_equal(run_until_error(3), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "no good sample was found in place of a bad one");
}

static void it_can_be_stopped_at_any_moment(void **state)
{
    (void)state;
    struct xt_batch batch;
    config.workers = 4;
    for (int i = 0; i < 40; i++) {
        xt_loader_destroy(loader);
        loader = NULL;
        made.delay_us = i % 3 * 100;
        start();
        for (int step = 0; step < i % 5; step++) {
            assert_true(next(&batch));
            if (step != 3)
                xt_loader_release(loader, &batch);
        }
    }
}

static void the_time_waited_is_measured(void **state)
{
    (void)state;
    made.delay_us = 3000;
    config.workers = 1;
    struct xt_batch batch;
    bool end = false;
    double waited = 0;
    start();
    assert_int_equal(xt_loader_next(loader, &batch, &end, &waited, &err), XT_OK);
    assert_true(waited > 0.01);
    usleep(200000);
    xt_loader_release(loader, &batch);
    assert_int_equal(xt_loader_next(loader, &batch, &end, &waited, &err), XT_OK);
    assert_true(waited < 0.01);
    double consumer = 0;
    double worker = 0;
    /* A worker counts its wait when it is over: when it fills the slot that came free. */
    for (int i = 0; i < SLOTS_MOST; i++) {
        xt_loader_release(loader, &batch);
        assert_true(next(&batch));
    }
    xt_loader_waits(loader, &consumer, &worker);
    assert_true(consumer > 0.01 && consumer < 10);
    assert_true(worker > 0.01 && worker < 10);
}

static void assert_refused(enum xt_status status, const char *part)
{
    xt_loader_create(&loader, &config, &err);
    assert_null(loader);
    support_assert_error(&err, status, part);
}

static void settings_that_cannot_work_are_refused(void **state)
{
    (void)state;
    config.drop_last = true;
    config.batch = 51;
    assert_refused(XT_ERR_USAGE, "fewer samples than one batch of 51");
    config.batch = 8;
    config.workers = 0;
    assert_refused(XT_ERR_USAGE, "at least 1 worker");
    config.workers = 1;
    config.slots = 1;
    assert_refused(XT_ERR_USAGE, "2 batch slots");
    config.slots = 2;
    made.base.count = 0;
    assert_refused(XT_ERR_DATA, "no samples in 50 made");
}

static void take_more(uint64_t *hashes, int steps)
{
    struct xt_batch batch;
    for (int i = 0; i < steps; i++) {
        assert_true(next(&batch));
        hashes[i] = hash_batch(&batch);
        xt_loader_release(loader, &batch);
    }
}

static void workers_that_are_added_change_nothing_but_their_number(void **state)
{
    (void)state;
    enum { STEPS = 12 };
    uint64_t reference[STEPS];
    uint64_t grown[STEPS];
    take(reference, STEPS);
    config.workers = 1;
    config.workers_most = 4;
    take(grown, 3);
    assert_int_equal(xt_loader_workers(loader), 1);
    assert_true(xt_loader_rate(loader) > 0);
    xt_loader_grow(loader, 3);
    assert_int_equal(xt_loader_workers(loader), 3);
    take_more(grown + 3, STEPS - 3);
    assert_memory_equal(reference, grown, sizeof reference);
    xt_loader_grow(loader, 100);
    assert_int_equal(xt_loader_workers(loader), 4);
}

static void workers_of_several_numa_nodes_fill_the_same_batches(void **state)
{
    enum { STEPS = 15 };
    setup(NULL);
    uint64_t reference[STEPS];
    uint64_t apart[STEPS];
    for (uint64_t start_step = 0; start_step < 4; start_step++) {
        config.start_step = start_step;
        config.nodes = NULL;
        config.slots = 4;
        config.workers = 3;
        take(reference, STEPS);
        config.nodes = *state;
        take(apart, STEPS);
        assert_int_equal(xt_loader_nodes(loader), 2);
        assert_memory_equal(reference, apart, sizeof reference);
        config.slots = 3;
        take(apart, STEPS);
        assert_int_equal(xt_loader_nodes(loader), 1);
        config.slots = 4;
        config.workers = 1;
        take(apart, STEPS);
        assert_int_equal(xt_loader_nodes(loader), 1);
        assert_memory_equal(reference, apart, sizeof reference);
    }
    teardown(NULL);
    loader = NULL;
}

/* Two nodes, both with the first CPU that this process may use. */
static int make_nodes(void **state)
{
    char line[16];
    cpu_set_t set;
    size_t cpu = 0;
    if (support_make_folder(state) || sched_getaffinity(0, sizeof set, &set))
        return -1;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    int size = snprintf(line, sizeof line, "%zu\n", cpu);
    mkdir(support_path(*state, "node0"), 0777);
    mkdir(support_path(*state, "node1"), 0777);
    support_write_file(support_path(*state, "node0/cpulist"), line, (size_t)size);
    support_write_file(support_path(*state, "node1/cpulist"), line, (size_t)size);
    return 0;
}

static void a_file_that_disappears_in_mid_epoch_is_a_bad_sample(void **state)
{
    uint8_t grey[3 * 3 * 3];
    memset(grey, 99, sizeof grey);
    struct xt_image image = {.width = 3, .height = 3, .pixels = grey};
    char name[32];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "京A%d.png", i);
        xt_png_save(support_path(*state, name), &image, XT_PIXEL_RGB, &err);
    }
    struct xt_alphabet *alphabet = NULL;
    struct xt_source *folder = NULL;
    xt_alphabet_load(&alphabet, NULL, &err);
    struct xt_source_options options = {.alphabet = alphabet};
    assert_int_equal(xt_source_open(&folder, *state, &options, &err), XT_OK);
    setup(NULL);
    config.source = folder;
    unlink(support_path(*state, "京A2.png"));
    start();
    struct xt_batch batch;
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    assert_true(next(&batch));
    assert_int_equal(xt_loader_bad(loader, &bad, &count, &err), XT_OK);
    assert_int_equal(count, 1);
    assert_non_null(strstr(bad[0].reason, "京A2.png: No such file"));
    xt_loader_free_bad(bad, count);
    teardown(NULL);
    loader = NULL;
    xt_source_destroy(folder);
    xt_alphabet_destroy(alphabet);
}

#define loader_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void images_are_mixed_in_pairs_as_the_batch_says(void **state)
{
    (void)state;
    enum { BYTES = W * H * 3 };
    static uint8_t reference[2][BATCH_MOST * BYTES];
    struct xt_batch batch;
    start();
    for (int step = 0; step < 2; step++) {
        assert_true(next(&batch));
        assert_true(batch.mixup.alpha == 0);
        memcpy(reference[step], batch.pixels, (size_t)config.batch * BYTES);
        xt_loader_release(loader, &batch);
    }
    config.mixup = 1;
    for (config.workers = 1; config.workers <= 3; config.workers += 2) {
        start();
        for (int step = 0; step < 2; step++) {
            assert_true(next(&batch));
            for (int row = 0; row < config.batch; row++) {
                struct xt_mix mix = xt_mixup_row(&batch.mixup, row);
                const uint8_t *own = reference[step] + row * BYTES;
                const uint8_t *other = reference[step] + mix.other * BYTES;
                for (int i = 0; i < BYTES; i++)
                    assert_int_equal(batch.pixels[row * BYTES + i],
                                     (own[i] * mix.own + other[i] * (128 - mix.own) + 64) / 128);
            }
            xt_loader_release(loader, &batch);
        }
    }
}

/* Consumes `steps` batches of each of `ranks` shares, and puts their rows in their positions in the
 * whole batches: pixels and indices. */
static void collect_shares(int ranks, int steps, uint8_t *all, size_t *indices)
{
    enum { BYTES = W * H * 3 };
    for (int rank = 0; rank < ranks; rank++) {
        struct xt_batch batch;
        config.rows = xt_rows_share(config.batch, rank, ranks, config.mixup > 0);
        start();
        for (int step = 0; step < steps; step++) {
            assert_true(next(&batch));
            assert_int_equal(batch.count, config.rows.count);
            for (int i = 0; i < batch.count; i++) {
                size_t row = (size_t)(step * config.batch + xt_rows_at(&config.rows, i));
                assert_int_equal(indices[row], SIZE_MAX);
                indices[row] = batch.indices[i];
                memcpy(all + row * BYTES, batch.pixels + i * BYTES, BYTES);
            }
            xt_loader_release(loader, &batch);
        }
    }
}

static void the_shares_of_processes_make_up_the_batches_of_one(void **state)
{
    (void)state;
    enum { STEPS = 7, MOST = STEPS * BATCH_MOST, BYTES = W * H * 3 };
    static uint8_t whole[MOST * BYTES];
    static uint8_t shared[MOST * BYTES];
    size_t order[MOST];
    size_t indices[MOST];
    made.bad[7] = 1; /* replaced by another one, always the same */
    made.base.count = 200;
    config.drop_last = true;
    config.jitter = 0.2f;
    config.mixup = 0.4;
    for (config.batch = 8; config.batch <= 11; config.batch += 3) {
        size_t bytes = (size_t)(STEPS * config.batch) * BYTES;
        memset(order, 0xFF, sizeof order);
        collect_shares(1, STEPS, whole, order);
        for (int ranks = 2; ranks <= 4; ranks++) {
            memset(indices, 0xFF, sizeof indices);
            collect_shares(ranks, STEPS, shared, indices);
            assert_memory_equal(indices, order, (size_t)(STEPS * config.batch) * sizeof *order);
            assert_memory_equal(shared, whole, bytes);
        }
    }
}

static void parts_of_the_samples_are_each_evaluated_once(void **state)
{
    (void)state;
    uint8_t seen[50] = {0};
    config.shuffle = config.repeat = config.augment = false;
    for (size_t rank = 0; rank < 3; rank++) {
        struct xt_batch batch;
        config.first = 50 * rank / 3;
        config.count = 50 * (rank + 1) / 3 - config.first;
        start();
        while (next(&batch)) {
            for (int i = 0; i < batch.count; i++)
                seen[batch.indices[i]]++;
            xt_loader_release(loader, &batch);
        }
    }
    for (int i = 0; i < 50; i++)
        assert_int_equal(seen[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loader_test(the_shares_of_processes_make_up_the_batches_of_one),
        loader_test(parts_of_the_samples_are_each_evaluated_once),
        loader_test(the_number_of_workers_and_slots_changes_nothing),
        loader_test(negatives_are_the_stated_part_of_the_batches),
        loader_test(images_are_mixed_in_pairs_as_the_batch_says),
        loader_test(every_second_image_is_mirrored),
        loader_test(a_run_starts_again_at_the_exact_batch),
        loader_test(every_epoch_has_each_sample_once_in_an_order_of_its_own),
        loader_test(without_shuffling_and_augmenting_samples_come_as_they_are),
        loader_test(the_last_small_batch_can_be_dropped),
        loader_test(slots_may_reach_over_several_epochs),
        loader_test(in_training_another_sample_stands_for_a_bad_one),
        loader_test(in_evaluation_a_bad_sample_is_marked_and_black),
        loader_test(more_than_one_percent_of_bad_samples_end_the_run),
        loader_test(strict_data_end_the_run_at_the_first_bad_sample),
        loader_test(an_error_that_is_no_bad_sample_ends_the_run),
        loader_test(a_source_of_one_bad_sample_ends_in_an_error),
        loader_test(it_can_be_stopped_at_any_moment),
        loader_test(the_time_waited_is_measured),
        loader_test(settings_that_cannot_work_are_refused),
        loader_test(workers_that_are_added_change_nothing_but_their_number),
        cmocka_unit_test_setup_teardown(workers_of_several_numa_nodes_fill_the_same_batches,
                                        make_nodes, support_remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_disappears_in_mid_epoch_is_a_bad_sample,
                                        support_make_folder, support_remove_folder),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
