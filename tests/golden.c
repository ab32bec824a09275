/* Holds the networks against reference numbers:
 * golden [--amp f32|bf16] [--device DEVICE] [--model MODEL] DIR
 *
 * For each network, or for MODEL alone: logits in evaluation and in training, the losses of
 * five steps of SGD, the first step's gradients and running statistics, and the parameters after
 * the fifth step. Prints the largest error of each beside its tolerance and exits 1 where one is
 * exceeded. DIR/README.md says what each tensor is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/executor.h"
#include "engine/ranges.h"
#include "models/registry.h"
#include "train/losses/ctc.h"
#include "train/losses/softmax.h"
#include "infer/network/param_files.h"
#include "train/optim/optim.h"
#include "train/optim/xpu_optim.h"
#include "reach.h"

/* On an XPU nothing is moved (reach.h), and what jumps may be off by XPU_JUMP times as much: its
 * ops are held one by one by the self-test. In bf16 the gradient is compared as a whole. */
enum { XPU_JUMP = 50 };

static int checks_failed;
static int checks_passed;

struct check;
struct network;

enum { BATCH = 4, LABEL_STRIDE = 8 };

/* What one network is run with. */
struct run {
    const struct check *check;
    struct reach *reach;
    const struct network *network;
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_weight_file file;
    float *x;           /* [BATCH][h][w][3] */
    struct xt_ctc *ctc; /* of LPRNet, with its labels as the loss wants them */
    int symbols[BATCH * LABEL_STRIDE];
    int lengths[BATCH];
    struct xt_softmax_targets targets; /* of ResNet-50 */
    struct xt_optim optim;
    struct xt_xpu_optim *xpu_optim; /* NULL on the CPU */
    struct xt_optim_range ranges[XT_PARAMS_MAX];
    size_t range_count;
};

/* Allowed errors, relative. 0: not compared. */
struct tolerances {
    double logits, loss_first, loss_last;
    double whole; /* the gradient as one vector */
    double grads, stats, params;
    double norms; /* of gradients, where the reference has no more than their lengths */
};

struct network {
    const char *name;
    struct xt_model_options options;
    int steps; /* T */
    double lr;
    /* Weights, input and targets. */
    enum xt_status (*load)(struct run *run, struct xt_err *err);
    double (*loss)(struct run *run);
    enum xt_status (*compare_step)(struct run *run, const char *prefix,
                                   const struct tolerances *tol, struct xt_err *err);
    struct tolerances f32, bf16;
};

/* What is checked, and on what. */
struct check {
    const struct network *network;
    const char *prefix; /* of the reference's tensors */
    const char *path;
    const char *device;
    enum xt_dtype dtype;
    bool over_batch;
};

/* A tensor's name in the reference. */
struct name {
    char text[160];
};

static struct name named(const char *prefix, const char *rest)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "%.63s%.95s", prefix, rest);
    return name;
}

static const struct xt_file_tensor *need(const struct run *run, const char *name,
                                         struct xt_err *err)
{
    const struct xt_file_tensor *tensor = xt_weight_file_find(&run->file, name);
    if (!tensor)
        xt_err_set(err, XT_ERR_DATA, "the reference has no tensor %s", name);
    return tensor;
}

/* The file's tensors under `prefix`, without it. */
static enum xt_status weights_of(const struct run *run, const char *prefix,
                                 struct xt_weight_file *out, struct xt_err *err)
{
    *out = (struct xt_weight_file){0};
    enum xt_status status =
        xt_mem_calloc(&out->tensors, run->file.count, sizeof *out->tensors, "tensors", err);
    for (size_t i = 0; i < run->file.count && !status; i++) {
        if (strncmp(run->file.tensors[i].name, prefix, strlen(prefix)) != 0)
            continue;
        out->tensors[out->count] = run->file.tensors[i];
        out->tensors[out->count++].name += strlen(prefix);
    }
    return status;
}

static enum xt_status load_weights(struct run *run, struct xt_err *err)
{
    struct xt_weight_file weights;
    enum xt_status status = weights_of(run, "weights.", &weights, err);
    struct xt_params_view view = {run->params.values, run->params.stats};
    if (!status)
        status = xt_params_from_file(&run->params, &run->device, &view, &weights, "the reference",
                                     false, NULL, err);
    free(weights.tensors);
    return status;
}

