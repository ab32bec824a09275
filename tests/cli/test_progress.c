#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What is printed by two lines close to each other, one later, and one forced. */
static char *show_four(enum xt_progress_mode mode)
{
    char *text = NULL;
    size_t size = 0;
    struct xt_progress progress = {.mode = mode, .out = tmpfile()};
    assert_non_null(progress.out);
    struct xt_progress_state state = {
        .lr = NAN, .images_per_s = NAN, .seconds_left = NAN, .wait = NAN};
    static const double times[] = {100, 100.05, 120, 120.01};
    for (int i = 0; i < 4; i++) {
        state.step = i + 1;
        xt_progress_show(&progress, &state, times[i], i == 3);
    }
    xt_progress_clear(&progress);
    xt_progress_clear(&progress);
    size = (size_t)ftell(progress.out);
    text = calloc(size + 1, 1);
    assert_non_null(text);
    rewind(progress.out);
    assert_int_equal(fread(text, 1, size, progress.out), size);
    fclose(progress.out);
    return text;
}

static void plain_lines_come_at_intervals(void **state)
{
    (void)state;
    char *text = show_four(XT_PROGRESS_PLAIN);
    assert_string_equal(text, "step 1 loss 0.0000\nstep 3 loss 0.0000\nstep 4 loss 0.0000\n");
    free(text);
}

static void a_live_line_is_rewritten_and_wiped_once(void **state)
{
    (void)state;
    char *text = show_four(XT_PROGRESS_LIVE);
    assert_string_equal(text, "\rstep 1 loss 0.0000\033[K\rstep 3 loss 0.0000\033[K"
                              "\rstep 4 loss 0.0000\033[K\r\033[K");
    free(text);
}

static void nothing_is_shown_when_off(void **state)
{
    (void)state;
    char *text = show_four(XT_PROGRESS_OFF);
    assert_string_equal(text, "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_holds_what_a_person_wants_to_know),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(skipped_steps_are_counted_where_there_are_any),
        cmocka_unit_test(a_loss_that_is_no_number_or_large_is_shown),
        cmocka_unit_test(a_short_buffer_cuts_the_line),
        cmocka_unit_test(a_narrow_line_leaves_out_what_matters_least),
        cmocka_unit_test(a_long_run_keeps_the_devices_figures_at_80_columns),
        cmocka_unit_test(times_are_written_as_clocks),
        cmocka_unit_test(plain_lines_come_at_intervals),
        cmocka_unit_test(a_live_line_is_rewritten_and_wiped_once),
        cmocka_unit_test(nothing_is_shown_when_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
