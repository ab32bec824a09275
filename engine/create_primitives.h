/* Creates the primitives of several programs in parallel: each takes milliseconds of code
 * generation on a CPU, and up to seconds of a driver's compiler on an XPU. The result does not
 * depend on the number of threads nor on their order.
 */
#pragma once

#include "base/err.h"
#include "engine/program.h"

/* Called after each creation, by one thread at a time; NULL: not called. */
struct xt_creation {
    int threads; /* to use, the caller's among them */
    void (*created)(void *context, int done, int all);
    void *context;
};

/* Creates all of them; binding comes after. Of several errors the first program's first is
 * reported. If a thread cannot be started, the others do its work. */
enum xt_status xt_programs_create(struct xt_program *const *programs, int count,
                                  const struct xt_creation *creation, struct xt_err *err);