static void report(const struct run *run, const char *what, double error, double tolerance)
{
    bool right = error <= tolerance;
    if (run->reach->moved)
        return;
    printf("%-6s %-44s largest error %.2e, allowed %.0e\n", right ? "ok" : "WRONG", what, error,
           tolerance);
    checks_passed += right;
    checks_failed += !right;
}

static double jump_tolerance(const struct run *run, double tolerance)
{
    return run->device.kind == XT_DEVICE_XPU ? tolerance * XPU_JUMP : tolerance;
}

/* From [n][3][pixels], which it frees, to [n][pixels][3]. */
static enum xt_status take_input(struct run *run, float *values, size_t pixels, struct xt_err *err)
{
    size_t count = BATCH * 3 * pixels;
    enum xt_status status = xt_mem_calloc(&run->x, count, sizeof *run->x, "the input", err);
    for (size_t i = 0; i < count && !status; i++)
        run->x[(i / (3 * pixels) * pixels + i % pixels) * 3 + i / pixels % 3] = values[i];
    free(values);
    if (!status)
        move_by_pass(run->x, count, run->reach->moved, MOVED_BY);
    return status;
}

/* A tensor's values (free), NULL after a failure. */
static float *floats_of(const struct xt_file_tensor *tensor, struct xt_err *err)
{
    size_t count = xt_file_tensor_count(tensor);
    float *values = NULL;
    if (xt_mem_calloc(&values, count, sizeof *values, tensor->name, err) == XT_OK &&
        xt_file_tensor_floats(tensor, values, count, err) == XT_OK)
        return values;
    free(values);
    return NULL;
}

static enum xt_status load_input(struct run *run, struct xt_err *err)
{
    const struct xt_file_tensor *x = need(run, "x", err);
    if (x && (x->ndims != 4 || x->dims[0] != BATCH || x->dims[1] != 3))
        return xt_err_set(err, XT_ERR_DATA, "the reference's x is no batch of %d images", BATCH);
    float *values = x ? floats_of(x, err) : NULL;
    return values ? take_input(run, values, (size_t)(x->dims[2] * x->dims[3]), err) : err->status;
}

enum graph_kind { TRAINING, UNFUSED, FUSED };

static enum xt_status build(struct run *run, enum graph_kind kind, const struct xt_ranges *int8,
                            struct xt_err *err)
{
    const struct xt_model_info *model = NULL;
    enum xt_status status = xt_model_get(run->network->name, &model, err);
    struct xt_model_options model_options = run->network->options;
    struct xt_graph_options options = {.device = &run->device,
                                       .params = &run->params,
                                       .batch = BATCH,
                                       .training = kind == TRAINING,
                                       .fuse = kind == FUSED,
                                       .by_slices = kind == TRAINING,
                                       .dtype = run->check->dtype,
                                       .int8 = int8};
    model_options.context_over_batch = run->check->over_batch;
    if (!status)
        status = xt_graph_create(&run->graph, &options, err);
    if (status)
        return status;
    return xt_graph_build(run->graph, xt_model_describe(model, run->graph, &model_options), err);
}

static enum xt_status set_up_optimizer(struct run *run, struct xt_err *err)
{
    run->optim = (struct xt_optim){.kind = XT_OPTIM_SGD, .momentum = 0.9, .weight_decay = 5e-4};
    for (int i = 0; i < run->params.count; i++) {
        const struct xt_param *param = &run->params.items[i];
        if (!xt_param_is_statistic(param))
            run->ranges[run->range_count++] = (struct xt_optim_range){
                .offset = param->offset, .count = param->floats, .decay = true, .lr_factor = 1};
    }
    enum xt_status status = xt_mem_aligned(&run->optim.state[0], run->params.value_floats,
                                           sizeof(float), "the optimizer", err);
    if (!status && run->device.kind == XT_DEVICE_XPU)
        status = xt_xpu_optim_create(&run->xpu_optim, &run->device, &run->optim, &run->params,
                                     run->ranges, run->range_count,
                                     (struct xt_xpu_optim_norm){.by_device = false}, err);
    return status;
}

