/* xtrain export: writes trained weights as an ONNX model, or with the ranges that int8 needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/commands/export_check.h"
#include "cli/options/options.h"
#include "cli/options/table.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "models/onnx/write/export.h"
#include "engine/executor.h"
#include "infer/calibrate.h"
#include "infer/network/network_build.h"
#include "infer/network/network_plan.h"

enum { BATCH = 16 }; /* for calibration and check */

static const enum xt_amp amps[] = {
    [XT_EXPORT_F32] = XT_AMP_OFF,
    [XT_EXPORT_FP16] = XT_AMP_FP16,
    [XT_EXPORT_INT8] = XT_AMP_INT8,
};

/* Each is the fastest in its runtime: ONNX Runtime averages float32 faster than int8. */
static const enum xt_int8_layout layouts[] = {
    [XT_FOR_ANY] = XT_INT8_OWN,
    [XT_FOR_ONNXRUNTIME] = XT_INT8_SUMS,
    [XT_FOR_OPENVINO] = XT_INT8_AVERAGES,
};

struct command {
    const struct xt_options *options;
    const struct xt_settings *settings;
    const char *path;
    struct xt_network network;
    struct xt_source *source; /* of --check */
    struct xt_calibration calibration;
    struct xt_exported exported;
    struct xt_export_check check;
};

/* ---- checks before anything is computed ---- */

/* Weights are written with int8's ranges, as float32 like all weights. */
static bool is_weights(const char *path)
{
    return xt_str_ends(path, ".safetensors");
}

static bool is_int8(const struct command *command)
{
    return is_weights(command->path) || command->settings->export.type == XT_EXPORT_INT8;
}

static enum xt_status check_weights(const struct xt_options *options, struct xt_err *err)
{
    static const char *const of_onnx[] = {"fixed-batch", "with-preprocess", "check", "runtime",
                                          "weight-bits"};
    const char *path = options->arguments[1];
    for (size_t i = 0; i < sizeof of_onnx / sizeof *of_onnx; i++)
        if (xt_options_source(options, of_onnx[i]) == XT_SOURCE_COMMAND_LINE)
            return xt_err_set(err, XT_ERR_USAGE,
                              "--%s is for a model that ends in .onnx, not for %s",
                              xt_option_spelling(xt_option_find(of_onnx[i])), path);
    if (xt_options_source(options, "type") == XT_SOURCE_COMMAND_LINE &&
        options->values.export.type != XT_EXPORT_INT8)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s gets the weights as they are, with the ranges of int8: --amp %s is "
                          "chosen where they are used, or for a model that ends in .onnx",
                          path, xt_amp_name(amps[options->values.export.type]));
    return XT_OK;
}

static enum xt_status check_path(const char *path, struct xt_err *err)
{
    char *folder = NULL;
    if (xt_str_ends(path, ".xml"))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: xtrain writes no OpenVINO IR; OpenVINO reads ONNX, and its "
                          "converter makes IR from it: xtrain export WEIGHTS %.*s.onnx && ovc "
                          "%.*s.onnx --compress_to_fp16=False (pip install openvino)",
                          path, (int)strlen(path) - 4, path, (int)strlen(path) - 4, path);
    if (!xt_str_ends(path, ".onnx") && !is_weights(path))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: the model's file must end in .onnx, or in .safetensors for weights "
                          "with the ranges of int8",
                          path);
    if (xt_file_is_folder(path))
        return xt_err_set(err, XT_ERR_USAGE, "%s is a folder; name the file to write", path);
    enum xt_status status = xt_file_folder_of(&folder, path, err);
    if (!status && !xt_file_is_folder(folder))
        status =
            xt_err_set(err, XT_ERR_RUN, "cannot write %s: there is no folder %s", path, folder);
    free(folder);
    return status;
}

