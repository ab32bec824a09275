/* Prints predictions in the order in which the images were sent, as they become ready.
 * Single-threaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/session/xtrain.h"

struct xt_ordered_item;

/* Zeroed is empty. */
struct xt_ordered {
    struct xtrain *network;
    const struct xt_answer_settings *settings;
    bool each; /* images that could not be read get a line too, instead of a warning */
    int wake;  /* an eventfd, written when predictions become ready */
    struct xt_ordered_item *items; /* a ring */
    size_t room, first, count;
    size_t images, answered, unreadable;
};

/* Takes ownership of the network, with at most two batches in flight. The caller clears it, also
 * after a failure; the settings must outlive it. */
enum xt_status xt_ordered_init(struct xt_ordered *ordered, struct xtrain *network, int batch,
                               const struct xt_answer_settings *settings, struct xt_err *err);
/* Sends an image, and prints ready predictions. Unreadable images are counted, and the others
 * continue. `name` is printed with the prediction. */
enum xt_status xt_ordered_send(struct xt_ordered *ordered, const char *name,
                               const struct xtrain_image *image, struct xt_err *err);
/* For an image that could not be sent at all: *why is XT_ERR_DATA or XT_ERR_USAGE. */
enum xt_status xt_ordered_skip(struct xt_ordered *ordered, const char *name,
                               const struct xt_err *why, struct xt_err *err);
/* Prints the ready predictions up to the first that is not; with `all`, waits for all. */
enum xt_status xt_ordered_print(struct xt_ordered *ordered, bool all, struct xt_err *err);
/* Waits for all, adds the totals to the result, and returns what was wrong with the input
 * (XT_ERR_DATA). */
enum xt_status xt_ordered_end(struct xt_ordered *ordered, double start, struct xt_err *err);
/* Also closes the network. */
void xt_ordered_clear(struct xt_ordered *ordered);
