#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "cli/options/options.h"
#include "model_names.h"

static const struct xt_option_models models = {.names = model_names};

/* Reads the text as a config file of `xtrain train`, `more` (may be NULL) on the command line. */
static enum xt_status read_config(struct xt_options *options, const char *folder, const char *text,
                                  const char *more, struct xt_err *err)
{
    const char *path = support_path(folder, "run.yaml");
    support_write_file(path, text, strlen(text));
    const char *const words[] = {"--config", path, more};
    return xt_options_parse(options, more ? 3 : 2, words, XT_COMMAND_TRAIN, &models, err);
}

/* @ stands for the file's path. */
static const struct {
    const char *text;
    const char *message;
} wrong_files[] = {
    {"xpu: yes", "@:1: xpu takes true or false, not \"yes\""},
    {"xpu: on", "@:1: xpu takes true or false, not \"on\""},
    {"xpu: \"False\"", "@:1: xpu: \"False\" in quotes is text; write true or false without quotes"},
    {"xpu: 'true'", "@:1: xpu: \"true\" in quotes is text; write true or false without quotes"},
    {"xpu: 1", "@:1: xpu takes true or false, not \"1\""},
    {"xpu: True", "@:1: xpu takes true or false, not \"True\""},
    {"xpu:", "@:1: xpu has no value; write one, or remove the line"},
    {"xpu: ~", "@:1: xpu has no value; write one, or remove the line"},
    {"xpu: [true]", "@:1: xpu takes one value, not a list"},
    {"batch: \"12\"", "@:1: batch: \"12\" in quotes is text; write it without quotes"},
    {"batch: 12x", "@:1: batch takes auto or a whole number from 1 to 65536, not \"12x\""},
    {"batch: 1_000", "@:1: batch takes auto or a whole number from 1 to 65536, not \"1_000\""},
    {"batch: 0o17", "@:1: batch takes auto or a whole number from 1 to 65536, not \"0o17\""},
    {"batch: 010", "@:1: batch takes auto or a whole number from 1 to 65536, not \"010\""},
    {"batch: 1e2", "@:1: batch takes auto or a whole number from 1 to 65536, not \"1e2\""},
    {"batch: 12 13", "@:1: batch takes auto or a whole number from 1 to 65536, not \"12 13\""},
    {"batch:\n  12\n  13",
     "@:1: batch takes auto or a whole number from 1 to 65536, not \"12 13\""},
    {"batch: null", "@:1: batch has no value; write one, or remove the line"},
    {"batch: ''", "@:1: batch: \"\" in quotes is text; write it without quotes"},
    {"batch: true", "@:1: batch takes auto or a whole number from 1 to 65536, not \"true\""},
    {"batch: {a: 1}", "@:1: the settings are one flat list of `key: value`, without nesting"},
    {"batch:\n  a: 1", "@:2: the settings are one flat list of `key: value`, without nesting"},
    {"batch: [1]", "@:1: batch takes one value, not a list"},
    {"lr: .nan", "@:1: lr takes a number greater than 0 and at most 1000, not \".nan\""},
    {"lr: .inf", "@:1: lr takes a number greater than 0 and at most 1000, not \".inf\""},
    {"lr: 0", "@:1: lr takes a number greater than 0 and at most 1000, not \"0\""},
    {"lr: '0.1'", "@:1: lr: \"0.1\" in quotes is text; write it without quotes"},
    {"lr: 1e-3 # fine\nlr: 2e-3", "@:2: lr is already set in line 1; keep one"},
    {"epochs: -1", "@:1: epochs takes a whole number from 1 to 1000000, not \"-1\""},
    {"seed: -1", "@:1: seed takes a whole number from 0 to 18446744073709551615, not \"-1\""},
    {"seed: 0x10", "@:1: seed takes a whole number from 0 to 18446744073709551615, not \"0x10\""},
    {"max_time: '10m'", "@:1: max_time: \"10m\" in quotes is text; write it without quotes"},
    {"max_time: 1:30",
     "@:1: max_time takes a time such as 90s, 10m or 2h (a bare number: seconds), not \"1:30\""},
    {"optim: adma",
     "@:1: optim takes sgd, adam, adamw or rmsprop, not \"adma\"; did you mean adam?"},
    {"optim: 3", "@:1: optim takes sgd, adam, adamw or rmsprop, not \"3\""},
    {"optim: [sgd]", "@:1: optim takes one value, not a list"},
    {"amp: false", "@:1: amp takes f32, bf16 or fp16, not \"false\""},
    {"data: 123",
     "@:1: data: 123 without quotes is a number or a boolean; to mean text write it in quotes"},
    {"data: true",
     "@:1: data: true without quotes is a number or a boolean; to mean text write it in quotes"},
    {"data: yes",
     "@:1: data: yes without quotes is a number or a boolean; to mean text write it in quotes"},
    {"data: null", "@:1: data has no value; write one, or remove the line"},
    {"data: ''", "@:1: data was given an empty value; give one, or omit it"},
    {"data: [a, '']", "@:1: an item of this list is empty or has line breaks"},
    {"data: [a, \"b\\nc\"]", "@:1: an item of this list is empty or has line breaks"},
    {"init: [a, b]", "@:1: init takes one value, not a list"},
    {"milestones: [10, 5]", "@:1: milestones takes ascending whole numbers separated by commas, "
                            "such as 10,20, not \"10,5\""},
    {"milestones: [10, '20']", "@:1: milestones: the list holds plain numbers, without quotes"},
    {"milestones: [10, [20]]", "@:1: a list here holds single values, no lists or mappings"},
    {"milestones: []",
     "@:1: milestones takes ascending whole numbers separated by commas, such as 10,20, not \"\""},
    {"milestones: [10, x]", "@:1: milestones takes ascending whole numbers separated by commas, "
                            "such as 10,20, not \"10,x\""},
    {"milestones: [10, ]\nmilestones: [3]", "@:2: milestones is already set in line 1; keep one"},
    {"weight-decay: 0.1", "@:1: there is no option \"weight-decay\"; write weight_decay"},
    {"Batch: 3", "@:1: there is no option \"Batch\"; write batch"},
    {"learning_rate: 0.1", "@:1: there is no option \"learning_rate\"; use lr"},
    {"batch_size: 3", "@:1: there is no option \"batch_size\"; use batch"},
    {"cuda: true", "@:1: there is no option \"cuda\"; for an Intel GPU use xpu: true"},
    {"fp16: true", "@:1: there is no option \"fp16\"; use amp: fp16"},
    {"gpu: 0", "@:1: there is no option \"gpu\"; for an Intel GPU use xpu: true"},
    {"bacth: 3", "@:1: there is no option \"bacth\"; did you mean batch?"},
    {"no_augment: true", "@:1: there is no option \"no_augment\"; write augment: false"},
    {"zzzzzzzz: 1", "@:1: there is no option \"zzzzzzzz\"; `xtrain train --help` lists them"},
    {"? [a]\n: 1", "@:1: a key must be the name of an option"},
    {"1: 2", "@:1: there is no option \"1\"; `xtrain train --help` lists them"},
    {"'': 2", "@:1: there is no option \"\"; `xtrain train --help` lists them"},
    {"config: other.yaml", "@:1: config is for the command line only (--config); remove the line"},
    {"print_config: true",
     "@:1: print_config is for the command line only (--print-config); remove the line"},
    {"help: true", "@:1: help is for the command line only (--help); remove the line"},
    {"version: true", "@:1: version is for the command line only (--version); remove the line"},
    {"json: true", "@:1: json is for the command line only (--json); remove the line"},
    {"dry_run: true", "@:1: dry_run is for the command line only (--dry-run); remove the line"},
    {"batch: 3\nlr: 0.1\nbatch: 4", "@:3: batch is already set in line 1; keep one"},
    {"batch: 3\nbatch: 3", "@:2: batch is already set in line 1; keep one"},
    {"batch: &a 3", "@:1: anchors (&) and aliases (*) are not supported; write the value out"},
    {"batch: &a 3\nkeep: *a",
     "@:1: anchors (&) and aliases (*) are not supported; write the value out"},
    {"batch: *a", "@:1: anchors (&) and aliases (*) are not supported; write the value out"},
    {"<<: {batch: 3}", "@:1: the settings are one flat list of `key: value`, without nesting"},
    {"a: &a [*a]", "@:1: anchors (&) and aliases (*) are not supported; write the value out"},
    {"batch: !!int 3", "@:1: tags (!) are not supported; write the bare value"},
    {"batch: !!str 3", "@:1: tags (!) are not supported; write the bare value"},
    {"!!map {batch: 3}", "@:1: tags (!) are not supported; write the bare value"},
    {"data: |\n  plates",
     "@:1: block text (| and >) is not supported; write the value on the key's line"},
    {"data: >\n  plates",
     "@:1: block text (| and >) is not supported; write the value on the key's line"},
    {"- batch", "@:1: a config file is a list of `key: value` lines"},
    {"batch", "@:1: a config file is a list of `key: value` lines"},
    {"3", "@:1: a config file is a list of `key: value` lines"},
    {"[batch, 3]", "@:1: a config file is a list of `key: value` lines"},
    {"batch: 3\n---\nlr: 1", "@:2: a second document (---) begins; a file holds one"},
    {"---\n...\n---\n", "@:3: a second document (---) begins; a file holds one"},
    {"batch: 3\n\tlr: 1", "@:2: a tab in the indentation, which YAML forbids; use spaces"},
    {"\tbatch: 3", "@:1: a tab in the indentation, which YAML forbids; use spaces"},
    {"batch: {", "@:1: the settings are one flat list of `key: value`, without nesting"},
    {"batch: [\n", "@:2: this is not YAML (did not find expected node content, column 1)"},
    {"batch: \"abc\n", "@:2: this is not YAML (found unexpected end of stream, column 1)"},
    {"batch: 3\n lr: 1", "@:1: batch takes auto or a whole number from 1 to 65536, not \"3 lr\""},
    {"lr: 1\n}", "@:2: this is not YAML (did not find expected key, column 1)"},
    {"%YAML 9.9\n---\nbatch: 3",
     "@:1: this is not YAML (found incompatible YAML document, column 1)"},
    {"batch: @3", "@:1: this is not YAML (found character that cannot start any token, column 8)"},
    {"data: \"a\\0b\"", "@:1: a value cannot hold the character U+0000"},
    {"data: \"\\xZZ\"",
     "@:1: this is not YAML (did not find expected hexdecimal number, column 10)"},
    {"device: gpu", "@:1: device takes cpu, xpu, xpu:N (the N-th, from 0; or its name, PCI address "
                    "or UUID) or auto, not \"gpu\"; "
                    "for an Intel GPU use --xpu (in a config file: device: xpu)"},
    {"device: cuda:0", "@:1: device takes cpu, xpu, xpu:N (the N-th, from 0; or its name, PCI "
                       "address or UUID) or auto, not "
                       "\"cuda:0\"; for an Intel GPU use --xpu (in a config file: device: xpu)"},
    {"xpu: true\ndevice: cpu", "@:1: xpu contradicts the device cpu; keep the one you mean"},
    {"quiet: true\nverbose: true", "@:1: quiet contradicts verbose; keep the one you mean"},
    {"nesterov: true", "@:1: nesterov is only for the optimizer sgd"},
    {"sched: multistep", "@:1: sched multistep needs the epochs, such as --milestones 10,20"},
    {"milestones: [3]", "@:1: milestones is only for --sched step or multistep"},
    {"init_partial: true", "@:1: init_partial needs the weights to take: --init FILE"},
    {"model: lprnt", "@:1: model takes {models}, not \"lprnt\"; did you mean lprnet?"},
};

