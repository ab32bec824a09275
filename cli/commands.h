/* The subcommands: name, arguments and help of each. The list is plain data, so that the parser,
 * help and completion can use it without linking the commands; cli/main.c adds the functions. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct xt_options;

enum xt_command_id {
    XT_COMMAND_TRAIN, /* also where no command is named */
    XT_COMMAND_TRY,
    XT_COMMAND_SWEEP,
    XT_COMMAND_EVAL,
    XT_COMMAND_PREDICT,
    XT_COMMAND_REPORT,
    XT_COMMAND_COMPARE,
    XT_COMMAND_VERIFY,
    XT_COMMAND_EXPORT,
    XT_COMMAND_DIFF,
    XT_COMMAND_SERVE,
    XT_COMMAND_MODELS,
    XT_COMMAND_DEVICES,
    XT_COMMAND_BENCH_STEP,
    XT_COMMAND_BENCH_INFER,
    XT_COMMAND_BENCH_LOADER,
    XT_COMMAND_BENCH_START,
    XT_COMMAND_BENCH_SCALE,
    XT_COMMAND_WARMUP,
    XT_COMMAND_DATA_CHECK,
    XT_COMMAND_DATA_SPLIT,
    XT_COMMAND_DATA_PACK,
    XT_COMMAND_DATA_GET,
    XT_COMMAND_DOCTOR,
    XT_COMMAND_SELFTEST,
    XT_COMMAND_CACHE,
    XT_COMMAND_HELP,
    XT_COMMAND_VERSION,
    XT_COMMAND_MAN,
    XT_COMMAND_SCHEMA,
    XT_COMMAND_COMPLETION,
    XT_COMMAND_COUNT,
};

enum xt_takes_weights {
    XT_WEIGHTS_NO,
    XT_WEIGHTS_FIRST, /* others follow */
    XT_WEIGHTS_ALONE, /* the only argument */
};

struct xt_command {
    const char *name; /* one word or two ("bench loader") */
    const char *summary;
    const char *arguments; /* non-option arguments, for the usage line; NULL: none */
    int least_arguments;
    enum xt_takes_weights takes_weights; /* whether the first argument is weights */
    bool is_aside;                       /* the overview names it only */
    const char *details;                 /* a paragraph for its help, or NULL */
};

const struct xt_command *xt_command_get(enum xt_command_id id);

/* The command named by the first one or two words; *words (may be NULL) gets how many matched.
 * XT_COMMAND_COUNT for an unknown name. */
enum xt_command_id xt_command_find(const char *const *argv, int argc, int *words);

/* What the commands of a group are for; `name` begins with the group's. */
const char *xt_command_group_summary(const char *name);
/* True for the first word of two-word commands: "data", "bench". */
bool xt_command_is_group(const char *word);
/* Suggests a command for an unknown word: a synonym from another program or the nearest spelling;
 * NULL for no suggestion. */
const char *xt_command_meant(const char *word);
/* XT_ERR_USAGE: there is no such command, with a suggestion; or the word is of a group. */
enum xt_status xt_command_refuse(const char *word, struct xt_err *err);

/* Each returns the exit status; main prints the error. */
enum xt_status xt_cmd_train(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_try(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_sweep(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_predict(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_report(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_compare(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_verify(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_export(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_diff(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_serve(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_models(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_devices(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_bench_step(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_bench_infer(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_bench_loader(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_warmup(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_bench_start(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_bench_scale(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_data_check(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_data_split(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_data_pack(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_data_get(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_doctor(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_selftest(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_cache(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_help(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_schema(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_man(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_completion(struct xt_options *options, struct xt_err *err);
/* Implements --version. */
enum xt_status xt_cmd_version(struct xt_options *options, struct xt_err *err);
