/* The program: finds the command, parses its options, runs it, and maps the result to an exit code.
 * The only file that exits the process. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/system/stop.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "cli/placement.h"
#include "cli/progress.h"
#include "device/dnnl.h"
#include "device/faults/guard.h"
#include "device/faults/watchdog.h"
#include "cli/ranks.h"
#include "models/registry.h"
#include "ranks/ranks.h"

typedef enum xt_status command_function(struct xt_options *options, struct xt_err *err);

static command_function *const functions[XT_COMMAND_COUNT] = {
    [XT_COMMAND_TRAIN] = xt_cmd_train,
    [XT_COMMAND_TRY] = xt_cmd_try,
    [XT_COMMAND_SWEEP] = xt_cmd_sweep,
    [XT_COMMAND_EVAL] = xt_cmd_eval,
    [XT_COMMAND_PREDICT] = xt_cmd_predict,
    [XT_COMMAND_REPORT] = xt_cmd_report,
    [XT_COMMAND_COMPARE] = xt_cmd_compare,
    [XT_COMMAND_EXPORT] = xt_cmd_export,
    [XT_COMMAND_DIFF] = xt_cmd_diff,
    [XT_COMMAND_SERVE] = xt_cmd_serve,
    [XT_COMMAND_MODELS] = xt_cmd_models,
    [XT_COMMAND_DEVICES] = xt_cmd_devices,
    [XT_COMMAND_BENCH_STEP] = xt_cmd_bench_step,
    [XT_COMMAND_BENCH_INFER] = xt_cmd_bench_infer,
    [XT_COMMAND_BENCH_LOADER] = xt_cmd_bench_loader,
    [XT_COMMAND_BENCH_START] = xt_cmd_bench_start,
    [XT_COMMAND_BENCH_SCALE] = xt_cmd_bench_scale,
    [XT_COMMAND_WARMUP] = xt_cmd_warmup,
    [XT_COMMAND_DATA_CHECK] = xt_cmd_data_check,
    [XT_COMMAND_DATA_SPLIT] = xt_cmd_data_split,
    [XT_COMMAND_DATA_PACK] = xt_cmd_data_pack,
    [XT_COMMAND_DATA_GET] = xt_cmd_data_get,
    [XT_COMMAND_DOCTOR] = xt_cmd_doctor,
    [XT_COMMAND_VERIFY] = xt_cmd_verify,
    [XT_COMMAND_SELFTEST] = xt_cmd_selftest,
    [XT_COMMAND_CACHE] = xt_cmd_cache,
    [XT_COMMAND_HELP] = xt_cmd_help,
    [XT_COMMAND_VERSION] = xt_cmd_version,
    [XT_COMMAND_MAN] = xt_cmd_man,
    [XT_COMMAND_SCHEMA] = xt_cmd_schema,
    [XT_COMMAND_COMPLETION] = xt_cmd_completion,
};

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static enum xt_status unknown_command(const char *word, const struct xt_option_models *models,
                                      struct xt_err *err)
{
    const char *model = xt_options_model(models, word);
    if (model)
        return xt_err_set(err, XT_ERR_USAGE,
                          "there is no command %s; to train that network write --model %s",
                          xt_show(word).text, model);
    if (xt_file_is_folder(word))
        return xt_err_set(err, XT_ERR_USAGE,
                          "there is no command %s; to begin with that folder of images write "
                          "xtrain try %s",
                          xt_show(word).text, xt_show(word).text);
    return xt_command_refuse(word, err);
}

/* A group name alone ("xtrain data"): --help lists its commands, otherwise an error says what is
 * missing. */
static enum xt_status run_group(int argc, const char *const *argv,
                                const struct xt_option_models *models, struct xt_err *err)
{
    struct xt_str text = {0};
    bool asks = argc > 1 && is_help(argv[1]);
    if (argc > 1 && argv[1][0] != '-') {
        char both[64];
        snprintf(both, sizeof both, "%.30s %.30s", argv[0], argv[1]);
        return unknown_command(both, models, err);
    }
    enum xt_status status = xt_help_group(argv[0], &text, err);
    if (!status && asks)
        fputs(xt_str_get(&text), stdout);
    else if (!status)
        status = xt_command_refuse(argv[0], err);
    xt_str_clear(&text);
    return status;
}

/* Prints --help: the overview if no command was named. */
static enum xt_status show_help(const struct xt_options *options, bool named, struct xt_err *err)
{
    struct xt_str text = {0};
    const char *model = options->values.network.model;
    enum xt_status status = named || model || options->values.request.all
                                ? xt_help_command(options->command, options->models, model,
                                                  options->values.request.all, &text, err)
                                : xt_help_overview(&text, err);
    if (!status)
        fputs(xt_str_get(&text), stdout);
    xt_str_clear(&text);
    return status;
}

static enum xt_status show_config(const struct xt_options *options, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = xt_options_print(options, &text, err);
    if (!status)
        fputs(xt_str_get(&text), stdout);
    xt_str_clear(&text);
    return status;
}

static enum xt_status work(struct xt_options *options, struct xt_err *err)
{
    struct xt_kernel_progress kernels;
    xt_kernel_progress_init(&kernels, options->values.output.quiet, xt_result_is_json());
    options->values.network.kernels = &kernels.observer;
    xt_watchdog_set_timeout(options->values.device.timeout);
    enum xt_status status = xt_options_find_weights(options, err);
    return status ? status : functions[options->command](options, err);
}

