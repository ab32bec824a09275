#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_names.h"
#include "cli/options/examples.h"
#include "cli/options/help.h"
#include "cli/options/meanings.h"

static const struct xt_option_models models = {.names = model_names};

static void assert_lines_fit(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length > XT_HELP_COLUMNS)
            fail_msg("%zu columns: %.*s", length, (int)length, text);
        assert_true(length == 0 || text[length - 1] != ' ');
        text += length;
        text += *text == '\n';
    }
}

/* The option as help shows it, at the start of a line. */
static bool shows(const char *text, const struct xt_option *option)
{
    char head[64];
    for (const char *end = " \n"; *end; end++) {
        snprintf(head, sizeof head, "\n  --%s%s%c", xt_option_has_negation(option) ? "[no-]" : "",
                 xt_option_spelling(option), *end);
        if (strstr(text, head))
            return true;
    }
    return false;
}

static bool is_listed(const char *spelling, enum xt_command_id id)
{
    const struct xt_option *option = xt_option_find_for(spelling, id);
    return option && xt_option_is_listed(option, id);
}

static void each_command_shows_its_options_and_no_other(void **state)
{
    (void)state;
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        struct xt_str text = {0};
        struct xt_err err = {0};
        assert_int_equal(xt_help_command((enum xt_command_id)id, &models, NULL, true, &text, &err),
                         XT_OK);
        assert_lines_fit(text.data);
        for (size_t i = 0; i < xt_option_count; i++)
            assert_int_equal(
                shows(text.data, &xt_option_table[i]),
                is_listed(xt_option_spelling(&xt_option_table[i]), (enum xt_command_id)id));
        xt_str_clear(&text);
    }
}

