/* Work in a process of its own: for asking a driver that may crash or hang, and for loading a
 * library that this process must not load. To be called before threads are started. */
#ifndef XT_DEVICE_ISOLATE_H
#define XT_DEVICE_ISOLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Fills `result` (zeroed before) from `argument`. What it prints goes nowhere. */
typedef void xt_isolated(const void *argument, void *result);

struct xt_isolate_end {
    int signal;     /* that ended it; 0: none */
    bool timed_out; /* it ran longer than it may */
    char said[256]; /* the last line that it or a library wrote; "" where there is none */
};

/* Runs `work` in a child for at most `seconds`, and copies its `size` bytes of result.
 * XT_ERR_DEVICE where the child crashed or hung; *end (may be NULL) says more. */
enum xt_status xt_isolate(xt_isolated *work, const void *argument, void *result, size_t size,
                          unsigned seconds, struct xt_isolate_end *end, struct xt_err *err);

#endif
