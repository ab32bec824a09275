/* OpenMP, loaded at run time to control how its threads wait. The program does not link a runtime:
 * compiled parallel loops call the few entry points defined in openmp.c, which forward to it.
 *
 * By default a libgomp thread at a barrier spins for 5 to 15 ms before it sleeps. A step has
 * thousands of barriers, and on shared CPUs that makes it several times slower. The spin count can
 * only be set in the environment, which is read once, when the runtime is loaded.
 */
#pragma once

/* That the process trains, before a runtime is loaded: threads spin for longer then. */
void xt_openmp_will_train(void);

/* dlopen(path, RTLD_NOW | RTLD_LOCAL) in an environment that gives an OpenMP runtime among its
 * dependencies a short spin, unless the user has set OMP_WAIT_POLICY, GOMP_SPINCOUNT or
 * KMP_BLOCKTIME. A runtime that is loaded already does not change. Not thread-safe. */
void *xt_openmp_open(const char *path);

/* From now on parallel loops use the runtime that `library` depends on, so that both share threads,
 * or libgomp if it has none; no effect once a runtime was used. */
void xt_openmp_use(void *library);

/* Where the wait policy comes from: a constant string. */
const char *xt_openmp_waiting(void);
