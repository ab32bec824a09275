#include "support.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void the_sentence_and_the_status_are_kept(void **state)
{
    (void)state;
    struct xt_err err = {0};
    assert_int_equal(xt_err_set(&err, XT_ERR_DATA, "%s:%d: no label", "a.txt", 7), XT_ERR_DATA);
    assert_int_equal(err.status, XT_ERR_DATA);
    assert_string_equal(err.text, "a.txt:7: no label");
}

static void a_caller_may_want_the_status_alone(void **state)
{
    (void)state;
    assert_int_equal(xt_err_set(NULL, XT_ERR_USAGE, "unseen"), XT_ERR_USAGE);
    assert_int_equal(xt_err_no_memory(NULL, "a batch", 1), XT_ERR_MEMORY);
}

static void a_failed_call_says_why(void **state)
{
    (void)state;
    struct xt_err err = {0};
    errno = ENOENT;
    assert_int_equal(xt_err_system(&err, XT_ERR_DATA, "cannot open %s", "a.png"), XT_ERR_DATA);
    assert_string_equal(err.text, "cannot open a.png: No such file or directory");
    errno = 0;
    xt_err_system(&err, XT_ERR_DATA, "cannot read %s", "a.png");
    assert_string_equal(err.text, "cannot read a.png: the file has become shorter");
    errno = ENOMEM;
    assert_int_equal(xt_err_system(&err, XT_ERR_DATA, "cannot open %s", "a.png"), XT_ERR_MEMORY);
    assert_int_equal(err.status, XT_ERR_MEMORY);
    assert_int_equal(xt_err_system(NULL, XT_ERR_DATA, "unseen"), XT_ERR_MEMORY);
}

static void context_goes_before_the_sentence(void **state)
{
    (void)state;
    struct xt_err err = {0};
    xt_err_set(&err, XT_ERR_DATA, "no label");
    assert_int_equal(xt_err_prefix(&err, "reading %s: ", "a.png"), XT_ERR_DATA);
    assert_string_equal(err.text, "reading a.png: no label");
}

static void a_sentence_may_quote_the_one_before(void **state)
{
    (void)state;
    struct xt_err err = {0};
    xt_err_set(&err, XT_ERR_DATA, "100%% of it, %%s and all");
    xt_err_prefix(&err, "line %d: ", 3);
    assert_string_equal(err.text, "line 3: 100% of it, %s and all");
}

static void too_long_a_sentence_ends_in_dots(void **state)
{
    (void)state;
    struct xt_err err = {0};
    char longest[4096];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';

    xt_err_set(&err, XT_ERR_RUN, "%s", longest);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + sizeof err.text - 4, "...");

    xt_err_set(&err, XT_ERR_RUN, "%.1000s", longest);
    xt_err_prefix(&err, "reading %.100s: ", longest);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + sizeof err.text - 4, "...");
}

static void a_failed_allocation_names_thing_and_size(void **state)
{
    (void)state;
    struct xt_err err = {0};
    assert_int_equal(xt_err_no_memory(&err, "a batch", 12500000), XT_ERR_MEMORY);
    assert_string_equal(err.text, "out of memory: cannot allocate 12.5 MB for a batch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sentence_and_the_status_are_kept),
        cmocka_unit_test(a_caller_may_want_the_status_alone),
        cmocka_unit_test(a_failed_call_says_why),
        cmocka_unit_test(context_goes_before_the_sentence),
        cmocka_unit_test(a_sentence_may_quote_the_one_before),
        cmocka_unit_test(too_long_a_sentence_ends_in_dots),
        cmocka_unit_test(a_failed_allocation_names_thing_and_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
