/* Counting right answers over an evaluation. */
#ifndef XT_INFER_ANSWER_METRICS_H
#define XT_INFER_ANSWER_METRICS_H

#include <stddef.h>

#include "data/sources/source.h"
#include "infer/answer/decode.h"

/* Plates: a plate counts when all its characters match; characters by edit distance. Zeroed is
 * empty. */
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

/* Where label and answer part: -1 as `expected` is a symbol too many, as `read` one that is
 * missing. */
struct xt_mistake {
    int expected;
    int read;
};
enum { XT_MISTAKES_MAX = XT_LABEL_MAX + XT_DECODE_MAX };
/* A smallest set of mistakes that makes the label (at most XT_LABEL_MAX symbols) the answer, in
 * their order, into `out` ([XT_MISTAKES_MAX]); returns how many. */
int xt_plate_mistakes(const int *label, int label_length, const int *answer, int answer_length,
                      struct xt_mistake *out);

/* Classes: an image counts when its class is the likeliest, or among the five likeliest. Zeroed is
 * empty. */
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

/* The indices of the largest values, largest first, and of equal ones the first; returns how many:
 * the smaller of `limit` and `count`. Values that are not numbers come last. */
int xt_top_classes(const float *values, int count, int limit, int *out);

#endif
