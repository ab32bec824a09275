/* The table of MPI functions (mpi_table.h): the only file that includes mpi.h. */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "ranks/plugin/mpi_table.h"

enum { TAG_FAILED = 1 };

struct xt_mpi_job {
    MPI_Comm channels[XT_MPI_CHANNELS];
    MPI_Comm messages;
    MPI_Op add_bf16;
    MPI_Request told; /* of the message to rank 0 */
    char message[4096];
};

struct xt_mpi_request {
    MPI_Request request;
};

extern const struct xt_mpi_table xt_mpi_table;

/* MPI has no 16-bit floating-point type; the signature of a user-defined reduction is MPI's. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
static void add_bf16(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    const uint16_t *from = in;
    uint16_t *to = inout;
    for (int i = 0; i < *count; i++)
        to[i] =
            (uint16_t)(xt_bf16_round(xt_bf16_to_float(to[i]) + xt_bf16_to_float(from[i])) >> 16);
}

static int find_neighbours(struct xt_mpi_who *who)
{
    MPI_Comm local;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    if (code)
        return code;
    code = MPI_Comm_rank(local, &who->local_rank);
    if (!code)
        code = MPI_Comm_size(local, &who->local_size);
    MPI_Comm_free(&local);
    return code;
}

static int name_library(struct xt_mpi_who *who)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    int code = MPI_Get_library_version(text, &length);
    if (!code)
        snprintf(who->library, sizeof who->library, "%.*s", (int)strcspn(text, ",\n"), text);
    /* "MPICH Version:\t4.0.2" */
    char *tab = strchr(who->library, '\t');
    if (tab)
        *tab = ' ';
    return code;
}

/* Errors are returned as codes; the caller words the sentence. */
static int copy_world(MPI_Comm *out)
{
    int code = MPI_Comm_dup(MPI_COMM_WORLD, out);
    return code ? code : MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
}

/* Open MPI's waits yield the CPU. Its own choice for sums in place is a tree up and down, which
 * sends everything 2 log2(size) times; this one (Rabenseifner's) 2 (size - 1) / size times, in as
 * many rounds. Set before MPI reads them, unless the user has set them. Other MPIs ignore them. */
static void choose_parameters(void)
{
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
}

static int open_job(struct xt_mpi_job **out, struct xt_mpi_who *who)
{
    int provided = 0;
    choose_parameters();
    struct xt_mpi_job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (!job)
        return MPI_ERR_NO_MEM;
    job->told = MPI_REQUEST_NULL;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    for (int i = 0; i < XT_MPI_CHANNELS && !code; i++)
        code = copy_world(&job->channels[i]);
    if (!code)
        code = copy_world(&job->messages);
    if (!code)
        code = MPI_Op_create(add_bf16, 1, &job->add_bf16);
    if (!code)
        code = MPI_Comm_rank(MPI_COMM_WORLD, &who->rank);
    if (!code)
        code = MPI_Comm_size(MPI_COMM_WORLD, &who->size);
    if (!code)
        code = find_neighbours(who);
    if (!code)
        code = name_library(who);
    if (code)
        free(job);
    else
        *out = job;
    return code;
}

static void describe(int code, char *out, size_t size)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(out, size, "%s", text);
}

/* A new request; NULL if out of memory. */
static struct xt_mpi_request *new_request(struct xt_mpi_request **out)
{
    *out = calloc(1, sizeof **out);
    return *out;
}

static int started(struct xt_mpi_request **request, int code)
{
    if (code) {
        free(*request);
        *request = NULL;
    }
    return code;
}

static int start_sum(struct xt_mpi_job *job, enum xt_mpi_channel channel, void *data, size_t count,
                     enum xt_mpi_type type, struct xt_mpi_request **out)
{
    const MPI_Datatype types[] = {
        [XT_MPI_F64] = MPI_DOUBLE, [XT_MPI_F32] = MPI_FLOAT, [XT_MPI_BF16] = MPI_UINT16_T};
    if (count > INT_MAX)
        return MPI_ERR_COUNT;
    if (!new_request(out))
        return MPI_ERR_NO_MEM;
    return started(out, MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, types[type],
                                       type == XT_MPI_BF16 ? job->add_bf16 : MPI_SUM,
                                       job->channels[channel], &(*out)->request));
}

static int start_copy(struct xt_mpi_job *job, void *data, size_t bytes, int root,
                      struct xt_mpi_request **out)
{
    if (bytes > INT_MAX)
        return MPI_ERR_COUNT;
    if (!new_request(out))
        return MPI_ERR_NO_MEM;
    return started(out, MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, job->channels[XT_MPI_STEPS],
                                   &(*out)->request));
}

static int start_gather(struct xt_mpi_job *job, const void *own, size_t bytes, void *all,
                        struct xt_mpi_request **out)
{
    if (bytes > INT_MAX)
        return MPI_ERR_COUNT;
    if (!new_request(out))
        return MPI_ERR_NO_MEM;
    return started(out, MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                                       job->channels[XT_MPI_STEPS], &(*out)->request));
}

static int test(struct xt_mpi_request *request, bool *done)
{
    int flag = 0;
    int code = MPI_Test(&request->request, &flag, MPI_STATUS_IGNORE);
    *done = flag;
    if (flag)
        free(request);
    return code;
}

static int tell_first(struct xt_mpi_job *job, const void *bytes, size_t count)
{
    if (count > sizeof job->message)
        return MPI_ERR_COUNT;
    memcpy(job->message, bytes, count);
    return MPI_Isend(job->message, (int)count, MPI_BYTE, 0, TAG_FAILED, job->messages, &job->told);
}

static int was_told(struct xt_mpi_job *job, void *bytes, size_t count, int *from, bool *told)
{
    MPI_Status status;
    int flag = 0;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAILED, job->messages, &flag, &status);
    *told = !code && flag;
    if (!*told)
        return code;
    *from = status.MPI_SOURCE;
    return MPI_Recv(bytes, (int)count, MPI_BYTE, *from, TAG_FAILED, job->messages,
                    MPI_STATUS_IGNORE);
}

static void abort_all(struct xt_mpi_job *job, int code)
{
    (void)job;
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void close_job(struct xt_mpi_job *job)
{
    if (job->told != MPI_REQUEST_NULL)
        MPI_Request_free(&job->told);
    MPI_Op_free(&job->add_bf16);
    for (int i = 0; i < XT_MPI_CHANNELS; i++)
        MPI_Comm_free(&job->channels[i]);
    MPI_Comm_free(&job->messages);
    MPI_Finalize();
    free(job);
}

const struct xt_mpi_table xt_mpi_table = {
    .version = XT_MPI_TABLE_VERSION,
    .open = open_job,
    .describe = describe,
    .start_sum = start_sum,
    .start_copy = start_copy,
    .start_gather = start_gather,
    .test = test,
    .tell_first = tell_first,
    .was_told = was_told,
    .abort = abort_all,
    .close = close_job,
};