static enum xt_status update(struct run *run, double lr, struct xt_err *err)
{
    if (run->xpu_optim)
        return xt_xpu_optim_update(run->xpu_optim, lr, 1, err);
    xt_optim_update(&run->optim, run->params.values, run->params.grads, run->ranges,
                    run->range_count, lr, 1);
    run->params.version++;
    return XT_OK;
}

/* The reference's logits are [n][class][t]. */
static enum xt_status compare_logits(struct run *run, const char *name, const char *how,
                                     double tolerance, struct xt_err *err)
{
    const struct xt_file_tensor *tensor = need(run, name, err);
    float *wanted = tensor ? floats_of(tensor, err) : NULL;
    if (!wanted)
        return err->status;
    const float *got = xt_graph_logits(run->graph);
    double worst = 0;
    double largest = 0;
    size_t t = (size_t)run->network->steps;
    size_t c = (size_t)run->network->options.classes;
    for (size_t i = 0; i < xt_file_tensor_count(tensor); i++) {
        size_t n = i / (c * t);
        size_t k = i / t % c;
        double value = (double)got[(n * t + i % t) * c + k];
        worst = fmax(worst, fabs(value - (double)wanted[i]));
        largest = fmax(largest, fabs((double)wanted[i]));
    }
    report(run, named(name, how).text, worst / largest, tolerance);
    free(wanted);
    return XT_OK;
}

/* The same parameters in an inference graph, the norms folded into the convolutions or not; the
 * convolutions run in int8 where ranges for it are given. */
static enum xt_status compare_inference(struct run *run, enum graph_kind kind, const char *name,
                                        double tolerance, const struct xt_ranges *int8,
                                        struct xt_recording *recording, struct xt_ranges *found,
                                        struct xt_err *err)
{
    enum xt_status status = build(run, kind, int8, err);
    if (!status) {
        run->graph->recording = recording;
        run->graph->pass = (struct xt_graph_pass){.floats = run->x, .count = BATCH};
        status = xt_graph_forward(run->graph, err);
    }
    if (!status && recording)
        status = xt_recording_ranges(recording, run->graph, found, err);
    const char *how = int8 ? ", fused, int8" : kind == FUSED ? ", fused" : "";
    if (!status)
        status = compare_logits(run, name, how, tolerance, err);
    xt_graph_destroy(run->graph);
    run->graph = NULL;
    return status;
}

/* In evaluation: the training graph itself (on an XPU, whose kernels are for training or not, an
 * unfused one), then fused. In float32 the fused graph's ranges serve an int8 one. */
static enum xt_status compare_evaluation(struct run *run, double tolerance, struct xt_err *err)
{
    static const double int8_tolerance = 5e-2;
    const struct name logits = named(run->check->prefix, "eval.logits");
    const char *name = logits.text;
    struct xt_graph *training = run->graph;
    struct xt_ranges ranges;
    struct xt_recording *recording = NULL;
    bool on_cpu = run->device.kind == XT_DEVICE_CPU;
    bool exact = run->check->dtype == XT_F32;
    run->graph->pass = (struct xt_graph_pass){.floats = run->x, .count = BATCH};
    enum xt_status status =
        on_cpu ? xt_graph_forward(run->graph, err)
               : compare_inference(run, UNFUSED, name, tolerance, NULL, NULL, NULL, err);
    if (!status && on_cpu)
        status = compare_logits(run, name, "", tolerance, err);
    if (!status && exact)
        status = xt_recording_create(&recording, err);
    if (!status)
        status = compare_inference(run, FUSED, name, tolerance, NULL, recording, &ranges, err);
    if (!status && exact)
        status = compare_inference(run, FUSED, name, int8_tolerance, &ranges, NULL, NULL, err);
    xt_recording_destroy(recording);
    run->graph = training;
    return status;
}

/* A tensor of this program beside the reference's. */
struct pair {
    const char *name;
    const float *got;
    size_t count;
    const float *wanted; /* the reference may hold its first elements alone, or one figure of it */
    size_t wanted_count;
};

