/* Shards and files of pixels: their contents, and failing writes. */
#include "support.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/cache.h"
#include "data/pack.h"
#include "data/sources/registry.h"

enum { COUNT = 12 };

static struct xt_alphabet *alphabet;
static struct xt_source *source;
static struct xt_packed packed;
static struct xt_pack_config config;
static struct xt_err err;
static char prefix[512];

/* Plates from 京A10000 on. */
static void save_plate(const char *folder, int number)
{
    uint8_t pixels[30 * 8 * 3];
    struct xt_image image = {.width = 30, .height = 8, .pixels = pixels};
    char name[32];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)((int)i * (number + 3) / 2);
    snprintf(name, sizeof name, "in/京A%d.png", 10000 + number);
    assert_int_equal(xt_png_save(support_path(folder, name), &image, XT_PIXEL_RGB, &err), XT_OK);
}

static void open_source(const char *spec)
{
    struct xt_source_options options = {.alphabet = alphabet, .order = XT_PIXEL_BGR};
    if (xt_source_open(&source, spec, &options, &err))
        fail_msg("%s", err.text);
    config = (struct xt_pack_config){.source = source,
                                     .order = XT_PIXEL_BGR,
                                     .alphabet = alphabet,
                                     .prefix = prefix,
                                     .shard_bytes = 1 << 20,
                                     .path = prefix,
                                     .width = 20,
                                     .height = 6,
                                     .workers = 2};
}

static int setup(void **state)
{
    if (support_make_folder(state))
        return -1;
    mkdir(support_path(*state, "in"), 0777);
    for (int i = 0; i < COUNT; i++)
        save_plate(*state, i);
    snprintf(prefix, sizeof prefix, "%s", support_path(*state, "out/p"));
    xt_alphabet_load(&alphabet, NULL, &err);
    open_source(support_path(*state, "in"));
    return 0;
}

static int teardown(void **state)
{
    xt_packed_clear(&packed);
    xt_source_destroy(source);
    xt_alphabet_destroy(alphabet);
    return support_remove_folder(state);
}

static void pack(void)
{
    xt_packed_clear(&packed);
    if (xt_pack_shards(&config, &packed, &err))
        fail_msg("%s", err.text);
}

static const char *shard(int number)
{
    static char path[600];
    snprintf(path, sizeof path, "%s-%06d.tar", prefix, number);
    return path;
}

/* The bytes of a shard's file (release with free), or NULL. */
static uint8_t *read_member(int number, const char *name, size_t *size)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry = NULL;
    uint8_t *bytes = NULL;
    archive_read_support_format_tar(archive);
    assert_int_equal(archive_read_open_filename(archive, shard(number), 10240), ARCHIVE_OK);
    while (!bytes && archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
        if (strcmp(archive_entry_pathname(entry), name) != 0)
            continue;
        *size = (size_t)archive_entry_size(entry);
        bytes = malloc(*size + 1);
        assert_int_equal(archive_read_data(archive, bytes, *size), *size);
    }
    archive_read_free(archive);
    return bytes;
}

static void a_file_keeps_its_bytes_and_its_label_stands_beside_it(void **state)
{
    (void)state;
    pack();
    assert_int_equal(packed.images, COUNT);
    assert_int_equal(packed.shards, 1);
    char path[1024];
    size_t size = 0;
    size_t packed_size = 0;
    source->class->name(source, 5, path, sizeof path);
    uint8_t *bytes = support_read_file(path, &size);
    uint8_t *image = read_member(0, "00000005.png", &packed_size);
    assert_non_null(image);
    assert_int_equal(packed_size, size);
    assert_memory_equal(image, bytes, size);
    uint8_t *label = read_member(0, "00000005.txt", &packed_size);
    assert_non_null(label);
    label[packed_size] = '\0';
    assert_non_null(strstr(path, (char *)label));
    free(label);
    free(image);
    free(bytes);
}

static void a_made_image_becomes_a_png_of_its_pixels(void **state)
{
    (void)state;
    xt_source_destroy(source);
    open_source("synth:plates?count=3&seed=4");
    pack();
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct xt_picture picture = {0};
    size_t size = 0;
    uint8_t *bytes = read_member(0, "00000002.png", &size);
    assert_non_null(bytes);
    assert_int_equal(source->class->read(source, 2, NULL, &decoder, &sample, &err), XT_OK);
    assert_int_equal(
        xt_decoder_decode(&decoder, bytes, size, XT_PIXEL_BGR, NULL, "it", &picture, &err), XT_OK);
    assert_int_equal(picture.image.width, sample.picture.image.width);
    assert_int_equal(picture.image.height, sample.picture.image.height);
    assert_memory_equal(picture.image.pixels, sample.picture.image.pixels,
                        (size_t)(picture.image.width * picture.image.height * 3));
    xt_image_clear(&sample.picture.image);
    xt_image_clear(&picture.image);
    xt_decoder_clear(&decoder);
    free(bytes);
}

static void a_shard_is_at_most_as_large_as_asked(void **state)
{
    (void)state;
    config.shard_bytes = 8192;
    pack();
    assert_true(packed.shards > 2);
    for (int i = 0; i < (int)packed.shards; i++) {
        struct stat st;
        assert_int_equal(stat(shard(i), &st), 0);
        assert_in_range(st.st_size, 2048, 8192);
    }
    assert_false(xt_file_exists(shard((int)packed.shards)));
    config.shard_bytes = 1;
    for (int i = 0; i < (int)packed.shards; i++)
        unlink(shard(i));
    pack();
    assert_int_equal(packed.shards, COUNT);
}