static enum xt_status run_command(struct xt_options *options, bool named, struct xt_err *err)
{
    const struct xt_settings *values = &options->values;
    if (values->request.help)
        return show_help(options, named, err);
    if (values->request.version)
        return xt_cmd_version(options, err);
    if (values->request.parse_only)
        return XT_OK;
    if (values->request.print_config)
        return show_config(options, err);
    xt_log_set_level(values->output.quiet     ? XT_LOG_QUIET
                     : values->output.verbose ? XT_LOG_VERBOSE
                                              : XT_LOG_NORMAL);
    xt_log_set_time(values->output.log_time);
    if (options->repeated)
        xt_log_detail("--%s is given more than once; the last one holds",
                      xt_option_spelling(options->repeated));
    /* Rank placement decides which CPUs the process may use. */
    enum xt_status status = xt_cli_ranks_open(options, err);
    if (!status)
        status = xt_placement_check_threads(&values->device, err);
    if (!status)
        status = work(options, err);
    return xt_ranks_end(values->ranks, status, err);
}

/* Before the options are parsed, since a mistake in them is a result too. */
static enum xt_result_form form_of(int argc, const char *const *argv)
{
    enum xt_result_form form = XT_RESULT_TEXT;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--jsonl") == 0)
            form = XT_RESULT_LINES;
        else if (strcmp(argv[i], "--json") == 0 && form == XT_RESULT_TEXT)
            form = XT_RESULT_JSON;
    return form;
}

/* --version and -V are the command version, whatever stands before. */
static bool asks_version(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0 && !is_help(argv[i]); i++)
        if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0)
            return true;
    return false;
}

static bool is_alone(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--alone") == 0)
            return true;
    return false;
}

enum { MODELS_MAX = 31 };

static void list_models(const char *names[MODELS_MAX + 1])
{
    for (size_t i = 0; xt_model_at(i) && i < MODELS_MAX; i++)
        names[i] = xt_model_at(i)->name;
}

static enum xt_status run(int argc, const char *const *argv, struct xt_err *err)
{
    const char *names[MODELS_MAX + 1] = {NULL};
    const struct xt_option_models models = {.names = names, .recipes_of = xt_model_recipes};
    list_models(names);
    enum xt_command_id command = XT_COMMAND_TRAIN;
    int words = 0;
    if (argc > 0 && argv[0][0] != '-')
        command = xt_command_find(argv, argc, &words);
    bool helps = argc > 1 && is_help(argv[0]) && argv[1][0] != '-';
    if (helps)
        command = xt_command_find(argv + 1, argc - 1, NULL);
    if (helps && command == XT_COMMAND_COUNT)
        command = XT_COMMAND_TRAIN, helps = false;
    xt_result_begin(asks_version(argc, argv) ? XT_COMMAND_VERSION : command, form_of(argc, argv));
    if (!is_alone(argc, argv) && !xt_cli_ranks_speaks(command))
        xt_result_mute();
    if (argc > 0 && argv[0][0] != '-') {
        if (command == XT_COMMAND_COUNT && xt_command_is_group(argv[0]))
            return run_group(argc, argv, &models, err);
        if (command == XT_COMMAND_COUNT)
            return unknown_command(argv[0], &models, err);
    }
    struct xt_options options;
    enum xt_status status =
        xt_options_parse(&options, argc - words, argv + words, command, &models, err);
    if (!status)
        status = run_command(&options, words > 0 || helps, err);
    xt_options_clear(&options);
    return status;
}

/* A closed pipe (`| head`) is not a failure; a full disk is. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* Flushes output; false, with errno, if not all of it could be written. */
static bool write_out(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout) && fclose(stdout) == 0)
        return true;
    int why = errno;
    bool fine = reader_is_gone();
    errno = why;
    return fine;
}

/* If a standard stream is closed, the next file opened would get its descriptor; open returns the
 * lowest free one. */
static void open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return;
}

/* In any thread, where memory has run out. */
static void end_without_memory(void)
{
    xt_log_error("out of memory: oneDNN could not continue; a smaller --batch or fewer "
                 "--threads need less, or raise the limit (ulimit -v, the cgroup)");
    xt_result_last_words("", "out of memory", XT_ERR_MEMORY);
    _exit(XT_ERR_MEMORY);
}

/* Where the driver of a GPU crashes or hangs. */
static void end_without_device(void *context, const char *sentence)
{
    char text[1200];
    (void)context;
    snprintf(text, sizeof text, "xtrain: error: %s", sentence);
    xt_log_error_from_signal(text);
    xt_result_last_words("", sentence, XT_ERR_DEVICE);
    _exit(XT_ERR_DEVICE);
}

static void end_at_once(enum xt_status status)
{
    xt_result_last_words("", "ended by a second signal", status);
}

int main(int argc, char **argv)
{
    struct xt_err err = {.status = XT_OK};
    open_standard_streams();
    /* A log of both streams has their lines in order, and a pipe's reader each line at once. */
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    xt_stop_watch();
    xt_stop_on_end(end_at_once);
    xt_dnnl_on_no_memory(end_without_memory);
    xt_guard_set_end((struct xt_guard_speaker){.end = end_without_device, .catches_crashes = true});
    enum xt_status status =
        run(argc > 0 ? argc - 1 : 0, (const char *const *)argv + (argc > 0), &err);
    bool printed = xt_result_end(status, &err);
    if ((!write_out() || !printed) && status == XT_OK)
        status = xt_err_set(&err, XT_ERR_RUN, "cannot write to standard output: %s",
                            errno ? strerror(errno) : "an earlier write failed");
    xt_log_clear_line();
    bool as_asked = status == XT_STOPPED || status == XT_INTERRUPTED;
    if (*err.text && status != XT_OK && as_asked)
        xt_log_end("%s", err.text);
    else if (*err.text && status != XT_OK)
        xt_log_error("%s", err.text);
    /* After a driver failure its exit handlers may crash or hang. */
    if (xt_guard_is_lost())
        _exit((int)status);
    return (int)status;
}
