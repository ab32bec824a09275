/* Classes: the likeliest ones, by their softmax. */
#include <stdio.h>

#include "infer/answer/softmax.h"
#include "infer/answer/predictor.h"

/* Of the prediction's classes, by the probabilities in predictor->scaled. */
static void fill_confidences(const struct xt_predictor *predictor, struct xt_decoded *out)
{
    for (int i = 0; i < out->length; i++)
        out->confidence[i] = predictor->scaled[out->symbols[i]];
    out->probability = (double)out->confidence[0];
}

static enum xt_status confide(const struct xt_predictor *predictor, const float *logits,
                              struct xt_decoded *out, struct xt_err *err)
{
    (void)err;
    xt_softmax(logits, predictor->network->classes, predictor->scaled);
    fill_confidences(predictor, out);
    return XT_OK;
}

static enum xt_status answer(const struct xt_predictor *predictor, const float *logits,
                             struct xt_decoded *out, struct xt_err *err)
{
    (void)err;
    int classes = predictor->network->classes;
    xt_softmax(logits, classes, predictor->scaled);
    out->length = xt_top_classes(predictor->scaled, classes, predictor->answers, out->symbols);
    fill_confidences(predictor, out);
    return XT_OK;
}

static int mistakes(const int *label, int length, const struct xt_decoded *answered,
                    struct xt_mistake *out)
{
    (void)length;
    out[0] = (struct xt_mistake){label[0], answered->symbols[0]};
    return answered->symbols[0] != label[0];
}

static void add(struct xt_score *score, const int *label, int length,
                const struct xt_decoded *answered)
{
    (void)length;
    xt_class_score_add(&score->classes, label[0], answered->symbols,
                       answered->length < XT_TOP ? answered->length : XT_TOP);
}

static enum xt_status text(const struct xt_predictor *predictor, const int *label, int length,
                           struct xt_str *out, struct xt_err *err)
{
    (void)length;
    return xt_network_class_text(predictor->network, label[0], out, err);
}

static int metrics(const struct xt_score *score, size_t *images, size_t *correct,
                   struct xt_metric *out)
{
    const struct xt_class_score *classes = &score->classes;
    *images = classes->images;
    *correct = classes->top1;
    out[0] = (struct xt_metric){"top1", xt_class_score_top1(classes)};
    out[1] = (struct xt_metric){"top5", xt_class_score_top5(classes)};
    return 2;
}

static void describe(const struct xt_score *score, char *out, size_t size)
{
    const struct xt_class_score *classes = &score->classes;
    snprintf(out, size, "%zu of %s right (top-1 %.2f %%), top-5 %.2f %%", classes->top1,
             xt_count((long long)classes->images, "image").text, 100 * xt_class_score_top1(classes),
             100 * xt_class_score_top5(classes));
}

const struct xt_predictor_class xt_predictor_classes = {
    .answer = answer,
    .confide = confide,
    .add = add,
    .mistakes = mistakes,
    .text = text,
    .metrics = metrics,
    .describe = describe,
};
