/* Holds networks from ONNX files against what PyTorch computes with them in float64:
 * zoo [--device DEVICE] [--programs] [--amp f32|bf16] DIR
 *
 * For each NAME.onnx of the folder with a NAME.safetensors beside it: logits in evaluation and in
 * training, the losses of five steps of SGD, the first step's gradients, and the running statistics
 * after the fifth. Prints the largest error of each, relative to the largest value, beside its
 * tolerance; the last line is how many networks passed and failed. DIR/README.md says what each
 * tensor is. With --programs the CPU runs what an XPU does: each op's program, not its own loops.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/backend.h"
#include "engine/executor.h"
#include "infer/network/param_files.h"
#include "models/loaded.h"
#include "models/weights/weight_file.h"
#include "train/losses/ctc.h"
#include "train/losses/softmax.h"
#include "train/optim/optim.h"
#include "train/optim/xpu_optim.h"
#include "reach.h"

enum { BATCH = 4, STEPS = 5, LABEL_MAX = 32 };

/* Norms are gradients' lengths, heads their first elements as vectors. A network whose numbers jump
 * in float32 (PyTorch's losses of resnext50_32x4d are off by a half after five steps) is run again
 * with its input moved: what is off by no more than units that turn over reach is right (reach.h).
 * In bf16, behind batch norms over 16 numbers, that holds for the training logits too.
 */
struct tolerances {
    double logits, losses, norms, heads, statistics;
    double least; /* the part of the largest gradient's length that counts at least */
};
static const struct tolerances f32 = {1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-3};
static const struct tolerances bf16 = {5e-2, 5e-2, 3e-1, 7e-1, 5e-2, 1e-2};
/* Of smaller losses, those of sure predictions, float32 has few digits or none. */
static const double least_loss = 1e-2;

/* What computes. */
struct target {
    const char *device;
    const struct xt_backend *backend; /* NULL: the device's */
    enum xt_dtype dtype;
};

struct run {
    const struct target *target;
    const struct tolerances *tolerances;
    struct xt_device device;
    struct xt_loaded_model *model;
    struct xt_weight_file reference;
    struct xt_params params;
    struct xt_graph *graph, *inference; /* of the same parameters */
    struct xt_ctc *ctc;                 /* NULL: a classifier */
    int labels[BATCH * LABEL_MAX], lengths[BATCH], label_length;
    float *x; /* the images, normalised */
    struct reach *reach;
    struct xt_optim optim;
    struct xt_xpu_optim *xpu_optim;
    struct xt_optim_range ranges[XT_PARAMS_MAX];
    size_t range_count;
    int wrong;
};

/* ---- what is compared ---- */

static void report(struct run *run, const char *what, double error, double tolerance,
                   const char *where)
{
    bool right = error <= tolerance;
    if (run->reach->moved)
        return;
    printf("  %-6s %-14s largest error %.2e, allowed %.0e %s\n", right ? "ok" : "WRONG", what,
           error, tolerance, where);
    run->wrong += !right;
}

/* A tensor's values (free), NULL after a failure. */
static float *floats_of(const struct run *run, const char *name, size_t count, struct xt_err *err)
{
    const struct xt_file_tensor *tensor = xt_weight_file_find(&run->reference, name);
    float *values = NULL;
    if (!tensor) {
        xt_err_set(err, XT_ERR_DATA, "the reference has no tensor %s", name);
        return NULL;
    }
    if (count && xt_file_tensor_count(tensor) != count) {
        xt_err_set(err, XT_ERR_DATA, "the reference's %s is not of %zu elements", name, count);
        return NULL;
    }
    count = xt_file_tensor_count(tensor);
    if (!xt_mem_calloc(&values, count, sizeof *values, name, err) &&
        !xt_file_tensor_floats(tensor, values, count, err))
        return values;
    free(values);
    return NULL;
}

