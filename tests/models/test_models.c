#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/recognise.h"

static struct xt_net *net_of(const char *name, int classes)
{
    struct xt_err err = {0};
    struct xt_net *net = NULL;
    const struct xt_model_info *model = xt_model_find(name);
    assert_non_null(model);
    const struct xt_model_options options = {
        .classes = classes, .height = model->height, .width = model->width};
    if (xt_model_net(model, &options, &net, &err))
        fail_msg("%s: %s", name, err.text);
    return net;
}

static bool is_trained(const struct xt_net_param *param)
{
    return param->role != XT_PARAM_BN_MEAN && param->role != XT_PARAM_BN_VAR &&
           param->role != XT_PARAM_BN_COUNT;
}

/* torchvision's numbers of parameters for 1000 classes. */
static void parameters_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t count;
    } published[] = {
        {"resnet18", 11689512},          {"resnet34", 21797672},
        {"resnet50", 25557032},          {"resnet101", 44549160},
        {"resnet152", 60192808},         {"resnext50_32x4d", 25028904},
        {"wide_resnet50_2", 68883240},   {"mobilenet_v2", 3504872},
        {"mobilenet_v3_small", 2542856}, {"mobilenet_v3_large", 5483032},
        {"efficientnet_b0", 5288548},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct xt_net *net = net_of(published[i].name, 1000);
        size_t count = 0;
        for (size_t k = 0; k < net->param_count; k++)
            count += is_trained(&net->params[k]) ? xt_net_param_elements(&net->params[k]) : 0;
        if (count != published[i].count)
            fail_msg("%s: %zu parameters", published[i].name, count);
        xt_net_destroy(net);
    }
}

/* Some of torchvision's names that are present, in sequence. */
static void names_in_the_published_order(void **state)
{
    (void)state;
    static const struct {
        const char *model, *first, *second;
    } names[] = {
        {"resnet50", "layer1.0.bn3.num_batches_tracked", "layer1.0.downsample.0.weight"},
        {"resnet18", "layer2.0.bn2.num_batches_tracked", "layer2.0.downsample.0.weight"},
        {"mobilenet_v2", "features.1.conv.0.1.num_batches_tracked", "features.1.conv.1.weight"},
        {"mobilenet_v2", "features.2.conv.2.weight", "features.2.conv.3.weight"},
        {"mobilenet_v3_small", "features.4.block.1.1.num_batches_tracked",
         "features.4.block.2.fc1.weight"},
        {"mobilenet_v3_small", "features.1.block.1.fc2.bias", "features.1.block.2.0.weight"},
        {"mobilenet_v3_large", "classifier.0.bias", "classifier.3.weight"},
        {"efficientnet_b0", "features.2.0.block.2.fc2.bias", "features.2.0.block.3.0.weight"},
        {"efficientnet_b0", "features.8.1.num_batches_tracked", "classifier.1.weight"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct xt_net *net = net_of(names[i].model, 10);
        int at = xt_net_find_param(net, names[i].first);
        if (at < 0 || xt_net_find_param(net, names[i].second) != at + 1)
            fail_msg("%s: %s is not behind %s", names[i].model, names[i].second, names[i].first);
        xt_net_destroy(net);
    }
}

/* Each description as a network of its own, whatever its channels: logits of the classes. */
static void all_describe_logits(void **state)
{
    (void)state;
    const struct xt_model_info *model = NULL;
    for (size_t i = 0; (model = xt_model_at(i)); i++) {
        struct xt_net *net = net_of(model->name, 68);
        assert_int_equal(net->output->c, 68);
        assert_int_equal(net->output->w, model->time_steps ? model->time_steps : 1);
        for (const struct xt_class_layer *layer = model->class_layers; layer->name; layer++) {
            char name[64];
            snprintf(name, sizeof name, "%s.weight", layer->name);
            assert_true(xt_net_find_param(net, name) >= 0);
        }
        xt_net_destroy(net);
    }
}

/* A file that has the net's parameters and says nothing of itself. */
static struct xt_weight_file file_of(const struct xt_net *net)
{
    struct xt_weight_file file = {.count = net->param_count};
    file.tensors = calloc(file.count, sizeof *file.tensors);
    assert_non_null(file.tensors);
    for (size_t i = 0; i < file.count; i++) {
        file.tensors[i].name = net->params[i].name;
        file.tensors[i].ndims = net->params[i].ndims;
        for (int k = 0; k < net->params[i].ndims; k++)
            file.tensors[i].dims[k] = net->params[i].dims[k];
    }
    return file;
}

static void weights_are_recognised_by_their_tensors(void **state)
{
    (void)state;
    struct xt_err err = {0};
    const struct xt_model_info *model = NULL;
    const struct xt_model_info *found = NULL;
    for (size_t i = 0; (model = xt_model_at(i)); i++) {
        struct xt_net *net = net_of(model->name, 37);
        struct xt_weight_file file = file_of(net);
        assert_int_equal(xt_model_recognise(&file, &found, &err), XT_OK);
        assert_ptr_equal(found, model);
        file.count--;
        assert_int_equal(xt_model_recognise(&file, &found, &err), XT_OK);
        assert_null(found);
        free(file.tensors);
        xt_net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_as_published),
        cmocka_unit_test(names_in_the_published_order),
        cmocka_unit_test(all_describe_logits),
        cmocka_unit_test(weights_are_recognised_by_their_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
