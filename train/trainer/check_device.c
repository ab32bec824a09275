/* The device check of training: the ops of the run's graph (infer/device_check.h), and one whole
 * step, whose loss and gradients are compared with those of a process that computes them on the
 * CPU, and whose update with the host's optimizer. Weights, statistics and the optimizer's state
 * are afterwards as before. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/system/process.h"
#include "base/system/thread.h"
#include "infer/network/network_build.h"
#include "train/synthetic_step.h"
#include "train/trainer/trainer_internal.h"

/* Relative to the CPU's in float32. Norms are robust. Directions are not: rounding turns single
 * ReLUs over, which grows from layer to layer until gradients in 16 bits have nothing in common
 * (1.4), so the median is judged, which is 2 with the other sign. docs/xpu.md has measurements. */
struct bounds {
    double loss, norm, direction;
};
static struct bounds bounds_of(enum xt_dtype dtype)
{
    switch (dtype) {
    case XT_BF16:
        return (struct bounds){5e-2, 0.5, 1.7};
    case XT_F16:
        return (struct bounds){2e-2, 0.3, 1.7};
    default:
        return (struct bounds){2e-3, 0.05, 0.5};
    }
}

/* A gradient below this part of the whole's norm is compared with that: some are rounding alone. */
static const double part_of_whole = 0.02;

/* ---- the CPU's step ---- */

static enum xt_status read_step(char *text, struct xt_synthetic_step *own, double *loss,
                                struct xt_gradient_sums *params, struct xt_err *err)
{
    size_t count = 0;
    bool has_loss = false;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char name[XT_PARAM_NAME_MAX + 1];
        struct xt_gradient_sums p = {.name = NULL};
        if (sscanf(line, "loss %lf", loss) == 1)
            has_loss = true;
        if (sscanf(line, "gradient %96s %lf %lf %lf %lf %lf", name, &p.norm, &p.sums[0], &p.sums[1],
                   &p.sums[2], &p.sums[3]) != 6)
            continue;
        if (count == own->count || strcmp(name, own->params[count].name) != 0)
            break;
        params[count++] = p;
    }
    if (has_loss && count == own->count)
        return XT_OK;
    return xt_err_set(err, XT_ERR_RUN, "the CPU's step told %zu gradients of %zu", count,
                      own->count);
}

/* By this program in a process of its own, since a process loads one oneDNN library. */
static enum xt_status step_on_cpu(struct xt_synthetic_step *own, const char *weights, double *loss,
                                  struct xt_gradient_sums *params, struct xt_err *err)
{
    enum { SECONDS = 600 };
    const struct xt_network *network = own->network;
    const char *until = own->graph->options.learn_from;
    char batch[16];
    char threads[16];
    struct xt_str output = {0};
    struct xt_process_end end;
    int code = 0;
    snprintf(batch, sizeof batch, "%d", own->graph->options.batch);
    snprintf(threads, sizeof threads, "%d", network->device.threads);
    const char *const argv[] = {"/proc/self/exe",
                                "selftest",
                                "--step",
                                weights,
                                "--device",
                                "cpu",
                                "--amp",
                                "f32",
                                "--batch",
                                batch,
                                "--threads",
                                threads,
                                "--oversubscribe",
                                "--bn",
                                own->graph->options.bn_frozen ? "frozen" : "batch",
                                until ? "--freeze-until" : NULL,
                                until,
                                NULL};
    const struct xt_process_program program = {.argv = argv, .seconds = SECONDS};
    enum xt_status status = xt_process_run_program(&program, &output, &code, &end, err);
    if (!status && (code || end.signal))
        status = xt_err_set(err, code == XT_ERR_MEMORY ? XT_ERR_MEMORY : XT_ERR_RUN,
                            "a step on the CPU failed%s: %s",
                            end.timed_out ? " in ten minutes" : "", end.said);
    if (!status)
        status = read_step(output.data, own, loss, params, err);
    xt_str_clear(&output);
    return status;
}

