/* A survey of a whole set of images: what xtrain data check reports. Each image is decoded once, by
 * one thread; bad ones are counted and the first is named.
 */
#pragma once

#include "data/sources/source.h"

struct xt_survey_size {
    int width;
    int height;
    size_t count;
};

struct xt_survey {
    size_t count;                 /* samples */
    size_t bad;                   /* could not be decoded */
    size_t unlabelled;            /* have an invalid label */
    char *first_bad;              /* a sentence; NULL: no sample is bad */
    char *first_unlabelled;       /* a name; NULL: all have labels */
    struct xt_survey_size *sizes; /* most frequent first */
    size_t size_count;
    size_t jpeg;
    size_t png;
    size_t webp;
    size_t other;          /* synthetic, or of a batch file */
    size_t turned;         /* after rotation by their Exif orientation */
    size_t *symbol_counts; /* [symbols]: the frequency of each symbol or class */
    int symbols;
    int label_least; /* histogram of lengths */
    int label_most;
    uint64_t *hashes;  /* [count], sorted: hashes of size and pixels, 0 for bad ones */
    size_t duplicates; /* samples whose pixels occurred before */
    double mean[3];    /* of the channels as decoded, 0 to 255 */
    double deviation[3];
};

/* `symbols` is the alphabet's or the classes' count; `strict`: the first sample that cannot be used
 * is an error (XT_ERR_DATA). Clear the survey also after a failure, and after a signal to stop:
 * XT_INTERRUPTED or XT_STOPPED. */
enum xt_status xt_survey_take(struct xt_survey *survey, const struct xt_source *source, int symbols,
                              bool strict, struct xt_err *err);
void xt_survey_clear(struct xt_survey *survey);
/* XT_ERR_DATA where more samples are bad than a training allows. */
enum xt_status xt_survey_check(const struct xt_survey *survey, struct xt_err *err);

/* The number of samples of `a` whose pixels are those of a sample of `b`. */
size_t xt_survey_common(const struct xt_survey *a, const struct xt_survey *b);
