/* Licence plates: decoding, whole plates and characters. */
#include <stdio.h>

#include "infer/answer/predictor.h"

static enum xt_status answer(const struct xt_predictor *predictor, const float *logits,
                             struct xt_decoded *out, struct xt_err *err)
{
    const struct xt_network *network = predictor->network;
    return xt_decode(predictor->decode, logits, network->model->time_steps, network->classes,
                     xt_alphabet_blank(network->alphabet), out, err);
}

static enum xt_status confide(const struct xt_predictor *predictor, const float *logits,
                              struct xt_decoded *out, struct xt_err *err)
{
    const struct xt_network *network = predictor->network;
    return xt_decode_confidence(logits, network->model->time_steps, network->classes,
                                xt_alphabet_blank(network->alphabet), out, err);
}

static enum xt_status list_steps(const struct xt_predictor *predictor, const float *logits,
                                 struct xt_decode_step *out, int *count, struct xt_err *err)
{
    *count = predictor->network->model->time_steps;
    return xt_decode_steps(logits, *count, predictor->network->classes, out, err);
}

static int mistakes(const int *label, int length, const struct xt_decoded *answered,
                    struct xt_mistake *out)
{
    return xt_plate_mistakes(label, length, answered->symbols, answered->length, out);
}

static void add(struct xt_score *score, const int *label, int length,
                const struct xt_decoded *answered)
{
    xt_plate_score_add(&score->plates, label, length, answered->symbols, answered->length);
}

static enum xt_status text(const struct xt_predictor *predictor, const int *label, int length,
                           struct xt_str *out, struct xt_err *err)
{
    return xt_alphabet_decode(predictor->network->alphabet, label, length, out, err);
}

static int metrics(const struct xt_score *score, size_t *images, size_t *correct,
                   struct xt_metric *out)
{
    const struct xt_plate_score *plates = &score->plates;
    *images = plates->images;
    *correct = plates->correct;
    out[0] = (struct xt_metric){"plate_accuracy", xt_plate_score_accuracy(plates)};
    out[1] = (struct xt_metric){"char_accuracy", xt_plate_score_char_accuracy(plates)};
    return 2;
}

static void describe(const struct xt_score *score, char *out, size_t size)
{
    const struct xt_plate_score *plates = &score->plates;
    snprintf(out, size, "%zu of %s read right (%.2f %%), %.2f %% of the characters",
             plates->correct, xt_count((long long)plates->images, "plate").text,
             100 * xt_plate_score_accuracy(plates), 100 * xt_plate_score_char_accuracy(plates));
}

const struct xt_predictor_class xt_predictor_plates = {
    .answer = answer,
    .confide = confide,
    .add = add,
    .steps = list_steps,
    .mistakes = mistakes,
    .text = text,
    .metrics = metrics,
    .describe = describe,
};
