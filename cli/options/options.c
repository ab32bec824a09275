#include "cli/options/options.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/config.h"
#include "runs/run_options.h"

enum { NAME_ROOM = 40, SUBJECT_ROOM = 640 };

/* ---- setting values ---- */

static size_t index_of(const struct xt_option *option)
{
    size_t count = 0;
    return (size_t)(option - xt_option_table(&count));
}

static size_t index_by_name(const char *name)
{
    return index_of(xt_option_find(name));
}

static void *field_of(struct xt_options *options, const struct xt_option *option)
{
    return (char *)&options->values + option->offset;
}

static const void *value_of(const struct xt_options *options, const struct xt_option *option)
{
    return (const char *)&options->values + option->offset;
}

/* Reads and checks `text`; the value is taken unless a higher source has spoken. */
static enum xt_status set(struct xt_options *options, const struct xt_option *option,
                          const char *subject, const char *text, struct xt_origin origin,
                          struct xt_err *err)
{
    union {
        int64_t number;
        double real;
        const char *text;
    } value = {0};
    enum xt_status status = option->type->parse(option, subject, text, &value, err);
    struct xt_origin *before = &options->origins[index_of(option)];
    if (status || before->source > origin.source)
        return status;
    memcpy(field_of(options, option), &value, option->type->size);
    *before = origin;
    return XT_OK;
}

static enum xt_status keep_string(struct xt_options *options, const char *text, const char **kept,
                                  struct xt_err *err)
{
    enum xt_status status =
        xt_mem_grow(&options->strings, &options->string_capacity, options->string_count + 1,
                    sizeof *options->strings, "settings", err);
    char *copy = NULL;
    if (!status)
        status = xt_mem_strdup(&copy, text, err);
    if (status)
        return status;
    options->strings[options->string_count++] = copy;
    *kept = copy;
    return XT_OK;
}

static enum xt_status set_defaults(struct xt_options *options, struct xt_err *err)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (table[i].fallback)
            status = set(options, &table[i], table[i].name, table[i].fallback,
                         (struct xt_origin){.source = XT_SOURCE_DEFAULT}, err);
    return status;
}

/* ---- names that are not in the table ---- */

/* What other programs call it. */
static const struct {
    const char *name;
    const char *option;
    const char *value; /* NULL: whatever was given */
} habits[] = {
    {"cuda", "xpu", NULL},
    {"gpu", "xpu", NULL},
    {"gpus", "xpu", NULL},
    {"use-cuda", "xpu", NULL},
    {"use-gpu", "xpu", NULL},
    {"gpu-id", "device", "xpu:N"},
    {"cpu", "device", "cpu"},
    {"learning-rate", "lr", NULL},
    {"lr0", "lr", NULL},
    {"max-lr", "lr", NULL},
    {"batch-size", "batch", NULL},
    {"train-batch-size", "batch", NULL},
    {"bs", "batch", NULL},
    {"epoch", "epochs", NULL},
    {"num-epochs", "epochs", NULL},
    {"max-epochs", "epochs", NULL},
    {"max-epoch", "epochs", NULL},
    {"max-steps", "steps", NULL},
    {"iterations", "steps", NULL},
    {"max-iter", "steps", NULL},
    {"optimizer", "optim", NULL},
    {"opt", "optim", NULL},
    {"scheduler", "sched", NULL},
    {"lr-scheduler", "sched", NULL},
    {"lr-schedule", "sched", NULL},
    {"wd", "weight-decay", NULL},
    {"clip-grad", "clip", NULL},
    {"grad-clip", "clip", NULL},
    {"clip-grad-norm", "clip", NULL},
    {"max-grad-norm", "clip", NULL},
    {"dropout-rate", "dropout", NULL},
    {"pretrained", "init", NULL},
    {"pretrained-model", "init", NULL},
    {"weights", "init", NULL},
    {"checkpoint", "resume", NULL},
    {"continue", "resume", "auto"},
    {"arch", "model", NULL},
    {"net", "model", NULL},
    {"network", "model", NULL},
    {"dataset", "data", NULL},
    {"data-dir", "data", NULL},
    {"data-path", "data", NULL},
    {"train", "data", NULL},
    {"train-dir", "data", NULL},
    {"train-data", "data", NULL},
    {"val-dir", "val", NULL},
    {"val-data", "val", NULL},
    {"valid", "val", NULL},
    {"test-dir", "val", NULL},
    {"output", "out", NULL},
    {"output-dir", "out", NULL},
    {"save-dir", "out", NULL},
    {"save-folder", "out", NULL},
    {"logdir", "out", NULL},
    {"num-workers", "workers", NULL},
    {"jobs", "workers", NULL},
    {"num-threads", "threads", NULL},
    {"nthreads", "threads", NULL},
    {"fp16", "amp", "fp16"},
    {"half", "amp", "fp16"},
    {"bf16", "amp", "bf16"},
    {"bfloat16", "amp", "bf16"},
    {"precision", "amp", NULL},
    {"mixed-precision", "amp", NULL},
    {"manual-seed", "seed", NULL},
    {"random-seed", "seed", NULL},
    {"print-freq", "log-every", NULL},
    {"log-interval", "log-every", NULL},
    {"test-interval", "eval-every", NULL},
    {"eval-interval", "eval-every", NULL},
    {"save-interval", "save-every", NULL},
    {"save-freq", "save-every", NULL},
};

