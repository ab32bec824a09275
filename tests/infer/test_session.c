/* The engine behind predict, serve and libxtrain: every picture sent is answered, from any number
 * of threads. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/options/options.h"
#include "device/faults/guard.h"
#include "device/faults/watchdog.h"
#include "support.h"
#include "infer/network/network_build.h"
#include "data/image/straighten.h"
#include "infer/session/cutter.h"
#include "infer/session/engine.h"
#include "infer/session/library.h"

enum { WIDTH = 94, HEIGHT = 24, BYTES = WIDTH * HEIGHT * 3, KINDS = 8, THREADS = 4, EACH = 40 };

static char weights[64];

/* Weights of a new LPRNet. */
static int make_weights(void **state)
{
    (void)state;
    struct xt_infer_settings settings = {
        .network.model = "lprnet", .device.name = "cpu", .device.threads = 1, .network.fuse = true};
    struct xt_network network;
    struct xt_err err;
    snprintf(weights, sizeof weights, "/tmp/xtrain-session-%d.safetensors", (int)getpid());
    int failed = xt_network_init(&network, &settings.network, &settings.device, 1, false, &err) ||
                 xt_network_save(&network, weights, &err);
    xt_network_clear(&network);
    return failed;
}

static int remove_weights(void **state)
{
    (void)state;
    return unlink(weights);
}

/* A picture that differs from those of other kinds. */
static struct xtrain_image picture(int kind, uint8_t pixels[BYTES])
{
    for (int i = 0; i < BYTES; i++)
        pixels[i] = (uint8_t)((i * (2 * kind + 1)) >> (kind & 3));
    return (struct xtrain_image){.bytes = pixels, .size = BYTES, .width = WIDTH, .height = HEIGHT};
}

static struct xtrain *open_with(const struct xtrain_options *options)
{
    struct xtrain *network = NULL;
    struct xtrain_error error;
    if (xtrain_open(&network, weights, options, &error))
        fail_msg("%s", error.text);
    return network;
}

static void answer_alone(struct xtrain *network, int kind, double *confidence)
{
    uint8_t pixels[BYTES];
    struct xtrain_answer *answer = NULL;
    const struct xtrain_image image = picture(kind, pixels);
    assert_int_equal(xtrain_read(network, &image, &answer, NULL), XTRAIN_OK);
    *confidence = xtrain_answer_confidence(answer);
    assert_true(*confidence > 0 && *confidence <= 1);
    xtrain_answer_free(answer);
}

/* ---- many threads ---- */

struct sender {
    struct xtrain *network;
    const double *expected;
    int first;
    int wrong;
};

static void *send_many(void *argument)
{
    struct sender *sender = argument;
    struct xtrain_answer *answers[EACH] = {NULL};
    uint8_t pixels[BYTES];
    for (int i = 0; i < EACH; i++) {
        const struct xtrain_image image = picture((sender->first + i) % KINDS, pixels);
        sender->wrong += xtrain_send(sender->network, &image, &answers[i], NULL) != XTRAIN_OK;
    }
    for (int i = 0; i < EACH; i++) {
        double expected = sender->expected[(sender->first + i) % KINDS];
        if (i % 5 == 4) { /* not wanted any more */
            xtrain_answer_free(answers[i]);
            continue;
        }
        sender->wrong += xtrain_wait(answers[i], NULL) != XTRAIN_OK ||
                         fabs(xtrain_answer_confidence(answers[i]) - expected) > 1e-3 * expected;
        xtrain_answer_free(answers[i]);
    }
    return NULL;
}

static void share_a_handle(const struct xtrain_options *options)
{
    struct xtrain *network = open_with(options);
    double expected[KINDS];
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    for (int kind = 0; kind < KINDS; kind++)
        answer_alone(network, kind, &expected[kind]);
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){network, expected, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(senders[i].wrong, 0);
    }
    xtrain_close(network);
}

