/* What the kernel counts for this process on a GPU, from folders that stand for machines. */
#include "device/gpu/drm_client.h"

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
    assert_true(xt_drm_memory_used(*state, &arc, &bytes));
    assert_true(bytes == 3.0 * 1024 * 1024);
}

static void an_integrated_gpu_has_the_hosts(void **state)
{
    double bytes = 0;
    write_text(*state, "proc/self/fdinfo/5",
               "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\ndrm-resident-system0: 3 MiB\n");
    assert_true(xt_drm_memory_used(*state, &arc, &bytes));
    assert_true(bytes == 3.0 * 1024 * 1024);
}

static void a_kernel_that_does_not_count_says_nothing(void **state)
{
    double bytes = 0;
    const struct xt_pci_address unknown = {0};
    assert_false(xt_drm_memory_used(*state, &arc, &bytes));
    write_text(*state, "proc/self/fdinfo/5", "drm-client-id: 1\ndrm-pdev: 0000:03:00.0\n");
    assert_false(xt_drm_memory_used(*state, &arc, &bytes));
    assert_false(xt_drm_memory_used("", &unknown, &bytes));
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_memory_of_each_client_counts_once),
        IN_FOLDER(an_integrated_gpu_has_the_hosts),
        IN_FOLDER(a_kernel_that_does_not_count_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
