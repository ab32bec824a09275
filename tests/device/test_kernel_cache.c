/* The rules of the kernel cache: what is code from a stranger, or not as it was recorded, is not
 * used. No GPU is needed: files stand for kernels. */
#include "device/kernels/kernel_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static const char library[] = "libdnnl.so.3";

static void forget_environment(void)
{
    unsetenv("NEO_CACHE_DIR");
    unsetenv("NEO_CACHE_PERSISTENT");
    unsetenv("NEO_CACHE_MAX_SIZE");
    unsetenv("cl_cache_dir");
}

static void begin(struct xt_kernel_cache *cache, const char *base)
{
    struct xt_err err = {0};
    forget_environment();
    if (xt_kernel_cache_begin(cache, base, false, library, &err))
        fail_msg("%s", err.text);
}

static const char *in(const struct xt_kernel_cache *cache, const char *name)
{
    return support_path(cache->folder, name);
}

/* A first run that leaves two kernels behind. */
static void make_kernels(const char *base)
{
    struct xt_kernel_cache cache;
    begin(&cache, base);
    assert_non_null(cache.folder);
    support_write_file(in(&cache, "a.cl_cache"), "kernel a", 8);
    support_write_file(in(&cache, "b.l0_cache"), "kernel b", 8);
    assert_int_equal(xt_kernel_cache_record(&cache, "# onednn: 3.13.2\n", NULL), XT_OK);
    xt_kernel_cache_end(&cache);
}

static bool there(const struct xt_kernel_cache *cache, const char *name)
{
    struct stat st;
    return lstat(in(cache, name), &st) == 0;
}

static void what_was_recorded_is_used_again(void **state)
{
    struct xt_kernel_cache cache;
    make_kernels(*state);
    begin(&cache, *state);
    assert_int_equal(cache.valid, 2);
    assert_int_equal(cache.left_out, 0);
    assert_int_equal(cache.bytes, 16);
    assert_string_equal(getenv("NEO_CACHE_PERSISTENT"), "1");
    assert_string_equal(getenv("NEO_CACHE_DIR"), cache.folder);
    assert_string_equal(getenv("cl_cache_dir"), cache.folder);
    xt_kernel_cache_end(&cache);
}