typedef void visit_pair(const struct pair *pair, void *context);

static enum xt_status visit_one(const struct xt_file_tensor *mine,
                                const struct xt_file_tensor *tensor, visit_pair *visit,
                                void *context, struct xt_err *err)
{
    float *wanted = floats_of(tensor, err);
    if (!wanted)
        return err->status;
    const struct pair pair = {mine->name, mine->data, xt_file_tensor_count(mine), wanted,
                              xt_file_tensor_count(tensor)};
    visit(&pair, context);
    free(wanted);
    return XT_OK;
}

/* Visits each tensor of a view that the reference holds under `prefix`: of trained parameters, and
 * their gradients, it has to hold all. */
static enum xt_status visit_all(struct run *run, const char *prefix,
                                const struct xt_params_view *view, visit_pair *visit, void *context,
                                struct xt_err *err)
{
    struct xt_params_tensors mine;
    enum xt_status status = xt_params_to_tensors(&run->params, &run->device, view, &mine, err);
    int visited = 0;
    for (int i = 0; i < mine.count && !status; i++) {
        const struct name name = named(prefix, mine.items[i].name);
        const struct xt_file_tensor *tensor = xt_weight_file_find(&run->file, name.text);
        if (mine.items[i].dtype != XT_F32 || (!tensor && view->stats))
            continue;
        status = tensor ? visit_one(&mine.items[i], tensor, visit, context, err)
                        : xt_err_set(err, XT_ERR_DATA, "the reference has no tensor %s", name.text);
        visited++;
    }
    xt_params_free_tensors(&mine);
    if (!status && !visited)
        return xt_err_set(err, XT_ERR_DATA, "the reference has no tensor %s*", prefix);
    return status;
}

/* The largest error of all, and its tensor. */
struct worst {
    double error;
    char name[64];
    double largest;      /* of all elements of the reference */
    double tolerance;    /* of an element that does not jump */
    struct reach *reach; /* of elements that jump; an empty one else */
    size_t loose, count; /* elements that units which turn over move by more than the tolerance */
};

static void note_error(struct worst *worst, double error, const char *name)
{
    if (error <= worst->error)
        return;
    worst->error = error;
    snprintf(worst->name, sizeof worst->name, "%s", name);
}

static double largest_of(const struct pair *pair)
{
    double largest = 0;
    for (size_t i = 0; i < pair->wanted_count; i++)
        largest = fmax(largest, fabs((double)pair->wanted[i]));
    return largest;
}

static void find_largest(const struct pair *pair, void *context)
{
    struct worst *worst = context;
    worst->largest = fmax(worst->largest, largest_of(pair));
}

/* Relative to the tensor's largest value or a thousandth of the largest of all. */
static void compare_elements(const struct pair *pair, void *context)
{
    struct worst *worst = context;
    double scale = fmax(largest_of(pair), worst->largest * 1e-3);
    double error = 0;
    for (size_t i = 0; i < pair->wanted_count; i++) {
        double turns = explained(worst->reach, (double)pair->got[i]);
        error = fmax(error, beyond((double)pair->got[i] - (double)pair->wanted[i], turns));
        worst->loose += turns > worst->tolerance * scale;
    }
    worst->count += pair->wanted_count;
    note_error(worst, error / scale, pair->name);
}

/* |mine - wanted| and |wanted|, squared, over however many tensors. */
struct distance {
    double apart;
    double length;
    struct reach *reach; /* as above */
};

/* As far as the reference has values. */
static void add_distance(const struct pair *pair, void *context)
{
    struct distance *sum = context;
    for (size_t i = 0; i < pair->wanted_count; i++) {
        double error = beyond((double)pair->got[i] - (double)pair->wanted[i],
                              explained(sum->reach, (double)pair->got[i]));
        sum->apart += error * error;
        sum->length += (double)pair->wanted[i] * (double)pair->wanted[i];
    }
}

static double norm_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* The reference's one number is the tensor's length. */
static void compare_norm(const struct pair *pair, void *context)
{
    double wanted = (double)pair->wanted[0];
    note_error(context, fabs(norm_of(pair->got, pair->count) - wanted) / wanted, pair->name);
}

