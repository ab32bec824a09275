/* xtrain sweep: writes one config for each combination of values, and a script that runs them.
 *
 * Each combination is parsed as `xtrain train` would parse it, so that errors are found before
 * anything runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/options/options.h"

enum { AXES_MAX = 8, VALUES_MAX = 1000, RUNS_MAX = 1000, NAME_ROOM = 128 };

/* An option and its values. */
struct axis {
    const struct xt_option *option;
    char **values;
    int count;
};

struct sweep {
    const struct xt_options *options;
    struct axis axes[AXES_MAX];
    int axis_count;
    int run_count;
};

/* ---- axes ---- */

static enum xt_status add_value(struct axis *axis, const char *text, struct xt_err *err)
{
    if (axis->count == VALUES_MAX)
        return xt_err_set(err, XT_ERR_USAGE, "%s has more than %d values", axis->option->name,
                          VALUES_MAX);
    for (int i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], text) == 0)
            return xt_err_set(err, XT_ERR_USAGE, "%s=%s is given twice", axis->option->name, text);
    enum xt_status status = xt_mem_strdup(&axis->values[axis->count], text, err);
    axis->count += !status;
    return status;
}

/* "1..3" is 1, 2, 3. */
static enum xt_status add_range(struct axis *axis, int64_t first, int64_t last, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (last < first)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s=%" PRId64 "..%" PRId64 " is empty: write the smaller number first",
                          axis->option->name, first, last);
    for (int64_t value = first; value <= last && !status; value++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRId64, value);
        status = add_value(axis, text, err);
    }
    return status;
}

/* One value or range between commas. */
static enum xt_status add_part(struct axis *axis, const char *part, struct xt_err *err)
{
    int64_t first = 0;
    int64_t last = 0;
    int used = 0;
    if (sscanf(part, "%18" SCNd64 "..%18" SCNd64 "%n", &first, &last, &used) == 2 && !part[used])
        return add_range(axis, first, last, err);
    return *part ? add_value(axis, part, err)
                 : xt_err_set(err, XT_ERR_USAGE, "%s has an empty value", axis->option->name);
}

static enum xt_status add_values(struct axis *axis, const char *list, struct xt_err *err)
{
    char *copy = NULL;
    enum xt_status status = xt_mem_strdup(&copy, list, err);
    char *rest = copy;
    for (char *part; !status && (part = strsep(&rest, ","));)
        status = add_part(axis, part, err);
    free(copy);
    return status;
}

static bool is_swept(const struct sweep *sweep, const struct xt_option *option)
{
    for (int i = 0; i < sweep->axis_count; i++)
        if (sweep->axes[i].option == option)
            return true;
    return false;
}

/* Options that define the run's identity or location cannot be swept. */
static bool can_be_swept(const struct xt_option *option)
{
    return option && xt_option_is_for(option, XT_COMMAND_TRAIN) && !option->not_in_config &&
           option->group != XT_GROUP_OUTPUT && strcmp(option->name, "out") != 0 &&
           strcmp(option->name, "resume") != 0;
}

/* Parses "lr=1e-4,1e-3"; as in a config file _ may stand for -. */
static enum xt_status add_axis(struct sweep *sweep, const char *argument, struct xt_err *err)
{
    const char *equals = strchr(argument, '=');
    char name[64];
    size_t length = equals ? (size_t)(equals - argument) : 0;
    if (!length || length >= sizeof name || !equals[1])
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s does not say what to sweep: write NAME=VALUE,VALUE or NAME=1..3, as "
                          "in lr=1e-4,1e-3 seed=1..3",
                          xt_show(argument).text);
    for (size_t i = 0; i < length; i++)
        name[i] = argument[i] == '_' ? '-' : argument[i];
    name[length] = '\0';
    const char *bare = name + (xt_str_starts(name, "--") ? 2 : 0);
    const struct xt_option *option = xt_option_find(bare);
    if (!can_be_swept(option))
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s is not a training option that can be swept",
                          xt_show(argument).text, xt_show(bare).text);
    if (is_swept(sweep, option))
        return xt_err_set(err, XT_ERR_USAGE, "%s is swept twice; write its values with commas",
                          option->name);
    if (sweep->axis_count == AXES_MAX)
        return xt_err_set(err, XT_ERR_USAGE, "more than %d options are swept", AXES_MAX);
    struct axis *axis = &sweep->axes[sweep->axis_count++];
    axis->option = option;
    enum xt_status status =
        xt_mem_calloc(&axis->values, VALUES_MAX, sizeof *axis->values, "values", err);
    return status ? status : add_values(axis, equals + 1, err);
}

