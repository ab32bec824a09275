#include "device/faults/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/system/thread.h"

enum { CALLS_MAX = 32, OPS_MAX = 16 };

/* The kind of a call, for counting its time. */
enum spent { NOT_COUNTED, LAUNCHES, WAITS, SPENT_COUNT };

/* A call that a thread is in; `what` is NULL if there is none. */
struct call {
    _Atomic(const char *) what;
    _Atomic double since;
    _Atomic double spent[SPENT_COUNT]; /* in calls that returned */
};

struct op {
    _Atomic(const char *) name;
    _Atomic(const char *) what;
};

static struct {
    struct xt_dnnl_table bare; /* the library's own functions */
    const struct xt_catcher *catcher;
    atomic_bool lost;
    atomic_bool ending; /* the process is being ended */
    struct call calls[CALLS_MAX];
    atomic_int threads;
    struct op ops[OPS_MAX];
    atomic_uint op_count;
    xt_guard_end *end;
    void *context;
} guard;

static _Thread_local struct call *mine; /* this thread's index in guard.calls */
static _Thread_local char said[256];
static _Thread_local struct xt_guard_counts counts;

struct xt_guard_counts xt_guard_counts(void)
{
    return counts;
}

/* --- calls to the driver
 * ------------------------------------------------------------------------*/
void xt_guard_enter(const char *what)
{
    if (!mine) {
        int index = atomic_fetch_add(&guard.threads, 1);
        mine = &guard.calls[index < CALLS_MAX ? index : CALLS_MAX - 1];
    }
    atomic_store(&mine->since, xt_thread_seconds());
    atomic_store(&mine->what, what);
}

void xt_guard_leave(void)
{
    atomic_store(&mine->what, NULL);
}

/* Out of memory does not mean that the device is lost. */
static dnnl_status_t meant(void)
{
    return strstr(said, "OUT_OF_DEVICE_MEMORY") || strstr(said, "OUT_OF_HOST_MEMORY")
               ? dnnl_out_of_memory
               : dnnl_runtime_error;
}

/* `what` NULL: it may take long, and its failure does not lose the device. */
static dnnl_status_t call(const char *what, enum spent spent, uintptr_t function, uintptr_t a,
                          uintptr_t b, uintptr_t c, uintptr_t d)
{
    const uintptr_t arguments[4] = {a, b, c, d};
    int result = dnnl_success;
    if (guard.lost)
        return dnnl_runtime_error;
    *said = '\0';
    if (what)
        xt_guard_enter(what);
    if (guard.catcher->call((xt_caught_function *)function, arguments, &result, said, sizeof said))
        result = (int)meant();
    if (what) {
        double seconds = xt_thread_seconds() - atomic_load(&mine->since);
        atomic_store(&mine->spent[spent], atomic_load(&mine->spent[spent]) + seconds);
        xt_guard_leave();
    }
    if (what && result == dnnl_runtime_error)
        guard.lost = true;
    return (dnnl_status_t)result;
}

dnnl_status_t xt_guard_run(dnnl_status_t (*function)(void *argument), void *argument)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)function, (uintptr_t)argument, 0, 0, 0);
}

static dnnl_status_t engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.engine_create, (uintptr_t)engine,
                (uintptr_t)kind, index, 0);
}

static size_t engine_get_count(dnnl_engine_kind_t kind)
{
    dnnl_status_t count =
        call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.engine_get_count, (uintptr_t)kind, 0, 0, 0);
    return *said ? 0 : (size_t)count;
}

static dnnl_status_t stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.stream_create, (uintptr_t)stream,
                (uintptr_t)engine, flags, 0);
}

static dnnl_status_t stream_wait(dnnl_stream_t stream)
{
    counts.waits++;
    return call("a wait for its work", WAITS, (uintptr_t)guard.bare.stream_wait, (uintptr_t)stream,
                0, 0, 0);
}

static dnnl_status_t memory_create(dnnl_memory_t *memory, const_dnnl_memory_desc_t md,
                                   dnnl_engine_t engine, void *handle)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.memory_create, (uintptr_t)memory,
                (uintptr_t)md, (uintptr_t)engine, (uintptr_t)handle);
}

