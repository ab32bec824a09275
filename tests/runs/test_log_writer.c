#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support.h"
#include "runs/log_writer.h"

static char *contents(const char *path)
{
    size_t size = 0;
    return (char *)support_read_file(path, &size);
}

static void assert_contents(const char *path, const char *expected)
{
    char *text = contents(path);
    assert_string_equal(text, expected);
    free(text);
}

static void write_text(const char *path, const char *text)
{
    support_write_file(path, text, strlen(text));
}

static struct xt_log_writer open_writer(const char *path, int64_t keep_through_step)
{
    struct xt_log_writer writer;
    struct xt_err err;
    const struct xt_log_keep keep = {.training = keep_through_step,
                                     .evaluations = keep_through_step};
    assert_int_equal(xt_log_writer_open(&writer, path, keep, &err), XT_OK);
    return writer;
}

static enum xt_status write_step(struct xt_log_writer *writer, int64_t step, struct xt_err *err)
{
    xt_log_writer_begin(writer);
    xt_log_writer_integer(writer, "step", step);
    return xt_log_writer_end(writer, err);
}

static void a_line_is_there_as_soon_as_it_ends(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_log_writer writer = open_writer(path, 0);
    xt_log_writer_begin(&writer);
    xt_log_writer_integer(&writer, "step", 1000000000000);
    xt_log_writer_number(&writer, "lr", 1e-4);
    xt_log_writer_number(&writer, "wait", 1.0 / 3);
    assert_int_equal(xt_log_writer_end(&writer, &err), XT_OK);
    assert_contents(path, "{\"step\":1000000000000,\"lr\":0.0001,\"wait\":0.33333333333333331}\n");
    assert_int_equal(write_step(&writer, 2, &err), XT_OK);
    assert_contents(path, "{\"step\":1000000000000,\"lr\":0.0001,\"wait\":0.33333333333333331}\n"
                          "{\"step\":2}\n");
    xt_log_writer_close(&writer);
    xt_log_writer_close(&writer);
}

static void numbers_that_are_not_finite_are_null(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_log_writer writer = open_writer(path, 0);
    xt_log_writer_begin(&writer);
    xt_log_writer_number(&writer, "loss", NAN);
    xt_log_writer_number(&writer, "val_loss", -INFINITY);
    assert_int_equal(xt_log_writer_end(&writer, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"loss\":null,\"val_loss\":null}\n");
}

static void a_torn_last_line_is_cut_off(void **state)
{
    struct xt_err err;
    const char *path = support_path(*state, "metrics.jsonl");
    write_text(path, "{\"step\":1}\n{\"step\":2,\"lo");
    struct xt_log_writer writer = open_writer(path, INT64_MAX);
    assert_contents(path, "{\"step\":1}\n");
    assert_int_equal(write_step(&writer, 2, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":1}\n{\"step\":2}\n");
}

static void lines_after_the_resumed_step_are_dropped(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    write_text(path, "{\"step\":1}\n{\"note\":\"no step\"}\n{\"step\":2}\n{\"step\":3}\n"
                     "{\"epoch\":1,\"step\":4}\n");
    struct xt_log_writer writer = open_writer(path, 2);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":1}\n{\"note\":\"no step\"}\n{\"step\":2}\n");
}

/* Of several to the same checkpoint too. A resumed run that comes to the same one writes it anew.
 */
static void every_rollback_stays_known(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    const char *lines = "{\"step\":3}\n{\"step\":8,\"rolled_back_to\":4,\"lr_factor\":0.5}\n"
                        "{\"step\":7,\"rolled_back_to\":4,\"lr_factor\":0.25}\n";
    struct xt_log_keep keep = {.training = 4, .evaluations = 4};
    struct xt_log_writer writer;
    struct xt_err err;
    write_text(path, lines);
    assert_int_equal(xt_log_writer_open(&writer, path, keep, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, lines);
    keep.repeated = (struct xt_log_rollback){8, 4, 0.5};
    assert_int_equal(xt_log_writer_open(&writer, path, keep, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":3}\n{\"step\":7,\"rolled_back_to\":4,\"lr_factor\":0.25}\n");
}

static void lines_that_are_no_object_are_dropped(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    write_text(path, "{\"step\":1}\n\n[1]\n{\"step\":\n{\"step\":2}\n");
    struct xt_log_writer writer = open_writer(path, INT64_MAX);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":1}\n{\"step\":2}\n");
}

static void a_folder_that_is_missing_is_named(void **state)
{
    const char *path = support_path(*state, "missing/metrics.jsonl");
    struct xt_log_writer writer;
    struct xt_err err;
    xt_log_writer_open(&writer, path, (struct xt_log_keep){.training = 0}, &err);
    support_assert_error(&err, XT_ERR_RUN, path);
    xt_log_writer_close(&writer);
}

static void a_disk_that_fills_up_is_told_and_leaves_whole_lines(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_log_writer writer = open_writer(path, 0);
    struct xt_err err;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = {.rlim_cur = 15, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum xt_status first = write_step(&writer, 1, &err);
    enum xt_status second = write_step(&writer, 2, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(first, XT_OK);
    assert_int_equal(second, XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN, path);
    assert_int_equal(write_step(&writer, 3, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":1}\n{\"step\":3}\n");
}

static void a_line_that_is_too_long_is_an_error(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_log_writer writer = open_writer(path, 0);
    struct xt_err err;
    xt_log_writer_begin(&writer);
    for (int i = 0; i < XT_LOG_LINE_MAX / 8; i++)
        xt_log_writer_integer(&writer, "number", i);
    xt_log_writer_end(&writer, &err);
    support_assert_error(&err, XT_ERR_RUN, "too long");
    assert_int_equal(write_step(&writer, 1, &err), XT_OK);
    xt_log_writer_close(&writer);
    assert_contents(path, "{\"step\":1}\n");
}

#define TEST_IN_FOLDER(test)                                                                       \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(a_line_is_there_as_soon_as_it_ends),
        TEST_IN_FOLDER(numbers_that_are_not_finite_are_null),
        TEST_IN_FOLDER(a_torn_last_line_is_cut_off),
        TEST_IN_FOLDER(lines_after_the_resumed_step_are_dropped),
        TEST_IN_FOLDER(every_rollback_stays_known),
        TEST_IN_FOLDER(lines_that_are_no_object_are_dropped),
        TEST_IN_FOLDER(a_folder_that_is_missing_is_named),
        TEST_IN_FOLDER(a_disk_that_fills_up_is_told_and_leaves_whole_lines),
        TEST_IN_FOLDER(a_line_that_is_too_long_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
