/* Work in a child process: for drivers that may crash or hang, libraries that this process must not
 * load, and measurements of a whole process. Call before threads are started.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct xt_process {
    /* Fills `result` (zeroed before) from `argument`. */
    void (*work)(const void *argument, void *result);
    const void *argument;
    unsigned seconds; /* timeout; 0: none */
    /* Selects the line of its output that is stored: the last for which this is true; NULL: the
     * last. */
    bool (*tells)(const char *line);
    bool speaks; /* it shares this process's output; else only its last line is stored */
    /* The bytes that a result points to, sent after it and appended to *rest. NULL: none. */
    const void *(*points_to)(const void *result, size_t *bytes);
    struct xt_str *rest;
};

struct xt_process_end {
    int signal;     /* that ended it; 0: none */
    bool timed_out; /* it was killed by the timeout */
    char said[512]; /* the stored line of its output, or "" */
};

/* Processes that keep CPUs busy, for measurements under load. They die with this process. */
struct xt_process_load {
    pid_t *children;
    int count;
};
/* Starts `count` of them; XT_ERR_RUN if fork fails, and then none is left running. */
enum xt_status xt_process_load_begin(struct xt_process_load *load, int count, struct xt_err *err);
void xt_process_load_end(struct xt_process_load *load);

/* Runs the work in a child, and copies its `size` bytes of result. XT_ERR_RUN if fork fails,
 * XT_ERR_DEVICE if the child crashed or hung; *end (may be NULL) has the details. */
enum xt_status xt_process_run(const struct xt_process *process, void *result, size_t size,
                              struct xt_process_end *end, struct xt_err *err);

/* Seconds since this process started; if /proc does not tell, since `fallback` on
 * xt_thread_seconds's clock. */
double xt_process_seconds(double fallback);

/* Another program, with its standard input and a timeout. */
struct xt_process_program {
    /* NULL-terminated. A program without a slash is searched for in the absolute folders of PATH
     * only, since the current folder may hold untrusted files. The program is given that PATH. */
    const char *const *argv;
    const void *input;
    size_t input_bytes;
    unsigned seconds; /* 0: no limit */
};
/* It is ended with this process. Appends its standard output to *output; end->said is the last line
 * of its standard error, *code its exit code (127: program not found). XT_ERR_RUN only if fork
 * fails; death by a signal is reported in *end. */
enum xt_status xt_process_run_program(const struct xt_process_program *program,
                                      struct xt_str *output, int *code, struct xt_process_end *end,
                                      struct xt_err *err);
