/* Completion scripts for bash, zsh and fish. */
#include "cli/options/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/options/help_writer.h"
#include "cli/options/meanings.h"

/* ---- bash ---- */

static void put_words(struct xt_help_writer *writer, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        xt_help_put(writer, "%s%s", i ? " " : "", words[i]);
}

static bool is_of_group(int id, const char *name, size_t length)
{
    const char *other = xt_command_get((enum xt_command_id)id)->name;
    return strncmp(other, name, length) == 0 && other[length] == ' ';
}

/* The first words of commands, each once. */
static void put_commands(struct xt_help_writer *writer)
{
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        size_t length = strcspn(name, " ");
        bool again = false;
        for (int before = 0; before < id && name[length]; before++)
            again = again || is_of_group(before, name, length);
        if (!again)
            xt_help_put(writer, "%s%.*s", id ? " " : "", (int)length, name);
    }
}

/* Writes the words that may follow the command's first one: "info list" for "info|list", and the
 * second words of all commands with the same first word. False if there are none. */
static bool put_second_words(struct xt_help_writer *writer, enum xt_command_id id,
                             const char *before)
{
    const struct xt_command *command = xt_command_get(id);
    size_t length = strcspn(command->name, " ");
    const char *words = command->arguments;
    if (command->name[length]) {
        for (int earlier = 0; earlier < (int)id; earlier++)
            if (is_of_group(earlier, command->name, length))
                return false;
        xt_help_put(writer, "%s", before);
        for (int other = (int)id; other < XT_COMMAND_COUNT; other++)
            if (is_of_group(other, command->name, length))
                xt_help_put(writer, " %s",
                            xt_command_get((enum xt_command_id)other)->name + length + 1);
        return true;
    }
    if (!words || *words < 'a' || *words > 'z')
        return false;
    xt_help_put(writer, "%s", before);
    while (*words) {
        xt_help_put(writer, " %.*s", (int)strcspn(words, " |"), words);
        words += strcspn(words, "|");
        words += *words == '|';
    }
    return true;
}

/* Formats "    before WORD) COMPREPLY..." for each. */
static void for_second_words(struct xt_help_writer *writer, const char *start, const char *middle,
                             const char *end)
{
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        const char *name = xt_command_get((enum xt_command_id)id)->name;
        char head[128];
        snprintf(head, sizeof head, "%s%.*s%s", start, (int)strcspn(name, " "), name, middle);
        if (put_second_words(writer, (enum xt_command_id)id, head))
            xt_help_put(writer, "%s", end);
    }
}

/* A case for each command, last first since the training command, "*", matches all; `visit` writes
 * its options. */
static void for_commands(struct xt_help_writer *writer, const char *start, const char *middle,
                         const char *end, xt_help_option *visit)
{
    for (int id = XT_COMMAND_COUNT - 1; id >= 0; id--) {
        xt_help_put(writer, "%s", start);
        if (id == XT_COMMAND_TRAIN)
            xt_help_put(writer, "*");
        else
            xt_help_put(writer, "\"%s \"*", xt_command_get((enum xt_command_id)id)->name);
        xt_help_put(writer, "%s", middle);
        xt_help_for_options(writer, (enum xt_command_id)id, NULL, visit);
        xt_help_put(writer, "%s", end);
    }
}

static void bash_name(struct xt_help_writer *writer, const struct xt_option *option,
                      enum xt_command_id command)
{
    (void)command;
    xt_help_put(writer, " --%s", xt_option_spelling(option));
    if (xt_option_has_negation(option))
        xt_help_put(writer, " --no-%s", xt_option_spelling(option));
}

/* Completions of an option's value: its choices, files, or nothing. */
static void bash_values(struct xt_help_writer *writer, const struct xt_option *option)
{
    const char *const *words = xt_help_words(writer, option);
    xt_help_put(writer, "    --%s)", xt_option_spelling(option));
    if (words) {
        xt_help_put(writer, " COMPREPLY=($(compgen -W '");
        put_words(writer, words);
        xt_help_put(writer, "' -- \"$current\")); return ;;\n");
    } else if (option->type->absolute) {
        xt_help_put(
            writer,
            " compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n");
    } else {
        xt_help_put(writer, " return ;;\n");
    }
}