static enum xt_status compute_on_cpu(struct xt_synthetic_step *own, double *loss,
                                     struct xt_gradient_sums *params, struct xt_err *err)
{
    const char *parent = getenv("TMPDIR");
    char folder[256];
    char weights[sizeof folder + 32];
    snprintf(folder, sizeof folder, "%.200s/xtrain-check-XXXXXX",
             parent && *parent == '/' ? parent : "/tmp");
    if (!mkdtemp(folder))
        return xt_err_set(err, XT_ERR_RUN, "cannot create %s for the device check", folder);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    enum xt_status status = xt_network_save(own->network, weights, err);
    if (!status)
        status = step_on_cpu(own, weights, loss, params, err);
    unlink(weights);
    rmdir(folder);
    return status;
}

/* ---- loss and gradients ---- */

static double difference(const struct xt_gradient_sums *a, const struct xt_gradient_sums *b)
{
    double square = 0;
    for (int k = 0; k < XT_GRADIENT_SUMS; k++)
        square += (a->sums[k] - b->sums[k]) * (a->sums[k] - b->sums[k]);
    return sqrt(square / XT_GRADIENT_SUMS);
}

static enum xt_status refuse(const struct xt_network *network, const char *what, double error,
                             double bound, const char *beside, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DEVICE,
                      "%s computes wrong results, so it is not used: in a whole step %s has an "
                      "error of %.1e, above the bound of %.1e, beside %s",
                      network->device.name, what, error, bound, beside);
}

/* `errors` has room for the direction of each. */
static enum xt_status compare(const struct xt_synthetic_step *own, double loss,
                              const struct xt_gradient_sums *params, double *errors,
                              struct xt_err *err)
{
    static const char cpu[] = "the CPU's";
    const struct bounds bounds = bounds_of(own->graph->options.dtype);
    double error = fabs(own->mean - loss) / fmax(fabs(loss), 1e-3);
    double whole = 0;
    char what[160];
    if (!(error <= bounds.loss))
        return refuse(own->network, "the loss", error, bounds.loss, cpu, err);
    for (size_t i = 0; i < own->count; i++)
        whole += params[i].norm * params[i].norm;
    for (size_t i = 0; i < own->count; i++) {
        double norm = params[i].norm + part_of_whole * sqrt(whole);
        error = fabs(own->params[i].norm - params[i].norm) / norm;
        errors[i] = difference(&own->params[i], &params[i]) / norm;
        snprintf(what, sizeof what, "the norm of the gradient of %s", own->params[i].name);
        if (!(error <= bounds.norm))
            return refuse(own->network, what, error, bounds.norm, cpu, err);
    }
    qsort(errors, own->count, sizeof *errors, xt_number_compare);
    error = own->count ? errors[own->count / 2] : 0;
    if (!(error <= bounds.direction))
        return refuse(own->network, "the median gradient", error, bounds.direction, cpu, err);
    return XT_OK;
}

/* Where the CPU's step fails that is no fault of the device, and no verdict on it: *compared. */
static enum xt_status check_gradients(struct xt_synthetic_step *own, bool *compared,
                                      struct xt_err *err)
{
    struct xt_err why = {0};
    struct xt_gradient_sums *params = NULL;
    double *errors = NULL;
    double loss = 0;
    enum xt_status status = xt_synthetic_step_sum(own, err);
    if (!status)
        status = xt_mem_calloc(&params, own->count + 1, sizeof *params, "a step's gradients", err);
    if (!status)
        status = xt_mem_calloc(&errors, own->count + 1, sizeof *errors, "a step's gradients", err);
    *compared = !status && compute_on_cpu(own, &loss, params, &why) == XT_OK;
    if (!status && !*compared)
        xt_log_warn("a whole step of %s is not compared with the CPU's (--check-device): %s",
                    own->network->device.name, why.text);
    else if (!status)
        status = compare(own, loss, params, errors, err);
    free(params);
    free(errors);
    return status;
}

