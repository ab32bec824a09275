/* The options that affect training, as recorded in checkpoints and compared on resuming. The option
 * table defines these options and the rule for changes (xt_run_lister); values are texts as on the
 * command line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "models/weights/weight_file.h"
#include "infer/network/network.h"

/* How a resumed run treats an option that has changed. */
enum xt_resume_rule {
    XT_RESUME_TAKES,   /* accepts it: weights do not depend on it */
    XT_RESUME_SAYS,    /* accepts it with a note: the losses will differ */
    XT_RESUME_REFUSES, /* refuses: it would be another run */
};

struct xt_run_option {
    const char *name;    /* "weight-decay" */
    char key[44];        /* in a checkpoint's metadata: "weight_decay" */
    struct xt_str value; /* "0.1"; of a flag "true" or "false"; empty: not set; owned */
    bool is_flag;
    enum xt_resume_rule rule;
};

enum { XT_RUN_OPTIONS_MAX = 48 };

struct xt_run_options {
    struct xt_run_option items[XT_RUN_OPTIONS_MAX];
    size_t count;
};

/* Provides a run's options: `list` appends those with one of the last two rules, with effective
 * values in place of auto, 0 and the weights' choice. NULL: nothing is recorded. */
struct xt_run_lister {
    enum xt_status (*list)(const void *context, const struct xt_network *network,
                           struct xt_run_options *out, struct xt_err *err);
    const void *context;
};

/* Clear them also after a failure. */
enum xt_status xt_run_options_init(struct xt_run_options *options,
                                   const struct xt_run_lister *lister,
                                   const struct xt_network *network, struct xt_err *err);
void xt_run_options_clear(struct xt_run_options *options);

/* XT_ERR_USAGE where a fixed option differs from the file, named `path`. Options missing from an
 * earlier version's file are not compared. */
enum xt_status xt_run_options_check(const struct xt_run_options *options,
                                    const struct xt_weight_file *file, const char *path,
                                    struct xt_err *err);
/* Logs which of the others have changed. */
enum xt_status xt_run_options_note(const struct xt_run_options *options,
                                   const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err);