/* Lower case, dashes for underscores; cut where it is longer than any name. */
static void to_dashes(char out[NAME_ROOM], const char *name)
{
    size_t i = 0;
    for (; name[i] && i + 1 < NAME_ROOM; i++) {
        char c = name[i];
        out[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[i] = '\0';
}

/* The option as the user would write it: --weight-decay, or weight_decay in a file. */
static void spell(char out[NAME_ROOM + 4], const char *name, bool in_file)
{
    snprintf(out, NAME_ROOM + 4, "%s%s", in_file ? "" : "--", name);
    for (char *p = out; in_file && *p; p++)
        if (*p == '-')
            *p = '_';
}

/* The option of the command whose name is nearest, of any command where none is; NULL: none. */
static const char *nearest(const char *name, enum xt_command_id command)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    const char *names[XT_OPTIONS_MAX];
    size_t own = 0;
    for (size_t i = 0; i < count; i++)
        if (xt_option_is_for(&table[i], command))
            names[own++] = table[i].name;
    const char *found = xt_str_nearest(name, names, own);
    if (found)
        return found;
    for (size_t i = 0; i < count; i++)
        names[i] = table[i].name;
    return xt_str_nearest(name, names, count);
}

/* "; use --lr" after an unknown name, into `hint`. */
static void suggest(char *hint, size_t size, const char *given, bool in_file,
                    enum xt_command_id command)
{
    char name[NAME_ROOM];
    char spelt[NAME_ROOM + 4];
    to_dashes(name, given);
    if (xt_option_find(name)) {
        spell(spelt, name, in_file);
        snprintf(hint, size, "; write %s", spelt);
        return;
    }
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (strcmp(habits[i].name, name) != 0)
            continue;
        spell(spelt, habits[i].option, in_file);
        bool gpu = strcmp(habits[i].option, "xpu") == 0;
        const char *value = habits[i].value;
        if (!value && gpu && in_file)
            value = "true";
        snprintf(hint, size, "; %suse %s%s%s", gpu ? "for an Intel GPU " : "", spelt,
                 !value    ? ""
                 : in_file ? ": "
                           : " ",
                 value ? value : "");
        return;
    }
    if (strcmp(name, "no-cuda") == 0 || strcmp(name, "no-gpu") == 0) {
        snprintf(hint, size, "; the CPU is the default, so leave it out");
        return;
    }
    bool negated = xt_str_starts(name, "no-");
    const char *near = nearest(negated ? name + 3 : name, command);
    if (near && negated && xt_option_find(near)->type->takes_value)
        near = NULL;
    if (near && negated && in_file) {
        spell(spelt, near, in_file);
        snprintf(hint, size, "; write %s: false", spelt);
        return;
    }
    if (near) {
        char full[NAME_ROOM];
        snprintf(full, sizeof full, "%s%s", negated ? "no-" : "", near);
        spell(spelt, full, in_file);
        snprintf(hint, size, "; did you mean %s?", spelt);
        return;
    }
    snprintf(hint, size, "; `xtrain %s --help` lists them", xt_command_get(command)->name);
}

static enum xt_status unknown_option(const char *arg, const char *name, enum xt_command_id command,
                                     struct xt_err *err)
{
    char hint[160];
    suggest(hint, sizeof hint, name, false, command);
    return xt_err_set(err, XT_ERR_USAGE, "there is no option %s%s", xt_show(arg).text, hint);
}

/* ---- the command line ---- */

struct cursor {
    struct xt_options *options;
    int argc;
    const char *const *argv;
    int at;
};

static enum xt_status wrong_command(const struct xt_option *option, enum xt_command_id command,
                                    struct xt_err *err)
{
    struct xt_str owners = {0};
    const char *names[XT_COMMAND_COUNT + 1] = {NULL};
    size_t count = 0;
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (option->commands >> id & 1)
            names[count++] = xt_command_get((enum xt_command_id)id)->name;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = xt_str_printf(&owners, err, "%s%s",
                               i == 0           ? ""
                               : i + 1 == count ? " and "
                                                : ", ",
                               names[i]);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "--%s belongs to %s, not to %s", option->name,
                            xt_str_get(&owners), xt_command_get(command)->name);
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
        return xt_err_set(err, XT_ERR_USAGE,
                          "--%s takes no value, but %s was given; to leave it off write --no-%s or "
                          "nothing",
                          name, xt_show(value).text, name);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--%s%s takes no value, but %s was given; write --%s%s alone",
                      negated ? "no-" : "", name, xt_show(value).text, negated ? "no-" : "", name);
}

