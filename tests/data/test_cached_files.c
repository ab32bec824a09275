#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/cached_files.h"
#include "data/sources/registry.h"

static struct xt_err err;
static uint8_t shades[XT_CACHED_FILE_MAX + 1];

static bool holds(const struct xt_cached_files *cache, size_t index, uint8_t shade, size_t size)
{
    const uint8_t *bytes = NULL;
    size_t found = 0;
    return xt_cached_files_get(cache, index, &bytes, &found) && found == size &&
           bytes[0] == shade && bytes[size - 1] == shade;
}

static void put(struct xt_cached_files *cache, size_t index, uint8_t shade, size_t size)
{
    memset(shades, shade, size);
    xt_cached_files_put(cache, index, shades, size);
}

static void small_files_are_cached_as_first_read(void **state)
{
    (void)state;
    struct xt_cached_files *cache = NULL;
    assert_int_equal(xt_cached_files_create(&cache, 3, 1 << 20, &err), XT_OK);
    assert_false(holds(cache, 1, 7, 100));
    put(cache, 1, 7, 100);
    put(cache, 1, 8, 200);
    assert_true(holds(cache, 1, 7, 100));
    put(cache, 0, 9, XT_CACHED_FILE_MAX);
    put(cache, 2, 9, XT_CACHED_FILE_MAX + 1);
    assert_true(holds(cache, 0, 9, XT_CACHED_FILE_MAX));
    assert_false(holds(cache, 2, 9, XT_CACHED_FILE_MAX + 1));
    xt_cached_files_destroy(cache);
}

static void the_limit_is_not_exceeded(void **state)
{
    (void)state;
    struct xt_cached_files *cache = NULL;
    assert_int_equal(xt_cached_files_create(&cache, 4, 2200, &err), XT_OK);
    for (size_t i = 0; i < 3; i++)
        put(cache, i, 1, 1000);
    assert_true(holds(cache, 0, 1, 1000) && holds(cache, 1, 1, 1000));
    assert_false(holds(cache, 2, 1, 1000));
    /* What did not fit uses no room. */
    put(cache, 3, 2, 100);
    assert_true(holds(cache, 3, 2, 100));
    xt_cached_files_destroy(cache);
}

enum { FILES = 500 };

static void *put_all(void *argument)
{
    struct xt_cached_files *cache = argument;
    uint8_t bytes[64];
    for (size_t i = 0; i < FILES; i++) {
        memset(bytes, (int)(i % 251), sizeof bytes);
        xt_cached_files_put(cache, i, bytes, sizeof bytes);
        if (!holds(cache, i, (uint8_t)(i % 251), sizeof bytes))
            return cache;
    }
    return NULL;
}

static void threads_may_cache_the_same_file(void **state)
{
    (void)state;
    struct xt_cached_files *cache = NULL;
    pthread_t threads[3];
    assert_int_equal(xt_cached_files_create(&cache, FILES, 1 << 20, &err), XT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_all, cache), 0);
    for (int i = 0; i < 3; i++) {
        void *failed = cache;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    xt_cached_files_destroy(cache);
}

/* A source of one image, which is removed after it was read. */
static enum xt_status read_twice(const char *folder, uint64_t limit)
{
    const struct xt_source_options options = {.labels_optional = true, .task = XT_TASK_CLASSES};
    char path[512];
    size_t size = 0;
    struct xt_source *source = NULL;
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    snprintf(path, sizeof path, "%s/京A12345.jpg", folder);
    uint8_t *bytes = support_read_file("tests/fuzz/corpus/image/ycc_444.jpg", &size);
    support_write_file(path, bytes, size);
    free(bytes);
    assert_int_equal(xt_source_open(&source, folder, &options, &err), XT_OK);
    if (limit)
        assert_int_equal(xt_source_cache(source, limit, &err), XT_OK);
    assert_int_equal(source->class->read(source, 0, NULL, &decoder, &sample, &err), XT_OK);
    assert_int_equal(unlink(path), 0);
    enum xt_status status = source->class->read(source, 0, NULL, &decoder, &sample, &err);
    assert_true(status ||
                (sample.picture.image.width == 24 && sample.picture.image.pixels[0] > 150));
    xt_image_clear(&sample.picture.image);
    xt_decoder_clear(&decoder);
    xt_source_destroy(source);
    return status;
}

static void a_source_that_caches_files_reads_each_once(void **state)
{
    assert_int_equal(read_twice(*state, 1 << 20), XT_OK);
}

static void a_source_reads_a_file_each_time_where_it_does_not(void **state)
{
    assert_int_equal(read_twice(*state, 0), XT_ERR_DATA);
    assert_non_null(strstr(err.text, "A12345.jpg"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_are_cached_as_first_read),
        cmocka_unit_test(the_limit_is_not_exceeded),
        cmocka_unit_test(threads_may_cache_the_same_file),
        cmocka_unit_test_setup_teardown(a_source_that_caches_files_reads_each_once,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(a_source_reads_a_file_each_time_where_it_does_not,
                                        support_make_folder, support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
