#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json/result.h"
#include "cli/report.h"

static void assert_printed(struct xt_report *report, enum xt_report_form form, const char *wanted)
{
    struct xt_err err = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(xt_report_end(report, form, out, &err), XT_OK);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
}

typedef struct xt_report *describe_function(void);

static void assert_both(describe_function *describe, const char *text, const char *json)
{
    assert_printed(describe(), XT_REPORT_TEXT, text);
    assert_printed(describe(), XT_REPORT_JSON, json);
}

static struct xt_report *describe_lines(void)
{
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "%d plates", 3);
    xt_report_add(report, "jpeg", "  formats", "%zu JPEG", (size_t)2);
    xt_report_add(report, "png", "", ", %d PNG", 1);
    xt_report_add(report, NULL, "  a longer label", "%s", "text alone");
    xt_report_add(report, "name", NULL, "%s", "JSON \"alone\"");
    xt_report_scaled(report, "share", "  share", 100, "%.1f %%", 0.25);
    xt_report_flag(report, "works", "", true, ", works", ", does not");
    return report;
}

static void labels_stand_in_a_column_and_values_behind_them(void **state)
{
    (void)state;
    assert_both(
        describe_lines,
        "3 plates\n"
        "  formats        2 JPEG, 1 PNG\n"
        "  a longer label text alone\n"
        "  share          25.0 %, works\n",
        "{\"jpeg\":2,\"png\":1,\"name\":\"JSON \\\"alone\\\"\",\"share\":0.25,\"works\":true}"
        "\n");
}

static struct xt_report *describe_table(void)
{
    static const char *const names[] = {"plain", "京津"};
    struct xt_report *report = xt_report_create();
    struct xt_report *table = xt_report_table(report, "runs");
    for (int i = 0; i < 2; i++) {
        struct xt_report *row = xt_report_group(table, NULL);
        xt_report_add(row, "name", "name", "%s", names[i]);
        struct xt_report *inner = xt_report_group(row, "inner");
        xt_report_add(inner, "rate", "images/s", "%.1f", i ? 1234.5 : 1);
        xt_report_add(row, "none", "rate", "%.1f", i ? 7.0 : NAN);
        xt_report_add(row, NULL, "why", "%s", i ? "" : "none");
        if (i)
            xt_report_add(row, "note", "", "  see %s", "below");
        struct xt_report *own = xt_report_table(xt_report_group(row, NULL), "ops");
        xt_report_add(xt_report_group(own, NULL), "op", "op", "%d", i);
    }
    xt_report_add(report, NULL, "", "%s", "the end");
    return report;
}

static void a_tables_columns_are_as_wide_as_what_is_in_them(void **state)
{
    (void)state;
    assert_both(describe_table,
                "name  images/s rate why\n"
                "plain      1.0    - none\n"
                "京津    1234.5  7.0\n"
                "  see below\n"
                "op\n 0\nop\n 1\nthe end\n",
                "{\"runs\":[{\"name\":\"plain\",\"inner\":{\"rate\":1},\"ops\":[{\"op\":0}]},"
                "{\"name\":\"京津\",\"inner\":{\"rate\":1234.5},\"none\":7,\"note\":\"below\","
                "\"ops\":[{\"op\":1}]}]}\n");
}

static struct xt_report *describe_places(void)
{
    struct xt_report *report = xt_report_create();
    const char *volatile nothing = NULL; /* the compiler warns of one that it sees */
    struct xt_report *sizes = xt_report_list(report, "sizes");
    for (int i = 0; i < 2; i++) {
        struct xt_report *size = xt_report_list(sizes, NULL);
        xt_report_add(size, NULL, i ? "" : "sizes", i ? ", %d" : "%d", 10 + i);
        xt_report_add(size, NULL, "", " x %ld", 20L);
    }
    xt_report_add(report, "driver", "driver", "%s", nothing);
    xt_report_null(report, "limit");
    /* The text of a row, the JSON of two groups beside it. */
    struct xt_report *cold = xt_report_group(report, "cold");
    struct xt_report *row = xt_report_group(xt_report_table(report, NULL), NULL);
    xt_report_add(xt_report_group_in(row, cold, "all"), "wall_s", "cold", "%.1f s", 1.5);
    xt_report_add(xt_report_group_in(row, NULL, "all"), "wall_s", "alone", "%.1f s", 2.5);
    return report;
}

