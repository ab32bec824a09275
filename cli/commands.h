/* The subcommands: what each is called, what it takes, and the function that does it. The list is
 * plain data, so that parser, help and completion know it without linking what the commands need;
 * cli/main.c puts the functions beside it.
 */
#ifndef XT_CLI_COMMANDS_H
#define XT_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct xt_options;

enum xt_command_id {
    XT_COMMAND_TRAIN, /* also where no command is named */
    XT_COMMAND_SWEEP,
    XT_COMMAND_EVAL,
    XT_COMMAND_PREDICT,
    XT_COMMAND_REPORT,
    XT_COMMAND_COMPARE,
    XT_COMMAND_VERIFY,
    XT_COMMAND_EXPORT,
    XT_COMMAND_DIFF,
    XT_COMMAND_SERVE,
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
    XT_COMMAND_DOCTOR,
    XT_COMMAND_SELFTEST,
    XT_COMMAND_CACHE,
    XT_COMMAND_HELP,
    XT_COMMAND_MAN,
    XT_COMMAND_COMPLETION,
    XT_COMMAND_COUNT,
};

struct xt_command {
    const char *name; /* one word or two ("bench loader") */
    const char *summary;
    const char *arguments; /* what it takes beside options, for the usage line; NULL: nothing */
    int least_arguments;
    const char *details; /* a paragraph for its help; NULL: none */
};

const struct xt_command *xt_command_get(enum xt_command_id id);

/* The command that the first one or two words name; *words (may be NULL) gets how many. Returns
 * XT_COMMAND_COUNT where there is none of that name. */
enum xt_command_id xt_command_find(const char *const *argv, int argc, int *words);

/* Whether the word is the first of commands of two words: "data", "bench". */
bool xt_command_is_group(const char *word);
/* The command that is meant by a word that is none: what other programs call it, or one spelt
 * nearly so; NULL: none. */
const char *xt_command_meant(const char *word);

/* Each returns the exit code; the error's sentence is printed by main. */
enum xt_status xt_cmd_train(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_sweep(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_predict(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_report(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_compare(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_verify(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_export(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_diff(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_serve(struct xt_options *options, struct xt_err *err);
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
enum xt_status xt_cmd_doctor(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_selftest(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_cache(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_help(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_man(struct xt_options *options, struct xt_err *err);
enum xt_status xt_cmd_completion(struct xt_options *options, struct xt_err *err);
/* What --version does. */
enum xt_status xt_cmd_version(struct xt_options *options, struct xt_err *err);

#endif
