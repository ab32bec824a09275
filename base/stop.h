/* The request to stop (SIGINT, SIGTERM): the program's only signal flag. A second signal,
 * a second or two later, ends the process at once. */
#ifndef XT_BASE_STOP_H
#define XT_BASE_STOP_H

#include "base/err.h"

/* Installs the handlers; called once by cli/main. */
void xt_stop_watch(void);
/* The signal that asked to stop, or 0. Async-signal-safe and thread-safe. */
int xt_stop_requested(void);
/* What a command then ends with: XT_INTERRUPTED for SIGINT, XT_STOPPED for SIGTERM; XT_OK where
 * nobody asked. */
enum xt_status xt_stop_status(void);
/* The same with its sentence: "interrupted " or "stopped ", and the rest of it ("after 3 of 9
 * files"). For loops that may take long: asked each time around. */
enum xt_status xt_stop_check(struct xt_err *err, const char *rest, ...)
    __attribute__((format(printf, 2, 3)));

#endif
