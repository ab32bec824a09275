/* xtrain predict: images through trained weights, one line of output each, in the order given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "data/image/decoder.h"
#include "data/image/resize.h"
#include "data/sources/registry.h"
#include "train/auto_batch.h"
#include "train/calibrate.h"
#include "train/evaluate.h"
#include "train/network_build.h"

/* One file that was named, or whatever --data takes. */
struct input {
    char *path;               /* NULL: a source */
    struct xt_source *source; /* NULL: a file */
};

/* An image of an input; a file has one. */
struct place {
    const struct input *input;
    size_t index;
};

/* Everything that reading images into batches needs. */
struct reader {
    struct xt_network network;
    struct xt_objective *objective;
    const struct xt_settings *settings;
    struct input *inputs;
    size_t count;
    size_t capacity;
    size_t images; /* of all inputs */
    struct xt_decoder decoder;
    struct xt_resizer resizer;
    struct xt_sample sample;
    uint8_t *pixels;      /* [batch][height][width][3] */
    struct place *places; /* [batch] */
    int filled;
    size_t answered;
    size_t unreadable;
};

static enum xt_status add_input(struct reader *reader, struct input input, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&reader->inputs, &reader->capacity, reader->count + 1,
                                        sizeof *reader->inputs, "the list of files", err);
    if (status)
        return status;
    reader->images += input.source ? input.source->count : 1;
    reader->inputs[reader->count++] = input;
    return XT_OK;
}

static enum xt_status add_path(struct reader *reader, const char *path, struct xt_err *err)
{
    struct input input = {0};
    enum xt_status status = xt_mem_strdup(&input.path, path, err);
    if (!status)
        status = add_input(reader, input, err);
    if (status)
        free(input.path);
    return status;
}

static enum xt_status add_source(struct reader *reader, const char *spec, struct xt_err *err)
{
    struct xt_source_options options = xt_network_source_options(&reader->network);
    struct input input = {0};
    options.labels_optional = true;
    options.held_out = true;
    enum xt_status status = xt_source_open(&input.source, spec, &options, err);
    if (!status)
        status = add_input(reader, input, err);
    if (status)
        xt_source_destroy(input.source);
    return status;
}

static enum xt_status add_standard_input(struct reader *reader, struct xt_err *err)
{
    char *line = NULL;
    size_t capacity = 0;
    enum xt_status status = XT_OK;
    while (!status && getline(&line, &capacity, stdin) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line)
            status = add_path(reader, line, err);
    }
    free(line);
    return status;
}

/* A file that is named as an image is one, and where it cannot be read the others are. */
static enum xt_status add_argument(struct reader *reader, const char *argument, struct xt_err *err)
{
    if (strcmp(argument, "-") == 0)
        return add_standard_input(reader, err);
    if (xt_image_is_name(argument) && !xt_file_is_folder(argument))
        return add_path(reader, argument, err);
    return add_source(reader, argument, err);
}

static enum xt_status list_inputs(struct reader *reader, const struct xt_options *options,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE)
        status = add_source(reader, options->values.data, err);
    for (int i = 1; i < options->argument_count && !status; i++)
        status = add_argument(reader, options->arguments[i], err);
    if (!status && reader->images == 0)
        status = xt_err_set(err, XT_ERR_DATA, "standard input named no files to read");
    return status;
}

static void name_of(const struct place *place, char *out, size_t size)
{
    const struct xt_source *source = place->input->source;
    if (source)
        source->class->name(source, place->index, out, size);
    else
        snprintf(out, size, "%s", place->input->path);
}

/* A tab stands between the parts of a line: of a plate the confidences of its characters, a blank
 * between each two; of classes each name with its probability. */
static void describe_confidences(struct xt_report *line, const struct reader *reader,
                                 const struct xt_decoded *answer)
{
    bool plates = reader->network.task == XT_TASK_PLATES;
    struct xt_report *list = xt_report_list(line, plates ? "characters" : "top");
    int most = plates ? answer->length : reader->settings->top;
    for (int i = 0; i < answer->length && i < most; i++) {
        struct xt_report *item = plates ? list : xt_report_group(list, NULL);
        struct xt_str name = {0};
        if (!plates && xt_network_class_text(&reader->network, answer->symbols[i], &name, NULL))
            xt_report_fail(line);
        if (!plates)
            xt_report_add(item, "class", "", "\t%s", xt_str_get(&name));
        xt_report_add(item, plates ? NULL : "probability", "", plates && !i ? "\t%.3f" : " %.3f",
                      (double)answer->confidence[i]);
        xt_str_clear(&name);
    }
}

