#include "infer/answer/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Levenshtein distance, one row of the table at a time; a row has a column for each symbol of the
 * prediction. */
static size_t edit_distance(const int *label, int label_length, const int *answer,
                            int answer_length)
{
    size_t row[XT_DECODE_MAX + 1];
    for (int j = 0; j <= answer_length; j++)
        row[j] = (size_t)j;
    for (int i = 1; i <= label_length; i++) {
        size_t diagonal = row[0];
        row[0] = (size_t)i;
        for (int j = 1; j <= answer_length; j++) {
            size_t substituted = diagonal + (label[i - 1] != answer[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = substituted < shorter + 1 ? substituted : shorter + 1;
        }
    }
    return row[answer_length];
}

void xt_plate_score_add(struct xt_plate_score *score, const int *label, int label_length,
                        const int *answer, int answer_length)
{
    assert(answer_length >= 0 && answer_length <= XT_DECODE_MAX);
    size_t length = (size_t)label_length;
    size_t errors = edit_distance(label, label_length, answer, answer_length);
    score->images++;
    score->correct += errors == 0;
    score->characters += length;
    score->char_errors += errors < length ? errors : length;
}

int xt_plate_mistakes(const int *label, int label_length, const int *answer, int answer_length,
                      struct xt_mistake *out)
{
    /* left[i][j]: the distance between the label from i on and the prediction from j on. */
    int left[XT_LABEL_MAX + 1][XT_DECODE_MAX + 1] = {{0}};
    int count = 0;
    assert(label_length >= 0 && label_length <= XT_LABEL_MAX);
    assert(answer_length >= 0 && answer_length <= XT_DECODE_MAX);
    for (int i = label_length; i >= 0; i--)
        left[i][answer_length] = label_length - i;
    for (int j = answer_length; j >= 0; j--)
        left[label_length][j] = answer_length - j;
    for (int i = label_length - 1; i >= 0; i--)
        for (int j = answer_length - 1; j >= 0; j--) {
            int other = left[i + 1][j + 1] + (label[i] != answer[j]);
            int shorter = left[i + 1][j] < left[i][j + 1] ? left[i + 1][j] : left[i][j + 1];
            left[i][j] = other < shorter + 1 ? other : shorter + 1;
        }
    for (int i = 0, j = 0; i < label_length || j < answer_length;) {
        bool both = i < label_length && j < answer_length;
        if (both && left[i][j] == left[i + 1][j + 1] + (label[i] != answer[j])) {
            if (label[i] != answer[j])
                out[count++] = (struct xt_mistake){label[i], answer[j]};
            i++, j++;
        } else if (i < label_length && left[i][j] == left[i + 1][j] + 1) {
            out[count++] = (struct xt_mistake){label[i++], -1};
        } else {
            out[count++] = (struct xt_mistake){-1, answer[j++]};
        }
    }
    return count;
}

double xt_plate_score_accuracy(const struct xt_plate_score *score)
{
    return score->images ? (double)score->correct / (double)score->images : 0;
}

double xt_plate_score_char_accuracy(const struct xt_plate_score *score)
{
    return score->characters ? 1 - (double)score->char_errors / (double)score->characters : 0;
}

void xt_class_score_add(struct xt_class_score *score, int label, const int *answers,
                        int answer_count)
{
    score->images++;
    for (int i = 0; i < answer_count && i < XT_TOP; i++) {
        score->top1 += i == 0 && answers[i] == label;
        score->top5 += answers[i] == label;
    }
}

double xt_class_score_top1(const struct xt_class_score *score)
{
    return score->images ? (double)score->top1 / (double)score->images : 0;
}

double xt_class_score_top5(const struct xt_class_score *score)
{
    return score->images ? (double)score->top5 / (double)score->images : 0;
}

int xt_top_classes(const float *values, int count, int limit, int *out)
{
    int found = 0;
    for (int k = 0; k < count; k++) {
        int place = found;
        while (place > 0 && !(values[out[place - 1]] >= values[k]) && !isnan(values[k]))
            place--;
        if (place >= limit)
            continue;
        found += found < limit;
        for (int i = found - 1; i > place; i--)
            out[i] = out[i - 1];
        out[place] = k;
    }
    return found;
}
