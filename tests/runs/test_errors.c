
#include "support.h"
#include "runs/report/errors.h"

enum { CLASSES = 5 };

/* A predictor of plates that needs no network: what is wrong is found as for plates. */
static int mistakes(const int *label, int length, const struct xt_decoded *answer,
                    struct xt_mistake *out)
{
    return xt_plate_mistakes(label, length, answer->symbols, answer->length, out);
}

static enum xt_status steps(const struct xt_predictor *predictor, const float *logits,
                            struct xt_decode_step *out, int *count, struct xt_err *err)
{
    (void)predictor;
    if (logits)
        return xt_err_set(err, XT_ERR_RUN, "no finite number");
    *count = 1;
    out[0] = (struct xt_decode_step){3, 0.25F};
    return XT_OK;
}

static const struct xt_predictor_class class_test = {.mistakes = mistakes, .steps = steps};
static const struct xt_network network = {.classes = CLASSES};
static const struct xt_predictor predictor = {.class = &class_test, .network = &network};

static struct xt_errors collect(size_t most)
{
    struct xt_errors errors;
    struct xt_err err;
    assert_int_equal(xt_errors_init(&errors, &predictor, most, &err), XT_OK);
    return errors;
}

/* An image whose label is the one symbol, read as the other. */
static void add(struct xt_errors *errors, size_t index, int label, int read, double confidence)
{
    struct xt_decoded said = {.symbols = {read},
                              .confidence = {(float)confidence},
                              .length = 1,
                              .probability = confidence};
    xt_errors_add(errors, &(struct xt_answer){.index = index,
                                              .label = &label,
                                              .label_length = 1,
                                              .said = &said,
                                              .right = label == read});
}

static void end(struct xt_errors *errors)
{
    struct xt_err err;
    assert_int_equal(xt_errors_end(errors, &err), XT_OK);
}

static void the_surest_of_what_is_wrong_comes_first(void **state)
{
    (void)state;
    struct xt_errors errors = collect(0);
    add(&errors, 7, 1, 2, 0.5);
    add(&errors, 8, 1, 1, 0.99);
    add(&errors, 9, 1, 3, 0.9);
    add(&errors, 4, 2, 1, 0.5);
    end(&errors);
    assert_int_equal(errors.images, 4);
    assert_int_equal(errors.wrong_images, 3);
    assert_int_equal(errors.count, 3);
    assert_int_equal(errors.wrong[0]->index, 9);
    assert_int_equal(errors.wrong[1]->index, 4);
    assert_int_equal(errors.wrong[2]->index, 7);
    assert_int_equal(errors.wrong[0]->label[0], 1);
    assert_int_equal(errors.wrong[0]->said[0], 3);
    assert_float_equal(errors.wrong[0]->confidences[0], 0.9, 1e-6);
    assert_int_equal(errors.wrong[0]->step_count, 1);
    assert_int_equal(errors.wrong[0]->steps[0].symbol, 3);
    xt_errors_clear(&errors);
}

static void only_the_worst_are_kept_and_all_are_counted(void **state)
{
    (void)state;
    struct xt_errors errors = collect(3);
    for (int i = 0; i < 100; i++)
        add(&errors, (size_t)i, 1, 2, (double)(i * 37 % 100) / 100);
    end(&errors);
    assert_int_equal(errors.count, 3);
    assert_int_equal(errors.wrong_images, 100);
    for (int i = 0; i < 3; i++)
        assert_float_equal(errors.wrong[i]->confidence, (float)(99 - i) / 100, 1e-6);
    xt_errors_clear(&errors);
}

static void what_is_taken_for_what_is_counted_the_most_frequent_first(void **state)
{
    (void)state;
    struct xt_errors errors = collect(1);
    for (int i = 0; i < 500; i++) {
        add(&errors, 0, 1, 2, 0.1);
        add(&errors, 0, i % CLASSES, (i + 1) % CLASSES, 0.1);
        add(&errors, 0, 4, 4, 0.1);
    }
    end(&errors);
    assert_int_equal(errors.pair_count, CLASSES);
    assert_int_equal(errors.pairs[0].expected, 1);
    assert_int_equal(errors.pairs[0].read, 2);
    assert_int_equal(errors.pairs[0].count, 600);
    assert_int_equal(errors.pairs[1].expected, 0);
    assert_int_equal(errors.pairs[1].count, 100);
    assert_int_equal(errors.seen[1], 600);
    assert_int_equal(errors.right[1], 0);
    assert_int_equal(errors.seen[4], 600);
    assert_int_equal(errors.right[4], 500);
    xt_errors_clear(&errors);
}

