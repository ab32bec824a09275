/* Stands before libgomp (LD_PRELOAD, under its name) and counts what each thread computes in each
 * parallel region, in CPU time, so that a machine of few cores shows how the work of many threads
 * is divided. Built and read by many-cores.py, which sets COUNT_GOMP to the library itself,
 * COUNT_SKIP to how many regions are not counted, those of the first step, and COUNT_FILE to where
 * the sums go when the process ends. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 512, CODES = 1024 };

/* Of all regions that run the same code. */
struct code {
    void (*body)(void *);
    long regions;
    double work, longest; /* seconds of all threads, and of each region's busiest one */
    int pieces;           /* the most threads that had work */
};

/* Called through the assembly below. */
#define FORWARDED(X)                                                                               \
    X(GOMP_barrier)                                                                                \
    X(GOMP_single_start)                                                                           \
    X(GOMP_critical_start)                                                                         \
    X(GOMP_critical_end)                                                                           \
    X(GOMP_atomic_start)                                                                           \
    X(GOMP_atomic_end)                                                                             \
    X(GOMP_loop_static_start)                                                                      \
    X(GOMP_loop_static_next)                                                                       \
    X(GOMP_loop_end_nowait)                                                                        \
    X(omp_get_num_threads)                                                                         \
    X(omp_get_max_threads)                                                                         \
    X(omp_get_thread_num)                                                                          \
    X(omp_in_parallel)                                                                             \
    X(omp_set_num_threads)                                                                         \
    X(omp_set_dynamic)

#define FORWARD(name)                                                                              \
    void *real_##name;                                                                             \
    __asm__(".globl " #name "\n.type " #name ", @function\n" #name ": jmp *real_" #name "(%rip)"   \
            "\n");
FORWARDED(FORWARD)

static void (*real_parallel)(void (*)(void *), void *, unsigned, unsigned);
static void (*real_start)(void (*)(void *), void *, unsigned);
static void (*real_end)(void);

static struct code codes[CODES];
static double took[THREADS][8]; /* a cache line each */
static double main_skipped;     /* the caller's CPU time before what is counted, */
static double inside;           /* and in counted regions */
static double began;
static long seen, skipped;
static bool within; /* the main thread's region; others' are not counted */
static struct {
    void (*body)(void *);
    void *data;
} now;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int thread_num(void)
{
    return ((int (*)(void))real_omp_get_thread_num)();
}

static void counted(void *data)
{
    double start = cpu_seconds();
    (void)data;
    took[thread_num()][0] = 0;
    now.body(now.data);
    took[thread_num()][0] = cpu_seconds() - start;
}

static void sum_up(void)
{
    const double some = 2e-6; /* less is no work: starting and stopping */
    struct code *code = codes;
    double longest = 0;
    int pieces = 0;
    within = false;
    if (++seen <= skipped) {
        main_skipped = cpu_seconds();
        return;
    }
    while (code->body && code->body != now.body)
        code++;
    code->body = now.body;
    code->regions++;
    for (int i = 0; i < THREADS; i++) {
        code->work += took[i][0];
        longest = took[i][0] > longest ? took[i][0] : longest;
        pieces += took[i][0] > some;
        took[i][0] = 0;
    }
    code->longest += longest;
    code->pieces = pieces > code->pieces ? pieces : code->pieces;
    inside += cpu_seconds() - began;
}

static bool begin(void (*body)(void *), void *data)
{
    if (within || ((int (*)(void))real_omp_in_parallel)())
        return false;
    within = true;
    began = cpu_seconds();
    now.body = body;
    now.data = data;
    return true;
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    bool counts = begin(body, data);
    real_parallel(counts ? counted : body, data, threads, flags);
    if (counts)
        sum_up();
}

/* gcc 4's interface, which oneDNN's binaries use: the caller runs the body between the two. */
static double caller_began;
static bool started;
void GOMP_parallel_start(void (*body)(void *), void *data, unsigned threads)
{
    started = begin(body, data);
    real_start(started ? counted : body, data, threads);
    caller_began = cpu_seconds();
}

void GOMP_parallel_end(void)
{
    if (started)
        took[0][0] = cpu_seconds() - caller_began;
    real_end();
    if (started)
        sum_up();
    started = false;
}

__attribute__((constructor)) static void load(void)
{
    void *library = dlopen(getenv("COUNT_GOMP"), RTLD_NOW | RTLD_LOCAL);
    const char *skip = getenv("COUNT_SKIP");
    skipped = skip ? atol(skip) : 0;
    if (!library) {
        fprintf(stderr, "many-cores: %s\n", dlerror());
        abort();
    }
#define FIND(name) real_##name = dlsym(library, #name);
    FORWARDED(FIND)
    real_parallel =
        (void (*)(void (*)(void *), void *, unsigned, unsigned))dlsym(library, "GOMP_parallel");
    real_start =
        (void (*)(void (*)(void *), void *, unsigned))dlsym(library, "GOMP_parallel_start");
    real_end = (void (*)(void))dlsym(library, "GOMP_parallel_end");
}

__attribute__((destructor)) static void write_sums(void)
{
    FILE *file = fopen(getenv("COUNT_FILE"), "w");
    if (!file)
        return;
    fprintf(file, "main %ld %.9f %.9f\n", seen, cpu_seconds() - main_skipped, inside);
    for (const struct code *code = codes; code->body; code++) {
        Dl_info info = {0};
        dladdr((void *)code->body, &info);
        fprintf(file, "%s %zx %ld %.9f %.9f %d\n", info.dli_fname,
                (size_t)((char *)code->body - (char *)info.dli_fbase), code->regions, code->work,
                code->longest, code->pieces);
    }
    fclose(file);
}