/* The first values of a gradient, as a vector, relative to its length or the one that values of
 * this tensor have on average. */
static void compare_head(const struct pair *pair, void *context)
{
    struct worst *worst = context;
    struct distance here = {.reach = worst->reach};
    add_distance(pair, &here);
    double part = (double)pair->wanted_count / (double)pair->count;
    double expected = norm_of(pair->got, pair->count) * sqrt(part);
    note_error(worst, sqrt(here.apart) / fmax(expected, sqrt(here.length)), pair->name);
}

/* Compares each tensor under the prefix with a view of the parameters, and reports the worst. */
static enum xt_status compare_tensors(struct run *run, struct name prefix,
                                      struct xt_params_view view, visit_pair *compare,
                                      double tolerance, bool jumps, struct xt_err *err)
{
    struct reach none = {0};
    struct worst worst = {.reach = jumps ? run->reach : &none, .tolerance = tolerance};
    enum xt_status status = visit_all(run, prefix.text, &view, find_largest, &worst, err);
    if (!status)
        status = visit_all(run, prefix.text, &view, compare, &worst, err);
    char what[256];
    snprintf(what, sizeof what, "%s* (%s)", prefix.text, worst.name);
    if (!status)
        report(run, what, worst.error, jumps ? jump_tolerance(run, tolerance) : tolerance);
    if (!status && worst.loose && !run->reach->moved)
        printf("       %zu of its %zu elements may be off by more, where a ReLU or maximum turns\n",
               worst.loose, worst.count);
    return status;
}

/* The gradients under `prefix` as one vector, which is what a step follows: in bf16 small elements
 * are noise (biases before a BN have only rounding errors), so they are not compared one by one. */
static enum xt_status compare_whole_gradient(struct run *run, struct name prefix, double tolerance,
                                             struct xt_err *err)
{
    struct reach none = {0};
    struct distance sum = {.reach = &none};
    struct xt_params_view view = {run->params.grads, NULL};
    enum xt_status status = visit_all(run, prefix.text, &view, add_distance, &sum, err);
    char what[256];
    snprintf(what, sizeof what, "%s* as one vector", prefix.text);
    if (!status)
        report(run, what, sqrt(sum.apart / sum.length), tolerance);
    return status;
}

/* An XPU's results, copied to be compared; on the CPU they are in place. */
static enum xt_status bring_to_host(struct run *run, struct xt_err *err)
{
    enum xt_status status = xt_params_pull(&run->params, err);
    return status ? status : xt_params_pull_grads(&run->params, err);
}

/* Five steps of training. */
static enum xt_status train(struct run *run, const struct tolerances *tol, struct xt_err *err)
{
    const struct name prefix = named(run->check->prefix, "train.");
    const struct xt_file_tensor *wanted = need(run, named(prefix.text, "losses").text, err);
    if (!wanted)
        return err->status;
    double first_error = 0;
    double last_error = 0;
    enum xt_status status = XT_OK;
    run->graph->pass = (struct xt_graph_pass){.floats = run->x, .count = BATCH, .training = true};
    for (int step = 0; step < 5 && !status; step++) {
        status = xt_graph_forward(run->graph, err);
        if (!status && step == 0)
            status = compare_logits(run, named(prefix.text, "logits").text, "", tol->logits, err);
        if (status)
            break;
        double reference = (double)((const float *)wanted->data)[step];
        double loss = run->network->loss(run);
        double error = beyond(loss - reference, explained(run->reach, loss)) / reference;
        double *worst = step < 3 ? &first_error : &last_error;
        *worst = fmax(*worst, error);
        status = xt_graph_backward(run->graph, err);
        if (!status)
            status = bring_to_host(run, err);
        if (!status && step == 0)
            status = run->network->compare_step(run, prefix.text, tol, err);
        if (!status)
            status = update(run, run->network->lr, err);
    }
    if (!status)
        status = xt_params_pull(&run->params, err);
    if (status)
        return status;
    report(run, named(prefix.text, "losses, steps 1-3").text, first_error,
           jump_tolerance(run, tol->loss_first));
    report(run, named(prefix.text, "losses, steps 4-5").text, last_error,
           jump_tolerance(run, tol->loss_last));
    if (!tol->params)
        return XT_OK;
    return compare_tensors(run, named(prefix.text, "after."),
                           (struct xt_params_view){run->params.values, NULL}, compare_elements,
                           tol->params, true, err);
}

