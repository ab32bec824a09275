/* Restarting the program in place by exec: the same command line but for some options, the original
 * environment, the same process id.
 *
 * Prepared in advance, so that the restart allocates nothing and is possible in a signal handler or
 * beside a hung thread. The caller that prepares it clears it.
 */
#pragma once

#include "base/err.h"

struct xt_reexec {
    char *words; /* the command line, then the environment */
    char **arguments;
    char **environment;
    char *variable; /* the new variable, "NAME=VALUE"; the value may be overwritten by one of the
                       same length */
};

/* `without`: names of long options to drop with their values; `with`: words to insert before the
 * options. Both NULL-terminated. `variable` ("NAME=VALUE") replaces that name in the environment.
 * XT_ERR_RUN if /proc does not say how this process was started. */
enum xt_status xt_reexec_prepare(struct xt_reexec *reexec, const char *const *without,
                                 const char *const *with, const char *variable, struct xt_err *err);
void xt_reexec_clear(struct xt_reexec *reexec);

/* Returns only on failure. Stop signals stay pending until the new program handles them.
 * Async-signal-safe. */
void xt_reexec_start(const struct xt_reexec *reexec);

/* Runs this program by another dynamic loader, `loader`, which looks for libraries in `path` first,
 * with the same command line and `variable`. Returns only on failure: XT_OK if that loader could
 * not be run. */
enum xt_status xt_reexec_by_loader(const char *loader, const char *path, const char *variable,
                                   struct xt_err *err);

/* Exits at once, from a signal handler or beside a hung thread. Async-signal-safe. */
_Noreturn void xt_reexec_exit(int code);
