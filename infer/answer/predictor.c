#include "infer/answer/predictor.h"

#include <stdlib.h>

#include "base/mem.h"

enum xt_status xt_predictor_create(struct xt_predictor **out, const struct xt_network *network,
                                   const struct xt_answer_settings *settings, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "the answers", err);
    if (status)
        return status;
    const struct xt_tensor *logits = network->graph->logits;
    **out = (struct xt_predictor){
        .class = network->task == XT_TASK_PLATES ? &xt_predictor_plates : &xt_predictor_classes,
        .network = network,
        .sample_logits = xt_tensor_count(logits) / (size_t)logits->n,
        .decode = settings->decode,
        .answers = settings->top > XT_TOP ? settings->top : XT_TOP,
    };
    status =
        xt_mem_calloc(&(*out)->scaled, (*out)->sample_logits, sizeof(float), "the answers", err);
    if (!status)
        status = xt_reject_settle(&settings->reject, &network->confidence, &(*out)->rejects, err);
    if (status) {
        xt_predictor_destroy(*out);
        *out = NULL;
    }
    return status;
}

void xt_predictor_destroy(struct xt_predictor *predictor)
{
    if (!predictor)
        return;
    free(predictor->scaled);
    free(predictor);
}

const float *xt_predictor_logits(const struct xt_predictor *predictor, int sample)
{
    return xt_graph_logits(predictor->network->inference) +
           (size_t)sample * predictor->sample_logits;
}

enum xt_status xt_predictor_predict(const struct xt_predictor *predictor, int sample,
                                    struct xt_decoded *out, struct xt_err *err)
{
    const float *logits = xt_predictor_logits(predictor, sample);
    enum xt_status status = predictor->class->answer(predictor, logits, out, err);
    if (status)
        return status;
    double temperature = xt_confidence_temperature(&predictor->network->confidence, out->length);
    return temperature == 1 ? XT_OK
                            : xt_predictor_confide(predictor, logits, temperature, out, err);
}

enum xt_status xt_predictor_confide(const struct xt_predictor *predictor, const float *logits,
                                    double temperature, struct xt_decoded *answer,
                                    struct xt_err *err)
{
    for (size_t i = 0; i < predictor->sample_logits; i++)
        predictor->scaled[i] = (float)((double)logits[i] / temperature);
    return predictor->class->confide(predictor, predictor->scaled, answer, err);
}

bool xt_predictor_rejects(const struct xt_predictor *predictor, const struct xt_decoded *answer)
{
    return xt_confidence_rejects(&predictor->rejects, answer);
}

bool xt_predictor_is_right(const struct xt_predictor *predictor, const int *label, int length,
                           const struct xt_decoded *answer)
{
    struct xt_score score = {0};
    struct xt_metric metrics[XT_METRICS_MAX];
    size_t images = 0;
    size_t correct = 0;
    predictor->class->add(&score, label, length, answer);
    predictor->class->metrics(&score, &images, &correct, metrics);
    return correct == 1;
}
