/* Numbers of a checkpoint as texts of its metadata. A table gives for each field of a struct its
 * key, offset, valid range, and whether every version writes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/weights/weight_file.h"

enum xt_number_kind {
    XT_NUMBER_REAL,   /* a double, exact */
    XT_NUMBER_COUNT,  /* an int64_t, at least `least` */
    XT_NUMBER_PAST,   /* the same, at most the checkpoint's step */
    XT_NUMBER_LENGTH, /* the same, at least the checkpoint's step */
    XT_NUMBER_FLAG,   /* a bool */
};

struct xt_number_field {
    const char *key;
    size_t at; /* offsetof */
    enum xt_number_kind kind;
    int least;
    bool needed; /* else a missing field is unchanged, and a non-finite real is not written */
};

enum { XT_NUMBER_TEXT = 40 };

/* Returns whether it is written. */
bool xt_number_print(const struct xt_number_field *field, const void *of, char out[XT_NUMBER_TEXT]);

/* `path` is for errors, all of them XT_ERR_DATA; `step` the checkpoint's. */
enum xt_status xt_numbers_read(const struct xt_number_field *fields, size_t count, void *into,
                               int64_t step, const struct xt_weight_file *file, const char *path,
                               struct xt_err *err);
enum xt_status xt_number_need_text(const struct xt_weight_file *file, const char *path,
                                   const char *key, const char **out, struct xt_err *err);
