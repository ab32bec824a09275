#include "support_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/loader.h"
#include "data/sources/mix.h"

enum { BATCH = 4, SLOTS = 2, SIDE = 4 };

static char path[512];

static int setup(void **state)
{
    int bad = setup_plates(state);
    snprintf(path, sizeof path, "%s", support_path(*state, "mix.yaml"));
    return bad;
}

static void write_mix(const char *text)
{
    support_write_file(path, text, strlen(text));
}

static void open_mix(const char *text)
{
    write_mix(text);
    open_good(path);
}

static void refuse_mix(const char *text, enum xt_status status, const char *part)
{
    write_mix(text);
    assert_refused_with(status, path, part);
}

/* Counts how often each sample occurs in an epoch. */
static void count_epoch(uint64_t seed, uint64_t epoch, int *counts)
{
    for (size_t i = 0; i < source->epoch_length; i++) {
        size_t index = source->class->draw(source, seed, epoch, i);
        assert_true(index < source->count);
        counts[index]++;
    }
}

static int sum(const int *counts, size_t first, size_t end)
{
    int all = 0;
    for (size_t i = first; i < end; i++)
        all += counts[i];
    return all;
}

static void a_permutation_hits_each_number_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint8_t seen[1000] = {0};
        for (uint64_t i = 0; i < sizes[s]; i++) {
            uint64_t to = xt_mix_permute(i, sizes[s], 7);
            assert_true(to < sizes[s]);
            assert_int_equal(seen[to]++, 0);
        }
    }
    assert_true(xt_mix_permute(0, (uint64_t)1 << 31, 1) < (uint64_t)1 << 31);
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++)
        same += xt_mix_permute(i, 1000, 7) == xt_mix_permute(i, 1000, 8);
    assert_true(same < 20);
}

static const char three_to_one[] = "epoch: 40\n"
                                   "sources:\n"
                                   "  - data: synth:plates?count=100&seed=1\n"
                                   "    weight: 3\n"
                                   "  - data: synth:plates?count=10&seed=2\n";

static void weights_say_what_an_epoch_holds(void **state)
{
    (void)state;
    open_mix(three_to_one);
    assert_int_equal(source->count, 110);
    assert_int_equal(source->epoch_length, 40);
    assert_non_null(strstr(source->description, "110 images of 2 sources in "));
    assert_non_null(strstr(source->description, "mix.yaml, 40 an epoch"));
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        int counts[110] = {0};
        count_epoch(1, epoch, counts);
        assert_int_equal(sum(counts, 0, 100), 30);
        assert_int_equal(sum(counts, 100, 110), 10);
    }
}

static void no_sample_repeats_before_all_others_were_drawn(void **state)
{
    (void)state;
    open_mix(three_to_one);
    int counts[110] = {0};
    for (uint64_t epoch = 0; epoch < 10; epoch++)
        count_epoch(1, epoch, counts);
    for (int i = 0; i < 100; i++)
        assert_int_equal(counts[i], 3); /* 300 of 100 */
    for (int i = 100; i < 110; i++)
        assert_int_equal(counts[i], 10);
}

static void seed_and_epoch_change_the_order(void **state)
{
    (void)state;
    open_mix(three_to_one);
    int differ[2] = {0};
    for (size_t i = 0; i < 40; i++) {
        size_t index = source->class->draw(source, 1, 0, i);
        assert_int_equal(index, source->class->draw(source, 1, 0, i));
        differ[0] += index != source->class->draw(source, 2, 0, i);
        differ[1] += index != source->class->draw(source, 1, 1, i);
    }
    assert_true(differ[0] > 20 && differ[1] > 20);
}

