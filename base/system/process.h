/* Work in a process of its own: for asking a driver that may crash or hang, for loading a library
 * that this process must not load, and for measuring what a process takes. To be called before
 * threads are started.
 */
#ifndef XT_BASE_SYSTEM_PROCESS_H
#define XT_BASE_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct xt_process {
    /* Fills `result` (zeroed before) from `argument`. */
    void (*work)(const void *argument, void *result);
    const void *argument;
    unsigned seconds; /* that it may run; 0: no limit */
    /* Which of the lines that it writes is kept: the last for which this is true; NULL: the last.
     */
    bool (*tells)(const char *line);
    bool speaks; /* it writes where this process does; else only its last line is kept */
    /* What a result points to does not come with it: the bytes to send after it, and their number.
     * NULL: nothing. They are appended to *rest. */
    const void *(*points_to)(const void *result, size_t *bytes);
    struct xt_str *rest;
};

struct xt_process_end {
    int signal;     /* that ended it; 0: none */
    bool timed_out; /* it ran longer than it may */
    char said[256]; /* the line of it or a library that is kept; "" where there is none */
};

/* Processes that only keep CPUs busy, to measure beside them. They end with this one, however it
 * ends. */
struct xt_process_load {
    pid_t *children;
    int count;
};
/* Starts `count` of them; XT_ERR_RUN where there can be no child. Ends all that were started on
 * failure. */
enum xt_status xt_process_load_begin(struct xt_process_load *load, int count, struct xt_err *err);
void xt_process_load_end(struct xt_process_load *load);

/* Runs the work in a child, and copies its `size` bytes of result. XT_ERR_RUN where there can be
 * no child, XT_ERR_DEVICE where it crashed or hung; *end (may be NULL) says more. */
enum xt_status xt_process_run(const struct xt_process *process, void *result, size_t size,
                              struct xt_process_end *end, struct xt_err *err);

/* Seconds since this process began; where the system does not say, since `fallback` on
 * xt_thread_seconds's clock. */
double xt_process_seconds(double fallback);

/* Another program: what it reads on standard input, and how long it may take. */
struct xt_process_program {
    /* Ends in NULL. A program without a slash is looked for where PATH says, in absolute folders
     * alone: the current folder holds other people's files. It sees that PATH, too. */
    const char *const *argv;
    const void *input;
    size_t input_bytes;
    unsigned seconds; /* 0: no limit */
};
/* Its standard output is appended to *output, the last line of its standard error is end->said, and
 * *code its exit code (127: there is no such program). Not in XT_ERR_RUN, where there can be no
 * child, but in *end is where a signal ended it. */
enum xt_status xt_process_run_program(const struct xt_process_program *program,
                                      struct xt_str *output, int *code, struct xt_process_end *end,
                                      struct xt_err *err);

#endif