/* Of the same logits, in float32 on both sides. */
static enum xt_status check_loss(struct xt_synthetic_step *own, struct xt_err *err)
{
    const double bound = 1e-3;
    double mean = 0;
    double gradient = 0;
    enum xt_status status = xt_synthetic_step_check_loss(own, &mean, &gradient, err);
    if (!status && !(mean <= bound))
        return refuse(own->network, "the loss of its logits", mean, bound, "the host's", err);
    if (!status && !(gradient <= bound))
        return refuse(own->network, "the gradient of its logits", gradient, bound, "the host's",
                      err);
    return status;
}

/* ---- the update ---- */

/* What a step changes, before it; and the host's update. */
struct update {
    float *values, *stats, *updated;
    struct xt_optim optim;
};

static enum xt_status copy_floats(float **out, const float *from, size_t count, struct xt_err *err)
{
    enum xt_status status = xt_mem_aligned(out, count, sizeof **out, "a copy of the weights", err);
    if (!status)
        memcpy(*out, from, count * sizeof **out);
    return status;
}

static enum xt_status remember(struct update *update, struct xt_trainer *trainer,
                               struct xt_err *err)
{
    struct xt_params *params = &trainer->network.params;
    *update = (struct update){.optim = trainer->optim};
    memset((void *)update->optim.state, 0, sizeof update->optim.state);
    enum xt_status status = xt_params_pull(params, err);
    if (!status)
        status = xt_xpu_optim_pull(trainer->xpu_optim, err);
    if (!status)
        status = copy_floats(&update->values, params->values, params->value_floats, err);
    if (!status)
        status = copy_floats(&update->updated, params->values, params->value_floats, err);
    if (!status)
        status = copy_floats(&update->stats, params->stats, params->stat_floats, err);
    for (int i = 0; i < 2 && !status; i++)
        if (trainer->optim.state[i])
            status = copy_floats(&update->optim.state[i], trainer->optim.state[i],
                                 params->value_floats, err);
    return status;
}

/* They are uploaded before the next pass and the next update. */
static void restore(struct update *update, struct xt_trainer *trainer, int64_t step)
{
    struct xt_params *params = &trainer->network.params;
    if (update->stats) {
        memcpy(params->values, update->values, params->value_floats * sizeof(float));
        memcpy(params->stats, update->stats, params->stat_floats * sizeof(float));
        params->device.is_newer = false;
        params->version++;
        xt_xpu_optim_reload(trainer->xpu_optim);
    }
    trainer->optim.step = step;
    /* On an XPU the host has none. */
    free(params->grads);
    params->grads = NULL;
    free(update->values);
    free(update->stats);
    free(update->updated);
    free(update->optim.state[0]);
    free(update->optim.state[1]);
}

/* As in a run: the host waits for the norm where it decides on the update. */
static enum xt_status update_on_device(struct xt_trainer *trainer, double lr, float scale,
                                       double clip, struct xt_err *err)
{
    struct xt_xpu_optim *optim = trainer->xpu_optim;
    double norm = 0;
    enum xt_status status = XT_OK;
    if (xt_xpu_optim_norm_is_by_device(optim)) {
        status = xt_xpu_optim_begin_norm(optim, err);
        return status ? status : xt_xpu_optim_update(optim, lr, 1, err);
    }
    status = xt_xpu_optim_grad_norm(optim, &norm, err);
    norm /= (double)scale;
    double factor = (clip > 0 && norm > clip ? clip / norm : 1) / (double)scale;
    return status ? status : xt_xpu_optim_update(optim, lr, (float)factor, err);
}

