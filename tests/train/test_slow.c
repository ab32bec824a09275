/* What makes a run slow, judged from constructed records: each finding with its remedy, none from
 * unknown facts. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "train/watch/slow_watch.h"

/* An Arc in bf16; all facts known, nothing slow. */
static struct xt_slow_facts healthy(void)
{
    return (struct xt_slow_facts){
        .type = XT_BF16,
        .kernels = 80,
        .convolutions = 40,
        .architecture = "Xe-HPG",
        .matrix = XT_YES,
        .discrete = XT_NO,
        .bar = XT_YES,
        .step = 0.010,
        .launches = 0.004,
        .waits = 0.005,
        .loader = 0.0001,
        .loss = 0.0005,
        .busy = 0.9,
    };
}

/* The only finding. */
static struct xt_slow_finding only(const struct xt_slow_facts *facts)
{
    struct xt_slow slow;
    xt_slow_judge(facts, &slow);
    if (slow.count != 1)
        fail_msg("%d findings, the first: %s", slow.count, slow.found[0].because);
    return slow.found[0];
}

static void assert_finding(const struct xt_slow_facts *facts, enum xt_slow_cause cause,
                           const char *because, const char *remedy)
{
    struct xt_slow_finding finding = only(facts);
    assert_int_equal(finding.cause, cause);
    if (!strstr(finding.because, because))
        fail_msg("\"%s\" is not in: %s", because, finding.because);
    if (!strstr(finding.remedy, remedy))
        fail_msg("\"%s\" is not in: %s", remedy, finding.remedy);
}

static void a_run_that_is_well_has_no_finding_and_all_was_looked_at(void **state)
{
    (void)state;
    struct xt_slow slow;
    char text[256];
    const struct xt_slow_facts facts = healthy();
    xt_slow_judge(&facts, &slow);
    assert_int_equal(slow.count, 0);
    xt_slow_describe_examined(&slow, text, sizeof text);
    assert_string_equal(
        text, "kernels, data type, other GPUs, Resizable BAR, launches, loader, busy time");
    xt_slow_describe_rest(&slow, &facts, text, sizeof text);
    assert_string_equal(text, "");
}

static void slow_kernels_are_counted_and_the_first_is_named(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.opencl = 14;
    snprintf(facts.first, sizeof facts.first, "conv1, ocl:xe_lp");
    assert_finding(&facts, XT_SLOW_KERNELS,
                   "14 of the convolutions' 40 kernels are OpenCL C in place of machine code (the "
                   "first: conv1, ocl:xe_lp)",
                   "another --amp");
    snprintf(facts.newer, sizeof facts.newer,
             "oneDNN 3.6 has machine code for Xe2, and this is 3.5");
    assert_finding(&facts, XT_SLOW_KERNELS, "OpenCL C",
                   "oneDNN 3.6 has machine code for Xe2, and this is 3.5: make deps XPU=1");
    facts.reference = 3;
    snprintf(facts.first, sizeof facts.first, "pool, ocl:ref:any");
    assert_finding(&facts, XT_SLOW_KERNELS,
                   "3 of 80 kernels are oneDNN's reference ones, which are not made for speed (the "
                   "first: pool, ocl:ref:any)",
                   "make deps XPU=1");
}

static void a_type_is_held_against_the_matrix_engines(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.type = XT_F32;
    assert_finding(&facts, XT_SLOW_TYPE,
                   "the matrix engines (XMX) of this GPU (Xe-HPG) are not for float32",
                   "--amp bf16");
    facts = healthy();
    facts.matrix = XT_NO;
    snprintf(facts.architecture, sizeof facts.architecture, "Xe-LP");
    assert_finding(&facts, XT_SLOW_TYPE, "this GPU (Xe-LP) has no matrix engines", "--amp fp16");
}

