#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/against.h"
#include "cli/options/options.h"

static struct xt_bench_run run_of(enum xt_dtype dtype, int batch, double step_s)
{
    return (struct xt_bench_run){
        .model = "lprnet",
        .device = "cpu",
        .result = {.device = "cpu: a machine",
                   .threads = 2,
                   .batch = batch,
                   .dtype = dtype,
                   .steps = 3,
                   .step_s = step_s,
                   .conv_s = step_s / 2,
                   .free_conv_s = dtype == XT_F16 ? (double)NAN : step_s / 4,
                   .first_step_s = 0.5,
                   .peak_rss_bytes = 3e8,
                   .planned_bytes = 3.1e8,
                   .others = 0.25},
    };
}

static struct xt_settings settings_of(enum xt_amp amp, int batch)
{
    return (struct xt_settings){.network.model = "lprnet",
                                .device.name = "cpu",
                                .network.amp = amp,
                                .network.batch = batch};
}

/* The runs as text or JSON; the caller frees it. */
static char *described(const struct xt_bench_run *runs, int count, enum xt_report_form form)
{
    struct xt_err err = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    struct xt_report *report = xt_report_create();
    xt_bench_describe(report, runs, count, (struct xt_bench_show){.why = false});
    assert_int_equal(xt_report_end(report, form, out, &err), XT_OK);
    fclose(out);
    return text;
}

/* The end of the text of a run with --why. */
static void assert_why(const struct xt_bench_run *run, const char *end)
{
    struct xt_err err = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    struct xt_report *report = xt_report_create();
    xt_bench_describe(report, run, 1, (struct xt_bench_show){.why = true});
    assert_int_equal(xt_report_end(report, XT_REPORT_TEXT, out, &err), XT_OK);
    fclose(out);
    if (!strstr(text, end))
        fail_msg("not there: %s in:\n%s", end, text);
    free(text);
}

static void why_says_what_was_found_or_that_nothing_was(void **state)
{
    (void)state;
    struct xt_bench_run run = run_of(XT_F32, 8, 0.1);
    run.result.facts.launches = (double)NAN;
    assert_why(&run, "\nnothing was examined: on the CPU --profile shows where the time goes\n");
    run.result.slow.examined[XT_SLOW_KERNELS] = run.result.slow.examined[XT_SLOW_BAR] = true;
    snprintf(run.result.facts.why[XT_SLOW_IDLE], sizeof run.result.facts.why[0], "no permission");
    assert_why(&run, "\nno cause was found; examined: kernels, Resizable BAR\n"
                     "not examined: busy time (no permission)\n");
    run.result.facts.step = 0.010;
    run.result.facts.launches = 0.004;
    run.result.slow.count = 1;
    run.result.slow.found[0] = (struct xt_slow_finding){
        .cause = XT_SLOW_BAR, .because = "Resizable BAR is off", .remedy = "switch it on"};
    assert_why(&run,
               "\nslow because Resizable BAR is off; switch it on\nof a step of 10.0 ms the host "
               "submits work for 4.0 ms, waits for the device 0.0 ms and computes the loss for 0.0 "
               "ms\nexamined: kernels, Resizable BAR\n");
}

/* Writes the runs as JSON to a file and reads them as an earlier run. */
static struct xt_bench_old *written(const char *folder, const struct xt_bench_run *runs, int count)
{
    struct xt_err err = {0};
    char *text = described(runs, count, XT_REPORT_JSON);
    const char *path = support_path(folder, "old.json");
    support_write_file(path, text, strlen(text));
    free(text);
    struct xt_bench_old *old = NULL;
    assert_int_equal(xt_bench_old_read(&old, path, &err), XT_OK);
    return old;
}

static void json_holds_the_keys_that_scripts_read(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "\"images_per_s\":640,",       "\"step_ms\":200,",          "\"conv_ms\":100,",
        "\"first_step_seconds\":0.5,", "\"peak_rss_mb\":300",       "\"share\":0.5",
        "\"free_conv_ms\":50",         "\"free_share\":0.25",       "\"planned_mb\":310",
        "\"type\":\"bf16\"",           "\"others_cpu_share\":0.25",
    };
    struct xt_bench_run run = run_of(XT_BF16, 128, 0.2);
    char *text = described(&run, 1, XT_REPORT_JSON);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no %s in\n%s", parts[i], text);
    free(text);
}

