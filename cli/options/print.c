/* Values as text: the effective configuration, what the recipe set, what a checkpoint records. */
#include "cli/options/options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/options/suggest.h"
#include "ranks/facts.h"
#include "train/trainer.h"

/* A value with absolute paths. */
struct said {
    const void *value;
    char *path; /* the absolute path, if owned */
};

/* `folder`: base of relative paths; NULL: they stay relative. Release said->path. */
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
    char *folder = NULL;
    enum xt_status status = xt_file_working_folder(&folder, err);
    for (size_t i = 0; i < xt_option_count && !status; i++) {
        const struct xt_option *option = &xt_option_table[i];
        if (option->resume == XT_RESUME_TAKES)
            continue;
        assert(out->count < XT_RUN_OPTIONS_MAX);
        struct xt_run_option *item = &out->items[out->count++];
        *item = (struct xt_run_option){
            .name = option->name,
            .is_flag = !option->type->takes_value,
            .rule = option->resume,
        };
        xt_option_spell(item->key, option->name, true);
        struct said said;
        status = say_from(&said, option, (const char *)settings + option->offset, folder, err);
        if (!status)
            status = option->type->spell(option, said.value, &item->value, err);
        free(said.path);
    }
    free(folder);
    return status;
}

/* Hosts may keep the same files at different places: of a path it counts whether there is one. What
 * the files hold is compared later. */
static enum xt_status spell_for_ranks(const struct xt_options *options,
                                      const struct xt_option *option, struct xt_str *out,
                                      struct xt_err *err)
{
    const struct xt_origin *origin = &options->origins[xt_option_index(option)];
    const void *value = xt_options_value(options, option);
    const char *path = NULL;
    if (option->type->absolute)
        memcpy(&path, value, sizeof path);
    if (path && !xt_str_starts(path, "synth:"))
        return xt_str_printf(out, err, "given");
    if (!origin->count)
        return option->type->spell(option, value, out, err);
    for (int i = 0; i < origin->count; i++)
        xt_str_printf(out, NULL, "%s%s", i ? "," : "", options->strings[origin->first + (size_t)i]);
    return xt_str_check(out, err);
}

enum xt_status xt_options_list_for_ranks(const struct xt_options *options, struct xt_str *facts,
                                         struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < xt_option_count && !status; i++) {
        struct xt_str value = {0};
        char name[XT_OPTION_SPELT];
        if (!xt_option_binds_ranks(&xt_option_table[i]) ||
            !xt_option_is_for(&xt_option_table[i], options->command))
            continue;
        xt_option_spell(name, xt_option_table[i].name, false);
        status = spell_for_ranks(options, &xt_option_table[i], &value, err);
        if (!status)
            xt_ranks_add_fact(facts, name, "%s", xt_str_get(&value));
        xt_str_clear(&value);
    }
    return status;
}

/* True if there is a value to write: a given text, a number in its range. */
static bool is_set(const struct xt_options *options, const struct xt_option *option)
{
    const void *value = xt_options_value(options, option);
    if (option->fallback)
        return true;
    static const char zeros[sizeof(double)] = {0};
    return memcmp(value, zeros, option->type->size) != 0;
}

/* A resumed run retains where its settings came from when it began. */
static enum xt_value_source source_of(const struct xt_origin *origin)
{
    if (origin->source != XT_SOURCE_CONFIG || !origin->was)
        return origin->source;
    return strcmp(origin->was, "command line") == 0        ? XT_SOURCE_COMMAND_LINE
           : strcmp(origin->was, "default") == 0           ? XT_SOURCE_DEFAULT
           : xt_str_ends(origin->was, "for given weights") ? XT_SOURCE_FINE_TUNE
           : xt_str_starts(origin->was, "recipe of")       ? XT_SOURCE_RECIPE
                                                           : XT_SOURCE_CONFIG;
}

/* Lists "lr 0.001, augment" for the recipe's options that this source set. */
static enum xt_status print_set_by(const struct xt_options *options, enum xt_value_source source,
                                   struct xt_str *out, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < xt_option_count && !status; i++) {
        const struct xt_option *option = &xt_option_table[i];
        const void *value = xt_options_value(options, option);
        bool is_flag = !option->type->takes_value;
        if (!option->by_model || source_of(&options->origins[i]) != source ||
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
        [XT_SOURCE_RUN] = "the weights' run",
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

static enum xt_status print_origin(const struct xt_options *options, size_t index,
                                   struct xt_str *out, struct xt_err *err)
{
    const struct xt_origin *origin = &options->origins[index];
    if (origin->found)
        return xt_str_printf(out, err, "the result of auto");
    switch (origin->source) {
    case XT_SOURCE_COMMAND_LINE:
        return xt_str_printf(out, err, "command line");
    case XT_SOURCE_CONFIG:
        if (origin->was)
            return xt_str_printf(out, err, "%s", origin->was);
        return xt_str_printf(out, err, "config %s line %d",
                             xt_show(options->values.request.config).text, origin->line);
    case XT_SOURCE_RECIPE:
        return xt_str_printf(out, err, "recipe of %s", options->values.network.model);
    case XT_SOURCE_FINE_TUNE:
        return xt_str_printf(out, err, "recipe of %s for given weights",
                             options->values.network.model);
    case XT_SOURCE_RUN:
        return origin->line ? xt_str_printf(out, err, "run %s line %d",
                                            xt_show(options->run_config).text, origin->line)
                            : xt_str_printf(out, err, "the weights");
    case XT_SOURCE_DEFAULT:
        break;
    }
    return xt_str_printf(out, err, "default");
}

/* `folder`: for a run's config file, the base of relative paths; else NULL. */
static enum xt_status print_option(const struct xt_options *options, const struct xt_option *option,
                                   const char *folder, struct xt_str *out, struct xt_err *err)
{
    char key[XT_OPTION_SPELT];
    xt_option_spell(key, option->name, true);
    bool of_this_start = folder && option->offset == offsetof(struct xt_settings, record.resume);
    if (!is_set(options, option) || of_this_start)
        return xt_str_printf(out, err, "# %s is not set\n", key);
    size_t start = out->length;
    struct said said;
    enum xt_status status = say_from(&said, option, xt_options_value(options, option), folder, err);
    xt_str_printf(out, NULL, "%s: ", key);
    if (!status)
        status = xt_option_print(option, said.value, out, err);
    free(said.path);
    enum { COMMENT_COLUMN = 28 };
    size_t used = out->length - start;
    xt_str_printf(out, NULL, "%*s  # ", used < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - used) : 0,
                  "");
    print_origin(options, xt_option_index(option), out, NULL);
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
    enum xt_status status = XT_OK;
    int group = -1;
    xt_str_printf(out, NULL, "# Settings of xtrain %s; use them with --config FILE.\n",
                  xt_command_get(options->command)->name);
    for (size_t i = 0; i < xt_option_count && !status; i++) {
        if (!is_printed(options, &xt_option_table[i]))
            continue;
        if ((int)xt_option_table[i].group != group) {
            group = (int)xt_option_table[i].group;
            xt_str_printf(out, NULL, "\n# %s\n", xt_option_group_title(xt_option_table[i].group));
        }
        status = print_option(options, &xt_option_table[i], folder, out, err);
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

enum xt_status xt_options_save_run(const struct xt_options *options, struct xt_trainer *trainer,
                                   struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = xt_options_print_run(options, &text, err);
    if (!status)
        status = xt_trainer_save_settings(trainer, text.data, text.length, err);
    xt_str_clear(&text);
    return status;
}
