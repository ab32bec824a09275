/* Checkpoints of a network whose layers are called as the trainer's arrays are. */
#include "runs/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "support.h"

enum { VALUES = 3 };

static void add_bias(struct xt_network *network, const char *name)
{
    struct xt_err err;
    struct xt_param param = {
        .role = XT_PARAM_BIAS, .ndims = 1, .dims = {VALUES}, .file_dims = {VALUES}};
    snprintf(param.name, sizeof param.name, "%s", name);
    assert_true(xt_params_add(&network->params, &param, &err) >= 0);
}

static void open_network(struct xt_network *network)
{
    struct xt_err err;
    *network = (struct xt_network){.batch = 1};
    assert_int_equal(xt_device_open(&network->device, "cpu", 1, &err), XT_OK);
    add_bias(network, "square_conv.bias");
    add_bias(network, "ema_head.bias");
    add_bias(network, "momentum.bias");
    add_bias(network, "conv.bias");
    xt_params_lay_out(&network->params);
    assert_int_equal(xt_params_allocate(&network->params, false, &err), XT_OK);
}

static void layers_called_as_arrays_are_come_back(void **state)
{
    struct xt_network network;
    struct xt_err err = {0};
    struct xt_checkpoint_file from;
    const struct xt_run_lister nobody = {0};
    open_network(&network);
    size_t count = network.params.value_floats;
    float *square = calloc(count, sizeof *square);
    assert_non_null(square);
    for (size_t i = 0; i < count; i++) {
        network.params.values[i] = (float)i;
        square[i] = 0.5f * (float)i;
    }
    const struct xt_checkpoint_extra extra = {
        .arrays = {{.name = "square", .view = {.values = square}}}, .array_count = 1};
    const struct xt_checkpoint saved = {.step = 3, .steps = 5, .samples = 7};
    assert_int_equal(xt_checkpoint_save(&saved, &extra, &nobody, &network, *state, 1, &err), XT_OK);
    for (size_t i = 0; i < count; i++)
        network.params.values[i] = square[i] = -1;
    const struct xt_path path = xt_checkpoint_path(*state, 3);
    assert_int_equal(xt_checkpoint_open(&from, path.text, &err), XT_OK);
    if (xt_checkpoint_load(&from, &nobody, &network, extra.arrays, 1, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < network.params.count; i++) {
        size_t at = network.params.items[i].offset;
        for (size_t k = at; k < at + VALUES; k++) {
            assert_true(network.params.values[k] == (float)k);
            assert_true(square[k] == 0.5f * (float)k);
        }
    }
    xt_checkpoint_close(&from);
    free(square);
    xt_network_clear(&network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_called_as_arrays_are_come_back, support_make_folder,
                                        support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
