/* Sealed files: what is handed out is byte for byte what was written, by this user or root. */
#include "base/sealed.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "support.h"

static const struct xt_sealed_kind kind = {"XTTEST", 3, 1000};
static const struct xt_sealed content = {"the key", 7, "a body", 6};

static const char *write_one(void *folder)
{
    const char *path = support_path(folder, "sealed");
    struct xt_err err;
    if (xt_sealed_write(&kind, path, &content, &err))
        fail_msg("%s", err.text);
    return path;
}

static void assert_refused(const char *path, const char *why)
{
    struct xt_sealed found;
    struct xt_err err;
    uint8_t *bytes = NULL;
    assert_int_equal(xt_sealed_read(&kind, path, &bytes, &found, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, path);
    support_assert_error(&err, XT_ERR_DATA, why);
    assert_null(bytes);
}

static void assert_taken(const char *path)
{
    struct xt_sealed found;
    struct xt_err err;
    uint8_t *bytes = NULL;
    if (xt_sealed_read(&kind, path, &bytes, &found, &err))
        fail_msg("%s", err.text);
    assert_true(xt_sealed_is_of(&found, content.key, content.key_size));
    assert_false(xt_sealed_is_of(&found, "the kez", 7));
    assert_false(xt_sealed_is_of(&found, "the key", 6));
    assert_int_equal(found.body_size, content.body_size);
    assert_memory_equal(found.body, content.body, content.body_size);
    free(bytes);
}

static void what_was_written_is_read(void **state)
{
    assert_taken(write_one(*state));
    assert_taken(write_one(*state));
    assert_refused(support_path(*state, "none"), "cannot be read");
}

static void the_layout_is_the_one_of_the_header_file(void **state)
{
    static const uint8_t start[24] = "XTTEST\0\0\3\0\0\0\7\0\0\0\6\0\0\0\0\0\0";
    uint8_t whole[24 + 14];
    size_t size = 0;
    uint8_t *bytes = support_read_file(write_one(*state), &size);
    assert_int_equal(size, XT_SEALED_HEAD + 13);
    assert_memory_equal(bytes, start, sizeof start);
    assert_memory_equal(bytes + XT_SEALED_HEAD, "the keya body", 13);
    memcpy(whole, start, sizeof start);
    memcpy(whole + sizeof start, "the keya body", 14);
    struct xt_sha256_digest sum = xt_sha256(whole, sizeof whole - 1);
    assert_memory_equal(bytes + 24, sum.bytes, sizeof sum.bytes);
    free(bytes);
}

static void every_changed_bit_and_every_length_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[XT_SEALED_HEAD + 14] = {0};
    struct xt_sealed found;
    xt_sealed_head(&kind, &content, bytes);
    memcpy(bytes + XT_SEALED_HEAD, "the keya body", 14);
    const size_t size = sizeof bytes - 1;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(xt_sealed_check(&kind, bytes, size, &found));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t length = 0; length <= size + 1; length++) {
        uint8_t *part = malloc(length + !length);
        memcpy(part, bytes, length);
        assert_int_equal(xt_sealed_check(&kind, part, length, &found), length == size);
        free(part);
    }
}

static void other_kinds_and_versions_are_refused(void **state)
{
    static const struct xt_sealed_kind others[] = {{"XTTEST", 4, 1000}, {"XTTESU", 3, 1000}};
    const char *path = support_path(*state, "sealed");
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(xt_sealed_write(&others[i], path, &content, NULL), XT_OK);
        assert_refused(path, "damaged or of another version");
    }
}

static void what_is_too_large_is_neither_written_nor_read(void **state)
{
    static const struct xt_sealed_kind small = {"XTTEST", 3, XT_SEALED_HEAD + 12};
    const char *path = support_path(*state, "small");
    struct xt_err err;
    assert_int_equal(xt_sealed_write(&small, path, &content, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "small would be larger than");
    assert_false(xt_file_exists(path));
    assert_int_equal(truncate(write_one(*state), 1001), 0);
    assert_refused(support_path(*state, "sealed"), "too large");
}

static void a_strangers_file_is_refused(void **state)
{
    const char *path = write_one(*state);
    assert_int_equal(chmod(path, 0620), 0);
    assert_refused(path, "others can write it");
    assert_int_equal(chmod(path, 0602), 0);
    assert_refused(path, "others can write it");
    assert_int_equal(chmod(path, 0444), 0);
    assert_taken(path);
    const char *second = support_path(*state, "second");
    assert_int_equal(link(path, second), 0);
    assert_refused(path, "another name");
    assert_int_equal(unlink(second), 0);
    assert_int_equal(symlink(path, second), 0);
    assert_refused(second, "symbolic link");
    assert_refused(*state, "not a file");
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_refused(path, "another user");
    }
}

static void a_loose_umask_makes_a_tight_file(void **state)
{
    struct stat st;
    mode_t before = umask(0);
    const char *path = write_one(*state);
    umask(before);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_full_disk_leaves_the_file_that_was_there(void **state)
{
    const char *path = write_one(*state);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 60;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum xt_status status = xt_sealed_write(&kind, path, &content, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, XT_ERR_RUN);
    assert_taken(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(*state), 0); /* nothing half written beside it */
    assert_int_equal(mkdir(*state, 0700), 0);
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_written_is_read),
        IN_FOLDER(the_layout_is_the_one_of_the_header_file),
        cmocka_unit_test(every_changed_bit_and_every_length_is_refused),
        IN_FOLDER(other_kinds_and_versions_are_refused),
        IN_FOLDER(what_is_too_large_is_neither_written_nor_read),
        IN_FOLDER(a_strangers_file_is_refused),
        IN_FOLDER(a_loose_umask_makes_a_tight_file),
        IN_FOLDER(a_full_disk_leaves_the_file_that_was_there),
    };
    return cmocka_run_group_tests_name("sealed", tests, NULL, NULL);
}
