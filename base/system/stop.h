/* The request to stop (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU): the program's only signal flag.
 * A second signal, a second or two later, ends the process at once; but the kernel sends SIGXCPU
 * each second, so that one is only asked for once. */
#ifndef XT_BASE_SYSTEM_STOP_H
#define XT_BASE_SYSTEM_STOP_H

#include "base/err.h"

/* Installs the handlers; called once by cli/main. A hangup that is ignored (nohup) stays so; a pipe
 * without a reader and a file that may not grow become errors of whoever writes. */
void xt_stop_watch(void);
/* In a child: the signals end it as they would any process. */
void xt_stop_forget(void);
/* Until the program that is started in this one's place watches, a signal waits.
 * Async-signal-safe. */
void xt_stop_hold(void);
/* What a command then ends with: XT_INTERRUPTED for SIGINT, XT_STOPPED for the others; XT_OK where
 * nobody asked. Thread-safe. */
enum xt_status xt_stop_status(void);
/* The same with its sentence: "interrupted " or "stopped ", and the rest of it ("after 3 of 9
 * files"). For loops that may take long: asked each time around. */
enum xt_status xt_stop_check(struct xt_err *err, const char *rest, ...)
    __attribute__((format(printf, 2, 3)));

#endif
