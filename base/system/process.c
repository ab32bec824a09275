#include "base/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/thread.h"
#include "base/system/stop.h"

static bool send_result(const struct xt_process *process, const void *result, size_t size, int to)
{
    size_t count = 0;
    const void *rest = process->points_to ? process->points_to(result, &count) : NULL;
    return xt_file_write_all(to, result, size) && xt_file_write_all(to, &count, sizeof count) &&
           (!rest || xt_file_write_all(to, rest, count));
}

/* *whole is false if the child did not send everything. */
static enum xt_status receive_result(const struct xt_process *process, void *result, size_t size,
                                     int from, bool *whole, struct xt_err *err)
{
    char block[4096];
    size_t left = 0;
    enum xt_status status = XT_OK;
    *whole = xt_file_read_all(from, result, size) == size &&
             xt_file_read_all(from, (char *)&left, sizeof left) == sizeof left;
    while (*whole && left && !status) {
        size_t count = left < sizeof block ? left : sizeof block;
        *whole = xt_file_read_all(from, block, count) == count;
        status = xt_str_append(process->rest, block, count, err);
        left -= count;
    }
    return status;
}

_Noreturn static void be_the_child(const struct xt_process *process, size_t size, int to, int said)
{
    const struct rlimit no_core = {0, 0};
    /* A second signal ends the parent at once. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *result = calloc(1, size);
    setrlimit(RLIMIT_CORE, &no_core);
    if (!process->speaks) {
        dup2(said, STDOUT_FILENO);
        dup2(said, STDERR_FILENO);
    }
    alarm(process->seconds);
    if (result)
        process->work(process->argument, result);
    bool sent = result && send_result(process, result, size, to);
    if (process->speaks)
        fflush(NULL);
    /* Without the libraries' exit handlers: some drivers crash in theirs. */
    _exit(sent ? 0 : 1);
}

/* The last non-empty line. */
static void last_line(int fd, char *out, size_t room)
{
    char text[2048];
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t got = size < 0 ? 0 : pread(fd, text, sizeof text - 1, from);
    text[got > 0 ? got : 0] = '\0';
    while (got > 0 && strchr("\r\n \t", text[got - 1]))
        text[--got] = '\0';
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    size_t fits = strnlen(line, room - 1);
    memcpy(out, line, fits);
    out[fits] = '\0';
}

/* The last line that `tells` accepts. */
static void telling_line(int fd, bool (*tells)(const char *line), char *out, size_t room)
{
    char line[4096];
    int copy = dup(fd);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    *out = '\0';
    if (!file) {
        if (copy >= 0)
            close(copy);
        return;
    }
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        size_t fits = strnlen(line, room - 1);
        if (!tells(line))
            continue;
        /* Appends with "; " in between. */
        const char *from = line + strlen(line) - fits;
        memcpy(out, from, fits + 1);
    }
    fclose(file);
}

static enum xt_status wait_for(pid_t child, struct xt_process_end *end, int *code,
                               struct xt_err *err)
{
    int how = 0;
    while (waitpid(child, &how, 0) < 0)
        if (errno != EINTR)
            return xt_err_system(err, XT_ERR_RUN, "cannot wait for a child process");
    *code = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
    if (WIFSIGNALED(how)) {
        end->signal = WTERMSIG(how);
        end->timed_out = end->signal == SIGALRM;
    }
    return XT_OK;
}

/* How the child ended, as an error. */
static enum xt_status judge(const struct xt_process_end *end, unsigned seconds, int code,
                            bool whole, struct xt_err *err)
{
    if (code == XT_ERR_DEVICE && *end->said)
        return xt_err_set(err, XT_ERR_DEVICE, "%s", end->said);
    if (end->timed_out)
        return xt_err_set(err, XT_ERR_DEVICE, "it did not end within %u s", seconds);
    if (end->signal || !whole)
        return xt_err_set(err, XT_ERR_DEVICE, "it crashed (%s)%s%s",
                          end->signal ? strsignal(end->signal) : "no result",
                          *end->said ? ": " : "", end->said);
    return XT_OK;
}

