#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "support.h"
#include "runs/report/events.h"

static const struct xt_log_keep all = {.training = INT64_MAX, .evaluations = INT64_MAX};

static size_t read_events(const char *path, uint8_t **bytes)
{
    size_t capacity = 0;
    size_t size = 0;
    struct xt_err err;
    *bytes = NULL;
    assert_int_equal(xt_file_read(path, 1 << 20, bytes, &capacity, &size, &err), XT_OK);
    return size;
}

/* The steps of the records, in order, truncated to the array; returns how many records there are,
 * all of them whole. */
static int steps_of(const char *path, int *steps, int room)
{
    uint8_t *bytes = NULL;
    size_t size = read_events(path, &bytes);
    int count = 0;
    for (size_t at = 0; at < size; count++) {
        uint64_t length;
        uint32_t sums[2];
        assert_in_range(size - at, 16, size);
        memcpy(&length, bytes + at, 8);
        memcpy(&sums[0], bytes + at + 8, 4);
        assert_int_equal(sums[0], xt_events_masked_crc(&length, 8));
        assert_in_range(length, 11, size - at - 16);
        memcpy(&sums[1], bytes + at + 12 + length, 4);
        assert_int_equal(sums[1], xt_events_masked_crc(bytes + at + 12, length));
        /* The time's nine bytes, the step's key, the step: below 128 one byte. */
        if (count < room)
            steps[count] = bytes[at + 12 + 10];
        at += 16 + length;
    }
    free(bytes);
    return count;
}

static void add_line(struct xt_events *events, int step, bool evaluation)
{
    char line[128];
    int length = snprintf(line, sizeof line, "{\"step\":%d,\"epoch\":1,\"time\":1.5,\"%s\":0.5}\n",
                          step, evaluation ? "val_loss" : "loss");
    xt_events_line(events, line, (size_t)length);
}

static void assert_steps(const char *path, int count, const int *wanted)
{
    int steps[16];
    assert_int_equal(steps_of(path, steps, 16), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(steps[i], wanted[i]);
}

static void the_sum_is_that_of_the_standard(void **state)
{
    (void)state;
    /* CRC-32C of "123456789" is E3069283 (RFC 3720), masked as TFRecord does. */
    uint32_t crc = 0xE3069283;
    assert_int_equal(xt_events_masked_crc("123456789", 9), (crc >> 15 | crc << 17) + 0xA282EAD8);
}

static void steps_after_those_to_keep_go_by_their_kind(void **state)
{
    const char *path = support_path(*state, XT_EVENTS_FILE);
    struct xt_events events;
    xt_events_open(&events, path, all);
    add_line(&events, 10, false);
    add_line(&events, 12, true);
    xt_events_picture(&events, 12,
                      &(struct xt_event_picture){.tag = "errors/1", .png = "png", .size = 3});
    add_line(&events, 20, false);
    add_line(&events, 24, true);
    xt_events_close(&events);
    assert_steps(path, 6, (const int[]){0, 10, 12, 12, 20, 24});
    xt_events_open(&events, path, (struct xt_log_keep){.training = 20, .evaluations = 12});
    add_line(&events, 24, true);
    xt_events_close(&events);
    assert_steps(path, 6, (const int[]){0, 10, 12, 12, 20, 24});
    xt_events_open(&events, path, (struct xt_log_keep){.training = 0, .evaluations = -1});
    xt_events_close(&events);
    assert_steps(path, 1, (const int[]){0});
}

static void every_rollback_stays_known(void **state)
{
    static const char line[] = "{\"step\":8,\"time\":1,\"rolled_back_to\":4,\"lr_factor\":0.5}";
    const char *path = support_path(*state, XT_EVENTS_FILE);
    struct xt_log_keep keep = {.training = 4, .evaluations = 4};
    struct xt_events events;
    xt_events_open(&events, path, all);
    xt_events_line(&events, line, sizeof line - 1);
    xt_events_close(&events);
    xt_events_open(&events, path, keep);
    xt_events_close(&events);
    assert_steps(path, 2, (const int[]){0, 8});
    keep.repeated = (struct xt_log_rollback){8, 4, 0.5};
    xt_events_open(&events, path, keep);
    xt_events_close(&events);
    assert_steps(path, 1, (const int[]){0});
}

static void a_torn_or_damaged_end_is_cut_off(void **state)
{
    const char *path = support_path(*state, XT_EVENTS_FILE);
    struct xt_events events;
    xt_events_open(&events, path, all);
    add_line(&events, 1, false);
    add_line(&events, 2, false);
    xt_events_close(&events);
    uint8_t *bytes = NULL;
    size_t size = read_events(path, &bytes);
    for (size_t cut = 1; cut < size; cut++) {
        support_write_file(path, bytes, cut);
        xt_events_open(&events, path, all);
        add_line(&events, 3, false);
        xt_events_close(&events);
        int steps[4];
        int count = steps_of(path, steps, 4);
        assert_in_range(count, 2, 3);
        assert_int_equal(steps[count - 1], 3);
    }
    bytes[size - 10] ^= 1;
    support_write_file(path, bytes, size);
    xt_events_open(&events, path, all);
    xt_events_close(&events);
    assert_steps(path, 2, (const int[]){0, 1});
    support_write_file(path, "no events", 9);
    xt_events_open(&events, path, all);
    xt_events_close(&events);
    assert_steps(path, 1, (const int[]){0});
    free(bytes);
}

static void what_cannot_be_written_ends_nothing(void **state)
{
    const char *path = support_path(*state, XT_EVENTS_FILE);
    struct xt_events events;
    struct rlimit before;
    xt_events_open(&events, support_path(*state, "nowhere/events"), all);
    assert_true(events.warned);
    add_line(&events, 1, false);
    xt_events_close(&events);
    xt_events_open(&events, path, all);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = {.rlim_cur = 60, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    add_line(&events, 1, false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(events.warned);
    add_line(&events, 2, false);
    xt_events_close(&events);
    assert_steps(path, 2, (const int[]){0, 2});
}

#define TEST_IN_FOLDER(test)                                                                       \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_the_standard),
        TEST_IN_FOLDER(steps_after_those_to_keep_go_by_their_kind),
        TEST_IN_FOLDER(every_rollback_stays_known),
        TEST_IN_FOLDER(a_torn_or_damaged_end_is_cut_off),
        TEST_IN_FOLDER(what_cannot_be_written_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
