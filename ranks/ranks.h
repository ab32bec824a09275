/* Data-parallel ranks: processes that train one network, each on its share of every batch. Started
 * by mpirun or srun; MPI is a plug-in (plugin/mpi_table.h) that is loaded only if there are
 * several.
 *
 * A single process has no xt_ranks: NULL. All functions but poll are collective: every rank calls
 * them, in the same order. An error of one that waits means that the ranks cannot continue (one
 * failed, is gone, or timed out); xt_ranks_end then reports the reason once and stops them all. Not
 * thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "ranks/plugin/mpi_table.h"

/* One rank, as in the table at the start of a run. */
struct xt_rank {
    char host[64];
    int local_rank;
    pid_t pid;
    bool is_seen; /* the host's others see it by its pid */
    int images;   /* its share of a batch */
    int threads;
    char cpus[64];
    char device[128];
    char isa[64];     /* instruction set of its kernels */
    char library[32]; /* oneDNN's version */
};

/* What was compared of the images of all ranks (train/ranks/compare.h). */
struct xt_ranks_compared {
    size_t names, samples;
    double seconds;
};

/* Time spent waiting for other ranks, in seconds. */
struct xt_ranks_time {
    double gradients; /* not overlapped by the backward pass */
    double flying;    /* gradients in flight, overlapped or not */
    double norms;
    double other;
};

struct xt_ranks {
    int rank, size, local_rank, local_size;
    double timeout; /* timeout in seconds; 0: none */
    char library[128];
    char xpu[16];        /* its XPU's index: rank k of a host has the k-th */
    int threads;         /* to compute with where --threads is not given; 0: all it may use */
    struct xt_rank *all; /* [size] */
    struct xt_ranks_time time;
    struct xt_ranks_compared compared;
    struct {
        long steps;
        double since, waited, norms; /* when its window began */
    } watch;                         /* of the time that steps wait */

    void (*failing)(const struct xt_err *err); /* called before all are aborted; NULL: nothing */

    /* its own */
    const struct xt_mpi_table *mpi;
    struct xt_mpi_job *job;
    int failed;        /* the failed rank that makes collectives impossible; -1: none */
    struct xt_err why; /* that is so */
};

/* *out is NULL if this process was started alone. XT_ERR_DEVICE if it is one of several and MPI is
 * missing; XT_ERR_USAGE on all ranks if they are different versions of the program: then *out is
 * set, for xt_ranks_end. */
enum xt_status xt_ranks_open(struct xt_ranks **out, struct xt_err *err);
/* Where all ranks of the host may use all its CPUs, and `bind`, binds this rank to its share; sets
 * `threads`. */
enum xt_status xt_ranks_place(struct xt_ranks *ranks, bool bind, struct xt_err *err);
/* Closes the ranks. If all have the same status, waits for all; else the failed rank's error is
 * printed, by rank 0 if it is alive, and every process exits at once with that code. Returns this
 * process's status: XT_OK for all but rank 0, which reports for them. NULL is allowed. */
enum xt_status xt_ranks_end(struct xt_ranks *ranks, enum xt_status status, struct xt_err *err);

static inline bool xt_ranks_is_first(const struct xt_ranks *ranks)
{
    return !ranks || ranks->rank == 0;
}

/* Exchanges the ranks' descriptions: fills ranks->all. */
enum xt_status xt_ranks_introduce(struct xt_ranks *ranks, const struct xt_rank *own,
                                  struct xt_err *err);

/* Seconds that this rank has waited for others so far. */
static inline double xt_ranks_waited(const struct xt_ranks *ranks)
{
    return ranks ? ranks->time.gradients + ranks->time.norms + ranks->time.other : 0;
}

/* Sums over all ranks, in place: of any numbers, and of batch norm statistics. `what` names the
 * wait in errors ("the losses"). */
enum xt_status xt_ranks_sum(struct xt_ranks *ranks, double *values, size_t count, const char *what,
                            struct xt_err *err);
enum xt_status xt_ranks_sum_norm(struct xt_ranks *ranks, double *values, size_t count,
                                 struct xt_err *err);
/* Barrier. */
enum xt_status xt_ranks_meet(struct xt_ranks *ranks, const char *what, struct xt_err *err);

/* A rank's contribution to a step; after the call that of all. */
struct xt_step_agreement {
    double loss;         /* the mean over its images; then over all, NaN if any is */
    enum xt_status stop; /* XT_OK, XT_STOPPED or XT_INTERRUPTED: of any rank */
    bool done;           /* the run's time is over */
    bool sick;           /* a running statistic is not finite */
    size_t bad;          /* images it skipped; ranks may count the same one */
};
/* weight: its fraction of the step's images. */
enum xt_status xt_ranks_allreduce_step(struct xt_ranks *ranks, double weight,
                                       struct xt_step_agreement *step, struct xt_err *err);

/* Broadcast from rank `root`. */
enum xt_status xt_ranks_copy(struct xt_ranks *ranks, void *data, size_t bytes, int root,
                             const char *what, struct xt_err *err);
/* Allocates *all, [size][bytes] of the ranks' own; release with free, also after a failure. */
enum xt_status xt_ranks_gather(struct xt_ranks *ranks, const void *own, size_t bytes, void *all,
                               const char *what, struct xt_err *err);
/* Whether `own` is the same on all ranks. */
enum xt_status xt_ranks_is_same(struct xt_ranks *ranks, const void *own, size_t bytes, bool *same,
                                const char *what, struct xt_err *err);

/* A sum of gradients in flight. */
struct xt_ranks_sum {
    struct xt_mpi_request *request; /* NULL: none */
    double since;
};
enum xt_status xt_ranks_start(struct xt_ranks *ranks, void *data, size_t count,
                              enum xt_mpi_type type, struct xt_ranks_sum *out, struct xt_err *err);
/* Drives progress without waiting. */
enum xt_status xt_ranks_poll(struct xt_ranks *ranks, struct xt_ranks_sum *sum, struct xt_err *err);
enum xt_status xt_ranks_finish(struct xt_ranks *ranks, struct xt_ranks_sum *sum,
                               struct xt_err *err);
