#include "cli/past_runs.h"

#include <stdlib.h>

#include "base/mem.h"

enum xt_status xt_past_runs_read(struct xt_past_runs *runs, const struct xt_options *options,
                                 struct xt_err *err)
{
    *runs = (struct xt_past_runs){0};
    enum xt_status status = xt_mem_calloc(&runs->items, (size_t)options->argument_count,
                                          sizeof *runs->items, "the runs", err);
    for (int i = 0; i < options->argument_count && !status; i++)
        status = xt_past_run_read(&runs->items[runs->count++], options->arguments[i], err);
    return status;
}

void xt_past_runs_clear(struct xt_past_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        xt_past_run_clear(&runs->items[i]);
    free(runs->items);
    *runs = (struct xt_past_runs){0};
}
