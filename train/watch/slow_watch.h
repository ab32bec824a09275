/* Gathers what slow.h judges by: of a network as it was built and its device, and of some of its
 * steps.
 *
 * Steps whose ops are timed one by one are not counted: each op is waited for there. One thread; of
 * the GPU's driver it reads at xt_slow_watch_begin alone, before a monitor is started.
 */
#ifndef XT_TRAIN_WATCH_SLOW_WATCH_H
#define XT_TRAIN_WATCH_SLOW_WATCH_H

#include <stdint.h>

#include "device/faults/guard.h"
#include "device/gpu/monitor.h"
#include "infer/network/network.h"
#include "train/watch/slow.h"

struct xt_slow_watch {
    struct xt_slow_facts facts;
    struct xt_slow slow; /* what was found by now */
    bool is_xpu;
    bool judged; /* its steps, too */
    bool said[XT_SLOW_CAUSES];
    int64_t steps;
    int64_t loader_steps; /* of these, with the loader's threads as they stay */
    double step, launches, waits, loader, loss, busy; /* sums; busy of so many readings */
    int busy_count;
    int readings;                /* the monitor's, as they were last */
    double ended;                /* the last step */
    bool mixed;                  /* the next reading is not of steps alone */
    double began, loading;       /* this step */
    struct xt_guard_spent spent; /* before it */
};

/* Judges by what is known before the first step. */
void xt_slow_watch_begin(struct xt_slow_watch *watch, struct xt_network *network);

/* Around each step; `loading` is what was waited for images so far, in seconds (NAN: images are no
 * part of it), `loss` what this step's loss took. */
void xt_slow_watch_step(struct xt_slow_watch *watch, double loading);
void xt_slow_watch_end_step(struct xt_slow_watch *watch, double loading, double loss,
                            const struct xt_monitor_figures *device);

/* Judges by the steps too, where there were enough: after a hundred and three seconds, or, with
 * `now`, a few. True where it did, which is once. */
bool xt_slow_watch_judge(struct xt_slow_watch *watch, bool now);

/* Notes what was found and not yet said: "slow because ...; ...". */
void xt_slow_watch_say(struct xt_slow_watch *watch);

#endif
