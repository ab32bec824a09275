/* Lists the XPUs from a child process: a driver that crashes or hangs ends only that process, and
 * this one can still load either build of oneDNN. Call it before threads start. */
#pragma once

#include "base/err.h"
#include "device/types.h"
#include "device/xpu.h"

struct xt_probe {
    enum xt_status status; /* of finding XPUs; unless XT_OK, `why` is the reason */
    char why[1024];
    bool crashed;      /* the child crashed or hung: nothing else is known */
    char library[512]; /* oneDNN's GPU build */
    char version[32];
    char commit[64];
    char runtime[16];
    bool experimental;
    char level_zero[256]; /* why Level Zero describes no device; "" if it does */
    struct xt_xpus xpus;
    struct xt_types types[XT_XPUS_MAX];
    struct xt_reading memory_free[XT_XPUS_MAX]; /* bytes */
    struct xt_tile tiles[XT_XPUS_MAX][XT_TILES_MAX];
    int tile_counts[XT_XPUS_MAX]; /* 0: it has none, or unknown */
};

/* Fails only if no process can be started; failures in it are in out->status and why. */
enum xt_status xt_probe_xpus(struct xt_probe *out, struct xt_err *err);