static void test_threads_share_a_handle(void **state)
{
    (void)state;
    share_a_handle(&(struct xtrain_options){.threads = 1, .batch = 8, .wait = 0.001, .queue = 10});
}

/* With several threads passes run side by side: a full batch is divided, and all of it is due. */
static void test_passes_run_side_by_side(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not know libgomp's barriers */
#endif
    share_a_handle(&(struct xtrain_options){.threads = 3, .batch = 8, .queue = 10});
    const struct xtrain_options options = {.threads = 2, .batch = 3, .wait = 3600};
    struct xtrain *network = open_with(&options);
    struct xtrain_answer *answers[3] = {NULL};
    uint8_t pixels[BYTES];
    double alone = 0;
    for (int i = 0; i < 3; i++) {
        const struct xtrain_image image = picture(5, pixels);
        assert_int_equal(xtrain_send(network, &image, &answers[i], NULL), XTRAIN_OK);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(xtrain_wait(answers[i], NULL), XTRAIN_OK);
        alone = i ? alone : xtrain_answer_confidence(answers[i]);
        assert_true(xtrain_answer_confidence(answers[i]) == alone);
        xtrain_answer_free(answers[i]);
    }
    xtrain_close(network);
}

static void *open_and_read(void *argument)
{
    const struct xtrain_options options = {.threads = 1, .batch = 1};
    struct xtrain *network = NULL;
    if (!xtrain_open(&network, weights, &options, NULL))
        answer_alone(network, 1, argument);
    xtrain_close(network);
    return NULL;
}

