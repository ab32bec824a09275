#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "infer/answer/metrics.h"

static struct xt_plate_score one(int label_length, const int *label, int answer_length,
                                 const int *answer)
{
    struct xt_plate_score score = {0};
    xt_plate_score_add(&score, label, label_length, answer, answer_length);
    return score;
}

static void a_plate_counts_when_all_its_characters_match(void **state)
{
    (void)state;
    const int plate[3] = {4, 5, 6};
    const int wrong[3] = {4, 5, 7};
    struct xt_plate_score score = {0};
    xt_plate_score_add(&score, plate, 3, plate, 3);
    xt_plate_score_add(&score, plate, 3, wrong, 3);
    xt_plate_score_add(&score, plate, 3, plate, 2);
    assert_int_equal(score.images, 3);
    assert_int_equal(score.correct, 1);
    assert_int_equal(score.characters, 9);
    assert_int_equal(score.char_errors, 2);
    assert_true(fabs(xt_plate_score_accuracy(&score) - 1.0 / 3) < 1e-12);
    assert_true(fabs(xt_plate_score_char_accuracy(&score) - 7.0 / 9) < 1e-12);
}

static void character_errors_are_the_edit_distance(void **state)
{
    (void)state;
    const int label[4] = {1, 2, 3, 4};
    assert_int_equal(one(4, label, 3, (const int[]){2, 3, 4}).char_errors, 1);
    assert_int_equal(one(4, label, 5, (const int[]){1, 2, 9, 3, 4}).char_errors, 1);
    assert_int_equal(one(4, label, 4, (const int[]){2, 1, 3, 4}).char_errors, 2);
    assert_int_equal(one(4, label, 4, (const int[]){4, 3, 2, 1}).char_errors, 4);
    assert_int_equal(one(4, label, 0, label).char_errors, 4);
}

static void a_plate_has_at_most_its_length_in_errors(void **state)
{
    (void)state;
    const int label[2] = {1, 2};
    const int answer[6] = {5, 6, 7, 8, 9, 5};
    assert_int_equal(one(2, label, 6, answer).char_errors, 2);
    assert_int_equal(one(0, label, 6, answer).char_errors, 0);
    assert_int_equal(one(0, label, 6, answer).correct, 0);
    assert_int_equal(one(0, label, 0, answer).correct, 1);
}

static void assert_mistakes(int label_length, const int *label, int answer_length,
                            const int *answer, int count, const struct xt_mistake *wanted)
{
    struct xt_mistake found[XT_MISTAKES_MAX];
    assert_int_equal(xt_plate_mistakes(label, label_length, answer, answer_length, found), count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(found[i].expected, wanted[i].expected);
        assert_int_equal(found[i].read, wanted[i].read);
    }
}

static void mistakes_are_taken_missing_and_added_symbols(void **state)
{
    (void)state;
    const int label[4] = {1, 2, 3, 4};
    assert_mistakes(4, label, 4, label, 0, NULL);
    assert_mistakes(4, label, 4, (const int[]){1, 9, 3, 4}, 1, (const struct xt_mistake[]){{2, 9}});
    assert_mistakes(4, label, 3, (const int[]){1, 3, 4}, 1, (const struct xt_mistake[]){{2, -1}});
    assert_mistakes(4, label, 5, (const int[]){1, 2, 7, 3, 4}, 1,
                    (const struct xt_mistake[]){{-1, 7}});
    assert_mistakes(4, label, 0, NULL, 4,
                    (const struct xt_mistake[]){{1, -1}, {2, -1}, {3, -1}, {4, -1}});
    assert_mistakes(0, NULL, 1, label, 1, (const struct xt_mistake[]){{-1, 1}});
}

static void nothing_counted_is_no_accuracy(void **state)
{
    (void)state;
    const struct xt_plate_score score = {0};
    assert_true(xt_plate_score_accuracy(&score) == 0);
    assert_true(xt_plate_score_char_accuracy(&score) == 0);
}

static void a_class_counts_when_it_is_the_likeliest_or_among_five(void **state)
{
    (void)state;
    struct xt_class_score score = {0};
    const int answers[5] = {4, 2, 0, 1, 3};
    xt_class_score_add(&score, 4, answers, 5);
    xt_class_score_add(&score, 3, answers, 5);
    xt_class_score_add(&score, 5, answers, 5);
    xt_class_score_add(&score, 1, answers, 3);
    assert_int_equal(score.images, 4);
    assert_true(fabs(xt_class_score_top1(&score) - 0.25) < 1e-12);
    assert_true(fabs(xt_class_score_top5(&score) - 0.5) < 1e-12);
}

static void no_image_counted_is_no_accuracy(void **state)
{
    (void)state;
    struct xt_class_score score = {0};
    assert_true(xt_class_score_top1(&score) == 0 && xt_class_score_top5(&score) == 0);
}

static void the_likeliest_classes_come_best_first(void **state)
{
    (void)state;
    const float values[7] = {1, 5, 3, 5, -2, 4, 0};
    const int wanted[5] = {1, 3, 5, 2, 0};
    int top[5];
    assert_int_equal(xt_top_classes(values, 7, 5, top), 5);
    assert_memory_equal(top, wanted, sizeof top);
    assert_int_equal(xt_top_classes(values, 3, 5, top), 3);
    assert_int_equal(top[0], 1);
}

static void values_that_are_no_numbers_come_last(void **state)
{
    (void)state;
    const float values[4] = {NAN, 1, NAN, 2};
    const int wanted[4] = {3, 1, 0, 2};
    int top[4];
    assert_int_equal(xt_top_classes(values, 4, 4, top), 4);
    assert_memory_equal(top, wanted, sizeof top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plate_counts_when_all_its_characters_match),
        cmocka_unit_test(character_errors_are_the_edit_distance),
        cmocka_unit_test(a_plate_has_at_most_its_length_in_errors),
        cmocka_unit_test(mistakes_are_taken_missing_and_added_symbols),
        cmocka_unit_test(nothing_counted_is_no_accuracy),
        cmocka_unit_test(a_class_counts_when_it_is_the_likeliest_or_among_five),
        cmocka_unit_test(no_image_counted_is_no_accuracy),
        cmocka_unit_test(the_likeliest_classes_come_best_first),
        cmocka_unit_test(values_that_are_no_numbers_come_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