/* The indices of `steps` batches from `first` on. */
static void run(int workers, uint64_t first, int steps, size_t *indices)
{
    static uint8_t bytes[SLOTS][BATCH * SIDE * SIDE * 3];
    uint8_t *pixels[SLOTS] = {bytes[0], bytes[1]};
    struct xt_loader_config config = {.source = source,
                                      .batch = BATCH,
                                      .width = SIDE,
                                      .height = SIDE,
                                      .workers = workers,
                                      .slots = SLOTS,
                                      .slot_pixels = pixels,
                                      .shuffle = true,
                                      .repeat = true,
                                      .drop_last = true,
                                      .seed = 3,
                                      .start_step = first};
    struct xt_loader *loader = NULL;
    assert_int_equal(xt_loader_create(&loader, &config, &err), XT_OK);
    assert_int_equal(xt_loader_epoch_steps(&config), 10);
    for (int i = 0; i < steps; i++) {
        struct xt_batch batch;
        bool end = false;
        assert_int_equal(xt_loader_next(loader, &batch, &end, NULL, &err), XT_OK);
        memcpy(indices + (size_t)i * BATCH, batch.indices, BATCH * sizeof *indices);
        xt_loader_release(loader, &batch);
    }
    xt_loader_destroy(loader);
}

static void batches_are_the_same_with_more_workers_and_after_a_stop(void **state)
{
    (void)state;
    open_mix(three_to_one);
    size_t all[25 * BATCH];
    size_t others[25 * BATCH];
    run(1, 0, 25, all);
    run(3, 0, 25, others);
    assert_memory_equal(all, others, sizeof all);
    run(2, 7, 18, others);
    assert_memory_equal(all + (size_t)7 * BATCH, others, (size_t)18 * BATCH * sizeof *all);
    int counts[110] = {0};
    for (size_t i = 0; i < (size_t)10 * BATCH; i++)
        counts[all[i]]++;
    assert_int_equal(sum(counts, 0, 100), 30);
    /* Mixed, and not one source after the other. */
    int of_second = 0;
    for (size_t i = 0; i < (size_t)5 * BATCH; i++)
        of_second += all[i] >= 100;
    assert_in_range(of_second, 1, 9);
}

static void evaluation_has_each_sample_once(void **state)
{
    (void)state;
    open_mix(three_to_one);
    struct xt_loader_config config = {.source = source, .batch = 10};
    assert_int_equal(xt_loader_epoch_steps(&config), 11);
}

static void paths_start_at_the_file(void **state)
{
    mkdir(support_path(*state, "set"), 0777);
    support_write_file(support_path(*state, "set/京A1.jpg"), "x", 1);
    support_write_file(support_path(*state, "list.txt"), "x.jpg\t沪B2\n", 12);
    open_mix("sources:\n- data: set\n- {data: list.txt, weight: 0.5}\n"
             "- weight: 2\n  data: 'synth:plates?count=3'\n");
    assert_int_equal(source->count, 5);
    assert_int_equal(source->epoch_length, 5);
    char name[512];
    source->class->name(source, 1, name, sizeof name);
    assert_string_equal(name, support_path(*state, "x.jpg"));
    source->class->name(source, 4, name, sizeof name);
    assert_string_equal(name, "synth:plates #2");
    int label[XT_LABEL_MAX];
    int length = 0;
    assert_int_equal(source->class->label(source, 1, label, &length, &err), XT_OK);
    assert_int_equal(length, 3);
    assert_int_not_equal(source->class->stamp(source, 0), 0);
    assert_int_equal(source->class->stamp(source, 4), 0); /* no file */
    char *spec = NULL;
    assert_int_equal(xt_source_spec_from(&spec, "a/mix.yaml", "ccpd:b", &err), XT_OK);
    assert_string_equal(spec, "ccpd:a/b");
    free(spec);
    assert_int_equal(xt_source_spec_from(&spec, "a/mix.yaml", "/b", &err), XT_OK);
    assert_string_equal(spec, "/b");
    free(spec);
}

static void make_class(const char *folder, const char *set, const char *class)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", set, class);
    mkdir(support_path(folder, set), 0777);
    mkdir(support_path(folder, name), 0777);
    strcat(name, "/1.jpg");
    support_write_file(support_path(folder, name), "x", 1);
}