enum xt_status xt_process_run(const struct xt_process *process, void *result, size_t size,
                              struct xt_process_end *end, struct xt_err *err)
{
    struct xt_process_end unused;
    struct xt_process_end *how = end ? end : &unused;
    int pipes[2] = {-1, -1};
    int code = 0;
    bool whole = false;
    *how = (struct xt_process_end){0};
    memset(result, 0, size);
    fflush(NULL);
    int said = memfd_create("xtrain-child", MFD_CLOEXEC);
    pid_t child = said < 0 || pipe2(pipes, O_CLOEXEC) ? -1 : fork();
    if (child == 0) {
        close(pipes[0]);
        be_the_child(process, size, pipes[1], said);
    }
    enum xt_status status = XT_OK;
    if (child < 0)
        status = xt_err_system(err, XT_ERR_RUN, "cannot start a child process");
    if (pipes[1] >= 0)
        close(pipes[1]);
    if (!status) {
        status = receive_result(process, result, size, pipes[0], &whole, err);
        close(pipes[0]);
        pipes[0] = -1;
        enum xt_status waited = wait_for(child, how, &code, status ? NULL : err);
        if (process->tells)
            telling_line(said, process->tells, how->said, sizeof how->said);
        else
            last_line(said, how->said, sizeof how->said);
        if (!status)
            status = waited ? waited : judge(how, process->seconds, code, whole, err);
    }
    if (pipes[0] >= 0)
        close(pipes[0]);
    if (said >= 0)
        close(said);
    return status;
}

/* ---- another program ---- */

enum { IN, OUT, SAID, STREAMS };

/* Prepared before the fork, after which nothing may be allocated.
 */
struct start {
    struct xt_str file; /* empty: program not found */
    struct xt_str path; /* "PATH=..." */
    char **environment;
};

static void clear_start(struct start *start)
{
    xt_str_clear(&start->file);
    xt_str_clear(&start->path);
    free(start->environment);
}

/* One folder of PATH, if it is absolute. */
static enum xt_status add_folder(struct start *start, const char *folder, size_t length,
                                 const char *program, struct xt_err *err)
{
    struct xt_str file = {0};
    bool first = strchr(xt_str_get(&start->path), '/') == NULL;
    if (length == 0 || *folder != '/')
        return XT_OK;
    enum xt_status status =
        xt_str_printf(&start->path, err, "%s%.*s", first ? "" : ":", (int)length, folder);
    if (!status && !start->file.length)
        status = xt_str_printf(&file, err, "%.*s/%s", (int)length, folder, program);
    if (!status && file.length && access(file.data, X_OK) == 0)
        status = xt_str_append(&start->file, file.data, file.length, err);
    xt_str_clear(&file);
    return status;
}

/* The environment with that PATH. */
static enum xt_status set_environment(struct start *start, struct xt_err *err)
{
    size_t count = 0;
    while (environ[count])
        count++;
    enum xt_status status =
        xt_mem_calloc(&start->environment, count + 2, sizeof *environ, "an environment", err);
    if (status)
        return status;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!xt_str_starts(environ[i], "PATH="))
            start->environment[used++] = environ[i];
    start->environment[used] = start->path.data;
    return XT_OK;
}

static enum xt_status prepare_start(struct start *start, const char *program, struct xt_err *err)
{
    const char *path = getenv("PATH");
    enum xt_status status = xt_str_printf(&start->path, err, "PATH=");
    if (!status && strchr(program, '/') && access(program, X_OK) == 0)
        status = xt_str_printf(&start->file, err, "%s", program);
    for (const char *at = path ? path : "/usr/bin:/bin"; !status; at++) {
        size_t length = strcspn(at, ":");
        status = add_folder(start, at, length, program, err);
        at += length;
        if (!*at)
            break;
    }
    return status ? status : set_environment(start, err);
}