static enum xt_status check_type(const struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = command->settings;
    bool gives_ranges = xt_options_source(command->options, "calibrate") == XT_SOURCE_COMMAND_LINE;
    enum xt_amp amp = is_int8(command) ? XT_AMP_INT8 : amps[s->export.type];
    if (is_weights(command->path) && check_weights(command->options, err))
        return err->status;
    if (amp != XT_AMP_OFF && !s->network.fuse)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp %s needs the batch norms folded into the convolutions; leave "
                          "--no-fuse out",
                          xt_amp_name(amp));
    if (amp != XT_AMP_INT8 && s->export.runtime)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--for lays the quantization of int8 for a runtime; with --amp %s leave "
                          "it out",
                          xt_amp_name(amp));
    if (amp != XT_AMP_INT8 &&
        xt_options_source(command->options, "weight-bits") == XT_SOURCE_COMMAND_LINE)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--weight-bits is of int8's weights; with --amp %s leave it out",
                          xt_amp_name(amp));
    if (s->export.runtime && !s->answer.calibrate)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--for needs more ranges than weights hold: give --calibrate DIR with "
                          "images like those to be predicted");
    if (amp != XT_AMP_INT8 && gives_ranges)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--calibrate gives the ranges of int8; with --amp %s leave it out",
                          xt_amp_name(amp));
    return XT_OK;
}

/* Weights that were exported with ranges need no images. */
static enum xt_status check_ranges(const struct command *command, struct xt_err *err)
{
    if (!is_int8(command) || command->settings->answer.calibrate ||
        xt_weight_file_meta(&command->network.weights, XT_RANGES_KEY))
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--amp int8 quantization needs the ranges of the network's values: give "
                      "--calibrate DIR with images like those to be predicted, best those it was "
                      "trained on");
}

/* ---- writing ---- */

/* Writes the weights' metadata, and how this model is used. */
static enum xt_status write_graph(struct command *command, const struct xt_network_draft *draft,
                                  struct xt_err *err)
{
    const struct xt_settings *s = command->settings;
    const struct xt_network *network = &command->network;
    bool is_plates = network->task == XT_TASK_PLATES;
    struct xt_network_meta meta;
    char blank[16];
    char batch[16] = "any";
    enum xt_status status = xt_network_meta(network, &meta, err);
    struct xt_file_meta more[] = {
        {"type", xt_amp_name(amps[s->export.type])},
        {"batch", batch},
        {"batch_norm", s->network.fuse ? "folded" : "kept"},
        {"input",
         s->export.with_preprocess ? "bytes, NHWC" : "float32, NCHW, (byte - mean) * scale"},
        {"decoding", is_plates ? "ctc" : "softmax"},
        {"blank", blank},
    };
    size_t count = sizeof more / sizeof *more - (is_plates ? 0 : 1);
    struct xt_file_meta all[sizeof meta.items / sizeof *meta.items + sizeof more / sizeof *more];
    if (is_plates)
        snprintf(blank, sizeof blank, "%d", xt_alphabet_blank(network->alphabet));
    if (s->export.fixed_batch)
        snprintf(batch, sizeof batch, "%d", s->export.fixed_batch);
    if (!status) {
        memcpy(all, meta.items, meta.count * sizeof *all);
        memcpy(all + meta.count, more, count * sizeof *all);
        const struct xt_export_options options = {
            .name = network->model->name,
            .logits = draft->logits,
            .batch = s->export.fixed_batch,
            .with_preprocess = s->export.with_preprocess,
            .for_onnxruntime = s->export.runtime == XT_FOR_ONNXRUNTIME,
            .meta = all,
            .meta_count = meta.count + count,
        };
        status = xt_export_onnx(draft->graph, &options, command->path, &command->exported, err);
    }
    xt_network_meta_clear(&meta);
    return status;
}

static struct xt_network_settings laid_as(const struct command *command, enum xt_int8_layout layout)
{
    struct xt_network_settings settings = command->settings->network;
    settings.int8_layout = layout;
    settings.int8_of_7_bits = command->settings->export.weight_bits == 7;
    return settings;
}

