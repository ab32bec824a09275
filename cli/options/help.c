#include "cli/options/help.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 28, COMMAND_COLUMN = 14 };

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {
    {XT_OK, "done (also where --max-time is spent)"},
    {XT_ERR_RUN, "the run failed"},
    {XT_ERR_USAGE, "the command line or the config file cannot be meant"},
    {XT_ERR_DATA, "images, labels, weights or checkpoints cannot be used"},
    {XT_ERR_DEVICE, "the device, or a library for it, is missing or failed"},
    {XT_ERR_MEMORY, "out of memory"},
    {XT_STOPPED, "stopped and saved, to be started again with --resume"},
    {XT_INTERRUPTED, "interrupted and saved"},
};
enum { EXIT_CODES = sizeof exit_codes / sizeof *exit_codes };

static const struct {
    const char *command;
    const char *what;
} examples[] = {
    {"xtrain --model lprnet", "train on plates made on the fly"},
    {"xtrain --model lprnet --data plates/train --val plates/val", "train on your own"},
    {"xtrain predict runs/NAME/best.safetensors plates/", "read plates with what came out"},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* ---- writing ---- */

/* Remembers the first failure, so that text can be put down without a check at each line. */
struct writer {
    const struct xt_option_models *models;
    const char *model; /* whose defaults are shown; NULL: none */
    struct xt_str *out;
    struct xt_err *err;
    enum xt_status status;
};

static void put(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct writer *writer, const char *format, ...)
{
    if (writer->status)
        return;
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        writer->status = xt_err_no_memory(writer->err, "help", 0);
        return;
    }
    writer->status = xt_str_append(writer->out, text, (size_t)length, writer->err);
    free(text);
}

/* Puts `text` at `column` of a line that is at `at` already, wrapped before XT_HELP_COLUMNS. */
static void put_wrapped(struct writer *writer, size_t at, size_t column, const char *text)
{
    if (at + 2 > column && at > 0) {
        put(writer, "\n");
        at = 0;
    }
    put(writer, "%*s", (int)(column - at), "");
    at = column;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (at > column && at + 1 + word > XT_HELP_COLUMNS) {
            put(writer, "\n%*s", (int)column, "");
            at = column;
        }
        put(writer, "%s%.*s", at > column ? " " : "", (int)word, text);
        at += word + (at > column);
        text += word;
        text += strspn(text, " ");
    }
    put(writer, "\n");
}

/* ---- one option ---- */

static bool is_model(const struct xt_option *option)
{
    return option->offset == offsetof(struct xt_settings, network.model);
}

static const char *placeholder(const struct xt_option *option)
{
    return option->value ? option->value : option->type->placeholder;
}

/* The words an option can take, NULL-terminated; NULL where it is not a choice. */
static const char *const *words_of(const struct writer *writer, const struct xt_option *option)
{
    static const char *const devices[] = {"cpu", "xpu", "auto", NULL};
    if (is_model(option))
        return writer->models ? writer->models->names : NULL;
    return option->type == &xt_type_device ? devices : option->choices;
}

/* The default that the recipe of the chosen network has for the option, or NULL. */
static const char *recipe_value(const struct writer *writer, const struct xt_option *option)
{
    bool known = writer->model && writer->models && writer->models->recipes_of;
    const struct xt_recipe_item *item =
        known ? writer->models->recipes_of(writer->model).train : NULL;
    for (; item && item->option; item++)
        if (strcmp(item->option, option->name) == 0)
            return item->value;
    return NULL;
}

/* The choices, and the default or that there must be a value: "sgd or adam; default: adam". */
static enum xt_status describe_values(struct writer *writer, const struct xt_option *option,
                                      enum xt_command_id command, struct xt_str *text)
{
    struct xt_err *err = writer->err;
    const char *const *choices = is_model(option) ? words_of(writer, option) : option->choices;
    enum xt_status status = choices ? xt_option_list_choices(choices, text, err) : XT_OK;
    const char *between = choices ? "; " : "";
    bool is_flag = !option->type->takes_value;
    if (status)
        return status;
    if (option->needed >> command & 1)
        return xt_str_printf(text, err, "%sneeded", between);
    const char *own = recipe_value(writer, option);
    if (own && is_flag)
        own = strcmp(own, "true") == 0 ? "on" : "off";
    if (own)
        return xt_str_printf(text, err, "%sdefault of %s: %s", between, writer->model, own);
    if (writer->model && option->by_model && !option->fallback)
        return XT_OK;
    if (!writer->model && option->by_model && option->fallback && !is_flag)
        return xt_str_printf(text, err, "%sdefault: the model's, else %s", between,
                             option->fallback);
    if (!writer->model && option->by_model)
        return xt_str_printf(text, err, "%sdefault: the model's", between);
    if (option->fallback && !is_flag)
        return xt_str_printf(text, err, "%sdefault: %s", between, option->fallback);
    return XT_OK;
}