static void lists_and_groups_may_be_in_one_form_alone(void **state)
{
    (void)state;
    assert_both(describe_places,
                "sizes          10 x 20, 11 x 20\n"
                "driver         not told\n"
                " cold alone\n"
                "1.5 s 2.5 s\n",
                "{\"sizes\":[[10,20],[11,20]],\"driver\":null,\"limit\":null,"
                "\"cold\":{\"all\":{\"wall_s\":1.5}}}\n");
}

static struct xt_report *describe_hostile(void)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "name", "name", "%s\t", "a\033[2J\nb\"");
    xt_report_add(report, "bytes", "", "%s", "\xff京");
    xt_report_line(report, "in %s", "a\rb");
    return report;
}

static void names_from_outside_are_one_line_and_valid_json(void **state)
{
    (void)state;
    assert_both(describe_hostile,
                "name           a\\x1B[2J\\x0Ab\"\t\\xFF京\n"
                "in a\\x0Db\n",
                "{\"name\":\"a\\u001b[2J\\nb\\\"\",\"bytes\":\"\\\\xFF京\"}\n");
}

static void what_could_not_be_described_is_not_printed(void **state)
{
    (void)state;
    for (int form = XT_REPORT_TEXT; form <= XT_REPORT_JSON; form++) {
        struct xt_err err = {0};
        struct xt_report *report = xt_report_create();
        FILE *out = tmpfile();
        assert_non_null(out);
        xt_report_add(report, "images", "images", "%d", 3);
        xt_report_fail(xt_report_group(report, "inner"));
        assert_int_equal(xt_report_end(report, (enum xt_report_form)form, out, &err),
                         XT_ERR_MEMORY);
        support_assert_error(&err, XT_ERR_MEMORY, "the report");
        assert_int_equal(ftell(out), 0);
        fclose(out);
    }
}

/* As where memory ran out at once. */
static void describing_goes_on_without_a_report(void **state)
{
    (void)state;
    struct xt_err err = {0};
    struct xt_report *row = xt_report_group(xt_report_table(NULL, "runs"), NULL);
    xt_report_add(row, "name", "name", "%s", "plain");
    xt_report_add(xt_report_list(row, "list"), NULL, "", "%d", 1);
    xt_report_scaled(row, "share", "share", 100, "%.0f", 0.5);
    xt_report_flag(row, "works", "", true, "", "");
    xt_report_line(row, "%s", "a line");
    xt_report_null(row, "limit");
    xt_report_fail(row);
    assert_null(row);
    assert_int_equal(xt_report_end(NULL, XT_REPORT_TEXT, stdout, &err), XT_ERR_MEMORY);
    xt_report_destroy(NULL);
}

/* As C++'s runtime does when the process ends. */
static void what_was_standard_output_while_text_was_collected_may_be_flushed(void **state)
{
    (void)state;
    FILE *before = stdout;
    const struct xt_err none = {.status = XT_OK};
    xt_result_begin(XT_COMMAND_VERSION, XT_RESULT_JSON);
    FILE *meanwhile = stdout;
    xt_result_mute();
    assert_ptr_not_equal(meanwhile, before);
    fputs("text", meanwhile);
    assert_true(xt_result_end(XT_OK, &none));
    assert_ptr_equal(stdout, before);
    /* Were it closed, one of these would have its memory. */
    enum { SIZES = 128 };
    void *others[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        others[i] = malloc(16 * (i + 1));
        assert_non_null(others[i]);
        memset(others[i], 0xff, 16 * (i + 1));
    }
    assert_int_equal(fflush(meanwhile), 0);
    for (size_t i = 0; i < SIZES; i++)
        free(others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_stand_in_a_column_and_values_behind_them),
        cmocka_unit_test(a_tables_columns_are_as_wide_as_what_is_in_them),
        cmocka_unit_test(lists_and_groups_may_be_in_one_form_alone),
        cmocka_unit_test(names_from_outside_are_one_line_and_valid_json),
        cmocka_unit_test(what_could_not_be_described_is_not_printed),
        cmocka_unit_test(describing_goes_on_without_a_report),
        cmocka_unit_test(what_was_standard_output_while_text_was_collected_may_be_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
