#include "device/faults/guard.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/system/reexec.h"
#include "base/system/thread.h"

enum { CALLS_MAX = 64, OPS_MAX = 16, OP_WORDS = 12, OP_BYTES = OP_WORDS * 8 };

/* The kind of a call: only work on the device is counted, and loses it if it fails. */
enum kind { LAUNCH, WAIT, WORK_COUNT, OTHER = WORK_COUNT, CREATION };

/* A call that a thread is in. */
struct call {
    atomic_bool taken;
    _Atomic(const char *) what; /* NULL: none */
    _Atomic double since;
    atomic_bool creates;
    char kernel[96]; /* under guard.names */
};

/* "conv1: a convolution", cut where it is longer. A copy: its graph may be gone when it is read. */
struct op {
    _Atomic uint64_t text[OP_WORDS];
};

static struct {
    struct xt_dnnl_table bare; /* the library's own functions */
    const struct xt_catcher *catcher;
    atomic_bool lost;
    atomic_bool ending; /* the process is being ended */
    struct call calls[CALLS_MAX];
    pthread_mutex_t names;
    char device[128];
    _Atomic(const char *) phase;
    atomic_int kernels;         /* created so far */
    _Atomic double last_kernel; /* when the newest was created */
    struct op ops[OPS_MAX];
    atomic_uint op_count;
    struct xt_guard_speaker speaker;
    void (*finish)(const char *why); /* calls it */
    pid_t process;                   /* that set it */
} guard = {.names = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct call *mine; /* this thread's outermost call; NULL: none */
static _Thread_local char said[256];
static _Thread_local char kernel[96]; /* that this thread creates next */
static _Thread_local double spent[WORK_COUNT];
static _Thread_local struct xt_guard_counts counts;

const char xt_guard_opening[] = "while it is opened";

struct xt_guard_counts xt_guard_counts(void)
{
    return counts;
}

/* --- calls to the driver
 * ------------------------------------------------------------------------*/
/* NULL: more threads than that are in calls. */
static struct call *take_call(void)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (!atomic_exchange(&guard.calls[i].taken, true))
            return &guard.calls[i];
    return NULL;
}

const char *xt_guard_enter(const char *what)
{
    const char *outer = mine ? atomic_load(&mine->what) : NULL;
    if (!mine)
        mine = take_call();
    if (!mine)
        return NULL;
    atomic_store(&mine->since, xt_thread_seconds());
    atomic_store(&mine->what, what);
    return outer;
}

void xt_guard_leave(const char *outer)
{
    struct call *call = mine;
    if (!call)
        return;
    atomic_store(&call->since, xt_thread_seconds());
    atomic_store(&call->what, outer);
    if (outer)
        return;
    mine = NULL;
    atomic_store(&call->taken, false);
}

void xt_guard_set_device(const char *name)
{
    pthread_mutex_lock(&guard.names);
    snprintf(guard.device, sizeof guard.device, "%s", name);
    pthread_mutex_unlock(&guard.names);
}

void xt_guard_device(char *out, size_t size)
{
    pthread_mutex_lock(&guard.names);
    snprintf(out, size, "%s", guard.device);
    pthread_mutex_unlock(&guard.names);
}

void xt_guard_set_phase(const char *phase)
{
    atomic_store(&guard.phase, phase);
}

bool xt_guard_is_opening(void)
{
    return atomic_load(&guard.phase) == xt_guard_opening;
}

void xt_guard_set_kernel(const char *op, const char *what)
{
    snprintf(kernel, sizeof kernel, "%s%s%s", op, *op ? ": " : "", what);
}

static void begin_kernel(void)
{
    if (!mine)
        return;
    pthread_mutex_lock(&guard.names);
    memcpy(mine->kernel, kernel, sizeof kernel);
    pthread_mutex_unlock(&guard.names);
    atomic_store(&mine->creates, true);
}

static void end_kernel(void)
{
    atomic_fetch_add(&guard.kernels, 1);
    atomic_store(&guard.last_kernel, xt_thread_seconds());
    if (mine)
        atomic_store(&mine->creates, false);
}

/* What an exception means: memory that has run out does not lose the device.
 *
 * CL_MEM_OBJECT_ALLOCATION_FAILURE has no name in SYCL's OpenCL adapter, which calls it unknown.
 * Whatever else it calls so is a mistake of the caller, with which the first launch would fail.
 * CL_OUT_OF_RESOURCES is ambiguous: Intel's driver returns it for a GPU that hangs, for a
 * submission that the kernel refuses, and where device memory runs out, and after a hang further
 * calls may never return. So in work it loses the device; an allocation can only lack memory. */