/* What it is for, and in brackets its values: "the optimizer (sgd or adam; default: adam)". */
static void describe(struct writer *writer, const struct xt_option *option,
                     enum xt_command_id command, struct xt_str *text)
{
    struct xt_str values = {0};
    enum xt_status status = describe_values(writer, option, command, &values);
    if (!status && values.length)
        status = xt_str_printf(text, writer->err, "%s (%s)", option->help, xt_str_get(&values));
    else if (!status)
        status = xt_str_printf(text, writer->err, "%s", option->help);
    xt_str_clear(&values);
    if (!writer->status)
        writer->status = status;
}

static void put_option(struct writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    struct xt_str text = {0};
    describe(writer, option, command, &text);
    size_t start = writer->out->length;
    put(writer, "  --%s%s", xt_option_has_negation(option) ? "[no-]" : "", option->name);
    if (option->type->takes_value)
        put(writer, " %s%s", placeholder(option), option->lists >> command & 1 ? "[,...]" : "");
    put_wrapped(writer, writer->out->length - start, HELP_COLUMN, xt_str_get(&text));
    xt_str_clear(&text);
}

/* Calls `each` for the options of a command in the table's order, `heading` before each group. */
typedef void each_option(struct writer *writer, const struct xt_option *option,
                         enum xt_command_id command);
typedef void each_heading(struct writer *writer, const char *title);

static void for_options(struct writer *writer, enum xt_command_id command, each_heading *heading,
                        each_option *each)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    int group = -1;
    for (size_t i = 0; i < count; i++) {
        if (!xt_option_is_for(&table[i], command))
            continue;
        if (heading && (int)table[i].group != group)
            heading(writer, xt_option_group_title(table[i].group));
        group = (int)table[i].group;
        each(writer, &table[i], command);
    }
}

/* ---- help ---- */

static void put_heading(struct writer *writer, const char *title)
{
    put(writer, "\n%s:\n", title);
}

static void put_usage(struct writer *writer, enum xt_command_id id)
{
    const struct xt_command *command = xt_command_get(id);
    if (id == XT_COMMAND_TRAIN)
        put(writer, "Usage: xtrain [train] [OPTIONS]\n");
    else
        put(writer, "Usage: xtrain %s%s%s [OPTIONS]\n", command->name,
            command->arguments ? " " : "", command->arguments ? command->arguments : "");
}

