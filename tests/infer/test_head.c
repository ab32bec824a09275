/* Weights for other symbols or classes: rows retained bit for bit, and how new ones are
 * initialised. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "data/sources/registry.h"
#include "engine/executor.h"
#include "infer/network/network_build.h"
#include "infer/network/param_files.h"

enum { PIXELS = 24 * 94 * 3, STEPS = 18 };

static struct xt_infer_settings settings_of(const char *model, const char *init,
                                            const char *alphabet)
{
    return (struct xt_infer_settings){.network.model = model,
                                      .network.init = init,
                                      .network.alphabet = alphabet,
                                      .device.name = "cpu",
                                      .device.threads = 1,
                                      .network.fuse = true};
}

static const char *alphabet_of(const char *folder, const char *name, const char *symbols)
{
    const char *path = support_path(folder, name);
    support_write_file(path, symbols, strlen(symbols));
    return path;
}

static void open_network(struct xt_network *network, const struct xt_infer_settings *settings)
{
    struct xt_err err = {.status = XT_OK};
    if (xt_network_init(network, &settings->network, &settings->device, 1, false, &err))
        fail_msg("%s", err.text);
}

/* Weights of which no two rows are alike, saved for the symbols. */
static const char *save_weights(const char *folder, const char *alphabet)
{
    struct xt_err err;
    const char *path = support_path(folder, "old.safetensors");
    struct xt_infer_settings settings = settings_of("lprnet", NULL, alphabet);
    struct xt_network network;
    open_network(&network, &settings);
    for (size_t i = 0; i < network.params.value_floats; i++)
        network.params.values[i] += 0.001F * (float)(i % 97);
    assert_int_equal(xt_network_save(&network, path, &err), XT_OK);
    xt_network_clear(&network);
    return path;
}

static struct xt_params_tensors tensors_of(struct xt_network *network)
{
    struct xt_err err;
    struct xt_params_view view = {network->params.values, network->params.stats};
    struct xt_params_tensors tensors;
    assert_int_equal(
        xt_params_to_tensors(&network->params, &network->device, &view, &tensors, &err), XT_OK);
    return tensors;
}