static dnnl_status_t meant(enum kind kind)
{
    bool unknown = strstr(said, "opencl") && strstr(said, "RESULT_ERROR_UNKNOWN");
    return strstr(said, "OUT_OF_DEVICE_MEMORY") || strstr(said, "OUT_OF_HOST_MEMORY") ||
                   (kind < WORK_COUNT && unknown) ||
                   (kind == OTHER && strstr(said, "OUT_OF_RESOURCES"))
               ? dnnl_out_of_memory
               : dnnl_runtime_error;
}

static dnnl_status_t call(const char *what, enum kind kind, uintptr_t function, uintptr_t a,
                          uintptr_t b, uintptr_t c, uintptr_t d)
{
    const uintptr_t arguments[4] = {a, b, c, d};
    int result = dnnl_success;
    if (guard.lost)
        return dnnl_runtime_error;
    *said = '\0';
    double start = xt_thread_seconds();
    const char *outer = xt_guard_enter(what);
    if (kind == CREATION)
        begin_kernel();
    if (guard.catcher->call((xt_caught_function *)function, arguments, &result, said, sizeof said))
        result = (int)meant(kind);
    /* oneDNN's OpenCL runtime takes CL_OUT_OF_RESOURCES for this too; a wait allocates nothing. */
    else if (kind == WAIT && result == dnnl_out_of_memory)
        result = dnnl_runtime_error;
    if (kind == CREATION)
        end_kernel();
    xt_guard_leave(outer);
    if (kind < WORK_COUNT)
        spent[kind] += xt_thread_seconds() - start;
    if (kind < WORK_COUNT && result == dnnl_runtime_error)
        guard.lost = true;
    return (dnnl_status_t)result;
}

dnnl_status_t xt_guard_run(dnnl_status_t (*function)(void *argument), void *argument)
{
    return call("an allocation", OTHER, (uintptr_t)function, (uintptr_t)argument, 0, 0, 0);
}

dnnl_status_t xt_guard_submit(dnnl_status_t (*function)(void *argument), void *argument)
{
    return call("a launch", LAUNCH, (uintptr_t)function, (uintptr_t)argument, 0, 0, 0);
}

dnnl_status_t xt_guard_launch(dnnl_status_t (*function)(void *argument), void *argument)
{
    counts.primitives++;
    return xt_guard_submit(function, argument);
}

dnnl_status_t xt_guard_compile(dnnl_status_t (*function)(void *argument), void *argument)
{
    return call("the creation of kernels", CREATION, (uintptr_t)function, (uintptr_t)argument, 0, 0,
                0);
}

static dnnl_status_t engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index)
{
    return call("the start of its engine", OTHER, (uintptr_t)guard.bare.engine_create,
                (uintptr_t)engine, (uintptr_t)kind, index, 0);
}

static size_t engine_get_count(dnnl_engine_kind_t kind)
{
    dnnl_status_t count = call("the search for GPUs", OTHER, (uintptr_t)guard.bare.engine_get_count,
                               (uintptr_t)kind, 0, 0, 0);
    return *said ? 0 : (size_t)count;
}

static dnnl_status_t stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags)
{
    return call("the start of its engine", OTHER, (uintptr_t)guard.bare.stream_create,
                (uintptr_t)stream, (uintptr_t)engine, flags, 0);
}

static const char waiting[] = "a wait for its work";

dnnl_status_t xt_guard_wait(dnnl_status_t (*function)(void *argument), void *argument)
{
    counts.waits++;
    return call(waiting, WAIT, (uintptr_t)function, (uintptr_t)argument, 0, 0, 0);
}

static dnnl_status_t stream_wait(dnnl_stream_t stream)
{
    counts.waits++;
    return call(waiting, WAIT, (uintptr_t)guard.bare.stream_wait, (uintptr_t)stream, 0, 0, 0);
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, const_dnnl_memory_desc_t md,
                                   dnnl_engine_t engine, void *handle)
{
    return call("an allocation", OTHER, (uintptr_t)guard.bare.memory_create, (uintptr_t)memory,
                (uintptr_t)md, (uintptr_t)engine, (uintptr_t)handle);
}

static dnnl_status_t memory_map_data(const_dnnl_memory_t memory, void **mapped)
{
    return call("a copy from its memory", WAIT, (uintptr_t)guard.bare.memory_map_data,
                (uintptr_t)memory, (uintptr_t)mapped, 0, 0);
}

