/* The names of a network's classes, in the order of its logits: read from a data set, stored in the
 * metadata of weights as a JSON array. The struct owns them; zeroed is empty.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct xt_class_names {
    char **names;
    int count;
};

/* The first `known` of `count` names; the others become "class N". */
enum xt_status xt_class_names_copy(struct xt_class_names *out, char *const *names, int known,
                                   int count, struct xt_err *err);
/* From a JSON array of strings; `where` names it in the error (XT_ERR_DATA). */
enum xt_status xt_class_names_parse(struct xt_class_names *out, const char *text, const char *where,
                                    struct xt_err *err);
/* Appends the JSON array. */
enum xt_status xt_class_names_print(const struct xt_class_names *names, struct xt_str *out,
                                    struct xt_err *err);
bool xt_class_names_equal(const struct xt_class_names *a, const struct xt_class_names *b);
void xt_class_names_clear(struct xt_class_names *names);