static void test_handles_open_side_by_side(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    double confidence[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_read, &confidence[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(confidence[i] > 0 && confidence[i] == confidence[0]);
}

/* What oneDNN cached for one thread count serves no other: it crashed in a part of all attempts. */
static void test_handles_may_have_other_thread_counts(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not know libgomp's barriers */
#endif
    enum { ALONE = 5 };
    double confidence[ALONE + 1];
    for (int i = 0; i <= ALONE; i++) {
        const struct xtrain_options one = {.threads = 1, .batch = 1};
        struct xtrain *network = open_with(i < ALONE ? &one : NULL);
        answer_alone(network, 3, &confidence[i]);
        xtrain_close(network);
        assert_true(fabs(confidence[i] - confidence[0]) < 1e-3);
    }
}

/* ---- the queue ---- */

static void count_up(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void test_a_full_queue_refuses_and_a_flush_empties_it(void **state)
{
    (void)state;
    const struct xtrain_options options = {
        .threads = 1, .batch = 4, .wait = 3600, .queue = 4, .refuse = 1};
    struct xtrain *network = open_with(&options);
    struct xtrain_answer *answers[4] = {NULL};
    struct xtrain_error error;
    atomic_int calls = 0;
    uint8_t pixels[BYTES];
    struct xtrain_image image = picture(0, pixels);
    image.done = count_up;
    image.context = &calls;
    for (int i = 0; i < 3; i++)
        assert_int_equal(xtrain_send(network, &image, &answers[i], &error), XTRAIN_OK);
    assert_int_equal(xtrain_ready(answers[0]), 0);
    assert_int_equal(xt_engine_waiting(network), 3);
    xtrain_flush(network);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(xtrain_wait(answers[i], &error), XTRAIN_OK);
        assert_int_equal(xtrain_ready(answers[i]), 1);
        xtrain_answer_free(answers[i]);
    }
    /* Freed answers give up their places; an invalid picture takes none. */
    for (int i = 0; i < 10; i++) {
        image.bytes = "no picture";
        image.size = strlen("no picture");
        image.width = 0;
        assert_int_equal(xtrain_send(network, &image, &answers[0], &error), XTRAIN_DATA);
        assert_null(answers[0]);
        assert_non_null(strstr(error.text, "not a JPEG, PNG or WebP"));
        image = picture(0, pixels);
        assert_int_equal(xtrain_send(network, &image, &answers[0], &error), XTRAIN_OK);
        xtrain_answer_free(answers[0]);
    }
    assert_int_equal(xt_engine_waiting(network), 0);
    xtrain_close(network);
    assert_int_equal(calls, 3);
}

static void test_a_full_queue_is_busy(void **state)
{
    (void)state;
    const struct xtrain_options options = {
        .threads = 1, .batch = 2, .wait = 3600, .queue = 2, .refuse = 1};
    struct xtrain *network = open_with(&options);
    struct xtrain_answer *answers[500] = {NULL};
    struct xtrain_error error = {0};
    uint8_t pixels[BYTES];
    const struct xtrain_image image = picture(0, pixels);
    int sent = 0;
    while (sent < 500 && !xtrain_send(network, &image, &answers[sent], &error))
        sent++;
    assert_in_range(sent, 2, 499);
    assert_int_equal(error.status, XTRAIN_BUSY);
    assert_non_null(strstr(error.text, "are waiting already"));
    for (int i = 0; i < sent; i++)
        xtrain_answer_free(answers[i]);
    xtrain_close(network);
}

static void test_closing_answers_what_was_sent(void **state)
{
    (void)state;
    const struct xtrain_options options = {.threads = 1, .batch = 4, .wait = 3600};
    struct xtrain *network = open_with(&options);
    struct xtrain_answer *answer = NULL;
    uint8_t pixels[BYTES];
    const struct xtrain_image image = picture(3, pixels);
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_OK);
    xtrain_close(network);
    assert_int_equal(xtrain_wait(answer, NULL), XTRAIN_OK);
    assert_int_equal(xtrain_answer_count(answer) > 0, *xtrain_answer_text(answer) != '\0');
    assert_string_equal(xtrain_answer_part(answer, 1000), "");
    xtrain_answer_free(answer);
    xtrain_close(NULL);
    xtrain_answer_free(NULL);
}

/* ---- invalid arguments ---- */

static void refuses(const char *file, const struct xtrain_options *options, int status,
                    const char *sentence)
{
    struct xtrain *network = (struct xtrain *)weights;
    struct xtrain_error error;
    assert_int_equal(xtrain_open(&network, file, options, &error), status);
    assert_null(network);
    if (!strstr(error.text, sentence))
        fail_msg("\"%s\" is not in: %s", sentence, error.text);
}

static void test_weights_may_be_a_runs_folder(void **state)
{
    (void)state;
    char folder[64];
    char path[96];
    struct xtrain *network = NULL;
    struct xtrain_error error;
    snprintf(folder, sizeof folder, "/tmp/xtrain-session-run-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    refuses(folder, NULL, XTRAIN_DATA, "neither best.safetensors nor last.safetensors");
    assert_int_equal(link(weights, path), 0);
    int status = xtrain_open(&network, folder, &(struct xtrain_options){.threads = 1}, &error);
    xtrain_close(network);
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, XTRAIN_OK);
}

/* What the weights say, and what is given instead. */
static void test_rejected_answers(void **state)
{
    (void)state;
    struct xt_infer_settings settings = {
        .network.model = "lprnet", .device.name = "cpu", .device.threads = 1, .network.fuse = true};
    const char *const rules[] = {NULL, "stored", "none", "0", "1"};
    const int expected[] = {1, 1, 0, 0, 1};
    static struct xt_network network;
    struct xt_err err;
    uint8_t pixels[BYTES];
    const struct xtrain_image image = picture(1, pixels);
    assert_int_equal(xt_network_init(&network, &settings.network, &settings.device, 1, false, &err),
                     XT_OK);
    network.confidence = (struct xt_confidence){.temperature = 2, .threshold = 1};
    assert_int_equal(xt_network_save(&network, weights, &err), XT_OK);
    for (int i = 0; i < 5; i++) {
        struct xtrain *opened =
            open_with(&(struct xtrain_options){.threads = 1, .batch = 1, .reject = rules[i]});
        struct xtrain_answer *answer = NULL;
        assert_int_equal(xtrain_read(opened, &image, &answer, NULL), XTRAIN_OK);
        assert_int_equal(xtrain_answer_rejected(answer), expected[i]);
        xtrain_answer_free(answer);
        xtrain_close(opened);
    }
    network.confidence = (struct xt_confidence){0};
    assert_int_equal(xt_network_save(&network, weights, &err), XT_OK);
    xt_network_clear(&network);
    refuses(weights, &(struct xtrain_options){.reject = "2"}, XTRAIN_USAGE, "reject is \"2\"");
    refuses(weights, &(struct xtrain_options){.reject = "auto:0.9"}, XTRAIN_USAGE,
            "labelled images");
}

static void test_options_that_cannot_be_meant(void **state)
{
    (void)state;
    refuses(NULL, NULL, XTRAIN_USAGE, "no weights");
    refuses("/nowhere/w.safetensors", NULL, XTRAIN_DATA, "/nowhere/w.safetensors");
    refuses(weights, &(struct xtrain_options){.type = "f64"}, XTRAIN_USAGE, "f64");
    refuses(weights, &(struct xtrain_options){.type = "INT8"}, XTRAIN_USAGE, "calibrate");
    refuses(weights, &(struct xtrain_options){.batch = -1}, XTRAIN_USAGE, "batch is -1");
    refuses(weights, &(struct xtrain_options){.wait = NAN}, XTRAIN_USAGE, "wait");
    refuses(weights, &(struct xtrain_options){.reserved = {[3] = &weights}}, XTRAIN_USAGE,
            "reserved fields");
    assert_int_equal(xtrain_open(NULL, weights, NULL, NULL), XTRAIN_USAGE);
    refuses(weights, &(struct xtrain_options){.model = "resnet50"}, XTRAIN_DATA, "lprnet");
}

static void test_pictures_that_cannot_be_meant(void **state)
{
    (void)state;
    struct xtrain *network = open_with(&(struct xtrain_options){.threads = 1, .batch = 1});
    struct xtrain_answer *answer = NULL;
    uint8_t pixels[BYTES];
    const double outside[] = {200, 0, 10, 10};
    const double none[] = {0, 0, 0, 10};
    struct xtrain_image image = picture(0, pixels);
    image.region = outside;
    image.region_numbers = 4;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_DATA);
    image.region = none;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image.region_numbers = 5;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image.region = NULL;
    image.region_numbers = 4;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image = picture(0, pixels);
    image.reserved[7] = pixels;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image = picture(0, pixels);
    image.size--;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image = picture(0, pixels);
    image.pixels = 7;
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_USAGE);
    image = (struct xtrain_image){.path = "/nowhere.jpg"};
    assert_int_equal(xtrain_send(network, &image, &answer, NULL), XTRAIN_DATA);
    assert_int_equal(xtrain_send(network, &(struct xtrain_image){0}, &answer, NULL), XTRAIN_USAGE);
    assert_null(answer);
    assert_int_equal(xtrain_send(NULL, &image, &answer, NULL), XTRAIN_USAGE);
    assert_int_equal(xtrain_send(network, NULL, &answer, NULL), XTRAIN_USAGE);
    assert_int_equal(xtrain_send(network, &image, NULL, NULL), XTRAIN_USAGE);
    assert_int_equal(xtrain_read(network, NULL, &answer, NULL), XTRAIN_USAGE);
    /* As after a send whose status nobody read. */
    assert_int_equal(xtrain_ready(NULL), 1);
    assert_int_equal(xtrain_wait(NULL, NULL), XTRAIN_USAGE);
    xtrain_flush(NULL);
    xtrain_close(network);
}