static void wrong_files_end_with_file_and_line_and_code_2(void **state)
{
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        struct xt_options options;
        struct xt_err err = {0};
        bool has_model = strncmp(wrong_files[i].text, "model", 5) == 0;
        enum xt_status status = read_config(&options, *state, wrong_files[i].text,
                                            has_model ? NULL : "--model=lprnet", &err);
        char wanted[2048];
        const char *message = with_model_names(wrong_files[i].message, ", ", " or ");
        snprintf(wanted, sizeof wanted, "%s%s", support_path(*state, "run.yaml"),
                 *message == '@' ? message + 1 : message);
        if (status != XT_ERR_USAGE || strcmp(err.text, wanted) != 0)
            fail_msg("%s\n  gave %d \"%s\"\n  not    \"%s\"", wrong_files[i].text, status, err.text,
                     wanted);
        xt_options_clear(&options);
    }
}

static void assert_reads(const char *folder, const char *text, struct xt_options *options)
{
    struct xt_err err = {0};
    if (read_config(options, folder, text, "--model=lprnet", &err) != XT_OK)
        fail_msg("%s: %s", text, err.text);
}

static void values_of_every_form_are_read(void **state)
{
    struct xt_options options;
    assert_reads(*state,
                 "%YAML 1.1\n---\n# a comment\nbatch: 17   # of mine\nlr:   1e-4\n"
                 "\"optim\": 'sgd'\nsched: multistep\nmilestones: [10, 20]\naugment: true\n"
                 "data: \"123\"\nval: 京/plates\namp: off\nmax_time: 10m\npin_memory:\ttrue\n...\n",
                 &options);
    const struct xt_settings *values = &options.values;
    assert_int_equal(values->network.batch, 17);
    assert_true(values->recipe.lr == 1e-4 && values->run.max_time == 600);
    assert_int_equal(values->recipe.optim, XT_OPTIM_SGD);
    assert_string_equal(values->recipe.milestones, "10,20");
    assert_true(values->data.augment && values->device.pin_memory);
    assert_string_equal(values->data.images, "123");
    assert_string_equal(values->data.val, "京/plates");
    assert_int_equal(values->network.amp, XT_AMP_OFF);
    xt_options_clear(&options);
}

