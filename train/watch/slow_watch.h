/* Collects the facts for slow.h: of the network as built, its device, and some of its steps.
 *
 * Steps whose ops are timed one by one are not counted: each op is waited for there. One thread;
 * reads the GPU's driver only in xt_slow_watch_begin, before a monitor is started.
 */
#pragma once

#include <stdint.h>

#include "device/faults/guard.h"
#include "device/gpu/monitor.h"
#include "infer/network/network.h"
#include "train/watch/slow.h"

struct xt_slow_watch {
    struct xt_slow_facts facts;
    struct xt_slow slow; /* findings so far */
    bool is_xpu;
    bool judged; /* its steps too */
    bool said[XT_SLOW_CAUSES];
    int64_t steps;
    int64_t loader_steps; /* of these, after the loader's threads have settled */
    double step, launches, waits, loader, loss, busy; /* sums; busy over `readings` */
    int busy_count;
    int readings;                /* of the monitor, at the last step */
    double ended;                /* the last step */
    bool mixed;                  /* the next reading covers more than steps */
    double began, loading;       /* this step */
    struct xt_guard_spent spent; /* before it */
};

/* Judges what is known before the first step. */
void xt_slow_watch_begin(struct xt_slow_watch *watch, struct xt_network *network);

/* Around each step; `loading` is the total wait for images so far, in seconds (NAN: not
 * applicable), `loss` the time of this step's loss. */
void xt_slow_watch_step(struct xt_slow_watch *watch, double loading);
void xt_slow_watch_end_step(struct xt_slow_watch *watch, double loading, double loss,
                            const struct xt_monitor_figures *device);

/* Judges the steps too, once there are enough: a hundred and three seconds, or, with `now`, a few.
 * True once, when it did. */
bool xt_slow_watch_judge(struct xt_slow_watch *watch, bool now);

/* Logs new findings: "slow because ...; ...". */
void xt_slow_watch_say(struct xt_slow_watch *watch);