static size_t lines_of(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

static const char *last_word(const char *name)
{
    const char *blank = strchr(name, ' ');
    return blank ? blank + 1 : name;
}

static void every_meaning_is_of_an_option_that_the_command_has(void **state)
{
    (void)state;
    unsigned commands = 0;
    const char *name;
    for (size_t i = 0; (name = xt_option_meaning_at(i, &commands)); i++) {
        const struct xt_option *option = xt_option_find(name);
        assert_non_null(option);
        for (int id = 0; id < XT_COMMAND_COUNT; id++)
            if (commands >> id & 1 && !xt_option_is_listed(option, (enum xt_command_id)id))
                fail_msg("%s has no --%s", xt_command_get((enum xt_command_id)id)->name, name);
    }
}

/* Options that an earlier version called otherwise. */
static void old_names_are_understood_and_not_listed(void **state)
{
    (void)state;
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_int_equal(xt_help_command(XT_COMMAND_TRAIN, NULL, NULL, true, &text, &err), XT_OK);
    for (size_t i = 0; i < xt_option_count; i++) {
        char listed[64];
        if (!xt_option_table[i].was)
            continue;
        assert_ptr_equal(xt_option_find(xt_option_table[i].was), &xt_option_table[i]);
        snprintf(listed, sizeof listed, "--%s ", xt_option_table[i].was);
        assert_null(strstr(text.data, listed));
    }
    assert_ptr_equal(xt_option_find("cache"), xt_option_find("image-cache"));
    xt_str_clear(&text);
}

static void the_overview_shows_every_command_on_one_screen(void **state)
{
    (void)state;
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_int_equal(xt_help_overview(&text, &err), XT_OK);
    assert_lines_fit(text.data);
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        assert_non_null(strstr(text.data, last_word(xt_command_get((enum xt_command_id)id)->name)));
    assert_in_range(lines_of(text.data), 1, 36);
    xt_str_clear(&text);
}

/* Its words, with the comment that may follow them cut off. */
static int split(char *line, const char *words[32])
{
    int count = 0;
    char *end = strstr(line, "  #");
    if (end)
        *end = '\0';
    for (char *word = strtok(line, " "); word && count < 32; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

static void assert_parses(enum xt_command_id id, const char *example)
{
    char line[256];
    const char *words[32];
    struct xt_options options;
    struct xt_err err = {0};
    int used = 0;
    const char *start = strstr(example, "xtrain ");
    assert_non_null(start);
    snprintf(line, sizeof line, "%s --parse-only", start + strlen("xtrain "));
    char *comment = strstr(line, "  #");
    if (comment)
        snprintf(comment, (size_t)(line + sizeof line - comment), " --parse-only");
    int count = split(line, words);
    bool named = words[0][0] != '-';
    assert_int_equal(named ? xt_command_find(words, count, &used) : XT_COMMAND_TRAIN, id);
    enum xt_status status =
        words[used] && strcmp(words[used], "--resume") == 0
            ? XT_OK /* its run is not here */
            : xt_options_parse(&options, count - used, words + used, id, &models, &err);
    if (status)
        fail_msg("%s: %s", example, err.text);
    if (!words[used] || strcmp(words[used], "--resume") != 0)
        xt_options_clear(&options);
}

static size_t options_shown(const char *text)
{
    size_t count = 0;
    for (; (text = strstr(text, "\n  --")); text++)
        count++;
    return count;
}

/* Help begins with examples that parse and at most ten options, which the command has. */
static void help_begins_with_what_is_used(void **state)
{
    (void)state;
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const struct xt_help_page *page = xt_help_page((enum xt_command_id)id);
        for (size_t i = 0; i < XT_HELP_EXAMPLES && page->examples[i]; i++)
            assert_parses((enum xt_command_id)id, page->examples[i]);
        char usual[256];
        snprintf(usual, sizeof usual, "%s", page->usual ? page->usual : "");
        int count = 0;
        for (char *word = strtok(usual, " "); word; word = strtok(NULL, " "), count++)
            if (!xt_option_find(word) ||
                !xt_option_is_for(xt_option_find(word), (enum xt_command_id)id))
                fail_msg("%s has no --%s", xt_command_get((enum xt_command_id)id)->name, word);
        assert_in_range(count, 0, XT_HELP_USUAL);
    }
    struct xt_str text = {0};
    struct xt_err err = {0};
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        assert_int_equal(xt_help_command((enum xt_command_id)id, &models, NULL, false, &text, &err),
                         XT_OK);
        assert_in_range(options_shown(text.data), 1, XT_HELP_USUAL);
        const char *examples = strstr(text.data, "\nExamples:\n");
        assert_true(!xt_help_page((enum xt_command_id)id)->examples[0] ||
                    (examples && examples < strstr(text.data, "\nOptions:\n")));
        xt_str_clear(&text);
    }
    assert_int_equal(xt_help_command(XT_COMMAND_EVAL, &models, NULL, false, &text, &err), XT_OK);
    assert_non_null(strstr(text.data, "more options: xtrain help eval --all"));
    assert_non_null(strstr(text.data, "\n  --amp "));
    assert_null(strstr(text.data, "--workers"));
    xt_str_clear(&text);
}

static void the_manual_page_names_every_option(void **state)
{
    (void)state;
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_int_equal(xt_help_man(&models, &text, &err), XT_OK);
    for (size_t i = 0; i < xt_option_count; i++) {
        if (xt_option_table[i].unlisted)
            continue;
        char head[80];
        int used = snprintf(head, sizeof head, ".B \\-\\-%s",
                            xt_option_has_negation(&xt_option_table[i]) ? "[no\\-]" : "");
        for (const char *p = xt_option_spelling(&xt_option_table[i]); *p; p++)
            used += snprintf(head + used, sizeof head - (size_t)used, "%s%c", *p == '-' ? "\\" : "",
                             *p);
        if (!strstr(text.data, head))
            fail_msg("%s", head);
    }
    xt_str_clear(&text);
}

static void completion_knows_every_option_and_choice(void **state)
{
    (void)state;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t s = 0; s < 3; s++) {
        struct xt_str text = {0};
        struct xt_err err = {0};
        assert_int_equal(xt_help_completion(shells[s], &models, &text, &err), XT_OK);
        for (size_t i = 0; i < xt_option_count; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", s == 2 ? "-l " : "--",
                     xt_option_spelling(&xt_option_table[i]));
            if (!xt_option_table[i].unlisted)
                assert_non_null(strstr(text.data, name));
        }
        assert_non_null(strstr(text.data, "sgd adam adamw rmsprop"));
        assert_non_null(strstr(text.data, with_model_names("{models}", " ", " ")));
        xt_str_clear(&text);
    }
}

