/* Batches from the loader to a step: in place on the CPU, and by the transfer thread, which a CPU
 * device can be configured to use. */
#include "infer/feed.h"

#include <unistd.h>

#include "device/device.h"
#include "support.h"

enum { W = 12, H = 6, BATCH = 4, SAMPLES = 22 };

/* Samples derived from their index. */
struct made {
    struct xt_source base;
    size_t broken; /* reading it ends the run; SAMPLES: none */
    int delay_us;
};

static enum xt_status made_read(const struct xt_source *source, size_t index,
                                const struct xt_want *want, struct xt_decoder *decoder,
                                struct xt_sample *sample, struct xt_err *err)
{
    (void)decoder;
    const struct made *made = (const struct made *)source;
    if (made->delay_us)
        usleep((unsigned)made->delay_us);
    if (index == made->broken)
        return xt_err_set(err, XT_ERR_RUN, "the disk is gone");
    enum xt_status status = xt_image_reserve(&sample->picture.image, W, H, err);
    for (size_t i = 0; !status && i < W * H * 3; i++)
        sample->picture.image.pixels[i] = (uint8_t)(index * 31 + i);
    xt_picture_whole(&sample->picture, want);
    sample->label[0] = (int)index;
    sample->label[1] = 7;
    sample->label_length = 2;
    return status;
}

static void made_destroy(struct xt_source *source)
{
    (void)source;
}

static const struct xt_source_class made_class = {.read = made_read, .destroy = made_destroy};

static struct made made;
static struct xt_device device;
static struct xt_upload_config way;
static struct xt_upload upload;
static struct xt_loader_config config;
static struct xt_feed *feed;

static int setup(void **state)
{
    (void)state;
    const struct xt_device_options options = {.spec = "cpu", .threads = 1};
    made = (struct made){.base = {.class = &made_class, .count = SAMPLES, .description = "made"},
                         .broken = SAMPLES};
    way = (struct xt_upload_config){.slots = 2, .batch = BATCH, .height = H, .width = W};
    config = (struct xt_loader_config){
        .source = &made.base, .batch = BATCH, .width = W, .height = H, .workers = 2};
    return xt_device_open_with(&device, &options, NULL);
}

static int teardown(void **state)
{
    (void)state;
    xt_feed_destroy(feed);
    feed = NULL;
    xt_upload_clear(&upload);
    xt_device_close(&device);
    return 0;
}

static void start(bool copied, bool pageable, bool in_turn)
{
    struct xt_err err = {0};
    way.device = &device;
    way.copied = copied;
    way.pageable = pageable;
    if (xt_upload_init(&upload, &way, &err) ||
        xt_feed_create(&feed, &upload, &config, in_turn, &err))
        fail_msg("%s", err.text);
}

/* The pixels that a step would read. */
static const uint8_t *pixels_of(const struct xt_feed_batch *batch)
{
    if (!upload.transfers)
        return batch->host.pixels;
    assert_null(batch->host.pixels);
    return batch->uploaded->host;
}

static void check(const struct xt_feed_batch *batch, size_t number)
{
    assert_int_equal(batch->host.step, number);
    assert_int_equal(batch->host.count, number < 5 ? BATCH : SAMPLES % BATCH);
    for (int row = 0; row < batch->host.count; row++) {
        size_t index = number * BATCH + (size_t)row;
        assert_int_equal(batch->host.indices[row], index);
        assert_int_equal(batch->host.label_lengths[row], 2);
        assert_int_equal(batch->host.labels[(size_t)row * XT_LABEL_MAX], index);
        const uint8_t *pixels = pixels_of(batch) + (size_t)row * W * H * 3;
        for (size_t i = 0; i < W * H * 3; i++)
            assert_int_equal(pixels[i], (uint8_t)(index * 31 + i));
    }
}

/* All of the source, one batch at a time. */
static void take_all(void)
{
    struct xt_feed_batch batch;
    struct xt_err err = {0};
    bool end = false;
    for (size_t number = 0; !end; number++) {
        double waited = -1;
        if (xt_feed_next(feed, &batch, &end, &waited, &err))
            fail_msg("%s", err.text);
        assert_true(waited >= 0);
        assert_int_equal(end, number == 6);
        if (end)
            break;
        check(&batch, number);
        xt_feed_release(feed, &batch);
    }
}

static void on_the_cpu_a_step_reads_the_slot_itself(void **state)
{
    (void)state;
    start(false, false, false);
    assert_false(upload.transfers);
    take_all();
}