static enum xt_status add_axes(struct sweep *sweep, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    sweep->run_count = 1;
    for (int i = 0; i < sweep->options->argument_count && !status; i++) {
        status = add_axis(sweep, sweep->options->arguments[i], err);
        if (status)
            break;
        sweep->run_count *= sweep->axes[i].count;
        if (sweep->run_count > RUNS_MAX)
            status = xt_err_set(err, XT_ERR_USAGE, "these are more than %d runs", RUNS_MAX);
    }
    return status;
}

/* The value of an axis in run `run`; the last axis changes fastest. */
static const char *value_in(const struct sweep *sweep, int axis, int run)
{
    for (int i = sweep->axis_count - 1; i > axis; i--)
        run /= sweep->axes[i].count;
    return sweep->axes[axis].values[run % sweep->axes[axis].count];
}

/* "003-lr=1e-3,seed=2": a valid file name everywhere. */
static void name_of(const struct sweep *sweep, int run, char name[NAME_ROOM])
{
    snprintf(name, NAME_ROOM, "%03d", run + 1);
    for (int i = 0; i < sweep->axis_count; i++)
        xt_str_append_to(name, NAME_ROOM, "%c%s=%.40s", i ? ',' : '-', sweep->axes[i].option->name,
                         value_in(sweep, i, run));
    for (char *at = name; *at; at++)
        if (!strchr("=,.-_+", *at) && !(*at >= '0' && *at <= '9') && !(*at >= 'a' && *at <= 'z') &&
            !(*at >= 'A' && *at <= 'Z'))
            *at = '_';
}

/* ---- one run's config ---- */

struct words {
    const char **items;
    int count;
};

/* Copies the arguments except swept options and locations. */
static bool is_argument(const struct xt_options *options, const char *word)
{
    for (int i = 0; i < options->argument_count; i++)
        if (options->arguments[i] == word)
            return true;
    return strcmp(word, "--") == 0;
}

static void add_typed(const struct xt_options *options, struct words *words)
{
    for (int i = 0; i < options->argc; i++) {
        const char *word = options->argv[i];
        if (strcmp(word, "--out") == 0)
            i++;
        else if (!xt_str_starts(word, "--out=") && !is_argument(options, word))
            words->items[words->count++] = word;
    }
}

static bool is_yes(const char *value)
{
    return strcmp(value, "true") == 0;
}

/* `texts` owns the words created here. */
static enum xt_status add_swept(const struct sweep *sweep, int run, struct words *words,
                                char *texts[AXES_MAX], struct xt_err *err)
{
    for (int i = 0; i < sweep->axis_count; i++) {
        const struct xt_option *option = sweep->axes[i].option;
        const char *value = value_in(sweep, i, run);
        bool is_flag = !option->type->takes_value;
        if (is_flag && !is_yes(value) && strcmp(value, "false") != 0)
            return xt_err_set(err, XT_ERR_USAGE, "%s takes true and false, not %s", option->name,
                              xt_show(value).text);
        int length = is_flag
                         ? asprintf(&texts[i], "--%s%s", is_yes(value) ? "" : "no-", option->name)
                         : asprintf(&texts[i], "--%s=%s", option->name, value);
        if (length < 0) {
            texts[i] = NULL;
            return xt_err_no_memory(err, "an option", strlen(value));
        }
        words->items[words->count++] = texts[i];
    }
    return XT_OK;
}