static bool takes_list(const struct xt_options *options, const struct xt_option *option)
{
    return (option->lists >> options->command & 1) != 0;
}

/* Each value is checked; the first one is set. */
static enum xt_status set_list(struct xt_options *options, const struct xt_option *option,
                               const char *subject, const char *text, struct xt_err *err)
{
    struct xt_origin origin = {
        .source = XT_SOURCE_COMMAND_LINE, .given = text, .first = options->string_count};
    char *rest = NULL;
    enum xt_status status = xt_mem_strdup(&rest, text, err);
    char *cursor = rest;
    for (char *piece; !status && (piece = strsep(&cursor, ","));) {
        const char *kept = NULL;
        struct xt_settings aside;
        status = keep_string(options, piece, &kept, err);
        if (!status)
            status =
                option->type->parse(option, subject, kept, (char *)&aside + option->offset, err);
        origin.count++;
    }
    free(rest);
    return status ? status
                  : set(options, option, subject, options->strings[origin.first], origin, err);
}

static enum xt_status set_from_command_line(struct xt_options *options,
                                            const struct xt_option *option, const char *text,
                                            struct xt_err *err)
{
    const struct xt_origin *before = &options->origins[index_of(option)];
    if (before->given && strcmp(before->given, text) != 0) {
        if (!option->type->takes_value)
            return xt_err_set(err, XT_ERR_USAGE,
                              "--%s and --no-%s are both given; keep the one you mean",
                              option->name, option->name);
        return xt_err_set(err, XT_ERR_USAGE, "--%s is given twice, as %s and %s; keep one",
                          option->name, xt_show(before->given).text, xt_show(text).text);
    }
    char subject[NAME_ROOM + 4];
    spell(subject, option->name, false);
    if (takes_list(options, option) && strchr(text, ','))
        return set_list(options, option, subject, text, err);
    return set(options, option, subject, text,
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
        if (!after || xt_str_starts(after, "--")) {
            status = xt_option_describe(option, &takes, err);
            if (!status && !after)
                status = xt_err_set(err, XT_ERR_USAGE, "--%s needs a value: %s", option->name,
                                    xt_str_get(&takes));
            else if (!status)
                status = xt_err_set(err, XT_ERR_USAGE,
                                    "--%s needs a value (%s), but the next argument is %s",
                                    option->name, xt_str_get(&takes), xt_show(after).text);
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
    char shown[NAME_ROOM + 4];
    snprintf(shown, sizeof shown, "%.*s", (int)length, arg);
    const char *name = shown + 2;
    const struct xt_option *option = xt_option_find(name);
    const struct xt_option *positive = xt_str_starts(name, "no-") ? xt_option_find(name + 3) : NULL;
    enum xt_command_id command = cursor->options->command;
    if (!option && positive && positive->type->takes_value)
        return xt_err_set(err, XT_ERR_USAGE, "--%s takes a value, so there is no --no-%s",
                          positive->name, positive->name);
    bool on = option != NULL;
    if (!option && positive && !xt_option_has_negation(positive))
        return xt_err_set(err, XT_ERR_USAGE, "--%s has no --no- form", positive->name);
    if (!option)
        option = positive;
    if (!option || length >= sizeof shown)
        return unknown_option(shown, name, command, err);
    if (!xt_option_is_for(option, command))
        return wrong_command(option, command, err);
    const char *value = equals ? equals + 1 : NULL;
    return option->type->takes_value ? take_value(cursor, option, value, err)
                                     : take_flag(cursor, option, on, value, err);
}

/* The flag whose short form this is, or NULL. */
static const struct xt_option *find_short(const char *arg)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    for (size_t i = 0; i < count; i++)
        if (table[i].letter && arg[1] == table[i].letter && !arg[2])
            return &table[i];
    return NULL;
}

static enum xt_status unknown_short(const char *arg, enum xt_command_id command, struct xt_err *err)
{
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 1, "="), arg + 1);
    static const struct {
        const char *letter;
        const char *option;
    } usual[] = {{"b", "batch"},   {"c", "config"}, {"d", "data"}, {"e", "epochs"},
                 {"j", "workers"}, {"m", "model"},  {"o", "out"},  {"s", "seed"},
                 {"t", "threads"}, {"w", "workers"}};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].letter, name) == 0)
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
                                             : wrong_command(option, command, err);
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
    return xt_err_set(err, XT_ERR_USAGE, "%s takes options alone, but %s was given", command->name,
                      xt_show(arg).text);
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

