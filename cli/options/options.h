/* The option parser: fills the settings of a run from command line, config file and recipe, by the
 * table (cli/options/table.h).
 *
 * Precedence: command line, config file, the model's recipe for fine-tuning (--init, in training),
 * its recipe, the default; each value remembers its source. A `struct xt_options` owns the strings
 * from a config file; those from the command line stay in argv, which must outlive it. Errors are
 * XT_ERR_USAGE. Not thread-safe while parsing; afterwards read-only.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/options/values.h"
#include "cli/settings.h"

/* Parses the arguments after the command's name (argv[0] is the first of them), then the config
 * file (without --config that of the run that --resume PATH names) and the recipe. `options` may be
 * uninitialised; clear it also after a failure. With --help or --version nothing else is checked.
 * `models` may be NULL: any model, no recipe. */
enum xt_status xt_options_parse(struct xt_options *options, int argc, const char *const *argv,
                                enum xt_command_id command, const struct xt_option_models *models,
                                struct xt_err *err);
void xt_options_clear(struct xt_options *options);

/* The subset of the settings that inference uses. */
struct xt_infer_settings xt_options_infer(const struct xt_settings *settings);
/* The subset of the settings that a trainer uses; its lister borrows them. */
struct xt_train_settings xt_options_train(const struct xt_settings *settings);

/* The options for which the recipe differs from the default, one line per source. */
enum xt_status xt_options_print_recipe(const struct xt_options *options, struct xt_str *out,
                                       struct xt_err *err);

/* Stores the result of --batch auto. */
void xt_options_found_batch(struct xt_options *options, int batch);

/* Lists the options that define a training run, by the table. */
enum xt_status xt_options_list_run(const struct xt_settings *settings, struct xt_run_options *out,
                                   struct xt_err *err);

/* Adds the options that all ranks need alike to the facts that they compare (ranks/facts.h). */
enum xt_status xt_options_list_for_ranks(const struct xt_options *options, struct xt_str *facts,
                                         struct xt_err *err);

/* If --init is a run's folder, selects the weights in it: the best, else the last. */
enum xt_status xt_options_find_weights(struct xt_options *options, struct xt_err *err);

/* Writes the settings of the command as a config file, each line with a comment on its source. */
enum xt_status xt_options_print(const struct xt_options *options, struct xt_str *out,
                                struct xt_err *err);
/* Saves them beside a run's results, as a file that --config takes and --resume reads. */
struct xt_trainer;
enum xt_status xt_options_save_run(const struct xt_options *options, struct xt_trainer *trainer,
                                   struct xt_err *err);
/* As xt_options_print, for the run's folder: with absolute paths, and without --resume. */
enum xt_status xt_options_print_run(const struct xt_options *options, struct xt_str *out,
                                    struct xt_err *err);