static void run_clear(struct run *run)
{
    xt_graph_destroy(run->graph);
    xt_xpu_optim_destroy(run->xpu_optim);
    xt_ctc_destroy(run->ctc);
    xt_params_clear(&run->params);
    xt_weight_file_clear(&run->file);
    free(run->optim.state[0]);
    free(run->x);
    xt_device_close(&run->device);
}

static enum xt_status run_pass(const struct check *check, struct reach *reach, struct xt_err *err)
{
    const struct network *network = check->network;
    const struct tolerances *tol = check->dtype == XT_F32 ? &network->f32 : &network->bf16;
    struct run run = {.check = check, .network = network, .reach = reach};
    enum xt_status status = xt_device_open(&run.device, check->device, 0, err);
    if (!status)
        status = xt_weight_file_read(&run.file, check->path, XT_MODEL_BYTES_MAX, err);
    if (!status)
        status = build(&run, TRAINING, NULL, err);
    if (!status)
        status = network->load(&run, err);
    if (!status)
        status = set_up_optimizer(&run, err);
    if (!status && !reach->moved)
        status = compare_evaluation(&run, tol->logits, err);
    if (!status)
        status = train(&run, tol, err);
    run_clear(&run);
    return status;
}

/* ---- LPRNet, whose weights and input the file holds ---- */

static enum xt_status load_labels(struct run *run, struct xt_err *err)
{
    const struct xt_file_tensor *labels = need(run, "labels", err);
    const struct xt_file_tensor *lengths = need(run, "label_lengths", err);
    if (!labels || !lengths)
        return err->status;
    if (labels->dtype != XT_I32 || lengths->dtype != XT_I32)
        return xt_err_set(err, XT_ERR_DATA, "the reference's labels are not int32");
    const int32_t *symbol = labels->data;
    const int32_t *length = lengths->data;
    for (int i = 0; i < BATCH; i++) {
        run->lengths[i] = length[i];
        for (int k = 0; k < length[i] && k < LABEL_STRIDE; k++)
            run->symbols[i * LABEL_STRIDE + k] = *symbol++;
    }
    return XT_OK;
}

static enum xt_status load_plates(struct run *run, struct xt_err *err)
{
    enum xt_status status = load_weights(run, err);
    if (!status)
        status = load_input(run, err);
    if (!status)
        status = load_labels(run, err);
    return status ? status
                  : xt_ctc_create(&run->ctc, BATCH, run->network->steps,
                                  run->network->options.classes, LABEL_STRIDE, err);
}

static double plates_loss(struct run *run)
{
    float losses[BATCH];
    return xt_ctc_loss(run->ctc, xt_graph_logits(run->graph), run->symbols, LABEL_STRIDE,
                       run->lengths, BATCH, run->network->options.classes - 1, losses,
                       xt_graph_logits_grad(run->graph));
}

static enum xt_status compare_plates_step(struct run *run, const char *prefix,
                                          const struct tolerances *tol, struct xt_err *err)
{
    const struct xt_params_view grads = {run->params.grads, NULL};
    const struct xt_params_view values = {run->params.values, run->params.stats};
    const struct name grad = named(prefix, "grad.");
    enum xt_status status = compare_whole_gradient(run, grad, tol->whole, err);
    if (!status && tol->grads)
        status = compare_tensors(run, grad, grads, compare_elements, tol->grads, true, err);
    return status ? status
                  : compare_tensors(run, named(prefix, "stat."), values, compare_elements,
                                    tol->stats, false, err);
}

/* ---- ResNet-50, whose weights and input follow from a rule ---- */

enum { INPUT_TENSOR = 1000, IMAGE = 64 };

