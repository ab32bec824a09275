/* What the confidence of a run's best weights is worth: measured at its end, stored with them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/thread.h"
#include "infer/network/param_files.h"
#include "train/trainer/parts.h"
#include "train/trainer/trainer_internal.h"

static const char best[] = "best.safetensors";

/* Reads the best weights, and what they say of their run, into the network. */
static enum xt_status load_best(struct xt_trainer *trainer, const char *path, struct xt_err *err)
{
    struct xt_network *network = &trainer->network;
    struct xt_params *params = &network->params;
    struct xt_weight_file file = {0};
    const struct xt_params_view view = {params->values, params->stats};
    enum xt_status status = xt_params_pull(params, err);
    if (!status)
        status = xt_weight_file_read(&file, path, XT_MODEL_BYTES_MAX, err);
    if (!status)
        status =
            xt_params_from_file(params, &network->device, &view, &file, path, false, NULL, err);
    if (!status)
        xt_run_mark_read(&network->mark, &file);
    xt_weight_file_clear(&file);
    return status;
}

static enum xt_status observe(struct xt_trainer *trainer, const struct xt_source *source,
                              struct xt_evaluate_observer observer, bool are_negatives,
                              struct xt_err *err)
{
    struct xt_evaluation evaluation = {.images = 0};
    const struct xt_evaluate_config config = {
        .data = &trainer->settings->data,
        .source = source,
        .observer = observer,
        .are_negatives = are_negatives,
        .nan_is_loss = true,
    };
    enum xt_status status =
        xt_evaluate(&trainer->network, trainer->predictor, &config, &evaluation, err);
    xt_evaluation_clear(&evaluation);
    return status;
}

/* The threshold, and the lengths that go with it. */
static void allow(struct xt_confidence *confidence, const struct xt_acceptance *by)
{
    confidence->threshold = by->threshold;
    if (!confidence->longest)
        return;
    confidence->shortest -= by->slack < confidence->shortest ? by->slack : confidence->shortest;
    confidence->longest += by->slack;
    if (confidence->longest > XT_DECODE_MAX)
        confidence->longest = XT_DECODE_MAX;
}

static void choose_threshold(struct xt_reliability_report *c, struct xt_outcome *outcomes)
{
    struct xt_confidence *confidence = &c->confidence;
    const struct xt_reject_rule keep = {XT_REJECT_KEEP, 0.98};
    c->acceptance = xt_acceptance_choose(&c->rule, outcomes, c->after.images);
    c->labels = *confidence;
    c->keeps = xt_acceptance_choose(&keep, outcomes, c->after.images);
    if (c->rule.kind <= XT_REJECT_NONE)
        return;
    allow(confidence, &c->acceptance);
    snprintf(confidence->rule, sizeof confidence->rule, "%s", xt_reject_spell(&c->rule).text);
    xt_acceptance_describe(&c->acceptance, &c->rule, confidence->evidence,
                           sizeof confidence->evidence);
}

static enum xt_status measure(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_reliability_report *c = &trainer->reliability;
    struct xt_observations seen = {0};
    struct xt_outcome *outcomes = NULL;
    enum xt_status status =
        xt_observations_init(&seen, trainer->predictor, trainer->val->count, err);
    if (!status)
        status =
            observe(trainer, trainer->val,
                    (struct xt_evaluate_observer){.context = &seen, .answer = xt_observations_add},
                    false, err);
    if (!status)
        status = xt_mem_calloc(&outcomes, seen.count, sizeof *outcomes, "the predictions", err);
    if (!status)
        status = xt_observations_outcomes(&seen, NULL, outcomes, err);
    if (!status)
        c->before = xt_reliability_of(outcomes, seen.count);
    if (!status)
        status = xt_observations_calibrate(&seen, &c->confidence, err);
    if (!status)
        status = xt_observations_outcomes(&seen, &c->confidence, outcomes, err);
    if (!status) {
        c->after = xt_reliability_of(outcomes, seen.count);
        choose_threshold(c, outcomes);
    }
    free(outcomes);
    xt_observations_clear(&seen);
    return status;
}

static void see_negative(void *context, const struct xt_answer *answer)
{
    struct xt_reliability_report *c = context;
    struct xt_confidence keeps = c->labels;
    allow(&keeps, &c->keeps);
    c->negatives++;
    c->negatives_accepted +=
        answer->said->length && !xt_confidence_rejects(&c->confidence, answer->said);
    c->negatives_above += !xt_confidence_rejects(&keeps, answer->said);
}

/* How many of the negatives that were held out are answered. */
static enum xt_status measure_negatives(struct xt_trainer *trainer, struct xt_err *err)
{
    return trainer->negatives_held
               ? observe(trainer, trainer->negatives_held,
                         (struct xt_evaluate_observer){.context = &trainer->reliability,
                                                       .answer = see_negative},
                         true, err)
               : XT_OK;
}

static enum xt_status store(struct xt_trainer *trainer, const char *path, struct xt_err *err)
{
    trainer->network.confidence = trainer->reliability.confidence;
    enum xt_status status = xt_proof_before(&trainer->proof, best, err);
    if (!status)
        status = xt_network_save(&trainer->network, path, err);
    return status ? status : xt_proof_after(&trainer->proof, best, trainer->best_step, NULL, err);
}

enum xt_status xt_trainer_calibrate(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    double start = xt_thread_seconds();
    if (!trainer->val || trainer->best_step < 0 || s->run.overfit || !xt_ranks_is_first(s->ranks))
        return XT_OK;
    trainer->reliability = (struct xt_reliability_report){.rule = s->answer.reject};
    /* Measured as if for the first time, where a finished run is resumed. */
    trainer->network.confidence = (struct xt_confidence){0};
    const struct xt_path path = xt_run_folder_file(&trainer->folder, best);
    /* Resumed into a new folder without a new best: the best weights are in the old one. */
    bool is_here = xt_file_exists(path.text);
    enum xt_status status = is_here ? load_best(trainer, path.text, err) : XT_OK;
    if (is_here && !status)
        status = measure(trainer, err);
    if (!status && trainer->reliability.after.images)
        status = store(trainer, path.text, err);
    if (!status && trainer->reliability.after.images)
        status = measure_negatives(trainer, err);
    trainer->costs.evaluation += xt_thread_seconds() - start;
    return status;
}
