#include "infer/answer/objective.h"

enum xt_status xt_objective_create(struct xt_objective **out, const struct xt_network *network,
                                   const struct xt_answer_settings *settings, struct xt_err *err)
{
    *out = NULL;
    enum xt_status status = network->task == XT_TASK_PLATES
                                ? xt_objective_create_plates(out, network, settings, err)
                                : xt_objective_create_classes(out, network, settings, err);
    if (status)
        return status;
    const struct xt_tensor *logits = network->graph->logits;
    (*out)->network = network;
    (*out)->sample_logits = xt_tensor_count(logits) / (size_t)logits->n;
    return XT_OK;
}

void xt_objective_destroy(struct xt_objective *objective)
{
    if (objective)
        objective->class->destroy(objective);
}

const float *xt_objective_logits(const struct xt_objective *objective, int sample)
{
    return xt_graph_logits(objective->network->inference) +
           (size_t)sample * objective->sample_logits;
}

enum xt_status xt_objective_answer(const struct xt_objective *objective, int sample,
                                   struct xt_decoded *out, struct xt_err *err)
{
    return objective->class->answer(objective, xt_objective_logits(objective, sample), out, err);
}

bool xt_objective_is_right(const struct xt_objective *objective, const int *label, int length,
                           const struct xt_decoded *answer)
{
    struct xt_score score = {0};
    struct xt_metric metrics[XT_METRICS_MAX];
    size_t images = 0;
    size_t correct = 0;
    objective->class->add(&score, label, length, answer);
    objective->class->metrics(&score, &images, &correct, metrics);
    return correct == 1;
}
