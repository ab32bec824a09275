/* CIFAR's batches as torchvision leaves them: pickles of Python 2 with the pixels in one numpy
 * array and the labels in a list (Krizhevsky 2009, "python version"). Nothing of them is executed;
 * every size is checked. Errors leave the file's name to the caller. Stateless, thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The array's bytes are an image's planes (red, green, blue), one image after the other. */
struct xt_cifar_pickle {
    size_t count;
    size_t pixels_at; /* the array's offset in the file */
    uint8_t *labels;  /* [count]; release with free */
};

/* Reads a batch with images of `image_bytes`; `labels_key` names its list of labels, each at most
 * 255. */
enum xt_status xt_cifar_pickle_read(struct xt_cifar_pickle *out, const uint8_t *bytes, size_t size,
                                    const char *labels_key, size_t image_bytes, struct xt_err *err);

/* The names in the list `key`, each ended by a line feed, into *out (release with free). */
enum xt_status xt_cifar_pickle_names(char **out, const uint8_t *bytes, size_t size, const char *key,
                                     struct xt_err *err);
