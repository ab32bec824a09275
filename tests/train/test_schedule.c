#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/optim/schedule.h"

static struct xt_recipe_settings settings_of(enum xt_sched_kind kind)
{
    return (struct xt_recipe_settings){.sched = kind, .lr = 0.1, .gamma = 0.1};
}

static struct xt_schedule schedule_of(const struct xt_recipe_settings *settings, int64_t steps,
                                      int64_t epoch_steps)
{
    struct xt_schedule schedule;
    struct xt_err err;
    assert_int_equal(xt_schedule_init(&schedule, settings, steps, epoch_steps, &err), XT_OK);
    return schedule;
}

static void assert_lr(const struct xt_schedule *schedule, int64_t step, double expected)
{
    double lr = xt_schedule_lr(schedule, step);
    assert_true(fabs(lr - expected) <= 1e-12 + 1e-9 * expected);
}

static void constant_stays(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_CONSTANT);
    struct xt_schedule schedule = schedule_of(&settings, 100, 10);
    assert_lr(&schedule, 0, 0.1);
    assert_lr(&schedule, 99, 0.1);
}

static void warm_up_rises_in_a_line(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_CONSTANT);
    settings.warmup = 0.1;
    struct xt_schedule schedule = schedule_of(&settings, 100, 10);
    assert_lr(&schedule, 0, 0.01);
    assert_lr(&schedule, 4, 0.05);
    assert_lr(&schedule, 9, 0.1);
    assert_lr(&schedule, 10, 0.1);
}

static void step_falls_each_period(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_STEP);
    settings.milestones = "2";
    struct xt_schedule schedule = schedule_of(&settings, 60, 10);
    assert_lr(&schedule, 19, 0.1);
    assert_lr(&schedule, 20, 0.01);
    assert_lr(&schedule, 39, 0.01);
    assert_lr(&schedule, 40, 0.001);
}

static void multistep_falls_at_its_epochs(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_MULTISTEP);
    settings.milestones = "1,4";
    struct xt_schedule schedule = schedule_of(&settings, 60, 10);
    assert_lr(&schedule, 9, 0.1);
    assert_lr(&schedule, 10, 0.01);
    assert_lr(&schedule, 39, 0.01);
    assert_lr(&schedule, 40, 0.001);
    assert_lr(&schedule, 59, 0.001);
}

static void no_schedule_falls_below_the_least_rate(void **state)
{
    (void)state;
    const enum xt_sched_kind kinds[] = {XT_SCHED_CONSTANT, XT_SCHED_STEP, XT_SCHED_MULTISTEP,
                                        XT_SCHED_COSINE, XT_SCHED_ONECYCLE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct xt_recipe_settings settings = settings_of(kinds[i]);
        settings.min_lr = 0.02;
        settings.milestones = kinds[i] == XT_SCHED_MULTISTEP ? "1,2,3" : "1";
        struct xt_schedule schedule = schedule_of(&settings, 60, 10);
        for (int64_t step = 30; step < 60; step++)
            assert_true(xt_schedule_lr(&schedule, step) >= 0.02);
    }
    struct xt_recipe_settings settings = settings_of(XT_SCHED_COSINE);
    settings.min_lr = 0.02;
    struct xt_schedule schedule = schedule_of(&settings, 100, 10);
    assert_lr(&schedule, 50, 0.06);
    assert_lr(&schedule, 100, 0.02);
    settings.min_lr = 0.2;
    struct xt_err err;
    assert_int_equal(xt_schedule_init(&schedule, &settings, 100, 10, &err), XT_ERR_USAGE);
    assert_non_null(strstr(err.text, "--min-lr 0.2 is above --lr 0.1"));
}

static void cosine_falls_to_zero(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_COSINE);
    struct xt_schedule schedule = schedule_of(&settings, 100, 10);
    assert_lr(&schedule, 0, 0.1);
    assert_lr(&schedule, 25, 0.05 * (1 + sqrt(0.5)));
    assert_lr(&schedule, 50, 0.05);
    assert_lr(&schedule, 100, 0);
    settings.warmup = 0.2;
    schedule = schedule_of(&settings, 100, 10);
    assert_lr(&schedule, 9, 0.05);
    assert_lr(&schedule, 20, 0.1);
    assert_lr(&schedule, 60, 0.05);
}

