/* Classes: the likeliest ones, by their softmax. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "infer/answer/softmax.h"
#include "infer/answer/predictor.h"

struct classes {
    struct xt_predictor predictor;
    int count;
    int answers;   /* classes in a prediction */
    float *values; /* [count] one sample's probabilities */
};

static void fill_confidences(const struct classes *classes, struct xt_decoded *out)
{
    for (int i = 0; i < out->length; i++)
        out->confidence[i] = classes->values[out->symbols[i]];
    out->probability = (double)out->confidence[0];
}

static enum xt_status confide(const struct xt_predictor *predictor, const float *logits,
                              struct xt_decoded *out, struct xt_err *err)
{
    (void)err;
    const struct classes *classes = (const struct classes *)predictor;
    xt_softmax(logits, classes->count, classes->values);
    fill_confidences(classes, out);
    return XT_OK;
}

static enum xt_status answer(const struct xt_predictor *predictor, const float *logits,
                             struct xt_decoded *out, struct xt_err *err)
{
    (void)err;
    const struct classes *classes = (const struct classes *)predictor;
    xt_softmax(logits, classes->count, classes->values);
    out->length = xt_top_classes(classes->values, classes->count, classes->answers, out->symbols);
    fill_confidences(classes, out);
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

static void destroy(struct xt_predictor *predictor)
{
    struct classes *classes = (struct classes *)predictor;
    free(classes->values);
    free(classes);
}

static const struct xt_predictor_class class_classes = {
    .answer = answer,
    .confide = confide,
    .add = add,
    .mistakes = mistakes,
    .text = text,
    .metrics = metrics,
    .describe = describe,
    .destroy = destroy,
};

enum xt_status xt_predictor_create_classes(struct xt_predictor **out,
                                           const struct xt_network *network,
                                           const struct xt_answer_settings *settings,
                                           struct xt_err *err)
{
    struct classes *classes = NULL;
    enum xt_status status = xt_mem_calloc(&classes, 1, sizeof *classes, "the answers", err);
    if (status)
        return status;
    classes->predictor.class = &class_classes;
    classes->count = network->classes;
    classes->answers = settings->top > XT_TOP ? settings->top : XT_TOP;
    status = xt_mem_calloc(&classes->values, (size_t)classes->count, sizeof(float),
                           "the probabilities", err);
    if (status)
        destroy(&classes->predictor);
    else
        *out = &classes->predictor;
    return status;
}
