#include "cli/options/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/examples.h"
#include "cli/options/help_writer.h"
#include "cli/options/meanings.h"
#include "cli/options/suggest.h"

enum { HELP_COLUMN = 28, COMMAND_COLUMN = 16 };

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {
    {XT_OK, "done (also when --max-time is up)"},
    {XT_ERR_RUN, "the run failed"},
    {XT_ERR_USAGE, "the command line or the config file is invalid"},
    {XT_ERR_DATA, "images, labels, weights or checkpoints cannot be used"},
    {XT_ERR_DEVICE, "the device, or a library for it, is missing or failed"},
    {XT_ERR_MEMORY, "out of memory"},
    {XT_STOPPED, "stopped and saved, continue with --resume"},
    {XT_INTERRUPTED, "interrupted and saved"},
};
enum { EXIT_CODES = sizeof exit_codes / sizeof *exit_codes };

static const struct {
    const char *command;
    const char *what;
} examples[] = {
    {"xtrain --model lprnet", "train on synthetic plates"},
    {"xtrain --model lprnet --data plates/train --val plates/val", "on your own"},
    {"xtrain try plates/", "or all of it in ten minutes"},
    {"xtrain predict runs/NAME photos/", "use what it learnt"},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* Writes `text` at `column`, wrapped before XT_HELP_COLUMNS; the line is filled up to `at`. */
static void put_wrapped(struct xt_help_writer *writer, size_t at, size_t column, const char *text)
{
    if (at + 2 > column && at > 0) {
        xt_help_put(writer, "\n");
        at = 0;
    }
    xt_help_put(writer, "%*s", (int)(column - at), "");
    at = column;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (at > column && at + 1 + word > XT_HELP_COLUMNS) {
            xt_help_put(writer, "\n%*s", (int)column, "");
            at = column;
        }
        xt_help_put(writer, "%s%.*s", at > column ? " " : "", (int)word, text);
        at += word + (at > column);
        text += word;
        text += strspn(text, " ");
    }
    xt_help_put(writer, "\n");
}

/* ---- one option ---- */

static const char *placeholder(const struct xt_option *option)
{
    return option->value ? option->value : option->type->placeholder;
}

/* The recipe's default of the option for the chosen network, or NULL. */
static const char *recipe_value(const struct xt_help_writer *writer, const struct xt_option *option)
{
    bool known = writer->model && writer->models && writer->models->recipes_of;
    const struct xt_recipe_item *item =
        known ? writer->models->recipes_of(writer->model).train : NULL;
    for (; item && item->option; item++)
        if (strcmp(item->option, option->name) == 0)
            return item->value;
    return NULL;
}

/* Describes choices and default, or that a value is required: "sgd or adam; default: adam". */
static enum xt_status describe_values(struct xt_help_writer *writer, const struct xt_option *option,
                                      enum xt_command_id command, struct xt_str *text)
{
    bool is_model = xt_option_is_model(option) && writer->models;
    bool is_flag = !option->type->takes_value;
    const char *const *choices = option->choices;
    if (is_model && command == XT_COMMAND_TRAIN)
        choices = xt_help_words(writer, option);
    if (choices)
        xt_option_list_choices(choices, text, NULL);
    else if (is_model)
        xt_str_printf(text, NULL, "xtrain models lists them");
    const char *between = text->length ? "; " : "";
    if (option->needed >> command & 1)
        return xt_str_printf(text, NULL, "%sneeded%s", between,
                             xt_command_get(command)->takes_weights ? " without WEIGHTS" : "");
    if (strstr(xt_option_meaning(option, command), "unless given"))
        return XT_OK;
    const char *own = recipe_value(writer, option);
    if (own && is_flag)
        own = strcmp(own, "true") == 0 ? "on" : "off";
    if (own)
        return xt_str_printf(text, NULL, "%sdefault of %s: %s", between, writer->model, own);
    if (writer->model && option->by_model && !option->fallback)
        return XT_OK;
    if (!writer->model && option->by_model && option->fallback && !is_flag)
        return xt_str_printf(text, NULL, "%sdefault: the model's, else %s", between,
                             option->fallback);
    if (!writer->model && option->by_model)
        return xt_str_printf(text, NULL, "%sdefault: the model's", between);
    if (option->fallback && is_flag && strcmp(option->fallback, "true") == 0)
        return xt_str_printf(text, NULL, "%sdefault: on", between);
    if (option->fallback && !is_flag)
        return xt_str_printf(text, NULL, "%sdefault: %s", between, option->fallback);
    return XT_OK;
}

