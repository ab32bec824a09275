/* Handling of faults of a GPU's driver during a run.
 *
 * oneDNN's GPU builds are C++, and report a driver's errors by exceptions, which C cannot catch.
 * The functions that call a driver are wrapped here: an exception becomes dnnl_runtime_error, and
 * its message is stored for the error. Once work has failed on the device it is lost for this
 * process: further calls fail at once, and nothing is released, since drivers crash and hang in
 * that. If there is no caller to return to (a driver that aborts or crashes, an exception in a
 * thread of its own, a call that never returns) the process is ended with a final message, if it
 * has a handler for that (xt_guard_set_end).
 *
 * One of the program's pieces of global state, with the table of dnnl.h. Thread-safe once the
 * library is loaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/dnnl_table.h"
#include "device/faults/catch.h"

/* Wraps a loaded library's functions. */
void xt_guard_begin(struct xt_dnnl_table *table, const struct xt_catcher *catcher);

/* Whether the device was lost while working. */
bool xt_guard_is_lost(void);
/* The message of the last exception in this thread; cleared by reading. "" if there was none. */
const char *xt_guard_said(void);

/* The number of ops that this thread has submitted so far, and of its waits. */
struct xt_guard_counts {
    uint64_t primitives, waits;
};
struct xt_guard_counts xt_guard_counts(void);

/* These bracket other code that runs in the driver, such as its start, which is not a function in
 * the table; `what` is a constant. They nest: leave is given what enter returned. */
const char *xt_guard_enter(const char *what);
void xt_guard_leave(const char *outer);

/* What messages call the device, and what is being done with it ("while it is opened"; NULL: it
 * computes). The phase is a constant. */
void xt_guard_set_device(const char *name);
void xt_guard_device(char *out, size_t size);
void xt_guard_set_phase(const char *phase);
/* Names the kernel that this thread creates next. */
void xt_guard_set_kernel(const char *op, const char *what);

/* The seconds that this thread has spent in calls to the driver so far: submitting work, and
 * waiting or copying from and to device memory. Nothing on the CPU. */
struct xt_guard_spent {
    double launches;
    double waits;
};
struct xt_guard_spent xt_guard_spent(void);

/* Calls a function that uses the driver, with the same handling as the table's: an exception, or a
 * lost device, is a failure. Its failure does not lose the device. */
dnnl_status_t xt_guard_run(dnnl_status_t (*function)(void *argument), void *argument);

/* The same for functions that launch a kernel, submit other work or wait, whose failure loses the
 * device, and that compile. */
dnnl_status_t xt_guard_wait(dnnl_status_t (*function)(void *argument), void *argument);
dnnl_status_t xt_guard_launch(dnnl_status_t (*function)(void *argument), void *argument);
dnnl_status_t xt_guard_submit(dnnl_status_t (*function)(void *argument), void *argument);
dnnl_status_t xt_guard_compile(dnnl_status_t (*function)(void *argument), void *argument);

/* Records that an op was submitted to the device; the texts are copied. */
void xt_guard_note(const char *op, const char *what);
/* "conv1: a convolution", the newest op; "" before the first. */
void xt_guard_last_op(char *out, size_t size);
/* The most recent ones, oldest first, separated by "; ". */
void xt_guard_last_ops(char *out, size_t size);

/* The pending call to the driver that has taken the longest by now. A kernel's creation counts from
 * the newest kernel that any thread has created: many that take minutes together are progress. */
struct xt_guard_pending {
    const char *what; /* "a wait for its work"; NULL: no call is pending */
    char kernel[96];  /* the kernel that is being created; else "" */
    double seconds;
};
void xt_guard_longest(struct xt_guard_pending *out);
/* "the compilation of kernel 13 (conv1: a convolution), while it is opened" */
void xt_guard_describe(const struct xt_guard_pending *pending, char *out, size_t size);

/* Prints the final message and ends the process; `sentence` names the device and why it is lost.
 * Async-signal-safe. */
typedef void xt_guard_end(void *context, const char *sentence);
struct xt_guard_speaker {
    xt_guard_end *end;
    void *context;
    bool catches_crashes; /* it is also called for crashes of the driver, from a signal handler */
};
/* Sets the handler that does so; zeroed: none, and faults are left alone. In a child process the
 * reason goes to standard error instead, for its parent. Returns the previous handler, for
 * restoring it. */
struct xt_guard_speaker xt_guard_set_end(struct xt_guard_speaker speaker);
/* From now on a crash of the driver calls the handler, if it is to be. */
void xt_guard_catch_crashes(void);
/* Calls the handler, if there is one. */
void xt_guard_give_up(const char *why);
/* Whether the device is being opened. */
bool xt_guard_is_opening(void);
/* Its phase then. */
extern const char xt_guard_opening[];
