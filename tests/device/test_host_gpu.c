/* What the system says about GPUs, read from a tree that stands for a machine. */
#include "device/gpu/host_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

static void write_text(const char *root, const char *name, const char *text)
{
    const char *path = support_path(root, name);
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(xt_file_make_folder(folder, NULL), XT_OK);
    support_write_file(path, text, strlen(text));
}

static void make_arc(const char *root)
{
    write_text(root, "dev/dri/renderD128", "");
    write_text(root, "sys/class/drm/renderD128/device/vendor", "0x8086\n");
    write_text(root, "sys/class/drm/renderD128/device/device", "0x56a0\n");
    write_text(root, "sys/class/drm/renderD128/device/uevent",
               "DRIVER=xe\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:03:00.0\n");
    write_text(root, "sys/class/drm/renderD128/device/resource",
               "0x00000000a1000000 0x00000000a1ffffff 0x0000000000140204\n"
               "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
               "0x0000004000000000 0x00000043ffffffff 0x000000000014220c\n");
}

static void a_render_node_is_described(void **state)
{
    struct xt_host_gpu host;
    make_arc(*state);
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.count, 1);
    assert_string_equal(host.nodes[0].path, "/dev/dri/renderD128");
    assert_string_equal(host.nodes[0].pci, "0000:03:00.0");
    assert_string_equal(host.nodes[0].kernel, "xe");
    assert_int_equal(host.nodes[0].device, 0x56a0);
    assert_int_equal(host.nodes[0].largest, 16ull << 30);
    assert_true(host.nodes[0].usable);
    assert_false(host.wsl);
}

static void a_gpu_on_the_bus_without_a_node_is_named(void **state)
{
    struct xt_host_gpu host;
    make_arc(*state);
    write_text(*state, "sys/bus/pci/devices/0000:03:00.0/vendor", "0x8086\n");
    write_text(*state, "sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n");
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.without_node, 0);
    /* A second one, and what is no GPU: Intel's network, another maker's GPU. */
    write_text(*state, "sys/bus/pci/devices/0000:04:00.0/vendor", "0x8086\n");
    write_text(*state, "sys/bus/pci/devices/0000:04:00.0/class", "0x038000\n");
    write_text(*state, "sys/bus/pci/devices/0000:04:00.0/device", "0xe20b\n");
    write_text(*state, "sys/bus/pci/devices/0000:04:00.0/uevent", "PCI_CLASS=38000\n");
    write_text(*state, "sys/bus/pci/devices/0000:05:00.0/vendor", "0x8086\n");
    write_text(*state, "sys/bus/pci/devices/0000:05:00.0/class", "0x020000\n");
    write_text(*state, "sys/bus/pci/devices/0000:06:00.0/vendor", "0x10de\n");
    write_text(*state, "sys/bus/pci/devices/0000:06:00.0/class", "0x030000\n");
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.count, 1);
    assert_int_equal(host.without_node, 1);
    assert_string_equal(host.bare.pci, "0000:04:00.0");
    assert_int_equal(host.bare.device, 0xe20b);
    assert_string_equal(host.bare.kernel, "");
}

static void another_makers_gpu_is_only_counted(void **state)
{
    struct xt_host_gpu host;
    make_arc(*state);
    write_text(*state, "dev/dri/renderD129", "");
    write_text(*state, "sys/class/drm/renderD129/device/vendor", "0x10de\n");
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.count, 1);
    assert_int_equal(host.others, 1);
}

static void a_node_that_may_not_be_opened_is_told(void **state)
{
    struct xt_host_gpu host;
    if (geteuid() == 0)
        support_skip("root may open everything");
    make_arc(*state);
    assert_int_equal(chmod(support_path(*state, "dev/dri/renderD128"), 0), 0);
    xt_host_gpu_read(&host, *state);
    assert_false(host.nodes[0].usable);
    assert_true(strlen(host.nodes[0].group) > 0);
}

static void the_hint_names_the_group_that_owns_the_node(void **state)
{
    (void)state;
    const struct xt_render_node node = {.group = "video"};
    assert_string_equal(xt_host_gpu_join(&node).text,
                        "sudo usermod -aG video $USER, then log in again (in a container: "
                        "--group-add video)");
}

static void wsl_is_recognised(void **state)
{
    struct xt_host_gpu host;
    write_text(*state, "dev/dxg", "");
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.count, 0);
    assert_true(host.wsl && host.wsl_usable);
}

static void an_empty_machine_has_nothing(void **state)
{
    struct xt_host_gpu host;
    struct xt_str files = {0};
    xt_host_gpu_read(&host, *state);
    assert_int_equal(host.count, 0);
    assert_int_equal(host.others, 0);
    unsetenv("OCL_ICD_FILENAMES");
    unsetenv("OPENCL_LAYERS");
    unsetenv("ZE_ENABLE_ALT_DRIVERS");
    assert_int_equal(xt_host_gpu_driver_files(*state, &files, NULL), XT_OK);
    assert_string_equal(xt_str_get(&files), "");
    xt_str_clear(&files);
}

static void driver_files_are_told_by_name_and_size(void **state)
{
    struct xt_str files = {0};
    write_text(*state, "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1.3.31294", "driver");
    assert_int_equal(symlink("libze_intel_gpu.so.1.3.31294",
                             support_path(*state, "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1")),
                     0);
    assert_int_equal(xt_host_gpu_driver_files(*state, &files, NULL), XT_OK);
    assert_string_equal(xt_str_get(&files), "libze_intel_gpu.so.1.3.31294 6\n");
    xt_str_clear(&files);
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_render_node_is_described),
        IN_FOLDER(a_gpu_on_the_bus_without_a_node_is_named),
        IN_FOLDER(another_makers_gpu_is_only_counted),
        IN_FOLDER(a_node_that_may_not_be_opened_is_told),
        cmocka_unit_test(the_hint_names_the_group_that_owns_the_node),
        IN_FOLDER(wsl_is_recognised),
        IN_FOLDER(an_empty_machine_has_nothing),
        IN_FOLDER(driver_files_are_told_by_name_and_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
