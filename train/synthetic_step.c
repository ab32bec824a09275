#include "train/synthetic_step.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/ops/ops.h"

enum { SEED = 0, LABEL_LENGTH = 7 };

void xt_synthetic_batch(const struct xt_network *network, int batch, uint8_t *pixels, size_t bytes,
                        int *labels, int *lengths)
{
    int classes = network->graph->logits->c;
    int time_steps = network->model->time_steps;
    /* CTC: with a blank between equal neighbours a label needs up to twice its length. */
    int length = time_steps == 0                 ? 1
                 : time_steps / 2 < LABEL_LENGTH ? time_steps / 2
                                                 : LABEL_LENGTH;
    int symbols = time_steps ? classes - 1 : classes;
    for (int n = 0; n < batch; n++) {
        int *label = labels + (size_t)n * XT_LABEL_MAX;
        lengths[n] = length;
        for (int i = 0; i < length; i++)
            label[i] = (int)(xt_rng_at(SEED, (uint64_t)n + 1, (uint64_t)i) % (unsigned)symbols);
    }
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)xt_rng_at(SEED, 0, i);
}

/* ---- a graph without dropout ---- */

/* The chance of an op that drops, else NULL. */
static float *chance_of(struct xt_op *op)
{
    if (op->kind == &xt_kind_dropout)
        return &((struct xt_dropout_op *)op)->p;
    return op->kind == &xt_kind_drop_path ? &((struct xt_drop_path_op *)op)->p : NULL;
}

static void put_dropout_aside(struct xt_synthetic_step *step)
{
    for (int i = 0; i < step->graph->op_count; i++) {
        float *chance = chance_of(step->graph->ops[i]);
        if (!chance)
            continue;
        step->chances[i] = *chance;
        *chance = 0;
    }
}

static void put_dropout_back(const struct xt_synthetic_step *step)
{
    for (int i = 0; i < step->graph->op_count; i++) {
        float *chance = chance_of(step->graph->ops[i]);
        if (chance)
            *chance = step->chances[i];
    }
}

static enum xt_status allocate(struct xt_synthetic_step *step, struct xt_err *err)
{
    static const char what[] = "a synthetic batch";
    size_t batch = (size_t)step->graph->options.batch;
    size_t params = (size_t)step->network->params.count;
    size_t bytes = xt_graph_slot_bytes(step->graph);
    enum xt_status status = xt_mem_aligned(&step->pixels, bytes, 1, what, err);
    if (!status)
        status =
            xt_mem_calloc(&step->labels, batch * XT_LABEL_MAX, sizeof *step->labels, what, err);
    if (!status)
        status = xt_mem_calloc(&step->label_lengths, batch, sizeof *step->label_lengths, what, err);
    if (!status)
        status = xt_mem_calloc(&step->params, params, sizeof *step->params, what, err);
    if (!status)
        status = xt_mem_calloc(&step->chances, (size_t)step->graph->op_count, sizeof *step->chances,
                               what, err);
    if (!status)
        xt_synthetic_batch(step->network, (int)batch, step->pixels, bytes, step->labels,
                           step->label_lengths);
    return status;
}

enum xt_status xt_synthetic_step_init(struct xt_synthetic_step *step, struct xt_network *network,
                                      struct xt_graph *graph, struct xt_err *err)
{
    *step = (struct xt_synthetic_step){.network = network,
                                       .graph = graph,
                                       .pass = graph->pass,
                                       .watch = graph->watch,
                                       .scale = graph->options.dtype == XT_F16 ? 0x1p16F : 1};
    enum xt_status status = allocate(step, err);
    if (!status)
        status = xt_loss_create(&step->loss, network, 0, err);
    if (!status)
        status = xt_loss_place(step->loss, graph, err);
    if (status)
        return status;
    put_dropout_aside(step);
    graph->watch = (struct xt_graph_watch){0};
    graph->pass = (struct xt_graph_pass){.pixels = step->pixels,
                                         .count = graph->options.batch,
                                         .training = true,
                                         .keeps_logits = xt_loss_is_on_device(step->loss),
                                         .bn_frozen = graph->options.bn_frozen};
    return XT_OK;
}

void xt_synthetic_step_clear(struct xt_synthetic_step *step)
{
    if (step->loss) {
        put_dropout_back(step);
        step->graph->pass = step->pass;
        step->graph->watch = step->watch;
    }
    xt_loss_destroy(step->loss);
    free(step->pixels);
    free(step->labels);
    free(step->label_lengths);
    free(step->chances);
    free(step->params);
    *step = (struct xt_synthetic_step){.network = NULL};
}

/* ---- a step ---- */

static struct xt_batch batch_of(const struct xt_synthetic_step *step)
{
    return (struct xt_batch){.count = step->graph->options.batch,
                             .pixels = step->pixels,
                             .labels = step->labels,
                             .label_lengths = step->label_lengths};
}

static enum xt_status run_on_device(struct xt_synthetic_step *step, const struct xt_batch *batch,
                                    struct xt_err *err)
{
    enum xt_status status = xt_loss_begin(step->loss, batch, step->scale, err);
    if (!status)
        status = xt_graph_backward(step->graph, err);
    return status ? status : xt_loss_wait(step->loss, batch, &step->mean, err);
}

