/* The device layer on the test double of a GPU (run through double.sh; skipped elsewhere). */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/kernels/own.h"
#include "engine/selftest/selftest.h"
#include "support.h"

static void need_double(void)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
}

static enum xt_status try_open(struct xt_device *device, const char *spec, struct xt_err *err)
{
    const struct xt_device_options options = {.spec = spec};
    return xt_device_open_with(device, &options, err);
}

static void open_xpu(struct xt_device *device, const char *spec)
{
    struct xt_err err = {0};
    if (try_open(device, spec, &err))
        fail_msg("%s", err.text);
}

/* Of a convolution alone: tests/convolution.c, which test_cache.sh runs. */
static void a_small_network_on_the_xpu_gives_right_numbers(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    struct xt_err err = {0};
    open_xpu(&device, "xpu");
    assert_int_equal(device.kind, XT_DEVICE_XPU);
    if (xt_selftest_device(&device, XT_F32, &err))
        fail_msg("%s", err.text);
    xt_device_close(&device);
}

static void the_xpu_says_its_true_name(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    open_xpu(&device, "xpu:0");
    assert_string_equal(device.xpu.backend, "OpenCL");
    assert_non_null(strstr(device.name, "xpu:0: "));
    assert_true(device.xpu.facts.memory > 0);
    assert_true(device.xpu.facts.allocation_max > 0);
    assert_true(device.xpu.facts.units > 0);
    assert_true(strlen(device.xpu.facts.driver) > 0);
    xt_device_close(&device);
}

static void the_xpu_opens_by_uuid_pci_address_and_part_of_the_name(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    open_xpu(&device, "xpu");
    char word[32];
    char spec[64];
    snprintf(word, sizeof word, "%.8s", device.xpu.facts.name);
    struct xt_uuid_text uuid = xt_uuid_format(&device.xpu.facts.uuid);
    xt_device_close(&device);
    snprintf(spec, sizeof spec, "xpu:%s", word);
    open_xpu(&device, spec);
    xt_device_close(&device);
    if (*uuid.text) {
        open_xpu(&device, uuid.text);
        xt_device_close(&device);
    }
}

static void an_xpu_that_is_not_there_is_an_error_that_lists_those_that_are(void **state)
{
    (void)state;
    need_double();
    static const char *const wrong[] = {"xpu:1", "xpu:Arc A770", "0000:99:00.0",
                                        "00000000-0000-0000-0000-000000000001"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct xt_device device;
        struct xt_err err = {0};
        assert_int_equal(try_open(&device, wrong[i], &err), XT_ERR_DEVICE);
        support_assert_error(&err, XT_ERR_DEVICE, "here xpu:0 is ");
        support_assert_error(&err, XT_ERR_DEVICE, wrong[i]);
    }
}

static void auto_takes_the_xpu_and_says_why(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    open_xpu(&device, "auto");
    assert_int_equal(device.kind, XT_DEVICE_XPU);
    assert_non_null(strstr(device.chosen, "the only one"));
    xt_device_close(&device);
}