/* Whoever asks for help gets it, whatever else is wrong. */
static bool asks_for_help(struct xt_settings *values, int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            values->network.model = argv[i + 1];
        else if (xt_str_starts(argv[i], "--model="))
            values->network.model = argv[i] + strlen("--model=");
    }
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
    if (entry->form == XT_CONFIG_SEQUENCE && !type->is_list)
        return xt_err_set(err, XT_ERR_USAGE, "%s takes one value, not a list", subject);
    if (entry->form == XT_CONFIG_PLAIN && is_null(entry->text))
        return xt_err_set(err, XT_ERR_USAGE, "%s has no value; write one, or take the line out",
                          subject);
    if (entry->form == XT_CONFIG_QUOTED && !type->may_be_quoted)
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s in quotes is text; write %s without quotes",
                          subject, xt_show(entry->text).text,
                          type->takes_value ? "it" : "true or false");
    if (entry->form == XT_CONFIG_PLAIN && type->is_free_text &&
        xt_option_is_bare_value(entry->text))
        return xt_err_set(
            err, XT_ERR_USAGE,
            "%s: %s without quotes is a number or a boolean; to mean text write it in "
            "quotes",
            subject, entry->text);
    return XT_OK;
}

static enum xt_status unknown_key(const char *file, const struct xt_config_entry *entry,
                                  enum xt_command_id command, struct xt_err *err)
{
    char hint[160];
    suggest(hint, sizeof hint, entry->key, true, command);
    return xt_err_set(err, XT_ERR_USAGE, "%s:%d: there is no option %s%s", file, entry->line,
                      xt_show(entry->key).text, hint);
}

/* What the config files of earlier versions' runs hold, and nothing depends on any more. */
static bool is_obsolete(const char *name)
{
    return strcmp(name, "watch-cpus") == 0;
}

/* What is not the run's: where it lies, as --resume says now, and how much is said. */
static bool is_of_one_start(const struct xt_option *option)
{
    return option->offset == offsetof(struct xt_settings, record.out) ||
           option->offset == offsetof(struct xt_settings, record.resume) ||
           option->group == XT_GROUP_OUTPUT;
}

static enum xt_status take_entry(void *context, const struct xt_config_entry *entry,
                                 struct xt_err *err)
{
    struct xt_options *options = context;
    const char *file = options->values.request.config;
    char name[NAME_ROOM];
    char spelt[NAME_ROOM + 4];
    to_dashes(name, entry->key);
    spell(spelt, name, true);
    if (is_obsolete(name))
        return XT_OK;
    const struct xt_option *option = xt_option_find(name);
    if (!option || strcmp(spelt, entry->key) != 0)
        return unknown_key(file, entry, options->command, err);
    char subject[SUBJECT_ROOM];
    snprintf(subject, sizeof subject, "%s:%d: %s", file, entry->line, spelt);
    int *line = &options->config_lines[index_of(option)];
    if (option->not_in_config)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s makes sense on the command line alone (--%s); take the line out",
                          subject, option->name);
    if (*line)
        return xt_err_set(err, XT_ERR_USAGE, "%s is already set in line %d; keep one", subject,
                          *line);
    *line = entry->line;
    enum xt_status status = check_form(option, subject, entry, err);
    const char *text = NULL;
    if (!status)
        status = keep_string(options, entry->text, &text, err);
    if (status)
        return status;
    if (options->goes_on && is_of_one_start(option))
        return XT_OK;
    struct xt_origin origin = {.source = XT_SOURCE_CONFIG, .line = entry->line};
    if (xt_option_is_for(option, options->command))
        return set(options, option, subject, text, origin, err);
    /* Of another command: one file may serve training and evaluation. Checked, and left alone. */
    struct xt_options aside = {0};
    return set(&aside, option, subject, text, origin, err);
}

/* The file of the run that --resume PATH names, where there is one and no other is given. */
static enum xt_status find_config(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    if (values->request.config || !values->record.resume ||
        strcmp(values->record.resume, "auto") == 0)
        return XT_OK;
    char *folder = NULL;
    char *path = NULL;
    enum xt_status status = xt_file_folder_of(&folder, values->record.resume, err);
    if (!status)
        status = xt_file_join(&path, folder, "config.yaml", err);
    options->goes_on = !status && xt_file_exists(path);
    if (options->goes_on)
        status = keep_string(options, path, &values->request.config, err);
    free(folder);
    free(path);
    if (status || options->goes_on || values->network.model)
        return status;
    return xt_err_set(err, XT_ERR_DATA, "--resume %s: %s", values->record.resume,
                      xt_file_exists(values->record.resume)
                          ? "no config.yaml is beside the checkpoints; give --model and whatever "
                            "else the run began with"
                          : "there is no such file or folder");
}

/* ---- the recipe, and what goes with what ---- */

/* How an error names the option, by where its value came from. */
static void subject_of(char out[SUBJECT_ROOM], const struct xt_options *options, const char *name)
{
    const struct xt_origin *origin = &options->origins[index_by_name(name)];
    bool in_file = origin->source == XT_SOURCE_CONFIG;
    char spelt[NAME_ROOM + 4];
    spell(spelt, name, in_file);
    if (in_file)
        snprintf(out, SUBJECT_ROOM, "%s:%d: %s", options->values.request.config, origin->line,
                 spelt);
    else
        snprintf(out, SUBJECT_ROOM, "%s", spelt);
}

