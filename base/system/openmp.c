#include "base/system/openmp.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions that gcc calls for the constructs in the program's loops: what each returns, its
 * name, parameters and arguments, and what stands for it where there is no runtime. */
#define FUNCTIONS(X)                                                                               \
    X(void, GOMP_parallel, (void (*body)(void *), void *data, unsigned threads, unsigned flags),   \
      (body, data, threads, flags), run_alone)                                                     \
    X(void, GOMP_barrier, (void), (), do_nothing)                                                  \
    X(bool, GOMP_single_start, (void), (), be_single)                                              \
    X(void, GOMP_critical_start, (void), (), do_nothing)                                           \
    X(void, GOMP_critical_end, (void), (), do_nothing)                                             \
    X(void, GOMP_atomic_start, (void), (), do_nothing)                                             \
    X(void, GOMP_atomic_end, (void), (), do_nothing)                                               \
    X(int, omp_get_num_threads, (void), (), count_one)                                             \
    X(int, omp_get_max_threads, (void), (), count_one)                                             \
    X(int, omp_get_thread_num, (void), (), be_first)                                               \
    X(void, omp_set_num_threads, (int count), (count), take_no_number)                             \
    X(void, omp_set_dynamic, (int on), (on), take_no_number)

#define POINTER(type, name, parameters, arguments, alone) type(*name) parameters;
struct runtime {
    FUNCTIONS(POINTER)
};
#define NAME(type, name, parameters, arguments, alone) #name,
static const char *const names[] = {FUNCTIONS(NAME)};
enum { COUNT = sizeof names / sizeof *names };

static struct {
    pthread_mutex_t lock;
    atomic_bool chosen;
    struct runtime runtime;
    char **environment; /* of the last load; not freed, the host's threads may have read it */
    const char *waiting;
    bool trains;
} openmp = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- loading ---- */

static const char *named_by_user(void)
{
    static const char *const variables[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return variables[i];
    return NULL;
}

/* As a count for libgomp and a time for libiomp5. About 30 us: where a thread has to share its CPU
 * with the one that it waits for, as another process keeps the others busy, each loop of a pass
 * takes as long as its spin. In training, whose loops take longer than that, about 0.5 ms. */
enum { SHORT_SPIN = 2 };
static char *const short_spins[][SHORT_SPIN] = {{"GOMP_SPINCOUNT=600", "KMP_BLOCKTIME=1"},
                                                {"GOMP_SPINCOUNT=10000", "KMP_BLOCKTIME=1"}};

/* The environment plus the variables for a short spin; NULL if out of memory. */
static char **with_short_spin(char **environment)
{
    size_t count = 0;
    while (environment && environment[count])
        count++;
    char **more = calloc(count + SHORT_SPIN + 1, sizeof *more);
    if (!more)
        return NULL;
    if (count)
        memcpy(more, environment, count * sizeof *more);
    memcpy(more + count, short_spins[openmp.trains], sizeof short_spins[0]);
    return more;
}

/* For what a library needs that is loaded by its path, the dynamic linker searches the folders that
 * the program names, but not those that libxtrain names: libgomp beside the latter's oneDNN is
 * found by name, from here. */
static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library && dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* No setenv: it may free the array that getenv reads in another thread of libxtrain's host. */
static void *load_with_short_spin(const char *path)
{
    char **before = environ;
    char **more = with_short_spin(before);
    if (!more)
        return load(path);
    environ = more;
    void *library = load(path);
    if (environ == more)
        environ = before;
    free(openmp.environment);
    openmp.environment = more;
    return library;
}

static bool is_here(const char *soname)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library != NULL;
}

static const char *who_says(const char *user)
{
    if (user)
        return user;
    return is_here("libgomp.so.1") || is_here("libiomp5.so") ? "the process that had OpenMP before"
                                                             : short_spins[openmp.trains][0];
}

/* With the lock held. */
static void *open_library(const char *path)
{
    const char *user = named_by_user();
    if (!openmp.waiting)
        openmp.waiting = who_says(user);
    return user ? load(path) : load_with_short_spin(path);
}

void xt_openmp_will_train(void)
{
    pthread_mutex_lock(&openmp.lock);
    openmp.trains = true;
    pthread_mutex_unlock(&openmp.lock);
}

void *xt_openmp_open(const char *path)
{
    pthread_mutex_lock(&openmp.lock);
    void *library = open_library(path);
    pthread_mutex_unlock(&openmp.lock);
    return library;
}

const char *xt_openmp_waiting(void)
{
    return openmp.waiting ? openmp.waiting : "nobody yet";
}

/* ---- without a runtime: one thread ---- */

static void run_alone(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    (void)threads;
    (void)flags;
    body(data);
}

static void do_nothing(void)
{
}

static bool be_single(void)
{
    return true;
}

static int count_one(void)
{
    return 1;
}

static int be_first(void)
{
    return 0;
}

static void take_no_number(int number)
{
    (void)number;
}

#define ALONE(type, name, parameters, arguments, alone) .name = alone,
static const struct runtime alone = {FUNCTIONS(ALONE)};

/* ---- forwarding ---- */

static bool bind(void *library)
{
    for (size_t i = 0; i < COUNT; i++) {
        void *symbol = library ? dlsym(library, names[i]) : NULL;
        if (!symbol)
            return false;
        memcpy((char *)&openmp.runtime + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

void xt_openmp_use(void *library)
{
    pthread_mutex_lock(&openmp.lock);
    if (!openmp.chosen && !bind(library) && !bind(open_library("libgomp.so.1")))
        openmp.runtime = alone;
    openmp.chosen = true;
    pthread_mutex_unlock(&openmp.lock);
}

static const struct runtime *runtime(void)
{
    if (!openmp.chosen)
        xt_openmp_use(NULL);
    return &openmp.runtime;
}

#define FORWARD(type, name, parameters, arguments, alone)                                          \
    type name parameters;                                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        return runtime()->name arguments;                                                          \
    }
FUNCTIONS(FORWARD)