/* ---- pictures ---- */

static double confidence_of(struct xtrain *network, const struct xtrain_image *image)
{
    struct xtrain_answer *answer = NULL;
    struct xtrain_error error;
    if (xtrain_read(network, image, &answer, &error))
        fail_msg("%s", error.text);
    double confidence = xtrain_answer_confidence(answer);
    xtrain_answer_free(answer);
    return confidence;
}

/* A region of a larger picture, or another channel order, gives the same pixels. */
static void test_regions_and_orders(void **state)
{
    (void)state;
    enum { ROOM = 2 * WIDTH, RIGHT = 31, DOWN = 7 };
    static uint8_t large[2 * HEIGHT][ROOM][3];
    uint8_t pixels[BYTES];
    uint8_t swapped[BYTES];
    const double box[] = {RIGHT, DOWN, WIDTH, HEIGHT};
    const double corners[] = {RIGHT,         DOWN,          RIGHT + WIDTH, DOWN,
                              RIGHT + WIDTH, DOWN + HEIGHT, RIGHT,         DOWN + HEIGHT};
    struct xtrain *network = open_with(&(struct xtrain_options){.threads = 1, .batch = 1});
    struct xtrain_image image = picture(5, pixels);
    double expected = confidence_of(network, &image);
    for (int row = 0; row < HEIGHT; row++)
        memcpy(large[DOWN + row][RIGHT], pixels + (size_t)row * WIDTH * 3, WIDTH * 3);
    for (int i = 0; i < BYTES; i++)
        swapped[i] = pixels[i - i % 3 + 2 - i % 3];
    image.bytes = swapped;
    image.pixels = XTRAIN_BGR;
    assert_true(confidence_of(network, &image) == expected);
    image = (struct xtrain_image){.bytes = large,
                                  .size = sizeof large,
                                  .width = ROOM,
                                  .height = 2 * HEIGHT,
                                  .region = box,
                                  .region_numbers = 4};
    assert_true(confidence_of(network, &image) == expected);
    image.region = corners;
    image.region_numbers = 8;
    assert_true(confidence_of(network, &image) == expected);
    image.region = NULL;
    image.region_numbers = 0;
    assert_true(confidence_of(network, &image) != expected);
    /* As rows of a larger picture. */
    image = (struct xtrain_image){.bytes = large[DOWN][RIGHT],
                                  .size = sizeof large - sizeof(uint8_t[DOWN][ROOM][3]) - 3 * RIGHT,
                                  .width = WIDTH,
                                  .height = HEIGHT,
                                  .stride = sizeof large[0]};
    assert_true(confidence_of(network, &image) == expected);
    xtrain_close(network);
}

