/* Work of inference whose parts threads take as they get to them (cpu.h). */
#include <stdatomic.h>

#include "engine/cpu/cpu.h"

/* The first of the parts that are a thread's own. */
static int first_of(int parts, int thread, int threads)
{
    return (int)((int64_t)parts * thread / threads);
}

/* The owner's next part that nobody has begun; `end` or more: none. It is read before it is
 * changed: of what is done, all threads then have a copy of the cache line. */
static int take_part(struct xt_turn *turn, int end)
{
    int next = atomic_load_explicit(&turn->next, memory_order_relaxed);
    return next < end ? atomic_fetch_add(&turn->next, 1) : next;
}

static void take_parts(const struct xt_graph *graph, int parts, xt_cpu_part *work,
                       const void *context, int thread)
{
    int threads = graph->options.device->threads;
    for (int k = 0; k < threads; k++) {
        int owner = (thread + k) % threads;
        int end = first_of(parts, owner + 1, threads);
        for (int part; (part = take_part(&graph->turns[owner], end)) < end;)
            work(context, graph, part);
    }
}

int xt_cpu_parts(const struct xt_graph *graph)
{
    enum { EACH = 4 };
    int threads = graph->options.device->threads;
    return threads > 1 ? EACH * threads : 1;
}

void xt_cpu_share_out(const struct xt_graph *graph, int parts, xt_cpu_part *work,
                      const void *context)
{
    int threads = graph->options.device->threads;
    for (int thread = 0; thread < threads; thread++)
        atomic_store_explicit(&graph->turns[thread].next, first_of(parts, thread, threads),
                              memory_order_relaxed);
#pragma omp parallel for schedule(static, 1)
    for (int thread = 0; thread < threads; thread++)
        take_parts(graph, parts, work, context, thread);
}