static enum xt_status check_model(const struct xt_options *options,
                                  const struct xt_option_models *models, struct xt_err *err)
{
    const char *model = options->values.network.model;
    size_t count = 0;
    if (xt_str_ends(model, ".onnx"))
        return XT_OK;
    for (; models->names[count]; count++)
        if (strcmp(models->names[count], model) == 0)
            return XT_OK;
    struct xt_str list = {0};
    char subject[SUBJECT_ROOM];
    subject_of(subject, options, "model");
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
        char subject[SUBJECT_ROOM];
        snprintf(subject, sizeof subject, "the recipe of %s: %s", model, option->name);
        if (xt_option_is_for(option, options->command))
            status = set(options, option, subject, item->value,
                         (struct xt_origin){.source = source}, err);
    }
    return status;
}

/* The second recipe is for whoever trains from given weights, or compiles for that. */
static enum xt_status apply_recipes(struct xt_options *options,
                                    const struct xt_option_models *models, struct xt_err *err)
{
    const char *model = options->values.network.model;
    if (!model || !models)
        return XT_OK;
    enum xt_status status = check_model(options, models, err);
    if (status || !models->recipes_of)
        return status;
    const struct xt_recipes recipes = models->recipes_of(model);
    bool trains = options->command == XT_COMMAND_TRAIN || options->command == XT_COMMAND_WARMUP;
    status = apply_recipe(options, recipes.train, XT_SOURCE_RECIPE, err);
    if (!status && trains && options->values.network.init)
        status = apply_recipe(options, recipes.fine_tune, XT_SOURCE_FINE_TUNE, err);
    return status;
}

/* Two options that do not go together: above 0 where `a` comes from the higher source and wins,
 * below where `b` does, 0 where both come from the same and neither can. */
static int compare_sources(const struct xt_options *options, const char *a, const char *b)
{
    return (int)xt_options_source(options, a) - (int)xt_options_source(options, b);
}

/* Gives the option the value that another one implies, and that one's origin. */
static void imply(struct xt_options *options, const char *name, const char *by)
{
    options->origins[index_by_name(name)] = options->origins[index_by_name(by)];
}

static enum xt_status contradiction(const struct xt_options *options, const char *name,
                                    const char *rest, struct xt_err *err)
{
    char subject[SUBJECT_ROOM];
    subject_of(subject, options, name);
    return xt_err_set(err, XT_ERR_USAGE, "%s %s", subject, rest);
}

/* Afterwards `device` says it all and `xpu` agrees with it. */
static enum xt_status settle_device(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    bool device_is_xpu = xt_str_starts(values->device.name, "xpu");
    bool xpu_is_said = xt_options_source(options, "xpu") != XT_SOURCE_DEFAULT;
    if (values->device.xpu == device_is_xpu && strcmp(values->device.name, "auto") != 0)
        return XT_OK;
    if (!values->device.xpu && !xpu_is_said) {
        values->device.xpu = device_is_xpu;
        if (device_is_xpu)
            imply(options, "xpu", "device");
        return XT_OK;
    }
    int order = compare_sources(options, "xpu", "device");
    if (order == 0) {
        char rest[128];
        snprintf(rest, sizeof rest, "%s the device %s; keep the one you mean",
                 values->device.xpu ? "contradicts" : "is switched off, which contradicts",
                 values->device.name);
        return contradiction(options, "xpu", rest, err);
    }
    if (order > 0) {
        values->device.name = values->device.xpu ? "xpu" : "cpu";
        imply(options, "device", "xpu");
    } else {
        values->device.xpu = device_is_xpu;
        imply(options, "xpu", "device");
    }
    return XT_OK;
}

/* Steps win over epochs, unless the epochs were said by a higher source. */
static void settle_length(struct xt_options *options)
{
    struct xt_settings *values = &options->values;
    if (!values->run.steps || !values->run.epochs)
        return;
    if (compare_sources(options, "epochs", "steps") > 0)
        values->run.steps = 0;
    else
        values->run.epochs = 0;
}

