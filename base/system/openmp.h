/* OpenMP, loaded at run time so that its threads wait well. The program does not link its runtime:
 * compiled parallel loops call the few functions of it that openmp.c defines, which forward them.
 *
 * By default a thread of libgomp that waits at a barrier spins for 5 to 15 ms before it sleeps; a
 * step has thousands of barriers, and on CPUs that others use too it takes several times as long
 * for it. The number of spins can be said in the environment alone, and is read once, as the
 * runtime is loaded.
 */
#ifndef XT_BASE_SYSTEM_OPENMP_H
#define XT_BASE_SYSTEM_OPENMP_H

/* dlopen(path, RTLD_NOW | RTLD_LOCAL), with an environment that asks an OpenMP runtime among what
 * is loaded for a short spin, unless the user's says how threads wait (OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT, KMP_BLOCKTIME). A runtime that was in the process before stays as it is. Not by
 * two threads at once. */
void *xt_openmp_open(const char *path);

/* Parallel loops run in the runtime that `library` came with from now on, so that both compute in
 * the same threads, unless one has been used before; in libgomp where it came with none. */
void xt_openmp_use(void *library);

/* What says how threads wait: a constant string. */
const char *xt_openmp_waiting(void);

#endif
