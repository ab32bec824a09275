#include "ranks/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "ranks/launch.h"
#include "ranks/place.h"

/* Larger broadcasts go in pieces: MPI counts in an int. */
static const size_t piece_most = (size_t)1 << 28;
/* Seconds of waiting before the other ranks are checked, and between checks. */
static const double look_every = 0.05;
/* Seconds that the others have to reach the same end. */
static const double ending_most = 2;
/* Seconds that rank 0, which may be computing, has to report another's failure. */
static const double telling_most = 10;
/* The ranks whose waits are watched. */
enum { WATCHED = 32 };

/* ---- opening ---- */

/* $XTRAIN_MPI, beside the program (the build tree), lib/xtrain beside its folder (installed). An
 * MPICH that is the only MPI of the system is libxtrain_mpi.so too. */
static void *load_library(bool mpich, char *tried, size_t room)
{
    const char *own = getenv("XTRAIN_MPI");
    const char *const all[] = {"libxtrain_mpich.so", "../lib/xtrain/libxtrain_mpich.so",
                               "libxtrain_mpi.so", "../lib/xtrain/libxtrain_mpi.so"};
    const char *const *places = mpich ? all : all + 2;
    const size_t count = mpich ? 4 : 2;
    char *folder = NULL;
    void *library = NULL;
    *tried = '\0';
    if (own && *own) {
        library = dlopen(own, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
            xt_str_append_to(tried, room, ": %s", dlerror());
        return library;
    }
    if (xt_file_program_folder(&folder, NULL))
        return NULL;
    for (size_t i = 0; i < count && !library; i++) {
        const struct xt_path path = xt_file_path(folder, places[i]);
        if (!xt_file_exists(path.text))
            continue;
        /* RTLD_GLOBAL: MPI's own plug-ins need its symbols. */
        library = dlopen(path.text, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
            xt_str_append_to(tried, room, ": %s", dlerror());
    }
    free(folder);
    return library;
}

static enum xt_status load(struct xt_ranks *ranks, const struct xt_launch *launch,
                           struct xt_err *err)
{
    char why[512];
    void *library = load_library(launch->by_pmi, why, sizeof why);
    if (!library)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "this is one of %d tasks (%s=%d), and this build of xtrain has no MPI by "
                          "which they work together%s; run \"make deps MPI=1\" and \"make\", or "
                          "add --alone if each task has work of its own",
                          launch->tasks, launch->who, launch->tasks, why);
    ranks->mpi = dlsym(library, XT_MPI_SYMBOL);
    if (!ranks->mpi || ranks->mpi->version != XT_MPI_TABLE_VERSION)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "libxtrain_mpi.so belongs to another version of xtrain; run \"make\" and "
                          "install again");
    return XT_OK;
}

static enum xt_status tell(const struct xt_ranks *ranks, struct xt_err *err)
{
    *err = ranks->why;
    return err->status;
}

static enum xt_status broken(struct xt_ranks *ranks, int code, const char *what, struct xt_err *err)
{
    char text[512];
    ranks->failed = ranks->rank;
    ranks->mpi->describe(code, text, sizeof text);
    xt_err_set(&ranks->why, XT_ERR_RUN, "MPI failed with %s of %d ranks: %s", what, ranks->size,
               text);
    return tell(ranks, err);
}

/* The first that ranks tell each other: its form stays, so that other versions understand it. */
struct greeting {
    char host[64];
    char program[32];
};

static enum xt_status greet(struct xt_ranks *ranks, struct xt_err *err)
{
    struct greeting own = {.program = XT_VERSION};
    struct greeting *all = NULL;
    int other = 0;
    gethostname(own.host, sizeof own.host - 1);
    enum xt_status status = xt_ranks_gather(ranks, &own, sizeof own, &all, "the versions", err);
    for (int i = ranks->size - 1; i >= 0 && !status; i--) {
        memcpy(ranks->all[i].host, all[i].host, sizeof all[i].host - 1);
        other = memcmp(all[i].program, all[0].program, sizeof own.program) == 0 ? other : i;
    }
    if (!status && other)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "rank %d on %s is xtrain %.31s, rank 0 on %s is xtrain %.31s; start "
                            "the same program on all hosts",
                            other, ranks->all[other].host, all[other].program, ranks->all[0].host,
                            all[0].program);
    free(all);
    return status;
}

/* MPI itself would end the process with a page of advice. */
static enum xt_status check_meeting(const struct xt_launch *launch, struct xt_err *err)
{
    if (!launch->unmet)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DEVICE,
                      "this is one of %d tasks (%s=%d) that srun started without PMIx, so that "
                      "they cannot find each other: give srun --mpi=pmix, or add --alone if each "
                      "task has work of its own",
                      launch->tasks, launch->who, launch->tasks);
}