static dnnl_status_t memory_map_data(const_dnnl_memory_t memory, void **mapped)
{
    return call("a copy from its memory", WAITS, (uintptr_t)guard.bare.memory_map_data,
                (uintptr_t)memory, (uintptr_t)mapped, 0, 0);
}

static dnnl_status_t memory_unmap_data(const_dnnl_memory_t memory, void *mapped)
{
    return call("a copy to its memory", WAITS, (uintptr_t)guard.bare.memory_unmap_data,
                (uintptr_t)memory, (uintptr_t)mapped, 0, 0);
}

static dnnl_status_t primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.primitive_create, (uintptr_t)primitive,
                (uintptr_t)pd, 0, 0);
}

static dnnl_status_t primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                       int count, const dnnl_exec_arg_t *arguments)
{
    counts.primitives++;
    return call("a launch", LAUNCHES, (uintptr_t)guard.bare.primitive_execute, (uintptr_t)primitive,
                (uintptr_t)stream, (uintptr_t)count, (uintptr_t)arguments);
}

static dnnl_status_t memory_destroy(dnnl_memory_t memory)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.memory_destroy, (uintptr_t)memory, 0, 0,
                0);
}

static dnnl_status_t primitive_destroy(dnnl_primitive_t primitive)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.primitive_destroy, (uintptr_t)primitive, 0,
                0, 0);
}

static dnnl_status_t stream_destroy(dnnl_stream_t stream)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.stream_destroy, (uintptr_t)stream, 0, 0,
                0);
}

static dnnl_status_t engine_destroy(dnnl_engine_t engine)
{
    return call(NULL, NOT_COUNTED, (uintptr_t)guard.bare.engine_destroy, (uintptr_t)engine, 0, 0,
                0);
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
    if (!mine)
        return (struct xt_guard_spent){0, 0};
    return (struct xt_guard_spent){.launches = atomic_load(&mine->spent[LAUNCHES]),
                                   .waits = atomic_load(&mine->spent[WAITS])};
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
void xt_guard_note(const char *op, const char *what)
{
    struct op *next = &guard.ops[atomic_fetch_add(&guard.op_count, 1) % OPS_MAX];
    atomic_store(&next->name, op);
    atomic_store(&next->what, what);
}

static void append_op(unsigned number, const char *before, char *out, size_t size)
{
    const struct op *op = &guard.ops[number % OPS_MAX];
    const char *name = atomic_load(&op->name);
    const char *what = atomic_load(&op->what);
    if (name && what)
        xt_str_append_to(out, size, "%s%s: %s", *out ? before : "", name, what);
}

void xt_guard_last_op(char *out, size_t size)
{
    unsigned count = guard.op_count;
    *out = '\0';
    if (count)
        append_op(count - 1, "", out, size);
}

void xt_guard_last_ops(char *out, size_t size)
{
    unsigned count = guard.op_count;
    const char *before[2] = {NULL, NULL};
    *out = '\0';
    for (unsigned i = count > OPS_MAX ? count - OPS_MAX : 0; i < count; i++) {
        const struct op *op = &guard.ops[i % OPS_MAX];
        const char *now[2] = {atomic_load(&op->name), atomic_load(&op->what)};
        if (now[0] != before[0] || now[1] != before[1])
            append_op(i, "; ", out, size);
        memcpy(before, now, sizeof before);
    }
}

double xt_guard_waiting(const char **what)
{
    double now = xt_thread_seconds();
    double longest = 0;
    for (int i = 0; i < CALLS_MAX; i++) {
        double since = now - atomic_load(&guard.calls[i].since);
        const char *is = atomic_load(&guard.calls[i].what);
        if (is && since > longest) {
            longest = since;
            *what = is;
        }
    }
    return longest;
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

struct xt_guard_speaker xt_guard_set_end(xt_guard_end *end, void *context)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS};
    const struct xt_guard_speaker before = {guard.end, guard.context};
    guard.context = context;
    guard.end = end;
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], end ? on_crash : SIG_DFL);
    return before;
}

void xt_guard_give_up(const char *why)
{
    guard.lost = true;
    if (!guard.end)
        return;
    /* If several threads fail at once, the first ends the process. */
    while (atomic_exchange(&guard.ending, true))
        sleep(1);
    guard.end(guard.context, why);
}
