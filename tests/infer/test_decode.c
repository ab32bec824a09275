#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "infer/answer/decode.h"
#include "infer/answer/ctc_recursion.h"

enum { BLANK = 0 };

static struct xt_decoded decode(enum xt_decode_kind kind, const float *logits, int t, int classes)
{
    struct xt_decoded out;
    struct xt_err err;
    assert_int_equal(xt_decode(kind, logits, t, classes, BLANK, &out, &err), XT_OK);
    return out;
}

static void assert_symbols(const struct xt_decoded *decoded, int length, const int *symbols)
{
    assert_int_equal(decoded->length, length);
    for (int i = 0; i < length; i++)
        assert_int_equal(decoded->symbols[i], symbols[i]);
}

/* Logits whose softmax is large at one class per step. */
static void spell(float *logits, int t, int classes, const int *path)
{
    for (int i = 0; i < t; i++)
        for (int k = 0; k < classes; k++)
            logits[i * classes + k] = k == path[i] ? 5 : 0;
}

static void repeats_collapse_and_blanks_part_them(void **state)
{
    (void)state;
    enum { T = 8, C = 4 };
    const int path[T] = {1, 1, 0, 1, 2, 2, 0, 3};
    float logits[T * C];
    spell(logits, T, C, path);
    for (int kind = XT_DECODE_GREEDY; kind <= XT_DECODE_BEAM; kind++) {
        struct xt_decoded out = decode((enum xt_decode_kind)kind, logits, T, C);
        assert_symbols(&out, 4, (const int[]){1, 1, 2, 3});
    }
}

static void all_blanks_are_the_empty_string(void **state)
{
    (void)state;
    enum { T = 4, C = 3 };
    float logits[T * C];
    spell(logits, T, C, (const int[T]){0, 0, 0, 0});
    for (int kind = XT_DECODE_GREEDY; kind <= XT_DECODE_BEAM; kind++) {
        struct xt_decoded out = decode((enum xt_decode_kind)kind, logits, T, C);
        assert_int_equal(out.length, 0);
        double p = pow(exp(5) / (exp(5) + 2), T);
        assert_true(fabs(out.probability - p) < 1e-6);
    }
}

/* Two steps of P(blank) = 0.6, P(1) = 0.4: the best path is empty (0.36), but three paths of 0.64
 * in all spell "1". */
static void the_beam_sums_paths_where_greedy_takes_one(void **state)
{
    (void)state;
    const float logits[4] = {logf(0.6f), logf(0.4f), logf(0.6f), logf(0.4f)};
    struct xt_decoded greedy = decode(XT_DECODE_GREEDY, logits, 2, 2);
    assert_int_equal(greedy.length, 0);
    assert_true(fabs(greedy.probability - 0.36) < 1e-6);
    struct xt_decoded beam = decode(XT_DECODE_BEAM, logits, 2, 2);
    assert_symbols(&beam, 1, (const int[]){1});
    assert_true(fabs(beam.probability - 0.64) < 1e-6);
    assert_true(fabsf(beam.confidence[0] - 0.4f) < 1e-6f);
}

/* The probability of the likeliest string of up to T symbols, by enumeration. */
static double likeliest(const float *logits, int t, int classes, int *string, int length)
{
    double best = exp(xt_ctc_log_probability(logits, t, classes, string, length, BLANK));
    for (int k = 1; k < classes && length < t; k++) {
        string[length] = k;
        best = fmax(best, likeliest(logits, t, classes, string, length + 1));
    }
    return best;
}

static void the_beam_finds_the_likeliest_of_all_strings(void **state)
{
    (void)state;
    enum { T = 5, C = 3 };
    int greedy_was_wrong = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct xt_rng rng = xt_rng_begin(seed, 0);
        float logits[T * C];
        for (int i = 0; i < T * C; i++)
            logits[i] = 4 * xt_rng_uniform(&rng);
        int string[T];
        double best = likeliest(logits, T, C, string, 0);
        struct xt_decoded beam = decode(XT_DECODE_BEAM, logits, T, C);
        struct xt_decoded greedy = decode(XT_DECODE_GREEDY, logits, T, C);
        assert_true(fabs(beam.probability - best) < 1e-5 * best);
        greedy_was_wrong += greedy.probability < 0.999 * best;
    }
    assert_true(greedy_was_wrong > 10);
}