static double log_of_sum(const float *row, int count)
{
    double largest = -INFINITY;
    double sum = 0;
    for (int k = 0; k < count; k++)
        largest = fmax(largest, (double)row[k]);
    for (int k = 0; k < count; k++)
        sum += exp((double)row[k] - largest);
    return largest + log(sum);
}

/* What is to be taken from a row of logits: a LogSoftmax at a network's end is left off here, while
 * the reference has it. */
static double shift_of(const float *got, const float *wanted, int count)
{
    const double rounding = 1e-4;
    return fabs(log_of_sum(wanted, count)) < rounding ? log_of_sum(got, count) : 0;
}

/* `jumps`: they may be off by what units that turn over explain. */
static enum xt_status compare_logits(struct run *run, const char *name, bool jumps,
                                     struct xt_err *err)
{
    const struct xt_model_info *info = &run->model->info;
    size_t columns = (size_t)(info->time_steps ? info->time_steps : 1);
    size_t count = BATCH * columns * (size_t)info->classes;
    float *wanted = floats_of(run, name, count, err);
    const float *logits = xt_graph_logits(run->graph);
    double shift = 0;
    double error = 0;
    double largest = 0;
    if (!wanted)
        return err->status;
    for (size_t i = 0; i < count; i++) {
        if (i % (size_t)info->classes == 0)
            shift = shift_of(logits + i, wanted + i, info->classes);
        double got = (double)logits[i] - shift;
        double turns = jumps ? explained(run->reach, got) : 0;
        double apart = beyond(got - (double)wanted[i], turns);
        error = apart <= error ? error : apart; /* NaN counts */
        largest = fmax(largest, fabs((double)wanted[i]));
    }
    free(wanted);
    report(run, name, largest > 0 ? error / largest : error, run->tolerances->logits, "");
    return XT_OK;
}

/* The worst of several tensors. */
struct worst {
    double error;
    char name[XT_PARAM_NAME_MAX];
};

static void note(struct worst *worst, double error, const char *name)
{
    if (error <= worst->error)
        return;
    worst->error = error;
    snprintf(worst->name, sizeof worst->name, "%s", name);
}

static double norm_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static double distance(struct run *run, const float *got, const float *wanted, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += pow(
            beyond((double)got[i] - (double)wanted[i], explained(run->reach, (double)got[i])), 2);
    return sqrt(sum);
}

/* Of gradients: the length, and the first elements as a vector, by the length that as many have on
 * average, and at least by a part of the largest: more of it where the gradient is zero but for
 * rounding, as of a bias before a norm. */
static enum xt_status compare_gradient(struct run *run, const struct xt_file_tensor *mine,
                                       double largest, struct worst *norm, struct worst *head,
                                       struct xt_err *err)
{
    enum { HEAD = 64 };
    const double zero = 1e-9;
    char name[XT_PARAM_NAME_MAX + 16];
    const float *got = mine->data;
    size_t count = xt_file_tensor_count(mine);
    size_t first = count < HEAD ? count : HEAD;
    snprintf(name, sizeof name, "grad_norm.%s", mine->name);
    float *length = floats_of(run, name, 1, err);
    snprintf(name, sizeof name, "grad_head.%s", mine->name);
    float *wanted = length ? floats_of(run, name, first, err) : NULL;
    if (wanted) {
        double least = run->tolerances->least * ((double)length[0] < zero * largest ? 100 : 1);
        double whole = fmax((double)length[0], least * largest);
        double expected = whole * sqrt((double)first / (double)count);
        double own = norm_of(got, count);
        note(norm, beyond(own - (double)length[0], explained(run->reach, own)) / whole, mine->name);
        note(head, distance(run, got, wanted, first) / fmax(expected, norm_of(wanted, first)),
             mine->name);
    }
    enum xt_status status = wanted ? XT_OK : err->status;
    free(length);
    free(wanted);
    return status;
}