static void milestones_may_be_text_a_number_or_a_list(void **state)
{
    static const struct {
        const char *text;
        const char *value;
    } cases[] = {{"sched: step\nmilestones: 10\n", "10"},
                 {"sched: multistep\nmilestones: 10,20\n", "10,20"},
                 {"sched: multistep\nmilestones: \"10,20\"\n", "10,20"},
                 {"sched: multistep\nmilestones:\n  - 10\n  - 20\n", "10,20"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_options options;
        assert_reads(*state, cases[i].text, &options);
        assert_string_equal(options.values.recipe.milestones, cases[i].value);
        xt_options_clear(&options);
    }
}

static void empty_files_and_marks_of_order_are_fine(void **state)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "# nothing\n",
                                        "---\n",
                                        "{}\n",
                                        "\xEF\xBB\xBF---\nbatch: 3\n",
                                        "{batch: 3, lr: 0.1}",
                                        "batch: 3\r\nlr: 0.1\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct xt_options options;
        assert_reads(*state, texts[i], &options);
        xt_options_clear(&options);
    }
}

static void the_command_line_wins_over_the_file(void **state)
{
    struct xt_options options;
    struct xt_err err = {0};
    assert_int_equal(read_config(&options, *state, "model: lprnet\nbatch: 3\n", "--batch=4", &err),
                     XT_OK);
    assert_int_equal(options.values.network.batch, 4);
    xt_options_clear(&options);
    assert_int_equal(read_config(&options, *state, "model: lprnet\ndevice: cpu\n", "--xpu", &err),
                     XT_OK);
    assert_string_equal(options.values.device.name, "xpu");
    xt_options_clear(&options);
    assert_int_equal(
        read_config(&options, *state, "model: lprnet\nxpu: true\n", "--device=cpu", &err), XT_OK);
    assert_string_equal(options.values.device.name, "cpu");
    assert_false(options.values.device.xpu);
    xt_options_clear(&options);
    assert_int_equal(read_config(&options, *state, "model: lprnet\nsteps: 9\n", "--epochs=2", &err),
                     XT_OK);
    assert_true(options.values.run.epochs == 2 && options.values.run.steps == 0);
    xt_options_clear(&options);
}