static enum xt_status parse_run(const struct sweep *sweep, int run, const char *folder,
                                struct xt_options *out, struct words *words, char *texts[AXES_MAX],
                                struct xt_err *err)
{
    add_typed(sweep->options, words);
    words->items[words->count++] = "--out";
    words->items[words->count++] = folder;
    enum xt_status status = add_swept(sweep, run, words, texts, err);
    return status ? status
                  : xt_options_parse(out, words->count, words->items, XT_COMMAND_TRAIN,
                                     sweep->options->models, err);
}

/* The text of NAME.yaml, for a run in `folder`. */
static enum xt_status print_run(const struct sweep *sweep, int run, const char *folder,
                                struct xt_str *text, struct xt_err *err)
{
    struct xt_options options = {0};
    struct words words = {NULL, 0};
    char *texts[AXES_MAX] = {NULL};
    char name[NAME_ROOM];
    size_t most = (size_t)sweep->options->argc + AXES_MAX + 2;
    enum xt_status status = xt_mem_calloc(&words.items, most, sizeof *words.items, "options", err);
    if (!status)
        status = parse_run(sweep, run, folder, &options, &words, texts, err);
    if (!status)
        status = xt_options_print_run(&options, text, err);
    name_of(sweep, run, name);
    if (status)
        xt_err_prefix(err, "%s: ", name);
    xt_options_clear(&options);
    for (int i = 0; i < AXES_MAX; i++)
        free(texts[i]);
    free(words.items);
    return status;
}

/* ---- the folder ---- */

static enum xt_status save(const char *folder, const char *name, const char *ending,
                           const struct xt_str *text, struct xt_err *err)
{
    char file[NAME_ROOM + 16];
    snprintf(file, sizeof file, "%s%s", name, ending);
    const struct xt_path path = xt_file_path(folder, file);
    enum xt_status status = xt_file_save(path.text, text->data, text->length, err);
    return status;
}

static enum xt_status save_config(const struct sweep *sweep, int run, bool check_only,
                                  struct xt_err *err)
{
    const char *out = sweep->options->values.record.out;
    struct xt_str text = {0};
    char name[NAME_ROOM];
    name_of(sweep, run, name);
    const struct xt_path folder = xt_file_path(out, name);
    enum xt_status status = print_run(sweep, run, folder.text, &text, err);
    if (!status && !check_only)
        status = save(out, name, ".yaml", &text, err);
    xt_str_clear(&text);
    return status;
}

static enum xt_status save_list(const struct sweep *sweep, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = XT_OK;
    for (int run = 0; run < sweep->run_count && !status; run++) {
        char name[NAME_ROOM];
        name_of(sweep, run, name);
        status = xt_str_printf(&text, err, "%s\n", name);
    }
    if (!status)
        status = save(sweep->options->values.record.out, "runs", ".txt", &text, err);
    xt_str_clear(&text);
    return status;
}

/* The rest of the script; its first lines name the program. */
static const char script[] =
    "# Runs the sweep in this folder: each run is restarted until it is complete, then a "
    "table.\n"
    "#   run.sh      all runs in sequence; called again it resumes\n"
    "#   run.sh N    one start of run N, with the exit code of xtrain: 75, start it again\n"
    "# As jobs: sbatch --array=1-N configs/slurm.sh FOLDER, with xtrain's configs/slurm.sh.\n"
    "set -u\n"
    "case $xtrain in /*) ;; */*) xtrain=$PWD/$xtrain ;; esac\n"
    "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
    "if [ $# -gt 0 ]; then\n"
    "  name=$(sed -n \"$1p\" \"$here/runs.txt\")\n"
    "  [ -n \"$name\" ] || { echo \"run.sh: there is no run $1\" >&2; exit 2; }\n"
    "  exec \"$xtrain\" --config \"$here/$name.yaml\" --out \"$here/$name\" --resume auto\n"
    "fi\n"
    "child= asked=\n"
    "trap 'asked=75; [ -z \"$child\" ] || kill -TERM $child' TERM\n"
    "trap 'asked=130; [ -z \"$child\" ] || kill -TERM $child' INT\n"
    "failed=0 number=0\n"
    "while read -r name; do\n"
    "  number=$((number + 1)) code=75\n"
    "  echo \"run $number: $name\"\n"
    "  while [ $code = 75 ] && [ -z \"$asked\" ]; do\n"
    "    sh \"$here/run.sh\" $number </dev/null &\n"
    "    child=$! code=0\n"
    "    wait $child || code=$?\n"
    "    [ -z \"$asked\" ] || { wait $child; exit $asked; }\n"
    "    child=\n"
    "  done\n"
    "  [ $code != 130 ] || exit 130\n"
    "  [ $code = 0 ] || { echo \"run $number ended with code $code\" >&2; failed=1; }\n"
    "done <\"$here/runs.txt\"\n"
    "cd \"$here\" || exit 1\n"
    "set --\n"
    "for name in $(cat runs.txt); do [ ! -e \"$name/metrics.jsonl\" ] || set -- \"$@\" \"$name\"; "
    "done\n"
    "[ $# -lt 2 ] || \"$xtrain\" compare \"$@\" || failed=1\n"
    "exit $failed\n";