/* The shell reads the script, and completes a choice, an option and a command. */
static void bash_completes(void **state)
{
    struct xt_str text = {0};
    struct xt_err err = {0};
    if (system("bash --version >/dev/null 2>&1") != 0)
        support_skip("no bash");
    assert_int_equal(xt_help_completion("bash", &models, &text, &err), XT_OK);
    const char *script = support_path(*state, "xtrain.bash");
    support_write_file(script, text.data, text.length);
    xt_str_clear(&text);
    char command[2048];
    snprintf(
        command, sizeof command,
        "bash -c 'source %s; "
        "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _xtrain; echo ${COMPREPLY[@]}; }; "
        "try xtrain --optim ad; try xtrain eval --lp; try xtrain eval --epo; try xtrain pre; "
        "try xtrain data \"\"; try xtrain bench st; try xtrain cache e; try xtrain st; "
        "try xtrain completion z; try xtrain --optim = ad; try xtrain --optim =; "
        "try xtrain --optim=adamw' 2>&1",
        script);
    FILE *pipe = popen(command, "r");
    char answer[512] = {0};
    assert_non_null(pipe);
    assert_true(fread(answer, 1, sizeof answer - 1, pipe) > 0);
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(answer, "adam adamw\n--lprnet-norm\n\npredict\n"
                                "check split pack get\nstep start\nexport\n\nzsh\nadam adamw\n"
                                "sgd adam adamw rmsprop\n--optim=adamw\n");
}

static struct xt_recipes recipes_of(const char *model)
{
    static const struct xt_recipe_item items[] = {
        {"lr", "0.25"}, {"augment", "true"}, {NULL, NULL}};
    return (struct xt_recipes){.train = strcmp(model, "lprnet") == 0 ? items : NULL};
}

static void a_chosen_network_shows_its_own_defaults(void **state)
{
    (void)state;
    const struct xt_option_models known = {.names = model_names, .recipes_of = recipes_of};
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_int_equal(xt_help_command(XT_COMMAND_TRAIN, &known, "lprnet", true, &text, &err), XT_OK);
    assert_non_null(strstr(text.data, "(default of lprnet: 0.25)"));
    assert_non_null(strstr(text.data, "(default of lprnet: on)"));
    assert_null(strstr(text.data, "the model's"));
    xt_str_clear(&text);
}

static void a_group_of_commands_lists_them(void **state)
{
    (void)state;
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_true(xt_command_is_group("data") && !xt_command_is_group("dat"));
    assert_int_equal(xt_help_group("data", &text, &err), XT_OK);
    assert_lines_fit(text.data);
    assert_non_null(strstr(text.data, "\n  data check  "));
    assert_null(strstr(text.data, "bench"));
    xt_str_clear(&text);
}

static void what_other_programs_call_it_is_known(void **state)
{
    (void)state;
    assert_string_equal(xt_command_meant("evaluate"), "eval");
    assert_string_equal(xt_command_meant("test"), "eval");
    assert_string_equal(xt_command_meant("data chek"), "data check");
    assert_null(xt_command_meant("xyzzy plugh"));
}

static void an_unknown_shell_is_refused(void **state)
{
    (void)state;
    struct xt_str text = {0};
    struct xt_err err = {0};
    assert_int_equal(xt_help_completion("csh", &models, &text, &err), XT_ERR_USAGE);
    assert_string_equal(err.text, "completion takes bash, zsh or fish, not \"csh\"");
    xt_str_clear(&text);
}

int main(void)
{
    list_model_names();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_shows_its_options_and_no_other),
        cmocka_unit_test(every_meaning_is_of_an_option_that_the_command_has),
        cmocka_unit_test(old_names_are_understood_and_not_listed),
        cmocka_unit_test(the_overview_shows_every_command_on_one_screen),
        cmocka_unit_test(help_begins_with_what_is_used),
        cmocka_unit_test(the_manual_page_names_every_option),
        cmocka_unit_test(completion_knows_every_option_and_choice),
        cmocka_unit_test_setup_teardown(bash_completes, support_make_folder, support_remove_folder),
        cmocka_unit_test(a_chosen_network_shows_its_own_defaults),
        cmocka_unit_test(a_group_of_commands_lists_them),
        cmocka_unit_test(what_other_programs_call_it_is_known),
        cmocka_unit_test(an_unknown_shell_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
