#include "support.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/system/stop.h"
#include "base/str.h"
#include "cli/progress.h"

static const struct xt_progress_state usual = {
    .epoch = 3,
    .epochs = 10,
    .step = 120,
    .steps = 1400,
    .loss = 0.12341,
    .lr = 1.2e-3,
    .images_per_s = 412.4,
    .seconds_left = 133,
    .wait = 0.001,
};

static void assert_line(const struct xt_progress_state *state, const char *wanted)
{
    char text[200];
    xt_progress_format(state, 200, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void the_line_holds_what_a_person_wants_to_know(void **state)
{
    (void)state;
    assert_line(&usual,
                "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 %");
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    assert_line(
        &(struct xt_progress_state){
            .step = 5, .loss = 3, .lr = NAN, .images_per_s = NAN, .seconds_left = NAN, .wait = NAN},
        "step 5 loss 3.0000");
}

static void what_does_not_train_has_no_loss(void **state)
{
    (void)state;
    assert_line(&(struct xt_progress_state){.step = 64,
                                            .steps = 150,
                                            .no_loss = true,
                                            .lr = NAN,
                                            .images_per_s = 70,
                                            .seconds_left = NAN,
                                            .wait = NAN},
                "step 64/150 70 img/s");
}

static void skipped_steps_are_counted_where_there_are_any(void **state)
{
    (void)state;
    struct xt_progress_state line = usual;
    line.skipped = 3;
    assert_line(&line, "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 "
                       "% 3 skipped");
}

static void a_loss_that_is_no_number_or_large_is_shown(void **state)
{
    (void)state;
    struct xt_progress_state line = {
        .step = 1, .loss = NAN, .lr = 0, .images_per_s = 3.14, .seconds_left = NAN, .wait = NAN};
    assert_line(&line, "step 1 loss nan lr 0.0e0 3.1 img/s");
    line.loss = 123456789;
    line.lr = 10;
    assert_line(&line, "step 1 loss 1.235e+08 lr 1.0e1 3.1 img/s");
}

static void a_short_buffer_cuts_the_line(void **state)
{
    (void)state;
    char text[20];
    xt_progress_format(&usual, 200, text, sizeof text);
    assert_string_equal(text, "epoch 3/10 step 120");
    char one[1] = {'x'};
    xt_progress_format(&usual, 200, one, sizeof one);
    assert_string_equal(one, "");
}

static const struct xt_monitor_figures arc = {
    .now = {.memory_used = {.known = true, .value = 11.21e9},
            .memory_total = {.known = true, .value = 17.18e9},
            .busy = {.known = true, .value = 0.97},
            .power = {.known = true, .value = 190.4},
            .frequency = {.known = true, .value = 2100}},
};

static void assert_line_at(const struct xt_progress_state *state, size_t columns,
                           const char *wanted)
{
    char text[200];
    /* The last column of a terminal stays free. */
    xt_progress_format(state, columns - 1, text, sizeof text);
    assert_string_equal(text, wanted);
    assert_true(strlen(text) < columns);
}

/* LPRNet's, with all that there can be. */
static void a_narrow_line_leaves_out_what_matters_least(void **state)
{
    (void)state;
    struct xt_progress_state line = usual;
    line.skipped = 3;
    line.device = &arc;
    assert_line_at(&line, 200,
                   "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 % 3 "
                   "skipped 11.2/17.2 GB 97 % busy 190 W 2100 MHz");
    assert_line_at(&line, 120,
                   "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 % 3 "
                   "skipped 11.2/17.2 GB 97 % busy 190 W");
    assert_line_at(&line, 80,
                   "epoch 3/10 step 120/1400 loss 0.1234 412 img/s 2:13 left 11.2/17.2 GB 97 % "
                   "busy");
    assert_line_at(&line, 60, "step 120/1400 loss 0.1234 412 img/s 2:13 left 11.2/17.2 GB");
    assert_line_at(&line, 20, "step 120/1400");
}

/* ResNet-50's, days long. */
static void a_long_run_keeps_the_devices_figures_at_80_columns(void **state)
{
    (void)state;
    struct xt_progress_state line = usual;
    line.epoch = 12;
    line.epochs = 90;
    line.step = 125120;
    line.steps = 900900;
    line.loss = 2.1234;
    line.seconds_left = 43333;
    line.device = &arc;
    assert_line_at(&line, 200,
                   "epoch 12/90 step 125120/900900 loss 2.1234 lr 1.2e-3 412 img/s 12:02:13 left "
                   "wait 0 % 11.2/17.2 GB 97 % busy 190 W 2100 MHz");
    assert_line_at(&line, 120,
                   "epoch 12/90 step 125120/900900 loss 2.1234 lr 1.2e-3 412 img/s 12:02:13 left "
                   "wait 0 % 11.2/17.2 GB 97 % busy 190 W");
    assert_line_at(&line, 80,
                   "step 125120/900900 loss 2.1234 412 img/s 12:02:13 left 11.2/17.2 GB 97 % "
                   "busy");
    assert_line_at(&line, 60, "step 125120/900900 loss 2.1234 412 img/s 12:02:13 left");
}

static void times_are_written_as_clocks(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0:00"},         {-5, "0:00"},      {6.6, "0:07"},         {133, "2:13"},
        {3599.6, "1:00:00"}, {3733, "1:02:13"}, {274000, "3 d 04:06"}, {1e300, "11574 d 01:46"},
        {INFINITY, "0:00"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[40];
        xt_progress_format_time(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

/* Standard error goes to a file from here to captured(). */
struct capture {
    FILE *file;
    int before;
};

static struct capture capture(void)
{
    struct capture to = {.file = tmpfile(), .before = dup(STDERR_FILENO)};
    assert_non_null(to.file);
    assert_true(to.before >= 0);
    assert_true(dup2(fileno(to.file), STDERR_FILENO) >= 0);
    return to;
}

static char *read_all(FILE *file)
{
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    char *text = calloc(size + 1, 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, size, file), size);
    fclose(file);
    return text;
}

static char *captured(const struct capture *capture)
{
    assert_true(dup2(capture->before, STDERR_FILENO) >= 0);
    close(capture->before);
    return read_all(capture->file);
}

static void assert_captured(const struct capture *capture, const char *wanted)
{
    char *text = captured(capture);
    assert_string_equal(text, wanted);
    free(text);
}

static void show_step(struct xt_progress *progress, int step, double now, bool force)
{
    const struct xt_progress_state state = {
        .step = step, .lr = NAN, .images_per_s = NAN, .seconds_left = NAN, .wait = NAN};
    xt_progress_show(progress, &state, now, force);
}

/* What is printed by two lines close to each other, one later, and one forced. */
static void show_four(struct xt_progress *progress)
{
    static const double times[] = {100, 100.05, 120, 120.01};
    for (int i = 0; i < 4; i++)
        show_step(progress, i + 1, times[i], i == 3);
    xt_progress_clear(progress);
    xt_progress_clear(progress);
}

static void plain_lines_come_at_intervals(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_PLAIN, .out = tmpfile()};
    assert_non_null(progress.out);
    show_four(&progress);
    char *text = read_all(progress.out);
    assert_string_equal(text, "step 1 loss 0.0000\nstep 3 loss 0.0000\nstep 4 loss 0.0000\n");
    free(text);
}

static void a_live_line_is_rewritten_and_wiped_once(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_LIVE};
    struct capture out = capture();
    show_four(&progress);
    assert_captured(&out, "\rstep 1 loss 0.0000\033[K\rstep 3 loss 0.0000\033[K"
                          "\rstep 4 loss 0.0000\033[K\r\033[K");
}

static void nothing_is_shown_when_off(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_OFF};
    struct capture out = capture();
    show_four(&progress);
    assert_captured(&out, "");
}

static void a_message_has_a_line_of_its_own_and_the_live_line_comes_again(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_LIVE};
    struct capture out = capture();
    xt_log_warn("before");
    show_step(&progress, 1, 100, false);
    xt_log_warn("%d is odd", 3);
    xt_log_note("and %d too", 5);
    xt_progress_clear(&progress);
    xt_log_warn("after");
    assert_captured(&out, "warning: before\n\rstep 1 loss 0.0000\033[K"
                          "\r\033[Kwarning: 3 is odd\nstep 1 loss 0.0000"
                          "\r\033[Kand 5 too\nstep 1 loss 0.0000"
                          "\r\033[Kwarning: after\n");
}