static void bash_script(struct xt_help_writer *writer)
{
    xt_help_put(writer,
                "# bash completion of xtrain; load it with: source <(xtrain completion bash)\n"
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
    for (size_t i = 0; i < xt_option_count; i++)
        if (xt_option_table[i].type->takes_value)
            bash_values(writer, &xt_option_table[i]);
    xt_help_put(writer, "    esac\n"
                        "    if ((COMP_CWORD == 2)) && [[ $current != -* ]]; then\n"
                        "        case $before in\n");
    for_second_words(writer, "        ", ") COMPREPLY=($(compgen -W '",
                     "' -- \"$current\")); return ;;\n");
    xt_help_put(writer, "        esac\n    fi\n"
                        "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]} \" in\n");
    for_commands(writer, "    ", ") options='", "' ;;\n", bash_name);
    xt_help_put(writer, "    esac\n"
                        "    if [[ $current == -* ]]; then\n"
                        "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                        "        return\n    fi\n"
                        "    if ((COMP_CWORD == 1)) || [[ $before == help ]]; then\n"
                        "        COMPREPLY=($(compgen -W '");
    put_commands(writer);
    xt_help_put(writer, "' -- \"$current\"))\n        return\n    fi\n"
                        "    compopt -o filenames\n"
                        "    COMPREPLY=($(compgen -f -- \"$current\"))\n}\n"
                        "complete -F _xtrain xtrain\n");
}

/* ---- zsh and fish ---- */

/* Writes the first clause of the help: menus are narrow. Bytes in `special` are escaped by a
 * backslash. */
static void put_clause(struct xt_help_writer *writer, const char *help, const char *special)
{
    for (const char *end = help + strcspn(help, ";("); help < end; help++) {
        bool last = help + 1 == end && *help == ' ';
        if (*help == '\'')
            xt_help_put(writer, "%s", "’");
        else if (!last)
            xt_help_put(writer, "%s%c", strchr(special, *help) ? "\\" : "", *help);
    }
}

static void zsh_option(struct xt_help_writer *writer, const struct xt_option *option,
                       enum xt_command_id command)
{
    struct xt_option_taken own;
    const char *const *words = xt_help_words(writer, xt_option_taken(option, command, &own));
    xt_help_put(writer, "      '--%s%s[", xt_option_spelling(option),
                option->type->takes_value ? "=" : "");
    put_clause(writer, xt_option_meaning(option, command), "[]:\\");
    xt_help_put(writer, "]");
    if (words) {
        xt_help_put(writer, ":value:(");
        put_words(writer, words);
        xt_help_put(writer, ")");
    } else if (option->type->takes_value) {
        xt_help_put(writer, ":value:%s", option->type->absolute ? "_files" : "");
    }
    xt_help_put(writer, "'\n");
    if (xt_option_has_negation(option))
        xt_help_put(writer, "      '--no-%s[the opposite]'\n", xt_option_spelling(option));
}

static void zsh_script(struct xt_help_writer *writer)
{
    xt_help_put(writer, "#compdef xtrain\n"
                        "# zsh completion of xtrain; put it into a folder of $fpath as _xtrain\n"
                        "_xtrain() {\n"
                        "  local -a options\n"
                        "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    compadd -- ");
    put_commands(writer);
    xt_help_put(writer, "\n    return\n  fi\n"
                        "  if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then\n"
                        "    case $words[2] in\n");
    for_second_words(writer, "    (", ") compadd --", "; return ;;\n");
    xt_help_put(writer, "    esac\n  fi\n  case \"$words[2] $words[3] \" in\n");
    for_commands(writer, "    (", ") options=(\n", "    ) ;;\n", zsh_option);
    xt_help_put(writer, "  esac\n"
                        "  _arguments $options '*:file:_files'\n"
                        "}\n"
                        "compdef _xtrain xtrain 2>/dev/null || true\n");
}

static void fish_condition(struct xt_help_writer *writer, enum xt_command_id command)
{
    const char *name = xt_command_get(command)->name;
    size_t length = strcspn(name, " ");
    if (command != XT_COMMAND_TRAIN) {
        xt_help_put(writer, "'__fish_seen_subcommand_from %.*s", (int)length, name);
        if (name[length])
            xt_help_put(writer, "; and __fish_seen_subcommand_from %s", name + length + 1);
        xt_help_put(writer, "'");
        return;
    }
    xt_help_put(writer, "'not __fish_seen_subcommand_from");
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (id != XT_COMMAND_TRAIN)
            xt_help_put(writer, " %.*s",
                        (int)strcspn(xt_command_get((enum xt_command_id)id)->name, " "),
                        xt_command_get((enum xt_command_id)id)->name);
    xt_help_put(writer, "'");
}

static void fish_option(struct xt_help_writer *writer, const struct xt_option *option,
                        enum xt_command_id command)
{
    struct xt_option_taken own;
    const char *const *words = xt_help_words(writer, xt_option_taken(option, command, &own));
    xt_help_put(writer, "complete -c xtrain -n ");
    fish_condition(writer, command);
    xt_help_put(writer, " -l %s", xt_option_spelling(option));
    if (option->type->takes_value)
        xt_help_put(writer, option->type->absolute ? " -r -F" : " -x");
    if (words) {
        xt_help_put(writer, " -a '");
        put_words(writer, words);
        xt_help_put(writer, "'");
    }
    xt_help_put(writer, " -d '");
    put_clause(writer, xt_option_meaning(option, command), "\\");
    xt_help_put(writer, "'\n");
}

static void fish_script(struct xt_help_writer *writer)
{
    xt_help_put(writer,
                "# fish completion of xtrain; load it with: xtrain completion fish | source\n"
                "complete -c xtrain -f -n __fish_use_subcommand -a '");
    put_commands(writer);
    xt_help_put(writer, "'\n");
    for (int id = 0; id < XT_COMMAND_COUNT; id++) {
        xt_help_for_options(writer, (enum xt_command_id)id, NULL, fish_option);
    }
    for_second_words(writer, "complete -c xtrain -f -n '__fish_seen_subcommand_from ", "' -a '",
                     "'\n");
}

enum xt_status xt_help_completion(const char *shell, const struct xt_option_models *models,
                                  struct xt_str *out, struct xt_err *err)
{
    struct xt_help_writer writer = {.models = models, .out = out};
    if (strcmp(shell, "bash") == 0)
        bash_script(&writer);
    else if (strcmp(shell, "zsh") == 0)
        zsh_script(&writer);
    else if (strcmp(shell, "fish") == 0)
        fish_script(&writer);
    else
        return xt_err_set(err, XT_ERR_USAGE, "completion takes bash, zsh or fish, not %s",
                          xt_show(shell).text);
    return xt_str_check(out, err);
}
