/* The progress of a run, for a person who waits.
 *
 * On a terminal one line on standard error is rewritten in place, at most ten times a second, with
 * as much of it as the terminal is wide. Elsewhere (a log file, a batch system) whole lines go to
 * standard output, at most one each XT_PROGRESS_INTERVAL seconds. With --quiet nothing is shown;
 * with --json standard output belongs to the results, so only a terminal sees progress. Messages of
 * base/log know of the live line; whoever prints results calls xt_progress_clear first. Not
 * thread-safe: one thread shows.
 */
#ifndef XT_CLI_PROGRESS_H
#define XT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/gpu/monitor.h"
#include "engine/graph.h"

/* Seconds between plain lines. */
#define XT_PROGRESS_INTERVAL 10.0

struct xt_progress_state {
    int epoch; /* 1-based; 0: left out */
    int epochs;
    int64_t step; /* steps done */
    int64_t steps;
    bool no_loss; /* nothing is trained */
    double loss;  /* shown as it is, also where it is no number */
    double lr;    /* this and the next three: NAN leaves them out */
    double images_per_s;
    double seconds_left;
    double wait;                             /* part of the time spent waiting for data, 0 to 1 */
    int64_t skipped;                         /* steps that loss scaling skipped; 0: left out */
    const struct xt_monitor_figures *device; /* NULL: left out */
};

/* "epoch 3/10 step 120/1400 loss 0.1234 lr 1.2e-3 412 img/s 2:13 left wait 0 % 3.2/17.2 GB 97 %
 * busy 120 W 2100 MHz" into `text`. Of a line that is longer than `columns` the least important
 * parts are left out: frequency, power, the learning rate, waiting, skipped steps, the epoch, busy,
 * memory, and so on to the step, which stays. */
void xt_progress_format(const struct xt_progress_state *state, size_t columns, char *text,
                        size_t size);

/* "0:07", "2:13", "1:02:13", "3 d 04:05". */
void xt_progress_format_time(double seconds, char *text, size_t size);

enum xt_progress_mode { XT_PROGRESS_OFF, XT_PROGRESS_PLAIN, XT_PROGRESS_LIVE };

struct xt_progress {
    enum xt_progress_mode mode;
    FILE *out;    /* where plain lines go; not owned */
    double shown; /* when, on the caller's clock */
    bool started;
};

/* Finds the mode: live where standard error is a terminal that can rewrite a line. */
void xt_progress_init(struct xt_progress *progress, bool quiet, bool json);
/* Shows the state unless the last one was shown too short a time ago; `force` shows it anyway (an
 * epoch's end). `now` is in seconds, from any fixed moment. */
void xt_progress_show(struct xt_progress *progress, const struct xt_progress_state *state,
                      double now, bool force);
/* "step 3/12" and nothing else; the context is a struct xt_progress, as observers want it. */
void xt_progress_count(void *progress, int done, int all);
/* Wipes the live line, so that other output starts at an empty one. */
void xt_progress_clear(const struct xt_progress *progress);

/* The same for an XPU's kernels while they are made: "compiling kernels 37/112, about 0:41 left",
 * where it takes more than a second. Stays where it is: the observer points to it. */
struct xt_kernel_progress {
    struct xt_progress progress;
    struct xt_graph_observer observer; /* for xt_network_settings.kernels */
    double start;
};
void xt_kernel_progress_init(struct xt_kernel_progress *kernels, bool quiet, bool json);

#endif