static enum xt_status begin(struct xt_ranks *ranks, const struct xt_launch *launch,
                            struct xt_err *err)
{
    struct xt_mpi_who who = {.size = 1};
    enum xt_status status = check_meeting(launch, err);
    if (!status)
        status = load(ranks, launch, err);
    if (status)
        return status;
    int code = ranks->mpi->open(&ranks->job, &who);
    ranks->size = launch->tasks;
    if (code)
        return broken(ranks, code, "the start", err);
    ranks->rank = who.rank;
    ranks->size = who.size;
    ranks->local_rank = who.local_rank;
    ranks->local_size = who.local_size;
    snprintf(ranks->xpu, sizeof ranks->xpu, "xpu:%d", who.local_rank);
    memcpy(ranks->library, who.library, sizeof ranks->library);
    if (who.size != launch->tasks)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "%s says that there are %d tasks, and the MPI that xtrain was built with "
                          "(%s) sees %d: start them with the mpirun of that MPI, or with srun "
                          "--mpi=pmix",
                          launch->who, launch->tasks, who.library, who.size);
    status = xt_mem_calloc(&ranks->all, (size_t)who.size, sizeof *ranks->all, "the ranks", err);
    if (!status)
        status = greet(ranks, err);
    return status ? status : xt_ranks_introduce(ranks, &(struct xt_rank){.images = 0}, err);
}

enum xt_status xt_ranks_open(struct xt_ranks **out, struct xt_err *err)
{
    const struct xt_launch launch = xt_launch_read(getenv);
    *out = NULL;
    if (launch.tasks < 2)
        return XT_OK;
    if (launch.announces)
        xt_stop_on_launcher_continue();
    struct xt_ranks *ranks = NULL;
    enum xt_status status = xt_mem_calloc(&ranks, 1, sizeof *ranks, "the ranks", err);
    if (status)
        return status;
    ranks->failed = -1;
    ranks->timeout = 600;
    status = begin(ranks, &launch, err);
    /* Once they can meet, xt_ranks_end says an error; else the first says it for all. */
    if (ranks->all)
        *out = ranks;
    else if (launch.task != 0)
        *err->text = '\0';
    if (!ranks->all)
        free(ranks);
    return status;
}

/* Those of this host come first, this rank's among them at *own; returns their number. */
static int keep_neighbours(const struct xt_ranks *ranks, struct xt_rank_cpus *places, int *own)
{
    int count = 0;
    for (int i = 0; i < ranks->size; i++) {
        if (strcmp(ranks->all[i].host, ranks->all[ranks->rank].host) != 0)
            continue;
        *own = i == ranks->rank ? count : *own;
        places[count++] = places[i];
    }
    return count;
}

enum xt_status xt_ranks_place(struct xt_ranks *ranks, bool bind, struct xt_err *err)
{
    const struct xt_rank_cpus place = xt_place_read();
    struct xt_rank_cpus *places = NULL;
    enum xt_status status =
        xt_ranks_gather(ranks, &place, sizeof place, &places, "their CPUs", err);
    if (!status) {
        int own = 0;
        int count = keep_neighbours(ranks, places, &own);
        int idle = xt_place_idle(places, count);
        ranks->threads = xt_place_threads(places, count, own);
        if (bind && xt_place_is_free(places, count)) {
            xt_place_bind(ranks->local_rank, ranks->local_size);
            ranks->threads = 0;
        }
        if (idle > 0 && ranks->rank == 0 && xt_launch_read(getenv).binds)
            xt_log_warn("mpirun binds its processes by its own default, which leaves %s of %s "
                        "unused; mpirun --bind-to none lets xtrain divide all of them",
                        xt_count(idle, "CPU").text, ranks->all[0].host);
    }
    free(places);
    return status;
}

enum xt_status xt_ranks_introduce(struct xt_ranks *ranks, const struct xt_rank *own,
                                  struct xt_err *err)
{
    struct xt_rank mine = *own;
    gethostname(mine.host, sizeof mine.host - 1);
    mine.local_rank = ranks->local_rank;
    mine.pid = getpid();
    struct xt_rank *all = NULL;
    enum xt_status status = xt_ranks_gather(ranks, &mine, sizeof mine, &all, "each other", err);
    for (int i = 0; i < ranks->size && !status; i++) {
        ranks->all[i] = all[i];
        /* Containers on one host may not see each other's processes. */
        ranks->all[i].is_seen = strcmp(all[i].host, mine.host) == 0 && kill(all[i].pid, 0) == 0;
    }
    free(all);
    return status;
}