/* Number i of a tensor, in [-1, 1): splitmix64 of a counter, its top 24 bits. */
static float uniform(uint64_t seed, uint64_t tensor, uint64_t i)
{
    uint64_t z = (((seed << 32 | tensor) << 20) + i) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (float)(z >> 40) / (float)(1 << 23) - 1;
}

static float filled(const struct xt_param *param, float u)
{
    switch (param->role) {
    case XT_PARAM_BN_VAR:
        return 1 + 0.25f * u;
    case XT_PARAM_BN_SCALE:
        return (xt_str_ends(param->name, "bn3.weight") ? 0.25f : 1) * (1 + 0.25f * u);
    case XT_PARAM_WEIGHT:
        return u * (float)sqrt(3.0 / (param->dims[1] * param->dims[2] * param->dims[3]));
    default:
        return 0.1f * u;
    }
}

static enum xt_status fill_weights(struct run *run, uint64_t seed, struct xt_err *err)
{
    struct xt_params_view view = {run->params.values, run->params.stats};
    enum xt_status status = XT_OK;
    uint64_t tensor = 0;
    for (int i = 0; i < run->params.count && !status; i++) {
        const struct xt_param *param = &run->params.items[i];
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        size_t count = 1;
        for (int axis = 0; axis < param->ndims; axis++)
            count *= (size_t)param->dims[axis];
        float *values = NULL;
        status = xt_mem_calloc(&values, count, sizeof *values, param->name, err);
        for (size_t k = 0; k < count && !status; k++)
            values[k] = filled(param, uniform(seed, tensor, k));
        if (!status)
            status = xt_params_import(param, &run->device, &view, values, err);
        free(values);
        tensor++;
    }
    run->params.version++;
    return status;
}

static enum xt_status fill_input(struct run *run, uint64_t seed, struct xt_err *err)
{
    size_t pixels = (size_t)IMAGE * IMAGE;
    size_t count = BATCH * 3 * pixels;
    float *values = NULL;
    enum xt_status status = xt_mem_calloc(&values, count, sizeof *values, "the input", err);
    for (size_t i = 0; i < count && !status; i++)
        values[i] = uniform(seed, INPUT_TENSOR, i);
    return status ? status : take_input(run, values, pixels, err);
}

static enum xt_status read_seed(const struct run *run, uint64_t *seed, struct xt_err *err)
{
    const char *text = xt_weight_file_meta(&run->file, "seed");
    char *end = NULL;
    *seed = text ? strtoull(text, &end, 10) : 0;
    if (text && end != text && !*end)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s: its metadata has no integer \"seed\", from which weights and input "
                      "follow; make it again with make_golden.py",
                      run->check->path);
}

static enum xt_status load_classes(struct run *run, struct xt_err *err)
{
    const struct xt_file_tensor *target = need(run, "target", err);
    uint64_t seed = 0;
    if (!target)
        return err->status;
    if (target->dtype != XT_I32 || xt_file_tensor_count(target) != BATCH)
        return xt_err_set(err, XT_ERR_DATA, "the reference's targets are not %d of int32", BATCH);
    run->targets = (struct xt_softmax_targets){.labels = target->data, .stride = 1};
    enum xt_status status = read_seed(run, &seed, err);
    if (!status)
        status = fill_weights(run, seed, err);
    return status ? status : fill_input(run, seed, err);
}

static double classes_loss(struct run *run)
{
    float losses[BATCH];
    return xt_softmax_loss(xt_graph_logits(run->graph), BATCH, run->network->options.classes,
                           &run->targets, losses, xt_graph_logits_grad(run->graph));
}

static enum xt_status compare_classes_step(struct run *run, const char *prefix,
                                           const struct tolerances *tol, struct xt_err *err)
{
    const struct xt_params_view grads = {run->params.grads, NULL};
    const struct xt_params_view values = {run->params.values, run->params.stats};
    const struct name head = named(prefix, "grad_head.");
    enum xt_status status = compare_tensors(run, named(prefix, "grad_norm."), grads, compare_norm,
                                            tol->norms, false, err);
    if (!status)
        status = tol->whole
                     ? compare_whole_gradient(run, head, tol->whole, err)
                     : compare_tensors(run, head, grads, compare_head, tol->grads, true, err);
    return status ? status
                  : compare_tensors(run, named(prefix, "stat_norm."), values, compare_norm,
                                    tol->stats, false, err);
}

