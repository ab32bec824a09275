#include "cli/serve/decoders.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/system/thread.h"

struct queue {
    struct xt_decode_job *first;
    struct xt_decode_job **last;
};

struct xt_decoders {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct queue small, large;
    int large_running;
    uint64_t room, held; /* bytes: for large ones, and by those that run */
    bool ending;
    int threads;
    pthread_t thread[];
};

static struct xt_decode_job *take(struct queue *queue)
{
    struct xt_decode_job *job = queue->first;
    if (job)
        queue->first = job->next;
    if (!queue->first)
        queue->last = &queue->first;
    return job;
}

static bool large_may_start(const struct xt_decoders *decoders)
{
    const struct xt_decode_job *job = decoders->large.first;
    return job && decoders->large_running < decoders->threads - 1 &&
           (!decoders->large_running || decoders->held + job->bytes <= decoders->room);
}

/* The next job that may start; NULL: none. */
static struct xt_decode_job *next_job(struct xt_decoders *decoders)
{
    return take(large_may_start(decoders) ? &decoders->large : &decoders->small);
}

static void *work(void *argument)
{
    struct xt_decoders *decoders = argument;
    pthread_mutex_lock(&decoders->lock);
    for (;;) {
        struct xt_decode_job *job = next_job(decoders);
        if (!job && decoders->ending)
            break;
        if (!job) {
            pthread_cond_wait(&decoders->change, &decoders->lock);
            continue;
        }
        bool large = job->large;
        uint64_t bytes = large ? job->bytes : 0;
        decoders->large_running += large;
        decoders->held += bytes;
        pthread_mutex_unlock(&decoders->lock);
        job->run(job);
        pthread_mutex_lock(&decoders->lock);
        decoders->large_running -= large;
        decoders->held -= bytes;
        if (large)
            pthread_cond_broadcast(&decoders->change);
    }
    pthread_mutex_unlock(&decoders->lock);
    return NULL;
}

enum xt_status xt_decoders_create(struct xt_decoders **out, int threads, uint64_t room,
                                  struct xt_err *err)
{
    struct xt_decoders *decoders = NULL;
    size_t count = threads < 2 ? 2 : (size_t)threads;
    *out = NULL;
    enum xt_status status =
        xt_mem_calloc(&decoders, 1, sizeof *decoders + count * sizeof(pthread_t), "threads", err);
    if (status)
        return status;
    pthread_mutex_init(&decoders->lock, NULL);
    pthread_cond_init(&decoders->change, NULL);
    decoders->small.last = &decoders->small.first;
    decoders->large.last = &decoders->large.first;
    /* Set before the threads start, and corrected if one cannot be started. */
    decoders->threads = (int)count;
    decoders->room = room;
    size_t started = 0;
    while (started < count && !status) {
        status =
            xt_thread_start(&decoders->thread[started], work, decoders, "a decoding thread", err);
        started += !status;
    }
    if (status) {
        pthread_mutex_lock(&decoders->lock);
        decoders->threads = (int)started;
        pthread_mutex_unlock(&decoders->lock);
        xt_decoders_destroy(decoders);
        return status;
    }
    *out = decoders;
    return XT_OK;
}

void xt_decoders_destroy(struct xt_decoders *decoders)
{
    if (!decoders)
        return;
    pthread_mutex_lock(&decoders->lock);
    decoders->ending = true;
    pthread_cond_broadcast(&decoders->change);
    pthread_mutex_unlock(&decoders->lock);
    for (int i = 0; i < decoders->threads; i++)
        pthread_join(decoders->thread[i], NULL);
    pthread_cond_destroy(&decoders->change);
    pthread_mutex_destroy(&decoders->lock);
    free(decoders);
}

void xt_decoders_put(struct xt_decoders *decoders, struct xt_decode_job *job)
{
    struct queue *queue = job->large ? &decoders->large : &decoders->small;
    pthread_mutex_lock(&decoders->lock);
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
    pthread_cond_signal(&decoders->change);
    pthread_mutex_unlock(&decoders->lock);
}
