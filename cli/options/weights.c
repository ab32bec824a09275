#include "cli/options/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "base/str.h"
#include "data/image/image.h"
#include "models/loaded.h"
#include "models/recognise.h"
#include "models/weights/weight_file.h"

static bool trains(const struct xt_options *options)
{
    return options->command == XT_COMMAND_TRAIN || options->command == XT_COMMAND_TRY ||
           options->command == XT_COMMAND_SWEEP || options->command == XT_COMMAND_WARMUP;
}

/* ---- the argument ---- */

static enum xt_status take_argument(struct xt_options *options, struct xt_err *err)
{
    const struct xt_command *command = xt_command_get(options->command);
    bool is_model = options->command == XT_COMMAND_SELFTEST;
    const struct xt_option *option = xt_option_find(is_model ? "model" : "init");
    const char **value = is_model ? &options->values.network.model : &options->values.network.init;
    if (!command->takes_weights || !options->argument_count)
        return XT_OK;
    if (command->takes_weights == XT_WEIGHTS_ALONE && options->argument_count > 1)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s takes one file of weights or run's folder; %s is a second",
                          command->name, xt_show(options->arguments[1]).text);
    if (*value && xt_options_source(options, option->name) == XT_SOURCE_COMMAND_LINE)
        return xt_err_set(err, XT_ERR_USAGE, "%s and --%s %s are both given; keep one",
                          xt_show(options->arguments[0]).text, option->name, xt_show(*value).text);
    *value = options->arguments[0];
    options->origins[xt_option_index(option)] =
        (struct xt_origin){.source = XT_SOURCE_COMMAND_LINE, .given = options->arguments[0]};
    return XT_OK;
}

/* ---- the run that the weights are of ---- */

/* The images that the run trained on are those for the ranges of int8; eval holds out the same part
 * of them. */
static const struct xt_option *option_of_run(const char *key)
{
    static const struct {
        const char *key, *option;
    } taken[] = {{"val", "val"},
                 {"fit", "fit"},
                 {"data", "calibrate"},
                 {"val_part", "val-part"},
                 {"seed", "seed"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i].key, key) == 0)
            return xt_option_find(taken[i].option);
    return NULL;
}

static enum xt_status take_entry(void *context, const struct xt_config_entry *entry,
                                 struct xt_err *err)
{
    struct xt_options *options = context;
    const struct xt_option *option = option_of_run(entry->key);
    const struct xt_origin origin = {.source = XT_SOURCE_RUN, .line = entry->line};
    char subject[XT_OPTION_SUBJECT];
    const char *text = NULL;
    bool of_eval = option && option->offset != offsetof(struct xt_settings, answer.calibrate) &&
                   options->command == XT_COMMAND_EVAL;
    if (!option || (!of_eval && !xt_option_is_for(option, options->command)))
        return XT_OK;
    snprintf(subject, sizeof subject, "%s:%d: %s", options->run_config, entry->line, entry->key);
    enum xt_status status = xt_options_keep(options, entry->text, &text, err);
    return status ? status : xt_options_set(options, option, subject, text, origin, err);
}

static bool is_of_run(const char *path)
{
    static const char *const names[] = {"best.safetensors", "last.safetensors", "ema.safetensors",
                                        NULL};
    return xt_str_is_in(xt_file_name(path), names) || xt_file_is_folder(path);
}

/* config.yaml of the run whose folder, or weights in it, `weights` names. */
static enum xt_status take_run(struct xt_options *options, const char *weights, struct xt_err *err)
{
    char *folder = NULL;
    if (trains(options) || !is_of_run(weights))
        return XT_OK;
    enum xt_status status = xt_file_folder_of(&folder, weights, err);
    if (status)
        return status;
    const struct xt_path path = xt_file_path(folder, "config.yaml");
    free(folder);
    if (!xt_file_exists(path.text))
        return XT_OK;
    status = xt_options_keep(options, path.text, &options->run_config, err);
    return status ? status : xt_config_read(options->run_config, take_entry, options, err);
}

/* ---- what the weights say ---- */

static enum xt_status set_text(struct xt_options *options, const char *name, const char *text,
                               struct xt_err *err)
{
    const struct xt_option *option = xt_option_find(name);
    const char *own = NULL;
    if (!text || !xt_option_is_for(option, options->command))
        return XT_OK;
    enum xt_status status = xt_options_keep(options, text, &own, err);
    return status ? status
                  : xt_options_set(options, option, name, own,
                                   (struct xt_origin){.source = XT_SOURCE_RUN}, err);
}