static dnnl_status_t memory_unmap_data(const_dnnl_memory_t memory, void *mapped)
{
    return call("a copy to its memory", WAIT, (uintptr_t)guard.bare.memory_unmap_data,
                (uintptr_t)memory, (uintptr_t)mapped, 0, 0);
}

static dnnl_status_t primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd)
{
    return call("the creation of kernels", CREATION, (uintptr_t)guard.bare.primitive_create,
                (uintptr_t)primitive, (uintptr_t)pd, 0, 0);
}

static dnnl_status_t primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                       int count, const dnnl_exec_arg_t *arguments)
{
    counts.primitives++;
    return call("a launch", LAUNCH, (uintptr_t)guard.bare.primitive_execute, (uintptr_t)primitive,
                (uintptr_t)stream, (uintptr_t)count, (uintptr_t)arguments);
}

static dnnl_status_t memory_destroy(dnnl_memory_t memory)
{
    return call("the release of memory", OTHER, (uintptr_t)guard.bare.memory_destroy,
                (uintptr_t)memory, 0, 0, 0);
}

static dnnl_status_t primitive_destroy(dnnl_primitive_t primitive)
{
    return call("the release of a kernel", OTHER, (uintptr_t)guard.bare.primitive_destroy,
                (uintptr_t)primitive, 0, 0, 0);
}

static dnnl_status_t stream_destroy(dnnl_stream_t stream)
{
    return call("the end of its engine", OTHER, (uintptr_t)guard.bare.stream_destroy,
                (uintptr_t)stream, 0, 0, 0);
}

static dnnl_status_t engine_destroy(dnnl_engine_t engine)
{
    return call("the end of its engine", OTHER, (uintptr_t)guard.bare.engine_destroy,
                (uintptr_t)engine, 0, 0, 0);
}

/* An uncaught exception: in a thread of the driver, or out of a noexcept function. */
static void on_terminate(void)
{
    xt_guard_give_up("its driver failed in a way that nothing can catch");
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
}

void xt_guard_begin(struct xt_dnnl_table *table, const struct xt_catcher *catcher)
{
    guard.bare = *table;
    guard.catcher = catcher;
    table->engine_create = engine_create;
    table->engine_get_count = engine_get_count;
    table->stream_create = stream_create;
    table->stream_wait = stream_wait;
    table->memory_create = memory_create;
    table->memory_map_data = memory_map_data;
    table->memory_unmap_data = memory_unmap_data;
    table->primitive_create = primitive_create;
    table->primitive_execute = primitive_execute;
    table->memory_destroy = memory_destroy;
    table->primitive_destroy = primitive_destroy;
    table->stream_destroy = stream_destroy;
    table->engine_destroy = engine_destroy;
    catcher->on_terminate(on_terminate);
}

struct xt_guard_spent xt_guard_spent(void)
{
    return (struct xt_guard_spent){.launches = spent[LAUNCH], .waits = spent[WAIT]};
}

bool xt_guard_is_lost(void)
{
    return guard.lost;
}

const char *xt_guard_said(void)
{
    return said;
}

/* --- the current call ------------------------------------------------------------------------ */
/* Appends up to `end`, where the text is cut; returns its end. Called for each op: faster than
 * snprintf. */
static char *append_text(char *to, const char *end, const char *from)
{
    while (to < end && *from)
        *to++ = *from++;
    return to;
}

void xt_guard_note(const char *op, const char *what)
{
    struct op *next = &guard.ops[atomic_fetch_add(&guard.op_count, 1) % OPS_MAX];
    uint64_t words[OP_WORDS];
    char text[OP_BYTES] = "";
    char *to = append_text(text, text + sizeof text / 2, op);
    to = append_text(to, to + 2, *op ? ": " : "");
    append_text(to, text + sizeof text - 1, what);
    memcpy(words, text, sizeof words);
    for (size_t i = 0; i < OP_WORDS; i++)
        atomic_store_explicit(&next->text[i], words[i], memory_order_relaxed);
}

static void read_op(unsigned number, char *out)
{
    uint64_t words[OP_WORDS];
    for (size_t i = 0; i < OP_WORDS; i++)
        words[i] = atomic_load_explicit(&guard.ops[number % OPS_MAX].text[i], memory_order_relaxed);
    memcpy(out, words, sizeof words);
    out[sizeof words - 1] = '\0';
}

void xt_guard_last_op(char *out, size_t size)
{
    unsigned count = guard.op_count;
    char op[OP_BYTES] = "";
    if (count)
        read_op(count - 1, op);
    *out = '\0';
    xt_str_append_to(out, size, "%s", op);
}