static enum xt_status settle_recipe(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    bool has_milestones =
        values->recipe.sched == XT_SCHED_STEP || values->recipe.sched == XT_SCHED_MULTISTEP;
    if (values->recipe.nesterov && values->recipe.optim != XT_OPTIM_SGD) {
        if (compare_sources(options, "nesterov", "optim") >= 0)
            return contradiction(options, "nesterov", "goes with the optimizer sgd alone", err);
        values->recipe.nesterov = false;
        imply(options, "nesterov", "optim");
    }
    if (values->recipe.milestones && !has_milestones) {
        if (compare_sources(options, "milestones", "sched") >= 0)
            return contradiction(options, "milestones", "goes with --sched step or multistep", err);
        values->recipe.milestones = NULL;
    }
    if (has_milestones && !values->recipe.milestones)
        return contradiction(options, "sched",
                             values->recipe.sched == XT_SCHED_STEP
                                 ? "step needs its period in epochs, such as --milestones 10"
                                 : "multistep needs the epochs, such as --milestones 10,20",
                             err);
    if (values->run.min_delta > 0 && !values->run.patience)
        return contradiction(options, "min-delta", "says what a gain is for --patience; give both",
                             err);
    if (values->recipe.min_lr > values->recipe.lr)
        return contradiction(options, "min-lr", "is above lr, the highest rate", err);
    if (values->network.random_init && values->network.init)
        return contradiction(options, "random-init",
                             "begins anew, where --init FILE gives weights; give one of both", err);
    if (values->network.init_partial && !values->network.init)
        return contradiction(options, "init-partial", "needs the weights to take: --init FILE",
                             err);
    return XT_OK;
}

/* Of one option what another one asks for, unless it was typed. */
static void ask_for(struct xt_options *options, const char *name, const char *by, void *value,
                    const void *wanted, size_t size)
{
    if (xt_options_source(options, name) == XT_SOURCE_COMMAND_LINE)
        return;
    memcpy(value, wanted, size);
    imply(options, name, by);
}

static void ask_for_integer(struct xt_options *options, const char *name, int *value, int wanted)
{
    ask_for(options, name, "overfit", value, &wanted, sizeof wanted);
}

/* Few images are learnt by heart as they are: nothing varies or holds back, there are enough steps,
 * and they are evaluated every 20 of them. */
static void settle_overfit(struct xt_options *options)
{
    enum { STEPS = 400, EVALUATE_EVERY = 20 };
    struct xt_settings *v = &options->values;
    static const bool no = false;
    static const double none = 0;
    static const int64_t steps = STEPS;
    if (!v->run.overfit)
        return;
    const struct {
        const char *name;
        double *value;
    } off[] = {{"jitter", &v->data.jitter},     {"hue", &v->data.hue},
               {"dropout", &v->recipe.dropout}, {"label-smoothing", &v->recipe.label_smoothing},
               {"mixup", &v->data.mixup},       {"weight-decay", &v->recipe.weight_decay}};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        ask_for(options, off[i].name, "overfit", off[i].value, &none, sizeof none);
    ask_for(options, "augment", "overfit", &v->data.augment, &no, sizeof no);
    ask_for(options, "flip", "overfit", &v->data.flip, &no, sizeof no);
    ask_for_integer(options, "accumulate", &v->recipe.accumulate, 1);
    if (v->network.batch > v->run.overfit)
        ask_for_integer(options, "batch", &v->network.batch, v->run.overfit);
    if (xt_options_source(options, "epochs") != XT_SOURCE_COMMAND_LINE)
        ask_for(options, "steps", "overfit", &v->run.steps, &steps, sizeof steps);
    int batches = v->network.batch ? v->run.overfit / v->network.batch : 1;
    int epochs = EVALUATE_EVERY / (batches > 0 ? batches : 1);
    ask_for_integer(options, "eval-every", &v->run.eval_every, epochs > 1 ? epochs : 1);
    ask_for_integer(options, "save-every", &v->record.save_every, STEPS);
}

static enum xt_status settle_output(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *values = &options->values;
    if (!values->output.quiet || !values->output.verbose)
        return XT_OK;
    int order = compare_sources(options, "quiet", "verbose");
    if (order == 0)
        return contradiction(options, "quiet", "contradicts verbose; keep the one you mean", err);
    values->output.quiet = order > 0;
    values->output.verbose = order < 0;
    return XT_OK;
}

/* For these commands there is no memory to fill. */
static enum xt_status settle_batch(const struct xt_options *options, struct xt_err *err)
{
    const struct xt_option *batch = xt_option_find("batch");
    if (options->values.network.batch || !xt_option_is_for(batch, options->command) ||
        batch->automatic >> options->command & 1)
        return XT_OK;
    char rest[96];
    snprintf(rest, sizeof rest, "auto is not for xtrain %s; give a number",
             xt_command_get(options->command)->name);
    return contradiction(options, "batch", rest, err);
}

static enum xt_status settle(struct xt_options *options, struct xt_err *err)
{
    enum xt_status status = settle_device(options, err);
    if (!status)
        status = settle_batch(options, err);
    if (!status)
        status = settle_output(options, err);
    if (!status && options->command == XT_COMMAND_TRAIN)
        status = settle_recipe(options, err);
    if (options->command == XT_COMMAND_TRAIN)
        settle_overfit(options);
    settle_length(options);
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
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    for (size_t i = 0; i < count; i++) {
        const char *value = NULL;
        if (!(table[i].needed >> options->command & 1))
            continue;
        memcpy(&value, value_of(options, &table[i]), sizeof value);
        if (value)
            continue;
        bool is_model = table[i].offset == offsetof(struct xt_settings, network.model);
        const char *example =
            is_model && models && models->names[0] ? models->names[0] : table[i].value;
        return xt_err_set(err, XT_ERR_USAGE,
                          "xtrain %s needs --%s %s (%s); `xtrain %s --help` tells more",
                          command->name, table[i].name, example, table[i].help, command->name);
    }
    return XT_OK;
}

