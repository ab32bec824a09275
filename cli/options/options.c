#include "cli/options/options.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/config.h"
#include "cli/options/meanings.h"
#include "cli/options/settle.h"
#include "cli/options/suggest.h"
#include "cli/options/weights.h"
#include "data/sources/registry.h"

/* ---- setting values ---- */

static enum xt_status set_defaults(struct xt_options *options, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < xt_option_count && !status; i++)
        if (xt_option_table[i].fallback)
            status = xt_options_set(options, &xt_option_table[i], xt_option_table[i].name,
                                    xt_option_table[i].fallback,
                                    (struct xt_origin){.source = XT_SOURCE_DEFAULT}, err);
    return status;
}

static enum xt_status unknown_option(const char *arg, const char *name, enum xt_command_id command,
                                     struct xt_err *err)
{
    char hint[160];
    xt_option_suggest(hint, sizeof hint, name, false, command);
    return xt_err_set(err, XT_ERR_USAGE, "there is no option %s%s", xt_show(arg).text, hint);
}

/* ---- the command line ---- */

struct cursor {
    struct xt_options *options;
    int argc;
    const char *const *argv;
    int at;
};

static enum xt_status wrong_command(const struct xt_option *option, const char *given,
                                    enum xt_command_id command, struct xt_err *err)
{
    struct xt_str owners = {0};
    const char *names[XT_COMMAND_COUNT + 1] = {NULL};
    size_t count = 0;
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (option->commands >> id & ~option->unlisted >> id & 1)
            names[count++] = xt_command_get((enum xt_command_id)id)->name;
    if (!count)
        return unknown_option(given, given + 2, command, err);
    char hint[160] = "";
    if (strcmp(option->name, "init") == 0 && xt_command_get(command)->takes_weights)
        xt_option_suggest(hint, sizeof hint, option->name, false, command);
    for (size_t i = 0; i < count; i++)
        xt_str_printf(&owners, NULL, "%s%s",
                      i == 0           ? ""
                      : i + 1 == count ? " and "
                                       : ", ",
                      names[i]);
    enum xt_status status = xt_str_check(&owners, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "--%s belongs to %s, not to %s%s",
                            xt_option_spelling(option), xt_str_get(&owners),
                            xt_command_get(command)->name, hint);
    xt_str_clear(&owners);
    return status;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(word, *words) == 0)
            return true;
    return false;
}

static bool means_yes(const char *word)
{
    static const char *const words[] = {"true", "yes", "on", "1", "y", "t", NULL};
    return is_one_of(word, words);
}

static bool means_no(const char *word)
{
    static const char *const words[] = {"false", "no", "off", "0", "n", "f", "none", NULL};
    return is_one_of(word, words);
}

static enum xt_status flag_with_value(const char *arg, const char *name, const char *value,
                                      struct xt_err *err)
{
    bool negated = xt_str_starts(arg, "--no-");
    if (!negated && means_no(value) && xt_option_has_negation(xt_option_find(name)))
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--%s takes no value, but %s was given; to switch it off write --no-%s or nothing",
            name, xt_show(value).text, name);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--%s%s takes no value, but %s was given; write --%s%s alone",
                      negated ? "no-" : "", name, xt_show(value).text, negated ? "no-" : "", name);
}

static bool takes_list(const struct xt_options *options, const struct xt_option *option)
{
    return (option->lists >> options->command & 1) != 0;
}

/* Checks each value; stores the first. */
static enum xt_status set_list(struct xt_options *options, const struct xt_option *option,
                               const char *subject, const char *text, struct xt_err *err)
{
    struct xt_origin origin = {
        .source = XT_SOURCE_COMMAND_LINE, .given = text, .first = options->string_count};
    char *rest = NULL;
    enum xt_status status = xt_mem_strdup(&rest, text, err);
    char *cursor = rest;
    for (char *piece; !status && (piece = strsep(&cursor, ","));) {
        const char *stored = NULL;
        struct xt_settings aside;
        status = xt_options_keep(options, piece, &stored, err);
        if (!status)
            status = xt_options_parse_value(option, options->command, subject, stored,
                                            (char *)&aside + option->offset, err);
        origin.count++;
    }
    free(rest);
    return status ? status
                  : xt_options_set(options, option, subject, options->strings[origin.first], origin,
                                   err);
}