static void a_process_does_not_load_the_other_build_too(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    struct xt_err err = {0};
    open_xpu(&device, "xpu");
    xt_device_close(&device);
    assert_int_equal(try_open(&device, "cpu", &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "a process of its own");
}

/* --- memory
 * -------------------------------------------------------------------------------------*/
enum { COUNT = 1000 };

static dnnl_memory_desc_t flat(dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {COUNT};
    dnnl_memory_desc_t md = NULL;
    assert_int_equal(xt_dnnl.memory_desc_create_with_tag(&md, 1, dims, type, dnnl_a), 0);
    return md;
}

static void what_is_written_to_device_memory_is_read_back_and_counted(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    struct xt_device_memory memory;
    float numbers[COUNT];
    float back[COUNT] = {0};
    open_xpu(&device, "xpu");
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    dnnl_memory_desc_t md = flat(dnnl_f32);
    assert_int_equal(xt_device_memory_create(&device, md, XT_ON_DEVICE, "it", &memory, NULL), 0);
    assert_int_equal(
        xt_device_memory_write(&memory, numbers, sizeof numbers, XT_CAUSE_WEIGHTS, NULL), 0);
    assert_int_equal(device.traffic.up[XT_CAUSE_WEIGHTS], sizeof numbers);
    assert_int_equal(device.traffic.down[XT_CAUSE_WEIGHTS], 0);
    assert_int_equal(xt_device_memory_read(&memory, back, sizeof back, XT_CAUSE_LOGITS, NULL), 0);
    assert_memory_equal(back, numbers, sizeof back);
    assert_int_equal(device.traffic.down[XT_CAUSE_LOGITS], sizeof numbers);
    assert_int_equal(device.traffic.up[XT_CAUSE_LOGITS], 0);
    void *mapped = NULL;
    assert_int_equal(xt_device_memory_map(&memory, XT_CAUSE_OTHER, &mapped, NULL), 0);
    assert_memory_equal(mapped, numbers, sizeof numbers);
    assert_int_equal(xt_device_memory_unmap(&memory, false, XT_CAUSE_OTHER, NULL), 0);
    assert_int_equal(device.traffic.up[XT_CAUSE_OTHER], 0);
    /* A part of it: the rest stays. */
    numbers[0] = -1;
    assert_int_equal(
        xt_device_memory_write(&memory, numbers, sizeof *numbers, XT_CAUSE_WEIGHTS, NULL), 0);
    assert_int_equal(device.traffic.up[XT_CAUSE_WEIGHTS], sizeof numbers + sizeof *numbers);
    assert_int_equal(xt_device_memory_read(&memory, back, sizeof back, XT_CAUSE_LOGITS, NULL), 0);
    assert_memory_equal(back, numbers, sizeof back);
    xt_device_memory_destroy(&memory);
    xt_dnnl.memory_desc_destroy(md);
    xt_device_close(&device);
}

/* A batch slot: bytes on the host, floats on the device, and only the bytes cross. */
static void a_transfer_uploads_one_way_and_converts(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    struct xt_device_memory host, inside, result;
    struct xt_transfer up, down;
    open_xpu(&device, "xpu");
    dnnl_memory_desc_t bytes = flat(dnnl_u8);
    dnnl_memory_desc_t floats = flat(dnnl_f32);
    assert_int_equal(xt_device_memory_create(&device, bytes, XT_ON_HOST, "slot", &host, NULL), 0);
    assert_int_equal(xt_device_memory_create(&device, floats, XT_ON_DEVICE, "in", &inside, NULL),
                     0);
    assert_int_equal(xt_device_memory_create(&device, floats, XT_ON_HOST, "out", &result, NULL), 0);
    assert_int_equal(xt_transfer_create(&device, &host, &inside, XT_CAUSE_IMAGES, &up, NULL), 0);
    assert_int_equal(xt_transfer_create(&device, &inside, &result, XT_CAUSE_LOGITS, &down, NULL),
                     0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            ((unsigned char *)host.host)[i] = (unsigned char)(i * 7 + round);
        assert_int_equal(xt_transfer_run(&up, NULL, NULL), 0);
        assert_int_equal(xt_transfer_run(&down, NULL, NULL), 0);
        assert_int_equal(xt_dnnl.stream_wait(device.stream), 0);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal((int)((float *)result.host)[i], (unsigned char)(i * 7 + round));
    }
    assert_int_equal(device.traffic.up[XT_CAUSE_IMAGES], 3 * COUNT);
    assert_int_equal(device.traffic.down[XT_CAUSE_IMAGES], 0);
    assert_int_equal(device.traffic.down[XT_CAUSE_LOGITS], 3 * COUNT * sizeof(float));
    xt_transfer_destroy(&up);
    xt_transfer_destroy(&down);
    xt_device_memory_destroy(&host);
    xt_device_memory_destroy(&inside);
    xt_device_memory_destroy(&result);
    xt_dnnl.memory_desc_destroy(bytes);
    xt_dnnl.memory_desc_destroy(floats);
    xt_device_close(&device);
}

static void too_large_a_memory_is_an_error_of_memory(void **state)
{
    (void)state;
    need_double();
    struct xt_device device;
    struct xt_device_memory memory;
    struct xt_err err = {0};
    const dnnl_dims_t dims = {(int64_t)1 << 42};
    dnnl_memory_desc_t md = NULL;
    open_xpu(&device, "xpu");
    assert_int_equal(xt_dnnl.memory_desc_create_with_tag(&md, 1, dims, dnnl_f32, dnnl_a), 0);
    assert_int_equal(
        xt_device_memory_create(&device, md, XT_ON_DEVICE, "a huge tensor", &memory, &err),
        XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, "a huge tensor");
    xt_dnnl.memory_desc_destroy(md);
    xt_device_close(&device);
}

static void own_kernels_run_between_those_of_onednn(void **state)
{
    (void)state;
    need_double();
    static const char source[] =
        "kernel void more(global float *x, int by) { x[get_global_id(0)] += by; }";
    static const size_t global[] = {4, 1}, local[] = {4, 1};
    struct xt_device device;
    struct xt_err err = {0};
    struct xt_device_memory memory;
    struct xt_own_kernel *kernel = NULL;
    float numbers[4] = {1, 2, 3, 4};
    void *address = NULL;
    open_xpu(&device, "xpu");
    const struct xt_own_program *program = xt_own_program(&device, "test", source, "");
    assert_non_null(program);
    assert_ptr_equal(xt_own_program(&device, "test", source, ""), program);
    assert_null(xt_own_program(&device, "test", source, "-Dget_global_id=nothing_of_that_name"));
    assert_int_equal(xt_device_memory_create_bytes(&device, sizeof numbers, XT_ON_DEVICE, "numbers",
                                                   &memory, &err),
                     XT_OK);
    assert_int_equal(xt_device_memory_write(&memory, numbers, sizeof numbers, XT_CAUSE_OTHER, &err),
                     XT_OK);
    assert_int_equal(xt_dnnl.memory_get_data_handle(memory.memory, &address), dnnl_success);
    assert_int_equal(xt_own_kernel_create(&device, program, "none", &kernel, &err), XT_ERR_DEVICE);
    xt_own_kernel_destroy(kernel);
    assert_int_equal(xt_own_kernel_create(&device, program, "more", &kernel, &err), XT_OK);
    assert_int_equal(xt_own_kernel_point(kernel, 0, address, &err), XT_OK);
    assert_int_equal(xt_own_kernel_number(kernel, 1, 10, &err), XT_OK);
    assert_int_equal(xt_own_kernel_launch(kernel, global, local, &err), XT_OK);
    assert_int_equal(xt_device_memory_read(&memory, numbers, sizeof numbers, XT_CAUSE_OTHER, &err),
                     XT_OK);
    for (int i = 0; i < 4; i++)
        assert_true(numbers[i] == (float)(11 + i));
    xt_own_kernel_destroy(kernel);
    xt_device_memory_destroy(&memory);
    xt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_the_xpu_and_says_why),
        cmocka_unit_test(a_small_network_on_the_xpu_gives_right_numbers),
        cmocka_unit_test(the_xpu_says_its_true_name),
        cmocka_unit_test(the_xpu_opens_by_uuid_pci_address_and_part_of_the_name),
        cmocka_unit_test(an_xpu_that_is_not_there_is_an_error_that_lists_those_that_are),
        cmocka_unit_test(a_process_does_not_load_the_other_build_too),
        cmocka_unit_test(what_is_written_to_device_memory_is_read_back_and_counted),
        cmocka_unit_test(a_transfer_uploads_one_way_and_converts),
        cmocka_unit_test(too_large_a_memory_is_an_error_of_memory),
        cmocka_unit_test(own_kernels_run_between_those_of_onednn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