/* The written graph is described separately, in its own type: it is never run here. */
static enum xt_status write_model(struct command *command, struct xt_err *err)
{
    struct xt_network_settings settings =
        laid_as(command, layouts[command->settings->export.runtime]);
    struct xt_network_draft draft = {&command->network.params, 1, false, NULL, NULL};
    settings.amp = amps[command->settings->export.type];
    enum xt_status status = xt_network_describe(&command->network, &settings, &draft, err);
    if (!status && draft.graph->err.status) {
        *err = draft.graph->err;
        status = err->status;
    }
    if (!status)
        status = write_graph(command, &draft, err);
    xt_graph_destroy(draft.graph);
    return status;
}

static enum xt_status write_weights(struct command *command, struct xt_err *err)
{
    int fd = -1;
    enum xt_status status = xt_network_save(&command->network, command->path, err);
    if (!status)
        status = xt_file_open(command->path, &fd, &command->exported.bytes, err);
    if (!status)
        close(fd);
    return status;
}

static int batch_of(const struct xt_settings *settings)
{
    return settings->export.fixed_batch ? settings->export.fixed_batch : BATCH;
}

static enum xt_status calibrate(struct command *command, enum xt_int8_layout layout,
                                struct xt_err *err)
{
    const struct xt_settings *s = command->settings;
    struct xt_infer_settings infer = xt_options_infer(s);
    infer.network = laid_as(command, layout);
    return xt_calibrate_int8(&command->network, &infer, s->answer.calibrate, batch_of(s),
                             &command->calibration, err);
}

static enum xt_status build(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = command->settings;
    const struct xt_network_settings own = laid_as(command, XT_INT8_OWN);
    struct xt_network *network = &command->network;
    enum xt_status status = xt_network_open(network, &own, &s->device, err);
    if (!status)
        status = check_ranges(command, err);
    if (!status)
        status = xt_network_build(network, &own, batch_of(s), false, err);
    if (!status && s->export.check)
        status = xt_export_check_open(network, s, &command->source, err);
    if (!status && network->over_batch)
        xt_log_warn(
            "the weights' lprnet_norm is batch: the model's prediction for an image depends on the "
            "others of its batch; --lprnet-norm sample exports one whose answers do not");
    if (!status && is_int8(command) && s->answer.calibrate)
        status = calibrate(command, layouts[s->export.runtime], err);
    return status;
}

/* ---- reporting ---- */

static void describe_check(struct xt_report *report, const struct command *command)
{
    const struct xt_export_check *c = &command->check;
    const char *why_not = command->settings->export.check
                              ? c->why_not
                              : "--check DIR compares it with this program on images";
    struct xt_report *to = xt_report_group(report, "check");
    xt_report_flag(to, "checked", NULL, !*why_not, "", "");
    if (*why_not) {
        xt_report_add(to, "why_not", NULL, "%s", why_not);
        xt_report_line(report, "not checked: %s", why_not);
        return;
    }
    xt_report_values(
        to, "runtime=%s images=%zu same_predictions=%zu largest_difference=%f largest_logit=%f",
        c->runtime, c->images, c->same, c->largest, c->magnitude);
    xt_report_flag(to, "passed", NULL, c->passed, "", "");
    xt_report_line(report,
                   "checked by %s on %zu of %s: %zu predictions are the same, logits (up to %.4g) "
                   "differ by at most %.2g",
                   c->runtime, c->images, xt_count((long long)c->all, "image").text, c->same,
                   c->magnitude, c->largest);
}

static void describe_numbers(struct xt_report *report, const struct command *command)
{
    const struct xt_settings *s = command->settings;
    const struct xt_network *network = &command->network;
    const char *order = xt_model_pixel_order(network->model);
    int colours = network->model->grey ? 1 : 3;
    char mean[XT_NORMALISE_TEXT];
    char scale[XT_NORMALISE_TEXT];
    char batch[16] = "batch";
    char time[16] = "";
    xt_normalise_to_meta(network->normalise.mean, mean);
    xt_normalise_to_meta(network->normalise.scale, scale);
    if (s->export.fixed_batch)
        snprintf(batch, sizeof batch, "%d", s->export.fixed_batch);
    if (network->model->time_steps)
        snprintf(time, sizeof time, "%d, ", network->model->time_steps);
    if (s->export.with_preprocess)
        xt_report_line(report, "  in:  images, bytes [%s, %d, %d, %d], %s", batch, network->height,
                       network->width, colours, order);
    else
        xt_report_line(report, "  in:  input, float32 [%s, %d, %d, %d], %s, (byte - %s) * %s",
                       batch, colours, network->height, network->width, order, mean, scale);
    xt_report_line(report, "  out: logits, float32 [%s, %s%d]", batch, time, network->classes);
}

