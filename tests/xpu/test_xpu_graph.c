/* What a graph can do on an XPU beside its passes. */
#include <stdlib.h>

#include "engine/executor.h"
#include "engine/selftest/selftest.h"
#include "support.h"

static void its_convolutions_run_alone(void **state)
{
    (void)state;
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    struct xt_err err;
    struct xt_device device;
    struct xt_params params = {0};
    struct xt_graph *graph = NULL;
    assert_int_equal(xt_device_open(&device, "xpu", 0, &err), XT_OK);
    const struct xt_graph_options options = {
        .device = &device, .params = &params, .batch = 3, .fuse = true};
    assert_int_equal(xt_graph_create(&graph, &options, &err), XT_OK);
    struct xt_tensor *logits = xt_selftest_small.describe(graph, NULL);
    if (xt_graph_build(graph, logits, &err) || xt_graph_convolutions_alone(graph, false, &err))
        fail_msg("%s", err.text);
    xt_graph_destroy(graph);
    xt_params_clear(&params);
    xt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_convolutions_run_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
