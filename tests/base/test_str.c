#include "support.h"

#include <string.h>

#include "base/str.h"

static void an_empty_string_is_readable(void **state)
{
    (void)state;
    struct xt_str str = {0};
    assert_string_equal(xt_str_get(&str), "");
    xt_str_clear(&str);
}

static void text_is_appended(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct xt_str str = {0};
    assert_int_equal(xt_str_append(&str, "lr ", 3, &err), XT_OK);
    assert_int_equal(xt_str_printf(&str, &err, "%g at step %d", 0.5, 20), XT_OK);
    assert_string_equal(xt_str_get(&str), "lr 0.5 at step 20");
    assert_int_equal(str.length, strlen("lr 0.5 at step 20"));
    xt_str_clear(&str);
    assert_string_equal(xt_str_get(&str), "");
}

static void a_string_grows_over_its_first_size(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct xt_str str = {0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(xt_str_printf(&str, &err, "%d,", i % 10), XT_OK);
    assert_int_equal(str.length, 2000);
    assert_int_equal(strlen(xt_str_get(&str)), 2000);
    xt_str_clear(&str);
}

static void utf8_of_each_length_is_decoded(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint32_t code;
        size_t length;
    } cases[] = {
        {"A", 'A', 1},
        {"\x7f", 0x7F, 1},
        {"\xc2\x80", 0x80, 2},
        {"\xc3\xa9", 0xE9, 2},
        {"\xdf\xbf", 0x7FF, 2},
        {"\xe0\xa0\x80", 0x800, 3},
        {"\xe6\xb2\xaa", 0x6CAA, 3},
        {"\xed\x9f\xbf", 0xD7FF, 3},
        {"\xee\x80\x80", 0xE000, 3},
        {"\xf0\x90\x80\x80", 0x10000, 4},
        {"\xf0\x9f\x9a\x97", 0x1F697, 4},
        {"\xf4\x8f\xbf\xbf", 0x10FFFF, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        assert_int_equal(xt_utf8_decode(cases[i].text, strlen(cases[i].text), &code),
                         cases[i].length);
        assert_int_equal(code, cases[i].code);
    }
}

static void a_nul_byte_is_a_character(void **state)
{
    (void)state;
    uint32_t code = 1;
    assert_int_equal(xt_utf8_decode("", 1, &code), 1);
    assert_int_equal(code, 0);
}

static void bytes_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    const char *cases[] = {
        "\x80",             /* a continuation with no start */
        "\xff",             /* never a byte of UTF-8 */
        "\xc0\xaf",         /* overlong, two bytes */
        "\xc1\xbf",         /* overlong, two bytes */
        "\xe0\x9f\xbf",     /* overlong, three bytes */
        "\xf0\x8f\xbf\xbf", /* overlong, four bytes */
        "\xed\xa0\x80",     /* a surrogate */
        "\xed\xbf\xbf",     /* a surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf5\x80\x80\x80", /* above U+10FFFF */
        "\xe6\xb2\x41",     /* a continuation that is a letter */
        "\xe6\xb2",         /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        assert_int_equal(xt_utf8_decode(cases[i], strlen(cases[i]), &code), 0);
    }
    uint32_t code = 0;
    assert_int_equal(xt_utf8_decode("a", 0, &code), 0);
}

static void columns_are_what_a_terminal_takes(void **state)
{
    (void)state;
    assert_int_equal(xt_utf8_columns(""), 0);
    assert_int_equal(xt_utf8_columns("A12345"), 6);
    assert_int_equal(xt_utf8_columns("\u6caaA12345"), 8);
    assert_int_equal(xt_utf8_columns("\u00e9"), 1);
    assert_int_equal(xt_utf8_columns("a\xff\xe6z"), 4);
}