void xt_guard_last_ops(char *out, size_t size)
{
    unsigned count = guard.op_count;
    char before[OP_BYTES] = "";
    char op[OP_BYTES];
    *out = '\0';
    for (unsigned i = count > OPS_MAX ? count - OPS_MAX : 0; i < count; i++) {
        read_op(i, op);
        if (strcmp(op, before) != 0)
            xt_str_append_to(out, size, "%s%s", *out ? "; " : "", op);
        memcpy(before, op, sizeof before);
    }
}

static void copy_kernel(struct call *call, char *out, size_t size)
{
    pthread_mutex_lock(&guard.names);
    snprintf(out, size, "%s", call->kernel);
    pthread_mutex_unlock(&guard.names);
}

void xt_guard_longest(struct xt_guard_pending *out)
{
    const double now = xt_thread_seconds();
    *out = (struct xt_guard_pending){.what = NULL};
    for (int i = 0; i < CALLS_MAX; i++) {
        struct call *call = &guard.calls[i];
        const char *what = atomic_load(&call->what);
        bool creates = atomic_load(&call->creates);
        double since = atomic_load(&call->since);
        if (creates)
            since = fmax(since, atomic_load(&guard.last_kernel));
        if (!what || (out->what && now - since <= out->seconds))
            continue;
        *out = (struct xt_guard_pending){.what = what, .seconds = now - since};
        if (creates)
            copy_kernel(call, out->kernel, sizeof out->kernel);
    }
}

void xt_guard_describe(const struct xt_guard_pending *pending, char *out, size_t size)
{
    const char *phase = atomic_load(&guard.phase);
    *out = '\0';
    if (*pending->kernel)
        xt_str_append_to(out, size, "the compilation of kernel %d (%s)",
                         atomic_load(&guard.kernels) + 1, pending->kernel);
    else
        xt_str_append_to(out, size, "%s", pending->what);
    if (phase)
        xt_str_append_to(out, size, ", %s", phase);
}

/* --- fatal faults ---------------------------------------------------------------------------- */
static bool anyone_calls(void)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (atomic_load(&guard.calls[i].what))
            return true;
    return false;
}

/* A driver in an unexpected state aborts, in any thread; a crash is the driver's if it happens
 * within a call of it. */
static void on_crash(int number)
{
    bool in_driver = number == SIGABRT ? anyone_calls() : mine && atomic_load(&mine->what);
    if (in_driver)
        xt_guard_give_up(number == SIGABRT ? "its driver gave up (abort)" : "its driver crashed");
    signal(number, SIG_DFL);
    raise(number);
}

void xt_guard_catch_crashes(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS};
    for (size_t i = 0; guard.speaker.catches_crashes && i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], on_crash);
}

static void compose(const char *why, char *out, size_t size)
{
    const bool opening = xt_guard_is_opening();
    *out = '\0';
    xt_str_append_to(
        out, size, opening ? "--device %s: it cannot be opened: %s" : "the device was lost: %s: %s",
        guard.device, why);
    if (opening)
        xt_str_append_to(out, size, "; \"xtrain doctor\" checks each step");
}

/* To the parent, which reads what its child says, and completes it. */
_Noreturn static void end_child(const char *why)
{
    ssize_t wrote = write(STDERR_FILENO, why, strlen(why));
    (void)wrote;
    xt_reexec_exit(XT_ERR_DEVICE);
}

/* Async-signal-safe: it formats into memory of its own. */
static void finish(const char *why)
{
    char sentence[1024];
    char op[128];
    if (getpid() != guard.process)
        end_child(why);
    compose(why, sentence, sizeof sentence);
    xt_guard_last_op(op, sizeof op);
    if (*op && !xt_guard_is_opening())
        xt_str_append_to(sentence, sizeof sentence, "; the last op submitted: %s", op);
    guard.speaker.end(guard.speaker.context, sentence);
}

struct xt_guard_speaker xt_guard_set_end(struct xt_guard_speaker speaker)
{
    const struct xt_guard_speaker before = guard.speaker;
    guard.speaker = speaker;
    guard.finish = finish;
    guard.process = getpid();
    return before;
}

void xt_guard_give_up(const char *why)
{
    guard.lost = true;
    if (!guard.speaker.end)
        return;
    /* If several threads fail at once, the first ends the process. */
    while (atomic_exchange(&guard.ending, true))
        sleep(1);
    guard.finish(why);
    atomic_store(&guard.ending, false);
}
