#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/sources/index/index_cache.h"
#include "data/sources/index/index_tree.h"

static struct xt_file_tree tree;
static struct xt_err err;
static char root[256];
static char key[512];

/* A tree of three files in two folders; the cache beside it. */
static int setup(void **state)
{
    if (support_make_folder(state))
        return -1;
    setenv("XTRAIN_CACHE_DIR", support_path(*state, "cache"), 1);
    snprintf(root, sizeof root, "%s", support_path(*state, "root"));
    mkdir(root, 0777);
    mkdir(support_path(root, "b"), 0777);
    support_write_file(support_path(root, "b/2.jpg"), "x", 1);
    support_write_file(support_path(root, "b/1.jpg"), "x", 1);
    support_write_file(support_path(root, "c.jpg"), "x", 1);
    char *real = realpath(root, NULL);
    snprintf(key, sizeof key, "tree, each folder once: %s", real);
    free(real);
    return 0;
}

static int teardown(void **state)
{
    xt_file_tree_clear(&tree);
    unsetenv("XTRAIN_CACHE_DIR");
    return support_remove_folder(state);
}

static void list(void)
{
    xt_file_tree_clear(&tree);
    if (xt_index_tree(&tree, root, &err))
        fail_msg("%s", err.text);
}

/* Caches the list of the tree with an extra file, which shows that the list came from the cache. */
static void cache_with_ghost(const char *under)
{
    struct xt_file_tree walked = {0};
    struct xt_str body = {0};
    assert_int_equal(xt_file_walk(&walked, root, &err), XT_OK);
    free(walked.files.paths[walked.files.count - 1]);
    char *ghost = NULL;
    assert_int_equal(xt_file_join(&ghost, root, "ghost.jpg", &err), XT_OK);
    walked.files.paths[walked.files.count - 1] = ghost;
    assert_int_equal(xt_index_tree_write(&walked, root, &body, &err), XT_OK);
    xt_index_save(under, &body);
    xt_str_clear(&body);
    xt_file_tree_clear(&walked);
}

static bool has_ghost(void)
{
    list();
    const char *last = tree.files.paths[tree.files.count - 1];
    return strcmp(xt_file_name(last), "ghost.jpg") == 0;
}

/* The cache's only file. */
static const char *cached_file(void)
{
    static char path[1024];
    path[0] = '\0';
    const char *folder = support_path(getenv("XTRAIN_CACHE_DIR"), "index");
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (dir)
        closedir(dir);
    return path;
}

static void a_tree_is_walked_without_a_cache(void **state)
{
    (void)state;
    list();
    assert_int_equal(tree.files.count, 3);
    assert_string_equal(tree.files.paths[0], support_path(root, "b/1.jpg"));
    assert_string_equal(tree.files.paths[2], support_path(root, "c.jpg"));
    assert_int_equal(tree.folder_count, 2);
    assert_string_equal(tree.folders[1].path, support_path(root, "b"));
    assert_string_equal(cached_file(), ""); /* it is small */
}

static void a_cached_list_is_used_while_the_folders_are_the_same(void **state)
{
    (void)state;
    cache_with_ghost(key);
    assert_true(has_ghost());
    assert_int_equal(tree.files.count, 3);
    assert_string_equal(tree.files.paths[1], support_path(root, "b/2.jpg"));
    assert_string_equal(tree.folders[0].path, root);
    /* The contents of a file do not matter to the list. */
    support_write_file(support_path(root, "b/1.jpg"), "yy", 2);
    assert_true(has_ghost());
}

static void a_file_that_comes_goes_or_moves_is_noticed(void **state)
{
    (void)state;
    cache_with_ghost(key);
    support_write_file(support_path(root, "b/3.jpg"), "x", 1);
    assert_false(has_ghost());
    assert_int_equal(tree.files.count, 4);
    cache_with_ghost(key);
    unlink(support_path(root, "b/3.jpg"));
    assert_false(has_ghost());
    cache_with_ghost(key);
    rename(support_path(root, "c.jpg"), support_path(root, "d.jpg"));
    assert_false(has_ghost());
    cache_with_ghost(key);
    mkdir(support_path(root, "b/deep"), 0777);
    assert_false(has_ghost());
    cache_with_ghost(key);
    rename(support_path(root, "b"), support_path(root, "e"));
    assert_false(has_ghost());
}