static void distance_counts_edits(void **state)
{
    (void)state;
    const struct {
        const char *a;
        const char *b;
        int distance;
    } cases[] = {
        {"", "", 0},           {"batch", "batch", 0}, {"", "abc", 3},
        {"abc", "", 3},        {"btach", "batch", 1}, {"epoch", "epochs", 1},
        {"optim", "optin", 1}, {"sche", "sched", 1},  {"kitten", "sitting", 3},
        {"lr", "warmup", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(xt_str_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(xt_str_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void distance_of_long_words_ends(void **state)
{
    (void)state;
    char a[300];
    char b[300];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    assert_int_equal(xt_str_distance(a, a), 0);
    assert_true(xt_str_distance(a, b) >= 64);
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    const char *const options[] = {"batch", "epochs", "lr", "momentum", "warmup"};
    assert_string_equal(xt_str_nearest("epoch", options, 5), "epochs");
    assert_string_equal(xt_str_nearest("btach", options, 5), "batch");
    assert_string_equal(xt_str_nearest("momentun", options, 5), "momentum");
    assert_string_equal(xt_str_nearest("batch", options, 5), "batch");
}

static void names_may_differ_in_case_and_hyphens(void **state)
{
    (void)state;
    assert_true(xt_str_same_name("ResNet-50", "resnet50"));
    assert_true(xt_str_same_name("MobileNetV3-Large", "mobilenet_v3_large"));
    assert_true(xt_str_same_name("_a-", "A"));
    assert_false(xt_str_same_name("resnet5", "resnet50"));
    assert_false(xt_str_same_name("resnet50", "resnet5-"));
    assert_false(xt_str_same_name("", "a"));
}

static void a_word_like_none_has_no_nearest(void **state)
{
    (void)state;
    const char *const options[] = {"batch", "epochs", "momentum"};
    assert_null(xt_str_nearest("zzzz", options, 3));
    assert_null(xt_str_nearest("batch", options, 0));
}

static void starts_and_ends(void **state)
{
    (void)state;
    assert_true(xt_str_starts("synth:plates", "synth:"));
    assert_false(xt_str_starts("syn", "synth:"));
    assert_true(xt_str_ends("a.png", ".png"));
    assert_false(xt_str_ends("png", ".png"));
    assert_true(xt_str_ends("a.png", ""));
    assert_true(xt_str_starts("", ""));
}

static void text_is_appended_as_far_as_there_is_room(void **state)
{
    (void)state;
    char text[8] = "ab";
    xt_str_append_to(text, sizeof text, "%d", 12);
    assert_string_equal(text, "ab12");
    xt_str_append_to(text, sizeof text, "%s", "cdefgh");
    assert_string_equal(text, "ab12cde");
    xt_str_append_to(text, sizeof text, "x");
    assert_string_equal(text, "ab12cde");
}

static void a_word_is_quoted_where_a_shell_would_not_take_it_as_it_is(void **state)
{
    static const char *const words[][2] = {
        {"runs/a-1", "runs/a-1"},
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"$HOME", "'$HOME'"},
        {"~", "'~'"},
        {"\xe4\xba\xac", "'\xe4\xba\xac'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct xt_str str = {0};
        assert_int_equal(xt_str_append_word(&str, words[i][0], NULL), XT_OK);
        assert_string_equal(xt_str_get(&str), words[i][1]);
        xt_str_clear(&str);
    }
}

/* Commands to a terminal, ends of lines, marks that turn the direction of text. */
static void what_is_no_text_is_escaped(void **state)
{
    (void)state;
    const struct {
        const char *text, *line, *bytes;
    } cases[] = {
        {"京A12345 é \xf0\x9f\x9a\x97 \\", "京A12345 é \xf0\x9f\x9a\x97 \\", NULL},
        {"a\033[2Jb\n\t\x7f", "a\\x1B[2Jb\\x0A\\x09\\x7F", NULL},
        {"\xc2\x9b"
         "2J",
         "\\xC2\\x9B2J", NULL},
        {"x\xe2\x80\xaegpj", "x\\xE2\\x80\\xAEgpj", NULL},
        {"\xbe\xa9"
         "A",
         "\\xBE\\xA9A", "\\xBE\\xA9A"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        assert_int_equal(xt_str_escape(cases[i].text, out, sizeof out), strlen(cases[i].text));
        assert_string_equal(out, cases[i].line);
        xt_str_escape_bytes(cases[i].text, out, sizeof out);
        assert_string_equal(out, cases[i].bytes ? cases[i].bytes : cases[i].text);
    }
}

static void escaping_cuts_between_characters(void **state)
{
    (void)state;
    char out[7];
    assert_int_equal(xt_str_escape("京\n京", out, sizeof out), 3);
    assert_string_equal(out, "京");
    assert_int_equal(xt_str_escape("京\n京", out, 4), 3);
    assert_string_equal(out, "京");
    assert_int_equal(xt_str_escape("京", out, 3), 0);
    assert_string_equal(out, "");
    assert_int_equal(xt_str_escape("京", out, 0), 0);
}

static void one_thing_is_singular(void **state)
{
    (void)state;
    assert_string_equal(xt_count(0, "image").text, "0 images");
    assert_string_equal(xt_count(1, "image").text, "1 image");
    assert_string_equal(xt_count(1, "batch").text, "1 batch");
    assert_string_equal(xt_count(2, "batch").text, "2 batches");
    assert_string_equal(xt_count(3, "class").text, "3 classes");
}

static void a_string_that_lacks_a_part_stays_failed(void **state)
{
    (void)state;
    struct xt_str str = {0};
    struct xt_err err;
    assert_int_equal(xt_str_append(&str, "begun", 5, &err), XT_OK);
    assert_int_equal(xt_str_append(&str, "", SIZE_MAX - 8, NULL), XT_ERR_MEMORY);
    assert_int_equal(xt_str_printf(&str, &err, "end"), XT_ERR_MEMORY);
    assert_int_equal(xt_str_check(&str, &err), XT_ERR_MEMORY);
    assert_string_equal(xt_str_get(&str), "begun");
    xt_str_clear(&str);
    assert_int_equal(xt_str_check(&str, &err), XT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_that_lacks_a_part_stays_failed),
        cmocka_unit_test(text_is_appended_as_far_as_there_is_room),
        cmocka_unit_test(an_empty_string_is_readable),
        cmocka_unit_test(text_is_appended),
        cmocka_unit_test(a_string_grows_over_its_first_size),
        cmocka_unit_test(utf8_of_each_length_is_decoded),
        cmocka_unit_test(a_nul_byte_is_a_character),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused),
        cmocka_unit_test(columns_are_what_a_terminal_takes),
        cmocka_unit_test(distance_counts_edits),
        cmocka_unit_test(distance_of_long_words_ends),
        cmocka_unit_test(the_nearest_word_is_found),
        cmocka_unit_test(a_word_like_none_has_no_nearest),
        cmocka_unit_test(names_may_differ_in_case_and_hyphens),
        cmocka_unit_test(starts_and_ends),
        cmocka_unit_test(a_word_is_quoted_where_a_shell_would_not_take_it_as_it_is),
        cmocka_unit_test(what_is_no_text_is_escaped),
        cmocka_unit_test(escaping_cuts_between_characters),
        cmocka_unit_test(one_thing_is_singular),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