/* ---- parse, clear, print ---- */

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
    status = xt_mem_calloc(&options->arguments, (size_t)argc, sizeof *options->arguments,
                           "the arguments", err);
    struct cursor cursor = {.options = options, .argc = argc, .argv = argv};
    if (!status)
        status = read_command_line(&cursor, err);
    if (!status)
        status = find_config(options, err);
    if (!status && options->values.request.config)
        status = xt_config_read(options->values.request.config, take_entry, options, err);
    if (!status)
        status = apply_recipes(options, models, err);
    if (!status)
        status = settle(options, err);
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
    *options = (struct xt_options){0};
}

int xt_options_count(const struct xt_options *options, const char *name)
{
    int count = options->origins[index_by_name(name)].count;
    return count ? count : 1;
}

enum xt_status xt_options_pick(const struct xt_options *options, const char *name, int index,
                               struct xt_settings *settings, struct xt_err *err)
{
    const struct xt_option *option = xt_option_find(name);
    const struct xt_origin *origin = &options->origins[index_of(option)];
    void *value = (char *)settings + option->offset;
    if (origin->count)
        return option->type->parse(option, name, options->strings[origin->first + (size_t)index],
                                   value, err);
    memcpy(value, value_of(options, option), option->type->size);
    return XT_OK;
}

enum xt_value_source xt_options_source(const struct xt_options *options, const char *name)
{
    return options->origins[index_by_name(name)].source;
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
    options->origins[index_by_name("batch")].found = true;
}

/* A value as it is right from everywhere. */
struct said {
    const void *value;
    char *path; /* what it points to, where that is owned */
};

/* `folder`: where relative paths begin; NULL: they stay. Release said->path. */
static enum xt_status say_from(struct said *said, const struct xt_option *option, const void *value,
                               const char *folder, struct xt_err *err)
{
    const char *text = NULL;
    *said = (struct said){.value = value};
    if (option->type->absolute)
        memcpy(&text, value, sizeof text);
    if (!folder || !text)
        return XT_OK;
    said->value = &said->path;
    return option->type->absolute(&said->path, folder, text, err);
}

enum xt_status xt_options_list_run(const struct xt_settings *settings, struct xt_run_options *out,
                                   struct xt_err *err)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    char *folder = NULL;
    enum xt_status status = xt_file_working_folder(&folder, err);
    for (size_t i = 0; i < count && !status; i++) {
        const struct xt_option *option = &table[i];
        if (option->resume == XT_RESUME_TAKES)
            continue;
        assert(out->count < XT_RUN_OPTIONS_MAX);
        struct xt_run_option *item = &out->items[out->count++];
        *item = (struct xt_run_option){
            .name = option->name,
            .is_flag = !option->type->takes_value,
            .rule = option->resume,
        };
        spell(item->key, option->name, true);
        struct said said;
        status = say_from(&said, option, (const char *)settings + option->offset, folder, err);
        if (!status)
            status = option->type->spell(option, said.value, &item->value, err);
        free(said.path);
    }
    free(folder);
    return status;
}

/* True where there is a value to write: text that was given, a number in its range. */
static bool is_set(const struct xt_options *options, const struct xt_option *option)
{
    const void *value = value_of(options, option);
    if (option->fallback)
        return true;
    static const char zeros[sizeof(double)] = {0};
    return memcmp(value, zeros, option->type->size) != 0;
}

/* "lr 0.001, augment" of the options that a recipe may set and this source did. */
static enum xt_status print_set_by(const struct xt_options *options, enum xt_value_source source,
                                   struct xt_str *out, struct xt_err *err)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct xt_option *option = &table[i];
        const void *value = value_of(options, option);
        bool is_flag = !option->type->takes_value;
        if (!option->by_model || options->origins[i].source != source ||
            !xt_option_is_for(option, options->command) || !is_set(options, option))
            continue;
        status = xt_str_printf(out, err, "%s%s%s%s", out->length ? ", " : "",
                               is_flag && !*(const bool *)value ? "no-" : "", option->name,
                               is_flag ? "" : " ");
        if (!status && !is_flag)
            status = option->type->spell(option, value, out, err);
    }
    return status;
}