static void the_beam_is_never_less_likely_than_greedy(void **state)
{
    (void)state;
    enum { T = 18, C = 68 };
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct xt_rng rng = xt_rng_begin(seed, 1);
        float logits[T * C];
        for (int i = 0; i < T * C; i++)
            logits[i] = 3 * xt_rng_uniform(&rng);
        struct xt_decoded beam = decode(XT_DECODE_BEAM, logits, T, C);
        struct xt_decoded greedy = decode(XT_DECODE_GREEDY, logits, T, C);
        assert_true(beam.probability >= greedy.probability);
    }
}

static void a_symbols_confidence_is_its_best_step(void **state)
{
    (void)state;
    enum { T = 4, C = 3 };
    const float logits[T * C] = {0, 1, 0, 0, 3, 0, 3, 0, 0, 0, 0, 2};
    struct xt_decoded out = decode(XT_DECODE_GREEDY, logits, T, C);
    assert_symbols(&out, 2, (const int[]){1, 2});
    assert_true(fabs((double)out.confidence[0] - exp(3) / (exp(3) + 2)) < 1e-6);
    assert_true(fabs((double)out.confidence[1] - exp(2) / (exp(2) + 2)) < 1e-6);
}

static void large_logits_are_certain(void **state)
{
    (void)state;
    enum { T = 3, C = 3 };
    const float logits[T * C] = {-1e4f, 1e4f, 0, 1e4f, -1e4f, 0, 0, -1e4f, 1e4f};
    for (int kind = XT_DECODE_GREEDY; kind <= XT_DECODE_BEAM; kind++) {
        struct xt_decoded out = decode((enum xt_decode_kind)kind, logits, T, C);
        assert_symbols(&out, 2, (const int[]){1, 2});
        assert_true(out.probability == 1 && out.confidence[0] == 1 && out.confidence[1] == 1);
    }
}

static void a_string_as_long_as_the_steps_fits(void **state)
{
    (void)state;
    enum { T = XT_DECODE_MAX, C = 3 };
    float logits[T * C];
    int path[T];
    for (int i = 0; i < T; i++)
        path[i] = 1 + i % 2;
    spell(logits, T, C, path);
    for (int kind = XT_DECODE_GREEDY; kind <= XT_DECODE_BEAM; kind++) {
        struct xt_decoded out = decode((enum xt_decode_kind)kind, logits, T, C);
        assert_symbols(&out, T, path);
    }
}

static void each_step_says_its_likeliest_symbol_and_how_likely(void **state)
{
    (void)state;
    enum { T = 3, C = 4 };
    float logits[T * C];
    struct xt_decode_step steps[T];
    struct xt_err err;
    const int path[T] = {2, 0, 3};
    spell(logits, T, C, path);
    assert_int_equal(xt_decode_steps(logits, T, C, steps, &err), XT_OK);
    for (int i = 0; i < T; i++) {
        assert_int_equal(steps[i].symbol, path[i]);
        assert_float_equal(steps[i].probability, (float)(exp(5) / (exp(5) + C - 1)), 1e-6);
    }
    logits[4] = NAN;
    assert_int_equal(xt_decode_steps(logits, T, C, steps, &err), XT_ERR_RUN);
}

static void what_cannot_be_decoded_is_an_error(void **state)
{
    (void)state;
    float logits[2 * (XT_DECODE_MAX + 1)] = {0};
    struct xt_decoded out;
    struct xt_err err;
    assert_int_equal(xt_decode(XT_DECODE_GREEDY, logits, XT_DECODE_MAX + 1, 2, BLANK, &out, &err),
                     XT_ERR_DATA);
    assert_non_null(strstr(err.text, "65 steps"));
    logits[5] = NAN;
    assert_int_equal(xt_decode(XT_DECODE_BEAM, logits, 4, 2, BLANK, &out, &err), XT_ERR_RUN);
    assert_non_null(strstr(err.text, "position 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_collapse_and_blanks_part_them),
        cmocka_unit_test(all_blanks_are_the_empty_string),
        cmocka_unit_test(the_beam_sums_paths_where_greedy_takes_one),
        cmocka_unit_test(the_beam_finds_the_likeliest_of_all_strings),
        cmocka_unit_test(the_beam_is_never_less_likely_than_greedy),
        cmocka_unit_test(a_symbols_confidence_is_its_best_step),
        cmocka_unit_test(large_logits_are_certain),
        cmocka_unit_test(a_string_as_long_as_the_steps_fits),
        cmocka_unit_test(each_step_says_its_likeliest_symbol_and_how_likely),
        cmocka_unit_test(what_cannot_be_decoded_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