/* ---- waiting ---- */

/* A few microseconds of polling, then sleep, at most a fiftieth longer than has been waited. Where
 * others use the CPU, polling uses up this process's part of it, and a yield gives away a whole
 * time slice, of which a sleeper that wakes has credit. */
static void pause_between(long turn, double waited)
{
    enum { POLLS = 20 };
    const double shortest = 20e-6;
    const double longest = 1e-3;
    const struct timespec nap = {.tv_nsec =
                                     (long)(1e9 * fmin(fmax(waited / 50, shortest), longest))};
    if (turn >= POLLS)
        nanosleep(&nap, NULL);
}

/* On rank 0: whether another rank has reported a failure, which goes to err. */
static bool hears(struct xt_ranks *ranks, struct xt_err *err)
{
    struct xt_err why;
    bool told = false;
    int from = 0;
    if (ranks->rank || ranks->mpi->was_told(ranks->job, &why, sizeof why, &from, &told) || !told)
        return false;
    ranks->failed = from;
    why.text[sizeof why.text - 1] = '\0';
    xt_err_set(&ranks->why, why.status, "rank %d on %s: %s", from, ranks->all[from].host, why.text);
    tell(ranks, err);
    return true;
}

/* Whether a process on this host was killed or crashed. */
static bool misses(struct xt_ranks *ranks, struct xt_err *err)
{
    for (int i = 0; i < ranks->size; i++) {
        const struct xt_rank *other = &ranks->all[i];
        if (!other->is_seen || kill(other->pid, 0) == 0 || errno != ESRCH)
            continue;
        xt_err_set(&ranks->why, XT_ERR_RUN,
                   "rank %d on %s (process %ld) is gone: it was killed, or has crashed; all ranks "
                   "stop, and --resume continues from the last checkpoint",
                   i, other->host, (long)other->pid);
        ranks->failed = i;
        tell(ranks, err);
        return true;
    }
    return false;
}

static enum xt_status late(struct xt_ranks *ranks, const char *what, struct xt_err *err)
{
    ranks->failed = ranks->rank;
    xt_err_set(&ranks->why, XT_ERR_RUN,
               "rank %d on %s has waited %.0f s (--rank-timeout) for %s of all ranks: one of them "
               "hangs, or its connection is lost; all stop, and --resume continues from the last "
               "checkpoint",
               ranks->rank, ranks->all[ranks->rank].host, ranks->timeout, what);
    return tell(ranks, err);
}

/* Waits for the request; a long wait checks whether the other ranks are alive. */
static enum xt_status await(struct xt_ranks *ranks, struct xt_mpi_request *request,
                            const char *what, double *waited, struct xt_err *err)
{
    double start = xt_thread_seconds();
    double next_look = look_every;
    for (long turn = 0;; turn++) {
        bool done = false;
        int code = ranks->mpi->test(request, &done);
        *waited = xt_thread_seconds() - start;
        if (code)
            return broken(ranks, code, what, err);
        if (done)
            return XT_OK;
        if (*waited > next_look) {
            next_look = *waited + look_every;
            if (hears(ranks, err) || misses(ranks, err))
                return err->status;
        }
        if (ranks->timeout > 0 && *waited > ranks->timeout)
            return late(ranks, what, err);
        pause_between(turn, *waited);
    }
}

/* ---- collectives ---- */

/* Waits for what was started with this result, and counts the time. */
static enum xt_status complete(struct xt_ranks *ranks, int code, struct xt_mpi_request *request,
                               const char *what, double *waits, struct xt_err *err)
{
    double waited = 0;
    if (code)
        return broken(ranks, code, what, err);
    enum xt_status status = await(ranks, request, what, &waited, err);
    *waits += waited;
    return status;
}

static enum xt_status sum(struct xt_ranks *ranks, double *values, size_t count, const char *what,
                          double *waits, struct xt_err *err)
{
    struct xt_mpi_request *request = NULL;
    int code = ranks->mpi->start_sum(ranks->job, XT_MPI_STEPS, values, count, XT_MPI_F64, &request);
    return complete(ranks, code, request, what, waits, err);
}

enum xt_status xt_ranks_sum(struct xt_ranks *ranks, double *values, size_t count, const char *what,
                            struct xt_err *err)
{
    return sum(ranks, values, count, what, &ranks->time.other, err);
}

enum xt_status xt_ranks_meet(struct xt_ranks *ranks, const char *what, struct xt_err *err)
{
    double nothing = 0;
    return xt_ranks_sum(ranks, &nothing, 1, what, err);
}

