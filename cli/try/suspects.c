#include "cli/try/suspects.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "infer/answer/ctc_recursion.h"
#include "infer/evaluate.h"
#include "infer/network/network_build.h"
#include "runs/report/findings.h"
#include "runs/report/json.h"

/* Of one evaluation: the largest number of images that are listed, and shown. */
enum { LISTED = 1000, PICTURES = 100 };

/* An evaluation by one network. */
struct judge {
    struct xt_predictor *predictor;
    struct xt_errors reads; /* of labels that are not suspect */
    struct judged {
        double odds;
        struct xt_wrong *wrong;
    } * items;
    size_t count;
    float *scaled; /* [sample_logits] */
    struct xt_err err;
};

/* ln of the prediction's probability over the label's, at the temperature that calibrates the
 * prediction, since an uncalibrated network is sure of anything. */
static double log_ratio(const struct judge *judge, const struct xt_answer *a)
{
    const struct xt_network *network = judge->predictor->network;
    double temperature = xt_confidence_temperature(&network->confidence, a->said->length);
    if (!network->alphabet)
        return (double)(a->logits[a->said->symbols[0]] - a->logits[a->label[0]]) / temperature;
    for (size_t i = 0; i < judge->predictor->sample_logits; i++)
        judge->scaled[i] = a->logits[i] / (float)temperature;
    int steps = network->model->time_steps;
    int blank = xt_alphabet_blank(network->alphabet);
    return xt_ctc_log_probability(judge->scaled, steps, network->classes, a->said->symbols,
                                  a->said->length, blank) -
           xt_ctc_log_probability(judge->scaled, steps, network->classes, a->label, a->label_length,
                                  blank);
}

static void see(void *context, const struct xt_answer *a)
{
    struct judge *judge = context;
    struct xt_err *err = &judge->err;
    /* An image that cannot be read is unlikely to show its label, and anything else too. */
    double odds = a->right ? 0 : log_ratio(judge, a) * a->said->probability;
    if (odds < XT_SUSPECT_ODDS)
        xt_errors_add(&judge->reads, a);
    if (a->right || err->status)
        return;
    struct xt_wrong *wrong = NULL;
    if (xt_mem_add(&judge->items, judge->count, sizeof *judge->items, "the judged labels", err) ||
        xt_wrong_create(&wrong, judge->predictor, a, err))
        return;
    judge->items[judge->count++] = (struct judged){odds, wrong};
}

static int by_odds(const void *a, const void *b)
{
    double one = ((const struct judged *)a)->odds;
    double other = ((const struct judged *)b)->odds;
    return (one < other) - (one > other);
}

static enum xt_status describe(struct xt_suspects *out, const struct judge *judge,
                               const struct xt_findings *findings, struct xt_err *err)
{
    struct xt_json json = {0};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < judge->count && i < LISTED && !status; i++) {
        const struct judged *item = &judge->items[i];
        status = xt_mem_add(&out->items, out->count, sizeof *out->items, "the judged labels", err);
        if (status)
            return status;
        cJSON *found = xt_findings_error(&json, findings, item->wrong);
        xt_json_number(&json, found, "odds", item->odds);
        if (i < findings->pictures && item->odds >= XT_SUSPECT_ODDS)
            xt_findings_picture(&json, found, findings, item->wrong->index, NULL);
        out->items[out->count++] = (struct xt_suspect){item->odds, found};
        out->suspect += item->odds >= XT_SUSPECT_ODDS;
        if (json.failed)
            status = xt_err_no_memory(err, "the judged labels", 0);
    }
    return status;
}

/* Both halves have the same symbols. */
static enum xt_status add_reads(struct xt_suspects *out, const struct xt_errors *reads,
                                struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!out->reads) {
        status = xt_mem_calloc(&out->reads, (size_t)reads->symbols, sizeof *out->reads,
                               "the counts", err);
        out->read_count = status ? 0 : reads->symbols;
    }
    for (int i = 0; i < out->read_count && i < reads->symbols && !status; i++) {
        struct xt_str name = {0};
        if (!out->reads[i].name)
            status = xt_findings_name(reads, i, &name, err);
        if (name.data)
            out->reads[i].name = name.data;
        out->reads[i].seen += reads->seen[i];
        out->reads[i].right += reads->right[i];
    }
    return status;
}

