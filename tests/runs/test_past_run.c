#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"
#include "runs/report/page.h"
#include "runs/report/past_run.h"

static void put(const char *folder, const char *name, const char *text)
{
    support_write_file(support_path(folder, name), text, strlen(text));
}

static struct xt_past_run read_run(const char *folder)
{
    struct xt_past_run run;
    struct xt_err err;
    assert_int_equal(xt_past_run_read(&run, folder, &err), XT_OK);
    return run;
}

static void settings_come_with_where_they_came_from(void **state)
{
    put(*state, "config.yaml",
        "# Settings\n\n# The run\nmodel: lprnet   # command line\n# init is not set\n"
        "data: \"a # b\"  # default\nmilestones: [1, 2]\n");
    struct xt_past_run run = read_run(*state);
    assert_int_equal(run.setting_count, 3);
    assert_string_equal(xt_past_run_setting(&run, "model"), "lprnet");
    assert_string_equal(run.settings[0].from, "command line");
    assert_string_equal(run.settings[1].value, "a # b");
    assert_string_equal(run.settings[1].from, "default");
    assert_string_equal(run.settings[2].value, "1,2");
    assert_string_equal(run.settings[2].from, "");
    assert_null(xt_past_run_setting(&run, "init"));
    xt_past_run_clear(&run);
}

static void the_best_evaluation_is_by_accuracy_then_characters_then_loss(void **state)
{
    put(*state, "metrics.jsonl",
        "{\"step\":5,\"epoch\":1,\"time\":1,\"loss\":2,\"images_per_s\":30}\n"
        "{\"step\":6,\"epoch\":1,\"time\":2,\"images\":4,\"correct\":2,\"plate_accuracy\":0.5,"
        "\"char_accuracy\":0.8,\"val_loss\":1}\n"
        "{\"step\":12,\"epoch\":2,\"time\":3,\"images\":4,\"correct\":2,\"plate_accuracy\":0.5,"
        "\"char_accuracy\":0.9,\"val_loss\":2}\n"
        "{\"step\":18,\"epoch\":3,\"time\":4,\"images\":4,\"correct\":2,\"plate_accuracy\":0.5,"
        "\"char_accuracy\":0.9,\"val_loss\":2}\n"
        "{\"step\":20,\"epoch\":4,\"time\":5,\"loss\":1.5,\"images_per_s\":50}\n");
    struct xt_past_run run = read_run(*state);
    assert_int_equal(run.best.step, 12);
    assert_int_equal(run.last.step, 18);
    assert_string_equal(run.best.keys[0], "plate_accuracy");
    assert_float_equal((float)run.best.figures[1], 0.9F, 1e-6);
    assert_int_equal(run.step, 20);
    assert_float_equal((float)run.loss, 1.5, 1e-6);
    assert_float_equal((float)run.images_per_s, 50, 1e-6);
    xt_past_run_clear(&run);
}

static void a_moving_average_may_be_the_best_and_a_rollback_is_no_step(void **state)
{
    put(*state, "metrics.jsonl",
        "{\"step\":8,\"loss\":2}\n"
        "{\"step\":8,\"images\":4,\"correct\":2,\"plate_accuracy\":0.5,\"char_accuracy\":0.6,"
        "\"val_loss\":1,\"ema_images\":4,\"ema_correct\":3,\"ema_plate_accuracy\":0.75,"
        "\"ema_char_accuracy\":0.8,\"ema_val_loss\":0.5}\n"
        "{\"step\":11,\"time\":3,\"rolled_back_to\":8,\"lr_factor\":0.5}\n");
    struct xt_past_run run = read_run(*state);
    assert_int_equal(run.step, 8);
    assert_float_equal((float)run.loss, 2, 0);
    assert_float_equal((float)run.last.figures[0], 0.5, 0);
    assert_float_equal((float)run.best.figures[0], 0.75, 0);
    assert_string_equal(run.best.keys[1], "char_accuracy");
    assert_float_equal((float)run.best.loss, 0.5, 0);
    xt_past_run_clear(&run);
}

static void best_weights_that_a_rollback_left_behind_stay_the_best(void **state)
{
    put(*state, "metrics.jsonl",
        "{\"step\":8,\"images\":4,\"correct\":2,\"plate_accuracy\":0.5,\"char_accuracy\":0.6,"
        "\"val_loss\":1}\n");
    put(*state, "report.json",
        "{\"best\":{\"step\":6,\"accuracy\":0.75,\"second\":0.8,\"loss\":2}}");
    struct xt_past_run run = read_run(*state);
    assert_int_equal(run.last.step, 8);
    assert_int_equal(run.best.step, 6);
    assert_float_equal((float)run.best.figures[0], 0.75, 0);
    assert_float_equal((float)run.best.figures[1], 0.8F, 1e-6);
    assert_string_equal(run.best.keys[0], "plate_accuracy");
    xt_past_run_clear(&run);
}

static void damaged_lines_are_left_out(void **state)
{
    put(*state, "metrics.jsonl",
        "not "
        "JSON\n{\"step\":5,\"loss\":2}\n{\"step\":1e300,\"epoch\":-1e300,\"val_loss\":1}\n{"
        "\"step\":\"x\",\"val_loss\":1}\n[1]\n\n"
        "{\"step\":7,\"loss\":3},\"val_loss\":\n{\"step\":9,\"loss\":4");
    put(*state, "report.json", "[1");
    struct xt_past_run run = read_run(*state);
    assert_int_equal(run.step, 7);
    assert_int_equal(run.last.step, -1);
    assert_null(run.facts);
    assert_string_equal(xt_str_get(&run.metrics), "{\"step\":5,\"loss\":2}\n"
                                                  "{\"step\":7,\"loss\":3},\"val_loss\":\n");
    xt_past_run_clear(&run);
}

