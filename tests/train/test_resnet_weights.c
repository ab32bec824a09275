/* ResNet-50's weight files: classes of other data, and heads of other names. */
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "data/sources/registry.h"
#include "infer/network/network.h"
#include "infer/network/network_build.h"
#include "infer/network/param_files.h"

static struct xt_infer_settings settings_of(const char *init)
{
    return (struct xt_infer_settings){.network.model = "resnet50",
                                      .network.init = init,
                                      .network.image_size = 32,
                                      .device.name = "cpu",
                                      .device.threads = 1};
}

/* A network for training on synthetic shapes of this many classes. */
static enum xt_status train_on(struct xt_network *network, const struct xt_infer_settings *settings,
                               int classes, struct xt_err *err)
{
    char spec[64];
    snprintf(spec, sizeof spec, "synth:shapes?count=8&seed=1&classes=%d", classes);
    struct xt_source *source = NULL;
    enum xt_status status = xt_network_open(network, &settings->network, &settings->device, err);
    struct xt_source_options options = xt_network_source_options(network);
    if (!status)
        status = xt_source_open(&source, spec, &options, err);
    if (!status)
        status = xt_network_take_classes(network, &settings->network, source, err);
    if (!status)
        status = xt_network_build(network, &settings->network, 1, true, err);
    xt_source_destroy(source);
    return status;
}

static const struct xt_param *param(const struct xt_network *network, const char *name)
{
    for (int i = 0; i < network->params.count; i++)
        if (strcmp(network->params.items[i].name, name) == 0)
            return &network->params.items[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

static bool same(struct xt_network *a, struct xt_network *b, const char *name)
{
    const struct xt_param *p = param(a, name);
    return memcmp(xt_params_value(&a->params, p), xt_params_value(&b->params, param(b, name)),
                  p->floats * sizeof(float)) == 0;
}

/* Writes the network's weights with the head's tensors called "fc.0.*". */
static void save_with_other_head(struct xt_network *network, const char *path)
{
    struct xt_err err;
    struct xt_params_view view = {network->params.values, network->params.stats};
    struct xt_params_tensors tensors;
    assert_int_equal(
        xt_params_to_tensors(&network->params, &network->device, &view, &tensors, &err), XT_OK);
    for (int i = 0; i < tensors.count; i++)
        if (strcmp(tensors.items[i].name, "fc.weight") == 0)
            tensors.items[i].name = "fc.0.weight";
        else if (strcmp(tensors.items[i].name, "fc.bias") == 0)
            tensors.items[i].name = "fc.0.bias";
    assert_int_equal(
        xt_weight_file_write(path, tensors.items, (size_t)tensors.count, NULL, 0, &err), XT_OK);
    xt_params_free_tensors(&tensors);
}

static void a_head_of_other_classes_is_another_and_all_else_is_taken(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "four.safetensors");
    struct xt_infer_settings fresh = settings_of(NULL);
    struct xt_infer_settings tuned = settings_of(path);
    tuned.data.seed = 1;
    struct xt_network four;
    struct xt_network three;
    assert_int_equal(train_on(&four, &fresh, 4, &err), XT_OK);
    assert_int_equal(xt_network_save(&four, path, &err), XT_OK);
    assert_int_equal(train_on(&three, &tuned, 3, &err), XT_OK);
    assert_int_equal(three.classes, 3);
    assert_true(same(&four, &three, "conv1.weight"));
    assert_true(same(&four, &three, "layer4.2.bn3.weight"));
    assert_int_equal(param(&three, "fc.weight")->dims[0], 3);
    xt_network_clear(&three);
    xt_network_clear(&four);
}

static void weights_say_their_classes_and_image_size(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "four.safetensors");
    struct xt_infer_settings fresh = settings_of(NULL);
    struct xt_infer_settings used = settings_of(path);
    used.network.image_size = 0;
    struct xt_network network;
    assert_int_equal(train_on(&network, &fresh, 4, &err), XT_OK);
    assert_int_equal(xt_network_save(&network, path, &err), XT_OK);
    xt_network_clear(&network);
    assert_int_equal(xt_network_init(&network, &used.network, &used.device, 1, false, &err), XT_OK);
    assert_int_equal(network.classes, 4);
    assert_int_equal(network.class_names.count, 4);
    assert_int_equal(network.height, 32);
    xt_network_clear(&network);
}