static enum xt_status evaluate(struct xt_suspects *out, struct xt_network *network,
                               const struct xt_infer_settings *settings,
                               const struct xt_source *source, bool pictures, struct xt_err *err)
{
    struct judge judge = {0};
    struct xt_evaluation result = {.images = 0};
    const struct xt_evaluate_config config = {
        .data = &settings->data,
        .source = source,
        .observer = {.context = &judge, .answer = see},
    };
    enum xt_status status = xt_predictor_create(&judge.predictor, network, &settings->answer, err);
    if (!status)
        status = xt_errors_init(&judge.reads, judge.predictor, 1, err);
    if (!status)
        status = xt_mem_calloc(&judge.scaled, judge.predictor->sample_logits, sizeof(float),
                               "the scaled outputs", err);
    if (!status)
        status = xt_evaluate(network, judge.predictor, &config, &result, err);
    if (!status)
        status = xt_errors_end(&judge.reads, &judge.err);
    if (!status && judge.err.status)
        status = xt_err_set(err, judge.err.status, "%s", judge.err.text);
    if (judge.count)
        qsort(judge.items, judge.count, sizeof *judge.items, by_odds);
    const struct xt_findings findings = {.errors = &judge.reads,
                                         .source = source,
                                         .data = &settings->data,
                                         .pictures = pictures ? PICTURES : 0};
    if (!status)
        status = describe(out, &judge, &findings, err);
    if (!status)
        status = add_reads(out, &judge.reads, err);
    out->images += result.images;
    out->right += result.correct;
    for (size_t i = 0; i < judge.count; i++)
        free(judge.items[i].wrong);
    free(judge.items);
    free(judge.scaled);
    xt_errors_clear(&judge.reads);
    xt_evaluation_clear(&result);
    xt_predictor_destroy(judge.predictor);
    return status;
}

enum xt_status xt_suspects_judge(struct xt_suspects *suspects,
                                 const struct xt_infer_settings *settings, const char *data,
                                 bool pictures, struct xt_err *err)
{
    struct xt_network network = {0};
    struct xt_source *source = NULL;
    enum xt_status status = xt_network_open(&network, &settings->network, &settings->device, err);
    if (!status)
        status = xt_network_open_source(&network, data, &source, err);
    if (!status)
        status =
            xt_network_build(&network, &settings->network, settings->network.batch, false, err);
    if (!status)
        status = evaluate(suspects, &network, settings, source, pictures, err);
    xt_source_destroy(source);
    xt_network_clear(&network);
    return status;
}

void xt_suspects_clear(struct xt_suspects *suspects)
{
    for (size_t i = 0; i < suspects->count; i++)
        cJSON_Delete(suspects->items[i].found);
    for (int i = 0; i < suspects->read_count; i++)
        free(suspects->reads[i].name);
    free(suspects->items);
    free(suspects->reads);
    *suspects = (struct xt_suspects){0};
}

static int by_suspicion(const void *a, const void *b)
{
    double one = ((const struct xt_suspect *)a)->odds;
    double other = ((const struct xt_suspect *)b)->odds;
    return (one < other) - (one > other);
}

/* The share that is read wrong, where one wrong and one right image more are supposed: few images
 * say little. What no label has cannot be read either, but is not known to be wanted. */
static double need_of(const struct xt_read_count *read)
{
    return read->seen ? (double)(read->seen - read->right + 1) / (double)(read->seen + 2) : 0;
}

static int by_need(const void *a, const void *b)
{
    double one = need_of(a);
    double other = need_of(b);
    return (one < other) - (one > other);
}

void xt_suspects_sort(struct xt_suspects *suspects)
{
    if (suspects->count)
        qsort(suspects->items, suspects->count, sizeof *suspects->items, by_suspicion);
    if (suspects->read_count)
        qsort(suspects->reads, (size_t)suspects->read_count, sizeof *suspects->reads, by_need);
}

enum xt_status xt_suspects_save(const struct xt_suspects *suspects, const char *path,
                                struct xt_err *err)
{
    static const char *const texts[] = {"path", "expected", "read"};
    struct xt_str text = {0};
    xt_str_printf(&text, NULL, "path\texpected\tread\tconfidence\todds\n");
    for (size_t i = 0; i < suspects->count; i++) {
        const struct xt_suspect *suspect = &suspects->items[i];
        for (int k = 0; k < 3; k++) {
            xt_str_append_escaped(&text, xt_json_get_text(suspect->found, texts[k], ""), NULL);
            xt_str_append(&text, "\t", 1, NULL);
        }
        xt_str_printf(&text, NULL, "%.4f\t%.2f\n",
                      xt_json_get(suspect->found, "confidence", (double)NAN), suspect->odds);
    }
    enum xt_status status = xt_str_check(&text, err);
    if (!status)
        status = xt_file_save(path, xt_str_get(&text), text.length, err);
    xt_str_clear(&text);
    return status;
}
