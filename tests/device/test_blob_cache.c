/* Blobs in the kernel cache: what differs from what was stored, or may be another user's, never
 * reaches oneDNN. No GPU and no oneDNN is needed: bytes stand for blobs. */
#include "device/kernels/blob_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static const uint8_t id_bytes[] = "convolution 3x3, AMD EPYC, 3.7.2";
static const struct xt_blob_id id = {id_bytes, sizeof id_bytes};
static const uint8_t blob[] = {1, 2, 3, 0, 255, 7, 8, 9};

static struct xt_kernel_cache cache_in(char *folder)
{
    return (struct xt_kernel_cache){
        .folder = folder, .writable = true, .reads_blobs = true, .writes_blobs = true, .lock = -1};
}

static bool can_read(const char *folder, const struct xt_blob_id *of)
{
    uint8_t *found = NULL;
    size_t size = 0;
    bool there = xt_blob_read(folder, of, &found, &size);
    if (there) {
        assert_int_equal(size, sizeof blob);
        assert_memory_equal(found, blob, size);
    } else {
        assert_null(found);
    }
    free(found);
    return there;
}

static void keep(char *folder)
{
    struct xt_kernel_cache cache = cache_in(folder);
    xt_blob_store(&cache, &id, blob, sizeof blob);
    assert_true(cache.writes_blobs);
}

/* The path of the folder's only blob. */
static const char *only_file(const char *folder)
{
    static char path[4096];
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (*entry->d_name != '.') {
            assert_non_null(strstr(entry->d_name, ".blob_cache"));
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            count++;
        }
    closedir(dir);
    assert_int_equal(count, 1);
    return path;
}

static size_t read_file(const char *path, uint8_t *out, size_t room)
{
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    size_t size = fread(out, 1, room, file);
    fclose(file);
    return size;
}

static void what_was_kept_is_read_again(void **state)
{
    assert_false(can_read(*state, &id));
    keep(*state);
    assert_true(can_read(*state, &id));
    keep(*state);
    assert_true(can_read(*state, &id));
}

static void another_version_has_another_blob(void **state)
{
    static const uint8_t other[] = "convolution 3x3, AMD EPYC, 3.7.3";
    const struct xt_blob_id newer = {other, sizeof other};
    keep(*state);
    assert_false(can_read(*state, &newer));
}

/* As if two ids had the same name: the id in the file decides. */
static void a_blob_under_anothers_name_is_not_taken(void **state)
{
    static const uint8_t other[] = "convolution 5x5, AMD EPYC, 3.7.2";
    const struct xt_blob_id second = {other, sizeof other};
    char first[4096];
    keep(*state);
    snprintf(first, sizeof first, "%s", only_file(*state));
    assert_int_equal(rename(first, support_path(*state, ".first")), 0);
    struct xt_kernel_cache cache = cache_in(*state);
    xt_blob_store(&cache, &second, blob, sizeof blob);
    assert_int_equal(rename(support_path(*state, ".first"), only_file(*state)), 0);
    assert_false(can_read(*state, &second));
}

static void every_changed_byte_and_every_length_is_refused(void **state)
{
    uint8_t bytes[512];
    keep(*state);
    const char *path = only_file(*state);
    size_t size = read_file(path, bytes, sizeof bytes - 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        support_write_file(path, bytes, size);
        assert_false(can_read(*state, &id));
        bytes[i] ^= 0x10;
    }
    for (size_t length = 0; length < size; length++) {
        support_write_file(path, bytes, length);
        assert_false(can_read(*state, &id));
    }
    bytes[size] = 0;
    support_write_file(path, bytes, size + 1);
    assert_false(can_read(*state, &id));
    support_write_file(path, bytes, size);
    assert_true(can_read(*state, &id));
}

static void what_others_can_write_is_refused(void **state)
{
    keep(*state);
    assert_int_equal(chmod(only_file(*state), 0620), 0);
    assert_false(can_read(*state, &id));
    assert_int_equal(chmod(only_file(*state), 0602), 0);
    assert_false(can_read(*state, &id));
    assert_int_equal(chmod(only_file(*state), 0444), 0);
    assert_true(can_read(*state, &id));
}

