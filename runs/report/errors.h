/* What an evaluation got wrong: the images, the surest of what is wrong first, and which symbols or
 * classes were taken for which. One place that training's page, TensorBoard's events and eval
 * --errors take from.
 *
 * Wrong images are kept by what was read, not by their pixels: about 200 bytes each for plates.
 * What fails while they are collected is told by xt_errors_end. Not thread-safe.
 */
#ifndef XT_RUNS_REPORT_ERRORS_H
#define XT_RUNS_REPORT_ERRORS_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "infer/evaluate.h"

/* One image; one piece of memory with what it points to. */
struct xt_wrong {
    size_t bytes;      /* of that memory */
    size_t index;      /* in the source */
    double confidence; /* of the answer */
    const int *label;  /* [label_length] */
    int label_length;
    const int *said;          /* [length] a plate's symbols, or the likeliest classes */
    const float *confidences; /* [length] */
    int length;
    const struct xt_decode_step *steps; /* [step_count] of a plate */
    int step_count;
};
/* An answer as it is kept, a right one too (release with free). */
enum xt_status xt_wrong_create(struct xt_wrong **out, const struct xt_objective *objective,
                               const struct xt_answer *answer, struct xt_err *err);

/* How often one was taken for the other; -1 as in struct xt_mistake. */
struct xt_confused {
    int expected;
    int read;
    size_t count;
};

struct xt_errors {
    const struct xt_objective *objective; /* borrowed */
    size_t most;                          /* wrong images that are kept, the worst; 0: all */
    struct xt_wrong **wrong;              /* [count] once ended: worst first */
    size_t count;
    size_t capacity;
    size_t images;
    size_t wrong_images;       /* kept or not */
    int symbols;               /* or classes */
    size_t *seen;              /* [symbols] how often each stood in a label */
    size_t *right;             /* [symbols] and was read */
    struct xt_confused *pairs; /* [pair_count] once ended: the most frequent first */
    size_t pair_count;
    size_t pair_capacity;
    struct xt_err err; /* the first failure */
};

/* Clear it also after a failure; zeroed is empty too. */
enum xt_status xt_errors_init(struct xt_errors *errors, const struct xt_objective *objective,
                              size_t most, struct xt_err *err);
void xt_errors_clear(struct xt_errors *errors);

/* Takes an image of an evaluation, as its observer gets it. */
void xt_errors_add(struct xt_errors *errors, const struct xt_answer *answer);
/* Orders what was collected. */
enum xt_status xt_errors_end(struct xt_errors *errors, struct xt_err *err);

/* Appends what was collected to `out`, as bytes for another process of this program; add_packed
 * takes them as if that process' images had been this one's. XT_ERR_RUN where they are cut short.
 */
enum xt_status xt_errors_pack(struct xt_errors *errors, struct xt_str *out, struct xt_err *err);
enum xt_status xt_errors_add_packed(struct xt_errors *errors, const void *bytes, size_t count,
                                    struct xt_err *err);

#endif