static void symbols_that_are_missing_or_too_many_have_no_other(void **state)
{
    (void)state;
    struct xt_errors errors = collect(0);
    struct xt_decoded said = {.symbols = {3, 2}, .length = 2, .probability = 0.5};
    xt_errors_add(
        &errors,
        &(struct xt_answer){.label = (const int[]){1, 3, 2, 2}, .label_length = 4, .said = &said});
    said = (struct xt_decoded){.symbols = {0, 4}, .length = 2};
    xt_errors_add(&errors,
                  &(struct xt_answer){.label = (const int[]){4}, .label_length = 1, .said = &said});
    end(&errors);
    assert_int_equal(errors.pair_count, 3);
    assert_int_equal(errors.pairs[0].expected, -1);
    assert_int_equal(errors.pairs[0].read, 0);
    assert_int_equal(errors.pairs[1].expected, 1);
    assert_int_equal(errors.pairs[1].read, -1);
    assert_int_equal(errors.seen[2], 2);
    assert_int_equal(errors.right[2], 1);
    xt_errors_clear(&errors);
}

static void what_two_collected_is_as_if_one_had(void **state)
{
    (void)state;
    struct xt_errors all = collect(4);
    struct xt_errors parts[2] = {collect(4), collect(4)};
    struct xt_str packed = {0};
    struct xt_err err;
    for (size_t i = 0; i < 60; i++) {
        int label = (int)(i % CLASSES);
        int read = i % 3 ? label : (int)((i + 1) % CLASSES);
        double confidence = (double)(i * 37 % 61) / 61;
        add(&all, i, label, read, confidence);
        add(&parts[i >= 25], i, label, read, confidence);
    }
    assert_int_equal(xt_errors_pack(&parts[1], &packed, &err), XT_OK);
    assert_int_equal(xt_errors_add_packed(&parts[0], packed.data, packed.length, &err), XT_OK);
    end(&all);
    end(&parts[0]);
    assert_int_equal(parts[0].images, all.images);
    assert_int_equal(parts[0].wrong_images, all.wrong_images);
    assert_int_equal(parts[0].count, all.count);
    for (size_t i = 0; i < all.count; i++) {
        assert_int_equal(parts[0].wrong[i]->index, all.wrong[i]->index);
        assert_int_equal(parts[0].wrong[i]->said[0], all.wrong[i]->said[0]);
        assert_int_equal(parts[0].wrong[i]->label[0], all.wrong[i]->label[0]);
        assert_int_equal(parts[0].wrong[i]->steps[0].symbol, all.wrong[i]->steps[0].symbol);
    }
    assert_int_equal(parts[0].pair_count, all.pair_count);
    assert_memory_equal(parts[0].pairs, all.pairs, all.pair_count * sizeof *all.pairs);
    assert_memory_equal(parts[0].seen, all.seen, CLASSES * sizeof *all.seen);
    assert_memory_equal(parts[0].right, all.right, CLASSES * sizeof *all.right);

    for (size_t cut = 0; cut < packed.length; cut += 13)
        assert_int_equal(xt_errors_add_packed(&parts[0], packed.data, cut, &err), XT_ERR_RUN);
    xt_str_clear(&packed);
    xt_errors_clear(&all);
    xt_errors_clear(&parts[0]);
    xt_errors_clear(&parts[1]);
}

static void the_first_failure_is_told_at_the_end(void **state)
{
    (void)state;
    struct xt_errors errors = collect(0);
    struct xt_err err;
    const float logits = 0;
    const int label = 1;
    struct xt_decoded said = {.symbols = {2}, .length = 1};
    xt_errors_add(
        &errors,
        &(struct xt_answer){.label = &label, .label_length = 1, .said = &said, .logits = &logits});
    add(&errors, 1, 1, 2, 0.5);
    assert_int_equal(xt_errors_end(&errors, &err), XT_ERR_RUN);
    assert_string_equal(err.text, "no finite number");
    xt_errors_clear(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_surest_of_what_is_wrong_comes_first),
        cmocka_unit_test(only_the_worst_are_kept_and_all_are_counted),
        cmocka_unit_test(what_is_taken_for_what_is_counted_the_most_frequent_first),
        cmocka_unit_test(symbols_that_are_missing_or_too_many_have_no_other),
        cmocka_unit_test(what_two_collected_is_as_if_one_had),
        cmocka_unit_test(the_first_failure_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
