#include "support.h"

#include <string.h>

#include "data/alphabet.h"

static struct xt_alphabet *alphabet;
static struct xt_err err;

static int setup(void **state)
{
    (void)state;
    return xt_alphabet_load(&alphabet, NULL, &err) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    xt_alphabet_destroy(alphabet);
    alphabet = NULL;
    return 0;
}

static int encode(const char *label, int *symbols, int limit)
{
    int length = -1;
    enum xt_status status =
        xt_alphabet_encode(alphabet, label, strlen(label), symbols, limit, &length, &err);
    return status ? -1 : length;
}

static void the_default_has_the_published_order(void **state)
{
    (void)state;
    assert_int_equal(xt_alphabet_count(alphabet), 68);
    assert_int_equal(xt_alphabet_blank(alphabet), 67);
    assert_string_equal(xt_alphabet_symbol(alphabet, 0), "京");
    assert_string_equal(xt_alphabet_symbol(alphabet, 12), "皖");
    assert_string_equal(xt_alphabet_symbol(alphabet, 30), "新");
    assert_string_equal(xt_alphabet_symbol(alphabet, 31), "0");
    assert_string_equal(xt_alphabet_symbol(alphabet, 41), "A");
    assert_string_equal(xt_alphabet_symbol(alphabet, 64), "Z");
    assert_string_equal(xt_alphabet_symbol(alphabet, 65), "I");
    assert_string_equal(xt_alphabet_symbol(alphabet, 66), "O");
    assert_string_equal(xt_alphabet_symbol(alphabet, 67), "-");
    assert_string_equal(xt_alphabet_text(alphabet), xt_alphabet_default);
}

static void every_symbol_is_found_at_its_index(void **state)
{
    (void)state;
    for (int i = 0; i < xt_alphabet_count(alphabet); i++) {
        const char *symbol = xt_alphabet_symbol(alphabet, i);
        uint32_t code = 0;
        assert_int_equal(xt_utf8_decode(symbol, strlen(symbol), &code), strlen(symbol));
        assert_int_equal(xt_alphabet_find(alphabet, code), i);
    }
    assert_int_equal(xt_alphabet_find(alphabet, 'a'), -1);
    assert_int_equal(xt_alphabet_find(alphabet, 0), -1);
    assert_int_equal(xt_alphabet_find(alphabet, 0x10FFFF), -1);
}

static void a_label_becomes_indices_and_text_again(void **state)
{
    (void)state;
    int symbols[8];
    assert_int_equal(encode("皖AB12OI", symbols, 8), 7);
    assert_int_equal(symbols[0], 12);
    assert_int_equal(symbols[1], 41);
    assert_int_equal(symbols[5], 66);
    struct xt_str text = {0};
    assert_int_equal(xt_alphabet_decode(alphabet, symbols, 7, &text, &err), XT_OK);
    assert_string_equal(text.data, "皖AB12OI");
    xt_str_clear(&text);
}

static void assert_refused(const char *label, const char *part)
{
    int symbols[8];
    assert_int_equal(encode(label, symbols, 8), -1);
    support_assert_error(&err, XT_ERR_DATA, part);
}

static void a_label_with_the_blank_is_refused(void **state)
{
    (void)state;
    assert_refused("京A-1234", "holds -, the alphabet's last symbol");
}

static void a_bad_label_names_what_is_wrong(void **state)
{
    (void)state;
    assert_refused("", "empty");
    assert_refused("京A1234567", "京A1234567\" has more than 8 symbols");
    assert_refused("京Aß", "has the symbol ß");
    assert_refused("京a1", "(the capital letter is)");
    assert_refused("京 1", "U+0020");
    assert_refused("京\x1b[1", "\"京?[1\" has the character U+001B");
    assert_refused("京\xff", "is not UTF-8");
}

static void a_long_bad_label_is_cut_in_the_message(void **state)
{
    (void)state;
    char label[2000];
    memset(label, '?', sizeof label - 1);
    label[sizeof label - 1] = '\0';
    assert_refused(label, "...");
    assert_true(strlen(err.text) < 300);
    /* Bytes that are not UTF-8 fill the quotation to its last byte. */
    memset(label, 0xFF, sizeof label - 1);
    assert_refused(label, "?...\" is not UTF-8");
}

static void assert_bad_alphabet(const char *text, const char *part)
{
    struct xt_alphabet *bad = NULL;
    xt_alphabet_create(&bad, text, strlen(text), "abc.txt", &err);
    assert_null(bad);
    support_assert_error(&err, XT_ERR_DATA, part);
}

