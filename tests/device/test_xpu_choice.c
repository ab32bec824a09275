/* Which XPU a user means, from lists that stand for machines. */
#include "device/xpu.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

static struct xt_xpu gpu(const char *name, bool integrated, uint64_t memory, uint32_t bus,
                         uint8_t id)
{
    struct xt_xpu xpu = {.zero_index = -1};
    snprintf(xpu.facts.name, sizeof xpu.facts.name, "%s", name);
    xpu.facts.integrated = integrated;
    xpu.facts.memory = memory;
    xpu.facts.pci = (struct xt_pci_address){.known = true, .bus = bus};
    xpu.facts.uuid.known = true;
    memset(xpu.facts.uuid.bytes, id, sizeof xpu.facts.uuid.bytes);
    return xpu;
}

static struct xt_xpus machine(void)
{
    struct xt_xpus list = {.count = 4};
    list.items[0] = gpu("Intel(R) UHD Graphics 770", true, 60, 0, 0x11);
    list.items[1] = gpu("Intel(R) Arc(TM) A380 Graphics", false, 6, 3, 0x22);
    list.items[2] = gpu("Intel(R) Arc(TM) A770 Graphics", false, 16, 4, 0x33);
    list.items[3] = gpu("Intel(R) Arc(TM) A770 Graphics", false, 16, 0x83, 0x44);
    return list;
}

static void one_that_cannot_be_opened_is_passed_over_and_named(void **state)
{
    (void)state;
    struct xt_err err = {0};
    int index = -1;
    struct xt_xpus list = machine();
    snprintf(list.items[2].broken, sizeof list.items[2].broken, "its driver says no");
    assert_int_equal(xt_xpu_choose(&list, "xpu", &index, &err), XT_OK);
    assert_int_equal(index, 3);
    assert_int_equal(xt_xpu_choose(&list, "xpu:3", &index, &err), XT_OK);
    assert_int_equal(index, 3);
    assert_int_equal(xt_xpu_choose(&list, "xpu:2", &index, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "this XPU cannot be opened; here xpu:0 is ");
    support_assert_error(&err, XT_ERR_DEVICE, "its driver says no");
    assert_int_equal(xt_xpu_working(&list), 3);
    for (int i = 0; i < list.count; i++)
        snprintf(list.items[i].broken, sizeof list.items[i].broken, "its driver says no");
    assert_int_equal(xt_xpu_choose(&list, "xpu", &index, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "no XPU can be opened");
    assert_int_equal(xt_xpu_working(&list), 0);
}

static void a_discrete_one_beside_an_integrated_one_is_named(void **state)
{
    (void)state;
    char text[160];
    struct xt_xpus list = machine();
    xt_xpu_better(&list, 0, text, sizeof text);
    assert_string_equal(text, "xpu:2 is Intel(R) Arc(TM) A770 Graphics");
    xt_xpu_better(&list, 1, text, sizeof text);
    assert_string_equal(text, "");
    for (int i = 1; i < list.count; i++)
        snprintf(list.items[i].broken, sizeof list.items[i].broken, "its driver says no");
    xt_xpu_better(&list, 0, text, sizeof text);
    assert_string_equal(text, "");
}

static void matrix_engines_are_known_by_architecture(void **state)
{
    (void)state;
    const struct {
        uint32_t version, device_id;
        enum xt_yes_no matrix;
    } cases[] = {
        {12u << 22 | 55u << 14, 0, XT_YES},
        {12u << 22 | 0u << 14, 0, XT_NO},
        {12u << 22 | 71u << 14, 0, XT_NO},
        {12u << 22 | 74u << 14, 0, XT_YES},
        {20u << 22 | 1u << 14, 0, XT_YES},
        {0, 0x56a0, XT_YES},
        {0, 0x9a49, XT_NO},
        {0, 0x7d55, XT_NOT_KNOWN},
        {99u << 22, 0xffff, XT_NOT_KNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct xt_gpu_facts facts = {.ip_version = cases[i].version,
                                           .device_id = cases[i].device_id};
        assert_int_equal(xt_xpu_architecture(&facts).matrix, cases[i].matrix);
    }
    assert_true(xt_xpu_is_before("3.5.1", "3.6") && !xt_xpu_is_before("3.13.2", "3.6"));
}

static void each_spelling_finds_its_device(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int index;
    } cases[] = {
        {"xpu", 2}, /* discrete before integrated, then by memory, then the first */
        {"xpu:0", 0},
        {"xpu:3", 3},
        {"xpu:A380", 1},
        {"xpu:uhd graphics", 0},
        {"xpu:0000:04:00.0", 2},
        {"xpu:83:00.0", 3},
        {"0000:03:00.0", 1},
        {"xpu:22222222-2222-2222-2222-222222222222", 1},
        {"44444444-4444-4444-4444-444444444444", 3},
    };
    const struct xt_xpus list = machine();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_err err = {0};
        int index = -1;
        if (xt_xpu_choose(&list, cases[i].spec, &index, &err))
            fail_msg("%s", err.text);
        assert_int_equal(index, cases[i].index);
    }
}

static void what_fits_none_or_several_is_refused_and_names_what_is_there(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *why;
    } cases[] = {
        {"xpu:4", "there is no XPU of that number"},
        {"xpu:A770", "fits more than one XPU"},
        {"xpu:Max 1550", "no XPU has that name"},
        {"xpu:05:00.0", "no XPU has that name, UUID or PCI address"},
        {"55555555-5555-5555-5555-555555555555", "no XPU has that name"},
        {"xpu:", "no XPU has that name"},
    };
    const struct xt_xpus list = machine();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_err err = {0};
        int index = -1;
        assert_int_equal(xt_xpu_choose(&list, cases[i].spec, &index, &err), XT_ERR_DEVICE);
        support_assert_error(&err, XT_ERR_DEVICE, cases[i].why);
        support_assert_error(&err, XT_ERR_DEVICE,
                             "xpu:1 is Intel(R) Arc(TM) A380 Graphics (0000:03:00.0)");
    }
}

