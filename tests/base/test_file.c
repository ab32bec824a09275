#include "disk_calls.h"
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char *folder_of(void **state)
{
    return *state;
}

/* Asserts that the file holds this text and nothing else. */
static void assert_holds(const char *path, const char *text)
{
    size_t size = 0;
    char *bytes = (char *)support_read_file(path, &size);
    assert_int_equal(size, strlen(text));
    assert_string_equal(bytes, text);
    free(bytes);
}

static int entries_in(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = -2; /* . and .. */
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void what_was_saved_is_read_back(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "a");
    assert_int_equal(xt_file_save(path, "plates", 6, &err), XT_OK);
    assert_holds(path, "plates");
    assert_int_equal(entries_in(folder_of(state)), 1);
}

static void the_read_buffer_serves_again(void **state)
{
    struct xt_err err = {0};
    const char *large = support_path(folder_of(state), "large");
    const char *small = support_path(folder_of(state), "small");
    char text[500];
    memset(text, 'x', sizeof text);
    support_write_file(large, text, sizeof text);
    support_write_file(small, "y", 1);

    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    assert_int_equal(xt_file_read(large, 1000, &bytes, &capacity, &size, &err), XT_OK);
    assert_int_equal(size, sizeof text);
    uint8_t *before = bytes;
    assert_int_equal(xt_file_read(small, 1000, &bytes, &capacity, &size, &err), XT_OK);
    assert_int_equal(size, 1);
    assert_ptr_equal(bytes, before);
    free(bytes);
}

static void an_empty_file_is_read(void **state)
{
    const char *path = support_path(folder_of(state), "empty");
    support_write_file(path, "", 0);
    assert_holds(path, "");
}

