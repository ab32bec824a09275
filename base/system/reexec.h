/* This program once more in its own place: the same command line but for some options, the same
 * environment that it was started with, the same process id.
 *
 * Made ready beforehand, so that starting again takes no memory and can be done where nothing else
 * can: in a signal's handler, beside a thread that hangs. Whoever makes it ready clears it.
 */
#ifndef XT_BASE_SYSTEM_REEXEC_H
#define XT_BASE_SYSTEM_REEXEC_H

#include "base/err.h"

struct xt_reexec {
    char *words; /* the command line and the environment, behind one another */
    char **arguments;
    char **environment;
    char *variable; /* the new one, "NAME=VALUE"; the value may be overwritten by one as long */
};

/* `without`: long options that are dropped with their values, by name; `with`: words that stand
 * first among the options. Both end in NULL. `variable` ("NAME=VALUE") takes the place of that name
 * in the environment. XT_ERR_RUN where /proc does not say how this process was started. */
enum xt_status xt_reexec_prepare(struct xt_reexec *reexec, const char *const *without,
                                 const char *const *with, const char *variable, struct xt_err *err);
void xt_reexec_clear(struct xt_reexec *reexec);

/* Comes back only where it cannot be done. Signals that ask to stop wait for the new start.
 * Async-signal-safe. */
void xt_reexec_start(const struct xt_reexec *reexec);

/* Ends the process where nothing can be returned to: from a handler, or beside a thread that hangs.
 * Async-signal-safe. */
_Noreturn void xt_reexec_exit(int code);

#endif
