/* The MPI plug-in: a table of functions in a library (libxtrain_mpi.so) that `mpicc` compiles if it
 * is installed. The program itself is the same with and without MPI, and does not depend on an
 * MPI's ABI.
 *
 * Called from one thread. Functions that start a request return at once; the data must not be
 * touched until `test` reports completion; `test` also drives progress. Functions return 0, or a
 * code for `describe`. Collectives are called by every process, in the same order on each channel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Incremented with every change below. */
enum { XT_MPI_TABLE_VERSION = 1 };

/* Types of sums; each addition rounds to the type. */
enum xt_mpi_type { XT_MPI_F64, XT_MPI_F32, XT_MPI_BF16 };

/* Channels (duplicated communicators) do not wait for each other. */
enum xt_mpi_channel { XT_MPI_STEPS, XT_MPI_GRADIENTS, XT_MPI_ENDING, XT_MPI_CHANNELS };

struct xt_mpi_who {
    int rank, size;             /* in all */
    int local_rank, local_size; /* on this host */
    char library[128];          /* "Open MPI v4.1.4" */
};

/* Valid once opened. */
struct xt_mpi_job;
/* A pending request. */
struct xt_mpi_request;

struct xt_mpi_table {
    int version;
    /* Once per process. */
    int (*open)(struct xt_mpi_job **out, struct xt_mpi_who *who);
    void (*describe)(int code, char *out, size_t size);
    /* All-reduce sum, in place; the same bits on each process. */
    int (*start_sum)(struct xt_mpi_job *job, enum xt_mpi_channel channel, void *data, size_t count,
                     enum xt_mpi_type type, struct xt_mpi_request **out);
    /* Broadcast from process `root`. */
    int (*start_copy)(struct xt_mpi_job *job, void *data, size_t bytes, int root,
                      struct xt_mpi_request **out);
    /* all: [size][bytes] */
    int (*start_gather)(struct xt_mpi_job *job, const void *own, size_t bytes, void *all,
                        struct xt_mpi_request **out);
    /* Once *done, the request is gone. */
    int (*test)(struct xt_mpi_request *request, bool *done);
    /* A message of at most 4096 bytes to process 0, which polls for it. */
    int (*tell_first)(struct xt_mpi_job *job, const void *bytes, size_t count);
    int (*was_told)(struct xt_mpi_job *job, void *bytes, size_t count, int *from, bool *told);
    /* Aborts every process with this exit code. */
    void (*abort)(struct xt_mpi_job *job, int code);
    /* Finalises MPI: collective. */
    void (*close)(struct xt_mpi_job *job);
};

/* The library's only symbol. */
#define XT_MPI_SYMBOL "xt_mpi_table"