static double largest_length(const struct xt_params_tensors *tensors)
{
    double largest = 0;
    for (int i = 0; i < tensors->count; i++)
        if (tensors->items[i].dtype == XT_F32)
            largest = fmax(
                largest, norm_of(tensors->items[i].data, xt_file_tensor_count(&tensors->items[i])));
    return largest;
}

/* Refuses a network that lacks one of the reference's parameters, or statistics. */
static enum xt_status find_missing(const struct run *run, const struct xt_params_tensors *mine,
                                   const char *prefix, struct xt_err *err)
{
    for (size_t i = 0; i < run->reference.count; i++) {
        const char *name = run->reference.tensors[i].name;
        bool found = !xt_str_starts(name, prefix);
        for (int k = 0; k < mine->count && !found; k++)
            found = strcmp(mine->items[k].name, name + strlen(prefix)) == 0;
        if (!found)
            return xt_err_set(err, XT_ERR_DATA, "it has no %s", name + strlen(prefix));
    }
    return XT_OK;
}

static enum xt_status compare_gradients(struct run *run, struct xt_err *err)
{
    struct xt_params_tensors mine = {0};
    struct worst norm = {0};
    struct worst head = {0};
    const struct xt_params_view view = {run->params.grads, NULL};
    enum xt_status status = xt_params_to_tensors(&run->params, &run->device, &view, &mine, err);
    double largest = status ? 0 : largest_length(&mine);
    for (int i = 0; i < mine.count && !status; i++)
        if (mine.items[i].dtype == XT_F32)
            status = compare_gradient(run, &mine.items[i], largest, &norm, &head, err);
    if (!status)
        status = find_missing(run, &mine, "grad_norm.", err);
    xt_params_free_tensors(&mine);
    if (status)
        return status;
    report(run, "grad_norm", norm.error, run->tolerances->norms, norm.name);
    report(run, "grad_head", head.error, run->tolerances->heads, head.name);
    return XT_OK;
}

static enum xt_status compare_statistics(struct run *run, struct xt_err *err)
{
    struct xt_params_tensors mine = {0};
    struct worst worst = {0};
    const struct xt_params_view view = {run->params.values, run->params.stats};
    enum xt_status status = xt_params_to_tensors(&run->params, &run->device, &view, &mine, err);
    for (int i = 0; i < mine.count && !status; i++) {
        char name[XT_PARAM_NAME_MAX + 16];
        const float *got = mine.items[i].data;
        size_t count = xt_file_tensor_count(&mine.items[i]);
        double largest = 0;
        double error = 0;
        snprintf(name, sizeof name, "stat.%s", mine.items[i].name);
        if (mine.items[i].dtype != XT_F32 || !xt_weight_file_find(&run->reference, name))
            continue;
        float *wanted = floats_of(run, name, count, err);
        if (!wanted)
            status = err->status;
        /* So few passes say little of one element: all may move as far as the one that moves most.
         */
        double turns = 0;
        for (size_t k = 0; wanted && k < count; k++)
            turns = fmax(turns, explained(run->reach, (double)got[k]));
        for (size_t k = 0; wanted && k < count; k++) {
            double apart = beyond((double)got[k] - (double)wanted[k], turns);
            error = apart <= error ? error : apart; /* NaN counts */
            largest = fmax(largest, fabs((double)wanted[k]));
        }
        note(&worst, error / largest, mine.items[i].name);
        free(wanted);
    }
    if (!status)
        status = find_missing(run, &mine, "stat.", err);
    xt_params_free_tensors(&mine);
    if (!status)
        report(run, "stat", worst.error, run->tolerances->statistics, worst.name);
    return status;
}

/* ---- a network ---- */

static size_t pixels_of(const struct run *run)
{
    const struct xt_model_info *info = &run->model->info;
    const size_t colours = info->grey ? 1 : 3;
    return BATCH * colours * (size_t)info->height * (size_t)info->width;
}