static void assert_read_fails(const char *path, size_t limit, const char *part)
{
    struct xt_err err = {0};
    struct xt_bytes bytes;
    assert_int_equal(xt_file_load(path, limit, &bytes, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, part);
    support_assert_error(&err, XT_ERR_DATA, path);
    assert_null(bytes.data);
}

static void a_file_over_the_limit_is_refused_not_cut(void **state)
{
    const char *path = support_path(folder_of(state), "five");
    support_write_file(path, "12345", 5);
    assert_read_fails(path, 4, "5 bytes, more than the 4 allowed");
}

static void what_is_no_file_is_refused(void **state)
{
    assert_read_fails(support_path(folder_of(state), "none"), 10, "No such file");
    assert_read_fails(folder_of(state), 10, "not a regular file");
}

static void a_pipe_without_a_writer_does_not_hang(void **state)
{
    const char *path = support_path(folder_of(state), "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_read_fails(path, 10, "not a regular file");
}

static void nothing_is_seen_before_the_commit(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "last");
    support_write_file(path, "old", 3);
    struct xt_file_writer writer = {0};
    assert_int_equal(xt_file_begin(&writer, path, &err), XT_OK);
    assert_int_equal(xt_file_write(&writer, "ne", 2, &err), XT_OK);
    assert_int_equal(xt_file_write(&writer, "w", 1, &err), XT_OK);
    assert_holds(path, "old");
    assert_int_equal(xt_file_commit(&writer, &err), XT_OK);
    assert_holds(path, "new");
    assert_int_equal(entries_in(folder_of(state)), 1);
}

/* First the bytes, then the name, then the folder that holds the name. */
static void a_commit_outlasts_a_power_cut(void **state)
{
    struct xt_err err = {0};
    const char *folder = strrchr(folder_of(state), '/') + 1;
    char wanted[300];
    disk_calls[0] = '\0';
    assert_int_equal(xt_file_save(support_path(folder_of(state), "last"), "new", 3, &err), XT_OK);
    char *renamed = strstr(disk_calls, "rename ");
    assert_non_null(renamed);
    snprintf(wanted, sizeof wanted, "rename last\nsync %s\n", folder);
    assert_string_equal(renamed, wanted);
    *renamed = '\0';
    assert_int_equal(strncmp(disk_calls, "sync ", 5), 0);
    assert_ptr_equal(strchr(disk_calls, '\n'), renamed - 1);
}

/* Anyone who may write in the folder could plant a link under a predictable name. */
static void a_link_at_a_name_that_could_be_guessed_is_not_followed(void **state)
{
    struct xt_err err = {0};
    const char *victim = support_path(folder_of(state), "victim");
    const char *path = support_path(folder_of(state), "a");
    char guess[4096];
    support_write_file(victim, "mine", 4);
    snprintf(guess, sizeof guess, "%s.part-%ld", path, (long)getpid());
    assert_int_equal(symlink(victim, guess), 0);
    assert_int_equal(xt_file_save(path, "plates", 6, &err), XT_OK);
    assert_holds(victim, "mine");
    assert_holds(path, "plates");
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

/* What is written goes where the file was begun, whatever has that folder's name by then. */
/* As a hostile run folder has it: a log or a lock that leads elsewhere. */
static void a_file_written_in_place_is_no_link_and_no_pipe(void **state)
{
    char elsewhere[4096], link[4096], pipe[4096], log[4096];
    int fd = -1;
    struct xt_err err;
    snprintf(elsewhere, sizeof elsewhere, "%s", support_path(*state, "elsewhere"));
    snprintf(link, sizeof link, "%s", support_path(*state, "link"));
    snprintf(pipe, sizeof pipe, "%s", support_path(*state, "pipe"));
    snprintf(log, sizeof log, "%s", support_path(*state, "log"));
    assert_int_equal(symlink(elsewhere, link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    xt_file_open_own(link, O_WRONLY, &fd, &err);
    support_assert_error(&err, XT_ERR_RUN, "link is a symbolic link");
    assert_false(xt_file_exists(elsewhere));
    xt_file_open_own(pipe, O_RDWR, &fd, &err);
    support_assert_error(&err, XT_ERR_RUN, "pipe: it is a pipe");
    assert_int_equal(xt_file_open_own(log, O_WRONLY | O_APPEND, &fd, &err), XT_OK);
    close(fd);
    assert_true(xt_file_exists(log));
}

static void a_folder_that_is_moved_takes_its_file_along(void **state)
{
    struct xt_err err = {0};
    struct xt_file_writer writer = {0};
    const char *folder = support_path(folder_of(state), "folder");
    const char *moved = support_path(folder_of(state), "moved");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(xt_file_begin(&writer, support_path(folder, "a"), &err), XT_OK);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(xt_file_write(&writer, "plates", 6, &err), XT_OK);
    assert_int_equal(xt_file_commit(&writer, &err), XT_OK);
    assert_holds(support_path(moved, "a"), "plates");
    assert_int_equal(entries_in(moved), 1);
    assert_int_equal(entries_in(folder), 0);
}

static void what_a_killed_process_left_is_told_by_its_name(void **state)
{
    struct xt_err err = {0};
    struct xt_file_writer writer = {0};
    assert_int_equal(xt_file_begin(&writer, support_path(folder_of(state), "x"), &err), XT_OK);
    assert_true(xt_file_is_leftover(xt_file_name(writer.temporary)));
    xt_file_abandon(&writer);
    assert_true(xt_file_is_leftover("my.part-list.part-123"));
    assert_false(xt_file_is_leftover("my.part-list"));
    assert_false(xt_file_is_leftover("my.part-"));
    assert_false(xt_file_is_leftover("part-12"));
    assert_false(xt_file_is_leftover("12"));
    assert_false(xt_file_is_leftover(""));
}

static void an_abandoned_file_leaves_no_trace(void **state)
{
    struct xt_err err = {0};
    struct xt_file_writer writer = {0};
    xt_file_abandon(&writer);
    assert_int_equal(xt_file_begin(&writer, support_path(folder_of(state), "x"), &err), XT_OK);
    assert_int_equal(xt_file_write(&writer, "half", 4, &err), XT_OK);
    xt_file_abandon(&writer);
    assert_int_equal(entries_in(folder_of(state)), 0);
    xt_file_abandon(&writer);
}

static void a_folder_that_is_not_there_cannot_be_written_to(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "none/a");
    assert_int_equal(xt_file_save(path, "x", 1, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "none/a");
}

static void a_name_that_a_folder_has_cannot_be_written(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "taken");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(xt_file_save(path, "x", 1, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "taken");
    assert_int_equal(entries_in(folder_of(state)), 1);
}

static void a_full_disk_is_an_error(void **state)
{
    struct xt_err err = {0};
    struct xt_file_writer writer = {0};
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0)
        support_skip("no /dev/full");
    assert_int_equal(xt_file_begin(&writer, support_path(folder_of(state), "x"), &err), XT_OK);
    close(writer.fd);
    writer.fd = full;
    assert_int_equal(xt_file_write(&writer, "x", 1, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "No space left");
    xt_file_abandon(&writer);
    assert_int_equal(entries_in(folder_of(state)), 0);
}

static void folders_are_made_with_those_above(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "a/b//c/");
    assert_int_equal(xt_file_make_folder(path, &err), XT_OK);
    assert_true(xt_file_is_folder(path));
    assert_int_equal(xt_file_make_folder(path, &err), XT_OK);
    assert_int_equal(xt_file_make_folder("/", &err), XT_OK);
}

static void a_file_is_no_folder(void **state)
{
    struct xt_err err = {0};
    const char *path = support_path(folder_of(state), "f");
    support_write_file(path, "", 0);
    assert_true(xt_file_exists(path));
    assert_false(xt_file_is_folder(path));
    assert_int_equal(xt_file_make_folder(path, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "is not a folder");
    assert_int_equal(xt_file_make_folder(support_path(folder_of(state), "f/g"), &err), XT_ERR_RUN);
}

static void a_tree_is_listed_in_order_without_hidden_names(void **state)
{
    struct xt_err err = {0};
    const char *root = folder_of(state);
    const char *names[] = {"b.jpg", "a/2.jpg", "a/1.jpg", ".hidden", "a/.git/x", "Z.png"};
    assert_int_equal(xt_file_make_folder(support_path(root, "a/.git"), &err), XT_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        support_write_file(support_path(root, names[i]), "", 0);

    struct xt_file_tree tree = {0};
    assert_int_equal(xt_file_walk(&tree, root, &err), XT_OK);
    const char *expected[] = {"Z.png", "a/1.jpg", "a/2.jpg", "b.jpg"};
    assert_int_equal(tree.files.count, 4);
    for (size_t i = 0; i < tree.files.count; i++)
        assert_string_equal(tree.files.paths[i], support_path(root, expected[i]));
    xt_file_tree_clear(&tree);
    assert_int_equal(tree.files.count, 0);
}

static void a_folder_is_listed_without_what_lies_deeper(void **state)
{
    struct xt_err err = {0};
    const char *root = folder_of(state);
    assert_int_equal(xt_file_make_folder(support_path(root, "b/c"), &err), XT_OK);
    support_write_file(support_path(root, "a"), "", 0);
    support_write_file(support_path(root, ".hidden"), "", 0);
    struct xt_file_list list = {0};
    assert_int_equal(xt_file_list_folder(&list, root, &err), XT_OK);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.paths[0], support_path(root, "a"));
    assert_string_equal(list.paths[1], support_path(root, "b"));
    xt_file_list_clear(&list);
    xt_file_list_folder(&list, support_path(root, "none"), &err);
    support_assert_error(&err, XT_ERR_DATA, "none: No such file");
}

static void a_loop_of_links_ends(void **state)
{
    struct xt_err err = {0};
    const char *root = folder_of(state);
    assert_int_equal(xt_file_make_folder(support_path(root, "a/b"), &err), XT_OK);
    support_write_file(support_path(root, "a/x"), "", 0);
    assert_int_equal(symlink("../..", support_path(root, "a/b/up")), 0);
    assert_int_equal(symlink("self", support_path(root, "self")), 0);

    struct xt_file_tree tree = {0};
    assert_int_equal(xt_file_walk(&tree, root, &err), XT_OK);
    /* The link to itself stays: reading it says what is wrong with it. */
    assert_int_equal(tree.files.count, 2);
    assert_string_equal(tree.files.paths[0], support_path(root, "a/x"));
    assert_string_equal(tree.files.paths[1], support_path(root, "self"));
    xt_file_tree_clear(&tree);
}

static void a_folder_that_links_lead_to_is_entered_once(void **state)
{
    struct xt_err err = {0};
    const char *root = folder_of(state);
    char beside[256];
    char walked[256];
    snprintf(beside, sizeof beside, "%s/beside", root);
    snprintf(walked, sizeof walked, "%s/walked", root);
    assert_int_equal(xt_file_make_folder(support_path(beside, "deep"), &err), XT_OK);
    assert_int_equal(xt_file_make_folder(support_path(walked, "m/n"), &err), XT_OK);
    support_write_file(support_path(beside, "deep/1.jpg"), "", 0);
    support_write_file(support_path(walked, "m/n/2.jpg"), "", 0);
    /* The folder itself goes before links to it, of two links the first one, whole, by its name. */
    assert_int_equal(symlink("m/n", support_path(walked, "a")), 0);
    assert_int_equal(symlink("../../beside", support_path(walked, "m/y")), 0);
    assert_int_equal(symlink("../beside/deep", support_path(walked, "m-first")), 0);
    assert_int_equal(symlink("../beside", support_path(walked, "z")), 0);
    assert_int_equal(symlink("../walked", support_path(beside, "back")), 0);

    struct xt_file_tree tree = {0};
    assert_int_equal(xt_file_walk(&tree, walked, &err), XT_OK);
    assert_int_equal(tree.files.count, 2);
    assert_string_equal(tree.files.paths[0], support_path(walked, "m-first/1.jpg"));
    assert_string_equal(tree.files.paths[1], support_path(walked, "m/n/2.jpg"));
    assert_int_equal(tree.folder_count, 5);
    static const char *const again[][2] = {
        {"/a", "/m/n"}, {"/m/y/back", ""}, {"/m/y/deep", "/m-first"}, {"/z", "/m/y"}};
    assert_int_equal(tree.repeat_count, 4);
    for (size_t i = 0; i < tree.repeat_count; i++) {
        assert_string_equal(tree.repeats[i].path + strlen(walked), again[i][0]);
        assert_string_equal(tree.repeats[i].entered_as + strlen(walked), again[i][1]);
    }
    xt_file_tree_clear(&tree);
}

static void a_walk_says_how_the_folders_were(void **state)
{
    struct xt_err err = {0};
    const char *root = folder_of(state);
    char walked[256];
    snprintf(walked, sizeof walked, "%s/walked", root);
    assert_int_equal(xt_file_make_folder(support_path(root, "beside/c"), &err), XT_OK);
    assert_int_equal(xt_file_make_folder(support_path(walked, "b"), &err), XT_OK);
    support_write_file(support_path(walked, "b/x"), "", 0);
    assert_int_equal(symlink("../beside/c", support_path(walked, "a")), 0);

    struct xt_file_tree tree = {0};
    assert_int_equal(xt_file_walk(&tree, walked, &err), XT_OK);
    assert_int_equal(tree.files.count, 1);
    assert_int_equal(tree.folder_count, 3);
    assert_string_equal(tree.folders[0].path, walked);
    assert_string_equal(tree.folders[1].path, support_path(walked, "a"));
    assert_string_equal(tree.folders[2].path, support_path(walked, "b"));
    for (size_t i = 0; i < tree.folder_count; i++)
        assert_true(xt_file_folder_is_same(&tree.folders[i]));
    support_write_file(support_path(root, "beside/c/y"), "", 0);
    assert_true(xt_file_folder_is_same(&tree.folders[0]));
    assert_false(xt_file_folder_is_same(&tree.folders[1])); /* the link leads there */
    assert_true(xt_file_folder_is_same(&tree.folders[2]));
    xt_file_tree_clear(&tree);
}

static void the_cache_lies_where_the_environment_says(void **state)
{
    (void)state;
    struct xt_err err = {0};
    char *base = NULL;
    setenv("HOME", "/home/me", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("XTRAIN_CACHE_DIR");
    assert_int_equal(xt_file_cache_base(&base, &err), XT_OK);
    assert_string_equal(base, "/home/me/.cache/xtrain");
    free(base);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    assert_int_equal(xt_file_cache_base(&base, &err), XT_OK);
    assert_string_equal(base, "/cache/xtrain");
    free(base);
    setenv("XTRAIN_CACHE_DIR", "own", 1);
    assert_int_equal(xt_file_cache_base(&base, &err), XT_OK);
    assert_string_equal(base, "own");
    free(base);
    unsetenv("XTRAIN_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(xt_file_cache_base(&base, &err), XT_OK);
    assert_null(base);
}

static void a_tree_that_is_not_there_is_an_error(void **state)
{
    struct xt_err err = {0};
    struct xt_file_tree tree = {0};
    assert_int_equal(xt_file_walk(&tree, support_path(folder_of(state), "none"), &err),
                     XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "none");
    xt_file_tree_clear(&tree);
}

static void names_are_joined(void **state)
{
    (void)state;
    const struct {
        const char *folder;
        const char *name;
        const char *joined;
    } cases[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {"/", "b", "/b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct xt_err err = {0};
        char *joined = NULL;
        assert_int_equal(xt_file_join(&joined, cases[i].folder, cases[i].name, &err), XT_OK);
        assert_string_equal(joined, cases[i].joined);
        free(joined);
        assert_string_equal(xt_file_path(cases[i].folder, cases[i].name).text, cases[i].joined);
    }
    char name[2 * XT_PATH_MAX];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct xt_path longest = xt_file_path("a", name);
    assert_false(xt_file_exists(longest.text));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_string_equal(xt_file_beside("a/b", ".sig").text, "a/b.sig");
    assert_string_equal(xt_file_name("a/b.jpg"), "b.jpg");
    assert_string_equal(xt_file_name("b.jpg"), "b.jpg");
    assert_string_equal(xt_file_name("a/"), "");
}

static void the_program_knows_its_folder(void **state)
{
    (void)state;
    struct xt_err err = {0};
    char *folder = NULL;
    assert_int_equal(xt_file_program_folder(&folder, &err), XT_OK);
    char *self = NULL;
    assert_int_equal(xt_file_join(&self, folder, "test_file", &err), XT_OK);
    assert_true(xt_file_exists(self));
    free(self);
    free(folder);
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

static void a_path_is_a_folder_or_lies_in_one(void **state)
{
    const char *folder = folder_of(state);
    const char *file = support_path(folder, "file");
    const char *slashed = support_path(folder, "");
    const struct {
        const char *path, *folder;
    } paths[] = {{folder, folder}, {file, folder}, {slashed, folder}, {"file", "."},
                 {"/", "/"},       {"/file", "/"}, {"a/b", "a"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *found = NULL;
        assert_int_equal(xt_file_folder_of(&found, paths[i].path, NULL), XT_OK);
        assert_string_equal(found, paths[i].folder);
        free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_saved_is_read_back),
        IN_FOLDER(the_read_buffer_serves_again),
        IN_FOLDER(an_empty_file_is_read),
        IN_FOLDER(a_file_over_the_limit_is_refused_not_cut),
        IN_FOLDER(what_is_no_file_is_refused),
        IN_FOLDER(a_pipe_without_a_writer_does_not_hang),
        IN_FOLDER(nothing_is_seen_before_the_commit),
        IN_FOLDER(a_commit_outlasts_a_power_cut),
        IN_FOLDER(a_link_at_a_name_that_could_be_guessed_is_not_followed),
        IN_FOLDER(a_file_written_in_place_is_no_link_and_no_pipe),
        IN_FOLDER(a_folder_that_is_moved_takes_its_file_along),
        IN_FOLDER(what_a_killed_process_left_is_told_by_its_name),
        IN_FOLDER(an_abandoned_file_leaves_no_trace),
        IN_FOLDER(a_folder_that_is_not_there_cannot_be_written_to),
        IN_FOLDER(a_name_that_a_folder_has_cannot_be_written),
        IN_FOLDER(a_full_disk_is_an_error),
        IN_FOLDER(folders_are_made_with_those_above),
        IN_FOLDER(a_file_is_no_folder),
        IN_FOLDER(a_tree_is_listed_in_order_without_hidden_names),
        IN_FOLDER(a_folder_is_listed_without_what_lies_deeper),
        IN_FOLDER(a_loop_of_links_ends),
        IN_FOLDER(a_folder_that_links_lead_to_is_entered_once),
        IN_FOLDER(a_tree_that_is_not_there_is_an_error),
        IN_FOLDER(a_walk_says_how_the_folders_were),
        IN_FOLDER(the_cache_lies_where_the_environment_says),
        IN_FOLDER(a_path_is_a_folder_or_lies_in_one),
        cmocka_unit_test(names_are_joined),
        cmocka_unit_test(the_program_knows_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
