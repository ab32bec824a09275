/* The chain of a record: what follows from what, where lines were replaced, and records of versions
 * before there were chains. */
#include <stdio.h>
#include <stdlib.h>

#include "runs/chain.h"
#include "runs/chain_check.h"
#include "support.h"

static const struct xt_log_keep all = {.training = INT64_MAX, .evaluations = INT64_MAX};

/* Adds lines of these steps behind `head`, which becomes the last one's. */
static void add_lines(const char *path, struct xt_sha256_text *head, int64_t from, int64_t to)
{
    struct xt_err err;
    struct xt_log_writer writer;
    assert_int_equal(xt_log_writer_open(&writer, path, all, &err), XT_OK);
    writer.head = *head;
    for (int64_t step = from; step <= to; step++) {
        xt_log_writer_begin(&writer);
        xt_log_writer_integer(&writer, "step", step);
        assert_int_equal(xt_log_writer_end(&writer, &err), XT_OK);
    }
    *head = writer.head;
    xt_log_writer_close(&writer);
}

static struct xt_chain_check check(const char *path, const char *chain)
{
    struct xt_err err;
    struct xt_chain_check out;
    cJSON *parsed = cJSON_Parse(chain);
    assert_non_null(parsed);
    assert_int_equal(xt_chain_check(&out, path, parsed, &err), XT_OK);
    cJSON_Delete(parsed);
    const struct xt_chain_check found = out;
    xt_chain_check_clear(&out);
    return found;
}

static struct xt_sha256_text first_head(void)
{
    return xt_chain_next("", "facts", 5);
}

static void lines_follow_from_each_other(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_sha256_text first = first_head();
    struct xt_sha256_text head = first;
    char chain[512];
    add_lines(path, &head, 1, 5);
    snprintf(chain, sizeof chain,
             "{\"links\":[{\"after\":\"\",\"from\":\"\",\"head\":\"%s\"}],\"head\":\"%s\"}",
             first.text, head.text);
    struct xt_chain_check found = check(path, chain);
    assert_int_equal(found.lines, 5);
    assert_int_equal(found.broken_line, 0);
    assert_false(found.lacks_end);
}

/* A resumed run drops what came after its checkpoint; a line in the middle may stay. */
static void replaced_lines_leave_a_link(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_err err;
    struct xt_chain_survey survey;
    struct xt_log_writer writer;
    struct xt_sha256_text first = first_head();
    struct xt_sha256_text head = first;
    add_lines(path, &head, 1, 3);
    const struct xt_sha256_text end = head;
    const struct xt_log_keep keep = {.training = 2, .evaluations = 3};
    assert_int_equal(xt_chain_survey(&survey, path, keep, end.text, &err), XT_OK);
    assert_true(survey.has_head);
    assert_string_equal(survey.end.text, end.text);
    assert_string_not_equal(survey.retained.text, end.text);
    assert_int_equal(survey.cut_count, 0);
    assert_int_equal(xt_log_writer_open(&writer, path, keep, &err), XT_OK);
    xt_log_writer_close(&writer);
    head = end;
    add_lines(path, &head, 3, 4);
    char chain[1024];
    snprintf(chain, sizeof chain,
             "{\"links\":[{\"after\":\"\",\"from\":\"\",\"head\":\"%s\"},"
             "{\"after\":\"%s\",\"from\":\"%s\",\"head\":\"%s\"}],\"head\":\"%s\"}",
             first.text, survey.retained.text, end.text, end.text, head.text);
    xt_chain_survey_clear(&survey);
    struct xt_chain_check found = check(path, chain);
    assert_int_equal(found.lines, 4);
    assert_int_equal(found.broken_line, 0);
    /* Without that link they do not follow. */
    snprintf(chain, sizeof chain,
             "{\"links\":[{\"after\":\"\",\"from\":\"\",\"head\":\"%s\"}],\"head\":\"%s\"}",
             first.text, head.text);
    assert_int_equal(check(path, chain).broken_line, 3);
}

static void lines_of_earlier_versions_come_before(void **state)
{
    const char *path = support_path(*state, "metrics.jsonl");
    struct xt_sha256_text none = {""};
    struct xt_sha256_text first = first_head();
    struct xt_sha256_text head = first;
    char chain[512];
    const char *form = "{\"earlier\":%s,\"links\":[{\"after\":\"\",\"from\":\"\",\"head\":\"%s\"}],"
                       "\"head\":\"%s\"}";
    add_lines(path, &none, 1, 2);
    add_lines(path, &head, 3, 4);
    snprintf(chain, sizeof chain, form, "true", first.text, head.text);
    struct xt_chain_check found = check(path, chain);
    assert_int_equal(found.unchained, 2);
    assert_int_equal(found.lines, 2);
    snprintf(chain, sizeof chain, form, "false", first.text, head.text);
    assert_int_equal(check(path, chain).broken_line, 1);
}

#define IN_A_FOLDER(test)                                                                          \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(lines_follow_from_each_other),
        IN_A_FOLDER(replaced_lines_leave_a_link),
        IN_A_FOLDER(lines_of_earlier_versions_come_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
