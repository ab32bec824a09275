/* xtrain predict: predicts images with trained weights, one line of output each, in the order
 * given. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/origin.h"
#include "cli/serve/answer.h"
#include "cli/serve/ordered.h"
#include "cli/serve/stream.h"
#include "data/image/decoder.h"
#include "data/sources/registry.h"
#include "infer/session/engine.h"

/* A file argument, standard input, or a source of --data. */
struct input {
    char *path;               /* NULL: not a file */
    struct xt_source *source; /* NULL: not a source; if both are NULL, standard input */
};

/* State of reading images. */
struct reader {
    struct xtrain *network;
    const struct xt_settings *settings;
    struct input *inputs;
    size_t count;
    size_t images;  /* total of inputs with a known count */
    bool is_stream; /* an input of unknown length exists */
    struct xt_decoder decoder;
    struct xt_sample sample;
    struct xt_ordered answers;
};

static enum xt_status add_input(struct reader *reader, struct input input, struct xt_err *err)
{
    enum xt_status status = xt_mem_add(&reader->inputs, reader->count, sizeof *reader->inputs,
                                       "the list of files", err);
    if (status)
        return status;
    reader->images += input.source ? input.source->count : input.path ? 1 : 0;
    reader->is_stream |= !input.source && !input.path;
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
    struct xt_source_options options =
        xt_network_source_options(xt_engine_network(reader->network));
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

/* A path named as an image; if it cannot be read, the others still are. */
static enum xt_status add_argument(struct reader *reader, const char *argument, struct xt_err *err)
{
    if (strcmp(argument, "-") == 0)
        return add_input(reader, (struct input){0}, err);
    if (xt_image_is_name(argument) && !xt_file_is_folder(argument))
        return add_path(reader, argument, err);
    return add_source(reader, argument, err);
}

static enum xt_status list_inputs(struct reader *reader, const struct xt_options *options,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE)
        status = add_source(reader, options->values.data.images, err);
    for (int i = 1; i < options->argument_count && !status; i++)
        status = add_argument(reader, options->arguments[i], err);
    if (!status && reader->images == 0 && !reader->is_stream)
        status = xt_err_set(err, XT_ERR_DATA, "there are no images to read");
    return status;
}

/* An image of a source, as stored. */
static enum xt_status send_of_source(struct reader *reader, const struct xt_source *source,
                                     size_t index, struct xt_err *err)
{
    char name[4096];
    struct xt_err why = {0};
    const struct xt_image *image = &reader->sample.picture.image;
    source->class->name(source, index, name, sizeof name);
    why.status = source->class->read(source, index, NULL, &reader->decoder, &reader->sample, &why);
    if (why.status == XT_ERR_DATA)
        return xt_ordered_skip(&reader->answers, name, &why, err);
    if (why.status)
        return xt_err_set(err, why.status, "%s", why.text);
    const struct xtrain_image pixels = {
        .bytes = image->pixels,
        .size = image->capacity,
        .width = image->width,
        .height = image->height,
        .pixels = xt_engine_network(reader->network)->model->bgr ? XTRAIN_BGR : XTRAIN_RGB,
    };
    return xt_ordered_send(&reader->answers, name, &pixels, err);
}

static enum xt_status read_input(struct reader *reader, const struct input *input,
                                 struct xt_err *err)
{
    size_t count = input->source ? input->source->count : input->path ? 1 : 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct xtrain_image file = {.path = input->path};
        status = xt_stop_check(err, "after %zu of %s", reader->answers.images,
                               xt_count((long long)reader->images, "file").text);
        if (!status)
            status = input->source ? send_of_source(reader, input->source, i, err)
                                   : xt_ordered_send(&reader->answers, input->path, &file, err);
    }
    if (!input->source && !input->path)
        status = xt_stream_run(&reader->answers, XT_STDIN_PATHS, 0, 0, err);
    return status;
}

static enum xt_status predict_all(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    double start = xt_thread_seconds();
    for (size_t i = 0; i < reader->count && !status; i++)
        status = read_input(reader, &reader->inputs[i], err);
    if (!status && !reader->answers.images)
        status = xt_err_set(err, XT_ERR_DATA, "standard input named no files to read");
    return status ? status : xt_ordered_end(&reader->answers, start, err);
}

/* With a known number of images passes wait for full batches; a stream's images are answered as
 * they arrive. */
static enum xt_status start(struct reader *reader, struct xt_err *err)
{
    const struct xt_settings *s = reader->settings;
    struct xt_engine_plan plan = {.wait = INFINITY};
    plan.session.any_count = reader->is_stream;
    plan.session.images = reader->is_stream ? XT_SESSION_BATCH : reader->images;
    plan.session.batch = s->network.batch;
    if (!reader->is_stream && reader->images < (size_t)s->network.batch)
        plan.session.batch = (int)reader->images;
    enum xt_status status = xt_engine_start(reader->network, &plan, err);
    return status ? status
                  : xt_ordered_init(&reader->answers, reader->network,
                                    xt_engine_batch(reader->network), &s->answer, err);
}

static void clear(struct reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        free(reader->inputs[i].path);
        xt_source_destroy(reader->inputs[i].source);
    }
    free(reader->inputs);
    xt_decoder_clear(&reader->decoder);
    xt_image_clear(&reader->sample.picture.image);
    if (reader->answers.network)
        xt_ordered_clear(&reader->answers);
    else
        xtrain_close(reader->network);
}

enum xt_status xt_cmd_predict(struct xt_options *options, struct xt_err *err)
{
    struct reader reader = {.settings = &options->values};
    const struct xt_infer_settings infer = xt_options_infer(reader.settings);
    enum xt_status status = xt_engine_open(&reader.network, &infer, err);
    if (!status)
        status = xt_answer_check(reader.network, options, err);
    if (!status)
        status = list_inputs(&reader, options, err);
    if (!status)
        xt_origin_note(&xt_engine_network(reader.network)->mark);
    if (!status)
        status = start(&reader, err);
    if (!status)
        status = predict_all(&reader, err);
    clear(&reader);
    return status;
}
