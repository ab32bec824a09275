/* What the kernel counts for this process on a GPU: texts as i915 and xe write them, odd ones, and
 * folders that stand for machines. */
#include "device/gpu/fdinfo.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

static void write_text(const char *root, const char *name, const char *text)
{
    char folder[] = "proc/self/fdinfo";
    struct xt_err err = {0};
    assert_int_equal(xt_file_make_folder(support_path(root, folder), &err), XT_OK);
    support_write_file(support_path(root, name), text, strlen(text));
}

static const struct xt_pci_address arc = {.known = true, .bus = 3};

static bool memory_of(const char *root, double *bytes)
{
    struct xt_fdinfo info;
    xt_fdinfo_read(root, &arc, &info);
    return xt_fdinfo_memory(&info, bytes);
}

static void the_memory_of_each_client_counts_once(void **state)
{
    double bytes = 0;
    static const char client[] = "pos:\t0\ndrm-driver:\txe\ndrm-client-id:\t7\n"
                                 "drm-pdev:\t0000:03:00.0\ndrm-total-vram0:\t9000 KiB\n"
                                 "drm-resident-vram0:\t2048 KiB\ndrm-resident-gtt:\t5 MiB\n";
    write_text(*state, "proc/self/fdinfo/0", "pos:\t0\nflags:\t02\n");
    write_text(*state, "proc/self/fdinfo/5", client);
    write_text(*state, "proc/self/fdinfo/6", client);
    write_text(*state, "proc/self/fdinfo/7",
               "drm-client-id: 8\ndrm-pdev: 0000:03:00.0\ndrm-resident-local0: 1048576\n");
    write_text(*state, "proc/self/fdinfo/8",
               "drm-client-id: 9\ndrm-pdev: 0000:04:00.0\ndrm-resident-local0: 100 MiB\n");
    assert_true(memory_of(*state, &bytes));
    assert_true(bytes == 3.0 * 1024 * 1024);
}

static void an_integrated_gpu_has_the_hosts(void **state)
{
    double bytes = 0;
    write_text(*state, "proc/self/fdinfo/5",
               "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\ndrm-resident-system0: 3 MiB\n");
    assert_true(memory_of(*state, &bytes));
    assert_true(bytes == 3.0 * 1024 * 1024);
}

static void a_kernel_that_does_not_count_says_nothing(void **state)
{
    double bytes = 0;
    struct xt_fdinfo info;
    const struct xt_pci_address unknown = {0};
    assert_false(memory_of(*state, &bytes));
    write_text(*state, "proc/self/fdinfo/5", "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\n");
    assert_false(memory_of(*state, &bytes));
    xt_fdinfo_read("", &unknown, &info);
    assert_int_equal(info.count, 0);
}

/* A discrete GPU on which nothing is yet has not what lies in the host's memory. */
static void nothing_on_a_discrete_gpu_is_not_the_hosts_memory(void **state)
{
    double bytes = 0;
    write_text(*state, "proc/self/fdinfo/5",
               "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\ndrm-resident-vram0: 0\n"
               "drm-resident-gtt: 7 MiB\n");
    assert_false(memory_of(*state, &bytes));
}

/* All tiles together, the older keys if the newer are missing, and i915's stolen part. */
static void every_region_counts_by_the_best_key_that_is_told(void **state)
{
    double bytes = 0;
    write_text(*state, "proc/self/fdinfo/5",
               "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\ndrm-total-vram0: 8 MiB\n"
               "drm-memory-vram0: 4 MiB\ndrm-total-vram1: 2 MiB\ndrm-resident-stolen-local0: 1 "
               "MiB\ndrm-shared-vram0: 64 MiB\ndrm-memory-system0: 32 MiB\n");
    assert_true(memory_of(*state, &bytes));
    assert_true(bytes == 7.0 * 1024 * 1024);
}

/* ---- engines ---- */

static void parse(struct xt_fdinfo *info, int index, const char *text)
{
    assert_true(xt_fdinfo_parse(text, strlen(text), &info->clients[index]));
    info->count = index + 1;
}

#define OF(id) "drm-client-id: " id "\ndrm-pdev: 0000:03:00.0\n"

static void i915_counts_nanoseconds(void **state)
{
    (void)state;
    double share = 0;
    struct xt_fdinfo before = {.when = 1000000000};
    struct xt_fdinfo now = {.when = 2000000000};
    parse(&before, 0, OF("1") "drm-engine-render: 5 ns\ndrm-engine-compute: 100000000 ns\n");
    parse(&now, 0,
          OF("1") "drm-engine-render: 5 ns\ndrm-engine-compute: 850000000 ns\n"
                  "drm-engine-copy: 990000000 ns\n");
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_float_equal((float)share, 0.75F, 1e-6);
    /* The same time, of two engines. */
    now.clients[0].engines.items[1].value[XT_FDINFO_CAPACITY] = 2;
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_float_equal((float)share, 0.375F, 1e-6);
}

static void xe_counts_cycles_beside_a_clock_of_its_own(void **state)
{
    (void)state;
    double share = 0;
    struct xt_fdinfo before = {.when = 1};
    struct xt_fdinfo now = {.when = 2};
    parse(&before, 0, OF("1") "drm-cycles-ccs: 1000\ndrm-total-cycles-ccs: 100000\n");
    parse(&now, 0,
          OF("1") "drm-cycles-ccs: 5000\ndrm-total-cycles-ccs: 108000\n"
                  "drm-engine-capacity-ccs: 1\ndrm-cycles-bcs: 9000\n"
                  "drm-total-cycles-bcs: 108000\n");
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_float_equal((float)share, 0.5F, 1e-6);
}