/* The shares of the time since the window began that this rank has waited, and for batch norms. */
static void watch_waits(struct xt_ranks *ranks, double *waited, double *norms)
{
    enum { FIRST = 4 };
    const struct xt_ranks_time *time = &ranks->time;
    double all = xt_ranks_waited(ranks);
    double seconds = xt_thread_seconds() - ranks->watch.since;
    *waited = (all - ranks->watch.waited) / seconds;
    *norms = (time->norms - ranks->watch.norms) / seconds;
    if (++ranks->watch.steps != FIRST)
        return;
    ranks->watch.since = xt_thread_seconds();
    ranks->watch.waited = all;
    ranks->watch.norms = time->norms;
}

/* Once, on rank 0, from the shares of the ranks. */
static void advise(const struct xt_ranks *ranks, const double *waited, const double *norms)
{
    enum { LAST = 24 };
    const double much = 0.2;
    int most = 0;
    for (int i = 1; i < ranks->size && i < WATCHED; i++)
        most = waited[i] > waited[most] ? i : most;
    if (ranks->watch.steps != LAST || ranks->rank || waited[most] <= much)
        return;
    xt_log_warn("rank %d on %s waits %.0f %% of the time for others, %s", most,
                ranks->all[most].host, 100 * waited[most],
                norms[most] > waited[most] / 2
                    ? "most of it in batch norms, where ranks that are not equally fast meet: "
                      "--balance cuts their shares by speed, --no-sync-bn lets them meet once a "
                      "step, which is another run"
                    : "most of it for gradients: a larger --batch, --accumulate, --reduce-type "
                      "bf16 or fewer ranks help");
}

enum xt_status xt_ranks_allreduce_step(struct xt_ranks *ranks, double weight,
                                       struct xt_step_agreement *step, struct xt_err *err)
{
    /* At least as many elements as ranks: fewer would pass through every rank in sequence. */
    enum { VALUES = 8 + 2 * WATCHED };
    double values[VALUES] = {
        weight * step->loss, step->stop == XT_STOPPED, step->stop == XT_INTERRUPTED,
        step->done,          (double)step->bad,        step->sick};
    double *waited = values + 8;
    double *norms = waited + WATCHED;
    if (ranks->rank < WATCHED)
        watch_waits(ranks, &waited[ranks->rank], &norms[ranks->rank]);
    enum xt_status status = xt_ranks_sum(ranks, values, VALUES, "the losses", err);
    advise(ranks, waited, norms);
    *step = (struct xt_step_agreement){
        .loss = values[0],
        .stop = values[2] > 0   ? XT_INTERRUPTED
                : values[1] > 0 ? XT_STOPPED
                                : XT_OK,
        .done = values[3] > 0,
        .bad = (size_t)values[4],
        .sick = values[5] > 0,
    };
    return status;
}

enum xt_status xt_ranks_sum_norm(struct xt_ranks *ranks, double *values, size_t count,
                                 struct xt_err *err)
{
    return sum(ranks, values, count, "a batch norm's sums", &ranks->time.norms, err);
}

enum xt_status xt_ranks_copy(struct xt_ranks *ranks, void *data, size_t bytes, int root,
                             const char *what, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t at = 0; at < bytes && !status; at += piece_most) {
        struct xt_mpi_request *request = NULL;
        size_t piece = bytes - at < piece_most ? bytes - at : piece_most;
        int code = ranks->mpi->start_copy(ranks->job, (char *)data + at, piece, root, &request);
        status = complete(ranks, code, request, what, &ranks->time.other, err);
    }
    return status;
}

enum xt_status xt_ranks_gather(struct xt_ranks *ranks, const void *own, size_t bytes, void *all,
                               const char *what, struct xt_err *err)
{
    struct xt_mpi_request *request = NULL;
    void *room = NULL;
    enum xt_status status = xt_mem_calloc(&room, (size_t)ranks->size, bytes, what, err);
    memcpy(all, &room, sizeof room);
    if (status)
        return status;
    int code = ranks->mpi->start_gather(ranks->job, own, bytes, room, &request);
    return complete(ranks, code, request, what, &ranks->time.other, err);
}

enum xt_status xt_ranks_is_same(struct xt_ranks *ranks, const void *own, size_t bytes, bool *same,
                                const char *what, struct xt_err *err)
{
    char *all = NULL;
    *same = true;
    enum xt_status status = xt_ranks_gather(ranks, own, bytes, &all, what, err);
    for (int i = 1; i < ranks->size && !status; i++)
        *same = *same && memcmp(all + (size_t)i * bytes, all, bytes) == 0;
    free(all);
    return status;
}