static void put_exit_codes(struct writer *writer)
{
    put_heading(writer, "Exit codes");
    for (size_t i = 0; i < EXIT_CODES; i++)
        put(writer, "  %3d  %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

enum xt_status xt_help_command(enum xt_command_id id, const struct xt_option_models *models,
                               const char *model, struct xt_str *out, struct xt_err *err)
{
    struct writer writer = {.models = models, .model = model, .out = out, .err = err};
    const struct xt_command *command = xt_command_get(id);
    put_usage(&writer, id);
    put(&writer, "\nxtrain %s: %s.\n", command->name, command->summary);
    if (command->details)
        put_wrapped(&writer, 0, 0, command->details);
    for_options(&writer, id, put_heading, put_option);
    return writer.status;
}

static void put_summary(struct writer *writer, const struct xt_command *command)
{
    size_t start = writer->out->length;
    put(writer, "  %s", command->name);
    put_wrapped(writer, writer->out->length - start, COMMAND_COLUMN, command->summary);
}

enum xt_status xt_help_group(const char *group, struct xt_str *out, struct xt_err *err)
{
    struct writer writer = {.out = out, .err = err};
    size_t length = strlen(group);
    put(&writer, "Usage: xtrain %s COMMAND [OPTIONS]\n", group);
    put_heading(&writer, "Commands (with --help each tells more)");
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const struct xt_command *command = xt_command_get((enum xt_command_id)id);
        if (strncmp(command->name, group, length) == 0 && command->name[length] == ' ')
            put_summary(&writer, command);
    }
    return writer.status;
}

enum xt_status xt_help_overview(const struct xt_option_models *models, const char *model,
                                struct xt_str *out, struct xt_err *err)
{
    struct writer writer = {.models = models, .model = model, .out = out, .err = err};
    put(&writer, "xtrain trains image networks on Intel hardware: CPUs, and GPUs by --xpu.\n\n"
                 "Usage: xtrain [COMMAND] [OPTIONS]\n\nExamples:\n");
    for (size_t i = 0; i < EXAMPLES; i++)
        put(&writer, "  %-62s # %s\n", examples[i].command, examples[i].what);
    put_heading(&writer, "Commands (`xtrain COMMAND --help` tells more)");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        put_summary(&writer, xt_command_get((enum xt_command_id)id));
    put(&writer, "\nThe options of train follow.\n");
    for_options(&writer, XT_COMMAND_TRAIN, put_heading, put_option);
    put_exit_codes(&writer);
    return writer.status;
}

/* ---- the manual page ---- */

/* Text as roff prints it: minus signs that can be copied, no line taken for a request. */
static void put_roff(struct writer *writer, const char *text)
{
    if (*text == '.' || *text == '\'')
        put(writer, "\\&");
    for (; *text; text++) {
        if (*text == '-')
            put(writer, "\\-");
        else if (*text == '\\')
            put(writer, "\\e");
        else
            put(writer, "%c", *text);
    }
}

static void man_heading(struct writer *writer, const char *title)
{
    put(writer, ".SS %s\n", title);
}

static void man_option(struct writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    struct xt_str text = {0};
    describe(writer, option, command, &text);
    put(writer, ".TP\n.B \\-\\-%s", xt_option_has_negation(option) ? "[no\\-]" : "");
    put_roff(writer, option->name);
    if (option->type->takes_value)
        put(writer, " \\fI%s\\fR", placeholder(option));
    put(writer, "\n");
    put_roff(writer, xt_str_get(&text));
    xt_str_clear(&text);
    if (option->type->takes_value && !option->choices && !option->type->is_free_text) {
        enum xt_status status = xt_option_describe(option, &text, writer->err);
        put(writer, ".\nTakes ");
        put_roff(writer, xt_str_get(&text));
        if (!writer->status)
            writer->status = status;
    }
    put(writer, ".\n");
    xt_str_clear(&text);
}

/* What a command has beyond train's. */
static void man_own_option(struct writer *writer, const struct xt_option *option,
                           enum xt_command_id command)
{
    if (!xt_option_is_for(option, XT_COMMAND_TRAIN))
        man_option(writer, option, command);
}

static bool has_own_option(enum xt_command_id command)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    for (size_t i = 0; i < count; i++)
        if (xt_option_is_for(&table[i], command) && !xt_option_is_for(&table[i], XT_COMMAND_TRAIN))
            return true;
    return false;
}

static void man_own_options(struct writer *writer, enum xt_command_id command)
{
    if (!has_own_option(command))
        return;
    put(writer, ".SS %s\n", xt_command_get(command)->name);
    for_options(writer, command, NULL, man_own_option);
}

static void man_command(struct writer *writer, enum xt_command_id id)
{
    const struct xt_command *command = xt_command_get(id);
    put(writer, ".TP\n.B xtrain %s", command->name);
    if (command->arguments) {
        put(writer, " ");
        put_roff(writer, command->arguments);
    }
    put(writer, "\n");
    put_roff(writer, command->summary);
    put(writer, ".\n");
    if (command->details)
        put_roff(writer, command->details);
    if (command->details)
        put(writer, "\n");
}

