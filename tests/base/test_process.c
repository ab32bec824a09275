#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/process.h"

struct answer {
    int number;
    int untouched;
    const char *text;
};

static void add_one(const void *argument, void *result)
{
    struct answer *answer = result;
    answer->number = *(const int *)argument + 1;
    puts("not for the screen");
    fputs("first line\nsecond line\n\n", stderr);
}

static void a_child_answers(void **state)
{
    (void)state;
    const int argument = 41;
    struct xt_err err = {0};
    struct answer answer = {.untouched = 7};
    struct xt_process_end end;
    const struct xt_process process = {.work = add_one, .argument = &argument, .seconds = 60};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, &end, &err), XT_OK);
    assert_int_equal(answer.number, 42);
    assert_int_equal(answer.untouched, 0);
    assert_int_equal(end.signal, 0);
    assert_string_equal(end.said, "second line");
}

static bool is_first(const char *line)
{
    return strstr(line, "first") != NULL;
}

static void the_line_that_tells_is_kept(void **state)
{
    (void)state;
    const int argument = 41;
    struct xt_err err = {0};
    struct answer answer;
    struct xt_process_end end;
    const struct xt_process process = {.work = add_one, .argument = &argument, .tells = is_first};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, &end, &err), XT_OK);
    assert_string_equal(end.said, "first line");
}

static void crash(const void *argument, void *result)
{
    (void)result;
    fputs("it is a pity\n", stderr);
    raise(*(const int *)argument);
}

static void a_signal_is_named_with_what_was_said_last(void **state)
{
    (void)state;
    const int signal = SIGKILL;
    struct xt_err err = {0};
    struct answer answer;
    struct xt_process_end end;
    const struct xt_process process = {.work = crash, .argument = &signal};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, &end, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "it crashed (Killed): it is a pity");
    assert_int_equal(end.signal, SIGKILL);
    assert_false(end.timed_out);
}

static void hang(const void *argument, void *result)
{
    (void)argument;
    (void)result;
    for (;;)
        pause();
}

static void a_child_that_hangs_is_ended(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct answer answer;
    struct xt_process_end end;
    const struct xt_process process = {.work = hang, .seconds = 1};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, &end, &err), XT_ERR_DEVICE);
    assert_true(end.timed_out);
    support_assert_error(&err, XT_ERR_DEVICE, "it did not end within 1 s");
}

static void leave(const void *argument, void *result)
{
    (void)argument;
    (void)result;
    _exit(0);
}

static void a_child_that_leaves_without_an_answer_crashed(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct answer answer;
    const struct xt_process process = {.work = leave};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, NULL, &err), XT_ERR_DEVICE);
    support_assert_error(&err, XT_ERR_DEVICE, "it crashed (no result)");
}

enum { LONG = 100000 };

static void write_long(const void *argument, void *result)
{
    struct answer *answer = result;
    char *text = malloc(LONG);
    memset(text, 'x', LONG);
    answer->number = LONG;
    answer->text = argument ? text : NULL;
}

static const void *text_of(const void *result, size_t *bytes)
{
    const struct answer *answer = result;
    *bytes = answer->text ? (size_t)answer->number : 0;
    return answer->text;
}

static void what_an_answer_points_to_comes_with_it(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct answer answer;
    struct xt_str text = {0};
    struct xt_process process = {
        .work = write_long, .argument = "", .points_to = text_of, .rest = &text};
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, NULL, &err), XT_OK);
    assert_int_equal(text.length, LONG);
    assert_int_equal(strspn(text.data, "x"), LONG);
    xt_str_clear(&text);
    process.argument = NULL;
    assert_int_equal(xt_process_run(&process, &answer, sizeof answer, NULL, &err), XT_OK);
    assert_int_equal(text.length, 0);
}

static void busy_processes_end_with_what_they_were_started_for(void **state)
{
    (void)state;
    struct xt_process_load load;
    struct xt_err err = {0};
    assert_int_equal(xt_process_load_begin(&load, 2, &err), XT_OK);
    const pid_t children[] = {load.children[0], load.children[1]};
    assert_int_equal(kill(children[0], 0), 0);
    xt_process_load_end(&load);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kill(children[i], 0), -1);
    xt_process_load_end(&load);
}

static void another_program_reads_and_answers(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_str output = {0};
    struct xt_process_end end;
    int code = 0;
    const struct xt_process_program program = {
        .argv = (const char *const[]){"sh", "-c", "tr a b; echo a line >&2; echo why >&2; exit 5",
                                      NULL},
        .input = "banana",
        .input_bytes = 6,
        .seconds = 60,
    };
    assert_int_equal(xt_process_run_program(&program, &output, &code, &end, &err), XT_OK);
    assert_string_equal(xt_str_get(&output), "bbnbnb");
    assert_int_equal(code, 5);
    assert_string_equal(end.said, "why");
    xt_str_clear(&output);
}

/* A program of that name lies in the current folder, which PATH names in three ways. */
static void no_program_comes_from_the_current_folder(void **state)
{
    char before[4096];
    struct xt_err err;
    struct xt_str output = {0};
    struct xt_process_end end;
    int code = 0;
    const struct xt_process_program planted = {.argv =
                                                   (const char *const[]){"planted-program", NULL}};
    const struct xt_process_program shell = {
        .argv = (const char *const[]){"sh", "-c", "planted-program; echo $PATH", NULL}};
    static const char script[] = "#!/bin/sh\necho planted\n";
    char *path = strdup(getenv("PATH"));
    const char *file = support_path(*state, "planted-program");
    support_write_file(file, script, sizeof script - 1);
    assert_int_equal(chmod(file, 0755), 0);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    setenv("PATH", ":.:/usr/bin:./:/bin:", 1);
    assert_int_equal(xt_process_run_program(&planted, &output, &code, &end, &err), XT_OK);
    assert_int_equal(code, 127);
    assert_int_equal(xt_process_run_program(&shell, &output, &code, &end, &err), XT_OK);
    assert_string_equal(xt_str_get(&output), "/usr/bin:/bin\n");
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(chdir(before), 0);
    xt_str_clear(&output);
}

static void a_program_that_is_not_there_or_does_not_end_is_told(void **state)
{
    (void)state;
    struct xt_err err;
    struct xt_str output = {0};
    struct xt_process_end end;
    int code = 0;
    const struct xt_process_program none = {.argv = (const char *const[]){"./no-such", NULL}};
    const struct xt_process_program slow = {.argv = (const char *const[]){"sleep", "60", NULL},
                                            .seconds = 1};
    assert_int_equal(xt_process_run_program(&none, &output, &code, &end, &err), XT_OK);
    assert_int_equal(code, 127);
    assert_int_equal(end.signal, 0);
    assert_int_equal(xt_process_run_program(&slow, &output, &code, &end, &err), XT_OK);
    assert_true(end.timed_out);
    xt_str_clear(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_answers),
        cmocka_unit_test(the_line_that_tells_is_kept),
        cmocka_unit_test(a_signal_is_named_with_what_was_said_last),
        cmocka_unit_test(a_child_that_hangs_is_ended),
        cmocka_unit_test(a_child_that_leaves_without_an_answer_crashed),
        cmocka_unit_test(what_an_answer_points_to_comes_with_it),
        cmocka_unit_test(busy_processes_end_with_what_they_were_started_for),
        cmocka_unit_test(another_program_reads_and_answers),
        cmocka_unit_test_setup_teardown(no_program_comes_from_the_current_folder,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test(a_program_that_is_not_there_or_does_not_end_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
