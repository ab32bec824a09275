/* Batches that cross to the test double of a GPU (run through double.sh; skipped elsewhere). */
#include "data/sources/registry.h"
#include "device/upload.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/gpu/pointer.h"
#include "support.h"
#include "infer/feed.h"

enum { W = 24, H = 10, BATCH = 4, BYTES = BATCH * W * H * 3, STEPS = 7 };

static struct xt_device device;
static struct xt_source *source;

static int setup(void **state)
{
    (void)state;
    if (!getenv("OPENCL_LAYERS"))
        return 0;
    const struct xt_device_options options = {.spec = "xpu", .threads = 1};
    struct xt_err err = {0};
    if (xt_device_open_with(&device, &options, &err))
        fail_msg("%s", err.text);
    struct xt_alphabet *alphabet = NULL;
    assert_int_equal(xt_alphabet_load(&alphabet, NULL, &err), XT_OK);
    struct xt_source_options made = {.task = XT_TASK_PLATES, .alphabet = alphabet};
    assert_int_equal(xt_source_open(&source, "synth:plates?count=12&seed=3", &made, &err), XT_OK);
    *state = alphabet;
    return 0;
}

static int teardown(void **state)
{
    xt_source_destroy(source);
    source = NULL;
    xt_alphabet_destroy(*state);
    xt_device_close(&device);
    return 0;
}

static void need_double(void)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
}

static struct xt_loader_config training(void)
{
    return (struct xt_loader_config){.source = source,
                                     .batch = BATCH,
                                     .width = W,
                                     .height = H,
                                     .workers = 1,
                                     .shuffle = true,
                                     .repeat = true,
                                     .drop_last = true,
                                     .seed = 11};
}

/* The first STEPS batches as a CPU's step would read them. */
static void expect(uint8_t *pixels, int *labels)
{
    const struct xt_upload_config way = {.slots = 2, .batch = BATCH, .height = H, .width = W};
    const struct xt_loader_config config = training();
    struct xt_upload upload;
    struct xt_feed *feed = NULL;
    assert_int_equal(xt_upload_init(&upload, &way, NULL), XT_OK);
    assert_int_equal(xt_feed_create(&feed, &upload, &config, false, NULL), XT_OK);
    for (int step = 0; step < STEPS; step++) {
        struct xt_feed_batch batch;
        bool end = false;
        assert_int_equal(xt_feed_next(feed, &batch, &end, NULL, NULL), XT_OK);
        memcpy(pixels + (size_t)step * BYTES, batch.host.pixels, BYTES);
        labels[step] = batch.host.labels[0];
        xt_feed_release(feed, &batch);
    }
    xt_feed_destroy(feed);
    xt_upload_clear(&upload);
}

static void same_batches_arrive(bool pageable, bool in_turn)
{
    static uint8_t expected[STEPS * BYTES];
    int labels[STEPS];
    need_double();
    expect(expected, labels);
    const struct xt_upload_config way = {.device = &device,
                                         .slots = 3,
                                         .batch = BATCH,
                                         .height = H,
                                         .width = W,
                                         .pageable = pageable};
    const struct xt_loader_config config = training();
    struct xt_upload upload;
    struct xt_feed *feed = NULL;
    struct xt_err err = {0};
    if (xt_upload_init(&upload, &way, &err) ||
        xt_feed_create(&feed, &upload, &config, in_turn, &err))
        fail_msg("%s", err.text);
    assert_true(upload.transfers);
    /* The double has no families of queues: a second one of the usual kind. */
    assert_non_null(xt_upload_queue(&upload));
    assert_string_equal(xt_upload_queue(&upload), "");
    for (int step = 0; step < STEPS; step++) {
        struct xt_feed_batch batch;
        bool end = false;
        if (xt_feed_next(feed, &batch, &end, NULL, &err))
            fail_msg("%s", err.text);
        assert_null(batch.host.pixels);
        assert_int_equal(batch.host.labels[0], labels[step]);
        uint8_t arrived[BYTES];
        struct xt_device_memory memory = *batch.uploaded;
        assert_int_equal(xt_device_memory_read(&memory, arrived, BYTES, XT_CAUSE_OTHER, NULL),
                         XT_OK);
        assert_memory_equal(arrived, expected + (size_t)step * BYTES, BYTES);
        xt_feed_release(feed, &batch);
    }
    xt_feed_destroy(feed);
    /* Batches may have been brought ahead. */
    uint64_t images = device.traffic.up[XT_CAUSE_IMAGES];
    assert_true(images >= STEPS * BYTES && images <= (STEPS + XT_UPLOAD_BUFFERS) * BYTES);
    assert_int_equal(images % BYTES, 0);
    assert_int_equal(device.traffic.down[XT_CAUSE_IMAGES], 0);
    xt_upload_clear(&upload);
}

static void pinned_slots_are_uploaded_while_the_step_before_runs(void **state)
{
    (void)state;
    same_batches_arrive(false, false);
}

static void pageable_slots_arrive_too(void **state)
{
    (void)state;
    same_batches_arrive(true, false);
}

static void without_the_thread_the_same_arrives(void **state)
{
    (void)state;
    same_batches_arrive(false, true);
}

static void slots_are_pinned_where_they_should_be_says_the_driver(void **state)
{
    (void)state;
    struct xt_upload_config way = {
        .device = &device, .slots = 2, .batch = BATCH, .height = H, .width = W};
    struct xt_upload upload;
    need_double();
    assert_int_equal(xt_upload_init(&upload, &way, NULL), XT_OK);
    assert_int_equal(xt_pointer_ask(device.engine, upload.pixels[1]), XT_POINTER_PINNED);
    xt_upload_clear(&upload);
    way.pageable = true;
    assert_int_equal(xt_upload_init(&upload, &way, NULL), XT_OK);
    assert_int_equal(xt_pointer_ask(device.engine, upload.pixels[1]), XT_POINTER_PAGEABLE);
    assert_int_equal(xt_pointer_ask(device.engine, upload.host[0].host), XT_POINTER_PINNED);
    xt_upload_clear(&upload);
}

static void transfers_are_told_by_cause(void **state)
{
    (void)state;
    struct xt_transfers sum = {0};
    char text[256];
    xt_transfers_format(&sum, 10, text, sizeof text);
    assert_string_equal(text, "");
    sum.up[XT_CAUSE_IMAGES] = 4332000;
    sum.up[XT_CAUSE_SCALARS] = 44;
    sum.down[XT_CAUSE_LOGITS] = 25000000;
    xt_transfers_format(&sum, 10, text, sizeof text);
    assert_string_equal(text, "up images 433.2 kB, scalars 4.4 B; down logits 2.5 MB");
}

static void slots_beyond_the_memory_are_an_error_of_memory(void **state)
{
    (void)state;
    need_double();
    const struct xt_upload_config way = {
        .device = &device, .slots = 2, .batch = 1 << 16, .height = 4096, .width = 4096};
    struct xt_upload upload;
    struct xt_err err = {0};
    if (xt_upload_init(&upload, &way, &err) != XT_ERR_MEMORY)
        fail_msg("%s", err.text);
    support_assert_error(&err, XT_ERR_MEMORY, "a pinned batch slot");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pinned_slots_are_uploaded_while_the_step_before_runs),
        TEST(pageable_slots_arrive_too),
        TEST(without_the_thread_the_same_arrives),
        TEST(slots_are_pinned_where_they_should_be_says_the_driver),
        cmocka_unit_test(transfers_are_told_by_cause),
        TEST(slots_beyond_the_memory_are_an_error_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