static enum xt_status report(const struct reader *reader, const char *path, const char *text,
                             const struct xt_decoded *answer, struct xt_err *err)
{
    struct xt_report *line = xt_report_create();
    bool rejected = answer->probability < reader->settings->reject;
    xt_report_add(line, "path", "", "%s\t", path);
    xt_report_add(line, reader->network.task == XT_TASK_PLATES ? "plate" : "class",
                  rejected ? NULL : "", "%s", text);
    if (rejected)
        xt_report_add(line, NULL, "", "%s", "-");
    xt_report_add(line, "confidence", "", "\t%.4f", answer->probability);
    describe_confidences(line, reader, answer);
    xt_report_flag(line, "rejected", "", rejected, "\trejected ", "");
    if (rejected)
        xt_report_add(line, NULL, "", "%s", text);
    return xt_report_end(line, reader->settings->json ? XT_REPORT_JSON : XT_REPORT_TEXT, stdout,
                         err);
}

/* The end of --json. */
static enum xt_status report_all(const struct reader *reader, double seconds, struct xt_err *err)
{
    struct xt_report *line = xt_report_create();
    xt_report_add(line, "images", NULL, "%zu", reader->images);
    xt_report_add(line, "answered", NULL, "%zu", reader->answered);
    xt_report_add(line, "unreadable", NULL, "%zu", reader->unreadable);
    xt_report_add(line, "seconds", NULL, "%f", seconds);
    return xt_report_end(line, XT_REPORT_JSON, stdout, err);
}

static enum xt_status print_answer(struct reader *reader, int sample, struct xt_err *err)
{
    const struct xt_objective *objective = reader->objective;
    struct xt_decoded answer;
    struct xt_str text = {0};
    char name[4096];
    name_of(&reader->places[sample], name, sizeof name);
    enum xt_status status = xt_objective_answer(objective, sample, &answer, err);
    if (!status)
        status = objective->class->text(objective, answer.symbols, answer.length, &text, err);
    if (!status)
        status = report(reader, name, xt_str_get(&text), &answer, err);
    reader->answered += !status;
    xt_str_clear(&text);
    return status;
}

static enum xt_status run_batch(struct reader *reader, struct xt_err *err)
{
    struct xt_graph *graph = reader->network.graph;
    graph->pass = (struct xt_graph_pass){.pixels = reader->pixels, .count = reader->filled};
    enum xt_status status = reader->filled ? xt_graph_forward(graph, err) : XT_OK;
    for (int i = 0; i < reader->filled && !status; i++)
        status = print_answer(reader, i, err);
    reader->filled = 0;
    return status;
}

/* Decodes one image into the next row of the batch. One that cannot be read is named and counted,
 * and the others go on. */
static enum xt_status add_image(struct reader *reader, struct place place, struct xt_err *err)
{
    const struct xt_network *network = &reader->network;
    const struct xt_source *source = place.input->source;
    size_t bytes = (size_t)network->height * (size_t)network->width * 3;
    enum xt_pixel_order order = network->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB;
    struct xt_picture *picture = &reader->sample.picture;
    enum xt_status status =
        source
            ? source->class->read(source, place.index, NULL, &reader->decoder, &reader->sample, err)
            : xt_decoder_load(&reader->decoder, place.input->path, order, NULL, picture, err);
    if (!status)
        status = xt_resize(&reader->resizer, &picture->image, network->width, network->height,
                           reader->pixels + (size_t)reader->filled * bytes, err);
    if (status == XT_ERR_DATA) {
        xt_log_warn("%s", err->text);
        reader->unreadable++;
        return XT_OK;
    }
    if (!status)
        reader->places[reader->filled++] = place;
    return status;
}

static enum xt_status read_input(struct reader *reader, const struct input *input, size_t *done,
                                 struct xt_err *err)
{
    size_t count = input->source ? input->source->count : 1;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++, (*done)++) {
        status = xt_stop_check(err, "after %zu of %s", *done,
                               xt_count((long long)reader->images, "file").text);
        if (!status)
            status = add_image(reader, (struct place){input, i}, err);
        if (!status && reader->filled == reader->network.batch)
            status = run_batch(reader, err);
    }
    return status;
}