static void clients_add_up_and_one_that_is_new_began_at_0(void **state)
{
    (void)state;
    double share = 0;
    struct xt_fdinfo before = {.when = 1000000000};
    struct xt_fdinfo now = {.when = 2000000000};
    parse(&before, 0, OF("1") "drm-engine-compute: 900000000 ns\n");
    parse(&before, 1, OF("2") "drm-engine-compute: 500000000 ns\n");
    parse(&now, 0, OF("1") "drm-engine-compute: 1100000000 ns\n");
    parse(&now, 1, OF("3") "drm-engine-compute: 300000000 ns\n");
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_float_equal((float)share, 0.5F, 1e-6);
}

static void counters_that_stand_still_or_go_back_make_no_figure_up(void **state)
{
    (void)state;
    double share = 1;
    struct xt_fdinfo before = {.when = 1000000000};
    struct xt_fdinfo now = {.when = 2000000000};
    parse(&before, 0, OF("1") "drm-engine-compute: 0 ns\n");
    parse(&now, 0, OF("1") "drm-engine-compute: 0 ns\n");
    assert_false(xt_fdinfo_busy(&before, &now, &share));
    parse(&before, 0, OF("1") "drm-engine-compute: 700 ns\n");
    parse(&now, 0, OF("1") "drm-engine-compute: 600 ns\n");
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_true(share == 0);
    assert_false(xt_fdinfo_busy(&now, &now, &share));
    parse(&now, 0, OF("1") "drm-engine-compute: 18446744073709551615 ns\n");
    assert_true(xt_fdinfo_busy(&before, &now, &share));
    assert_true(share == 1);
}

/* ---- texts that no kernel writes ---- */

static void odd_texts_are_no_figures(void **state)
{
    (void)state;
    static const char *const values[] = {
        "",
        "-5 KiB",
        "nan",
        "inf KiB",
        "0x10",
        "5 TiB",
        "5 kib",
        "1e9",
        "KiB",
        "5 KiB x",
        "99999999999999999999999 KiB",
        "18446744073709551615 GiB",
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[256];
        double bytes = 0;
        struct xt_fdinfo info = {0};
        snprintf(text, sizeof text, OF("1") "drm-resident-vram0: %s\ndrm-engine-compute: %s\n",
                 values[i], values[i]);
        parse(&info, 0, text);
        assert_int_equal(info.clients[0].regions.count, 0);
        assert_int_equal(info.clients[0].engines.count, 0);
        assert_false(xt_fdinfo_memory(&info, &bytes));
    }
}

static void what_names_no_client_or_no_device_is_none(void **state)
{
    (void)state;
    struct xt_fdinfo_client client;
    static const char *const texts[] = {"",
                                        "\n\n",
                                        ":",
                                        "drm-pdev: 0000:03:00.0\n",
                                        "drm-client-id: 1\n",
                                        "drm-client-id: x\ndrm-pdev: a\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(xt_fdinfo_parse(texts[i], strlen(texts[i]), &client));
}

/* A line that is too long is skipped whole: its rest is not a line. Regions and engines beyond the
 * limit are skipped, too. */
static void long_lines_and_long_lists_are_cut(void **state)
{
    (void)state;
    char text[16384] = OF("1");
    size_t at = strlen(text);
    memset(text + at, 'x', 600);
    snprintf(text + at + 600, sizeof text - at - 600, "drm-resident-vram0: 5 MiB\n");
    for (int i = 0; i < 100; i++)
        xt_str_append_to(text, sizeof text, "drm-resident-r%d: 1\ndrm-engine-e%d: 1 ns\n", i, i);
    xt_str_append_to(text, sizeof text, "drm-resident-: 1\ndrm-resident-%s: 1\n",
                     "abcdefghijklmnopqrstuvwxyz");
    struct xt_fdinfo_client client;
    assert_true(xt_fdinfo_parse(text, strlen(text), &client));
    assert_int_equal(client.regions.count, XT_FDINFO_COUNTERS_MAX);
    assert_int_equal(client.engines.count, XT_FDINFO_COUNTERS_MAX);
    assert_string_equal(client.regions.items[0].name, "r0");
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_memory_of_each_client_counts_once),
        IN_FOLDER(an_integrated_gpu_has_the_hosts),
        IN_FOLDER(a_kernel_that_does_not_count_says_nothing),
        IN_FOLDER(nothing_on_a_discrete_gpu_is_not_the_hosts_memory),
        IN_FOLDER(every_region_counts_by_the_best_key_that_is_told),
        cmocka_unit_test(i915_counts_nanoseconds),
        cmocka_unit_test(xe_counts_cycles_beside_a_clock_of_its_own),
        cmocka_unit_test(clients_add_up_and_one_that_is_new_began_at_0),
        cmocka_unit_test(counters_that_stand_still_or_go_back_make_no_figure_up),
        cmocka_unit_test(odd_texts_are_no_figures),
        cmocka_unit_test(what_names_no_client_or_no_device_is_none),
        cmocka_unit_test(long_lines_and_long_lists_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