static void the_fastest_of_several_runs_is_named(void **state)
{
    (void)state;
    const struct xt_bench_run runs[] = {run_of(XT_F32, 32, 0.1), run_of(XT_BF16, 64, 0.1),
                                        run_of(XT_BF16, 128, 0.25)};
    char *text = described(runs, 3, XT_REPORT_TEXT);
    assert_non_null(
        strstr(text, "\nfastest: --device cpu --amp bf16 --batch 64, 640.0 images/s\n"));
    free(text);
    text = described(runs, 3, XT_REPORT_JSON);
    assert_non_null(strstr(text, "\"fastest\":1"));
    free(text);
}

static void the_same_configuration_is_found_among_several(void **state)
{
    const struct xt_bench_run runs[] = {run_of(XT_F32, 32, 0.1), run_of(XT_BF16, 32, 0.05),
                                        run_of(XT_F16, 32, 0.025), run_of(XT_F32, 64, 0.2)};
    static const double rates[] = {[XT_AMP_OFF] = 320, [XT_AMP_BF16] = 640, [XT_AMP_FP16] = 1280};
    struct xt_bench_old *old = written(*state, runs, 4);
    struct xt_err err = {0};
    double rate = 0;
    for (int amp = XT_AMP_OFF; amp <= XT_AMP_FP16; amp++) {
        const struct xt_settings settings = settings_of((enum xt_amp)amp, 32);
        assert_int_equal(xt_bench_old_rate(old, &settings, 2, &rate, &err), XT_OK);
        assert_true(rate == rates[amp]);
    }
    const struct xt_settings other = settings_of(XT_AMP_BF16, 64);
    assert_int_equal(xt_bench_old_rate(old, &other, 2, &rate, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "has no run of lprnet on cpu in bf16 at batch 64");
    xt_bench_old_destroy(old);
}

static void another_number_of_threads_is_not_compared(void **state)
{
    const struct xt_bench_run run = run_of(XT_F32, 32, 0.1);
    const struct xt_settings settings = settings_of(XT_AMP_OFF, 32);
    struct xt_bench_old *old = written(*state, &run, 1);
    struct xt_err err = {0};
    double rate = 0;
    assert_int_equal(xt_bench_old_rate(old, &settings, 8, &rate, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "measured with 2 threads, this run with 8");
    assert_int_equal(xt_bench_old_rate(old, &settings, 0, &rate, &err), XT_OK);
    xt_bench_old_destroy(old);
}

static void a_tenth_slower_passes_and_more_fails(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct xt_bench_run runs[] = {run_of(XT_F32, 32, 0.1), run_of(XT_BF16, 32, 0.1)};
    runs[0].old_rate = runs[1].old_rate = 355;
    assert_int_equal(xt_bench_compare(runs, 2, "old.json", &err), XT_OK);
    runs[1].old_rate = 400;
    assert_int_equal(xt_bench_compare(runs, 2, "old.json", &err), XT_ERR_RUN);
    support_assert_error(&err, XT_ERR_RUN,
                         "lprnet on cpu in bf16 at batch 32: 320.0 images/s, 20 % slower than the "
                         "400.0 of old.json");
}

static void a_file_that_is_no_json_is_refused(void **state)
{
    static const char *const texts[] = {"", "images_per_s 12", "{\"images_per_s\": ", "[1, 2]"};
    const char *path = support_path(*state, "bad.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct xt_bench_old *old = NULL;
        struct xt_err err = {0};
        support_write_file(path, texts[i], strlen(texts[i]));
        assert_int_equal(xt_bench_old_read(&old, path, &err), XT_ERR_DATA);
        support_assert_error(&err, XT_ERR_DATA, "this is not JSON");
        xt_bench_old_destroy(old);
    }
}

static void json_of_another_kind_has_nothing_to_compare(void **state)
{
    static const char *const texts[] = {
        "{}", "{\"runs\": 3}", "{\"runs\": [1, null, {}]}",
        "{\"model\": \"lprnet\", \"device\": 1, \"type\": \"f32\", \"batch\": \"32\"}",
        "{\"model\": \"lprnet\", \"device\": \"cpu\", \"type\": \"f32\", \"batch\": 32, "
        "\"threads\": 2, \"images_per_s\": \"fast\"}"};
    const struct xt_settings settings = settings_of(XT_AMP_OFF, 32);
    const char *path = support_path(*state, "odd.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct xt_bench_old *old = NULL;
        struct xt_err err = {0};
        double rate = 0;
        support_write_file(path, texts[i], strlen(texts[i]));
        assert_int_equal(xt_bench_old_read(&old, path, &err), XT_OK);
        assert_int_equal(xt_bench_old_rate(old, &settings, 2, &rate, &err), XT_ERR_DATA);
        xt_bench_old_destroy(old);
    }
}

static void options_give_lists_one_value_at_a_time(void **state)
{
    (void)state;
    const char *const argv[] = {"--model", "lprnet",   "--batch",  "32,64,128",
                                "--amp",   "off,bf16", "--device", "cpu,xpu:1"};
    struct xt_options options;
    struct xt_err err = {0};
    assert_int_equal(xt_options_parse(&options, 8, argv, XT_COMMAND_BENCH_STEP, NULL, &err), XT_OK);
    assert_int_equal(xt_options_count(&options, "batch"), 3);
    assert_int_equal(xt_options_count(&options, "threads"), 1);
    assert_int_equal(options.values.network.batch, 32);
    struct xt_settings settings = options.values;
    assert_int_equal(xt_options_pick(&options, "batch", 2, &settings, &err), XT_OK);
    assert_int_equal(xt_options_pick(&options, "amp", 1, &settings, &err), XT_OK);
    assert_int_equal(xt_options_pick(&options, "device", 1, &settings, &err), XT_OK);
    assert_int_equal(settings.network.batch, 128);
    assert_int_equal(settings.network.amp, XT_AMP_BF16);
    assert_string_equal(settings.device.name, "xpu:1");
    xt_options_clear(&options);
}

static void wrong_values_in_lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *message;
    } cases[] = {
        {"--batch", "32,x", "--batch takes auto or a whole number from 1 to 65536, not \"x\""},
        {"--batch", "32,", "--batch takes auto or a whole number from 1 to 65536, not \"\""},
        {"--batch", "0,32", "--batch takes auto or a whole number from 1 to 65536, not \"0\""},
        {"--amp", "off,fp8", "--amp takes f32, bf16 or fp16, not \"fp8\""},
        {"--device", "cpu,gpu", "--device takes cpu, xpu"},
        {"--threads", "1,2", "--threads takes a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const argv[] = {"--model", "lprnet", cases[i].option, cases[i].value};
        struct xt_options options;
        struct xt_err err = {0};
        xt_options_parse(&options, 4, argv, XT_COMMAND_BENCH_STEP, NULL, &err);
        support_assert_error(&err, XT_ERR_USAGE, cases[i].message);
        xt_options_clear(&options);
    }
}

static void a_list_is_refused_where_one_value_is_meant(void **state)
{
    (void)state;
    const char *const argv[] = {"--model", "lprnet", "--batch", "32,64"};
    struct xt_options options;
    struct xt_err err = {0};
    xt_options_parse(&options, 4, argv, XT_COMMAND_TRAIN, NULL, &err);
    support_assert_error(&err, XT_ERR_USAGE, "--batch takes auto or a whole number");
    xt_options_clear(&options);
}

static void the_median_is_in_the_middle(void **state)
{
    (void)state;
    assert_true(xt_bench_median((double[]){3}, 1) == 3);
    assert_true(xt_bench_median((double[]){9, 1, 2}, 3) == 2);
    assert_true(xt_bench_median((double[]){4, 1, 2, 9}, 4) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_says_what_was_found_or_that_nothing_was),
        cmocka_unit_test(json_holds_the_keys_that_scripts_read),
        cmocka_unit_test(the_fastest_of_several_runs_is_named),
        cmocka_unit_test_setup_teardown(the_same_configuration_is_found_among_several,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(another_number_of_threads_is_not_compared,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test(a_tenth_slower_passes_and_more_fails),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_json_is_refused, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(json_of_another_kind_has_nothing_to_compare,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test(options_give_lists_one_value_at_a_time),
        cmocka_unit_test(wrong_values_in_lists_are_refused),
        cmocka_unit_test(a_list_is_refused_where_one_value_is_meant),
        cmocka_unit_test(the_median_is_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