/* bf16's gradient of LPRNet is 0.17 away: rounding turns ReLUs and maxima over in each of the 13
 * layers; vectors that have nothing to do with each other are 1.4 apart. */
static const struct network lprnet = {
    .name = "lprnet",
    .options = {.classes = 68},
    .steps = 18,
    .lr = 5e-4,
    .load = load_plates,
    .loss = plates_loss,
    .compare_step = compare_plates_step,
    .f32 = {1e-4, 1e-4, 2e-3, 1e-2, 1e-3, 1e-4, 5e-3, 0},
    .bf16 = {5e-2, 5e-2, 5e-2, 3e-1, 0, 5e-2, 5e-2, 0},
};

static const struct network resnet50 = {
    .name = "resnet50",
    .options = {.classes = 10, .height = IMAGE, .width = IMAGE},
    .steps = 1,
    .lr = 1e-4,
    .load = load_classes,
    .loss = classes_loss,
    .compare_step = compare_classes_step,
    .f32 = {1e-4, 1e-4, 1e-4, 0, 1e-2, 1e-4, 0, 1e-2},
    .bf16 = {5e-2, 5e-2, 5e-2, 7e-1, 0, 5e-2, 0, 3e-1},
};

static enum xt_status check_network(const struct check *check, struct xt_err *err)
{
    struct reach reach = {0};
    bool moves = strcmp(check->device, "cpu") == 0 && check->dtype == XT_F32;
    enum xt_status status = XT_OK;
    for (int left = moves ? MOVED_PASSES : 0; left >= 0 && !status; left--) {
        reach.moved = left;
        reach.at = 0;
        status = run_pass(check, &reach, err);
    }
    free(reach.least);
    free(reach.most);
    return status;
}

static const struct {
    const struct network *network;
    const char *prefix;
    bool over_batch;
} checks[] = {{&lprnet, "sample.", false}, {&lprnet, "batch.", true}, {&resnet50, "", false}};

/* Of the network `only` (NULL: all). */
static enum xt_status check_all(const char *folder, const char *only, const char *device,
                                enum xt_dtype dtype, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !status; i++) {
        const char *name = checks[i].network->name;
        char *path = NULL;
        if (only && strcmp(only, name) != 0)
            continue;
        if (!checks[i].over_batch)
            printf("%s, %s\n", name, xt_dtype_name(dtype));
        status = xt_file_join(&path, folder, named(name, ".safetensors").text, err);
        const struct check check = {.network = checks[i].network,
                                    .prefix = checks[i].prefix,
                                    .path = path,
                                    .device = device,
                                    .dtype = dtype,
                                    .over_batch = checks[i].over_batch};
        if (!status)
            status = check_network(&check, err);
        free(path);
    }
    return status;
}

static int usage(void)
{
    fputs("usage: golden [--amp f32|bf16] [--device DEVICE] [--model MODEL] DIR\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    enum xt_dtype dtype = XT_F32;
    const char *device = "cpu";
    const char *only = NULL;
    for (; argc > 3 && strncmp(argv[1], "--", 2) == 0; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "--device") == 0)
            device = argv[2];
        else if (strcmp(argv[1], "--model") == 0)
            only = argv[2];
        else if (strcmp(argv[1], "--amp") == 0 && strcmp(argv[2], "bf16") == 0)
            dtype = XT_BF16;
        else if (strcmp(argv[1], "--amp") == 0 && strcmp(argv[2], "f32") == 0)
            dtype = XT_F32;
        else
            return usage();
    }
    if (argc != 2)
        return usage();
    struct xt_err err = {0};
    enum xt_status status = check_all(argv[1], only, device, dtype, &err);
    if (status)
        fprintf(stderr, "golden: %s\n", err.text);
    printf("%d passed, %d failed\n", checks_passed, checks_failed);
    return status ? (int)status : checks_failed || !checks_passed ? 1 : 0;
}
