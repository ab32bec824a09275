/* The memory of an XPU on the test double (run through double.sh; skipped elsewhere): what the test
 * says that the device has is what the plan goes by. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system/thread.h"
#include "device/pinned.h"
#include "support.h"
#include "infer/network/auto_batch.h"
#include "infer/network/network.h"
#include "infer/network/network_build.h"
#include "infer/network/network_plan.h"

/* Small enough for the double; the kernels are those of test_steps.sh. */
enum { BATCH = 4 };

static const struct xt_infer_settings settings = {
    .network.model = "lprnet",
    .device.name = "xpu",
    .device.threads = 1,
    .network.fuse = true,
    .device.pin_memory = true,
    .device.kernel_cache = true,
};

/* A device with so much memory in all and in one piece; 0: as it is. */
static void open_network(struct xt_network *network, double memory, double piece)
{
    struct xt_err err = {0};
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    if (xt_network_open(network, &settings.network, &settings.device, &err))
        fail_msg("%s", err.text);
    network->training = (struct xt_training_arrays){.states = 2, .slots = 4};
    if (memory > 0)
        network->device.xpu.facts.memory = (uint64_t)memory;
    if (piece > 0)
        network->device.xpu.facts.allocation_max = (uint64_t)piece;
}

static struct xt_memory_plan plan_of(struct xt_network *network, int batch)
{
    struct xt_memory_plan plan;
    struct xt_err err = {0};
    if (xt_network_plan(network, &settings.network, batch, true, &plan, &err))
        fail_msg("%s", err.text);
    return plan;
}

static int find(struct xt_network *network)
{
    int batch = 0;
    struct xt_err err = {0};
    if (xt_auto_batch_find(network, &settings.network, true, XT_BATCH_MAX, &batch, &err))
        fail_msg("%s", err.text);
    return batch;
}

static void auto_takes_the_largest_batch_that_fits(void **state)
{
    (void)state;
    struct xt_network network;
    open_network(&network, 2e9, 0);
    int batch = find(&network);
    assert_true(batch > 64);
    assert_int_equal(batch % 32, 0);
    struct xt_memory_plan fits = plan_of(&network, batch);
    struct xt_memory_plan next = plan_of(&network, batch + 32);
    /* A fifth stays for others, whose use cannot be read here. */
    assert_true(fits.device.all <= 0.8 * 2e9);
    assert_true(next.device.all > 0.8 * 2e9);
    /* A graph for evaluation, and what stands behind pinned slots, are counted: with SYCL nothing
     * does. */
    double behind = fits.device.parts[XT_MEMORY_PINNED];
    assert_true(fits.device.parts[XT_MEMORY_EVALUATION] > 0);
    assert_true(xt_pinned_is_there() ? behind == 0 : behind >= 8.0 * batch * 24 * 94 * 3);
    xt_network_clear(&network);
}

/* What others have cannot be read; what this process has, the kernel counts. */
static void what_this_process_has_is_not_free(void **state)
{
    static const char text[] = "drm-driver: xe\ndrm-client-id: 1\ndrm-pdev: 0000:03:00.0\n"
                               "drm-resident-vram0: 1500000000\n";
    struct xt_network network;
    open_network(&network, 2e9, 0);
    int all = find(&network);
    assert_int_equal(xt_file_make_folder(support_path(*state, "proc/self/fdinfo"), NULL), XT_OK);
    support_write_file(support_path(*state, "proc/self/fdinfo/4"), text, sizeof text - 1);
    network.device.figures = (struct xt_figures){.root = *state};
    network.device.xpu.facts.pci = (struct xt_pci_address){.known = true, .bus = 3};
    struct xt_memory_plan plan = plan_of(&network, BATCH);
    assert_true(plan.device.own == 1.5e9);
    assert_true(plan.device.free == 0.5e9);
    assert_true(*plan.device.why);
    assert_true(find(&network) < all);
    xt_network_clear(&network);
}

