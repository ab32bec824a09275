/* The request to stop (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU): the program's only signal flag.
 * A second signal, a second or two later, ends the process at once; but the kernel sends SIGXCPU
 * each second, so that one counts only once. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Installs the handlers; called once by cli/main. An ignored SIGHUP (nohup) stays ignored; SIGPIPE
 * and SIGXFSZ are ignored, so that the write fails instead. */
void xt_stop_watch(void);
/* Calls it before a second signal ends the process, in the handler. */
void xt_stop_on_end(void (*ending)(enum xt_status status));
/* For a process that Open MPI started: from now on a SIGCONT by the parent is a request too. Its
 * mpirun, told to end, sends that at once, SIGTERM only after odls_base_sigkill_timeout (1 s), and
 * SIGKILL as long after that. */
void xt_stop_on_launcher_continue(void);
/* Whether it did: it answers no process then. */
bool xt_stop_launcher_ends(void);
/* In a child: restores the default actions. */
void xt_stop_forget(void);
/* Blocks the signals until the program that replaces this one handles them. Async-signal-safe. */
void xt_stop_hold(void);
/* XT_INTERRUPTED after SIGINT, XT_STOPPED after the others, else XT_OK. Thread-safe. */
enum xt_status xt_stop_status(void);
/* The same with a sentence: "interrupted " or "stopped ", then the given rest ("after 3 of 9
 * files"). For each iteration of long loops. */
enum xt_status xt_stop_check(struct xt_err *err, const char *rest, ...)
    __attribute__((format(printf, 2, 3)));