static void an_integrated_gpu_beside_a_discrete_one_is_named(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.discrete = XT_YES;
    snprintf(facts.better, sizeof facts.better, "xpu:1 is Intel(R) Arc(TM) A770 Graphics");
    assert_finding(&facts, XT_SLOW_GPU,
                   "this GPU is the integrated one, and xpu:1 is Intel(R) Arc(TM) A770 Graphics",
                   "--device xpu:1 takes the discrete one");
}

static void a_small_window_of_memory_is_named(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.bar = XT_NO;
    assert_finding(&facts, XT_SLOW_BAR, "Resizable BAR is off", "firmware's set-up");
}

static void launches_that_fill_the_step_while_the_gpu_is_idle(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.launches = 0.009;
    facts.waits = 0.0005;
    facts.busy = 0.3;
    assert_finding(&facts, XT_SLOW_LAUNCHES,
                   "of a step of 10.0 ms the host takes 9.0 ms to submit the GPU's work, and waits "
                   "for it 0.5 ms",
                   "a larger --batch");
    facts.busy = (double)NAN;
    assert_finding(&facts, XT_SLOW_LAUNCHES, "the GPU is done as soon as it has everything",
                   "--batch");

    struct xt_slow slow;
    facts.busy = 0.95; /* the counters show that it is busy nevertheless */
    xt_slow_judge(&facts, &slow);
    assert_int_equal(slow.count, 0);
    facts.busy = 0.6;
    facts.waits = 0.004; /* the host waits: the GPU is the bottleneck */
    xt_slow_judge(&facts, &slow);
    assert_int_equal(slow.count, 0);
}

static void waiting_for_images_is_the_loader_and_explains_an_idle_gpu(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.loader = 0.006;
    facts.busy = 0.3;
    assert_finding(&facts, XT_SLOW_LOADER, "steps wait for images 60 % of the time", "--workers");
}

static void a_gpu_idle_for_another_reason(void **state)
{
    (void)state;
    struct xt_slow_facts facts = healthy();
    facts.busy = 0.3;
    assert_finding(&facts, XT_SLOW_IDLE, "the GPU's engines were idle 70 % of the time",
                   "a larger --batch");
    facts.loss = 0.004;
    assert_finding(&facts, XT_SLOW_IDLE, "idle 70 %", "the host's loss takes 40 % of a step");
}

static void unknown_facts_are_omitted_with_their_reason(void **state)
{
    (void)state;
    struct xt_slow slow;
    char text[512];
    const double unknown = (double)NAN;
    struct xt_slow_facts facts = {.type = XT_F32,
                                  .step = unknown,
                                  .launches = unknown,
                                  .waits = unknown,
                                  .loader = unknown,
                                  .loss = unknown,
                                  .busy = unknown};
    snprintf(facts.why[XT_SLOW_BAR], sizeof facts.why[0], "no permission");
    snprintf(facts.why[XT_SLOW_IDLE], sizeof facts.why[0], "not told");
    xt_slow_judge(&facts, &slow);
    assert_int_equal(slow.count, 0);
    xt_slow_describe_examined(&slow, text, sizeof text);
    assert_string_equal(text, "");
    xt_slow_describe_rest(&slow, &facts, text, sizeof text);
    assert_string_equal(text, "Resizable BAR (no permission), busy time (not told)");
}

/* At the start, before any step was timed. */
static void several_findings_stand_in_one_order(void **state)
{
    (void)state;
    struct xt_slow slow;
    struct xt_slow_facts facts = healthy();
    facts.opencl = 1;
    facts.type = XT_F32;
    facts.bar = XT_NO;
    facts.step = facts.loader = facts.busy = (double)NAN;
    xt_slow_judge(&facts, &slow);
    assert_int_equal(slow.count, 3);
    assert_string_equal(xt_slow_cause_key(slow.found[0].cause), "kernels");
    assert_string_equal(xt_slow_cause_key(slow.found[1].cause), "type");
    assert_string_equal(xt_slow_cause_key(slow.found[2].cause), "resizable_bar");
}