static void a_line_with_a_zero_in_it_hides_none_behind_it(void **state)
{
    static const char record[] = "{\"step\":5,\"loss\":2}\n{\"step\":\0,\"step\":6}\n"
                                 "{\"step\":7,\"loss\":3}\n";
    support_write_file(support_path(*state, "metrics.jsonl"), record, sizeof record - 1);
    struct xt_past_run run = read_run(*state);
    assert_string_equal(xt_str_get(&run.metrics),
                        "{\"step\":5,\"loss\":2}\n{\"step\":7,\"loss\":3}\n");
    xt_past_run_clear(&run);
}

static void of_very_many_lines_some_stay_with_jumps_and_the_last_one(void **state)
{
    enum { LINES = 3 * XT_PAST_LINES + 1 };
    FILE *file = fopen(support_path(*state, "metrics.jsonl"), "w");
    assert_non_null(file);
    for (int i = 1; i <= LINES; i++)
        fprintf(file, "{\"step\":%d,\"loss\":%d,\"images_per_s\":%d}\n", i, i == 7 ? 9 : 1, i);
    fclose(file);
    struct xt_past_run run = read_run(*state);
    size_t lines = 0;
    for (const char *at = xt_str_get(&run.metrics); (at = strchr(at, '\n')); at++)
        lines++;
    assert_in_range(lines, XT_PAST_LINES / 2, XT_PAST_LINES);
    assert_int_equal(run.step, LINES);
    assert_float_equal((float)run.loss, 1, 1e-6);
    assert_non_null(strstr(xt_str_get(&run.metrics), "{\"step\":7,\"loss\":9,"));
    assert_null(strstr(xt_str_get(&run.metrics), "{\"step\":6,"));
    xt_past_run_clear(&run);
}

static void a_folder_without_a_whole_run_is_refused(void **state)
{
    struct xt_past_run run;
    struct xt_err err;
    xt_past_run_read(&run, *state, &err);
    support_assert_error(&err, XT_ERR_DATA, "holds no run");
    xt_past_run_clear(&run);
    xt_past_run_read(&run, support_path(*state, "nowhere"), &err);
    support_assert_error(&err, XT_ERR_DATA, "no such folder");
    xt_past_run_clear(&run);
    put(*state, "config.yaml", "model: [[1]]\n");
    assert_int_equal(xt_past_run_read(&run, *state, &err), XT_ERR_DATA);
    assert_non_null(strstr(err.text, "/config.yaml:1: "));
    xt_past_run_clear(&run);
}

static void only_settings_that_differ_are_named(void **state)
{
    struct xt_past_run runs[2];
    struct xt_err err;
    const char **keys = NULL;
    size_t count = 0;
    char *folders[2] = {strdup(support_path(*state, "a")), strdup(support_path(*state, "b"))};
    for (int i = 0; i < 2; i++) {
        mkdir(folders[i], 0777);
        put(folders[i], "config.yaml",
            i ? "model: lprnet\nlr: 0.2\nout: b\nclip: 5\n" : "model: lprnet\nlr: 0.1\nout: a\n");
        runs[i] = read_run(folders[i]);
    }
    assert_int_equal(xt_past_runs_differ(runs, 2, &keys, &count, &err), XT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(keys[0], "lr");
    assert_string_equal(keys[1], "clip");
    free(keys);
    for (int i = 0; i < 2; i++) {
        xt_past_run_clear(&runs[i]);
        free(folders[i]);
    }
}

static void nothing_in_a_name_ends_the_script_that_it_lies_in(void **state)
{
    put(*state, "config.yaml", "data: \"</script><!--<b>\"\n");
    struct xt_past_run run = read_run(*state);
    struct xt_err err;
    const char *path = support_path(*state, "report.html");
    assert_int_equal(xt_page_write_runs(path, &run, 1, true, &err), XT_OK);
    char text[200000];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\\u003c/script>\\u003c!--\\u003cb>"));
    assert_null(strstr(text, "</script><!--"));
    assert_null(strchr(text, '@') ? strstr(text, "@DATA@") : NULL);
    xt_past_run_clear(&run);
}

#define TEST_IN_FOLDER(test)                                                                       \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(settings_come_with_where_they_came_from),
        TEST_IN_FOLDER(the_best_evaluation_is_by_accuracy_then_characters_then_loss),
        TEST_IN_FOLDER(a_moving_average_may_be_the_best_and_a_rollback_is_no_step),
        TEST_IN_FOLDER(best_weights_that_a_rollback_left_behind_stay_the_best),
        TEST_IN_FOLDER(damaged_lines_are_left_out),
        TEST_IN_FOLDER(a_line_with_a_zero_in_it_hides_none_behind_it),
        TEST_IN_FOLDER(of_very_many_lines_some_stay_with_jumps_and_the_last_one),
        TEST_IN_FOLDER(a_folder_without_a_whole_run_is_refused),
        TEST_IN_FOLDER(only_settings_that_differ_are_named),
        TEST_IN_FOLDER(nothing_in_a_name_ends_the_script_that_it_lies_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
