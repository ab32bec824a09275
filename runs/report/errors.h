/* An evaluation's errors: the images, most confident errors first, and the confused symbols or
 * classes. Used by training's page, TensorBoard's events and eval --errors.
 *
 * For wrong images the prediction is stored, not the pixels: about 200 bytes each for plates.
 * Failures while collecting are returned by xt_errors_end. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "infer/evaluate.h"

/* One image; a single allocation with everything it points to. */
struct xt_wrong {
    size_t bytes;      /* of the allocation */
    size_t index;      /* in the source */
    double confidence; /* of the prediction */
    const int *label;  /* [label_length] */
    int label_length;
    const int *said;          /* [length] a plate's symbols, or the likeliest classes */
    const float *confidences; /* [length] */
    int length;
    const struct xt_decode_step *steps; /* [step_count] of a plate */
    int step_count;
};
/* A copy of an answer, also of a correct one (release with free). */
enum xt_status xt_wrong_create(struct xt_wrong **out, const struct xt_predictor *predictor,
                               const struct xt_answer *answer, struct xt_err *err);

/* The number of confusions of a pair; -1 as in struct xt_mistake. */
struct xt_confused {
    int expected;
    int read;
    size_t count;
};

struct xt_errors {
    const struct xt_predictor *predictor; /* borrowed */
    size_t most;                          /* limit of stored wrong images, the worst; 0: all */
    struct xt_wrong **wrong;              /* [count] once ended: worst first */
    size_t count;
    size_t images;
    size_t wrong_images;       /* stored or not */
    int symbols;               /* or classes */
    size_t *seen;              /* [symbols] occurrences in labels */
    size_t *right;             /* [symbols] of these read correctly */
    struct xt_confused *pairs; /* [pair_count] once ended: the most frequent first */
    size_t pair_count;
    size_t pair_capacity;
    struct xt_err err; /* the first failure */
};

/* Clear it also after a failure; zeroed is empty. */
enum xt_status xt_errors_init(struct xt_errors *errors, const struct xt_predictor *predictor,
                              size_t most, struct xt_err *err);
void xt_errors_clear(struct xt_errors *errors);

/* Adds an image of an evaluation; for its observer. */
void xt_errors_add(struct xt_errors *errors, const struct xt_answer *answer);
/* Sorts the collected errors. */
enum xt_status xt_errors_end(struct xt_errors *errors, struct xt_err *err);

/* Serialises the collected errors to `out` for another process of this program; add_packed merges
 * them there. XT_ERR_RUN where they are cut short.
 */
enum xt_status xt_errors_pack(struct xt_errors *errors, struct xt_str *out, struct xt_err *err);
enum xt_status xt_errors_add_packed(struct xt_errors *errors, const void *bytes, size_t count,
                                    struct xt_err *err);