/* ---- collection of facts ---- */

/* A step, with the monitor's figures of the GPU. */
static void step(struct xt_slow_watch *watch, int readings, double busy)
{
    const struct xt_monitor_figures device = {.readings = readings,
                                              .now.busy = {.known = true, .value = busy}};
    xt_slow_watch_step(watch, 1);
    xt_slow_watch_end_step(watch, 1.25, 0.5, &device);
}

static void readings_count_that_are_of_steps_alone(void **state)
{
    (void)state;
    struct xt_slow_watch watch = {.is_xpu = true, .mixed = true};
    step(&watch, 1, 0.9); /* from before the first step */
    for (int i = 0; i < 10; i++)
        step(&watch, 2, 0.2); /* one reading, seen ten times */
    step(&watch, 3, 0.4);
    usleep(200000); /* an evaluation, say */
    step(&watch, 4, 0.8);
    step(&watch, 5, 0.3);
    assert_false(xt_slow_watch_judge(&watch, false)); /* too few */
    assert_true(xt_slow_watch_judge(&watch, true));
    assert_false(xt_slow_watch_judge(&watch, true)); /* once */
    assert_true(fabs(watch.facts.busy - 0.3) < 1e-12);
    assert_true(watch.facts.loader == 0.25);
    assert_true(watch.facts.loss == 0.5);
    assert_true(watch.facts.launches == 0 && watch.facts.waits == 0);
}

static void waiting_for_a_loader_that_takes_more_threads_later_does_not_count(void **state)
{
    (void)state;
    struct xt_slow_watch watch = {.is_xpu = true, .mixed = true};
    const struct xt_monitor_figures none = {.readings = 0};
    for (int i = 1; i <= 80; i++) {
        xt_slow_watch_step(&watch, 1);
        xt_slow_watch_end_step(&watch, i < 64 ? 3 : 1.5, 0, &none);
    }
    assert_true(xt_slow_watch_judge(&watch, true));
    assert_true(watch.facts.loader == 0.5);
}

static void steps_that_were_too_few_or_too_short_are_not_judged_by(void **state)
{
    (void)state;
    struct xt_slow_watch watch = {.is_xpu = true, .mixed = true};
    for (int i = 0; i < 4; i++)
        step(&watch, 1, 0.2);
    assert_false(xt_slow_watch_judge(&watch, true));
    watch.facts.busy = (double)NAN;
    for (int i = 0; i < 200; i++)
        step(&watch, 1, 0.2);
    assert_false(xt_slow_watch_judge(&watch, false));
    assert_true(xt_slow_watch_judge(&watch, true));
    assert_true(isnan(watch.facts.busy));
    assert_string_equal(watch.facts.why[XT_SLOW_IDLE], "the steps took too little time to read it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_is_well_has_no_finding_and_all_was_looked_at),
        cmocka_unit_test(slow_kernels_are_counted_and_the_first_is_named),
        cmocka_unit_test(a_type_is_held_against_the_matrix_engines),
        cmocka_unit_test(an_integrated_gpu_beside_a_discrete_one_is_named),
        cmocka_unit_test(a_small_window_of_memory_is_named),
        cmocka_unit_test(launches_that_fill_the_step_while_the_gpu_is_idle),
        cmocka_unit_test(waiting_for_images_is_the_loader_and_explains_an_idle_gpu),
        cmocka_unit_test(a_gpu_idle_for_another_reason),
        cmocka_unit_test(unknown_facts_are_omitted_with_their_reason),
        cmocka_unit_test(several_findings_stand_in_one_order),
        cmocka_unit_test(readings_count_that_are_of_steps_alone),
        cmocka_unit_test(waiting_for_a_loader_that_takes_more_threads_later_does_not_count),
        cmocka_unit_test(steps_that_were_too_few_or_too_short_are_not_judged_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