/* A set of images that is named again is joined with those before. */
static enum xt_status join(struct xt_options *options, const struct xt_origin *before,
                           const char **text, struct xt_err *err)
{
    struct xt_str all = {0};
    if (strpbrk(*text, XT_SPEC_AND))
        return xt_err_set(err, XT_ERR_USAGE, "%s: a path of images has no line break",
                          xt_show(*text).text);
    if (!before->given || strcmp(before->given, *text) == 0)
        return XT_OK;
    enum xt_status status = xt_str_printf(&all, err, "%s" XT_SPEC_AND "%s", before->given, *text);
    if (!status)
        status = xt_options_keep(options, all.data, text, err);
    xt_str_clear(&all);
    return status;
}

static enum xt_status set_from_command_line(struct xt_options *options,
                                            const struct xt_option *option, const char *text,
                                            struct xt_err *err)
{
    if (option->several && strchr(text, ',') &&
        xt_option_is_for(xt_option_find(option->several), options->command))
        option = xt_option_find(option->several);
    const struct xt_origin *before = &options->origins[xt_option_index(option)];
    if (option->type == &xt_type_source) {
        enum xt_status status = join(options, before, &text, err);
        if (status)
            return status;
    } else if (before->given && strcmp(before->given, text) != 0 && !options->repeated)
        options->repeated = option;
    char subject[XT_OPTION_SPELT];
    xt_option_spell(subject, xt_option_spelling(option), false);
    if (takes_list(options, option) && strchr(text, ','))
        return set_list(options, option, subject, text, err);
    return xt_options_set(options, option, subject, text,
                          (struct xt_origin){.source = XT_SOURCE_COMMAND_LINE, .given = text}, err);
}

static enum xt_status take_flag(struct cursor *cursor, const struct xt_option *option, bool on,
                                const char *value, struct xt_err *err)
{
    const char *arg = cursor->argv[cursor->at];
    if (value)
        return flag_with_value(arg, option->name, value, err);
    const char *after = cursor->at + 1 < cursor->argc ? cursor->argv[cursor->at + 1] : "";
    if (means_yes(after) || means_no(after))
        return flag_with_value(arg, option->name, after, err);
    return set_from_command_line(cursor->options, option, on ? "true" : "false", err);
}

static enum xt_status take_value(struct cursor *cursor, const struct xt_option *option,
                                 const char *value, struct xt_err *err)
{
    if (!value) {
        struct xt_str takes = {0};
        enum xt_status status = XT_OK;
        const char *after = cursor->at + 1 < cursor->argc ? cursor->argv[cursor->at + 1] : NULL;
        bool ends = !after || xt_str_starts(after, "--");
        if (ends && option->alone)
            return set_from_command_line(cursor->options, option, option->alone, err);
        if (ends) {
            struct xt_option_taken own;
            status = xt_option_describe(xt_option_taken(option, cursor->options->command, &own),
                                        &takes, err);
            if (!status && !after)
                status = xt_err_set(err, XT_ERR_USAGE, "--%s needs a value: %s",
                                    xt_option_spelling(option), xt_str_get(&takes));
            else if (!status)
                status = xt_err_set(
                    err, XT_ERR_USAGE, "--%s needs a value (%s), but the next argument is %s",
                    xt_option_spelling(option), xt_str_get(&takes), xt_show(after).text);
            xt_str_clear(&takes);
            return status;
        }
        value = after;
        cursor->at++;
    }
    return set_from_command_line(cursor->options, option, value, err);
}