/* Moved as the pass says. */
static void fill_images(struct run *run)
{
    const uint8_t *bytes = xt_weight_file_find(&run->reference, "images")->data;
    for (size_t i = 0; i < pixels_of(run); i++)
        run->x[i] = ((float)bytes[i] - 127.5f) / 127.5f;
    move_by_pass(run->x, pixels_of(run), run->reach->moved,
                 run->target->dtype == XT_BF16 ? MOVED_BY_BF16 : MOVED_BY);
}

static enum xt_status load_targets(struct run *run, struct xt_err *err)
{
    const struct xt_model_info *info = &run->model->info;
    const struct xt_file_tensor *images = xt_weight_file_find(&run->reference, "images");
    const struct xt_file_tensor *targets = xt_weight_file_find(&run->reference, "targets");
    size_t pixels = pixels_of(run);
    if (!images || images->dtype != XT_U8 || images->bytes != pixels)
        return xt_err_set(err, XT_ERR_DATA, "the reference's images are not %d of %dx%d", BATCH,
                          info->width, info->height);
    size_t count = targets && targets->dtype == XT_I64 ? xt_file_tensor_count(targets) : 0;
    enum xt_status status = xt_mem_calloc(&run->x, pixels, sizeof *run->x, "the images", err);
    if (status)
        return status;
    run->label_length = (int)(count / BATCH);
    if (!count || count % BATCH || run->label_length > LABEL_MAX)
        return xt_err_set(err, XT_ERR_DATA, "the reference's targets cannot be read");
    for (size_t i = 0; i < count; i++) {
        int64_t label = 0;
        memcpy(&label, (const char *)targets->data + i * sizeof label, sizeof label);
        run->labels[i] = (int)label;
    }
    for (int i = 0; i < BATCH; i++)
        run->lengths[i] = run->label_length;
    return info->time_steps ? xt_ctc_create(&run->ctc, BATCH, info->time_steps, info->classes,
                                            run->label_length, err)
                            : XT_OK;
}

static double loss_of(struct run *run)
{
    float losses[BATCH];
    const struct xt_softmax_targets targets = {.labels = run->labels, .stride = 1};
    int classes = run->model->info.classes;
    const float *logits = xt_graph_logits(run->graph);
    float *grad = xt_graph_logits_grad(run->graph);
    return run->ctc ? xt_ctc_loss(run->ctc, logits, run->labels, (size_t)run->label_length,
                                  run->lengths, BATCH, classes - 1, losses, grad)
                    : xt_softmax_loss(logits, BATCH, classes, &targets, losses, grad);
}

static enum xt_status describe(struct run *run, bool training, struct xt_graph **graph,
                               struct xt_err *err)
{
    const struct xt_model_info *info = &run->model->info;
    const struct xt_graph_options options = {.device = &run->device,
                                             .params = &run->params,
                                             .backend = run->target->backend,
                                             .batch = BATCH,
                                             .training = training,
                                             .fuse = !training,
                                             .by_slices = true,
                                             .dtype = run->target->dtype};
    const struct xt_model_options model_options = {
        .classes = info->classes, .height = info->height, .width = info->width};
    enum xt_status status = xt_graph_create(graph, &options, err);
    return status ? status
                  : xt_graph_build(*graph, xt_model_describe(info, *graph, &model_options), err);
}

static enum xt_status set_up_optimizer(struct run *run, struct xt_err *err)
{
    run->optim = (struct xt_optim){.kind = XT_OPTIM_SGD, .momentum = 0.9};
    for (int i = 0; i < run->params.count; i++) {
        const struct xt_param *param = &run->params.items[i];
        if (!xt_param_is_statistic(param))
            run->ranges[run->range_count++] = (struct xt_optim_range){
                .offset = param->offset, .count = param->floats, .lr_factor = 1};
    }
    return xt_mem_aligned(&run->optim.state[0], run->params.value_floats, sizeof(float),
                          "the optimizer", err);
}