enum xt_status xt_help_man(const struct xt_option_models *models, struct xt_str *out,
                           struct xt_err *err)
{
    struct writer writer = {.models = models, .out = out, .err = err};
    put(&writer, ".TH XTRAIN 1 \"\" \"xtrain " XT_VERSION "\" \"User Commands\"\n"
                 ".SH NAME\nxtrain \\- train image networks on Intel hardware\n"
                 ".SH SYNOPSIS\n.B xtrain\n[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]\n"
                 ".SH DESCRIPTION\nTrains, evaluates and runs image networks on Intel CPUs, and on "
                 "Intel GPUs with\n.BR \\-\\-xpu .\nWithout a command it trains.\n"
                 ".SH COMMANDS\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        man_command(&writer, (enum xt_command_id)id);
    put(&writer, ".SH OPTIONS OF TRAIN\n"
                 "The other commands take those of these that concern them; \\fBxtrain "
                 "\\fICOMMAND\\fB \\-\\-help\\fR lists them.\n");
    for_options(&writer, XT_COMMAND_TRAIN, man_heading, man_option);
    put(&writer, ".SH OPTIONS THAT TRAIN DOES NOT HAVE\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        man_own_options(&writer, (enum xt_command_id)id);
    put(&writer,
        ".SH CONFIG FILE\n"
        "A flat YAML mapping of options to values, keys with _ for \\-. Only true and false "
        "are booleans; numbers are written without quotes. The command line wins over the "
        "file, the file over the model's recipes, the one for given weights (\\-\\-init) "
        "over the other, these over the default.\n"
        ".B \\-\\-print\\-config\nwrites such a file.\n.SH EXIT STATUS\n");
    for (size_t i = 0; i < EXIT_CODES; i++) {
        put(&writer, ".TP\n.B %d\n", exit_codes[i].code);
        put_roff(&writer, exit_codes[i].meaning);
        put(&writer, "\n");
    }
    put(&writer, ".SH EXAMPLES\n");
    for (size_t i = 0; i < EXAMPLES; i++) {
        put(&writer, ".TP\n.B ");
        put_roff(&writer, examples[i].command);
        put(&writer, "\n%s\n", examples[i].what);
    }
    return writer.status;
}

/* ---- completion: bash ---- */

static void put_words(struct writer *writer, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        put(writer, "%s%s", i ? " " : "", words[i]);
}

static bool is_of_group(int id, const char *name, size_t length)
{
    const char *other = xt_command_get((enum xt_command_id)id)->name;
    return strncmp(other, name, length) == 0 && other[length] == ' ';
}

/* The first words of commands, each once. */
static void put_commands(struct writer *writer)
{
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        size_t length = strcspn(name, " ");
        bool again = false;
        for (int before = 0; before < id && name[length]; before++)
            again = again || is_of_group(before, name, length);
        if (!again)
            put(writer, "%s%.*s", id ? " " : "", (int)length, name);
    }
}

/* The words that may follow the command's first one: "info list" for "info|list", and the second
 * words of all commands that begin like this one. False where there are none. */
static bool put_second_words(struct writer *writer, enum xt_command_id id, const char *before)
{
    const struct xt_command *command = xt_command_get(id);
    size_t length = strcspn(command->name, " ");
    const char *words = command->arguments;
    if (command->name[length]) {
        for (int earlier = 0; earlier < (int)id; earlier++)
            if (is_of_group(earlier, command->name, length))
                return false;
        put(writer, "%s", before);
        for (int other = (int)id; other < XT_COMMAND_COUNT; other++)
            if (is_of_group(other, command->name, length))
                put(writer, " %s", xt_command_get((enum xt_command_id)other)->name + length + 1);
        return true;
    }
    if (!words || *words < 'a' || *words > 'z')
        return false;
    put(writer, "%s", before);
    while (*words) {
        put(writer, " %.*s", (int)strcspn(words, " |"), words);
        words += strcspn(words, "|");
        words += *words == '|';
    }
    return true;
}

/* "    before WORD) COMPREPLY...", by the format's two places. */
static void for_second_words(struct writer *writer, const char *start, const char *middle,
                             const char *end)
{
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        char head[128];
        snprintf(head, sizeof head, "%s%.*s%s", start, (int)strcspn(name, " "), name, middle);
        if (put_second_words(writer, (enum xt_command_id)id, head))
            put(writer, "%s", end);
    }
}

static void bash_name(struct writer *writer, const struct xt_option *option,
                      enum xt_command_id command)
{
    (void)command;
    put(writer, " --%s", option->name);
    if (xt_option_has_negation(option))
        put(writer, " --no-%s", option->name);
}

