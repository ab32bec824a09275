/* xtrain predict: images through trained weights, one line of output each, in the order given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "data/image/decoder.h"
#include "data/image/resize.h"
#include "train/auto_batch.h"
#include "train/calibrate.h"
#include "train/evaluate.h"
#include "train/network_build.h"

/* Everything that reading images into batches needs. */
struct reader {
    struct xt_network network;
    struct xt_objective *objective;
    const struct xt_settings *settings;
    struct xt_file_list files;
    struct xt_decoder decoder;
    struct xt_resizer resizer;
    struct xt_picture picture;
    uint8_t *pixels;    /* [batch][height][width][3] */
    const char **names; /* [batch] */
    int filled;
    size_t unreadable;
};

static enum xt_status add_path(struct xt_file_list *list, const char *path, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&list->paths, &list->capacity, list->count + 1,
                                        sizeof *list->paths, "the list of files", err);
    if (!status)
        status = xt_mem_strdup(&list->paths[list->count], path, err);
    if (!status)
        list->count++;
    return status;
}

static enum xt_status add_folder(struct xt_file_list *list, const char *folder, struct xt_err *err)
{
    struct xt_file_list tree = {0};
    enum xt_status status = xt_file_list_tree(&tree, folder, err);
    size_t before = list->count;
    for (size_t i = 0; i < tree.count && !status; i++)
        if (xt_image_is_name(tree.paths[i]))
            status = add_path(list, tree.paths[i], err);
    xt_file_list_clear(&tree);
    if (!status && list->count == before)
        status =
            xt_err_set(err, XT_ERR_DATA, "%s: the folder holds no .jpg, .jpeg or .png", folder);
    return status;
}

static enum xt_status add_standard_input(struct xt_file_list *list, struct xt_err *err)
{
    char *line = NULL;
    size_t capacity = 0;
    enum xt_status status = XT_OK;
    while (!status && getline(&line, &capacity, stdin) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line)
            status = add_path(list, line, err);
    }
    free(line);
    return status;
}

static enum xt_status list_files(struct reader *reader, const struct xt_options *options,
                                 struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 1; i < options->argument_count && !status; i++) {
        const char *argument = options->arguments[i];
        if (strcmp(argument, "-") == 0)
            status = add_standard_input(&reader->files, err);
        else if (xt_file_is_folder(argument))
            status = add_folder(&reader->files, argument, err);
        else
            status = add_path(&reader->files, argument, err);
    }
    if (!status && reader->files.count == 0)
        status = xt_err_set(err, XT_ERR_DATA, "standard input named no files to read");
    return status;
}

/* A tab stands between the parts of a line, a blank between the confidences. */
static void describe_confidences(struct xt_report *line, const struct reader *reader,
                                 const struct xt_decoded *answer)
{
    bool plates = reader->network.task == XT_TASK_PLATES;
    struct xt_report *list = xt_report_list(line, plates ? "characters" : "top5");
    for (int i = 0; i < answer->length; i++) {
        struct xt_report *item = plates ? list : xt_report_group(list, NULL);
        struct xt_str name = {0};
        if (!plates && xt_network_class_text(&reader->network, answer->symbols[i], &name, NULL))
            xt_report_fail(line);
        if (!plates)
            xt_report_add(item, "class", NULL, "%s", xt_str_get(&name));
        xt_report_add(item, plates ? NULL : "probability", "", i ? " %.3f" : "\t%.3f",
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

static enum xt_status print_answer(const struct reader *reader, int sample, struct xt_err *err)
{
    const struct xt_objective *objective = reader->objective;
    struct xt_decoded answer;
    struct xt_str text = {0};
    enum xt_status status = xt_objective_answer(objective, sample, &answer, err);
    if (!status)
        status = objective->class->text(objective, answer.symbols, answer.length, &text, err);
    if (!status)
        status = report(reader, reader->names[sample], xt_str_get(&text), &answer, err);
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

/* Decodes one file into the next row of the batch. A file that cannot be read is named and counted,
 * and the others go on. */
static enum xt_status add_image(struct reader *reader, const char *path, struct xt_err *err)
{
    const struct xt_network *network = &reader->network;
    size_t bytes = (size_t)network->height * (size_t)network->width * 3;
    enum xt_pixel_order order = network->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB;
    enum xt_status status =
        xt_decoder_load(&reader->decoder, path, order, NULL, &reader->picture, err);
    if (!status)
        status = xt_resize(&reader->resizer, &reader->picture.image, network->width,
                           network->height, reader->pixels + (size_t)reader->filled * bytes, err);
    if (status == XT_ERR_DATA) {
        xt_log_warn("%s", err->text);
        reader->unreadable++;
        return XT_OK;
    }
    if (!status)
        reader->names[reader->filled++] = path;
    return status;
}

static enum xt_status predict_all(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < reader->files.count && !status; i++) {
        status = xt_stop_check(err, "after %zu of %zu files", i, reader->files.count);
        if (!status)
            status = add_image(reader, reader->files.paths[i], err);
        if (!status && reader->filled == reader->network.batch)
            status = run_batch(reader, err);
    }
    if (!status)
        status = run_batch(reader, err);
    if (!status && reader->unreadable)
        status = xt_err_set(err, XT_ERR_DATA, "%zu of %zu files could not be read",
                            reader->unreadable, reader->files.count);
    return status;
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
        status = xt_mem_calloc(&reader->names, batch, sizeof *reader->names, "file names", err);
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

static enum xt_status open_network(struct reader *reader, struct xt_err *err)
{
    const struct xt_settings *s = reader->settings;
    struct xt_calibration calibration;
    struct xt_network *network = &reader->network;
    size_t files = reader->files.count;
    int batch = files < (size_t)s->batch ? (int)files : s->batch;
    enum xt_status status = xt_network_open(network, s, err);
    if (!status && !batch)
        status = xt_network_check_classes(network, s, err);
    if (!status && !batch)
        status = xt_auto_batch_take(network, s, false, files, &batch, err);
    if (!status)
        status = xt_network_build(network, s, batch, false, err);
    if (status || s->amp != XT_AMP_INT8)
        return status;
    status = xt_calibrate_int8(network, s, s->calibrate, batch, &calibration, err);
    if (!status)
        xt_log_note("int8: ranges from %zu of the %zu images of %s", calibration.images,
                    calibration.all, calibration.source);
    return status;
}

enum xt_status xt_cmd_predict(struct xt_options *options, struct xt_err *err)
{
    struct reader reader = {.settings = &options->values};
    options->values.init = options->arguments[0];
    enum xt_status status = check_int8(reader.settings, err);
    if (!status)
        status = list_files(&reader, options, err);
    if (!status)
        status = open_network(&reader, err);
    if (!status)
        status = open_reader(&reader, err);
    if (!status)
        status = predict_all(&reader, err);
    xt_decoder_clear(&reader.decoder);
    xt_objective_destroy(reader.objective);
    xt_resizer_clear(&reader.resizer);
    xt_image_clear(&reader.picture.image);
    free(reader.pixels);
    free(reader.names);
    xt_file_list_clear(&reader.files);
    xt_network_clear(&reader.network);
    return status;
}