static enum xt_status reset_optimizer(struct run *run, struct xt_err *err)
{
    memset(run->optim.state[0], 0, run->params.value_floats * sizeof(float));
    if (run->device.kind != XT_DEVICE_XPU)
        return XT_OK;
    xt_xpu_optim_destroy(run->xpu_optim);
    return xt_xpu_optim_create(&run->xpu_optim, &run->device, &run->optim, &run->params,
                               run->ranges, run->range_count,
                               (struct xt_xpu_optim_norm){.by_device = false}, err);
}

static enum xt_status update(struct run *run, struct xt_err *err)
{
    static const double rate = 0.01;
    if (run->xpu_optim)
        return xt_xpu_optim_update(run->xpu_optim, rate, 1, err);
    xt_optim_update(&run->optim, run->params.values, run->params.grads, run->ranges,
                    run->range_count, rate, 1);
    run->params.version++;
    return XT_OK;
}

/* Five steps. */
static enum xt_status train(struct run *run, struct xt_err *err)
{
    float *wanted = floats_of(run, "losses", STEPS, err);
    double worst = 0;
    enum xt_status status = XT_OK;
    if (!wanted)
        return err->status;
    run->graph->pass = (struct xt_graph_pass){.floats = run->x, .count = BATCH, .training = true};
    for (int step = 0; step < STEPS && !status; step++) {
        status = xt_graph_forward(run->graph, err);
        if (!status && step == 0)
            status = compare_logits(run, "train.logits", run->target->dtype == XT_BF16, err);
        if (status)
            break;
        double loss = loss_of(run);
        double error = beyond(loss - (double)wanted[step], explained(run->reach, loss)) /
                       fmax((double)wanted[step], least_loss);
        worst = error <= worst ? worst : error;
        status = xt_graph_backward(run->graph, err);
        if (!status)
            status = xt_params_pull_grads(&run->params, err);
        if (!status && step == 0)
            status = compare_gradients(run, err);
        if (!status)
            status = update(run, err);
    }
    if (!status)
        status = xt_params_pull(&run->params, err);
    if (!status)
        report(run, "losses", worst, run->tolerances->losses, "");
    free(wanted);
    return status ? status : compare_statistics(run, err);
}

static enum xt_status evaluate(struct run *run, struct xt_err *err)
{
    struct xt_graph *training = run->graph;
    run->graph = run->inference;
    run->graph->pass = (struct xt_graph_pass){.floats = run->x, .count = BATCH};
    enum xt_status status = xt_graph_forward(run->graph, err);
    if (!status)
        status = compare_logits(run, "eval.logits", false, err);
    run->graph = training;
    return status;
}

/* What all passes have in common; graphs are built once, since a double of a GPU takes minutes and
 * gigabytes to compile a large one. */
static enum xt_status set_up(struct run *run, const char *onnx, const char *reference,
                             struct xt_err *err)
{
    enum xt_status status = xt_device_open(&run->device, run->target->device, 0, err);
    if (!status)
        status = xt_weight_file_read(&run->reference, reference, XT_MODEL_BYTES_MAX, err);
    const struct xt_file_tensor *images =
        status ? NULL : xt_weight_file_find(&run->reference, "images");
    bool has_size = images && images->ndims == 4 && images->dims[1] <= INT32_MAX;
    if (!status)
        status = xt_model_open(&run->model, onnx, has_size ? (int)images->dims[1] : 0, err);
    if (!status)
        status = load_targets(run, err);
    if (!status)
        status = describe(run, true, &run->graph, err);
    if (!status)
        status = describe(run, false, &run->inference, err);
    return status ? status : set_up_optimizer(run, err);
}

static enum xt_status check(struct run *run, const char *onnx, struct xt_err *err)
{
    const struct xt_params_view view = {run->params.values, run->params.stats};
    enum xt_status status = xt_params_from_file(&run->params, &run->device, &view,
                                                &run->model->weights, onnx, false, NULL, err);
    fill_images(run);
    if (!status)
        status = reset_optimizer(run, err);
    if (!status)
        status = evaluate(run, err);
    return status ? status : train(run, err);
}