enum xt_status xt_ranks_start(struct xt_ranks *ranks, void *data, size_t count,
                              enum xt_mpi_type type, struct xt_ranks_sum *out, struct xt_err *err)
{
    int code =
        ranks->mpi->start_sum(ranks->job, XT_MPI_GRADIENTS, data, count, type, &out->request);
    out->since = xt_thread_seconds();
    return code ? broken(ranks, code, "the gradients", err) : XT_OK;
}

static void land(struct xt_ranks *ranks, struct xt_ranks_sum *sum)
{
    ranks->time.flying += xt_thread_seconds() - sum->since;
    sum->request = NULL;
}

enum xt_status xt_ranks_poll(struct xt_ranks *ranks, struct xt_ranks_sum *sum, struct xt_err *err)
{
    bool done = false;
    int code = sum->request ? ranks->mpi->test(sum->request, &done) : 0;
    if (code)
        return broken(ranks, code, "the gradients", err);
    if (done)
        land(ranks, sum);
    return XT_OK;
}

enum xt_status xt_ranks_finish(struct xt_ranks *ranks, struct xt_ranks_sum *sum, struct xt_err *err)
{
    if (!sum->request)
        return XT_OK;
    enum xt_status status =
        complete(ranks, 0, sum->request, "the gradients", &ranks->time.gradients, err);
    land(ranks, sum);
    return status;
}

/* ---- closing ---- */

/* Whether all ranks reach the same end within the time; rank 0 may receive the reason if not. */
static bool meet(struct xt_ranks *ranks, bool failed, double most, struct xt_err *err)
{
    double failures = failed;
    struct xt_mpi_request *request = NULL;
    double start = xt_thread_seconds();
    bool done = false;
    if (ranks->mpi->start_sum(ranks->job, XT_MPI_ENDING, &failures, 1, XT_MPI_F64, &request))
        return false;
    for (long turn = 0; !done; turn++) {
        if (ranks->mpi->test(request, &done) ||
            (!done && most > 0 && xt_thread_seconds() - start > most))
            return false;
        if (!done && !failed && (hears(ranks, err) || misses(ranks, err)))
            return false;
        if (!done)
            pause_between(turn, xt_thread_seconds() - start);
    }
    return failures == (failed ? ranks->size : 0);
}

/* Aborts all ranks, and this process even if MPI does not: it may have lost its daemon. */
static void end_all(struct xt_ranks *ranks, const struct xt_err *err, bool speaks)
{
    enum { SECONDS = 10 };
    xt_log_clear_line();
    if (speaks)
        xt_log_error("%s", err->text);
    if (speaks && ranks->failing)
        ranks->failing(err);
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS);
    ranks->mpi->abort(ranks->job, (int)err->status);
}

/* A failure of this rank alone. Rank 0 reports it, unless it is gone or busy for long; the others
 * are then aborted by MPI or a signal from the launcher. */
static void fail_alone(struct xt_ranks *ranks, struct xt_err *err)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    double until = xt_thread_seconds() + telling_most;
    bool first = ranks->rank == 0;
    /* The reason found while waiting, without the name of the wait. */
    if (ranks->why.status)
        *err = ranks->why;
    else if (first)
        hears(ranks, err);
    while (!first && xt_thread_seconds() < until && !xt_stop_status())
        nanosleep(&nap, NULL);
    bool speaks = first || ranks->failed == 0 || !xt_stop_status();
    if (!first && !ranks->why.status)
        xt_err_prefix(err, "rank %d on %s: ", ranks->rank, ranks->all[ranks->rank].host);
    end_all(ranks, err, speaks);
}

enum xt_status xt_ranks_end(struct xt_ranks *ranks, enum xt_status status, struct xt_err *err)
{
    if (!ranks)
        return status;
    bool failed = status && status != XT_STOPPED && status != XT_INTERRUPTED;
    if (failed && ranks->rank)
        ranks->mpi->tell_first(ranks->job, err, sizeof *err);
    bool met = ranks->failed < 0 && meet(ranks, failed, failed ? ending_most : ranks->timeout, err);
    if (!met && !failed && !err->status)
        xt_err_set(err, XT_ERR_RUN, "the ranks did not come to the same end");
    if (!met)
        fail_alone(ranks, err);
    if (!xt_stop_launcher_ends()) /* it would wait for the launcher */
        ranks->mpi->close(ranks->job);
    bool speaks = ranks->rank == 0;
    free(ranks->all);
    free(ranks);
    return speaks ? status : XT_OK;
}