static void a_head_called_fc_0_is_the_head(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "head.safetensors");
    struct xt_infer_settings fresh = settings_of(NULL);
    struct xt_infer_settings tuned = settings_of(path);
    tuned.data.seed = 1;
    struct xt_network first;
    struct xt_network second;
    assert_int_equal(train_on(&first, &fresh, 4, &err), XT_OK);
    save_with_other_head(&first, path);
    assert_int_equal(train_on(&second, &tuned, 4, &err), XT_OK);
    assert_true(same(&first, &second, "fc.weight"));
    assert_true(same(&first, &second, "fc.bias"));
    xt_network_clear(&second);
    xt_network_clear(&first);
}

/* Foreign weights do not state their normalisation, which is torchvision's; ours do, also for
 * evaluation. */
static void pixels_are_normalised_as_the_weights_say_or_are(void **state)
{
    struct xt_err err;
    const char *foreign = support_path(*state, "foreign.safetensors");
    const char *own = support_path(*state, "own.safetensors");
    struct xt_infer_settings fresh = settings_of(NULL);
    struct xt_infer_settings tuned = settings_of(foreign);
    struct xt_infer_settings used = settings_of(own);
    struct xt_network network;
    assert_int_equal(train_on(&network, &fresh, 4, &err), XT_OK);
    assert_string_equal(network.normalise_text, "half");
    save_with_other_head(&network, foreign);
    xt_network_clear(&network);
    assert_int_equal(train_on(&network, &tuned, 4, &err), XT_OK);
    assert_string_equal(network.normalise_text, "imagenet");
    assert_int_equal(xt_network_save(&network, own, &err), XT_OK);
    xt_network_clear(&network);
    assert_int_equal(xt_network_init(&network, &used.network, &used.device, 1, false, &err), XT_OK);
    assert_string_equal(network.normalise_text, "imagenet");
    xt_network_clear(&network);
    used.network.normalize = "0.1,0.2,0.3/0.5";
    assert_int_equal(xt_network_init(&network, &used.network, &used.device, 1, false, &err), XT_OK);
    assert_string_equal(network.normalise_by, "--normalize");
    assert_true(network.normalise.mean[2] == 76.5F);
    xt_network_clear(&network);
    used.network.normalize = "zero";
    assert_int_equal(xt_network_init(&network, &used.network, &used.device, 1, false, &err),
                     XT_ERR_USAGE);
    xt_network_clear(&network);
}

static void fewer_classes_than_the_images_show_are_refused(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_infer_settings settings = settings_of(NULL);
    settings.network.classes = 3;
    struct xt_network network;
    assert_int_equal(train_on(&network, &settings, 4, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "--classes 3");
    xt_network_clear(&network);
}

static void images_below_32_are_refused(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_infer_settings settings = settings_of(NULL);
    settings.network.image_size = 31;
    struct xt_network network;
    assert_int_equal(train_on(&network, &settings, 4, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "--image-size");
    xt_network_clear(&network);
}

static void a_layer_to_freeze_until_must_be_there(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_infer_settings settings = settings_of(NULL);
    settings.network.freeze_until = "layer5";
    struct xt_network network;
    assert_int_equal(train_on(&network, &settings, 4, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "--freeze-until layer5");
    xt_network_clear(&network);
}

static void layers_before_freeze_until_are_frozen(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_infer_settings settings = settings_of(NULL);
    settings.network.freeze_until = "layer3";
    struct xt_network network;
    assert_int_equal(train_on(&network, &settings, 4, &err), XT_OK);
    assert_true(param(&network, "layer2.3.bn3.weight")->frozen);
    assert_true(param(&network, "conv1.weight")->frozen);
    assert_false(param(&network, "layer3.0.conv1.weight")->frozen);
    assert_false(param(&network, "fc.bias")->frozen);
    xt_network_clear(&network);
}

#define TEST_IN_FOLDER(test)                                                                       \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(a_head_of_other_classes_is_another_and_all_else_is_taken),
        TEST_IN_FOLDER(weights_say_their_classes_and_image_size),
        TEST_IN_FOLDER(a_head_called_fc_0_is_the_head),
        TEST_IN_FOLDER(pixels_are_normalised_as_the_weights_say_or_are),
        cmocka_unit_test(fewer_classes_than_the_images_show_are_refused),
        cmocka_unit_test(images_below_32_are_refused),
        cmocka_unit_test(a_layer_to_freeze_until_must_be_there),
        cmocka_unit_test(layers_before_freeze_until_are_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
