#include "runs/run_folder.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

/* A file system of several machines: each of them locks folders for itself, or not at all. These
 * stand before libc's. */
static struct {
    bool is_used;
    int error; /* of a lock of a folder; 0: it is had */
} network;

int fstatfs(int fd, struct statfs *out)
{
    int code = (int)syscall(SYS_fstatfs, fd, out);
    if (network.is_used)
        out->f_type = NFS_SUPER_MAGIC;
    return code;
}

int flock(int fd, int how)
{
    if (!network.is_used)
        return (int)syscall(SYS_flock, fd, how);
    errno = network.error;
    return network.error ? -1 : 0;
}

static void touch(const char *folder, const char *name)
{
    support_write_file(support_path(folder, name), "x", 1);
}

static void a_run_without_out_gets_the_next_free_number(void **state)
{
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    struct xt_run_folder one;
    struct xt_run_folder two;
    struct xt_err err = {0};
    assert_int_equal(xt_run_folder_open(&one, NULL, "lprnet", false, &err), XT_OK);
    assert_int_equal(xt_run_folder_open(&two, NULL, "lprnet", false, &err), XT_OK);
    size_t length = strlen(one.path);
    assert_string_equal(one.path + length - 2, "-1");
    assert_string_equal(two.path + length - 2, "-2");
    xt_run_folder_clear(&one);
    xt_run_folder_clear(&two);
    assert_int_equal(chdir(before), 0);
}

static void a_folder_that_holds_files_is_refused(void **state)
{
    struct xt_run_folder folder;
    struct xt_err err = {0};
    touch(*state, "metrics.jsonl");
    assert_int_equal(xt_run_folder_open(&folder, *state, "lprnet", false, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "never overwritten");
    xt_run_folder_clear(&folder);
    assert_false(xt_file_exists(support_path(*state, ".lock")));
    assert_int_equal(xt_run_folder_open(&folder, *state, "lprnet", true, &err), XT_OK);
    xt_run_folder_clear(&folder);
}

static void a_folder_of_something_else_is_not_gone_on_with(void **state)
{
    struct xt_run_folder folder;
    struct xt_err err = {0};
    touch(*state, "thesis.tex");
    assert_int_equal(xt_run_folder_open(&folder, *state, "lprnet", true, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "no run to resume");
    xt_run_folder_clear(&folder);
}

static void half_written_files_are_cleared_away_and_no_others(void **state)
{
    struct xt_run_folder folder;
    struct xt_err err = {0};
    touch(*state, "state-00000005.safetensors.part-123");
    touch(*state, "state-00000004.safetensors");
    touch(*state, "my.part-list");
    assert_int_equal(xt_run_folder_open(&folder, *state, "lprnet", true, &err), XT_OK);
    assert_false(xt_file_exists(support_path(*state, "state-00000005.safetensors.part-123")));
    assert_true(xt_file_exists(support_path(*state, "state-00000004.safetensors")));
    assert_true(xt_file_exists(support_path(*state, "my.part-list")));
    xt_run_folder_clear(&folder);
}

static void a_second_user_is_refused_until_the_first_lets_go(void **state)
{
    struct xt_run_folder first;
    struct xt_run_folder second;
    struct xt_err err = {0};
    assert_int_equal(xt_run_folder_open(&first, *state, "lprnet", true, &err), XT_OK);
    assert_int_equal(xt_run_folder_open(&second, *state, "lprnet", true, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "in use by another xtrain");
    xt_run_folder_clear(&second);
    xt_run_folder_clear(&first);
    assert_int_equal(xt_run_folder_open(&second, *state, "lprnet", true, &err), XT_OK);
    xt_run_folder_clear(&second);
}

/* Anyone who may write in the folder may remove files in it. */
static void a_lock_file_that_is_removed_lets_nobody_in(void **state)
{
    struct xt_run_folder first;
    struct xt_run_folder second;
    struct xt_err err = {0};
    bool known = false;
    assert_int_equal(xt_run_folder_open(&first, *state, "lprnet", true, &err), XT_OK);
    remove(support_path(*state, ".lock"));
    assert_true(xt_run_folder_in_use(*state, &known));
    assert_int_equal(xt_run_folder_open(&second, *state, "lprnet", true, &err), XT_ERR_USAGE);
    xt_run_folder_clear(&second);
    xt_run_folder_clear(&first);
    assert_false(xt_run_folder_in_use(*state, &known));
    assert_true(known);
}

static void a_user_on_another_machine_is_refused(void **state)
{
    static const int errors[] = {0, ENOLCK, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct xt_run_folder first;
        struct xt_run_folder second;
        struct xt_err err = {0};
        bool known = false;
        network.is_used = true;
        network.error = errors[i];
        assert_int_equal(xt_run_folder_open(&first, *state, "lprnet", true, &err), XT_OK);
        assert_int_equal(xt_run_folder_open(&second, *state, "lprnet", true, &err), XT_ERR_USAGE);
        support_assert_error(&err, XT_ERR_USAGE, "in use by another xtrain");
        assert_true(xt_run_folder_in_use(*state, &known) && known);
        xt_run_folder_clear(&second);
        xt_run_folder_clear(&first);
        assert_false(xt_run_folder_in_use(*state, &known));
        network.is_used = false;
    }
}

static void a_file_is_set_aside_and_a_missing_one_is_no_matter(void **state)
{
    struct xt_run_folder folder;
    struct xt_err err = {0};
    assert_int_equal(xt_run_folder_open(&folder, *state, "lprnet", false, &err), XT_OK);
    touch(*state, "last.safetensors");
    assert_int_equal(xt_run_folder_set_aside(&folder, "last.safetensors", &err), XT_OK);
    assert_int_equal(xt_run_folder_set_aside(&folder, "best.safetensors", &err), XT_OK);
    assert_true(xt_file_exists(support_path(*state, "last.safetensors.aside")));
    assert_false(xt_file_exists(support_path(*state, "last.safetensors")));
    xt_run_folder_clear(&folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_without_out_gets_the_next_free_number),
        TEST(a_folder_that_holds_files_is_refused),
        TEST(a_folder_of_something_else_is_not_gone_on_with),
        TEST(half_written_files_are_cleared_away_and_no_others),
        TEST(a_second_user_is_refused_until_the_first_lets_go),
        TEST(a_lock_file_that_is_removed_lets_nobody_in),
        TEST(a_user_on_another_machine_is_refused),
        TEST(a_file_is_set_aside_and_a_missing_one_is_no_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