static void where_lines_are_plain_a_message_is_nothing_but_itself(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_PLAIN, .out = tmpfile()};
    assert_non_null(progress.out);
    struct capture out = capture();
    show_step(&progress, 1, 100, false);
    xt_log_warn("3 is odd");
    xt_progress_clear(&progress);
    fclose(progress.out);
    assert_captured(&out, "warning: 3 is odd\n");
}

static void the_answer_to_a_signal_leaves_the_live_line_too(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_LIVE};
    xt_stop_watch();
    struct capture out = capture();
    show_step(&progress, 1, 100, false);
    raise(SIGINT);
    xt_progress_clear(&progress);
    signal(SIGINT, SIG_DFL);
    assert_captured(&out,
                    "\rstep 1 loss 0.0000\033[K"
                    "\r\033[Kxtrain: stopping after what is in hand; a second signal ends it\n"
                    "step 1 loss 0.0000\r\033[K");
}

enum { THREADS = 4, MESSAGES = 200 };

static void what_is_said_stays_one_line_and_no_command(void **state)
{
    (void)state;
    struct capture out = capture();
    xt_log_warn("%s: no image", "a\033[2J\nb");
    xt_log_error("%s", "c\rd");
    assert_captured(&out, "warning: a\\x1B[2J\\x0Ab: no image\nxtrain: error: c\\x0Dd\n");
}