static void auto_keeps_every_tensor_within_one_allocation(void **state)
{
    (void)state;
    struct xt_network network;
    struct xt_memory_plan plan;
    struct xt_err err = {0};
    open_network(&network, 64e9, 100e6);
    int batch = find(&network);
    assert_true(batch > 32);
    plan_of(&network, batch);
    assert_int_equal(xt_network_plan(&network, &settings.network, batch + 32, true, &plan, &err),
                     XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, "0.10 GB in one piece, and xpu:0: ");
    support_assert_error(&err, XT_ERR_MEMORY, " takes at most 0.10 GB");
    xt_network_clear(&network);
}

static void a_batch_that_does_not_fit_is_refused_with_one_that_does(void **state)
{
    (void)state;
    static const struct {
        double memory, piece;
        const char *parts[4];
    } cases[] = {
        {1e9,
         0,
         {"--batch 4096 needs about ",
          " has 1.00 GB, of which 1.00 GB are free (the largest tensors: ", "(value) ",
          " fits, which --batch auto finds"}},
        {64e9,
         50e6,
         {" GB in one piece, and xpu:0: ", " takes at most 0.05 GB; --batch ", ": 0.11 GB in one",
          " fits, which --batch auto finds"}},
        {1e6, 0, {"--batch 4096 needs about ", "0.00 GB", "(value) ", "; not even one image fits"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_network network;
        struct xt_err err = {0};
        open_network(&network, cases[i].memory, cases[i].piece);
        assert_int_equal(xt_network_build(&network, &settings.network, 4096, true, &err),
                         XT_ERR_MEMORY);
        for (int k = 0; k < 4; k++)
            support_assert_error(&err, XT_ERR_MEMORY, cases[i].parts[k]);
        xt_network_clear(&network);
    }
}

static void auto_is_refused_where_the_memory_cannot_be_read(void **state)
{
    (void)state;
    struct xt_network network;
    struct xt_err err = {0};
    int batch = 0;
    open_network(&network, 0, 0);
    network.device.xpu.facts.memory = 0;
    assert_int_equal(xt_auto_batch_take(&network, &settings.network, true, 100, "", &batch, &err),
                     XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, " has cannot be read; give --batch N");
    xt_network_clear(&network);
}

/* A driver would evict, not refuse. */
static void no_more_is_allocated_than_was_free(void **state)
{
    (void)state;
    struct xt_network network;
    struct xt_device_memory some, more;
    struct xt_err err = {0};
    open_network(&network, 0, 0);
    xt_device_limit_memory(&network.device, 1e6);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(xt_device_memory_create_bytes(&network.device, 600000, XT_ON_DEVICE,
                                                       "some", &some, &err),
                         XT_OK);
        assert_int_equal(xt_device_memory_create_bytes(&network.device, 600000, XT_ON_DEVICE,
                                                       "more", &more, &err),
                         XT_ERR_MEMORY);
        support_assert_error(&err, XT_ERR_MEMORY, "that were free for it; a smaller --batch");
        xt_device_memory_destroy(&some);
    }
    assert_int_equal(network.device.memory_used, 0);
    assert_int_equal(xt_network_build(&network, &settings.network, BATCH, true, &err), XT_OK);
    assert_true(network.device.memory_used > 1000000);
    xt_network_clear(&network);
}

/* The host's memory, in which references of the run's batch have no room. */
static void a_smaller_graph_is_checked_where_the_host_has_little_memory(void **state)
{
    (void)state;
    struct xt_network network;
    struct xt_err err = {0};
    double room = 1e5;
    open_network(&network, 0, 0);
    if (xt_network_build(&network, &settings.network, BATCH, true, &err))
        fail_msg("%s", err.text);
    assert_int_equal(xt_device_check_batch(network.graph, 1e12), BATCH);
    assert_int_equal(xt_device_check_batch(network.graph, room), 0);
    while (xt_device_check_batch(network.graph, room) < 1)
        room *= 1.1;
    assert_in_range(xt_device_check_batch(network.graph, room), 1, BATCH - 1);
    /* Not even one: a warning, and no verdict. */
    network.processes = (int)(100 * (double)xt_thread_memory_available() / room);
    if (xt_network_check_device(&network, &settings.network, &settings.device, NULL, true, &err))
        fail_msg("%s", err.text);
    assert_int_equal(network.device_checked, 0);
    network.processes = 0;
    /* The smaller graph trains with the network's parameters. */
    struct xt_device_verdict verdict = {.when = 0};
    struct xt_graph *smaller = NULL;
    if (xt_network_build_beside(&network, &settings.network, 1, true, &smaller, &err) ||
        xt_device_check_ops(smaller, &verdict, &err))
        fail_msg("%s", err.text);
    assert_true(verdict.passes > 0);
    xt_graph_destroy(smaller);
    xt_network_clear(&network);
}

/* ---- a network in several allocations ---- */

struct outcome {
    size_t segments;
    size_t bytes;
    size_t logit_count;
    size_t grad_count;
    float *logits;
    float *grads;
};

static void copy(float **out, const float *from, size_t count)
{
    struct xt_err err = {0};
    assert_int_equal(xt_mem_calloc(out, count, sizeof **out, "numbers", &err), XT_OK);
    memcpy(*out, from, count * sizeof **out);
}

/* One pass forward and backward. */
static struct outcome run(double piece)
{
    struct xt_network network;
    struct xt_err err = {0};
    uint8_t pixels[BATCH * 24 * 94 * 3];
    open_network(&network, 0, piece);
    if (xt_network_build(&network, &settings.network, BATCH, true, &err))
        fail_msg("%s", err.text);
    struct xt_graph *graph = network.graph;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)xt_rng_at(1, 0, i);
    graph->pass = (struct xt_graph_pass){.pixels = pixels, .count = BATCH, .training = true};
    if (xt_graph_forward(graph, &err))
        fail_msg("%s", err.text);
    struct outcome out = {.segments = graph->plan.segments,
                          .bytes = graph->plan.bytes,
                          .logit_count = xt_tensor_count(graph->logits),
                          .grad_count = network.params.value_floats};
    copy(&out.logits, xt_graph_logits(graph), out.logit_count);
    memcpy(xt_graph_logits_grad(graph), out.logits, out.logit_count * sizeof(float));
    if (xt_graph_backward(graph, &err) || xt_params_pull_grads(&network.params, &err))
        fail_msg("%s", err.text);
    copy(&out.grads, network.params.grads, out.grad_count);
    xt_network_clear(&network);
    return out;
}

static void a_network_in_small_allocations_gives_the_same_numbers(void **state)
{
    (void)state;
    struct outcome one = run(0);
    struct outcome several = run(6e6);
    assert_int_equal(one.segments, 1);
    assert_true(several.segments > 4);
    assert_true(several.bytes < 2 * one.bytes);
    assert_memory_equal(several.logits, one.logits, one.logit_count * sizeof(float));
    assert_memory_equal(several.grads, one.grads, one.grad_count * sizeof(float));
    free(one.logits);
    free(one.grads);
    free(several.logits);
    free(several.grads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_the_largest_batch_that_fits),
        cmocka_unit_test_setup_teardown(what_this_process_has_is_not_free, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test(auto_keeps_every_tensor_within_one_allocation),
        cmocka_unit_test(a_batch_that_does_not_fit_is_refused_with_one_that_does),
        cmocka_unit_test(auto_is_refused_where_the_memory_cannot_be_read),
        cmocka_unit_test(no_more_is_allocated_than_was_free),
        cmocka_unit_test(a_smaller_graph_is_checked_where_the_host_has_little_memory),
        cmocka_unit_test(a_network_in_small_allocations_gives_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