static void the_same_set_gives_the_same_bytes(void **state)
{
    (void)state;
    uint8_t *bytes[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        size_t capacity = 0;
        pack();
        assert_int_equal(xt_file_read(shard(0), 1 << 20, &bytes[i], &capacity, &sizes[i], &err),
                         XT_OK);
        unlink(shard(0));
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void shards_that_are_there_are_not_written_over(void **state)
{
    (void)state;
    pack();
    xt_packed_clear(&packed);
    assert_int_equal(xt_pack_shards(&config, &packed, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "p-000000.tar exists already");
}

static void spoil(size_t index)
{
    char path[1024];
    source->class->name(source, index, path, sizeof path);
    assert_int_equal(truncate(path, 50), 0);
}

static void a_bad_image_is_left_out_and_counted_and_two_are_too_many(void **state)
{
    (void)state;
    spoil(3);
    pack();
    assert_int_equal(packed.images, COUNT - 1);
    assert_int_equal(packed.bad, 1);
    assert_non_null(strstr(packed.first_bad, "10003"));
    size_t size = 0;
    assert_null(read_member(0, "00000003.png", &size));
    unlink(shard(0));
    spoil(7);
    xt_packed_clear(&packed);
    assert_int_equal(xt_pack_shards(&config, &packed, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "2 of 12 images cannot be used; the first: ");
    assert_false(xt_file_exists(shard(0)));
}

static void shards_are_read_as_the_set_that_was_packed(void **state)
{
    config.shard_bytes = 8192;
    pack();
    assert_true(packed.shards > 2);
    struct xt_source_options options = {.alphabet = alphabet, .order = XT_PIXEL_BGR};
    struct xt_source *shards = NULL;
    struct xt_decoder decoder = {0};
    struct xt_sample a = {0};
    struct xt_sample b = {0};
    if (xt_source_open(&shards, support_path(*state, "out"), &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(shards->count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(source->class->read(source, i, NULL, &decoder, &a, &err), XT_OK);
        assert_int_equal(shards->class->read(shards, i, NULL, &decoder, &b, &err), XT_OK);
        assert_int_equal(a.label_length, b.label_length);
        assert_memory_equal(a.label, b.label, (size_t)a.label_length * sizeof a.label[0]);
        assert_int_equal(a.picture.image.width, b.picture.image.width);
        assert_int_equal(a.picture.image.height, b.picture.image.height);
        assert_memory_equal(a.picture.image.pixels, b.picture.image.pixels,
                            (size_t)(a.picture.image.width * a.picture.image.height * 3));
    }
    xt_image_clear(&a.picture.image);
    xt_image_clear(&b.picture.image);
    xt_decoder_clear(&decoder);
    xt_source_destroy(shards);
}

static void shards_that_are_packed_again_keep_the_bytes(void **state)
{
    size_t size = 0;
    uint8_t *bytes =
        support_read_file(support_path("tests/fuzz/corpus/image", "ycc_420.jpg"), &size);
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "in/京A%d.png", 10000 + i);
        support_write_file(support_path(*state, name), bytes, size);
    }
    pack();
    xt_source_destroy(source);
    open_source(support_path(*state, "out"));
    snprintf(prefix, sizeof prefix, "%s", support_path(*state, "again/p"));
    pack();
    size_t packed_size = 0;
    uint8_t *image = read_member(0, "00000005.jpg", &packed_size);
    assert_non_null(image);
    assert_int_equal(packed_size, size);
    assert_memory_equal(image, bytes, size);
    free(image);
    free(bytes);
}

static void pixels_are_the_cache_of_a_training_run(void **state)
{
    (void)state;
    assert_int_equal(xt_pack_pixels(&config, &packed, &err), XT_OK);
    assert_int_equal(packed.images, COUNT);
    struct xt_cache_config use = {.source = source,
                                  .kind = XT_CACHE_DISK,
                                  .path = prefix,
                                  .shared = true,
                                  .width = 20,
                                  .height = 6,
                                  .order = XT_PIXEL_BGR};
    struct xt_cache *cache = NULL;
    uint8_t pixels[20 * 6 * 3];
    assert_int_equal(xt_cache_create(&cache, &use, &err), XT_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(xt_cache_get(cache, i, pixels));
    xt_cache_destroy(cache);
    use.width = 21;
    assert_int_equal(xt_cache_create(&cache, &use, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "holds 12 images of 20 x 6 pixels, and here are 12 of");
}

static void a_file_that_is_something_else_is_left_as_it_is(void **state)
{
    (void)state;
    pack();
    config.path = shard(0);
    struct stat before;
    struct stat after;
    stat(shard(0), &before);
    xt_packed_clear(&packed);
    assert_int_equal(xt_pack_pixels(&config, &packed, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "is not a cache of pixels and is left unchanged");
    stat(shard(0), &after);
    assert_int_equal(before.st_size, after.st_size);
}

#define pack_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pack_test(a_file_keeps_its_bytes_and_its_label_stands_beside_it),
        pack_test(a_made_image_becomes_a_png_of_its_pixels),
        pack_test(shards_that_are_packed_again_keep_the_bytes),
        pack_test(a_shard_is_at_most_as_large_as_asked),
        pack_test(the_same_set_gives_the_same_bytes),
        pack_test(shards_that_are_there_are_not_written_over),
        pack_test(a_bad_image_is_left_out_and_counted_and_two_are_too_many),
        pack_test(shards_are_read_as_the_set_that_was_packed),
        pack_test(pixels_are_the_cache_of_a_training_run),
        pack_test(a_file_that_is_something_else_is_left_as_it_is),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
