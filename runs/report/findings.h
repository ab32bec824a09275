/* What an evaluation found, as JSON: for a run's report.json, the page, and eval --errors. An
 * object with
 *
 *   step, images, correct, loss, figures [[key, value]]
 *   unit       "characters" or "classes"
 *   symbols    [[name, how often in labels, how often read there]]
 *   pairs      [[expected, read, count]], the most frequent first; places in `symbols`, or null
 *   more_pairs how many pairs more there are
 *   errors     the wrong images, worst first: path, expected, read, confidence, parts [[name,
 *              confidence]], steps [[symbol or "" for the blank, probability]], picture (a data
 * URL)
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdint.h>

#include "base/err.h"
#include "runs/report/errors.h"
#include "runs/report/events.h"
#include "runs/report/json.h"

/* The input of the description; all borrowed. */
struct xt_findings {
    const struct xt_errors *errors; /* ended */
    const struct xt_evaluation *evaluation;
    const struct xt_source *source;
    const struct xt_data_settings *data; /* how images are shown */
    int64_t step;                        /* -1: of no run */
    size_t most;                         /* limit of described wrong images */
    size_t pictures;                     /* limit of those with a picture */
    struct xt_events *events;            /* gets the first few pictures; may be NULL */
};

/* The object into *out (cJSON_Delete). */
enum xt_status xt_findings_describe(const struct xt_findings *findings, cJSON **out,
                                    struct xt_err *err);

/* A single error, without its picture; NULL, and the failure in `json`, when out of memory. */
cJSON *xt_findings_error(struct xt_json *json, const struct xt_findings *findings,
                         const struct xt_wrong *wrong);

/* Adds "picture", the image of that index; nothing where it cannot be read or memory is short. With
 * a tag the findings' events get it too. */
void xt_findings_picture(struct xt_json *json, cJSON *at, const struct xt_findings *findings,
                         size_t index, const char *tag);

/* Takes the pictures out of such an object; `findings` may be anything. */
void xt_findings_drop_pictures(const cJSON *findings);

/* The name of a symbol or class; "" for -1. */
enum xt_status xt_findings_name(const struct xt_errors *errors, int symbol, struct xt_str *out,
                                struct xt_err *err);
/* The same as a member of an object, or of a list (key NULL). */
void xt_findings_put_name(struct xt_json *json, cJSON *at, const char *key,
                          const struct xt_errors *errors, int symbol);
