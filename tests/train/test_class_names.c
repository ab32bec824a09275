#include <string.h>

#include "support.h"
#include "train/run/class_names.h"

static void assert_refused(const char *text, const char *part)
{
    struct xt_err err;
    struct xt_class_names names;
    assert_int_equal(xt_class_names_parse(&names, text, "w.safetensors", &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, part);
    assert_int_equal(names.count, 0);
}

static void names_come_back_from_their_text(void **state)
{
    (void)state;
    struct xt_err err;
    char *given[] = {(char[]){"cat"}, (char[]){"a \"dog\"\n"}, (char[]){"猫"}};
    struct xt_class_names names;
    struct xt_class_names again;
    struct xt_str text = {0};
    assert_int_equal(xt_class_names_copy(&names, given, 3, 3, &err), XT_OK);
    assert_int_equal(xt_class_names_print(&names, &text, &err), XT_OK);
    assert_int_equal(xt_class_names_parse(&again, xt_str_get(&text), "here", &err), XT_OK);
    assert_true(xt_class_names_equal(&names, &again));
    assert_string_equal(again.names[2], "猫");
    xt_class_names_clear(&again);
    assert_false(xt_class_names_equal(&names, &again));
    xt_class_names_clear(&names);
    xt_str_clear(&text);
}

static void classes_beyond_the_known_are_numbered(void **state)
{
    (void)state;
    struct xt_err err;
    char *given[] = {(char[]){"cat"}};
    struct xt_class_names names;
    assert_int_equal(xt_class_names_copy(&names, given, 1, 3, &err), XT_OK);
    assert_string_equal(names.names[0], "cat");
    assert_string_equal(names.names[2], "class 2");
    xt_class_names_clear(&names);
}

static void what_is_no_list_of_names_is_refused(void **state)
{
    (void)state;
    assert_refused("", "w.safetensors: class_names is not an array");
    assert_refused("{\"a\": 1}", "is not an array");
    assert_refused("[]", "is not an array");
    assert_refused("[\"a\", 3]", "entry 1 of class_names");
    assert_refused("[\"\"]", "entry 0 of class_names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_back_from_their_text),
        cmocka_unit_test(classes_beyond_the_known_are_numbered),
        cmocka_unit_test(what_is_no_list_of_names_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