/* After an option: its choices, files, or nothing. */
static void bash_values(struct writer *writer, const struct xt_option *option)
{
    const char *const *words = words_of(writer, option);
    put(writer, "    --%s)", option->name);
    if (words) {
        put(writer, " COMPREPLY=($(compgen -W '");
        put_words(writer, words);
        put(writer, "' -- \"$current\")); return ;;\n");
    } else if (option->type->absolute) {
        put(writer,
            " compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n");
    } else {
        put(writer, " return ;;\n");
    }
}

static void bash_script(struct writer *writer)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    put(writer, "# bash completion of xtrain; load it with: source <(xtrain completion bash)\n"
                "_xtrain()\n{\n"
                "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                "    local start=\n    COMPREPLY=()\n"
                "    # --option=value: three words where = divides words, else one.\n"
                "    if [[ $current == = ]]; then\n        current=\n"
                "    elif [[ $before == = ]]; then\n"
                "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                "    elif [[ $current == --*=* ]]; then\n"
                "        start=${current%%=*}= before=${current%%=*} current=${current#*=}\n"
                "    fi\n"
                "    _xtrain_words\n"
                "    COMPREPLY=(\"${COMPREPLY[@]/#/$start}\")\n"
                "}\n"
                "_xtrain_words()\n{\n"
                "    local options\n"
                "    case $before in\n");
    for (size_t i = 0; i < count; i++)
        if (table[i].type->takes_value)
            bash_values(writer, &table[i]);
    put(writer, "    esac\n"
                "    if ((COMP_CWORD == 2)) && [[ $current != -* ]]; then\n"
                "        case $before in\n");
    for_second_words(writer, "        ", ") COMPREPLY=($(compgen -W '",
                     "' -- \"$current\")); return ;;\n");
    put(writer, "        esac\n    fi\n"
                "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]} \" in\n");
    for (int id = XT_COMMAND_COUNT - 1; id >= 0; id--) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        if (id == XT_COMMAND_TRAIN)
            put(writer, "    *) options='");
        else
            put(writer, "    \"%s \"*) options='", name);
        for_options(writer, (enum xt_command_id)id, NULL, bash_name);
        put(writer, "' ;;\n");
    }
    put(writer, "    esac\n"
                "    if [[ $current == -* ]]; then\n"
                "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                "        return\n    fi\n"
                "    if ((COMP_CWORD == 1)) || [[ $before == help ]]; then\n"
                "        COMPREPLY=($(compgen -W '");
    put_commands(writer);
    put(writer, "' -- \"$current\"))\n        return\n    fi\n"
                "    compopt -o filenames\n"
                "    COMPREPLY=($(compgen -f -- \"$current\"))\n}\n"
                "complete -F _xtrain xtrain\n");
}

/* ---- completion: zsh and fish ---- */

/* The first clause of the help: menus are narrow. Bytes in `special` get a backslash. */
static void put_clause(struct writer *writer, const char *help, const char *special)
{
    for (const char *end = help + strcspn(help, ";("); help < end; help++) {
        bool last = help + 1 == end && *help == ' ';
        if (*help == '\'')
            put(writer, "%s", "’");
        else if (!last)
            put(writer, "%s%c", strchr(special, *help) ? "\\" : "", *help);
    }
}

static void zsh_option(struct writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    (void)command;
    const char *const *words = words_of(writer, option);
    put(writer, "      '--%s%s[", option->name, option->type->takes_value ? "=" : "");
    put_clause(writer, option->help, "[]:\\");
    put(writer, "]");
    if (words) {
        put(writer, ":value:(");
        put_words(writer, words);
        put(writer, ")");
    } else if (option->type->takes_value) {
        put(writer, ":value:%s", option->type->absolute ? "_files" : "");
    }
    put(writer, "'\n");
    if (xt_option_has_negation(option))
        put(writer, "      '--no-%s[the opposite]'\n", option->name);
}

static void zsh_script(struct writer *writer)
{
    put(writer, "#compdef xtrain\n"
                "# zsh completion of xtrain; put it into a folder of $fpath as _xtrain\n"
                "_xtrain() {\n"
                "  local -a options\n"
                "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    compadd -- ");
    put_commands(writer);
    put(writer, "\n    return\n  fi\n"
                "  if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then\n"
                "    case $words[2] in\n");
    for_second_words(writer, "    (", ") compadd --", "; return ;;\n");
    put(writer, "    esac\n  fi\n  case \"$words[2] $words[3] \" in\n");
    for (int id = XT_COMMAND_COUNT - 1; id >= 0; id--) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        if (id == XT_COMMAND_TRAIN)
            put(writer, "    (*) options=(\n");
        else
            put(writer, "    (\"%s \"*) options=(\n", name);
        for_options(writer, (enum xt_command_id)id, NULL, zsh_option);
        put(writer, "    ) ;;\n");
    }
    put(writer, "  esac\n"
                "  _arguments $options '*:file:_files'\n"
                "}\n"
                "compdef _xtrain xtrain 2>/dev/null || true\n");
}