static void update_on_host(const struct xt_trainer *trainer, struct update *update, double lr,
                           float scale, double clip)
{
    const float *grads = trainer->network.params.grads;
    double norm = xt_optim_grad_norm(grads, trainer->ranges, trainer->range_count) / (double)scale;
    double factor = (clip > 0 && norm > clip ? clip / norm : 1) / (double)scale;
    xt_optim_update(&update->optim, update->updated, grads, trainer->ranges, trainer->range_count,
                    lr, (float)factor);
}

/* Where the gradient is rounding alone, its sign may differ, and with Adam the whole update. */
static enum xt_status compare_update(const struct xt_trainer *trainer, const struct update *update,
                                     struct xt_err *err)
{
    const double bound = 0.05;
    const double least = 1e-2;
    const struct xt_params *params = &trainer->network.params;
    double norm = xt_optim_grad_norm(params->grads, trainer->ranges, trainer->range_count);
    double noise = least * norm / sqrt((double)params->value_floats);
    char what[160];
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        double square = 0;
        double wanted = 0;
        for (size_t k = param->offset; k < param->offset + param->floats; k++) {
            if (xt_param_is_statistic(param) || fabs((double)params->grads[k]) < noise)
                continue;
            double step = (double)update->updated[k] - (double)update->values[k];
            double error = (double)params->values[k] - (double)update->updated[k];
            square += error * error;
            wanted += step * step;
        }
        double error = square > 0 ? sqrt(square / wanted) : 0;
        snprintf(what, sizeof what, "the update of %s", param->name);
        if (!(error <= bound))
            return refuse(&trainer->network, what, error, bound, "the host's", err);
    }
    return XT_OK;
}

/* At a rate that lets the change stand out of the weights' rounding. The gradients are the step's
 * before, which are still on the host; the device computes them once more, without a wait. */
static enum xt_status check_update(struct xt_trainer *trainer, struct xt_synthetic_step *own,
                                   struct update *update, struct xt_err *err)
{
    const double lr = 1;
    const double clip = trainer->settings->recipe.clip;
    struct xt_params *params = &trainer->network.params;
    update_on_host(trainer, update, lr, own->scale, clip);
    enum xt_status status = xt_synthetic_step_run(own, err);
    if (!status)
        status = update_on_device(trainer, lr, own->scale, clip, err);
    if (!status)
        status = xt_params_pull(params, err);
    return status ? status : compare_update(trainer, update, err);
}

/* ---- the check ---- */

static enum xt_status check_step(void *context, struct xt_graph *graph,
                                 struct xt_device_verdict *out, struct xt_err *err)
{
    struct xt_trainer *trainer = context;
    struct xt_synthetic_step own;
    struct update update;
    int64_t step = trainer->optim.step;
    double start = xt_thread_seconds();
    bool compared = false;
    enum xt_status status = remember(&update, trainer, err);
    if (status) {
        restore(&update, trainer, step);
        return status;
    }
    status = xt_synthetic_step_init(&own, &trainer->network, graph, err);
    if (!status)
        status = check_loss(&own, err);
    if (!status)
        status = check_gradients(&own, &compared, err);
    if (!status)
        status = check_update(trainer, &own, &update, err);
    xt_synthetic_step_clear(&own);
    restore(&update, trainer, step);
    if (compared)
        out->step_seconds += xt_thread_seconds() - start;
    else
        out->when = 0;
    return status;
}

enum xt_status xt_trainer_check_device(struct xt_trainer *trainer, bool afresh, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    const struct xt_recipe_settings *r = &s->recipe;
    char what[256];
    snprintf(what, sizeof what, "a step: %s, %g, %d, %g, %d, %g, %d, %d", xt_optim_names[r->optim],
             r->momentum, r->nesterov, r->weight_decay, r->decay_all, r->clip, r->accumulate,
             r->head_lr_factor > 0);
    const struct xt_device_checker step = {check_step, trainer, what};
    /* A process of several has only a part of the batch. */
    bool whole = trainer->xpu_optim && !s->ranks;
    return xt_network_check_device(&trainer->network, &s->network, &s->device, whole ? &step : NULL,
                                   afresh, err);
}
