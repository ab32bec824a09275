/* Several processes that train one network, each on its share of every batch: who they are, what
 * they tell each other, and how they end together. Started by mpirun or srun; MPI comes from a
 * library of its own (plugin/mpi_table.h), which is loaded where there are several.
 *
 * Alone there is no xt_ranks: NULL, and nothing of this is met. All functions but poll are
 * collective: every rank calls them, in the same order, and an error of one that waits means that
 * they cannot go on together (a rank failed, is gone, or did not come in time). Then
 * xt_ranks_end tells why, once, and ends them all. One thread.
 */
#ifndef XT_RANKS_RANKS_H
#define XT_RANKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "ranks/plugin/mpi_table.h"

/* One of them, as the table at the start shows it. */
struct xt_rank {
    char host[64];
    int local_rank;
    pid_t pid;
    bool is_seen; /* from its neighbours on the host, by its pid */
    int images;   /* of a batch */
    int threads;
    char cpus[64];
    char device[128];
    char isa[64];     /* the instruction set that its CPU's kernels use */
    char library[32]; /* oneDNN's version */
    char program[16];
};

/* Where ranks waited for each other since they began, in seconds. */
struct xt_ranks_time {
    double gradients; /* that the backward pass did not cover */
    double flying;    /* gradients on their way, covered or not */
    double norms;
    double other;
};

struct xt_ranks {
    int rank, size, local_rank, local_size;
    double timeout; /* the longest wait, in seconds; 0: for ever */
    char library[128];
    char xpu[16];        /* what "xpu" is to it: rank k of a host has the k-th */
    struct xt_rank *all; /* [size] */
    struct xt_ranks_time time;

    /* its own */
    const struct xt_mpi_table *mpi;
    struct xt_mpi_job *job;
    int failed;        /* the rank after whose failure they cannot meet any more; -1: none */
    struct xt_err why; /* that is so */
};

/* *out is NULL where this process was started alone. Rank k of a host's ranks gets its share of the
 * CPUs, from now on. XT_ERR_DEVICE where it is one of several and MPI is not there. */
enum xt_status xt_ranks_open(struct xt_ranks **out, struct xt_err *err);
/* The end of all: of what went well, was stopped or failed in all of them alike once they have met;
 * else the reason of the one that failed is said, by rank 0 where it lives, and every process ends
 * at once with that exit code. Returns what this process ends with: XT_OK for all but rank 0, which
 * speaks for them. NULL is allowed. */
enum xt_status xt_ranks_end(struct xt_ranks *ranks, enum xt_status status, struct xt_err *err);

static inline bool xt_ranks_is_first(const struct xt_ranks *ranks)
{
    return !ranks || ranks->rank == 0;
}

/* Tells all of this one: ranks->all is filled. */
enum xt_status xt_ranks_introduce(struct xt_ranks *ranks, const struct xt_rank *own,
                                  struct xt_err *err);

/* Sums over all ranks, in place, for numbers of whatever meaning and for those of norms. `what`
 * says in errors what was waited for ("the losses"). */
enum xt_status xt_ranks_sum(struct xt_ranks *ranks, double *values, size_t count, const char *what,
                            struct xt_err *err);
enum xt_status xt_ranks_sum_norm(struct xt_ranks *ranks, double *values, size_t count,
                                 struct xt_err *err);
/* Until all have come here. */
enum xt_status xt_ranks_meet(struct xt_ranks *ranks, const char *what, struct xt_err *err);

/* What a rank brings to a step, and then what all come to. */
struct xt_step_agreement {
    double loss; /* the mean over its images; then over all, not a number where one is none */
    enum xt_status stop; /* XT_OK, XT_STOPPED or XT_INTERRUPTED: of whoever was asked to */
    bool done;           /* the run's time is over */
    bool sick;           /* a running statistic is no number */
    size_t bad;          /* images that it could not use; one may be counted by several */
};
/* weight: its part of the step's images. */
enum xt_status xt_ranks_allreduce_step(struct xt_ranks *ranks, double weight,
                                       struct xt_step_agreement *vote, struct xt_err *err);

/* What rank `root` has, to all. */
enum xt_status xt_ranks_copy(struct xt_ranks *ranks, void *data, size_t bytes, int root,
                             const char *what, struct xt_err *err);
/* all: [size][bytes] */
enum xt_status xt_ranks_gather(struct xt_ranks *ranks, const void *own, size_t bytes, void *all,
                               const char *what, struct xt_err *err);

/* A sum of gradients on its way. */
struct xt_ranks_sum {
    struct xt_mpi_request *request; /* NULL: none */
    double since;
};
enum xt_status xt_ranks_start(struct xt_ranks *ranks, void *data, size_t count,
                              enum xt_mpi_type type, struct xt_ranks_sum *out, struct xt_err *err);
/* Moves it on without waiting. */
enum xt_status xt_ranks_poll(struct xt_ranks *ranks, struct xt_ranks_sum *sum, struct xt_err *err);
enum xt_status xt_ranks_finish(struct xt_ranks *ranks, struct xt_ranks_sum *sum,
                               struct xt_err *err);

#endif
