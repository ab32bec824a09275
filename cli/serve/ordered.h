/* Answers in the order in which the pictures were sent, printed as they come. One thread's. */
#ifndef XT_CLI_SERVE_ORDERED_H
#define XT_CLI_SERVE_ORDERED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/session/xtrain.h"
#include "cli/settings.h"

struct xt_ordered_item;

/* Zeroed is empty. */
struct xt_ordered {
    struct xtrain *network;
    const struct xt_answer_settings *settings;
    bool json;
    bool each; /* what could not be read gets a line too; else it is warned of */
    int wake;  /* an eventfd that is written as answers come */
    struct xt_ordered_item *items; /* a ring */
    size_t room, first, count;
    size_t images, answered, unreadable;
};

/* Takes the network, of which two batches may be under way. The caller clears it, also after a
 * failure; the settings stay longer. */
enum xt_status xt_ordered_init(struct xt_ordered *ordered, struct xtrain *network, int batch,
                               const struct xt_answer_settings *settings, bool json,
                               struct xt_err *err);
/* Sends a picture, and prints what has come. One that cannot be read is counted, and the others go
 * on. `name` is what its answer is printed with. */
enum xt_status xt_ordered_send(struct xt_ordered *ordered, const char *name,
                               const struct xtrain_image *image, struct xt_err *err);
/* For a picture that could not even be sent: *why is XT_ERR_DATA or XT_ERR_USAGE. */
enum xt_status xt_ordered_skip(struct xt_ordered *ordered, const char *name,
                               const struct xt_err *why, struct xt_err *err);
/* Prints those that are there, up to the first that is not; or waits for all. */
enum xt_status xt_ordered_print(struct xt_ordered *ordered, bool all, struct xt_err *err);
/* The end: waits for all, prints the totals where the answers are JSON, and says what was
 * wrong with the input (XT_ERR_DATA). */
enum xt_status xt_ordered_end(struct xt_ordered *ordered, double seconds, struct xt_err *err);
/* Closes the network too. */
void xt_ordered_clear(struct xt_ordered *ordered);

#endif