/* The script uses the current program unless $XTRAIN names another. */
static enum xt_status print_script(struct xt_str *text, struct xt_err *err)
{
    char *folder = NULL;
    enum xt_status status = xt_file_program_folder(&folder, err);
    if (status)
        return status;
    xt_str_printf(text, NULL, "#!/bin/sh\nxtrain=${XTRAIN:-");
    xt_str_append_word(text, xt_file_path(folder, program_invocation_short_name).text, NULL);
    free(folder);
    return xt_str_printf(text, err, "}\n%s", script);
}

static enum xt_status save_script(const struct sweep *sweep, struct xt_err *err)
{
    const char *out = sweep->options->values.record.out;
    struct xt_str text = {0};
    enum xt_status status = print_script(&text, err);
    if (!status)
        status = save(out, "run", ".sh", &text, err);
    const struct xt_path path = xt_file_path(out, "run.sh");
    if (!status && chmod(path.text, 0755))
        status = xt_err_set(err, XT_ERR_RUN, "cannot make %s executable", path.text);
    xt_str_clear(&text);
    return status;
}

/* Checks everything before anything is written. */
static enum xt_status write_all(const struct sweep *sweep, struct xt_err *err)
{
    const char *out = sweep->options->values.record.out;
    enum xt_status status = XT_OK;
    for (int run = 0; run < sweep->run_count && !status; run++)
        status = save_config(sweep, run, true, err);
    if (!status && xt_file_exists(out))
        status = xt_err_set(err, XT_ERR_USAGE, "--out %s exists; a sweep needs a new folder", out);
    if (!status)
        status = xt_file_make_folder(out, err);
    for (int run = 0; run < sweep->run_count && !status; run++)
        status = save_config(sweep, run, false, err);
    if (!status)
        status = save_list(sweep, err);
    return status ? status : save_script(sweep, err);
}

static enum xt_status tell(const struct sweep *sweep, const char *out, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_values(report, "path=%s configs=%d", out, sweep->run_count);
    xt_report_line(report,
                   "%s written to %s; run them by %s/run.sh, or as jobs by sbatch --array=1-%d "
                   "configs/slurm.sh %s",
                   xt_count(sweep->run_count, "config").text, out, out, sweep->run_count, out);
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_sweep(struct xt_options *options, struct xt_err *err)
{
    struct sweep sweep = {.options = options};
    const char *out = options->values.record.out;
    if (options->values.record.resume)
        return xt_err_set(err, XT_ERR_USAGE,
                          "xtrain sweep takes no --resume; its run.sh resumes the runs");
    if (!out)
        return xt_err_set(err, XT_ERR_USAGE,
                          "xtrain sweep needs --out DIR: a new folder for its configs and runs");
    enum xt_status status = add_axes(&sweep, err);
    if (!status)
        status = write_all(&sweep, err);
    if (!status)
        status = tell(&sweep, out, err);
    for (int i = 0; i < sweep.axis_count; i++) {
        for (int k = 0; k < sweep.axes[i].count; k++)
            free(sweep.axes[i].values[k]);
        free(sweep.axes[i].values);
    }
    return status;
}
