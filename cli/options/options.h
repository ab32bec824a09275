/* The parser of options: it fills the settings of a run from command line, config file and recipe,
 * by the table (cli/options/table.h).
 *
 * What is set where: command line over config file over the model's recipe for given weights
 * (--init, in training) over its recipe over the default; each value remembers where it came from.
 * A `struct xt_options` owns the strings that come from a config file; those of the command line
 * stay in argv, which must outlive it. Errors are XT_ERR_USAGE. Not thread-safe while parsing;
 * afterwards it is only read.
 */
#ifndef XT_CLI_OPTIONS_OPTIONS_H
#define XT_CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/options/values.h"
#include "cli/settings.h"

/* Reads the arguments after the command's name (argv[0] is the first of them), then the config file
 * (without --config that of the run that --resume PATH names) and the recipe. `options` need not be
 * initialised; clear it also after a failure. With --help or
 * --version among the arguments nothing else is checked. `models` may be NULL: any model, no
 * recipe.
 */
enum xt_status xt_options_parse(struct xt_options *options, int argc, const char *const *argv,
                                enum xt_command_id command, const struct xt_option_models *models,
                                struct xt_err *err);
void xt_options_clear(struct xt_options *options);

/* Of all settings, what a network that answers is opened with. */
struct xt_infer_settings xt_options_infer(const struct xt_settings *settings);
/* Of all settings, what a trainer is made by; its lister borrows them. */
struct xt_train_settings xt_options_train(const struct xt_settings *settings);

/* Which options of the recipe have another value than the default, and from where: a line for each
 * source. */
enum xt_status xt_options_print_recipe(const struct xt_options *options, struct xt_str *out,
                                       struct xt_err *err);

/* Takes what --batch auto came to for the value. */
void xt_options_found_batch(struct xt_options *options, int batch);

/* Of any settings, the options that shape what is trained, by the table. */
enum xt_status xt_options_list_run(const struct xt_settings *settings, struct xt_run_options *out,
                                   struct xt_err *err);

/* Where --init is a run's folder, takes the weights in it: the best, else the last. */
enum xt_status xt_options_find_weights(struct xt_options *options, struct xt_err *err);

/* The settings of the command as a config file, each line with a comment that says where the value
 * came from. */
enum xt_status xt_options_print(const struct xt_options *options, struct xt_str *out,
                                struct xt_err *err);
/* The same for a run to keep: with paths that are right from everywhere, and without --resume. */
enum xt_status xt_options_print_run(const struct xt_options *options, struct xt_str *out,
                                    struct xt_err *err);

#endif
