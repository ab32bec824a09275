/* When a run goes on with other threads because of who else holds the CPUs. */
#include "base/system/others.h"

#include <math.h>

#include "base/system/thread.h"

#include "support.h"

static void assert_near(double got, double wanted)
{
    assert_true(fabs(got - wanted) < 1e-9);
}

static void what_others_want_is_found_from_what_they_got(void **state)
{
    (void)state;
    const struct xt_others_reading from = {
        .time = 100, .run = 50, .wait = 5, .busy = 80, .cpus = 2};
    /* Two threads of ours beside ten on two CPUs, for ten seconds: each gets a sixth. */
    struct xt_others_reading to = {
        .time = 110, .run = 50 + 20.0 / 6, .wait = 5 + 100.0 / 6, .busy = 100, .cpus = 2};
    assert_near(xt_others_between(&from, &to, 2), 10);
    /* Alone on the machine. */
    to = (struct xt_others_reading){.time = 110, .run = 70, .wait = 5, .busy = 100, .cpus = 2};
    assert_near(xt_others_between(&from, &to, 2), 0);
    /* One of ours and half a thread of another's: nobody waits. */
    to = (struct xt_others_reading){.time = 110, .run = 60, .wait = 5, .busy = 95, .cpus = 2};
    assert_near(xt_others_between(&from, &to, 2), 0.5);
    /* A limit of 2 of 64 CPUs: 30 others have CPUs of their own. */
    to = (struct xt_others_reading){.time = 110, .run = 70, .wait = 5, .busy = 400, .cpus = 64};
    assert_near(xt_others_between(&from, &to, 2), 0);
    assert_near(xt_others_between(&from, &from, 2), 0);
}

/* What the rule says after each look at ten seconds. */
static void looks(struct xt_others_rule *rule, const double *others, const int *said, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(xt_others_judge(rule, others[i], 10), said[i]);
}

static void fewer_threads_after_half_a_minute_of_cpus_that_are_held(void **state)
{
    (void)state;
    struct xt_others_rule rule = {.threads = 2, .most = 2, .lived = 1000};
    looks(&rule, (double[]){10, 10, 0, 10, 10, 10}, (int[]){0, 0, 0, 0, 0, 1}, 6);
    /* The mildest of the three counts. */
    rule = (struct xt_others_rule){.threads = 8, .most = 8, .lived = 1000};
    int mild = xt_thread_best(8, 2);
    assert_true(xt_thread_best(8, 40) < mild && mild < 8);
    looks(&rule, (double[]){40, 2, 40}, (int[]){0, 0, mild}, 3);
    /* Steps may be longer than it is from look to look. */
    rule = (struct xt_others_rule){.threads = 2, .most = 2, .lived = 1000};
    assert_int_equal(xt_others_judge(&rule, 10, 29), 0);
    assert_int_equal(xt_others_judge(&rule, 10, 1), 1);
}

static void more_threads_after_a_minute_of_cpus_that_are_free(void **state)
{
    (void)state;
    struct xt_others_rule rule = {.threads = 1, .most = 2, .lived = 1000};
    looks(&rule, (double[]){0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0.1},
          (int[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 12);
}

static void looks_of_the_other_kind_begin_anew(void **state)
{
    (void)state;
    struct xt_others_rule rule = {.threads = 2, .most = 4, .lived = 1000};
    assert_true(xt_thread_best(4, 40) < 2 && xt_thread_best(4, 0) == 4);
    looks(&rule, (double[]){40, 40, 0, 0, 40, 40, 40}, (int[]){0, 0, 0, 0, 0, 0, 1}, 7);
}

static void not_in_the_first_two_minutes(void **state)
{
    (void)state;
    struct xt_others_rule rule = {.threads = 2, .most = 2};
    for (int i = 1; i < 12; i++)
        assert_int_equal(xt_others_judge(&rule, 10, 10), 0);
    assert_int_equal(xt_others_judge(&rule, 10, 10), 1);
}

static void what_the_system_counts_only_grows(void **state)
{
    (void)state;
    struct xt_others_reading first;
    struct xt_others_reading second;
    if (!xt_others_read(&first))
        support_skip("this system does not count what threads wait for CPUs");
    volatile unsigned turns = 0;
    while (turns < 100000000)
        turns++;
    assert_true(xt_others_read(&second));
    assert_true(first.cpus >= 1 && second.cpus == first.cpus);
    assert_true(second.time > first.time && second.run > first.run);
    assert_true(second.busy >= first.busy && second.wait >= first.wait);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_want_is_found_from_what_they_got),
        cmocka_unit_test(fewer_threads_after_half_a_minute_of_cpus_that_are_held),
        cmocka_unit_test(more_threads_after_a_minute_of_cpus_that_are_free),
        cmocka_unit_test(looks_of_the_other_kind_begin_anew),
        cmocka_unit_test(not_in_the_first_two_minutes),
        cmocka_unit_test(what_the_system_counts_only_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
