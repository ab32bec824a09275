/* What becomes of a GPU's driver that fails under a run.
 *
 * oneDNN's GPU builds are C++, and say a driver's error by an exception that C cannot catch. The
 * functions that talk to a driver are called here instead: an exception out of one is a
 * dnnl_runtime_error, and what it says is kept for the sentence. Once work has failed on the device
 * it is lost for this process: what is called then fails at once, and nothing is given back, since
 * drivers crash and hang in that. Where there is nothing to return to (a driver that aborts or
 * crashes, an exception in a thread of its own, a call that never ends) the last words are said.
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

/* Puts these calls before a loaded library's. */
void xt_guard_begin(struct xt_dnnl_table *table, const struct xt_catcher *catcher);

/* Whether the device failed in the middle of work. */
bool xt_guard_is_lost(void);
/* What the last exception in this thread said, once; "" where there was none. */
const char *xt_guard_said(void);

/* What this thread has given to devices so far, and how often it has waited for one. */
struct xt_guard_counts {
    uint64_t primitives, waits;
};
struct xt_guard_counts xt_guard_counts(void);

/* Between the two this thread is in the driver too: its start, which is no function of the table's.
 */
void xt_guard_enter(const char *what);
void xt_guard_leave(void);

/* What this thread has spent in calls to the driver so far, in seconds: giving work to the device,
 * and waiting for it or copying from and to its memory. On the CPU nothing. */
struct xt_guard_spent {
    double launches;
    double waits;
};
struct xt_guard_spent xt_guard_spent(void);

/* Calls a function that talks to the driver, as the table's are called: what comes out of it in an
 * exception is a failure, and so is a device that is lost. Its failure loses nothing. */
dnnl_status_t xt_guard_run(dnnl_status_t (*function)(void *argument), void *argument);

/* Remembers that an op was given to the device; both texts live as long as the graph. */
void xt_guard_note(const char *op, const char *what);
/* "conv1: a convolution", the newest op; "" before the first. */
void xt_guard_last_op(char *out, size_t size);
/* The newest few, oldest first, one after the other. */
void xt_guard_last_ops(char *out, size_t size);

/* The longest time that a call to the driver has not come back for by now, in seconds, with what it
 * is ("a wait"); 0: none is under way. Making kernels does not count: that may take minutes. */
double xt_guard_waiting(const char **what);

/* Says the last words and ends the process. It may be called in a signal's handler. */
typedef void xt_guard_end(void *context, const char *why);
/* Who says them from now on; NULL: nobody, and the process ends as it would. Returns who did until
 * now, for whoever hands the word back. */
struct xt_guard_speaker {
    xt_guard_end *end;
    void *context;
};
struct xt_guard_speaker xt_guard_set_end(xt_guard_end *end, void *context);
/* Has them said: does not come back where somebody does. */
void xt_guard_give_up(const char *why);

#endif