static enum xt_status take_long(struct cursor *cursor, struct xt_err *err)
{
    const char *arg = cursor->argv[cursor->at];
    const char *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
    char shown[XT_OPTION_SPELT];
    snprintf(shown, sizeof shown, "%.*s", (int)length, arg);
    const char *name = shown + 2;
    enum xt_command_id command = cursor->options->command;
    const struct xt_option *option = xt_option_find_for(name, command);
    const struct xt_option *positive =
        xt_str_starts(name, "no-") ? xt_option_find_for(name + 3, command) : NULL;
    if (!option && positive && positive->type->takes_value)
        return xt_err_set(err, XT_ERR_USAGE, "--%s takes a value, so there is no --no-%s",
                          positive->name, positive->name);
    bool on = option != NULL;
    if (!option && positive && !xt_option_has_negation(positive))
        return xt_err_set(err, XT_ERR_USAGE, "--%s has no --no- form", positive->name);
    if (!option)
        option = positive;
    bool internal = option && strcmp(xt_option_spelling(option), on ? name : name + 3) != 0 &&
                    !xt_option_is_for(option, command);
    if (!option || internal || length >= sizeof shown)
        return unknown_option(shown, name, command, err);
    if (!xt_option_is_for(option, command))
        return wrong_command(option, shown, command, err);
    const char *value = equals ? equals + 1 : NULL;
    return option->type->takes_value ? take_value(cursor, option, value, err)
                                     : take_flag(cursor, option, on, value, err);
}

/* The flag with this short form, or NULL. */
static const struct xt_option *find_short(const char *arg)
{
    for (size_t i = 0; i < xt_option_count; i++)
        if (xt_option_table[i].letter && arg[1] == xt_option_table[i].letter && !arg[2])
            return &xt_option_table[i];
    return NULL;
}

static enum xt_status unknown_short(const char *arg, enum xt_command_id command, struct xt_err *err)
{
    char name[XT_OPTION_NAME];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 1, "="), arg + 1);
    static const struct {
        const char *letter;
        const char *option;
    } usual[] = {{"b", "batch"},   {"c", "config"}, {"d", "data"}, {"e", "epochs"},
                 {"j", "workers"}, {"m", "model"},  {"o", "out"},  {"s", "seed"},
                 {"t", "threads"}, {"w", "workers"}};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].letter, name) == 0 &&
            xt_option_is_for(xt_option_find(usual[i].option), command))
            return xt_err_set(err, XT_ERR_USAGE, "there is no option %s; did you mean --%s?",
                              xt_show(arg).text, usual[i].option);
    return unknown_option(arg, name, command, err);
}

static enum xt_status take_short(struct cursor *cursor, struct xt_err *err)
{
    const char *arg = cursor->argv[cursor->at];
    enum xt_command_id command = cursor->options->command;
    const struct xt_option *option = find_short(arg);
    if (!option)
        return unknown_short(arg, command, err);
    return xt_option_is_for(option, command) ? take_flag(cursor, option, true, NULL, err)
                                             : wrong_command(option, arg, command, err);
}

static enum xt_status take_argument(struct xt_options *options, const char *arg, struct xt_err *err)
{
    const struct xt_command *command = xt_command_get(options->command);
    if (command->arguments) {
        options->arguments[options->argument_count++] = arg;
        return XT_OK;
    }
    const char *const words[] = {arg};
    if (xt_command_find(words, 1, NULL) != XT_COMMAND_COUNT)
        return xt_err_set(err, XT_ERR_USAGE,
                          "the command comes first: write `xtrain %s` and then the options", arg);
    const char *option = xt_options_model(options->models, arg) ? "model" : "data";
    bool takes = options->command == XT_COMMAND_TRAIN && (*option == 'm' || xt_file_exists(arg));
    return xt_err_set(err, XT_ERR_USAGE, "%s takes only options, but %s was given%s%s",
                      command->name, xt_show(arg).text, takes ? "; write it after --" : "",
                      takes ? option : "");
}

static enum xt_status read_command_line(struct cursor *cursor, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    bool options_ended = false;
    for (; cursor->at < cursor->argc && !status; cursor->at++) {
        const char *arg = cursor->argv[cursor->at];
        if (options_ended || arg[0] != '-' || arg[1] == '\0')
            status = take_argument(cursor->options, arg, err);
        else if (strcmp(arg, "--") == 0)
            options_ended = true;
        else if (arg[1] == '-')
            status = take_long(cursor, err);
        else
            status = take_short(cursor, err);
    }
    return status;
}