static void a_folder_put_back_with_its_times_is_noticed(void **state)
{
    (void)state;
    struct stat st;
    cache_with_ghost(key);
    assert_int_equal(stat(support_path(root, "b"), &st), 0);
    support_write_file(support_path(root, "b/3.jpg"), "x", 1);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, support_path(root, "b"), times, 0), 0);
    assert_false(has_ghost());
}

static void a_damaged_file_is_not_used(void **state)
{
    (void)state;
    size_t size = 0;
    cache_with_ghost(key);
    uint8_t *bytes = support_read_file(cached_file(), &size);
    assert_true(size > 200);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        support_write_file(cached_file(), bytes, size);
        assert_false(has_ghost());
        bytes[i] ^= 0x10;
    }
    for (size_t i = 0; i < size; i += 7) {
        support_write_file(cached_file(), bytes, i);
        assert_false(has_ghost());
    }
    support_write_file(cached_file(), bytes, size);
    assert_true(has_ghost());
    free(bytes);
}

static void a_file_of_another_tree_or_user_is_not_used(void **state)
{
    (void)state;
    cache_with_ghost(key);
    char path[1024];
    snprintf(path, sizeof path, "%s", cached_file());
    assert_int_equal(unlink(path), 0);
    cache_with_ghost("tree /elsewhere");
    assert_int_equal(rename(cached_file(), path), 0);
    assert_false(has_ghost());
    cache_with_ghost(key);
    assert_true(has_ghost());
    if (geteuid() == 0) {
        assert_int_equal(chown(cached_file(), 12345, 12345), 0);
        assert_false(has_ghost());
    }
    unlink(path);
    mkdir(path, 0777);
    assert_false(has_ghost());
    rmdir(path);
}

static void the_tree_is_walked_if_nothing_can_be_cached(void **state)
{
    setenv("XTRAIN_CACHE_DIR", "/dev/null/none", 1);
    cache_with_ghost(key);
    assert_false(has_ghost());
    /* A full disk: no partial file is left. */
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    setenv("XTRAIN_CACHE_DIR", support_path(*state, "full"), 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    cache_with_ghost(key);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_string_equal(cached_file(), "");
    assert_false(has_ghost());
}

static void a_large_tree_is_cached_once_it_has_settled(void **state)
{
    (void)state;
    for (int i = 0; i < XT_INDEX_TREE_LEAST; i++) {
        char name[32];
        snprintf(name, sizeof name, "b/x%06d.jpg", i);
        support_write_file(support_path(root, name), "x", 1);
    }
    list();
    assert_string_equal(cached_file(), "");
    usleep(2300000);
    list();
    assert_string_not_equal(cached_file(), "");
    struct xt_file_tree walked = tree;
    tree = (struct xt_file_tree){0};
    list();
    assert_int_equal(tree.files.count, XT_INDEX_TREE_LEAST + 3);
    for (size_t i = 0; i < tree.files.count; i++)
        assert_string_equal(tree.files.paths[i], walked.files.paths[i]);
    xt_file_tree_clear(&walked);
}

static void the_oldest_of_too_many_files_goes(void **state)
{
    (void)state;
    struct xt_str body = {0};
    const uint8_t *found = NULL;
    uint8_t *file = NULL;
    size_t size = 0;
    xt_index_put_u32(&body, 5);
    xt_index_save("first", &body);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, cached_file(), old, 0), 0);
    for (int i = 1; i <= XT_INDEX_FILES_MAX; i++) {
        char name[32];
        assert_int_equal(xt_index_load("first", &file, &found, &size, &err), XT_OK);
        assert_non_null(found);
        free(file);
        snprintf(name, sizeof name, "key %d", i);
        xt_index_save(name, &body);
    }
    assert_int_equal(xt_index_load("first", &file, &found, &size, &err), XT_OK);
    assert_null(found);
    free(file);
    assert_int_equal(xt_index_load("key 1", &file, &found, &size, &err), XT_OK);
    assert_int_equal(size, 4);
    free(file);
    xt_str_clear(&body);
}

#define index_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        index_test(a_tree_is_walked_without_a_cache),
        index_test(a_cached_list_is_used_while_the_folders_are_the_same),
        index_test(a_file_that_comes_goes_or_moves_is_noticed),
        index_test(a_folder_put_back_with_its_times_is_noticed),
        index_test(a_damaged_file_is_not_used),
        index_test(a_file_of_another_tree_or_user_is_not_used),
        index_test(the_tree_is_walked_if_nothing_can_be_cached),
        index_test(a_large_tree_is_cached_once_it_has_settled),
        index_test(the_oldest_of_too_many_files_goes),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
