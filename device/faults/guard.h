/* Handling of faults of a GPU's driver during a run.
 *
 * oneDNN's GPU builds are C++, and report a driver's errors by exceptions, which C cannot catch.
 * The functions that call a driver are wrapped here: an exception becomes dnnl_runtime_error, and
 * its message is stored for the error. Once work has failed on the device it is lost for this
 * process: further calls fail at once, and nothing is released, since drivers crash and hang in
 * that. If there is no caller to return to (a driver that aborts or crashes, an exception in a
 * thread of its own, a call that never returns) the process is ended with a final message.
 *
 * One of the program's pieces of global state, with the table of dnnl.h. Thread-safe once the
 * library is loaded.
 */
#ifndef XT_DEVICE_FAULTS_GUARD_H
#define XT_DEVICE_FAULTS_GUARD_H

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

/* These bracket other code that runs in the driver: its start, which is not a function in the
 * table. */
void xt_guard_enter(const char *what);
void xt_guard_leave(void);

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

/* Records that an op was submitted to the device; both texts live as long as the graph. */
void xt_guard_note(const char *op, const char *what);
/* "conv1: a convolution", the newest op; "" before the first. */
void xt_guard_last_op(char *out, size_t size);
/* The most recent ones, oldest first, comma-separated. */
void xt_guard_last_ops(char *out, size_t size);

/* The longest time that a pending call to the driver has taken by now, in seconds, with its kind
 * ("a wait"); 0: none is pending. Creating kernels does not count: that may take minutes. */
double xt_guard_waiting(const char **what);

/* Prints the final message and ends the process. Async-signal-safe. */
typedef void xt_guard_end(void *context, const char *why);
/* Sets the handler that does so; NULL: none, and the process ends as usual. Returns the previous
 * handler, for restoring it. */
struct xt_guard_speaker {
    xt_guard_end *end;
    void *context;
};
struct xt_guard_speaker xt_guard_set_end(xt_guard_end *end, void *context);
/* Calls the handler, if there is one; it does not return then. */
void xt_guard_give_up(const char *why);

#endif
