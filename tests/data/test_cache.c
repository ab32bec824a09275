/* The cache of decoded pixels in memory and on disk, and what happens when the disk or the images
 * change.
 */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/cache.h"
#include "data/loader.h"
#include "data/sources/registry.h"

enum { W = 12, H = 7, SIZE = W * H * 3, COUNT = 20, SLOTS = 2 };

static struct xt_source *source;
static struct xt_cache *cache;
static struct xt_cache_config config;
static char path[512];
static uint8_t *slots[SLOTS];
static struct xt_err err;

static void save_image(const char *folder, int number, int shade)
{
    uint8_t pixels[30 * 20 * 3];
    struct xt_image image = {.width = 30, .height = 20, .pixels = pixels};
    char name[32];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(shade + (int)i * number);
    snprintf(name, sizeof name, "%d/%d.png", number % 2, number + 10);
    assert_int_equal(xt_png_save(support_path(folder, name), &image, XT_PIXEL_RGB, &err), XT_OK);
}

static int setup(void **state)
{
    if (support_make_folder(state))
        return -1;
    mkdir(support_path(*state, "0"), 0777);
    mkdir(support_path(*state, "1"), 0777);
    for (int i = 0; i < COUNT; i++)
        save_image(*state, i, 30);
    struct xt_source_options options = {.task = XT_TASK_CLASSES};
    if (xt_source_open(&source, *state, &options, &err))
        return -1;
    snprintf(path, sizeof path, "%s", support_path(*state, "cache.bin"));
    config = (struct xt_cache_config){
        .source = source, .kind = XT_CACHE_RAM, .path = path, .width = W, .height = H};
    for (int i = 0; i < SLOTS; i++)
        slots[i] = malloc(COUNT * SIZE);
    cache = NULL;
    return 0;
}

static int teardown(void **state)
{
    xt_cache_destroy(cache);
    xt_source_destroy(source);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    return support_remove_folder(state);
}

static void create(void)
{
    xt_cache_destroy(cache);
    cache = NULL;
    if (xt_cache_create(&cache, &config, &err))
        fail_msg("%s", err.text);
}

static void put(size_t index, int shade)
{
    uint8_t pixels[SIZE];
    memset(pixels, shade, sizeof pixels);
    xt_cache_put(cache, index, pixels);
}

static bool has(size_t index, int shade)
{
    uint8_t pixels[SIZE];
    uint8_t wanted[SIZE];
    memset(wanted, shade, sizeof wanted);
    return xt_cache_get(cache, index, pixels) && memcmp(pixels, wanted, SIZE) == 0;
}

static void what_was_put_is_there(void **state)
{
    (void)state;
    for (int kind = XT_CACHE_RAM; kind <= XT_CACHE_DISK; kind++) {
        config.kind = (enum xt_cache_kind)kind;
        create();
        assert_int_equal(xt_cache_room(cache), COUNT);
        assert_false(has(3, 9));
        put(3, 9);
        put(COUNT - 1, 10);
        assert_true(has(3, 9));
        assert_true(has(COUNT - 1, 10));
        assert_false(has(4, 9));
    }
}

static void the_limit_is_observed(void **state)
{
    (void)state;
    config.limit = 5 * SIZE + 1;
    create();
    assert_int_equal(xt_cache_room(cache), 5);
    put(4, 1);
    put(5, 1);
    assert_true(has(4, 1));
    assert_false(has(5, 1));
}

static void a_file_is_used_again(void **state)
{
    (void)state;
    config.kind = XT_CACHE_DISK;
    create();
    put(3, 9);
    create();
    assert_true(has(3, 9));
    config.width++;
    create();
    config.width--;
    create();
    assert_false(has(3, 9));
}

static void an_image_that_changed_is_decoded_again(void **state)
{
    config.kind = XT_CACHE_DISK;
    create();
    put(0, 9);
    put(1, 9);
    save_image(*state, 0, 31);
    assert_false(has(0, 9));
    assert_true(has(1, 9));
}

static void a_file_that_shrinks_or_is_damaged_costs_decoding_again(void **state)
{
    (void)state;
    config.kind = XT_CACHE_DISK;
    create();
    for (size_t i = 0; i < COUNT; i++)
        put(i, 9);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, st.st_size - COUNT * SIZE + 5), 1);
    close(fd);
    assert_false(has(0, 9));
    assert_true(has(1, 9));
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    assert_false(has(COUNT - 1, 9));
    assert_int_equal(truncate(path, 3), 0);
    assert_false(has(1, 9));
    put(1, 8);
    assert_true(has(1, 8));
}

