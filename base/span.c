#include "base/span.h"

#include <time.h>

#include "base/system/thread.h"

struct xt_span xt_span_now(void)
{
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct xt_span){
        .wall = xt_thread_seconds(),
        .cpu = (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec,
    };
}

struct xt_span xt_span_since(const struct xt_span *start)
{
    struct xt_span now = xt_span_now();
    return (struct xt_span){.wall = now.wall - start->wall, .cpu = now.cpu - start->cpu};
}