static void *say_many(void *argument)
{
    for (int i = 0; i < MESSAGES; i++)
        xt_log_warn("thread %d says %d", *(int *)argument, i);
    return NULL;
}

/* What a terminal shows of it: what stands before a carriage return is written over. */
static void messages_of_many_threads_stay_whole(void **state)
{
    (void)state;
    struct xt_progress progress = {.mode = XT_PROGRESS_LIVE};
    pthread_t threads[THREADS];
    int numbers[THREADS];
    struct capture out = capture();
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, say_many, &numbers[i]), 0);
    }
    for (int i = 0; i < MESSAGES; i++)
        show_step(&progress, i, i, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    xt_progress_clear(&progress);
    char *text = captured(&out);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int thread = 0;
        int number = 0;
        int end = 0;
        const char *shown = strrchr(line, '\r');
        shown = shown ? shown + 1 : line;
        if (xt_str_starts(shown, "\033[K"))
            shown += 3;
        if (sscanf(shown, "warning: thread %d says %d%n", &thread, &number, &end) == 2 &&
            !shown[end])
            lines++;
        else if (*shown)
            fail_msg("not a whole message: %s", shown);
    }
    assert_int_equal(lines, THREADS * MESSAGES);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_holds_what_a_person_wants_to_know),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(what_does_not_train_has_no_loss),
        cmocka_unit_test(skipped_steps_are_counted_where_there_are_any),
        cmocka_unit_test(a_loss_that_is_no_number_or_large_is_shown),
        cmocka_unit_test(a_short_buffer_cuts_the_line),
        cmocka_unit_test(a_narrow_line_leaves_out_what_matters_least),
        cmocka_unit_test(a_long_run_keeps_the_devices_figures_at_80_columns),
        cmocka_unit_test(times_are_written_as_clocks),
        cmocka_unit_test(plain_lines_come_at_intervals),
        cmocka_unit_test(a_live_line_is_rewritten_and_wiped_once),
        cmocka_unit_test(nothing_is_shown_when_off),
        cmocka_unit_test(what_is_said_stays_one_line_and_no_command),
        cmocka_unit_test(a_message_has_a_line_of_its_own_and_the_live_line_comes_again),
        cmocka_unit_test(where_lines_are_plain_a_message_is_nothing_but_itself),
        cmocka_unit_test(the_answer_to_a_signal_leaves_the_live_line_too),
        cmocka_unit_test(messages_of_many_threads_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
