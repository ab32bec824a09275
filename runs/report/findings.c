#include "runs/report/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "infer/picture.h"

enum { PAIRS = 400, SYMBOLS = 1000, EVENT_PICTURES = 8 };

enum xt_status xt_findings_name(const struct xt_errors *errors, int symbol, struct xt_str *out,
                                struct xt_err *err)
{
    const struct xt_predictor *predictor = errors->predictor;
    return symbol < 0 ? XT_OK : predictor->class->text(predictor, &symbol, 1, out, err);
}

void xt_findings_put_name(struct xt_json *json, cJSON *at, const char *key,
                          const struct xt_errors *errors, int symbol)
{
    struct xt_str name = {0};
    if (xt_findings_name(errors, symbol, &name, NULL))
        json->failed = true;
    xt_json_text(json, at, key, xt_str_get(&name));
    xt_str_clear(&name);
}

/* A symbol and its probability, to four digits, for display. */
static void put_part(struct xt_json *json, cJSON *list, const struct xt_errors *errors, int symbol,
                     double probability)
{
    cJSON *part = xt_json_array(json, list, NULL);
    xt_findings_put_name(json, part, NULL, errors, symbol);
    xt_json_number(json, part, NULL, (double)(int)(1e4 * probability + 0.5) / 1e4);
}

static void put_text(struct xt_json *json, cJSON *at, const char *key,
                     const struct xt_errors *errors, const int *symbols, int length)
{
    struct xt_str text = {0};
    const struct xt_predictor *predictor = errors->predictor;
    if (predictor->class->text(predictor, symbols, length, &text, NULL))
        json->failed = true;
    xt_json_text(json, at, key, xt_str_get(&text));
    xt_str_clear(&text);
}

cJSON *xt_findings_error(struct xt_json *json, const struct xt_findings *findings,
                         const struct xt_wrong *wrong)
{
    char path[4096];
    const struct xt_errors *errors = findings->errors;
    const struct xt_network *network = errors->predictor->network;
    cJSON *error = cJSON_CreateObject();
    json->failed = json->failed || !error;
    findings->source->class->name(findings->source, wrong->index, path, sizeof path);
    xt_json_text(json, error, "path", path);
    put_text(json, error, "expected", errors, wrong->label, wrong->label_length);
    put_text(json, error, "read", errors, wrong->said, wrong->length);
    xt_json_number(json, error, "confidence", wrong->confidence);
    cJSON *parts = xt_json_array(json, error, "parts");
    for (int i = 0; i < wrong->length; i++)
        put_part(json, parts, errors, wrong->said[i], (double)wrong->confidences[i]);
    cJSON *steps = wrong->step_count ? xt_json_array(json, error, "steps") : NULL;
    for (int i = 0; i < wrong->step_count; i++) {
        int symbol = wrong->steps[i].symbol;
        bool blank = network->alphabet && symbol == xt_alphabet_blank(network->alphabet);
        put_part(json, steps, errors, blank ? -1 : symbol, (double)wrong->steps[i].probability);
    }
    return error;
}

void xt_findings_picture(struct xt_json *json, cJSON *at, const struct xt_findings *findings,
                         size_t index, const char *tag)
{
    struct xt_err err;
    struct xt_str url = {0};
    struct xt_small_picture picture = {0};
    enum xt_status status = xt_small_picture_make(&picture, findings->errors->predictor->network,
                                                  findings->data, findings->source, index, &err);
    if (!status)
        status = xt_small_picture_url(&picture, &url, &err);
    if (!status)
        xt_json_text(json, at, "picture", xt_str_get(&url));
    if (!status && findings->events && tag)
        xt_events_picture(findings->events, findings->step,
                          &(struct xt_event_picture){.tag = tag,
                                                     .width = picture.width,
                                                     .height = picture.height,
                                                     .png = picture.png.data,
                                                     .size = picture.png.length});
    xt_str_clear(&url);
    xt_small_picture_clear(&picture);
}