/* Images and output of commands that take them as arguments may be given by --data and --out. */
static void take_data_and_out(struct xt_options *options)
{
    const struct xt_command *command = xt_command_get(options->command);
    bool reads = options->command == XT_COMMAND_DATA_CHECK ||
                 options->command == XT_COMMAND_DATA_SPLIT ||
                 options->command == XT_COMMAND_DATA_PACK;
    bool writes = options->command == XT_COMMAND_DATA_PACK || options->command == XT_COMMAND_EXPORT;
    size_t count = (size_t)options->argument_count;
    if (reads && xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE) {
        memmove(options->arguments + 1, options->arguments, count * sizeof *options->arguments);
        options->arguments[0] = options->values.data.images;
        options->argument_count++;
    }
    if (writes && options->argument_count < command->least_arguments &&
        xt_options_source(options, "out") == XT_SOURCE_COMMAND_LINE)
        options->arguments[options->argument_count++] = options->values.record.out;
}

/* --help works whatever else is wrong. */
static bool asks_for_help(struct xt_settings *values, int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            values->network.model = argv[i + 1];
        else if (xt_str_starts(argv[i], "--model="))
            values->network.model = argv[i] + strlen("--model=");
    }
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        values->request.all |= strcmp(argv[i], "--all") == 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return values->request.help = true;
        if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0)
            return values->request.version = true;
    }
    return false;
}

/* ---- the config file ---- */

static bool is_null(const char *text)
{
    return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

static enum xt_status check_form(const struct xt_option *option, const char *subject,
                                 const struct xt_config_entry *entry, struct xt_err *err)
{
    const struct xt_option_type *type = option->type;
    if (entry->form == XT_CONFIG_SEQUENCE && !type->is_list && type != &xt_type_source)
        return xt_err_set(err, XT_ERR_USAGE, "%s takes one value, not a list", subject);
    if (entry->quoted && type->is_list)
        return xt_err_set(err, XT_ERR_USAGE, "%s: the list holds plain numbers, without quotes",
                          subject);
    if (entry->form == XT_CONFIG_PLAIN && is_null(entry->text))
        return xt_err_set(err, XT_ERR_USAGE, "%s has no value; write one, or remove the line",
                          subject);
    if (entry->form == XT_CONFIG_QUOTED && !type->may_be_quoted)
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s in quotes is text; write %s without quotes",
                          subject, xt_show(entry->text).text,
                          type->takes_value ? "it" : "true or false");
    if (entry->form == XT_CONFIG_PLAIN && type->is_free_text &&
        xt_option_is_bare_value(entry->text))
        return xt_err_set(
            err, XT_ERR_USAGE,
            "%s: %s without quotes is a number or a boolean; to mean text write it in quotes",
            subject, entry->text);
    return XT_OK;
}

static enum xt_status unknown_key(const char *file, const struct xt_config_entry *entry,
                                  enum xt_command_id command, struct xt_err *err)
{
    char hint[160];
    xt_option_suggest(hint, sizeof hint, entry->key, true, command);
    return xt_err_set(err, XT_ERR_USAGE, "%s:%d: there is no option %s%s", file, entry->line,
                      xt_show(entry->key).text, hint);
}

/* Keys in the config files of earlier versions that no longer have an effect. */
static bool is_obsolete(const char *name)
{
    return strcmp(name, "watch-cpus") == 0;
}

/* Options of a single start, not of the run: its location, as --resume gives it, and verbosity. */
static bool is_of_one_start(const struct xt_option *option)
{
    return option->offset == offsetof(struct xt_settings, record.out) ||
           option->offset == offsetof(struct xt_settings, record.resume) ||
           option->group == XT_GROUP_OUTPUT;
}

/* The comment at the end of a line of the resumed run's config.yaml, where the setting came from;
 * NULL: there is none. */
static enum xt_status read_origin(struct xt_options *options, int line, const char **out,
                                  struct xt_err *err)
{
    enum { ORIGIN_BYTES = 512 };
    char text[ORIGIN_BYTES];
    const char *at = options->run_text;
    for (int i = 1; at && i < line; i++) {
        at = strchr(at, '\n');
        at += at != NULL;
    }
    size_t length = at ? strcspn(at, "\n") : 0;
    if (!length || length >= sizeof text)
        return XT_OK;
    snprintf(text, sizeof text, "%.*s", (int)length, at);
    const char *comment = strstr(text, "  # ");
    return comment ? xt_options_keep(options, comment + strlen("  # "), out, err) : XT_OK;
}