static void links_are_refused(void **state)
{
    char path[4096];
    keep(*state);
    snprintf(path, sizeof path, "%s", only_file(*state));
    assert_int_equal(link(path, support_path(*state, ".second")), 0);
    assert_false(can_read(*state, &id));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(".second", path), 0);
    assert_false(can_read(*state, &id));
}

static void a_strangers_blob_is_refused(void **state)
{
    if (geteuid() != 0)
        support_skip("only root can give files away");
    keep(*state);
    assert_int_equal(chown(only_file(*state), 12345, 12345), 0);
    assert_false(can_read(*state, &id));
}

static void a_loose_umask_makes_a_tight_file(void **state)
{
    struct stat st;
    mode_t before = umask(0);
    keep(*state);
    umask(before);
    assert_int_equal(stat(only_file(*state), &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
}

static void a_full_cache_keeps_nothing_more(void **state)
{
    struct xt_kernel_cache cache = cache_in(*state);
    cache.bytes = XT_KERNEL_CACHE_MOST;
    xt_blob_store(&cache, &id, blob, sizeof blob);
    assert_false(cache.writes_blobs);
    assert_false(can_read(*state, &id));
}

static void a_folder_that_cannot_be_written_stops_nothing(void **state)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", support_path(*state, "not-there"));
    struct xt_kernel_cache cache = cache_in(folder);
    xt_blob_store(&cache, &id, blob, sizeof blob);
    assert_false(cache.writes_blobs);
}

/* The cache's own rules hold for blobs too. The driver keeps nothing beside them where they are
 * all. */
static void a_blob_is_a_file_of_the_kernel_cache(void **state)
{
    struct xt_kernel_cache cache;
    for (int start = 0; start < 2; start++) {
        unsetenv("NEO_CACHE_DIR");
        unsetenv("cl_cache_dir");
        assert_int_equal(xt_kernel_cache_begin(&cache, *state, false, "libdnnl.so.3", NULL), XT_OK);
        assert_int_equal(cache.valid, start);
        xt_kernel_cache_store_blobs(&cache, false);
        assert_string_equal(getenv("NEO_CACHE_DIR"), cache.folder);
        xt_kernel_cache_store_blobs(&cache, true);
        assert_null(getenv("NEO_CACHE_DIR"));
        assert_null(getenv("cl_cache_dir"));
        assert_string_equal(getenv("NEO_CACHE_PERSISTENT"), "0");
        assert_int_equal(can_read(cache.folder, &id), start);
        if (start == 0)
            xt_blob_store(&cache, &id, blob, sizeof blob);
        assert_int_equal(xt_kernel_cache_count(&cache), 1);
        assert_int_equal(xt_kernel_cache_record(&cache, "", NULL), XT_OK);
        xt_kernel_cache_end(&cache);
    }
}

static void a_cache_that_is_off_keeps_no_blobs(void **state)
{
    struct xt_kernel_cache cache;
    unsetenv("NEO_CACHE_DIR");
    unsetenv("cl_cache_dir");
    assert_int_equal(xt_kernel_cache_begin(&cache, *state, true, "libdnnl.so.3", NULL), XT_OK);
    xt_kernel_cache_store_blobs(&cache, true);
    assert_false(cache.reads_blobs);
    assert_false(cache.writes_blobs);
    xt_kernel_cache_end(&cache);
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_kept_is_read_again),
        IN_FOLDER(another_version_has_another_blob),
        IN_FOLDER(a_blob_under_anothers_name_is_not_taken),
        IN_FOLDER(every_changed_byte_and_every_length_is_refused),
        IN_FOLDER(what_others_can_write_is_refused),
        IN_FOLDER(links_are_refused),
        IN_FOLDER(a_strangers_blob_is_refused),
        IN_FOLDER(a_loose_umask_makes_a_tight_file),
        IN_FOLDER(a_full_cache_keeps_nothing_more),
        IN_FOLDER(a_folder_that_cannot_be_written_stops_nothing),
        IN_FOLDER(a_blob_is_a_file_of_the_kernel_cache),
        IN_FOLDER(a_cache_that_is_off_keeps_no_blobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