static void test_corners_go_round(void **state)
{
    (void)state;
    struct xt_region region = {8, {0, 0, 10, 0, 10, 5, 0, 5}};
    struct xt_err err;
    assert_int_equal(xt_region_check(&region, &err), XT_OK);
    struct xt_region wrong = {8, {0, 0, 0, 5, 10, 5, 10, 0}};
    assert_int_equal(xt_region_check(&wrong, &err), XT_ERR_USAGE);
    region.numbers[3] = NAN;
    assert_int_equal(xt_region_check(&region, &err), XT_ERR_USAGE);
}

/* Corners far outside a small picture cost no more than it does. */
static void test_a_straightened_part_has_no_more_pixels_than_its_picture(void **state)
{
    (void)state;
    static uint8_t pixels[40 * 30 * 3 + XT_IMAGE_SLACK];
    const struct xt_image in = {.width = 40, .height = 30, .pixels = pixels};
    const struct xt_corners far = {{-40, -30}, {80, -30}, {80, 60}, {-40, 60}};
    const struct xt_corners within = {{5, 5}, {25, 5}, {25, 15}, {5, 15}};
    struct xt_image out = {0};
    struct xt_err err;
    assert_int_equal(xt_straighten(&in, &far, &out, &err), XT_OK);
    assert_int_equal(out.width, 40);
    assert_int_equal(out.height, 30);
    assert_int_equal(xt_straighten(&in, &within, &out, &err), XT_OK);
    assert_int_equal(out.width, 20);
    assert_int_equal(out.height, 10);
    xt_image_clear(&out);
}