_Noreturn static void be_the_program(const struct xt_process_program *program,
                                     const struct start *start, const int fds[STREAMS])
{
    union {
        const char *const *in;
        char *const *out;
    } argv = {.in = program->argv};
    for (int i = 0; i < STREAMS; i++)
        if (dup2(fds[i], i) < 0)
            _exit(127);
    xt_stop_forget();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    alarm(program->seconds);
    execve(start->file.data, argv.out, start->environment);
    _exit(127);
}

static enum xt_status append_file(int fd, struct xt_str *out, struct xt_err *err)
{
    char block[1 << 16];
    enum xt_status status = XT_OK;
    for (off_t at = 0; !status;) {
        ssize_t got = pread(fd, block, sizeof block, at);
        if (got <= 0)
            break;
        status = xt_str_append(out, block, (size_t)got, err);
        at += got;
    }
    return status;
}

enum xt_status xt_process_run_program(const struct xt_process_program *program,
                                      struct xt_str *output, int *code, struct xt_process_end *end,
                                      struct xt_err *err)
{
    int fds[STREAMS];
    bool ready = true;
    pid_t child = -1;
    struct start start = {0};
    *end = (struct xt_process_end){0};
    enum xt_status status = prepare_start(&start, program->argv[0], err);
    *code = status || start.file.length ? 0 : 127;
    if (status || *code) {
        clear_start(&start);
        return status;
    }
    fflush(NULL);
    for (int i = 0; i < STREAMS; i++)
        ready = (fds[i] = memfd_create("xtrain-program", MFD_CLOEXEC)) >= 0 && ready;
    ready = ready && xt_file_write_all(fds[IN], program->input, program->input_bytes) &&
            lseek(fds[IN], 0, SEEK_SET) == 0;
    if (ready)
        child = fork();
    if (child == 0)
        be_the_program(program, &start, fds);
    clear_start(&start);
    if (child < 0)
        status = xt_err_system(err, XT_ERR_RUN, "cannot start %s", program->argv[0]);
    if (!status)
        status = wait_for(child, end, code, err);
    if (!status)
        status = append_file(fds[OUT], output, err);
    if (!status)
        last_line(fds[SAID], end->said, sizeof end->said);
    for (int i = 0; i < STREAMS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return status;
}

/* ---- load ---- */

_Noreturn static void keep_busy(pid_t parent)
{
    volatile unsigned turns = 0;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(1);
    for (;;)
        turns++;
}

enum xt_status xt_process_load_begin(struct xt_process_load *load, int count, struct xt_err *err)
{
    *load = (struct xt_process_load){0};
    enum xt_status status = xt_mem_calloc(&load->children, (size_t)count, sizeof *load->children,
                                          "the list of busy processes", err);
    pid_t parent = getpid();
    while (!status && load->count < count) {
        pid_t child = fork();
        if (child == 0)
            keep_busy(parent);
        if (child < 0)
            status = xt_err_system(err, XT_ERR_RUN, "cannot start a busy process");
        else
            load->children[load->count++] = child;
    }
    if (status)
        xt_process_load_end(load);
    return status;
}

void xt_process_load_end(struct xt_process_load *load)
{
    for (int i = 0; i < load->count; i++)
        kill(load->children[i], SIGKILL);
    for (int i = 0; i < load->count; i++)
        while (waitpid(load->children[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    free(load->children);
    *load = (struct xt_process_load){0};
}

double xt_process_seconds(double fallback)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    /* The name in parentheses may contain anything; the start time is the 20th field after it. */
    const char *field = strrchr(text, ')');
    for (int i = 0; i < 20 && field; i++)
        field = strchr(field + 1, ' ');
    unsigned long long ticks = field ? strtoull(field, NULL, 10) : 0;
    long hertz = sysconf(_SC_CLK_TCK);
    struct timespec now;
    if (!ticks || hertz <= 0 || clock_gettime(CLOCK_BOOTTIME, &now))
        return xt_thread_seconds() - fallback;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)ticks / (double)hertz;
}
