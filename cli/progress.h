/* Progress of a run.
 *
 * On a terminal one line on standard error is rewritten in place, at most ten times a second, cut
 * to the terminal's width. Otherwise (a log file, a batch system) whole lines go to standard
 * output, at most one every XT_PROGRESS_INTERVAL seconds. With --quiet nothing is shown; with
 * --json standard output belongs to the results, so progress appears on a terminal only. base/log
 * clears the live line before a message; code that prints results calls xt_progress_clear first.
 * Not thread-safe: one thread shows progress.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/gpu/monitor.h"
#include "engine/graph.h"

/* Seconds between lines in a log. */
#define XT_PROGRESS_INTERVAL 10.0

struct xt_progress_state {
    int epoch; /* 1-based; 0: omitted */
    int epochs;
    int64_t step; /* steps done */
    int64_t steps;
    bool no_loss; /* nothing is trained */
    double loss;  /* shown as it is, also if NaN or infinite */
    double lr;    /* this and the next three: omitted if NAN */
    double images_per_s;
    double seconds_left;
    double wait;                             /* part of the time spent waiting for data, 0 to 1 */
    int64_t skipped;                         /* steps that loss scaling skipped; 0: omitted */
    const struct xt_monitor_figures *device; /* NULL: omitted */
};

/* Of a training, without skipped steps and device. */
struct xt_train_progress;
struct xt_progress_state xt_progress_of(const struct xt_train_progress *p);

/* Formats "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 % 3.2/17.2 GB
 * 97 % busy 120 W 2100 MHz" into `text`. A line longer than `columns` drops its least important
 * parts in order: frequency, power, learning rate, waiting, skipped steps, epoch, busy, memory, and
 * so on; the step is always shown. */
void xt_progress_format(const struct xt_progress_state *state, size_t columns, char *text,
                        size_t size);

/* "0:07", "2:13", "1:02:13", "3 d 04:05". */
void xt_progress_format_time(double seconds, char *text, size_t size);

enum xt_progress_mode { XT_PROGRESS_OFF, XT_PROGRESS_PLAIN, XT_PROGRESS_LIVE };

struct xt_progress {
    enum xt_progress_mode mode;
    FILE *out;    /* for log lines; not owned */
    double shown; /* time of the last output, on the caller's clock */
    bool started;
};

/* Selects the mode: live if standard error is a terminal that can rewrite a line. */
void xt_progress_init(struct xt_progress *progress, bool quiet, bool json);
/* Shows the state unless the last one was shown too recently; `force` shows it anyway (end of an
 * epoch). `now` is in seconds since any fixed moment. */
void xt_progress_show(struct xt_progress *progress, const struct xt_progress_state *state,
                      double now, bool force);
/* Shows "step 3/12" only; the context is a struct xt_progress, so that this can be an observer. */
void xt_progress_count(void *progress, int done, int all);
/* Clears the live line, so that other output starts on an empty one. */
void xt_progress_clear(const struct xt_progress *progress);

/* Progress of an XPU's kernels: "compiling kernels 37/112, about 0:41 left", or "loading" where all
 * were in the cache, shown after one second. Must not be moved: the observer points to it. */
struct xt_kernel_progress {
    struct xt_progress progress;
    struct xt_graph_observer observer; /* for xt_network_settings.kernels */
    double start;
};
void xt_kernel_progress_init(struct xt_kernel_progress *kernels, bool quiet, bool json);