static void clear(struct run *run)
{
    xt_graph_destroy(run->inference);
    xt_graph_destroy(run->graph);
    xt_xpu_optim_destroy(run->xpu_optim);
    xt_ctc_destroy(run->ctc);
    xt_params_clear(&run->params);
    xt_model_close(run->model);
    xt_weight_file_clear(&run->reference);
    free(run->optim.state[0]);
    free(run->x);
    xt_device_close(&run->device);
}

enum outcome { WRONG, RIGHT, REFUSED };

/* One pass, with the input moved or as it is. */
static enum outcome run_pass(struct run *run, const char *onnx)
{
    struct xt_err err = {0};
    run->reach->at = 0;
    run->wrong = 0;
    enum xt_status status = check(run, onnx, &err);
    if (status)
        printf("  WRONG  %s\n", err.text);
    fflush(stdout);
    return status ? REFUSED : run->wrong ? WRONG : RIGHT;
}

static enum outcome run_passes(struct run *run, const char *onnx)
{
    struct reach *reach = run->reach;
    enum outcome outcome = run_pass(run, onnx);
    if (outcome != WRONG)
        return outcome;
    printf("  with units that turn over:\n");
    reach->count = 0;
    for (reach->moved = MOVED_PASSES; reach->moved > 0; reach->moved--)
        run_pass(run, onnx);
    return run_pass(run, onnx);
}

/* Whether the pair of files passed. */
static bool check_pair(const char *onnx, const char *reference, const struct target *target)
{
    static struct run run; /* large */
    struct reach reach = {0};
    struct xt_err err = {0};
    printf("%s, %s on %s%s\n", xt_file_name(onnx), xt_dtype_name(target->dtype), target->device,
           target->backend ? ", by programs alone" : "");
    run = (struct run){
        .target = target, .tolerances = target->dtype == XT_BF16 ? &bf16 : &f32, .reach = &reach};
    enum xt_status status = set_up(&run, onnx, reference, &err);
    if (status)
        printf("  WRONG  %s\n", err.text);
    bool right = !status && run_passes(&run, onnx) == RIGHT;
    clear(&run);
    free(reach.least);
    free(reach.most);
    return right;
}

static bool has_reference(const char *onnx, struct xt_str *out)
{
    static const char end[] = ".onnx";
    if (!xt_str_ends(onnx, end))
        return false;
    xt_str_printf(out, NULL, "%.*s.safetensors", (int)(strlen(onnx) - strlen(end)), onnx);
    return xt_file_exists(xt_str_get(out));
}

int main(int argc, char **argv)
{
    struct target target = {.device = "cpu", .dtype = XT_F32};
    const char *folder = NULL;
    int count[2] = {0, 0};
    struct xt_file_list files = {0};
    struct xt_err err = {0};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            target.device = argv[++i];
        else if (strcmp(argv[i], "--programs") == 0)
            target.backend = &xt_backend_programs;
        else if (strcmp(argv[i], "--amp") == 0 && i + 1 < argc)
            target.dtype = strcmp(argv[++i], "bf16") == 0 ? XT_BF16 : XT_F32;
        else
            folder = argv[i];
    if (!folder || xt_file_list_folder(&files, folder, &err)) {
        fprintf(stderr, "usage: zoo [--device DEVICE] [--programs] [--amp f32|bf16] DIR  %s\n",
                err.text);
        return 2;
    }
    for (size_t i = 0; i < files.count; i++) {
        struct xt_str reference = {0};
        if (has_reference(files.paths[i], &reference))
            count[check_pair(files.paths[i], xt_str_get(&reference), &target)]++;
        xt_str_clear(&reference);
    }
    xt_file_list_clear(&files);
    printf("%d passed, %d failed\n", count[true], count[false]);
    return count[false] || !count[true];
}