/* Newer drivers (26.27) sort kernels into folders by the digits of their names. */
static void kernels_in_a_drivers_folders_are_under_the_same_rules(void **state)
{
    struct xt_kernel_cache cache;
    begin(&cache, *state);
    assert_int_equal(mkdir(in(&cache, "3"), 0777), 0);
    assert_int_equal(chmod(in(&cache, "3"), 0777), 0);
    assert_int_equal(mkdir(in(&cache, "3/9"), 0700), 0);
    support_write_file(in(&cache, "3/9/39c4.cl_cache"), "kernel a", 8);
    assert_int_equal(xt_kernel_cache_record(&cache, "# onednn: 3.13.2\n", NULL), XT_OK);
    assert_int_equal(xt_kernel_cache_count(&cache), 1);
    support_write_file(in(&cache, "3/9/39c5.cl_cache"), "kernel b", 8);
    xt_kernel_cache_end(&cache);

    begin(&cache, *state);
    struct stat st;
    assert_int_equal(stat(in(&cache, "3"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(cache.valid, 1);
    assert_non_null(strstr(cache.note, "3/9/39c5.cl_cache: it was not recorded"));
    assert_true(xt_kernel_cache_drop(&cache));
    assert_int_equal(xt_kernel_cache_count(&cache), 0);
    assert_int_equal(rename(in(&cache, "3/9"), in(&cache, "elsewhere")), 0);
    assert_int_equal(symlink("../elsewhere", in(&cache, "3/9")), 0);
    xt_kernel_cache_end(&cache);

    begin(&cache, *state);
    assert_null(cache.folder);
    assert_non_null(strstr(cache.note, "3/9 is not used: it is a symbolic link"));
    xt_kernel_cache_end(&cache);
}

static void the_folder_is_the_users_alone(void **state)
{
    struct xt_kernel_cache cache;
    struct stat st;
    mode_t before = umask(0);
    begin(&cache, *state);
    umask(before);
    assert_int_equal(stat(cache.folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    xt_kernel_cache_end(&cache);
}

typedef void attack(const struct xt_kernel_cache *cache);

static void truncate_it(const struct xt_kernel_cache *cache)
{
    assert_int_equal(truncate(in(cache, "a.cl_cache"), 4), 0);
}

static void flip_a_bit(const struct xt_kernel_cache *cache)
{
    support_write_file(in(cache, "a.cl_cache"), "kernel c", 8);
}

static void let_others_write(const struct xt_kernel_cache *cache)
{
    assert_int_equal(chmod(in(cache, "a.cl_cache"), 0666), 0);
}

static void link_it(const struct xt_kernel_cache *cache)
{
    assert_int_equal(rename(in(cache, "a.cl_cache"), in(cache, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", in(cache, "a.cl_cache")), 0);
}

static void name_it_twice(const struct xt_kernel_cache *cache)
{
    assert_int_equal(link(in(cache, "a.cl_cache"), in(cache, "second-name")), 0);
}

static void empty_it(const struct xt_kernel_cache *cache)
{
    assert_int_equal(truncate(in(cache, "a.cl_cache"), 0), 0);
}

static void a_file_that_does_not_match_is_removed_before_use(void **state)
{
    static const struct {
        attack *attack;
        const char *why;
    } attacks[] = {
        {truncate_it, "its length is not the recorded one"},
        {flip_a_bit, "its contents are not the recorded ones"},
        {let_others_write, "others can write it"},
        {link_it, "it is a symbolic link"},
        {name_it_twice, "it has another name elsewhere"},
        {empty_it, "its size is not that of a kernel"},
    };
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        struct xt_kernel_cache cache;
        make_kernels(*state);
        begin(&cache, *state);
        attacks[i].attack(&cache);
        xt_kernel_cache_end(&cache);
        begin(&cache, *state);
        assert_int_equal(cache.left_out, 1);
        assert_int_equal(cache.valid, 1);
        assert_non_null(strstr(cache.note, attacks[i].why));
        assert_false(there(&cache, "a.cl_cache"));
        assert_true(there(&cache, "b.l0_cache"));
        xt_kernel_cache_end(&cache);
    }
}

/* A driver need not compile a kernel to the same bytes twice. */
static void what_is_compiled_again_is_recorded_again(void **state)
{
    struct xt_kernel_cache cache;
    make_kernels(*state);
    begin(&cache, *state);
    flip_a_bit(&cache);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    assert_int_equal(cache.left_out, 1);
    support_write_file(in(&cache, "a.cl_cache"), "kernel A", 8);
    assert_int_equal(xt_kernel_cache_record(&cache, "", NULL), XT_OK);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    assert_int_equal(cache.left_out, 0);
    assert_int_equal(cache.valid, 2);
    xt_kernel_cache_end(&cache);
}

static void a_file_that_was_never_recorded_is_removed(void **state)
{
    struct xt_kernel_cache cache;
    make_kernels(*state);
    begin(&cache, *state);
    support_write_file(in(&cache, "planted.cl_cache"), "code", 4);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    assert_int_equal(cache.left_out, 1);
    assert_false(there(&cache, "planted.cl_cache"));
    xt_kernel_cache_end(&cache);
}

/* Two runs warm the same cache: the second must not remove what the first is writing. */
static void another_process_at_work_keeps_its_unrecorded_files(void **state)
{
    struct xt_kernel_cache first;
    struct xt_kernel_cache second;
    begin(&first, *state);
    support_write_file(in(&first, "new.cl_cache"), "kernel", 6);
    begin(&second, *state);
    assert_true(there(&second, "new.cl_cache"));
    assert_int_equal(second.left_out, 0);
    support_write_file(in(&second, "newer.cl_cache"), "kernel", 6);
    assert_int_equal(xt_kernel_cache_record(&second, "", NULL), XT_OK);
    xt_kernel_cache_end(&second);
    assert_int_equal(xt_kernel_cache_record(&first, "", NULL), XT_OK);
    xt_kernel_cache_end(&first);
    begin(&first, *state);
    assert_int_equal(first.valid, 2);
    xt_kernel_cache_end(&first);
}

/* An image's cache is root's, and readable for all: a start of root's must not take that away. */
/* Two processes: one cleans, and has a long file to hash; the other waits until the folder is
 * clean, so that its files are not mistaken for leftovers. */
static void who_comes_while_the_folder_is_cleaned_waits(void **state)
{
    struct xt_kernel_cache cache;
    struct inotify_event opened;
    make_kernels(*state);
    begin(&cache, *state);
    char *lock = strdup(in(&cache, "lock"));
    char *leftover = strdup(in(&cache, "leftover.cl_cache"));
    xt_kernel_cache_end(&cache);
    support_write_file(leftover, "", 0);
    assert_int_equal(chmod(leftover, 0600), 0);
    assert_int_equal(truncate(leftover, 256 << 20), 0);
    int watch = inotify_init1(IN_CLOEXEC);
    if (watch < 0 || inotify_add_watch(watch, leftover, IN_OPEN) < 0)
        support_skip("files cannot be watched here");

    pid_t child = fork();
    if (child == 0) {
        begin(&cache, *state);
        _exit(0);
    }
    assert_int_equal(read(watch, &opened, sizeof opened), sizeof opened);
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    assert_int_equal(access(leftover, F_OK), -1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd);
    close(watch);
    free(leftover);
    free(lock);
}

static void an_index_that_says_the_same_is_left_alone(void **state)
{
    struct xt_kernel_cache cache;
    struct stat st;
    make_kernels(*state);
    begin(&cache, *state);
    assert_int_equal(chmod(in(&cache, "index.txt"), 0644), 0);
    assert_int_equal(xt_kernel_cache_record(&cache, "# onednn: 3.13.2\n", NULL), XT_OK);
    assert_int_equal(lstat(in(&cache, "index.txt"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    xt_kernel_cache_end(&cache);
}

static void a_folder_that_others_can_write_is_not_used(void **state)
{
    struct xt_kernel_cache cache;
    char folder[4096];
    make_kernels(*state);
    begin(&cache, *state);
    snprintf(folder, sizeof folder, "%s", cache.folder);
    xt_kernel_cache_end(&cache);
    assert_int_equal(chmod(folder, 0777), 0);
    begin(&cache, *state);
    assert_null(cache.folder);
    assert_non_null(strstr(cache.note, "others can write it"));
    assert_string_equal(getenv("NEO_CACHE_PERSISTENT"), "0");
    assert_null(getenv("NEO_CACHE_DIR"));
    xt_kernel_cache_end(&cache);
}

static void a_folder_above_that_others_can_write_is_not_used(void **state)
{
    struct xt_kernel_cache cache;
    make_kernels(*state);
    assert_int_equal(chmod(support_path(*state, "kernels"), 0777), 0);
    begin(&cache, *state);
    assert_null(cache.folder);
    xt_kernel_cache_end(&cache);
}

static void a_folder_that_is_a_link_is_not_used(void **state)
{
    struct xt_kernel_cache cache;
    make_kernels(*state);
    const char *kernels = support_path(*state, "kernels");
    assert_int_equal(rename(kernels, support_path(*state, "moved")), 0);
    assert_int_equal(symlink("moved", kernels), 0);
    begin(&cache, *state);
    assert_null(cache.folder);
    assert_non_null(strstr(cache.note, "symbolic link"));
    xt_kernel_cache_end(&cache);
}

static void strangers_files_are_not_used(void **state)
{
    struct xt_kernel_cache cache;
    if (geteuid() != 0)
        support_skip("only root can give files away");
    make_kernels(*state);
    begin(&cache, *state);
    assert_int_equal(chown(in(&cache, "a.cl_cache"), 12345, 12345), 0);
    xt_kernel_cache_end(&cache);
    begin(&cache, *state);
    assert_int_equal(cache.left_out, 1);
    assert_non_null(strstr(cache.note, "belongs to another user"));
    xt_kernel_cache_end(&cache);
}

static void a_damaged_index_costs_kernels_and_nothing_else(void **state)
{
    static const char *const damage[] = {"", "\n\n\n", "zzz 8 a.cl_cache\n", "# only this",
                                         "0123 99999999999999999999999 ../../x_cache\n"};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        struct xt_kernel_cache cache;
        make_kernels(*state);
        begin(&cache, *state);
        support_write_file(in(&cache, "index.txt"), damage[i], strlen(damage[i]));
        xt_kernel_cache_end(&cache);
        begin(&cache, *state);
        assert_int_equal(cache.valid, 0);
        assert_int_equal(cache.left_out, 2);
        xt_kernel_cache_end(&cache);
    }
}

static void the_users_own_variables_win(void **state)
{
    struct xt_kernel_cache cache;
    forget_environment();
    setenv("NEO_CACHE_DIR", "/somewhere", 1);
    assert_int_equal(xt_kernel_cache_begin(&cache, *state, false, library, NULL), XT_OK);
    assert_true(cache.users);
    assert_null(cache.folder);
    assert_string_equal(getenv("NEO_CACHE_DIR"), "/somewhere");
    assert_null(getenv("NEO_CACHE_PERSISTENT"));
    xt_kernel_cache_end(&cache);
    forget_environment();
}

static void switched_off_nothing_is_kept(void **state)
{
    struct xt_kernel_cache cache;
    forget_environment();
    assert_int_equal(xt_kernel_cache_begin(&cache, *state, true, library, NULL), XT_OK);
    assert_null(cache.folder);
    assert_string_equal(getenv("NEO_CACHE_PERSISTENT"), "0");
    xt_kernel_cache_end(&cache);
    forget_environment();
}

static void another_driver_has_another_folder(void **state)
{
    char *one = NULL;
    char *two = NULL;
    const char *driver = support_path(*state, "driver.so");
    support_write_file(driver, "one", 3);
    setenv("OCL_ICD_FILENAMES", driver, 1);
    assert_int_equal(xt_kernel_cache_folder(*state, library, &one, NULL), XT_OK);
    support_write_file(driver, "another", 7);
    assert_int_equal(xt_kernel_cache_folder(*state, library, &two, NULL), XT_OK);
    unsetenv("OCL_ICD_FILENAMES");
    assert_string_not_equal(one, two);
    free(one);
    free(two);
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_recorded_is_used_again),
        IN_FOLDER(kernels_in_a_drivers_folders_are_under_the_same_rules),
        IN_FOLDER(the_folder_is_the_users_alone),
        IN_FOLDER(a_file_that_does_not_match_is_removed_before_use),
        IN_FOLDER(what_is_compiled_again_is_recorded_again),
        IN_FOLDER(a_file_that_was_never_recorded_is_removed),
        IN_FOLDER(another_process_at_work_keeps_its_unrecorded_files),
        IN_FOLDER(who_comes_while_the_folder_is_cleaned_waits),
        IN_FOLDER(an_index_that_says_the_same_is_left_alone),
        IN_FOLDER(a_folder_that_others_can_write_is_not_used),
        IN_FOLDER(a_folder_above_that_others_can_write_is_not_used),
        IN_FOLDER(a_folder_that_is_a_link_is_not_used),
        IN_FOLDER(strangers_files_are_not_used),
        IN_FOLDER(a_damaged_index_costs_kernels_and_nothing_else),
        IN_FOLDER(the_users_own_variables_win),
        IN_FOLDER(switched_off_nothing_is_kept),
        IN_FOLDER(another_driver_has_another_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
