#include "engine/create_primitives.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/system/thread.h"

/* A driver's compiler uses about a hundred megabytes per thread. */
enum { THREADS_MOST = 16 };

struct job {
    const struct xt_program *program;
    size_t index;
};

/* Shared by the threads, under the lock. */
struct crew {
    pthread_mutex_t lock;
    const struct xt_creation *creation;
    int compute_threads; /* oneDNN's, for which the primitives are created */
    struct job *jobs;
    int count;
    int next, done;
    int failed; /* the job whose error is stored; count: none */
    struct xt_err *err;
};

/* The next job; -1: no more, or an earlier one failed. */
static int take(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    int job = crew->next < crew->count && crew->failed == crew->count ? crew->next++ : -1;
    pthread_mutex_unlock(&crew->lock);
    return job;
}

static void finish(struct crew *crew, int job, const struct xt_err *own)
{
    const struct xt_creation *creation = crew->creation;
    pthread_mutex_lock(&crew->lock);
    if (own->status && job < crew->failed) {
        crew->failed = job;
        *crew->err = *own;
    } else if (!own->status) {
        crew->done++;
        if (creation->created)
            creation->created(creation->context, crew->done, crew->count);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void make_some(struct crew *crew)
{
    for (int job = take(crew); job >= 0; job = take(crew)) {
        struct xt_err own = {0};
        xt_program_create(crew->jobs[job].program, crew->jobs[job].index, &own);
        finish(crew, job, &own);
    }
}

/* oneDNN reads the thread count of a primitive from OpenMP, where it is per calling thread. */
static void *work(void *argument)
{
    struct crew *crew = argument;
    omp_set_num_threads(crew->compute_threads);
    make_some(crew);
    return NULL;
}

static enum xt_status list_jobs(struct crew *crew, struct xt_program *const *programs, int count,
                                struct xt_err *err)
{
    for (int i = 0; i < count; i++)
        crew->count += (int)xt_program_count(programs[i]);
    crew->failed = crew->count;
    enum xt_status status = xt_mem_calloc(&crew->jobs, (size_t)crew->count, sizeof *crew->jobs,
                                          "the list of primitives", err);
    int job = 0;
    for (int i = 0; i < count && !status; i++)
        for (size_t index = 0; index < xt_program_count(programs[i]); index++)
            crew->jobs[job++] = (struct job){programs[i], index};
    return status;
}

enum xt_status xt_programs_create(struct xt_program *const *programs, int count,
                                  const struct xt_creation *creation, struct xt_err *err)
{
    struct xt_err first = {0};
    struct crew crew = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .creation = creation,
                        .compute_threads = omp_get_max_threads(),
                        .err = &first};
    pthread_t threads[THREADS_MOST];
    int started = 0;
    enum xt_status status = list_jobs(&crew, programs, count, err);
    if (status)
        return status;
    while (started < THREADS_MOST - 1 && started < creation->threads - 1 &&
           started < crew.count - 1 &&
           !xt_thread_start(&threads[started], work, &crew, "a thread", NULL))
        started++;
    make_some(&crew);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(crew.jobs);
    return first.status ? xt_err_set(err, first.status, "%s", first.text) : XT_OK;
}
