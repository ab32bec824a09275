/* Option types: how a value is parsed from text, checked against its range, and written back. Each
 * type is a small table of functions; an option names its type, and nothing else in the program
 * turns text into settings.
 *
 * A number is parsed completely and in decimal: no spaces, hexadecimal, leading zeros, nan or inf.
 * Errors are XT_ERR_USAGE, begin with the caller's `subject` ("--batch", "run.yaml:3: batch") and
 * name the range and the given text. Stateless, thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "runs/run_options.h"

struct xt_option;

struct xt_option_type {
    const char *placeholder; /* help's name for the value, unless the option has its own */
    size_t size;             /* of the value in the settings */
    bool takes_value;        /* false: a flag */
    bool may_be_quoted;      /* in a config file: text, not a number or a boolean */
    bool is_free_text; /* any text is valid, so an unquoted number or boolean in a config file is
                          suspect */
    bool is_list;      /* a config file may write it as a sequence */
    const char *takes; /* the valid values in words; NULL: the range or the choices say them */
    /* Text values are stored as pointers to `text` itself. */
    enum xt_status (*parse)(const struct xt_option *option, const char *subject, const char *text,
                            void *value, struct xt_err *err);
    /* Appends the value as the command line takes it; for a flag true or false, nothing if there is
     * no value. */
    enum xt_status (*spell)(const struct xt_option *option, const void *value, struct xt_str *out,
                            struct xt_err *err);
    /* For a path: the absolute path of `text` relative to `folder` (which ends in a slash); release
     * with free. NULL: not a path. */
    enum xt_status (*absolute)(char **out, const char *folder, const char *text,
                               struct xt_err *err);
};

extern const struct xt_option_type xt_type_flag;     /* bool */
extern const struct xt_option_type xt_type_integer;  /* int; 0 for "auto" if accepted */
extern const struct xt_option_type xt_type_int64;    /* int64_t */
extern const struct xt_option_type xt_type_seed;     /* uint64_t, full range */
extern const struct xt_option_type xt_type_real;     /* double, finite */
extern const struct xt_option_type xt_type_duration; /* double, seconds: "90s", "2h", "5ms", "90" */
extern const struct xt_option_type xt_type_gpu;      /* a uint32_t: PCI device id; 0: none */
extern const struct xt_option_type xt_type_choice;   /* an enum: the index into the choices */
extern const struct xt_option_type xt_type_text;     /* const char *, UTF-8, not empty */
extern const struct xt_option_type xt_type_path;     /* as text; completed as a file name */
extern const struct xt_option_type xt_type_source;   /* as path; images, also synthetic ones */
extern const struct xt_option_type xt_type_device;   /* const char *: cpu, xpu, xpu:N, auto */
extern const struct xt_option_type xt_type_reject;   /* struct xt_reject_rule */
extern const struct xt_option_type xt_type_epochs;   /* const char *: "10,20", ascending */

enum xt_option_group {
    XT_GROUP_DATA,
    XT_GROUP_RUN,
    XT_GROUP_RECIPE,
    XT_GROUP_MACHINE,
    XT_GROUP_ANSWER,
    XT_GROUP_SERVICE,
    XT_GROUP_OUTPUT,
    XT_GROUP_COUNT,
};

struct xt_option {
    const char *name; /* as typed, without "--"; the key of a config file has _ for - */
    const char *help; /* see xt_option_meaning */
    enum xt_option_group group;
    unsigned commands; /* bits 1 << enum xt_command_id: commands that have it */
    const struct xt_option_type *type;
    size_t offset;              /* in struct xt_settings */
    unsigned needed;            /* bits: commands that require it */
    unsigned lists;             /* bits: commands that take comma-separated values */
    char letter;                /* of the short form: -v; 0: none */
    enum xt_resume_rule resume; /* for options that affect the weights */
    const char *value;          /* help's name for the value; NULL: the type's */
    const char *fallback;       /* the default, as typed; NULL: not set */
    const char *const *choices; /* NULL-terminated, in the enum's order */
    unsigned not_last;          /* bits: commands that do not take the last choice */
    double min;                 /* numbers and durations */
    double max;
    unsigned automatic;  /* bits: commands that accept auto, which is 0 */
    bool above_min;      /* min itself is excluded */
    bool below_max;      /* max itself is excluded */
    bool by_model;       /* the model's recipe may set it */
    bool not_in_config;  /* command line only */
    const char *spelt;   /* help's name for the option, also understood; NULL: `name` */
    const char *alone;   /* the value that it has without one; NULL: it needs one */
    const char *several; /* the option that takes a list given for this one; NULL: none */
    const char *was;     /* an earlier name, still understood; NULL: none */
    unsigned unlisted;   /* bits: commands that have it, but name it nowhere */
    bool shared;         /* several ranks have to agree on it, though weights do not depend on it */
};

/* Untrusted text made printable: in double quotes, control bytes and invalid UTF-8 as \\xNN,
 * truncated if long. */
struct xt_shown {
    char text[160];
};
struct xt_shown xt_show(const char *text);

/* "a, b or c" from a NULL-terminated list. */
enum xt_status xt_option_list_choices(const char *const *choices, struct xt_str *out,
                                      struct xt_err *err);

/* Describes the valid values: "a whole number from 1 to 64". */
enum xt_status xt_option_describe(const struct xt_option *option, struct xt_str *out,
                                  struct xt_err *err);

/* Appends the value as a config file holds it. */
enum xt_status xt_option_print(const struct xt_option *option, const void *value,
                               struct xt_str *out, struct xt_err *err);

/* True if YAML readers parse the bare word as something other than text (a number, a boolean,
 * null). */
bool xt_option_is_bare_value(const char *text);
