/* What XPUs there are, asked in a process of its own: a driver that crashes or hangs ends that one,
 * and this process stays free to load either build of oneDNN. Call it before threads start. */
#ifndef XT_DEVICE_PROBE_H
#define XT_DEVICE_PROBE_H

#include "base/err.h"
#include "device/types.h"
#include "device/xpu.h"

struct xt_probe {
    enum xt_status status; /* of finding XPUs; not XT_OK: `why` says it */
    char why[1024];
    bool crashed;      /* that process did, or hung: nothing else is known */
    char library[512]; /* oneDNN's GPU build */
    char version[32];
    char commit[64];
    char runtime[16];
    bool experimental;
    char level_zero[256]; /* why Level Zero describes nothing; "" where it does */
    struct xt_xpus xpus;
    struct xt_types types[XT_XPUS_MAX];
    struct xt_reading memory_free[XT_XPUS_MAX]; /* bytes */
    struct xt_tile tiles[XT_XPUS_MAX][XT_TILES_MAX];
    int tile_counts[XT_XPUS_MAX]; /* 0: it has none, or they are not told */
};

/* Fails only where no process can be started; what went wrong in it is in out->status and why. */
enum xt_status xt_probe_xpus(struct xt_probe *out, struct xt_err *err);

#endif