static enum xt_status predict_all(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    double start = xt_thread_seconds();
    size_t done = 0;
    for (size_t i = 0; i < reader->count && !status; i++)
        status = read_input(reader, &reader->inputs[i], &done, err);
    if (!status)
        status = run_batch(reader, err);
    if (!status && reader->unreadable)
        status = xt_err_set(err, XT_ERR_DATA, "%zu of %s could not be read", reader->unreadable,
                            xt_count((long long)reader->images, "file").text);
    enum xt_status end = XT_OK;
    if (reader->settings->json)
        end = report_all(reader, xt_thread_seconds() - start, status ? NULL : err);
    return status ? status : end;
}

static enum xt_status open_reader(struct reader *reader, struct xt_err *err)
{
    const struct xt_network *network = &reader->network;
    size_t batch = (size_t)network->batch;
    size_t bytes = (size_t)network->height * (size_t)network->width * 3;
    enum xt_status status = xt_objective_create(&reader->objective, network, reader->settings, err);
    if (!status)
        status = xt_mem_aligned(&reader->pixels, batch, bytes, "a batch of images", err);
    if (!status)
        status = xt_mem_calloc(&reader->places, batch, sizeof *reader->places, "file names", err);
    return status;
}

/* Which images are read decides nothing about the answer to one of them, so the ranges cannot come
 * from them. */
static enum xt_status check_int8(const struct xt_settings *s, struct xt_err *err)
{
    if (s->amp != XT_AMP_INT8)
        return XT_OK;
    if (s->calibrate)
        return xt_calibrate_check(s, err);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--amp int8 has to know how large the numbers in the network get: give "
                      "--calibrate DIR with images like those to be read, best those it was "
                      "trained on");
}

static enum xt_status build_network(struct reader *reader, struct xt_err *err)
{
    const struct xt_settings *s = reader->settings;
    struct xt_calibration calibration;
    struct xt_network *network = &reader->network;
    int batch = reader->images < (size_t)s->batch ? (int)reader->images : s->batch;
    enum xt_status status = batch ? XT_OK : xt_network_check_classes(network, s, err);
    if (!status && !batch)
        status = xt_auto_batch_take(network, s, false, reader->images, &batch, err);
    if (!status)
        status = xt_network_build(network, s, batch, false, err);
    if (status || s->amp != XT_AMP_INT8)
        return status;
    status = xt_calibrate_int8(network, s, s->calibrate, batch, &calibration, err);
    if (!status)
        xt_log_note("int8: ranges from %zu of the %s of %s", calibration.images,
                    xt_count((long long)calibration.all, "image").text, calibration.source);
    return status;
}

static enum xt_status check_top(const struct xt_options *options, const struct reader *reader,
                                struct xt_err *err)
{
    if (reader->network.task == XT_TASK_CLASSES ||
        xt_options_source(options, "top") != XT_SOURCE_COMMAND_LINE)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE, "--top: %s reads plates, it tells no classes apart",
                      reader->network.model->name);
}

static void clear(struct reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        free(reader->inputs[i].path);
        xt_source_destroy(reader->inputs[i].source);
    }
    free(reader->inputs);
    xt_decoder_clear(&reader->decoder);
    xt_objective_destroy(reader->objective);
    xt_resizer_clear(&reader->resizer);
    xt_image_clear(&reader->sample.picture.image);
    free(reader->pixels);
    free(reader->places);
    xt_network_clear(&reader->network);
}

enum xt_status xt_cmd_predict(struct xt_options *options, struct xt_err *err)
{
    struct reader reader = {.settings = &options->values};
    options->values.init = options->arguments[0];
    enum xt_status status = check_int8(reader.settings, err);
    if (!status)
        status = xt_options_find_weights(options, err);
    if (!status)
        status = xt_network_open(&reader.network, reader.settings, err);
    if (!status)
        status = xt_network_check_device(&reader.network, reader.settings, err);
    if (!status)
        status = check_top(options, &reader, err);
    if (!status)
        status = list_inputs(&reader, options, err);
    if (!status)
        status = build_network(&reader, err);
    if (!status)
        status = open_reader(&reader, err);
    if (!status)
        status = predict_all(&reader, err);
    clear(&reader);
    return status;
}