static const struct xt_file_tensor *find(const struct xt_params_tensors *tensors, const char *name)
{
    for (int i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* `count` values of a row, from column `at` on. */
static const float *row_of(const struct xt_file_tensor *tensor, int row, size_t at)
{
    size_t length = xt_file_tensor_count(tensor) / (size_t)tensor->dims[0];
    return (const float *)tensor->data + (size_t)row * length + at;
}

static void assert_rows(const struct xt_params_tensors *before, int from,
                        const struct xt_params_tensors *after, int to, const char *name,
                        size_t count)
{
    if (memcmp(row_of(find(before, name), from, 0), row_of(find(after, name), to, 0),
               count * sizeof(float)) != 0)
        fail_msg("row %d of %s is not row %d of before", to, name, from);
}

/* The published order is features, then the last tap's channels, which are the symbols. */
enum { FEATURES = 64 + 128 + 256 };

static void kept_symbols_keep_their_rows_and_columns_bit_for_bit(void **state)
{
    struct xt_infer_settings old =
        settings_of("lprnet", NULL, alphabet_of(*state, "old.txt", "ABCD京-"));
    const char *path = save_weights(*state, old.network.alphabet);
    struct xt_infer_settings new =
        settings_of("lprnet", path, alphabet_of(*state, "new.txt", "X京YAZ_"));
    static const int from[] = {-1, 4, -1, 0, -1, 5}; /* the blank is the blank */
    static const char *const vectors[] = {"backbone.20.bias",        "backbone.21.weight",
                                          "backbone.21.bias",        "backbone.21.running_mean",
                                          "backbone.21.running_var", "container.0.bias"};
    struct xt_network before;
    struct xt_network after;
    old.network.init = path;
    open_network(&before, &old);
    open_network(&after, &new);
    struct xt_params_tensors a = tensors_of(&before);
    struct xt_params_tensors b = tensors_of(&after);
    for (int i = 0; i < 6; i++) {
        if (from[i] < 0)
            continue;
        for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
            assert_rows(&a, from[i], &b, i, vectors[k], 1);
        assert_rows(&a, from[i], &b, i, "backbone.20.weight", 256 * 13);
        assert_rows(&a, from[i], &b, i, "container.0.weight", FEATURES);
        for (int k = 0; k < 6; k++)
            if (from[k] >= 0)
                assert_memory_equal(
                    row_of(find(&a, "container.0.weight"), from[i], FEATURES + (size_t)from[k]),
                    row_of(find(&b, "container.0.weight"), i, FEATURES + (size_t)k), sizeof(float));
    }
    assert_rows(&a, 3, &b, 3, "backbone.0.weight", 27);
    xt_params_free_tensors(&a);
    xt_params_free_tensors(&b);
    xt_network_clear(&before);
    xt_network_clear(&after);
}

static void logits_of(struct xt_network *network, float *out)
{
    struct xt_err err;
    uint8_t *pixels = malloc(PIXELS);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (uint8_t)(i * 37 % 251);
    network->graph->pass = (struct xt_graph_pass){.pixels = pixels, .count = 1};
    assert_int_equal(xt_graph_forward(network->graph, &err), XT_OK);
    memcpy(out, xt_graph_logits(network->graph),
           (size_t)STEPS * (size_t)network->classes * sizeof *out);
    free(pixels);
}

/* One new, one dropped, the others in another order: the others' logits are unchanged, and the new
 * one's never the largest. */
static void a_replaced_symbol_changes_nothing_of_the_others(void **state)
{
    struct xt_infer_settings old =
        settings_of("lprnet", NULL, alphabet_of(*state, "old.txt", "ABCD-"));
    const char *path = save_weights(*state, old.network.alphabet);
    struct xt_infer_settings new =
        settings_of("lprnet", path, alphabet_of(*state, "new.txt", "DNBA-"));
    static const int from[] = {3, -1, 1, 0, 4};
    float before[STEPS * 5];
    float after[STEPS * 5];
    struct xt_network network;
    old.network.init = path;
    open_network(&network, &old);
    logits_of(&network, before);
    xt_network_clear(&network);
    open_network(&network, &new);
    logits_of(&network, after);
    xt_network_clear(&network);
    for (size_t t = 0; t < STEPS; t++) {
        float largest = -INFINITY;
        for (size_t i = 0; i < 5; i++) {
            if (from[i] < 0)
                continue;
            float was = before[t * 5 + (size_t)from[i]];
            assert_true(fabsf(after[t * 5 + i] - was) <= 1e-5F * (1 + fabsf(was)));
            largest = fmaxf(largest, was);
        }
        assert_true(after[t * 5 + 1] < largest);
    }
}

static void weights_without_an_alphabet_are_taken_for_what_alphabet_says(void **state)
{
    struct xt_err err;
    struct xt_weight_file file = {0};
    const char *alphabet = alphabet_of(*state, "old.txt", "ABCD-");
    const char *path = save_weights(*state, alphabet);
    const char *bare = support_path(*state, "bare.safetensors");
    struct xt_infer_settings settings =
        settings_of("lprnet", bare, alphabet_of(*state, "new.txt", "DCBA-"));
    struct xt_network network;
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    assert_int_equal(xt_weight_file_write(bare, file.tensors, file.count, NULL, 0, &err), XT_OK);
    open_network(&network, &settings);
    struct xt_params_tensors tensors = tensors_of(&network);
    assert_memory_equal(find(&tensors, "container.0.weight")->data,
                        xt_weight_file_find(&file, "container.0.weight")->data,
                        find(&tensors, "container.0.weight")->bytes);
    xt_params_free_tensors(&tensors);
    xt_weight_file_clear(&file);
    xt_network_clear(&network);
}

/* Trains on synthetic shapes of `classes` classes. */
static void open_classes(struct xt_network *network, const char *init, int classes)
{
    struct xt_err err = {.status = XT_OK};
    char spec[64];
    struct xt_source *source = NULL;
    struct xt_infer_settings settings = settings_of("resnet50", init, NULL);
    settings.network.image_size = 32;
    settings.network.fuse = false;
    snprintf(spec, sizeof spec, "synth:shapes?count=8&seed=1&classes=%d", classes);
    enum xt_status status = xt_network_open(network, &settings.network, &settings.device, &err);
    struct xt_source_options options = xt_network_source_options(network);
    if (!status)
        status = xt_source_open(&source, spec, &options, &err);
    if (!status)
        status = xt_network_take_classes(network, &settings.network, source, &err);
    if (!status)
        status = xt_network_build(network, &settings.network, 1, true, &err);
    xt_source_destroy(source);
    if (status)
        fail_msg("%s", err.text);
}

static void classes_keep_their_rows_by_name_and_a_new_one_is_the_mean(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "three.safetensors");
    struct xt_network three;
    struct xt_network four;
    open_classes(&three, NULL, 3);
    assert_int_equal(xt_network_save(&three, path, &err), XT_OK);
    open_classes(&four, path, 4);
    struct xt_params_tensors a = tensors_of(&three);
    struct xt_params_tensors b = tensors_of(&four);
    int saved = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            if (strcmp(four.class_names.names[i], three.class_names.names[k]) == 0) {
                assert_rows(&a, k, &b, i, "fc.weight", 2048);
                assert_rows(&a, k, &b, i, "fc.bias", 1);
                saved |= 1 << i;
            }
    int fresh = 0;
    while (saved & 1 << fresh)
        fresh++;
    assert_int_equal(saved | 1 << fresh, 15);
    for (size_t c = 0; c < 2048; c += 97) {
        float mean = 0;
        for (int k = 0; k < 3; k++)
            mean += *row_of(find(&a, "fc.weight"), k, c) / 3;
        assert_true(fabsf(*row_of(find(&b, "fc.weight"), fresh, c) - mean) < 1e-6F);
    }
    xt_params_free_tensors(&a);
    xt_params_free_tensors(&b);
    xt_network_clear(&three);
    xt_network_clear(&four);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kept_symbols_keep_their_rows_and_columns_bit_for_bit),
        TEST(a_replaced_symbol_changes_nothing_of_the_others),
        TEST(weights_without_an_alphabet_are_taken_for_what_alphabet_says),
        TEST(classes_keep_their_rows_by_name_and_a_new_one_is_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
