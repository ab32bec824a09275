#include "cli/commands/export_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/stop.h"
#include "data/sources/registry.h"
#include "engine/executor.h"
#include "infer/image_pass.h"
#include "infer/answer/predictor.h"

enum { IMAGES_MOST = 256, SECONDS_MOST = 600, NO_PROGRAM = 127, NO_MODULE = 3 };

/* Isolated (-I): no modules from the current folder or the environment.
 *
 * Reads the images' bytes, and prepares them as the model's metadata says. Output: a line with the
 * version, then the logits.
 */
static const char script[] =
    "import sys\n"
    "try:\n"
    "    import numpy, onnxruntime\n"
    "except ImportError as error:\n"
    "    sys.exit(print(error, file=sys.stderr) or 3)\n"
    "model, batch = sys.argv[1], int(sys.argv[2])\n"
    "options = onnxruntime.SessionOptions()\n"
    "options.log_severity_level = 3\n"
    "options.add_session_config_entry('session.intra_op.allow_spinning', '0')\n"
    "session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])\n"
    "meta = session.get_modelmeta().custom_metadata_map\n"
    "width, height = map(int, meta['input_size'].split('x'))\n"
    "numbers = lambda key: numpy.array(meta[key].split(','), numpy.float32)\n"
    "images = numpy.frombuffer(sys.stdin.buffer.read(), numpy.uint8).reshape(-1, height, width, "
    "3)\n"
    "if meta['pixel_order'] == 'GREY':\n"
    "    luma = numpy.array([19595, 38470, 7471]) / 65536\n"
    "    images = numpy.rint(images @ luma).astype(numpy.uint8)[..., None]\n"
    "takes = session.get_inputs()[0]\n"
    "out = sys.stdout.buffer\n"
    "out.write(f'onnxruntime {onnxruntime.__version__}\\n'.encode())\n"
    "for at in range(0, len(images), batch):\n"
    "    part = images[at:at + batch]\n"
    "    count = len(part)\n"
    "    if isinstance(takes.shape[0], int) and count < batch:\n"
    "        part = numpy.concatenate([part, numpy.zeros((batch - count, *part.shape[1:]), "
    "part.dtype)])\n"
    "    if takes.name == 'input':\n"
    "        part = (part.astype(numpy.float32) - numbers('mean')) * numbers('scale')\n"
    "        part = numpy.ascontiguousarray(part.transpose(0, 3, 1, 2))\n"
    "    logits = session.run(['logits'], {takes.name: part})[0]\n"
    "    out.write(numpy.ascontiguousarray(logits[:count], numpy.float32).tobytes())\n";

/* The images checked, and our logits. */
struct seen {
    const struct xt_network *network;
    size_t image_bytes, logit_count; /* per image */
    struct xt_str pixels;
    struct xt_str logits;
};

static enum xt_status observe(void *context, const uint8_t *pixels, int count, struct xt_err *err)
{
    struct seen *seen = context;
    const float *logits = xt_graph_logits(seen->network->graph);
    enum xt_status status =
        xt_str_append(&seen->pixels, (const char *)pixels, (size_t)count * seen->image_bytes, err);
    return status ? status
                  : xt_str_append(&seen->logits, (const char *)logits,
                                  (size_t)count * seen->logit_count * sizeof *logits, err);
}

enum xt_status xt_export_check_open(const struct xt_network *network,
                                    const struct xt_settings *settings, struct xt_source **out,
                                    struct xt_err *err)
{
    struct xt_source_options options = xt_network_source_options(network);
    options.labels_optional = true;
    options.held_out = true;
    enum xt_status status = xt_source_open(out, settings->export.check, &options, err);
    return status ? xt_err_prefix(err, "--check: ") : XT_OK;
}

static enum xt_status run_over(struct seen *seen, struct xt_network *network,
                               const struct xt_settings *settings, const struct xt_source *source,
                               struct xt_export_check *out, struct xt_err *err)
{
    const struct xt_image_pass pass = {.source = source,
                                       .most = IMAGES_MOST,
                                       .option = "--check",
                                       .what = "while checking the exported model",
                                       .observe = observe,
                                       .context = seen};
    out->all = source->count;
    enum xt_status status = xt_image_pass_run(network, &settings->data, &pass, &out->images, err);
    if (!status && !out->images)
        status = xt_err_set(err, XT_ERR_DATA, "--check: none of the images of %s could be read",
                            settings->export.check);
    return status;
}

/* Sets *why_not if there is no result, or fails if that is the model's fault. */
static enum xt_status judge(const char *python, int code, const struct xt_process_end *end,
                            struct xt_export_check *out, struct xt_err *err)
{
    if (code == NO_PROGRAM)
        snprintf(out->why_not, sizeof out->why_not,
                 "%.200s, which would run onnxruntime, is not available", python);
    else if (code == NO_MODULE)
        snprintf(out->why_not, sizeof out->why_not,
                 "%.200s lacks a module (%.160s); pip install onnxruntime installs it, and "
                 "XTRAIN_PYTHON=VENV/bin/python names another Python",
                 python, end->said);
    else if (end->timed_out)
        return xt_err_set(err, XT_ERR_RUN, "onnxruntime did not exit within %d s", SECONDS_MOST);
    else if (end->signal || code)
        return xt_err_set(err, XT_ERR_RUN, "onnxruntime does not run the exported model: %s",
                          *end->said ? end->said : "it crashed");
    return XT_OK;
}

