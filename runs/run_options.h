/* The options that shape what a run trains, as its checkpoints record them and as a start that goes
 * on compares them. Which options these are, and what becomes of a change, the option table says
 * (xt_run_lister); values are texts as they would be typed.
 */
#ifndef XT_RUNS_RUN_OPTIONS_H
#define XT_RUNS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "models/weights/weight_file.h"
#include "infer/network/network.h"

/* What a run that goes on does about an option that is not what it was. */
enum xt_resume_rule {
    XT_RESUME_TAKES,   /* nothing: no weight follows from it */
    XT_RESUME_SAYS,    /* goes on with it, and says so: the losses are others */
    XT_RESUME_REFUSES, /* ends: it would be another run */
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

/* Whoever knows a run's options: `list` appends those that have one of the last two rules, with
 * what auto, 0 and the weights came to in this network. NULL: nothing is recorded. */
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

/* XT_ERR_USAGE where one that a run keeps to its end is not what the file, called `path`, says.
 * What a file of an earlier version does not say is not compared. */
enum xt_status xt_run_options_check(const struct xt_run_options *options,
                                    const struct xt_weight_file *file, const char *path,
                                    struct xt_err *err);
/* Says which of the others have changed. */
enum xt_status xt_run_options_note(const struct xt_run_options *options,
                                   const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err);

#endif