/* Describes the option with its values: "the optimizer (sgd or adam; default: adam)". */
static void describe(struct xt_help_writer *writer, const struct xt_option *option,
                     enum xt_command_id command, struct xt_str *text)
{
    struct xt_str values = {0};
    struct xt_option_taken own;
    const char *meaning = xt_option_meaning(option, command);
    describe_values(writer, xt_option_taken(option, command, &own), command, &values);
    xt_str_printf(text, NULL, values.length ? "%s (%s)" : "%s", meaning, xt_str_get(&values));
    writer->out->failed |= values.failed || text->failed;
    xt_str_clear(&values);
}

static bool is_list(const struct xt_option *option, enum xt_command_id command)
{
    return (option->lists >> command & 1) ||
           (option->several && xt_option_is_for(xt_option_find(option->several), command));
}

static void put_option(struct xt_help_writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    struct xt_str text = {0};
    describe(writer, option, command, &text);
    size_t start = writer->out->length;
    xt_help_put(writer, "  --%s%s", xt_option_has_negation(option) ? "[no-]" : "",
                xt_option_spelling(option));
    if (option->type->takes_value)
        xt_help_put(writer, " %s%s", placeholder(option), is_list(option, command) ? "[,...]" : "");
    put_wrapped(writer, writer->out->length - start, HELP_COLUMN, xt_str_get(&text));
    xt_str_clear(&text);
}

/* ---- help ---- */

static void put_heading(struct xt_help_writer *writer, const char *title)
{
    xt_help_put(writer, "\n%s:\n", title);
}

static void put_usage(struct xt_help_writer *writer, enum xt_command_id id)
{
    const struct xt_command *command = xt_command_get(id);
    if (id == XT_COMMAND_TRAIN)
        xt_help_put(writer, "Usage: xtrain [train] [OPTIONS]\n");
    else
        xt_help_put(writer, "Usage: xtrain %s%s%s [OPTIONS]\n", command->name,
                    command->arguments ? " " : "", command->arguments ? command->arguments : "");
}

static void put_exit_codes(struct xt_help_writer *writer)
{
    put_heading(writer, "Exit codes");
    for (size_t i = 0; i < EXIT_CODES; i++)
        xt_help_put(writer, "  %3d  %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

static void put_usual(struct xt_help_writer *writer, const struct xt_option *option,
                      enum xt_command_id command)
{
    if (xt_option_is_among(xt_help_page(command)->usual, option->name))
        put_option(writer, option, command);
    else
        writer->more++;
}

static void put_examples(struct xt_help_writer *writer, const struct xt_help_page *page)
{
    if (page->examples[0])
        put_heading(writer, "Examples");
    for (size_t i = 0; i < XT_HELP_EXAMPLES && page->examples[i]; i++)
        xt_help_put(writer, "  %s\n", page->examples[i]);
}

static void put_options(struct xt_help_writer *writer, enum xt_command_id id, bool all)
{
    const char *usual = xt_help_page(id)->usual;
    if (all && usual && *usual) {
        xt_help_for_options(writer, id, put_heading, put_option);
        return;
    }
    put_heading(writer, "Options");
    if (!usual || !*usual) {
        xt_help_for_options(writer, id, NULL, put_option);
        return;
    }
    xt_help_for_options(writer, id, NULL, put_usual);
    xt_help_put(writer, "\n%d more options: xtrain help %s --all\n", writer->more,
                xt_command_get(id)->name);
}

enum xt_status xt_help_command(enum xt_command_id id, const struct xt_option_models *models,
                               const char *model, bool all, struct xt_str *out, struct xt_err *err)
{
    struct xt_help_writer writer = {.models = models, .model = model, .out = out};
    const struct xt_command *command = xt_command_get(id);
    put_usage(&writer, id);
    xt_help_put(&writer, "\nxtrain %s: %s.\n", command->name, command->summary);
    if (command->details)
        put_wrapped(&writer, 0, 0, command->details);
    put_examples(&writer, xt_help_page(id));
    put_options(&writer, id, all);
    if (all && id == XT_COMMAND_TRAIN)
        put_exit_codes(&writer);
    return xt_str_check(out, err);
}

static void put_summary(struct xt_help_writer *writer, const struct xt_command *command)
{
    size_t start = writer->out->length;
    xt_help_put(writer, "  %s", command->name);
    put_wrapped(writer, writer->out->length - start, COMMAND_COLUMN, command->summary);
}

enum xt_status xt_help_group(const char *group, struct xt_str *out, struct xt_err *err)
{
    struct xt_help_writer writer = {.out = out};
    size_t length = strlen(group);
    xt_help_put(&writer, "Usage: xtrain %s COMMAND [OPTIONS]\n", group);
    put_heading(&writer, "Commands (COMMAND --help tells more)");
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const struct xt_command *command = xt_command_get((enum xt_command_id)id);
        if (strncmp(command->name, group, length) == 0 && command->name[length] == ' ')
            put_summary(&writer, command);
    }
    return xt_str_check(out, err);
}

/* "check|split|pack: " for a group. */
static void put_group(struct xt_help_writer *writer, const char *name)
{
    size_t length = strcspn(name, " ");
    char text[256] = "";
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const char *other = xt_command_get((enum xt_command_id)id)->name;
        if (strncmp(other, name, length + 1) == 0)
            xt_str_append_to(text, sizeof text, "%s%s", *text ? ", " : "", other + length + 1);
    }
    size_t start = writer->out->length;
    xt_help_put(writer, "  %.*s", (int)length, name);
    xt_str_append_to(text, sizeof text, ": %s", xt_command_group_summary(name));
    put_wrapped(writer, writer->out->length - start, COMMAND_COLUMN, text);
}