enum xt_status xt_options_print_recipe(const struct xt_options *options, struct xt_str *out,
                                       struct xt_err *err)
{
    static const char *const sources[] = {
        [XT_SOURCE_RECIPE] = "the recipe",
        [XT_SOURCE_FINE_TUNE] = "the recipe for given weights",
        [XT_SOURCE_CONFIG] = "the config file",
        [XT_SOURCE_COMMAND_LINE] = "the command line",
    };
    enum xt_status status = XT_OK;
    for (int source = XT_SOURCE_RECIPE; source <= XT_SOURCE_COMMAND_LINE && !status; source++) {
        struct xt_str values = {0};
        status = print_set_by(options, (enum xt_value_source)source, &values, err);
        if (!status && values.length)
            status = xt_str_printf(out, err, "by %s: %s\n", sources[source], values.data);
        xt_str_clear(&values);
    }
    return status;
}

enum xt_status xt_options_find_weights(struct xt_options *options, struct xt_err *err)
{
    const char *given = options->values.network.init;
    char *path = NULL;
    if (!given || !xt_file_is_folder(given))
        return XT_OK;
    enum xt_status status = xt_weight_file_locate(&path, given, err);
    if (!status)
        status = keep_string(options, path, &options->values.network.init, err);
    if (!status)
        xt_log_note("taking the weights %s", path);
    free(path);
    return status;
}

static enum xt_status print_origin(const struct xt_options *options, size_t index,
                                   struct xt_str *out, struct xt_err *err)
{
    const struct xt_origin *origin = &options->origins[index];
    if (origin->found)
        return xt_str_printf(out, err, "what auto came to");
    switch (origin->source) {
    case XT_SOURCE_COMMAND_LINE:
        return xt_str_printf(out, err, "command line");
    case XT_SOURCE_CONFIG:
        return xt_str_printf(out, err, "config %s line %d",
                             xt_show(options->values.request.config).text, origin->line);
    case XT_SOURCE_RECIPE:
        return xt_str_printf(out, err, "recipe of %s", options->values.network.model);
    case XT_SOURCE_FINE_TUNE:
        return xt_str_printf(out, err, "recipe of %s for given weights",
                             options->values.network.model);
    case XT_SOURCE_DEFAULT:
        break;
    }
    return xt_str_printf(out, err, "default");
}

/* `folder`: for a run to keep, and where relative paths begin; else NULL. */
static enum xt_status print_option(const struct xt_options *options, const struct xt_option *option,
                                   const char *folder, struct xt_str *out, struct xt_err *err)
{
    char key[NAME_ROOM + 4];
    spell(key, option->name, true);
    bool of_this_start = folder && option->offset == offsetof(struct xt_settings, record.resume);
    if (!is_set(options, option) || of_this_start)
        return xt_str_printf(out, err, "# %s is not set\n", key);
    size_t start = out->length;
    struct said said;
    enum xt_status status = say_from(&said, option, value_of(options, option), folder, err);
    if (!status)
        status = xt_str_printf(out, err, "%s: ", key);
    if (!status)
        status = xt_option_print(option, said.value, out, err);
    free(said.path);
    enum { COMMENT_COLUMN = 28 };
    size_t used = out->length - start;
    if (!status)
        status = xt_str_printf(out, err, "%*s  # ",
                               used < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - used) : 0, "");
    if (!status)
        status = print_origin(options, index_of(option), out, err);
    return status ? status : xt_str_printf(out, err, "\n");
}

/* With --device auto, xpu is neither true nor false. */
static bool is_printed(const struct xt_options *options, const struct xt_option *option)
{
    bool open_xpu = option->offset == offsetof(struct xt_settings, device.xpu) &&
                    strcmp(options->values.device.name, "auto") == 0;
    return xt_option_is_for(option, options->command) && !option->not_in_config && !open_xpu;
}

static enum xt_status print_all(const struct xt_options *options, const char *folder,
                                struct xt_str *out, struct xt_err *err)
{
    size_t count = 0;
    const struct xt_option *table = xt_option_table(&count);
    enum xt_status status =
        xt_str_printf(out, err, "# Settings of xtrain %s; feed them back with --config FILE.\n",
                      xt_command_get(options->command)->name);
    int group = -1;
    for (size_t i = 0; i < count && !status; i++) {
        if (!is_printed(options, &table[i]))
            continue;
        if ((int)table[i].group != group) {
            group = (int)table[i].group;
            status = xt_str_printf(out, err, "\n# %s\n", xt_option_group_title(table[i].group));
        }
        if (!status)
            status = print_option(options, &table[i], folder, out, err);
    }
    return status;
}

enum xt_status xt_options_print(const struct xt_options *options, struct xt_str *out,
                                struct xt_err *err)
{
    return print_all(options, NULL, out, err);
}

enum xt_status xt_options_print_run(const struct xt_options *options, struct xt_str *out,
                                    struct xt_err *err)
{
    char *folder = NULL;
    enum xt_status status = xt_file_working_folder(&folder, err);
    if (!status)
        status = print_all(options, folder, out, err);
    free(folder);
    return status;
}
