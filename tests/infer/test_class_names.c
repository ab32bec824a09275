#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "models/weights/weight_file.h"
#include "support_source.h"
#include "infer/network/class_names.h"

static void assert_no_names(const char *text, const char *part)
{
    struct xt_class_names names;
    assert_int_equal(xt_class_names_parse(&names, text, "w.safetensors", &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, part);
    assert_int_equal(names.count, 0);
}

static void names_come_back_from_their_text(void **state)
{
    (void)state;
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
    assert_no_names("", "w.safetensors: class_names is not an array");
    assert_no_names("{\"a\": 1}", "is not an array");
    assert_no_names("[]", "is not an array");
    assert_no_names("[\"a\", 3]", "entry 1 of class_names");
    assert_no_names("[\"\"]", "entry 0 of class_names");
    assert_no_names("[\"a\\u0000b\"]", "holds a NUL character");
}

/* Up to `most` bytes of pieces that are awkward for names, JSON and terminals. */
static void make_name(struct xt_rng *rng, size_t most, char *name)
{
    static const char *const pieces[] = {
        "a",     "B",   " ",    ".",    "7",        "\"",   "\\",       "\\u0000",
        "u0000", "\\n", "{",    "]",    "\'",       "京",   "\xC3\xA9", "\xF0\x9F\x90\xB1",
        "\n",    "\t",  "\x1b", "\x7f", "\xBE\xA9", "\xC2", "\xC2\x85", "\xEF\xBB\xBF",
    };
    enum { PIECES = sizeof pieces / sizeof pieces[0], GOOD = 16 };
    bool any = xt_rng_below(rng, 4) == 0;
    size_t wanted = 1 + xt_rng_below(rng, most);
    size_t length = 0;
    for (;;) {
        const char *piece = pieces[xt_rng_below(rng, any ? PIECES : GOOD)];
        if (length + strlen(piece) > wanted)
            break;
        memcpy(name + length, piece, strlen(piece));
        length += strlen(piece);
    }
    name[length] = '\0';
}

/* As in a run: names are written to the metadata of weights and read back. */
static void assert_saved(const struct xt_source *opened, const char *path)
{
    struct xt_class_names names;
    struct xt_class_names again;
    struct xt_weight_file file;
    struct xt_str text = {0};
    int count = xt_source_class_count(opened);
    assert_int_equal(xt_class_names_copy(&names, opened->class_names, count, count, &err), XT_OK);
    assert_int_equal(xt_class_names_print(&names, &text, &err), XT_OK);
    struct xt_file_meta meta = {"class_names", xt_str_get(&text)};
    static const float zero = 0;
    struct xt_file_tensor tensor = {"x", XT_F32, 0, {0}, &zero, sizeof zero};
    assert_int_equal(xt_weight_file_write(path, &tensor, 1, &meta, 1, &err), XT_OK);
    if (xt_weight_file_read(&file, path, 1000, &err))
        fail_msg("%s", err.text);
    const char *read = xt_weight_file_meta(&file, "class_names");
    assert_non_null(read);
    if (xt_class_names_parse(&again, read, path, &err))
        fail_msg("%s", err.text);
    assert_true(xt_class_names_equal(&names, &again));
    xt_class_names_clear(&again);
    xt_class_names_clear(&names);
    xt_weight_file_clear(&file);
    xt_str_clear(&text);
}

/* Folders of arbitrary names: refused when the data is opened, or read back from the weights. */
static void what_a_run_saves_is_read(void **state)
{
    struct xt_rng rng = xt_rng_begin(14, 0);
    char name[256];
    char other[512];
    int taken = 0;
    int refused = 0;
    char weights[512];
    snprintf(weights, sizeof weights, "%s/w.safetensors", (const char *)*state);
    for (int i = 0; i < 400; i++) {
        char set[32];
        snprintf(set, sizeof set, "%d", i);
        make_name(&rng, i % 2 ? 8 : 255, name);
        const char *folder = support_path(*state, set);
        mkdir(folder, 0777);
        mkdir(support_path(folder, "other"), 0777);
        support_write_file(support_path(folder, "other/1.jpg"), "x", 1);
        snprintf(other, sizeof other, "%s/%s", folder, name);
        if (name[0] == '\0' || name[0] == '.' || mkdir(other, 0777))
            continue;
        support_write_file(support_path(other, "1.jpg"), "x", 1);
        enum xt_status status = xt_source_open(&source, folder, &options, &err);
        if (status) {
            support_assert_error(&err, XT_ERR_DATA, folder);
            support_assert_error(&err, XT_ERR_DATA, "the class name \"");
            refused++;
        } else {
            assert_saved(source, weights);
            taken++;
        }
        xt_source_destroy(source);
        source = NULL;
    }
    assert_true(taken > 200 && refused > 50);
}

static void names_that_nobody_could_read_are_refused(void **state)
{
    static const struct {
        const char *name;
        const char *part;
    } cases[] = {
        {"\xBE\xA9", "/\xBE\xA9: the class name \"??\" is not UTF-8"},
        {"a\x1b[2J", "the class name \"a?[2J\" holds a control character"},
        {"a\nb", "the class name \"a?b\" holds a control character"},
    };
    mkdir(support_path(*state, "cat"), 0777);
    support_write_file(support_path(*state, "cat/1.jpg"), "x", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *folder = support_path(*state, cases[i].name);
        mkdir(folder, 0777);
        support_write_file(support_path(folder, "1.jpg"), "x", 1);
        assert_refused_with(XT_ERR_DATA, *state, cases[i].part);
        unlink(support_path(folder, "1.jpg"));
        rmdir(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_back_from_their_text),
        cmocka_unit_test(classes_beyond_the_known_are_numbered),
        cmocka_unit_test(what_is_no_list_of_names_is_refused),
        cmocka_unit_test_setup_teardown(what_a_run_saves_is_read, setup_classes, teardown),
        cmocka_unit_test_setup_teardown(names_that_nobody_could_read_are_refused, setup_classes,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