static void put_errors(struct xt_json *json, cJSON *at, const struct xt_findings *findings)
{
    cJSON *list = xt_json_array(json, at, "errors");
    for (size_t i = 0; i < findings->errors->count && i < findings->most; i++) {
        const struct xt_wrong *wrong = findings->errors->wrong[i];
        cJSON *error = xt_findings_error(json, findings, wrong);
        char tag[32];
        snprintf(tag, sizeof tag, "errors/%zu", i + 1);
        if (i < findings->pictures)
            xt_findings_picture(json, error, findings, wrong->index,
                                i < EVENT_PICTURES ? tag : NULL);
        xt_json_add(json, list, NULL, error);
    }
}

/* Numbers the symbols to be named: those of the pairs, and all that were seen unless too many.
 * places[symbol] is 0 for the others, else one more than the place in the list. */
static void put_symbols(struct xt_json *json, cJSON *at, const struct xt_errors *errors,
                        size_t pairs, int *places)
{
    cJSON *list = xt_json_array(json, at, "symbols");
    int count = 0;
    for (size_t i = 0; i < pairs; i++)
        for (int k = 0; k < 2; k++) {
            int symbol = k ? errors->pairs[i].read : errors->pairs[i].expected;
            if (symbol >= 0)
                places[symbol] = 1;
        }
    for (int i = 0; i < errors->symbols; i++) {
        if (!places[i] && (!errors->seen[i] || errors->symbols > SYMBOLS))
            continue;
        cJSON *symbol = xt_json_array(json, list, NULL);
        xt_findings_put_name(json, symbol, NULL, errors, i);
        xt_json_number(json, symbol, NULL, (double)errors->seen[i]);
        xt_json_number(json, symbol, NULL, (double)errors->right[i]);
        places[i] = ++count;
    }
}

static void put_place(struct xt_json *json, cJSON *pair, const int *places, int symbol)
{
    xt_json_number(json, pair, NULL, symbol < 0 ? (double)NAN : (double)places[symbol] - 1);
}

static enum xt_status put_pairs(struct xt_json *json, cJSON *at, const struct xt_errors *errors,
                                struct xt_err *err)
{
    size_t count = errors->pair_count < PAIRS ? errors->pair_count : PAIRS;
    int *places = NULL;
    enum xt_status status =
        xt_mem_calloc(&places, (size_t)errors->symbols, sizeof *places, "the list of symbols", err);
    if (status)
        return status;
    put_symbols(json, at, errors, count, places);
    cJSON *list = xt_json_array(json, at, "pairs");
    for (size_t i = 0; i < count; i++) {
        cJSON *pair = xt_json_array(json, list, NULL);
        put_place(json, pair, places, errors->pairs[i].expected);
        put_place(json, pair, places, errors->pairs[i].read);
        xt_json_number(json, pair, NULL, (double)errors->pairs[i].count);
    }
    xt_json_number(json, at, "more_pairs", (double)(errors->pair_count - count));
    free(places);
    return XT_OK;
}

enum xt_status xt_findings_describe(const struct xt_findings *findings, cJSON **out,
                                    struct xt_err *err)
{
    struct xt_json json = {0};
    const struct xt_evaluation *e = findings->evaluation;
    bool plates = findings->errors->predictor->network->task == XT_TASK_PLATES;
    cJSON *all = *out = cJSON_CreateObject();
    json.failed = !all;
    if (findings->step >= 0)
        xt_json_number(&json, all, "step", (double)findings->step);
    xt_json_put(&json, all, "images=%f correct=%f loss=%f", (double)e->images, (double)e->correct,
                e->loss);
    cJSON *figures = xt_json_array(&json, all, "figures");
    for (int i = 0; i < e->metric_count; i++) {
        cJSON *figure = xt_json_array(&json, figures, NULL);
        xt_json_text(&json, figure, NULL, e->metrics[i].key);
        xt_json_number(&json, figure, NULL, e->metrics[i].value);
    }
    xt_json_text(&json, all, "unit", plates ? "characters" : "classes");
    enum xt_status status = put_pairs(&json, all, findings->errors, err);
    put_errors(&json, all, findings);
    if (!status && json.failed)
        status = xt_err_no_memory(err, "what the evaluation found", 0);
    if (status) {
        cJSON_Delete(all);
        *out = NULL;
    }
    return status;
}

void xt_findings_drop_pictures(const cJSON *findings)
{
    cJSON *error = NULL;
    cJSON_ArrayForEach(error, cJSON_GetObjectItemCaseSensitive(findings, "errors"))
        cJSON_DeleteItemFromObjectCaseSensitive(error, "picture");
}