static void a_bad_alphabet_names_its_line(void **state)
{
    (void)state;
    assert_bad_alphabet("", "abc.txt has 0 symbols");
    assert_bad_alphabet("A\n", "abc.txt has 1 symbols");
    assert_bad_alphabet("AB\nCBA-", "abc.txt line 2: the symbol B appears a second time (first on "
                                    "line 1)");
    assert_bad_alphabet("A\nB\n\xC0\x80", "abc.txt line 3: not UTF-8 (the byte 0xC0)");
    assert_bad_alphabet("A\x07", "line 1: the control character U+0007");
}

static void white_space_and_a_byte_order_mark_are_left_out(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF京 沪\r\n\tA\n\n-\n";
    struct xt_alphabet *own = NULL;
    assert_int_equal(xt_alphabet_create(&own, text, strlen(text), "own", &err), XT_OK);
    assert_string_equal(xt_alphabet_text(own), "京沪A-");
    assert_int_equal(xt_alphabet_blank(own), 3);
    xt_alphabet_destroy(own);
}

static void more_symbols_than_the_maximum_are_refused(void **state)
{
    (void)state;
    struct xt_str text = {0};
    for (int i = 0; i < XT_ALPHABET_MAX + 1; i++) {
        int code = 0x3400 + i;
        const char bytes[3] = {(char)(0xE0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
                               (char)(0x80 | (code & 63))};
        assert_int_equal(xt_str_append(&text, bytes, 3, &err), XT_OK);
    }
    assert_bad_alphabet(text.data, "more than 4096 symbols");
    xt_str_clear(&text);
}

static void an_alphabet_is_read_from_its_file(void **state)
{
    const char *path = support_path(*state, "abc.txt");
    support_write_file(path, "XYZ_\n", 5);
    struct xt_alphabet *own = NULL;
    assert_int_equal(xt_alphabet_load(&own, path, &err), XT_OK);
    assert_int_equal(xt_alphabet_count(own), 4);
    xt_alphabet_destroy(own);
    xt_alphabet_load(&own, support_path(*state, "none.txt"), &err);
    support_assert_error(&err, XT_ERR_DATA, "none.txt");
    assert_null(own);
}

static void assert_blank(const char *text, enum xt_blank blank, int index, const char *whole)
{
    struct xt_alphabet *own = NULL;
    assert_int_equal(xt_alphabet_create_blank(&own, text, strlen(text), blank, "abc.txt", &err),
                     XT_OK);
    assert_int_equal(xt_alphabet_blank(own), index);
    assert_string_equal(xt_alphabet_text(own), whole);
    xt_alphabet_destroy(own);
}

static void the_blank_is_the_first_the_last_or_added(void **state)
{
    const char *path = support_path(*state, "letters.txt");
    struct xt_alphabet *own = NULL;
    assert_blank("XYZ", XT_BLANK_LAST, 2, "XYZ");
    assert_blank("_XYZ", XT_BLANK_FIRST, 0, "_XYZ");
    assert_blank("XYZ", XT_BLANK_NONE, 3, "XYZ-");
    assert_blank("XYZ-", XT_BLANK_NONE, 4, "XYZ-_");
    assert_blank("XYZ-", XT_BLANK_AUTO, 3, "XYZ-");
    support_write_file(path, "XYZ", 3);
    assert_int_equal(xt_alphabet_load(&own, path, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "letters.txt ends in Z, and the last symbol is the");
    support_write_file(path, "AB\xe4\xba\xac", 5);
    assert_int_equal(xt_alphabet_load(&own, path, &err), XT_ERR_DATA);
    assert_int_equal(xt_alphabet_load_blank(&own, path, XT_BLANK_LAST, &err), XT_OK);
    xt_alphabet_destroy(own);
}

static void equal_neighbours_need_a_step_between_them(void **state)
{
    (void)state;
    const int symbols[] = {3, 3, 4, 4, 4, 3};
    assert_int_equal(xt_label_steps(symbols, 6), 9);
    assert_int_equal(xt_label_steps(symbols, 1), 1);
    assert_int_equal(xt_label_steps(symbols, 0), 0);
}

#define alphabet_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        alphabet_test(the_default_has_the_published_order),
        alphabet_test(every_symbol_is_found_at_its_index),
        alphabet_test(a_label_becomes_indices_and_text_again),
        alphabet_test(a_label_with_the_blank_is_refused),
        alphabet_test(a_bad_label_names_what_is_wrong),
        alphabet_test(a_long_bad_label_is_cut_in_the_message),
        cmocka_unit_test(a_bad_alphabet_names_its_line),
        cmocka_unit_test(white_space_and_a_byte_order_mark_are_left_out),
        cmocka_unit_test(more_symbols_than_the_maximum_are_refused),
        cmocka_unit_test_setup_teardown(an_alphabet_is_read_from_its_file, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(the_blank_is_the_first_the_last_or_added,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test(equal_neighbours_need_a_step_between_them),
    };
    return cmocka_run_group_tests_name("alphabet", tests, NULL, NULL);
}
