#include "device/isolate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_all(int fd, const char *bytes, size_t count)
{
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

static size_t read_all(int fd, char *bytes, size_t count)
{
    size_t have = 0;
    while (have < count) {
        ssize_t got = read(fd, bytes + have, count - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

_Noreturn static void be_the_child(xt_isolated *work, const void *argument, size_t size,
                                   unsigned seconds, int out, int said)
{
    const struct rlimit no_core = {0, 0};
    char *result = calloc(1, size);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    alarm(seconds);
    if (result)
        work(argument, result);
    /* Without the libraries' exit handlers: some drivers crash in theirs. */
    _exit(result && write_all(out, result, size) ? 0 : 1);
}

/* The last line that is not empty. */
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

static enum xt_status wait_for(pid_t child, struct xt_isolate_end *end, struct xt_err *err)
{
    int how = 0;
    while (waitpid(child, &how, 0) < 0)
        if (errno != EINTR)
            return xt_err_set(err, XT_ERR_RUN, "cannot wait for a child process: %s",
                              strerror(errno));
    if (WIFSIGNALED(how)) {
        end->signal = WTERMSIG(how);
        end->timed_out = end->signal == SIGALRM;
    }
    return XT_OK;
}

enum xt_status xt_isolate(xt_isolated *work, const void *argument, void *result, size_t size,
                          unsigned seconds, struct xt_isolate_end *end, struct xt_err *err)
{
    struct xt_isolate_end unused;
    struct xt_isolate_end *how = end ? end : &unused;
    int pipes[2] = {-1, -1};
    *how = (struct xt_isolate_end){0};
    memset(result, 0, size);
    fflush(NULL);
    int said = memfd_create("xtrain-child", MFD_CLOEXEC);
    pid_t child = said < 0 || pipe(pipes) ? -1 : fork();
    if (child == 0)
        be_the_child(work, argument, size, seconds, pipes[1], said);
    if (pipes[1] >= 0)
        close(pipes[1]);
    enum xt_status status = XT_OK;
    if (child < 0) {
        status = xt_err_set(err, XT_ERR_RUN, "cannot start a child process: %s", strerror(errno));
    } else {
        size_t got = read_all(pipes[0], result, size);
        status = wait_for(child, how, err);
        last_line(said, how->said, sizeof how->said);
        if (!status && how->timed_out)
            status = xt_err_set(err, XT_ERR_DEVICE, "it did not end within %u s", seconds);
        else if (!status && (how->signal || got != size))
            status = xt_err_set(err, XT_ERR_DEVICE, "it crashed (%s)%s%s",
                                how->signal ? strsignal(how->signal) : "no result",
                                *how->said ? ": " : "", how->said);
    }
    if (pipes[0] >= 0)
        close(pipes[0]);
    if (said >= 0)
        close(said);
    return status;
}