/* Commands that print what others do are named in one line. */
static void put_commands(struct xt_help_writer *writer)
{
    const char *last = "";
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const struct xt_command *command = xt_command_get((enum xt_command_id)id);
        size_t length = strcspn(command->name, " ");
        if (command->name[length] && strncmp(command->name, last, length) != 0)
            put_group(writer, command->name);
        else if (!command->name[length] && !command->is_aside)
            put_summary(writer, command);
        last = command->name;
    }
    xt_help_put(writer, "Also:");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (xt_command_get((enum xt_command_id)id)->is_aside)
            xt_help_put(writer, " %s", xt_command_get((enum xt_command_id)id)->name);
    xt_help_put(writer, "\n");
}

enum xt_status xt_help_overview(struct xt_str *out, struct xt_err *err)
{
    struct xt_help_writer writer = {.out = out};
    xt_help_put(&writer,
                "xtrain trains image networks on Intel CPUs, and with --xpu on Intel GPUs: license "
                "plate\nrecognition (OCR), image classification, networks of your own.\n"
                "Usage: xtrain [COMMAND] [OPTIONS]\n\n");
    for (size_t i = 0; i < EXAMPLES; i++)
        xt_help_put(&writer, "  %-58s # %s\n", examples[i].command, examples[i].what);
    put_heading(&writer, "Commands");
    put_commands(&writer);
    xt_help_put(&writer, "\n`xtrain help COMMAND` shows examples and the usual options, with --all "
                         "every option.\n");
    return xt_str_check(out, err);
}

/* ---- the manual page ---- */

/* Text as roff prints it: minus signs that can be copied, no line taken for a request. */
static void put_roff(struct xt_help_writer *writer, const char *text)
{
    if (*text == '.' || *text == '\'')
        xt_help_put(writer, "\\&");
    for (; *text; text++) {
        if (*text == '-')
            xt_help_put(writer, "\\-");
        else if (*text == '\\')
            xt_help_put(writer, "\\e");
        else
            xt_help_put(writer, "%c", *text);
    }
}

static void man_heading(struct xt_help_writer *writer, const char *title)
{
    xt_help_put(writer, ".SS %s\n", title);
}