static void classes_are_those_of_the_first_source(void **state)
{
    options = (struct xt_source_options){.task = XT_TASK_CLASSES};
    make_class(*state, "one", "cat");
    make_class(*state, "one", "dog");
    make_class(*state, "one", "eel");
    make_class(*state, "two", "dog");
    make_class(*state, "two", "eel");
    open_mix("sources:\n- data: one\n- data: two\n");
    assert_int_equal(xt_source_class_count(source), 3);
    assert_string_equal(xt_source_class_name(source, 2), "eel");
    int label[XT_LABEL_MAX];
    int length = 0;
    assert_int_equal(source->class->label(source, 4, label, &length, &err), XT_OK);
    assert_int_equal(label[0], 2);
    make_class(*state, "two", "emu");
    xt_source_destroy(source);
    source = NULL;
    refuse_mix("sources:\n- data: one\n- data: two\n", XT_ERR_DATA,
               "the class \"emu\" is not among the 3");
    refuse_mix("sources:\n- data: one\n- data: two\n", XT_ERR_DATA, "mix.yaml:3: ");
    refuse_mix("sources:\n- data: one\n- data: synth:plates\n", XT_ERR_USAGE, "mix.yaml:3: ");
}

static void a_wrong_file_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"", ":1: a mixture's file has `sources:`"},
        {"- a\n", ":1: a mixture's file has `sources:`"},
        {"epoch: 3\n", ":1: the mixture has no sources"},
        {"sources: []\n", ":1: the mixture has no sources"},
        {"sources: x\n", ":1: sources is a list"},
        {"sources:\n- synth:plates\n", ":2: a source is written"},
        {"sources:\n- weight: 2\n", ":2: the source has no data"},
        {"sources:\n- data: a\n  data: b\n", ":3: data is given twice"},
        {"sources:\n- data: [a]\n", ":2: data is a single value"},
        {"sources:\n- data: a\n  weigth: 2\n", ":3: \"weigth\" is not known here"},
        {"source:\n- data: a\n", ":1: \"source\" is not known here; there are epoch and sources"},
        {"sources:\n- data: a\n  weight: 0\n", ":3: weight is \"0\""},
        {"sources:\n- data: a\n  weight: -1\n", ":3: weight is \"-1\""},
        {"sources:\n- data: a\n  weight: 1e3\n", ":3: weight is \"1e3\""},
        {"sources:\n- data: a\n  weight: nan\n", ":3: weight is \"nan\""},
        {"sources:\n- data: a\n  weight:\n", ":3: weight has no value"},
        {"epoch: 0\nsources:\n- data: a\n", ":1: epoch is \"0\""},
        {"epoch: 99999999999999999999\nsources:\n- data: a\n", ":1: epoch is"},
        {"sources:\n- data: &a x\n", ":2: anchors"},
        {"sources:\n- data: x\n---\n", ":3: a second document"},
        {"sources:\n\t- data: x\n", ":2: a tab"},
        {"sources: [\n", "this is not YAML"},
        {"sources:\n- data: other.yaml\n", ":2: other.yaml is a mixture itself"},
        {"epoch: 3\nsources:\n- data: synth:plates\n  weight: 100\n- data: synth:plates\n",
         ":5: of an epoch of 3 samples this source's weight gives it no sample"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse_mix(cases[i].text, XT_ERR_USAGE, cases[i].part);
    refuse_mix("sources:\n- data: none\n", XT_ERR_DATA, "mix.yaml:2: cannot open the data");
}

#define mix_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        mix_test(a_permutation_hits_each_number_once),
        mix_test(weights_say_what_an_epoch_holds),
        mix_test(no_sample_repeats_before_all_others_were_drawn),
        mix_test(seed_and_epoch_change_the_order),
        mix_test(batches_are_the_same_with_more_workers_and_after_a_stop),
        mix_test(evaluation_has_each_sample_once),
        mix_test(paths_start_at_the_file),
        mix_test(classes_are_those_of_the_first_source),
        mix_test(a_wrong_file_is_named_with_its_line),
    };
    return cmocka_run_group_tests_name("mix", tests, NULL, NULL);
}