/* The entry's text, which the options own: several sets of images in lines, as the sources take
 * them, other lists separated by commas, as the command line has them. */
static enum xt_status keep_text(struct xt_options *options, const struct xt_option *option,
                                const struct xt_config_entry *entry, const char **text,
                                struct xt_err *err)
{
    char *own = NULL;
    enum xt_status status = xt_mem_strdup(&own, entry->text, err);
    if (own && option->type->is_list)
        xt_config_join(own);
    if (!status)
        status = xt_options_keep(options, own, text, err);
    free(own);
    return status;
}

static enum xt_status take_entry(void *context, const struct xt_config_entry *entry,
                                 struct xt_err *err)
{
    struct xt_options *options = context;
    const char *file = options->values.request.config;
    char name[XT_OPTION_NAME];
    char spelt[XT_OPTION_SPELT];
    xt_option_to_dashes(name, entry->key);
    xt_option_spell(spelt, name, true);
    if (is_obsolete(name))
        return XT_OK;
    const struct xt_option *option = xt_option_find(name);
    if (!option || strcmp(spelt, entry->key) != 0)
        return unknown_key(file, entry, options->command, err);
    char subject[XT_OPTION_SUBJECT];
    snprintf(subject, sizeof subject, "%s:%d: %s", file, entry->line, spelt);
    int *line = &options->config_lines[xt_option_index(option)];
    if (option->not_in_config)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is for the command line only (--%s); remove the line", subject,
                          option->name);
    if (*line)
        return xt_err_set(err, XT_ERR_USAGE, "%s is already set in line %d; keep one", subject,
                          *line);
    *line = entry->line;
    enum xt_status status = check_form(option, subject, entry, err);
    const char *text = NULL;
    if (!status)
        status = keep_text(options, option, entry, &text, err);
    if (status)
        return status;
    if (options->goes_on && is_of_one_start(option))
        return XT_OK;
    struct xt_origin origin = {.source = XT_SOURCE_CONFIG, .line = entry->line};
    if (options->goes_on)
        status = read_origin(options, entry->line, &origin.was, err);
    if (status)
        return status;
    if (xt_option_is_for(option, options->command))
        return xt_options_set(options, option, subject, text, origin, err);
    /* An option of another command: one file may serve training and evaluation. Checked, then
     * ignored. */
    struct xt_options aside = {0};
    return xt_options_set(&aside, option, subject, text, origin, err);
}

static enum xt_status read_run_text(struct xt_options *options, const char *path,
                                    struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, XT_CONFIG_LIMIT, &bytes, err);
    options->run_text = (char *)bytes.data;
    return status;
}

/* A config that is not where it was named is one of those installed with the program: NAME,
 * NAME.yaml or configs/NAME.yaml. */
static enum xt_status find_installed(struct xt_options *options, struct xt_err *err)
{
    bool found = false;
    static const char *const places[] = {"../share/xtrain/%s", "../share/xtrain/configs/%s",
                                         "../share/xtrain/configs/%s.yaml", "../configs/%s",
                                         "../configs/%s.yaml"};
    const char **config = &options->values.request.config;
    char *folder = NULL;
    if (!*config || **config == '/' || xt_file_exists(*config))
        return XT_OK;
    enum xt_status status = xt_file_program_folder(&folder, err);
    for (size_t i = 0; !status && !found && i < sizeof places / sizeof *places; i++) {
        struct xt_str name = {0};
        status = xt_str_printf(&name, err, places[i], *config);
        const struct xt_path path = xt_file_path(folder, xt_str_get(&name));
        found = !status && xt_file_exists(path.text);
        if (found)
            status = xt_options_keep(options, path.text, config, err);
        xt_str_clear(&name);
    }
    free(folder);
    if (status || found)
        return status;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--config %s: there is no such file, and those that come with xtrain are "
                      "lprnet and resnet50-cifar10",
                      xt_show(*config).text);
}

