/* The primitives of several programs, made side by side: each takes milliseconds of code generation
 * on a CPU, and up to seconds of a driver's compiler on an XPU. What is made does not depend on how
 * many threads make it, nor in which order.
 */
#ifndef XT_ENGINE_CREATE_PRIMITIVES_H
#define XT_ENGINE_CREATE_PRIMITIVES_H

#include "base/err.h"
#include "engine/program.h"

/* Told after each primitive that was made, by one thread at a time; made NULL: nobody. */
struct xt_creation {
    int threads; /* that may make them, the caller's among them */
    void (*made)(void *context, int done, int all);
    void *context;
};

/* Makes all of them; binding comes after. Of several failures the first program's first is said. A
 * thread that cannot be started leaves its work to the others. */
enum xt_status xt_programs_create(struct xt_program *const *programs, int count,
                                  const struct xt_creation *making, struct xt_err *err);

#endif