static void man_option(struct xt_help_writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    struct xt_str text = {0};
    describe(writer, option, command, &text);
    xt_help_put(writer, ".TP\n.B \\-\\-%s", xt_option_has_negation(option) ? "[no\\-]" : "");
    put_roff(writer, xt_option_spelling(option));
    if (option->type->takes_value)
        xt_help_put(writer, " \\fI%s\\fR", placeholder(option));
    xt_help_put(writer, "\n");
    put_roff(writer, xt_str_get(&text));
    xt_str_clear(&text);
    if (option->type->takes_value && !option->choices && !option->type->is_free_text) {
        xt_option_describe(option, &text, NULL);
        writer->out->failed |= text.failed;
        xt_help_put(writer, ".\nTakes ");
        put_roff(writer, xt_str_get(&text));
    }
    xt_help_put(writer, ".\n");
    xt_str_clear(&text);
}

/* What a command has beyond train's; its name before the first. */
static void man_own_option(struct xt_help_writer *writer, const struct xt_option *option,
                           enum xt_command_id command)
{
    const char *name = xt_command_get(command)->name;
    if (xt_option_is_for(option, XT_COMMAND_TRAIN) &&
        xt_option_meaning(option, command) == option->help)
        return;
    if (writer->heading != name)
        man_heading(writer, name);
    writer->heading = name;
    man_option(writer, option, command);
}

static void man_command(struct xt_help_writer *writer, enum xt_command_id id)
{
    const struct xt_command *command = xt_command_get(id);
    xt_help_put(writer, ".TP\n.B xtrain %s", command->name);
    if (command->arguments) {
        xt_help_put(writer, " ");
        put_roff(writer, command->arguments);
    }
    xt_help_put(writer, "\n");
    put_roff(writer, command->summary);
    xt_help_put(writer, ".\n");
    if (command->details)
        put_roff(writer, command->details);
    if (command->details)
        xt_help_put(writer, "\n");
}

