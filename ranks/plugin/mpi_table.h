/* What the program has of MPI: a table of functions in a library of its own (libxtrain_mpi.so),
 * which `mpicc` compiles where it is there. So the program is the same with MPI and without, and
 * assumes nothing of an MPI's binary interface.
 *
 * One thread calls all of them. What starts returns at once; its data stay alone until `test` says
 * that it is done, which is also what moves it forward. Functions return 0, or a code that
 * `describe` explains. Every process calls what is collective, in the same order on each channel.
 */
#ifndef XT_RANKS_PLUGIN_MPI_TABLE_H
#define XT_RANKS_PLUGIN_MPI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Goes up with every change to what follows. */
enum { XT_MPI_TABLE_VERSION = 1 };

/* Numbers that are added up: each is rounded as arithmetic in its type rounds. */
enum xt_mpi_type { XT_MPI_F64, XT_MPI_F32, XT_MPI_BF16 };

/* What is on one channel does not wait for what is on another. */
enum xt_mpi_channel { XT_MPI_STEPS, XT_MPI_GRADIENTS, XT_MPI_ENDING, XT_MPI_CHANNELS };

struct xt_mpi_who {
    int rank, size;             /* of all processes */
    int local_rank, local_size; /* of those on this host */
    char library[128];          /* "Open MPI v4.1.4" */
};

/* All processes, once opened. */
struct xt_mpi_job;
/* Something that was started. */
struct xt_mpi_request;

struct xt_mpi_table {
    int version;
    /* Once in a process. */
    int (*open)(struct xt_mpi_job **out, struct xt_mpi_who *who);
    void (*describe)(int code, char *out, size_t size);
    /* Sums of all processes, in place; the same bits in each of them. */
    int (*start_sum)(struct xt_mpi_job *job, enum xt_mpi_channel channel, void *data, size_t count,
                     enum xt_mpi_type type, struct xt_mpi_request **out);
    /* Process `root` gives its bytes to all. */
    int (*start_copy)(struct xt_mpi_job *job, void *data, size_t bytes, int root,
                      struct xt_mpi_request **out);
    /* all: [size][bytes] */
    int (*start_gather)(struct xt_mpi_job *job, const void *own, size_t bytes, void *all,
                        struct xt_mpi_request **out);
    /* Once *done, the request is gone. */
    int (*test)(struct xt_mpi_request *request, bool *done);
    /* A message of at most 4096 bytes to process 0, which need not wait for one. */
    int (*tell_first)(struct xt_mpi_job *job, const void *bytes, size_t count);
    int (*was_told)(struct xt_mpi_job *job, void *bytes, size_t count, int *from, bool *told);
    /* Ends every process with this exit code. */
    void (*abort)(struct xt_mpi_job *job, int code);
    /* All processes meet, and go their way. */
    void (*close)(struct xt_mpi_job *job);
};

/* The library's one symbol. */
#define XT_MPI_SYMBOL "xt_mpi_table"

#endif