static void a_wrong_value_is_refused_also_where_the_command_line_wins(void **state)
{
    struct xt_options options;
    struct xt_err err = {0};
    assert_int_equal(read_config(&options, *state, "model: lprnet\nbatch: x\n", "--batch=4", &err),
                     XT_ERR_USAGE);
    xt_options_clear(&options);
}

static void keys_of_other_commands_are_checked_and_left_alone(void **state)
{
    struct xt_options options;
    struct xt_err err = {0};
    assert_reads(*state, "reject: 0.5\n", &options);
    assert_true(options.values.answer.reject.kind == XT_REJECT_BELOW);
    xt_options_clear(&options);
    assert_reads(*state, "reject: auto:0.995\n", &options);
    assert_true(options.values.answer.reject.kind == XT_REJECT_AUTO);
    xt_options_clear(&options);
    assert_int_equal(read_config(&options, *state, "reject: 2\n", "--model=lprnet", &err),
                     XT_ERR_USAGE);
    xt_options_clear(&options);
}

static enum xt_status take_nothing(void *context, const struct xt_config_entry *entry,
                                   struct xt_err *err)
{
    (void)context;
    (void)entry;
    (void)err;
    return XT_OK;
}

static enum xt_status parse_bytes(const char *bytes, size_t size, struct xt_err *err)
{
    return xt_config_parse("f", (const uint8_t *)bytes, size, take_nothing, NULL, err);
}