static void describe_onnx(struct xt_report *report, const struct command *command)
{
    const struct xt_settings *s = command->settings;
    xt_report_add(report, "opset", "", "ONNX opset %d ", command->exported.opset);
    xt_report_add(report, "ir_version", "", "(IR version %d)", command->exported.ir);
    xt_report_add(report, "batch", NULL, "%d", s->export.fixed_batch);
    xt_report_flag(report, "with_preprocess", NULL, s->export.with_preprocess, "", "");
    describe_numbers(report, command);
}

/* What may be the cause, and what helps. */
static enum xt_status fail_check(const struct command *command, struct xt_err *err)
{
    bool overflows = command->settings->export.type == XT_EXPORT_INT8 &&
                     command->settings->export.weight_bits == 8 && !xt_device_cpu_has_vnni();
    return xt_err_set(
        err, XT_ERR_RUN,
        "%s was written, but its predictions differ from this program's: see above%s",
        command->path,
        overflows
            ? "; this CPU has no VNNI, and runtimes may add products of 8-bit weights up in 16 "
              "bits there, which overflow: --weight-bits 7 prevents that"
            : "");
}

static enum xt_status say(const struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = command->settings;
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "path", "", "%s: ", command->path);
    xt_report_add(report, "model", "", "%s", command->network.model->name);
    if (is_weights(command->path)) {
        xt_report_add(report, "type", "", " for %s, ", xt_amp_name(XT_AMP_INT8));
        xt_report_scaled(report, "bytes", "", 1e-6, "%.1f MB of weights with the ranges",
                         (double)command->exported.bytes);
    } else {
        xt_report_add(report, "type", "", " in %s, ", xt_amp_name(amps[s->export.type]));
        xt_report_scaled(report, "bytes", "", 1e-6, "%.1f MB, ", (double)command->exported.bytes);
        describe_onnx(report, command);
    }
    if (command->calibration.images)
        xt_report_line(report, "  int8: ranges from %zu of the %s of %s",
                       command->calibration.images,
                       xt_count((long long)command->calibration.all, "image").text,
                       command->calibration.source);
    if (!is_weights(command->path))
        describe_check(report, command);
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_export(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct command command = {.options = options, .settings = s, .path = options->arguments[1]};
    enum xt_status status = XT_OK;
    if (options->argument_count > 2)
        status =
            xt_err_set(err, XT_ERR_USAGE, "export takes WEIGHTS and the file to write, no more: %s",
                       options->arguments[2]);
    if (!status)
        status = check_path(command.path, err);
    if (!status && xt_file_is_same(options->arguments[0], command.path))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "%s would be overwritten; name another file to write", command.path);
    if (!status)
        status = check_type(&command, err);
    if (!status)
        status = build(&command, err);
    if (!status)
        status =
            is_weights(command.path) ? write_weights(&command, err) : write_model(&command, err);
    if (!status && s->export.check && s->export.runtime != XT_FOR_ANY)
        status = calibrate(&command, XT_INT8_OWN, err); /* as this program runs int8 */
    if (!status && s->export.check)
        status =
            xt_export_check(&command.network, s, command.source, command.path, &command.check, err);
    if (!status)
        status = say(&command, err);
    if (!status && s->export.check && !*command.check.why_not && !command.check.passed)
        status = fail_check(&command, err);
    xt_source_destroy(command.source);
    xt_network_clear(&command.network);
    return status;
}