static void fish_condition(struct writer *writer, enum xt_command_id command)
{
    const char *name = xt_command_get(command)->name;
    size_t length = strcspn(name, " ");
    if (command != XT_COMMAND_TRAIN) {
        put(writer, "'__fish_seen_subcommand_from %.*s", (int)length, name);
        if (name[length])
            put(writer, "; and __fish_seen_subcommand_from %s", name + length + 1);
        put(writer, "'");
        return;
    }
    put(writer, "'not __fish_seen_subcommand_from");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (id != XT_COMMAND_TRAIN)
            put(writer, " %.*s", (int)strcspn(xt_command_get((enum xt_command_id)id)->name, " "),
                xt_command_get((enum xt_command_id)id)->name);
    put(writer, "'");
}

static void fish_option(struct writer *writer, const struct xt_option *option,
                        enum xt_command_id command)
{
    const char *const *words = words_of(writer, option);
    put(writer, "complete -c xtrain -n ");
    fish_condition(writer, command);
    put(writer, " -l %s", option->name);
    if (option->type->takes_value)
        put(writer, option->type->absolute ? " -r -F" : " -x");
    if (words) {
        put(writer, " -a '");
        put_words(writer, words);
        put(writer, "'");
    }
    put(writer, " -d '");
    put_clause(writer, option->help, "\\");
    put(writer, "'\n");
}

static void fish_script(struct writer *writer)
{
    put(writer, "# fish completion of xtrain; load it with: xtrain completion fish | source\n"
                "complete -c xtrain -f -n __fish_use_subcommand -a '");
    put_commands(writer);
    put(writer, "'\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        for_options(writer, (enum xt_command_id)id, NULL, fish_option);
    }
    for_second_words(writer, "complete -c xtrain -f -n '__fish_seen_subcommand_from ", "' -a '",
                     "'\n");
}

enum xt_status xt_help_completion(const char *shell, const struct xt_option_models *models,
                                  struct xt_str *out, struct xt_err *err)
{
    struct writer writer = {.models = models, .out = out, .err = err};
    if (strcmp(shell, "bash") == 0)
        bash_script(&writer);
    else if (strcmp(shell, "zsh") == 0)
        zsh_script(&writer);
    else if (strcmp(shell, "fish") == 0)
        fish_script(&writer);
    else
        return xt_err_set(err, XT_ERR_USAGE, "completion takes bash, zsh or fish, not %s",
                          xt_show(shell).text);
    return writer.status;
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

enum xt_status xt_cmd_help(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    const char *model = options->values.network.model;
    int words = 0;
    if (options->argument_count == 0)
        return show(&text, xt_help_overview(options->models, model, &text, err));
    if (options->argument_count == 1 && xt_command_is_group(options->arguments[0]))
        return show(&text, xt_help_group(options->arguments[0], &text, err));
    enum xt_command_id id = xt_command_find(options->arguments, options->argument_count, &words);
    const char *near = xt_command_meant(options->arguments[0]);
    if (id == XT_COMMAND_COUNT || words != options->argument_count)
        return xt_err_set(err, XT_ERR_USAGE, "there is no command %s; %s%s%s",
                          xt_show(options->arguments[0]).text,
                          near ? "did you mean " : "`xtrain help` lists the commands",
                          near ? near : "", near ? "?" : "");
    return show(&text, xt_help_command(id, options->models, model, &text, err));
}

enum xt_status xt_cmd_man(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    return show(&text, xt_help_man(options->models, &text, err));
}

enum xt_status xt_cmd_completion(struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    if (options->argument_count != 1)
        return xt_err_set(err, XT_ERR_USAGE, "completion takes one shell: bash, zsh or fish");
    return show(&text, xt_help_completion(options->arguments[0], options->models, &text, err));
}