static enum xt_status take_size(struct xt_options *options, const char *input_size,
                                struct xt_err *err)
{
    char side[16];
    int width = 0;
    int height = 0;
    if (!input_size || sscanf(input_size, "%5dx%5d", &width, &height) != 2 || width != height)
        return XT_OK;
    snprintf(side, sizeof side, "%d", width);
    return set_text(options, "image-size", side, err);
}

/* For commands that do not open the weights themselves. */
static enum xt_status take_meta(struct xt_options *options, const struct xt_weight_file *file,
                                struct xt_err *err)
{
    const char *alphabet = xt_weight_file_meta(file, "alphabet");
    enum xt_status status = take_size(options, xt_weight_file_meta(file, "input_size"), err);
    if (!status)
        status = set_text(options, "lprnet-norm", xt_weight_file_meta(file, "lprnet_norm"), err);
    if (!status)
        status = set_text(options, "blank", xt_weight_file_meta(file, "blank"), err);
    if (!status && alphabet)
        status = xt_options_keep(options, alphabet, &options->values.network.text_alphabet, err);
    return status;
}

static enum xt_status take_model(struct xt_options *options, const char *path,
                                 const struct xt_weight_file *file, struct xt_err *err)
{
    const struct xt_model_info *model = NULL;
    const char *name = xt_weight_file_meta(file, "model");
    enum xt_status status = name ? XT_OK : xt_model_recognise(file, &model, err);
    if (status)
        return status;
    if (!name && !model)
        return xt_err_set(err, XT_ERR_USAGE, "%s does not name its network; name it with --model",
                          path);
    return set_text(options, "model", name ? name : model->name, err);
}

static enum xt_status read_weights(struct xt_options *options, const char *given, bool opened,
                                   struct xt_err *err)
{
    struct xt_weight_file file = {0};
    char *path = NULL;
    if (xt_model_is_file(given))
        return set_text(options, "model", given, err);
    enum xt_status status = xt_weight_file_locate(&path, given, err);
    if (!status)
        status = xt_weight_file_read(&file, path, XT_MODEL_BYTES_MAX, err);
    if (!status && !options->values.network.model)
        status = take_model(options, path, &file, err);
    if (!status && !opened)
        status = take_meta(options, &file, err);
    xt_weight_file_clear(&file);
    free(path);
    return status;
}

static bool names_weights(const char *model)
{
    return model &&
           (xt_str_ends(model, ".safetensors") || xt_str_ends(model, ".pth") ||
            xt_str_ends(model, ".pt") || (!xt_model_find(model) && xt_file_is_folder(model)));
}

/* Whether the command reads the weights of --init, or of its argument, itself. */
static bool opens_weights(const struct xt_options *options)
{
    return options->command != XT_COMMAND_SELFTEST &&
           (xt_command_get(options->command)->takes_weights ||
            xt_option_is_for(xt_option_find("init"), options->command));
}

/* --model may be weights or a run's folder, for the network that they are of. */
static enum xt_status take_weights_of_model(struct xt_options *options, struct xt_err *err)
{
    struct xt_network_settings *network = &options->values.network;
    const char *given = network->model;
    if (opens_weights(options) && network->init)
        return XT_OK;
    network->model = NULL;
    options->origins[xt_option_index(xt_option_find("model"))] = (struct xt_origin){0};
    if (!opens_weights(options))
        return read_weights(options, given, false, err);
    network->init = given;
    return XT_OK;
}

/* The name of a network, or an image, where weights are expected. */
static enum xt_status refuse_other(const struct xt_options *options, const char *init,
                                   struct xt_err *err)
{
    const char *model = xt_file_exists(init) ? NULL : xt_options_model(options->models, init);
    if (model)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is a network, not a file of weights; --model %s names the network",
                          xt_show(init).text, model);
    if (xt_image_is_name(init))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is an image, but weights are expected here: a .safetensors or .pth "
                          "file, or a run's folder",
                          xt_show(init).text);
    return XT_OK;
}

enum xt_status xt_options_take_weights(struct xt_options *options, struct xt_err *err)
{
    struct xt_network_settings *network = &options->values.network;
    bool needs_model = (xt_option_find("model")->needed >> options->command & 1) != 0;
    enum xt_status status = take_argument(options, err);
    if (status || options->values.request.parse_only)
        return status;
    if (names_weights(network->model))
        status = trains(options)
                     ? xt_err_set(err, XT_ERR_USAGE,
                                  "--model names a network, and %s is weights; give them by --init",
                                  xt_show(network->model).text)
                     : take_weights_of_model(options, err);
    if (!status && network->init)
        status = refuse_other(options, network->init, err);
    if (!status && network->init)
        status = take_run(options, network->init, err);
    return status || network->model || !network->init || !needs_model
               ? status
               : read_weights(options, network->init, true, err);
}