enum xt_status xt_synthetic_step_run(struct xt_synthetic_step *step, struct xt_err *err)
{
    struct xt_graph *graph = step->graph;
    const struct xt_batch batch = batch_of(step);
    enum xt_status status = xt_graph_forward(graph, err);
    if (status || graph->pass.keeps_logits)
        return status ? status : run_on_device(step, &batch, err);
    float *grad = xt_graph_logits_grad(graph);
    step->mean = xt_loss_mean(step->loss, &batch, xt_graph_logits(graph), grad);
    for (size_t i = 0; i < xt_tensor_count(graph->logits) && step->scale != 1; i++)
        grad[i] *= step->scale;
    return xt_graph_backward(graph, err);
}

/* Of a forward pass, and `grad` of the loss behind it. */
static enum xt_status read_loss(struct xt_synthetic_step *step, const struct xt_batch *batch,
                                float *logits, float *grad, struct xt_err *err)
{
    struct xt_graph *graph = step->graph;
    const struct xt_tensor *out = graph->logits;
    size_t count = xt_tensor_count(out);
    enum xt_status status = xt_graph_forward(graph, err);
    if (!status)
        status = xt_loss_begin(step->loss, batch, 1, err);
    if (!status)
        status = xt_loss_wait(step->loss, batch, &step->mean, err);
    if (!status)
        status = xt_graph_read_back(graph, out->value, XT_F32, logits, count, err);
    return status
               ? status
               : xt_graph_read_back(graph, out->grad[out->readers - 1], XT_F32, grad, count, err);
}

enum xt_status xt_synthetic_step_check_loss(struct xt_synthetic_step *step, double *mean,
                                            double *gradient, struct xt_err *err)
{
    const struct xt_batch batch = batch_of(step);
    size_t count = xt_tensor_count(step->graph->logits);
    float *numbers = NULL;
    *mean = *gradient = 0;
    if (!step->graph->pass.keeps_logits)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(&numbers, 3 * count, sizeof *numbers, "the loss", err);
    if (status)
        return status;
    const float *got = numbers + count;
    float *wanted = numbers + 2 * count;
    double error = 0;
    double square = 0;
    status = read_loss(step, &batch, numbers, numbers + count, err);
    double host = status ? 0 : xt_loss_mean(step->loss, &batch, numbers, wanted);
    for (size_t i = 0; i < count; i++) {
        double difference = (double)got[i] - (double)wanted[i];
        error += difference * difference;
        square += (double)wanted[i] * (double)wanted[i];
    }
    *mean = fabs(step->mean - host) / fmax(fabs(host), 1e-3);
    *gradient = error > 0 || isnan(error) ? sqrt(error / square) : 0;
    free(numbers);
    return status;
}

static double add_up(const float *gradient, size_t count, uint64_t stream, float scale,
                     struct xt_gradient_sums *out)
{
    double square = 0;
    double sums[XT_GRADIENT_SUMS] = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t signs = xt_rng_at(SEED, stream, i);
        double g = (double)gradient[i] / (double)scale;
        square += g * g;
        for (int k = 0; k < XT_GRADIENT_SUMS; k++)
            sums[k] += signs >> k & 1 ? g : -g;
    }
    for (int k = 0; k < XT_GRADIENT_SUMS; k++)
        out->sums[k] = sums[k];
    return sqrt(square);
}

/* In the order of a file, since devices have memory formats of their own. */
static enum xt_status sum_param(struct xt_synthetic_step *step, const struct xt_param *param,
                                struct xt_err *err)
{
    struct xt_params *params = &step->network->params;
    const struct xt_params_view view = {params->grads, NULL};
    struct xt_gradient_sums *out = &step->params[step->count++];
    size_t count = xt_param_file_count(param);
    float *gradient = NULL;
    enum xt_status status = xt_mem_calloc(&gradient, count, sizeof *gradient, param->name, err);
    if (!status)
        status = xt_params_export(param, &step->network->device, &view, gradient, err);
    out->name = param->name;
    if (!status)
        out->norm = add_up(gradient, count, step->count, step->scale, out);
    free(gradient);
    return status;
}

static enum xt_status sum_all(struct xt_synthetic_step *step, struct xt_err *err)
{
    const struct xt_params *params = &step->network->params;
    enum xt_status status = xt_params_pull_grads(&step->network->params, err);
    step->count = 0;
    for (int i = 0; i < params->count && !status; i++)
        if (xt_param_learns(&params->items[i]))
            status = sum_param(step, &params->items[i], err);
    return status;
}

static bool is_finite(const struct xt_synthetic_step *step)
{
    double sum = 0;
    for (size_t i = 0; i < step->count; i++)
        sum += step->params[i].norm;
    return isfinite(sum);
}

enum xt_status xt_synthetic_step_sum(struct xt_synthetic_step *step, struct xt_err *err)
{
    const float less = 16;
    enum xt_status status = XT_OK;
    bool again = true;
    while (again && !status) {
        status = xt_synthetic_step_run(step, err);
        if (!status)
            status = sum_all(step, err);
        again = !status && !is_finite(step) && step->scale > 1;
        step->scale /= again ? less : 1;
    }
    return status;
}