static void bytes_that_are_no_text_are_refused_with_their_line(void **state)
{
    (void)state;
    struct xt_err err = {0};
    parse_bytes("a: 1\nb: \xE4\n", 10, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:2: the byte 0xE4 is not UTF-8");
    parse_bytes("a: 1\0", 5, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:1: the control character 0x00");
    parse_bytes("\xFF\xFE"
                "a\0:\0",
                6, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:1: the byte 0xFF is not UTF-8");
    parse_bytes("a: \x1B[2J", 7, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:1: the control character 0x1B");
}

static void absurd_depth_is_refused_at_once(void **state)
{
    (void)state;
    enum { DEPTH = 500000 };
    struct xt_err err = {0};
    char *text = malloc(DEPTH);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    text[0] = 'a';
    text[1] = ':';
    text[2] = ' ';
    parse_bytes(text, DEPTH, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:1: a list here holds single values");
    memset(text, '{', DEPTH);
    parse_bytes(text, DEPTH, &err);
    support_assert_error(&err, XT_ERR_USAGE, "f:1: a key must be the name of an option");
    free(text);
}

static void a_file_over_the_limit_is_refused(void **state)
{
    struct xt_err err = {0};
    size_t size = XT_CONFIG_LIMIT + 1;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '#', size);
    const char *path = support_path(*state, "large.yaml");
    support_write_file(path, text, size);
    free(text);
    assert_int_equal(xt_config_read(path, take_nothing, NULL, &err), XT_ERR_USAGE);
    support_assert_error(&err, XT_ERR_USAGE, "more than the 1048576 allowed");
}

/* The ready-made files in configs/ hold what the parser takes. */
static void the_configs_of_the_repository_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *path, *model;
    } files[] = {{"configs/lprnet.yaml", "lprnet"}, {"configs/resnet50-cifar10.yaml", "resnet50"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct xt_options options;
        struct xt_err err = {0};
        const char *const words[] = {"--config", files[i].path};
        if (xt_options_parse(&options, 2, words, XT_COMMAND_TRAIN, &models, &err) != XT_OK)
            fail_msg("%s", err.text);
        assert_string_equal(options.values.network.model, files[i].model);
        xt_options_clear(&options);
    }
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    list_model_names();
    const struct CMUnitTest tests[] = {
        IN_FOLDER(wrong_files_end_with_file_and_line_and_code_2),
        IN_FOLDER(values_of_every_form_are_read),
        IN_FOLDER(milestones_may_be_text_a_number_or_a_list),
        IN_FOLDER(empty_files_and_marks_of_order_are_fine),
        IN_FOLDER(the_command_line_wins_over_the_file),
        IN_FOLDER(a_wrong_value_is_refused_also_where_the_command_line_wins),
        IN_FOLDER(keys_of_other_commands_are_checked_and_left_alone),
        cmocka_unit_test(bytes_that_are_no_text_are_refused_with_their_line),
        cmocka_unit_test(absurd_depth_is_refused_at_once),
        IN_FOLDER(a_file_over_the_limit_is_refused),
        cmocka_unit_test(the_configs_of_the_repository_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
