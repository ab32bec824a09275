/* Accuracy over an evaluation. */
#pragma once

#include <stddef.h>

#include "data/sources/source.h"
#include "infer/answer/decode.h"

/* Plates: a plate is correct when all its characters match; characters count by edit distance.
 * Zeroed is empty. */
struct xt_plate_score {
    size_t images;
    size_t correct;
    size_t characters;  /* in the labels */
    size_t char_errors; /* Levenshtein distance, summed, at most the label's length each */
};

/* Adds one plate. `answer` is a decoded string: at most XT_DECODE_MAX symbols; the label may be of
 * any length. */
void xt_plate_score_add(struct xt_plate_score *score, const int *label, int label_length,
                        const int *answer, int answer_length);
/* Fractions in [0, 1]; 0 where nothing was counted. */
double xt_plate_score_accuracy(const struct xt_plate_score *score);
double xt_plate_score_char_accuracy(const struct xt_plate_score *score);

/* A difference between label and prediction: `expected` is -1 for a surplus symbol, `read` is -1
 * for a missing one. */
struct xt_mistake {
    int expected;
    int read;
};
enum { XT_MISTAKES_MAX = XT_LABEL_MAX + XT_DECODE_MAX };
/* A shortest edit script from the label (at most XT_LABEL_MAX symbols) to the prediction, in order,
 * into `out` ([XT_MISTAKES_MAX]); returns its length. */
int xt_plate_mistakes(const int *label, int label_length, const int *answer, int answer_length,
                      struct xt_mistake *out);

/* Classes: an image is correct when its class is the likeliest (top-1), or among the five likeliest
 * (top-5). Zeroed is empty. */
enum { XT_TOP = 5 };
struct xt_class_score {
    size_t images;
    size_t top1;
    size_t top5;
};

/* `answers`: the likeliest classes, best first. */
void xt_class_score_add(struct xt_class_score *score, int label, const int *answers,
                        int answer_count);
/* Fractions in [0, 1]; 0 where nothing was counted. */
double xt_class_score_top1(const struct xt_class_score *score);
double xt_class_score_top5(const struct xt_class_score *score);

/* The indices of the largest values, largest first, equal ones by index; returns their number, the
 * smaller of `limit` and `count`. NaN comes last. */
int xt_top_classes(const float *values, int count, int limit, int *out);