static void a_full_disk_is_noted_and_no_error(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK))
        support_skip("no /dev/full here");
    config.kind = XT_CACHE_DISK;
    config.path = "/dev/full";
    assert_int_equal(xt_cache_create(&cache, &config, &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, "cannot write the cache /dev/full");
}

static void synthetic_pictures_are_not_cached_on_disk(void **state)
{
    (void)state;
    struct xt_source *made = NULL;
    struct xt_source_options options = {.task = XT_TASK_CLASSES};
    assert_int_equal(xt_source_open(&made, "synth:shapes?count=10", &options, &err), XT_OK);
    config.source = made;
    config.kind = XT_CACHE_DISK;
    assert_int_equal(xt_cache_create(&cache, &config, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "use --image-cache ram");
    xt_source_destroy(made);
}

/* A hash of the pixels and labels of three epochs. */
static uint64_t run_loader(const struct xt_cache_config *with, int workers)
{
    struct xt_loader_config loading = {.source = source,
                                       .batch = 6,
                                       .width = W,
                                       .height = H,
                                       .workers = workers,
                                       .slots = SLOTS,
                                       .slot_pixels = slots,
                                       .shuffle = true,
                                       .augment = true,
                                       .flip = true,
                                       .repeat = true,
                                       .seed = 3};
    struct xt_loader *loader = NULL;
    uint64_t hash = 1;
    if (with) {
        create();
        loading.cache = cache;
    }
    assert_int_equal(xt_loader_create(&loader, &loading, &err), XT_OK);
    for (uint64_t step = 0; step < 3 * xt_loader_epoch_steps(&loading); step++) {
        struct xt_batch batch;
        bool end;
        assert_int_equal(xt_loader_next(loader, &batch, &end, NULL, &err), XT_OK);
        for (int i = 0; i < batch.count * SIZE; i++)
            hash = (hash ^ batch.pixels[i]) * 1099511628211u;
        for (int i = 0; i < batch.count; i++)
            hash = (hash ^ (uint64_t)batch.labels[i * XT_LABEL_MAX]) * 1099511628211u;
        xt_loader_release(loader, &batch);
    }
    xt_loader_destroy(loader);
    return hash;
}

static void a_cache_changes_no_byte_of_a_batch(void **state)
{
    (void)state;
    uint64_t without = run_loader(NULL, 1);
    assert_true(run_loader(&config, 3) == without);
    config.kind = XT_CACHE_DISK;
    assert_true(run_loader(&config, 2) == without);
    assert_true(run_loader(&config, 3) == without);
}

static void later_epochs_read_no_file(void **state)
{
    struct xt_loader_config loading = {.source = source,
                                       .batch = COUNT,
                                       .width = W,
                                       .height = H,
                                       .workers = 2,
                                       .slots = SLOTS,
                                       .slot_pixels = slots,
                                       .repeat = true,
                                       .strict = true};
    struct xt_loader *loader = NULL;
    struct xt_batch batch;
    bool end;
    create();
    loading.cache = cache;
    assert_int_equal(xt_loader_create(&loader, &loading, &err), XT_OK);
    assert_int_equal(xt_loader_next(loader, &batch, &end, NULL, &err), XT_OK);
    char name[1024];
    for (size_t i = 0; i < COUNT; i++) {
        source->class->name(source, i, name, sizeof name);
        unlink(name);
    }
    (void)state;
    for (int i = 0; i < 4; i++) {
        xt_loader_release(loader, &batch);
        assert_int_equal(xt_loader_next(loader, &batch, &end, NULL, &err), XT_OK);
    }
    xt_loader_destroy(loader);
}

#define cache_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cache_test(what_was_put_is_there),
        cache_test(the_limit_is_observed),
        cache_test(a_file_is_used_again),
        cache_test(an_image_that_changed_is_decoded_again),
        cache_test(a_file_that_shrinks_or_is_damaged_costs_decoding_again),
        cache_test(a_full_disk_is_noted_and_no_error),
        cache_test(synthetic_pictures_are_not_cached_on_disk),
        cache_test(a_cache_changes_no_byte_of_a_batch),
        cache_test(later_epochs_read_no_file),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