static void the_transfer_thread_brings_each_batch_once_and_in_order(void **state)
{
    (void)state;
    start(true, false, false);
    assert_true(upload.transfers);
    take_all();
}

static void pageable_slots_are_copied_through(void **state)
{
    (void)state;
    start(true, true, false);
    take_all();
}

static void in_turn_gives_the_same_without_a_thread(void **state)
{
    (void)state;
    start(true, false, true);
    take_all();
}

/* While a step holds a batch, the next ones may be uploaded, but not over it. */
static void a_batch_stays_as_it_is_until_it_is_released(void **state)
{
    (void)state;
    struct xt_feed_batch first;
    struct xt_feed_batch second;
    bool end = false;
    start(true, false, false);
    assert_int_equal(xt_feed_next(feed, &first, &end, NULL, NULL), XT_OK);
    assert_int_equal(xt_feed_next(feed, &second, &end, NULL, NULL), XT_OK);
    usleep(20000);
    check(&first, 0);
    check(&second, 1);
    assert_ptr_not_equal(first.uploaded, second.uploaded);
    xt_feed_release(feed, &first);
    usleep(20000);
    check(&second, 1);
    xt_feed_release(feed, &second);
    assert_int_equal(xt_feed_next(feed, &first, &end, NULL, NULL), XT_OK);
    check(&first, 2);
    xt_feed_release(feed, &first);
}

static void an_error_of_the_loader_is_the_next_batch_s(void **state)
{
    (void)state;
    struct xt_feed_batch batch;
    struct xt_err err = {0};
    bool end = false;
    enum xt_status status = XT_OK;
    made.broken = 13;
    start(true, false, false);
    for (int i = 0; i < 6 && !status; i++) {
        status = xt_feed_next(feed, &batch, &end, NULL, &err);
        if (!status)
            xt_feed_release(feed, &batch);
    }
    support_assert_error(&err, XT_ERR_RUN, "the disk is gone");
    /* The error persists. */
    assert_int_equal(xt_feed_next(feed, &batch, &end, NULL, &err), XT_ERR_RUN);
}

static void an_error_of_a_transfer_is_the_next_batch_s(void **state)
{
    (void)state;
    struct xt_feed_batch batch;
    struct xt_err err = {0};
    bool end = false;
    start(true, false, true);
    dnnl_memory_t saved = upload.buffers[0].memory;
    upload.buffers[0].memory = NULL;
    assert_int_equal(xt_feed_next(feed, &batch, &end, NULL, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "a transfer");
    upload.buffers[0].memory = saved;
}

static void a_feed_ends_while_batches_are_on_their_way(void **state)
{
    (void)state;
    struct xt_feed_batch batch;
    bool end = false;
    made.delay_us = 2000;
    config.repeat = true;
    start(true, false, false);
    assert_int_equal(xt_feed_next(feed, &batch, &end, NULL, NULL), XT_OK);
}

/* The loader's threads after `steps` slow steps. */
static int workers_after(int steps, unsigned step_us)
{
    struct xt_feed_batch batch;
    struct xt_err err = {0};
    bool end = false;
    config.repeat = true;
    config.workers = 1;
    config.workers_most = 4;
    start(false, false, false);
    for (int i = 0; i < steps; i++) {
        if (xt_feed_next(feed, &batch, &end, NULL, &err))
            fail_msg("%s", err.text);
        usleep(step_us);
        xt_feed_release(feed, &batch);
    }
    return xt_loader_workers(xt_feed_loader(feed));
}

static void threads_are_added_where_steps_take_more_than_one_makes(void **state)
{
    (void)state;
    made.delay_us = 3000;
    assert_int_equal(workers_after(20, 10), 4);
}

static void one_thread_stays_alone_where_it_makes_enough(void **state)
{
    (void)state;
    made.delay_us = 10;
    assert_int_equal(workers_after(20, 30000), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_are_added_where_steps_take_more_than_one_makes),
        TEST(one_thread_stays_alone_where_it_makes_enough),
        TEST(on_the_cpu_a_step_reads_the_slot_itself),
        TEST(the_transfer_thread_brings_each_batch_once_and_in_order),
        TEST(pageable_slots_are_copied_through),
        TEST(in_turn_gives_the_same_without_a_thread),
        TEST(a_batch_stays_as_it_is_until_it_is_released),
        TEST(an_error_of_the_loader_is_the_next_batch_s),
        TEST(an_error_of_a_transfer_is_the_next_batch_s),
        TEST(a_feed_ends_while_batches_are_on_their_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