static double largest_of(const float *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)values[i]));
    return most;
}

static bool is_same(const struct xt_decoded *a, const struct xt_decoded *b, enum xt_task task)
{
    int length = task == XT_TASK_CLASSES ? 1 : a->length;
    if (task == XT_TASK_PLATES && a->length != b->length)
        return false;
    return memcmp(a->symbols, b->symbols, (size_t)length * sizeof *a->symbols) == 0;
}

static enum xt_status compare(const struct seen *seen, const float *theirs,
                              const struct xt_settings *settings, struct xt_export_check *out,
                              struct xt_err *err)
{
    const struct xt_network *network = seen->network;
    const float *ours = (const float *)(const void *)seen->logits.data;
    struct xt_predictor *predictor = NULL;
    enum xt_status status = xt_predictor_create(&predictor, network, &settings->answer, err);
    for (size_t i = 0; i < out->images && !status; i++) {
        const float *a = ours + i * seen->logit_count;
        const float *b = theirs + i * seen->logit_count;
        struct xt_decoded answers[2];
        status = predictor->class->answer(predictor, a, &answers[0], err);
        if (!status)
            status = predictor->class->answer(predictor, b, &answers[1], err);
        if (status)
            break;
        out->same += is_same(&answers[0], &answers[1], network->task);
        for (size_t k = 0; k < seen->logit_count; k++)
            out->largest = fmax(out->largest, fabs((double)a[k] - (double)b[k]));
        out->magnitude = fmax(out->magnitude, largest_of(a, seen->logit_count));
    }
    xt_predictor_destroy(predictor);
    return status;
}

/* float32 differs by summation order only; fp16 and int8 also by each runtime's rounding, int8 for
 * a runtime by that of sums and averages, which are float32 here, and weights of 7 bits by that of
 * a signed source's, where oneDNN halves those of 8. */
static bool passes(const struct xt_export_check *check, const struct xt_export_settings *export)
{
    if (export->type == XT_EXPORT_F32)
        return check->same == check->images && check->largest <= 1e-4 * fmax(1, check->magnitude);
    bool rounds_otherwise = export->runtime || export->weight_bits == 7;
    return 100 * check->same >= (rounds_otherwise ? 97 : 99) * check->images;
}

static enum xt_status run(const struct seen *seen, const struct xt_settings *settings,
                          const char *model, struct xt_export_check *out, struct xt_err *err)
{
    const char *said = getenv("XTRAIN_PYTHON");
    const char *python = said && *said ? said : "python3";
    char batch[16];
    struct xt_str output = {0};
    struct xt_process_end end;
    int code = 0;
    snprintf(batch, sizeof batch, "%d", seen->network->batch);
    const struct xt_process_program program = {
        .argv = (const char *const[]){python, "-I", "-c", script, model, batch, NULL},
        .input = seen->pixels.data,
        .input_bytes = seen->pixels.length,
        .seconds = SECONDS_MOST,
    };
    enum xt_status status = xt_process_run_program(&program, &output, &code, &end, err);
    /* A stop signal reaches the child process too, which then exits as if it had failed. */
    if (!status)
        status = xt_stop_check(err, "while checking the exported model");
    if (!status)
        status = judge(python, code, &end, out, err);
    const char *line = output.data ? memchr(output.data, '\n', output.length) : NULL;
    size_t bytes = out->images * seen->logit_count * sizeof(float);
    if (!status && !*out->why_not &&
        (!line || output.length - (size_t)(line + 1 - output.data) != bytes))
        status = xt_err_set(err, XT_ERR_RUN,
                            "onnxruntime returned a different number of logits than %s has",
                            seen->network->model->name);
    if (!status && !*out->why_not) {
        float *theirs = NULL;
        snprintf(out->runtime, sizeof out->runtime, "%.*s", (int)(line - output.data), output.data);
        status = xt_mem_aligned(&theirs, bytes, 1, "the logits", err);
        if (!status) {
            memcpy(theirs, line + 1, bytes);
            status = compare(seen, theirs, settings, out, err);
        }
        free(theirs);
    }
    xt_str_clear(&output);
    return status;
}

enum xt_status xt_export_check(struct xt_network *network, const struct xt_settings *settings,
                               const struct xt_source *source, const char *model,
                               struct xt_export_check *out, struct xt_err *err)
{
    const int columns = network->model->time_steps ? network->model->time_steps : 1;
    struct seen seen = {
        .network = network,
        .image_bytes = xt_network_image_bytes(network),
        .logit_count = (size_t)columns * (size_t)network->classes,
    };
    *out = (struct xt_export_check){0};
    enum xt_status status = run_over(&seen, network, settings, source, out, err);
    if (!status)
        status = run(&seen, settings, model, out, err);
    out->passed = !status && !*out->why_not && passes(out, &settings->export);
    xt_str_clear(&seen.pixels);
    xt_str_clear(&seen.logits);
    return status;
}