static void the_integrated_one_is_taken_where_there_is_no_other(void **state)
{
    (void)state;
    struct xt_xpus list = machine();
    int index = -1;
    list.count = 1;
    assert_int_equal(xt_xpu_choose(&list, "xpu", &index, NULL), XT_OK);
    assert_int_equal(index, 0);
}

static void an_empty_machine_has_no_xpu(void **state)
{
    (void)state;
    const struct xt_xpus list = {0};
    struct xt_err err = {0};
    int index = -1;
    assert_int_equal(xt_xpu_choose(&list, "xpu", &index, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "there is no XPU here");
}

static void architectures_are_told_by_version_and_by_device(void **state)
{
    (void)state;
    struct xt_gpu_facts arc = {.ip_version = 12u << 22 | 55u << 14 | 8};
    struct xt_gpu_facts old = {.device_id = 0x56a0};
    struct xt_gpu_facts battlemage = {.ip_version = 20u << 22 | 1u << 14};
    struct xt_gpu_facts stranger = {.ip_version = 99u << 22};
    assert_string_equal(xt_xpu_architecture(&arc).name, "Xe-HPG");
    assert_string_equal(xt_xpu_architecture(&old).name, "Xe-HPG");
    assert_string_equal(xt_xpu_architecture(&battlemage).name, "Xe2");
    assert_null(xt_xpu_architecture(&stranger).name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_cannot_be_opened_is_passed_over_and_named),
        cmocka_unit_test(a_discrete_one_beside_an_integrated_one_is_named),
        cmocka_unit_test(matrix_engines_are_known_by_architecture),
        cmocka_unit_test(each_spelling_finds_its_device),
        cmocka_unit_test(what_fits_none_or_several_is_refused_and_names_what_is_there),
        cmocka_unit_test(the_integrated_one_is_taken_where_there_is_no_other),
        cmocka_unit_test(an_empty_machine_has_no_xpu),
        cmocka_unit_test(architectures_are_told_by_version_and_by_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