/* The config file of the run that --resume PATH names, if it exists and --config is not given. */
static enum xt_status find_config(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    if (values->request.config || !values->record.resume ||
        strcmp(values->record.resume, "auto") == 0)
        return XT_OK;
    char *folder = NULL;
    enum xt_status status = xt_file_folder_of(&folder, values->record.resume, err);
    if (status)
        return status;
    const struct xt_path path = xt_file_path(folder, "config.yaml");
    free(folder);
    options->goes_on = xt_file_exists(path.text);
    if (options->goes_on)
        status = xt_options_keep(options, path.text, &values->request.config, err);
    if (options->goes_on && !status)
        status = read_run_text(options, path.text, err);
    if (status || options->goes_on || values->network.model)
        return status;
    return xt_err_set(err, XT_ERR_DATA, "--resume %s: %s", values->record.resume,
                      xt_file_exists(values->record.resume)
                          ? "no config.yaml is beside the checkpoints; give --model and the "
                            "other options of the run"
                          : "there is no such file or folder");
}

/* ---- the recipe ---- */

/* Names of networks are taken in any case, with or without - and _. */
static enum xt_status check_model(struct xt_options *options, const struct xt_option_models *models,
                                  struct xt_err *err)
{
    const char *model = options->values.network.model;
    const char *known = xt_options_model(models, model);
    size_t count = 0;
    if (known)
        options->values.network.model = known;
    if (known || xt_str_ends(model, ".onnx"))
        return XT_OK;
    while (models->names[count])
        count++;
    struct xt_str list = {0};
    char subject[XT_OPTION_SUBJECT];
    xt_options_subject(subject, options, "model");
    const char *near = xt_str_nearest(model, models->names, count);
    enum xt_status status = xt_option_list_choices(models->names, &list, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "%s takes %s, not %s%s%s%s", subject,
                            xt_str_get(&list), xt_show(model).text, near ? "; did you mean " : "",
                            near ? near : "", near ? "?" : "");
    xt_str_clear(&list);
    return status;
}

static enum xt_status apply_recipe(struct xt_options *options, const struct xt_recipe_item *item,
                                   enum xt_value_source source, struct xt_err *err)
{
    const char *model = options->values.network.model;
    enum xt_status status = XT_OK;
    for (; item && item->option && !status; item++) {
        const struct xt_option *option = xt_option_find(item->option);
        if (!option)
            return xt_err_set(err, XT_ERR_USAGE, "the recipe of %s names the unknown option %s",
                              model, item->option);
        char subject[XT_OPTION_SUBJECT];
        snprintf(subject, sizeof subject, "the recipe of %s: %s", model, option->name);
        if (xt_option_is_for(option, options->command))
            status = xt_options_set(options, option, subject, item->value,
                                    (struct xt_origin){.source = source}, err);
    }
    return status;
}

/* The second recipe is for fine-tuning from given weights, or compiling kernels for that. */
static enum xt_status apply_recipes(struct xt_options *options,
                                    const struct xt_option_models *models, struct xt_err *err)
{
    if (!options->values.network.model || !models)
        return XT_OK;
    enum xt_status status = check_model(options, models, err);
    const char *model = options->values.network.model;
    if (status || !models->recipes_of)
        return status;
    const struct xt_recipes recipes = models->recipes_of(model);
    bool trains = options->command == XT_COMMAND_TRAIN || options->command == XT_COMMAND_WARMUP;
    status = apply_recipe(options, recipes.train, XT_SOURCE_RECIPE, err);
    if (!status && trains && options->values.network.init)
        status = apply_recipe(options, recipes.fine_tune, XT_SOURCE_FINE_TUNE, err);
    return status;
}