enum xt_status xt_help_man(const struct xt_option_models *models, struct xt_str *out,
                           struct xt_err *err)
{
    struct xt_help_writer writer = {.models = models, .out = out};
    xt_help_put(&writer,
                ".TH XTRAIN 1 \"\" \"xtrain " XT_VERSION "\" \"User Commands\"\n"
                ".SH NAME\nxtrain \\- train image networks on Intel hardware\n"
                ".SH SYNOPSIS\n.B xtrain\n[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]\n"
                ".SH DESCRIPTION\nTrains, evaluates and runs image networks on Intel CPUs, and on "
                "Intel GPUs with\n.BR \\-\\-xpu :\nLPRNet for license plate recognition (OCR), "
                "ResNets and others for image classification, and networks from ONNX files, "
                "from scratch or by fine\\-tuning.\nWithout a command it trains.\n"
                ".SH COMMANDS\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        man_command(&writer, (enum xt_command_id)id);
    xt_help_put(&writer, ".SH OPTIONS OF TRAIN\n"
                         "The other commands take a subset of these; \\fBxtrain "
                         "\\fICOMMAND\\fB \\-\\-help\\fR lists them.\n");
    xt_help_for_options(&writer, XT_COMMAND_TRAIN, man_heading, man_option);
    xt_help_put(&writer, ".SH OPTIONS THAT TRAIN DOES NOT HAVE, OR THAT MEAN SOMETHING ELSE\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        xt_help_for_options(&writer, (enum xt_command_id)id, NULL, man_own_option);
    xt_help_put(
        &writer,
        ".SH CONFIG FILE\n"
        "A flat YAML mapping of options to values, keys with _ for \\-. Only true and false "
        "are booleans; numbers are written without quotes. The command line wins over the "
        "file, the file over the model's recipes, the one for given weights (\\-\\-init) "
        "over the other, these over the default.\n"
        ".B \\-\\-print\\-config\nwrites such a file.\n.SH EXIT STATUS\n");
    for (size_t i = 0; i < EXIT_CODES; i++) {
        xt_help_put(&writer, ".TP\n.B %d\n", exit_codes[i].code);
        put_roff(&writer, exit_codes[i].meaning);
        xt_help_put(&writer, "\n");
    }
    xt_help_put(&writer, ".SH EXAMPLES\n");
    for (size_t i = 0; i < EXAMPLES; i++) {
        xt_help_put(&writer, ".TP\n.B ");
        put_roff(&writer, examples[i].command);
        xt_help_put(&writer, "\n%s\n", examples[i].what);
    }
    return xt_str_check(out, err);
}

static void man_name(struct xt_help_writer *writer, const char *name)
{
    for (; *name; name++)
        xt_help_put(writer, "%s", *name == ' ' ? "\\-" : (char[]){*name, '\0'});
}

/* The manual page of one command, with all of its options. */
static enum xt_status man_page(enum xt_command_id id, const struct xt_option_models *models,
                               struct xt_str *out, struct xt_err *err)
{
    struct xt_help_writer writer = {.models = models, .out = out};
    const struct xt_command *command = xt_command_get(id);
    const struct xt_help_page *page = xt_help_page(id);
    xt_help_put(&writer, ".TH XTRAIN\\-");
    man_name(&writer, command->name);
    xt_help_put(&writer,
                " 1 \"\" \"xtrain " XT_VERSION "\" \"User Commands\"\n.SH NAME\nxtrain\\-");
    man_name(&writer, command->name);
    xt_help_put(&writer, " \\- ");
    put_roff(&writer, command->summary);
    xt_help_put(&writer, "\n.SH SYNOPSIS\n.B xtrain %s\n", command->name);
    if (command->arguments)
        put_roff(&writer, command->arguments);
    xt_help_put(&writer, "%s[\\fIOPTIONS\\fR]\n", command->arguments ? "\n" : "");
    if (command->details) {
        xt_help_put(&writer, ".SH DESCRIPTION\n");
        put_roff(&writer, command->details);
        xt_help_put(&writer, "\n");
    }
    if (page->examples[0])
        xt_help_put(&writer, ".SH EXAMPLES\n.nf\n");
    for (size_t i = 0; i < XT_HELP_EXAMPLES && page->examples[i]; i++) {
        put_roff(&writer, page->examples[i]);
        xt_help_put(&writer, "\n");
    }
    xt_help_put(&writer, "%s.SH OPTIONS\n", page->examples[0] ? ".fi\n" : "");
    xt_help_for_options(&writer, id, man_heading, man_option);
    xt_help_put(&writer, ".SH SEE ALSO\n.BR xtrain (1)\n");
    return xt_str_check(out, err);
}

/* ---- the commands ---- */

/* Prints what was gathered and releases it. */
static enum xt_status show(struct xt_str *text, enum xt_status status)
{
    if (!status)
        fputs(xt_str_get(text), stdout);
    xt_str_clear(text);
    return status;
}

/* The arguments name no command. */
static enum xt_status no_command(const struct xt_options *options, struct xt_err *err)
{
    char name[64] = "";
    for (int i = 0; i < options->argument_count && i < 2; i++)
        xt_str_append_to(name, sizeof name, "%s%s", *name ? " " : "", options->arguments[i]);
    return xt_command_refuse(name, err);
}

enum xt_status xt_cmd_help(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    const char *model = options->values.network.model;
    int words = 0;
    if (options->argument_count == 0 && !model && !options->values.request.all)
        return show(&text, xt_help_overview(&text, err));
    if (options->argument_count == 1 && xt_command_is_group(options->arguments[0]))
        return show(&text, xt_help_group(options->arguments[0], &text, err));
    if (options->argument_count == 0)
        return show(&text, xt_help_command(XT_COMMAND_TRAIN, options->models, model,
                                           options->values.request.all, &text, err));
    enum xt_command_id id = xt_command_find(options->arguments, options->argument_count, &words);
    if (id == XT_COMMAND_COUNT || words != options->argument_count)
        return no_command(options, err);
    return show(&text, xt_help_command(id, options->models, model, options->values.request.all,
                                       &text, err));
}

enum xt_status xt_cmd_man(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    int words = 0;
    if (!options->argument_count)
        return show(&text, xt_help_man(options->models, &text, err));
    enum xt_command_id id = xt_command_find(options->arguments, options->argument_count, &words);
    if (id == XT_COMMAND_COUNT || words != options->argument_count)
        return no_command(options, err);
    return show(&text, man_page(id, options->models, &text, err));
}

enum xt_status xt_cmd_completion(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    if (options->argument_count != 1)
        return xt_err_set(err, XT_ERR_USAGE, "completion takes one shell: bash, zsh or fish");
    return show(&text, xt_help_completion(options->arguments[0], options->models, &text, err));
}
