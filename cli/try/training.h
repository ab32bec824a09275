/* One training, or another command, as a stage of xtrain try: its command line, and what came of
 * it. Not thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/options/options.h"
#include "infer/answer/reliability.h"
#include "train/trainer.h"

/* Options as they would be typed. Zeroed is empty; clear it also after a failure. */
struct xt_line {
    char *words[64];
    int count;
    bool failed; /* out of memory, or too many */
};
/* Adds "--name=value" or "--name"; of an option given twice the last holds. */
void xt_line_add(struct xt_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds what was given to try and is for training too, but for options that are of its last stage
 * alone. */
void xt_line_add_given(struct xt_line *line, const struct xt_options *given);
void xt_line_clear(struct xt_line *line);

/* Parses the line, with the output's settings of `given`. The line outlives the options. */
enum xt_status xt_line_parse(const struct xt_line *line, const struct xt_options *given,
                             enum xt_command_id command, struct xt_options *out,
                             struct xt_err *err);

/* What a training came to. */
struct xt_trained {
    struct xt_run_state state;
    struct xt_run_best best;
    int64_t steps; /* that were planned */
    struct xt_reliability_report reliability;
    size_t images, right; /* of the last evaluation */
    double images_per_s;  /* of the last report; 0: none */
    bool has_bf16;        /* the device computes in it */
};

/* Trains. After a signal err says where, and with `resumes` how the run is resumed. */
enum xt_status xt_trained_run(struct xt_trained *out, const struct xt_line *line,
                              const struct xt_options *given, bool resumes, struct xt_err *err);
