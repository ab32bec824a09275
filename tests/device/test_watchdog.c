/* When a device that does not answer is spoken of, and when it is lost. */
#include "device/faults/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/faults/guard.h"
#include "support.h"

static void the_limits_follow_from_the_steps_or_from_what_was_given(void **state)
{
    (void)state;
    const struct xt_watchdog_limits quick = xt_watchdog_limits(0.05, 0);
    assert_true(quick.say == 60 && quick.end == 600);
    const struct xt_watchdog_limits slow = xt_watchdog_limits(20, 0);
    assert_true(slow.say == 200 && slow.end == 2000);
    const struct xt_watchdog_limits given = xt_watchdog_limits(20, 5);
    assert_true(given.say == 1 && given.end == 5);
}

static void it_is_watched_until_as_many_have_ended(void **state)
{
    struct xt_err err;
    (void)state;
    assert_int_equal(xt_watchdog_begin(&err), XT_OK);
    assert_int_equal(xt_watchdog_begin(&err), XT_OK);
    xt_watchdog_step(1);
    xt_watchdog_end();
    xt_watchdog_end();
}

static void the_last_ops_outlive_their_graph(void **state)
{
    char name[100] = "conv1";
    char ops[1024];
    (void)state;
    xt_guard_note("stem", "a pooling");
    xt_guard_note(name, "a convolution");
    memset(name, 'x', sizeof name - 1);
    xt_guard_last_op(ops, sizeof ops);
    assert_string_equal(ops, "conv1: a convolution");
    xt_guard_last_ops(ops, sizeof ops);
    assert_string_equal(ops, "stem: a pooling; conv1: a convolution");
    /* The longest that fits is cut, not what follows it. */
    xt_guard_note(name, name);
    xt_guard_last_op(ops, sizeof ops);
    assert_true(strlen(ops) == 95 && memcmp(ops + 48, ": xx", 4) == 0);
}

static char said[1024];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void listen(void *context, const char *sentence)
{
    (void)context;
    pthread_mutex_lock(&lock);
    snprintf(said, sizeof said, "%s", sentence);
    pthread_mutex_unlock(&lock);
}

static bool was_said(const char *text)
{
    pthread_mutex_lock(&lock);
    bool found = strstr(said, text) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* A library's handler returns; calls nest. */
static void a_call_that_does_not_return_is_told_with_its_phase(void **state)
{
    struct xt_err err;
    const struct xt_guard_speaker before =
        xt_guard_set_end((struct xt_guard_speaker){.end = listen});
    (void)state;
    xt_watchdog_set_timeout(0.5);
    xt_guard_set_device("xpu:0: a GPU");
    xt_guard_set_phase("in a test");
    assert_int_equal(xt_watchdog_begin(&err), XT_OK);
    const char *outer = xt_guard_enter("the start of its driver");
    xt_guard_leave(xt_guard_enter("a wait"));
    for (int i = 0; i < 100 && !was_said("answered"); i++)
        usleep(50000);
    assert_true(was_said("the device was lost: xpu:0: a GPU: it has not answered for "));
    assert_true(was_said(", in the start of its driver, in a test; "));
    xt_guard_leave(outer);
    xt_watchdog_end();
    xt_guard_set_phase(NULL);
    xt_guard_set_end(before);
    xt_watchdog_set_timeout(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_follow_from_the_steps_or_from_what_was_given),
        cmocka_unit_test(it_is_watched_until_as_many_have_ended),
        cmocka_unit_test(the_last_ops_outlive_their_graph),
        cmocka_unit_test(a_call_that_does_not_return_is_told_with_its_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