/* ---- messages and defaults ---- */

static void hear(void *context, const char *sentence)
{
    snprintf(context, 256, "%s", sentence);
}

static void test_the_log_is_the_callers(void **state)
{
    (void)state;
    char heard[256] = "";
    xtrain_log(hear, heard);
    xt_log_warn("of %s", "everything");
    assert_string_equal(heard, "warning: of everything");
    xtrain_log(NULL, NULL);
    xt_log_warn("nobody hears this");
    assert_string_equal(heard, "warning: of everything");
}

static void test_a_device_that_hangs_is_told_to_the_caller(void **state)
{
    (void)state;
    char heard[256] = "";
    struct xt_err err;
    xtrain_device_timeout(0.2, hear, heard);
    xt_guard_set_device("xpu:0");
    assert_int_equal(xt_watchdog_begin(&err), XT_OK);
    const char *outer = xt_guard_enter("a wait for its work");
    usleep(900000);
    xt_guard_leave(outer);
    xt_watchdog_end();
    assert_non_null(strstr(heard, "xpu:0: it has not answered for "));
    xtrain_device_timeout(0, NULL, NULL);
}

/* The library's defaults are those of predict. */
static void test_defaults_are_those_of_predict(void **state)
{
    (void)state;
    const char *const arguments[] = {"w.safetensors", "car.jpg"};
    struct xt_options options;
    struct xt_infer_settings own;
    struct xt_err err;
    const struct xtrain_options none = {0};
    assert_int_equal(xt_options_parse(&options, 2, arguments, XT_COMMAND_PREDICT, NULL, &err),
                     XT_OK);
    assert_int_equal(xt_library_settings("w.safetensors", &none, &own, &err), XT_OK);
    const struct xt_settings *predict = &options.values;
    assert_string_equal(own.device.name, predict->device.name);
    assert_int_equal(own.network.amp, predict->network.amp);
    assert_int_equal(own.answer.decode, predict->answer.decode);
    assert_int_equal(own.answer.top, predict->answer.top);
    assert_int_equal(own.network.fuse, predict->network.fuse);
    assert_int_equal(own.device.kernel_cache, predict->device.kernel_cache);
    assert_int_equal(own.answer.calibrate_images, predict->answer.calibrate_images);
    assert_int_equal(own.device.threads, predict->device.threads);
    assert_int_equal(own.network.lprnet_norm, predict->network.lprnet_norm);
    assert_int_equal(own.network.image_size, predict->network.image_size);
    assert_int_equal(own.device.pin_memory, predict->device.pin_memory);
    assert_int_equal((int)own.data.seed, (int)predict->data.seed);
    xt_options_clear(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_a_handle),
        cmocka_unit_test(test_passes_run_side_by_side),
        cmocka_unit_test(test_handles_open_side_by_side),
        cmocka_unit_test(test_handles_may_have_other_thread_counts),
        cmocka_unit_test(test_a_full_queue_refuses_and_a_flush_empties_it),
        cmocka_unit_test(test_a_full_queue_is_busy),
        cmocka_unit_test(test_closing_answers_what_was_sent),
        cmocka_unit_test(test_weights_may_be_a_runs_folder),
        cmocka_unit_test(test_options_that_cannot_be_meant),
        cmocka_unit_test(test_rejected_answers),
        cmocka_unit_test(test_pictures_that_cannot_be_meant),
        cmocka_unit_test(test_regions_and_orders),
        cmocka_unit_test(test_corners_go_round),
        cmocka_unit_test(test_a_straightened_part_has_no_more_pixels_than_its_picture),
        cmocka_unit_test(test_the_log_is_the_callers),
        cmocka_unit_test(test_a_device_that_hangs_is_told_to_the_caller),
        cmocka_unit_test(test_defaults_are_those_of_predict),
    };
    return cmocka_run_group_tests(tests, make_weights, remove_weights);
}