/* PyTorch's formula for OneCycleLR(max_lr=1e-4, total_steps=100, pct_start=0.3): phases end at
 * steps 29 and 99. */
static void onecycle_is_that_of_pytorch(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_ONECYCLE);
    settings.lr = 1e-4;
    struct xt_schedule schedule = schedule_of(&settings, 100, 10);
    const double first = 4e-6;
    const double last = 4e-10;
    assert_lr(&schedule, 0, first);
    assert_lr(&schedule, 10, 1e-4 + (first - 1e-4) / 2 * (1 + cos(M_PI * 10 / 29)));
    assert_lr(&schedule, 29, 1e-4);
    assert_lr(&schedule, 64, (1e-4 + last) / 2);
    assert_lr(&schedule, 80, last + (1e-4 - last) / 2 * (1 + cos(M_PI * 51 / 70)));
    assert_lr(&schedule, 99, last);
    /* A rising part that stops between two steps: 0.25 * 10 - 1 = 1.5. */
    settings.warmup = 0.25;
    schedule = schedule_of(&settings, 10, 10);
    assert_lr(&schedule, 1, 1e-4 + (first - 1e-4) / 2 * (1 + cos(M_PI / 1.5)));
    assert_lr(&schedule, 2, last + (1e-4 - last) / 2 * (1 + cos(M_PI * 0.5 / 7.5)));
}

static void the_shortest_runs_have_a_rate(void **state)
{
    (void)state;
    for (int kind = XT_SCHED_CONSTANT; kind <= XT_SCHED_ONECYCLE; kind++)
        for (int warm = 0; warm <= 2; warm++)
            for (int64_t steps = 1; steps <= 4; steps++) {
                struct xt_recipe_settings settings = settings_of((enum xt_sched_kind)kind);
                settings.milestones = "1";
                settings.warmup = 0.5 * warm;
                struct xt_schedule schedule = schedule_of(&settings, steps, 1);
                for (int64_t step = 0; step <= steps; step++) {
                    double lr = xt_schedule_lr(&schedule, step);
                    assert_true(lr >= 0 && lr <= 0.1 * (1 + 1e-12));
                }
            }
}

static void milestones_that_cannot_be_meant_are_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"10,,20", "20,10", "10,10", "x",     "",    "10,",         ",10",
                                 "0",      "-5",    "+5",    "10 20", "1e3", "99999999999", "10x"};
    struct xt_recipe_settings settings = settings_of(XT_SCHED_MULTISTEP);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct xt_schedule schedule;
        struct xt_err err;
        settings.milestones = wrong[i];
        assert_int_equal(xt_schedule_init(&schedule, &settings, 100, 10, &err), XT_ERR_USAGE);
        assert_non_null(strstr(err.text, "--milestones"));
    }
}

static void refuse(const struct xt_recipe_settings *settings, const char *word)
{
    struct xt_schedule schedule;
    struct xt_err err;
    assert_int_equal(xt_schedule_init(&schedule, settings, 100, 10, &err), XT_ERR_USAGE);
    assert_non_null(strstr(err.text, word));
}

static void milestones_fit_their_schedule(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_STEP);
    refuse(&settings, "needs --milestones");
    settings.milestones = "10,20";
    refuse(&settings, "--milestones");
    settings.sched = XT_SCHED_MULTISTEP;
    settings.milestones = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,"
                          "28,29,30,31,32,33";
    refuse(&settings, "--milestones");
}

static void a_warm_up_longer_than_the_run_is_refused(void **state)
{
    (void)state;
    struct xt_recipe_settings settings = settings_of(XT_SCHED_CONSTANT);
    settings.warmup = 1.5;
    refuse(&settings, "--warmup");
    settings.warmup = NAN;
    refuse(&settings, "--warmup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(warm_up_rises_in_a_line),
        cmocka_unit_test(step_falls_each_period),
        cmocka_unit_test(multistep_falls_at_its_epochs),
        cmocka_unit_test(no_schedule_falls_below_the_least_rate),
        cmocka_unit_test(cosine_falls_to_zero),
        cmocka_unit_test(onecycle_is_that_of_pytorch),
        cmocka_unit_test(the_shortest_runs_have_a_rate),
        cmocka_unit_test(milestones_that_cannot_be_meant_are_refused),
        cmocka_unit_test(milestones_fit_their_schedule),
        cmocka_unit_test(a_warm_up_longer_than_the_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
