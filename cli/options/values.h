/* The options of one start: their values, sources, and the strings that they own.
 * cli/options/options.h fills them; afterwards they are read-only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/commands.h"
#include "cli/options/table.h"
#include "cli/settings.h"
#include "models/recipe.h"

enum { XT_OPTION_SUBJECT = 640 };

enum xt_value_source {
    XT_SOURCE_DEFAULT,
    XT_SOURCE_RECIPE,
    XT_SOURCE_FINE_TUNE,
    XT_SOURCE_RUN, /* the run that the weights are of, or their metadata */
    XT_SOURCE_CONFIG,
    XT_SOURCE_COMMAND_LINE
};

struct xt_origin {
    enum xt_value_source source;
    int line;          /* of the config file */
    const char *given; /* on the command line: the text; otherwise NULL */
    size_t first;      /* of a list: its values start at strings[first] */
    int count;         /* 0: not given as a list */
    bool found;        /* the value is the result of auto */
    const char *was;   /* of a resumed run's config.yaml: the origin that it names; NULL: none */
};

/* What the parser needs to know about the networks. */
struct xt_option_models {
    const char *const *names;                           /* NULL-terminated */
    struct xt_recipes (*recipes_of)(const char *model); /* NULL: none */
};

/* The network that is called so, in any case and spelling; NULL: none. */
const char *xt_options_model(const struct xt_option_models *models, const char *name);

struct xt_options {
    struct xt_settings values;
    enum xt_command_id command;
    const struct xt_option_models *models; /* as given to parse */
    int argc;                              /* as given to parse */
    const char *const *argv;
    const char **arguments; /* non-option arguments, e.g. the files to predict */
    int argument_count;
    struct xt_origin origins[XT_OPTIONS_MAX]; /* in the table's order */
    int config_lines[XT_OPTIONS_MAX];         /* 0: not in the config file */
    char **strings;                           /* storage for `values` from the config file */
    size_t string_count;
    const char *run_config; /* of the run that the weights are of; NULL: none */
    const struct xt_option
        *repeated;  /* given more than once, of which the last holds; NULL: none */
    char *run_text; /* the config.yaml of the run that is resumed */
    bool goes_on;   /* values.config is that of the run that --resume names */
};

/* The source of the option `name`. */
enum xt_value_source xt_options_source(const struct xt_options *options, const char *name);

/* The number of values given for the option `name`; 1 if it is not a list. `values` holds the
 * first. */
int xt_options_count(const struct xt_options *options, const char *name);
/* Stores value `index` of the option in `settings`. */
enum xt_status xt_options_pick(const struct xt_options *options, const char *name, int index,
                               struct xt_settings *settings, struct xt_err *err);

/* Parses as the option's type does; messages name the choices that the command takes. */
enum xt_status xt_options_parse_value(const struct xt_option *option, enum xt_command_id command,
                                      const char *subject, const char *text, void *value,
                                      struct xt_err *err);
/* Parses and checks `text`; the value is stored unless a higher source has set it. Text values
 * point to `text` itself. */
enum xt_status xt_options_set(struct xt_options *options, const struct xt_option *option,
                              const char *subject, const char *text, struct xt_origin origin,
                              struct xt_err *err);
/* A copy of `text` that lives as long as the options. */
enum xt_status xt_options_keep(struct xt_options *options, const char *text, const char **stored,
                               struct xt_err *err);

const void *xt_options_value(const struct xt_options *options, const struct xt_option *option);
/* How an error names the option, by its source. */
void xt_options_subject(char out[XT_OPTION_SUBJECT], const struct xt_options *options,
                        const char *name);
