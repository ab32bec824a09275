/* What the readers of weight files share: the memory behind an xt_weight_file, and checked names.
 *
 * Everything allocated here belongs to the file and goes with xt_weight_file_clear, also after a
 * failure. Messages say what is wrong and leave the file's name to xt_weight_file_parse.
 */
#ifndef XT_MODELS_WEIGHTS_WEIGHT_STORE_H
#define XT_MODELS_WEIGHTS_WEIGHT_STORE_H

#include "models/weights/weight_file.h"

/* count * size zeroed bytes into *out; `what` names them in the error. */
enum xt_status xt_weight_store_alloc(struct xt_weight_file *file, void *out, size_t count,
                                     size_t size, const char *what, struct xt_err *err);

/* Hands a block made by malloc over; it is freed too where this fails. */
enum xt_status xt_weight_store_adopt(struct xt_weight_file *file, void *block, struct xt_err *err);

/* A NUL-terminated copy of a tensor's name. Names are UTF-8 without control characters (so that
 * they can be printed), not empty, and at most a few hundred bytes. */
enum xt_status xt_weight_store_name(struct xt_weight_file *file, const char **out,
                                    const char *bytes, size_t length, struct xt_err *err);

/* Refuses two tensors of one name. */
enum xt_status xt_weight_store_check_unique(const struct xt_weight_file *file, struct xt_err *err);

/* The number of elements (the product of dims), false where a dimension is negative or the bytes
 * overflow. */
bool xt_weight_store_measure(const struct xt_file_tensor *tensor, size_t *bytes);

/* Copies at most `size - 1` bytes of text that may hold anything, in a form fit for a terminal. */
const char *xt_weight_store_printable(char *out, size_t size, const void *bytes, size_t length);

bool xt_weight_store_is_text(const char *bytes, size_t length, bool allow_controls);

#endif
