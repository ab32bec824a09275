/* Counting right answers over an evaluation. */
#ifndef XT_TRAIN_METRICS_H
#define XT_TRAIN_METRICS_H

#include <stddef.h>

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

#endif
