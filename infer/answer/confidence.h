/* What the confidence of a network is worth: the temperatures that calibrate it (Guo et al. 2017,
 * arXiv:1706.04599) and the threshold below which its predictions are rejected. Found on validation
 * images (reliability.h) and stored in the metadata of the weights. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/answer/decode.h"
#include "infer/settings.h"
#include "models/weights/weight_store.h"

/* Zeroed: not calibrated, nothing is rejected. */
struct xt_confidence {
    double temperature;                  /* logits are divided by it; 0: not calibrated */
    double by_length[XT_DECODE_MAX + 1]; /* plates: of predictions of this length; 0: as above */
    double threshold;                    /* 0: nothing is rejected */
    int shortest, longest; /* plates: predictions of other lengths are rejected too; 0: of none */
    char rule[32];         /* that it was chosen by: "auto:0.995" */
    char evidence[160];    /* for people: what it does on the validation images */
};

/* Of a prediction of this length; 1 where nothing was calibrated. */
double xt_confidence_temperature(const struct xt_confidence *confidence, int length);
/* Whether a prediction is rejected: there is a threshold, and its confidence is below it, or it is
 * empty, or of a length that no validation image has. */
bool xt_confidence_rejects(const struct xt_confidence *confidence, const struct xt_decoded *said);

/* "stored", "none", a number from 0 to 1, "auto:0.995", "keep:0.98"; false for anything else. */
bool xt_reject_parse(const char *text, struct xt_reject_rule *out);
struct xt_reject_text {
    char text[32];
};
struct xt_reject_text xt_reject_spell(const struct xt_reject_rule *rule);
/* What is rejected by a rule that needs no validation images: all of `stored`, or the threshold
 * alone. XT_ERR_USAGE for other rules. */
enum xt_status xt_reject_settle(const struct xt_reject_rule *rule,
                                const struct xt_confidence *stored, struct xt_confidence *out,
                                struct xt_err *err);

/* XT_ERR_DATA for numbers that are none. */
enum xt_status xt_confidence_read(struct xt_confidence *out, const struct xt_weight_file *file,
                                  struct xt_err *err);
/* As metadata, which points into *out. */
enum { XT_CONFIDENCE_META = 6 };
struct xt_confidence_text {
    struct xt_file_meta items[XT_CONFIDENCE_META];
    size_t count;
    char temperature[24], threshold[24], lengths[24], by_length[(XT_DECODE_MAX + 1) * 24];
};
void xt_confidence_meta(const struct xt_confidence *confidence, struct xt_confidence_text *out);
