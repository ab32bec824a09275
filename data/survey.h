/* A look at a whole set of images: what xtrain data check reports. Each image is decoded once, by
 * one thread; what cannot be read is counted and the first of it named.
 */
#ifndef XT_DATA_SURVEY_H
#define XT_DATA_SURVEY_H

#include "data/sources/source.h"

struct xt_survey_size {
    int width;
    int height;
    size_t count;
};

struct xt_survey {
    size_t count;                 /* samples */
    size_t bad;                   /* cannot be decoded */
    size_t unlabelled;            /* their label cannot be used */
    char *first_bad;              /* a sentence; NULL: none is bad */
    char *first_unlabelled;       /* a name; NULL: all have labels */
    struct xt_survey_size *sizes; /* the most frequent first */
    size_t size_count;
    size_t size_capacity;
    size_t jpeg;
    size_t png;
    size_t webp;
    size_t other;          /* made, or of a batch file */
    size_t turned;         /* as their Exif orientation says */
    size_t *symbol_counts; /* [symbols]: how often each symbol or class is in a label */
    int symbols;
    int label_least; /* lengths */
    int label_most;
    uint64_t *hashes;  /* [count], sorted: of size and pixels, 0 for bad ones */
    size_t duplicates; /* samples whose pixels another one has, less one a group */
    double mean[3];    /* of the channels as decoded, 0 to 255 */
    double deviation[3];
};

/* `symbols` is the alphabet's or the classes' count; `strict`: the first sample that cannot be used
 * is an error (XT_ERR_DATA). Clear the survey also after a failure, and
 * where a signal asked to stop: XT_INTERRUPTED or XT_STOPPED. */
enum xt_status xt_survey_take(struct xt_survey *survey, const struct xt_source *source, int symbols,
                              bool strict, struct xt_err *err);
void xt_survey_clear(struct xt_survey *survey);

/* How many samples of `a` have the same pixels as one of `b`. */
size_t xt_survey_common(const struct xt_survey *a, const struct xt_survey *b);

#endif