static enum xt_status check_needed(const struct xt_options *options,
                                   const struct xt_option_models *models, struct xt_err *err)
{
    const struct xt_command *command = xt_command_get(options->command);
    bool has_data = options->command == XT_COMMAND_PREDICT &&
                    xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE;
    if (options->argument_count < command->least_arguments - has_data)
        return xt_err_set(err, XT_ERR_USAGE, "xtrain %s needs %s; `xtrain %s --help` tells more",
                          command->name, command->arguments, command->name);
    for (size_t i = 0; i < xt_option_count; i++) {
        const char *value = NULL;
        if (!(xt_option_table[i].needed >> options->command & 1))
            continue;
        memcpy(&value, xt_options_value(options, &xt_option_table[i]), sizeof value);
        if (value)
            continue;
        bool is_model = xt_option_table[i].offset == offsetof(struct xt_settings, network.model);
        if (is_model && options->values.network.init)
            continue; /* the weights say it; nothing reads them with --parse-only */
        if (command->takes_weights && !is_model)
            return xt_err_set(
                err, XT_ERR_USAGE,
                "xtrain %s needs WEIGHTS, a file or a run's folder; `xtrain %s --help` tells more",
                command->name, command->name);
        const char *example =
            is_model && models && models->names[0] ? models->names[0] : xt_option_table[i].value;
        return xt_err_set(err, XT_ERR_USAGE,
                          "xtrain %s needs --%s %s (%s); `xtrain %s --help` tells more",
                          command->name, xt_option_table[i].name, example,
                          xt_option_meaning(&xt_option_table[i], options->command), command->name);
    }
    return XT_OK;
}

/* ---- parse, clear ---- */

enum xt_status xt_options_parse(struct xt_options *options, int argc, const char *const *argv,
                                enum xt_command_id command, const struct xt_option_models *models,
                                struct xt_err *err)
{
    *options =
        (struct xt_options){.command = command, .models = models, .argc = argc, .argv = argv};
    enum xt_status status = set_defaults(options, err);
    if (status || asks_for_help(&options->values, argc, argv))
        return status;
    options->values.network.model = NULL;
    status = xt_mem_calloc(&options->arguments, (size_t)argc + 1, sizeof *options->arguments,
                           "the arguments", err);
    struct cursor cursor = {.options = options, .argc = argc, .argv = argv};
    if (!status)
        status = read_command_line(&cursor, err);
    if (!status)
        take_data_and_out(options);
    if (!status)
        status = find_config(options, err);
    if (!status)
        status = find_installed(options, err);
    if (!status && options->values.request.config)
        status = xt_config_read(options->values.request.config, take_entry, options, err);
    if (!status)
        status = xt_options_take_weights(options, err);
    if (!status)
        status = apply_recipes(options, models, err);
    if (!status)
        status = xt_options_settle(options, err);
    if (!status)
        status = check_needed(options, models, err);
    return status;
}

void xt_options_clear(struct xt_options *options)
{
    for (size_t i = 0; i < options->string_count; i++)
        free(options->strings[i]);
    free(options->strings);
    free(options->arguments);
    free(options->run_text);
    *options = (struct xt_options){0};
}

struct xt_infer_settings xt_options_infer(const struct xt_settings *settings)
{
    return (struct xt_infer_settings){
        .data = settings->data,
        .network = settings->network,
        .device = settings->device,
        .answer = settings->answer,
    };
}

static enum xt_status list_run(const void *context, const struct xt_network *network,
                               struct xt_run_options *out, struct xt_err *err)
{
    struct xt_settings found = *(const struct xt_settings *)context;
    found.network = xt_network_found(network, &found.network);
    return xt_options_list_run(&found, out, err);
}

struct xt_train_settings xt_options_train(const struct xt_settings *settings)
{
    return (struct xt_train_settings){
        .lister = {list_run, settings},
        .ranks = settings->ranks,
        .data = settings->data,
        .network = settings->network,
        .device = settings->device,
        .answer = settings->answer,
        .record = settings->record,
        .recipe = settings->recipe,
        .run = settings->run,
        .rank = settings->rank,
    };
}

void xt_options_found_batch(struct xt_options *options, int batch)
{
    if (options->values.network.batch)
        return;
    options->values.network.batch = batch;
    options->origins[xt_option_index(xt_option_find("batch"))].found = true;
}

enum xt_status xt_options_find_weights(struct xt_options *options, struct xt_err *err)
{
    const char *given = options->values.network.init;
    char *path = NULL;
    if (!given || !xt_file_is_folder(given))
        return XT_OK;
    enum xt_status status = xt_weight_file_locate(&path, given, err);
    if (!status)
        status = xt_options_keep(options, path, &options->values.network.init, err);
    if (!status)
        xt_log_note("taking the weights %s", path);
    free(path);
    return status;
}
