#include "cli/placement.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/numa.h"
#include "base/thread.h"
#include "train/memory_plan.h"

void xt_placement_print(const struct xt_graph *graph, FILE *out)
{
    fprintf(out, "%-20s %-14s %-6s %-4s %-8s %-7s %-26s %s\n", "op", "kind", "device", "type",
            "output", "format", "forward", "backward");
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        const char *backward = graph->options.training ? op->class->implementation(op, true) : "";
        char bytes[16];
        snprintf(bytes, sizeof bytes, "%.1f MB", (double)op->out_bytes / 1e6);
        fprintf(out, "%-20s %-14s %-6s %-4s %-8s %-7s %-26s %s\n", op->name, op->class->kind,
                op->device->place, xt_dtype_name(op->dtype), bytes, "nhwc",
                op->class->implementation(op, false), *backward ? backward : "-");
    }
    for (int i = 0; i < graph->op_count && graph->options.dtype != XT_F32; i++)
        if (graph->ops[i]->why_f32)
            fprintf(out, "%s stays f32: %s\n", graph->ops[i]->name, graph->ops[i]->why_f32);
    const char *type = xt_dtype_name(graph->options.dtype);
    if (graph->options.dtype == XT_F32)
        return;
    fprintf(out,
            "batch norm: statistics and sums in f32, from and to %s tensors; average pools in %s\n",
            type, graph->options.device->kind == XT_DEVICE_XPU ? type : "f32");
    fprintf(out, "weights: f32 masters, gradients and update; %s working copies\n", type);
}

void xt_placement_print_threads(const struct xt_settings *settings, FILE *out)
{
    const char *why = "--threads";
    int count = settings->threads ? settings->threads : xt_thread_available(&why);
    struct xt_numa numa;
    xt_numa_read(&numa, NULL);
    fprintf(out, "threads\n  compute  %d, by %s\n", count, why);
    if (settings->workers)
        fprintf(out, "  loader   %d, by --workers\n", settings->workers);
    else
        fprintf(out, "  loader   %d at first, more if the steps need them\n", numa.count);
    if (numa.count == 1)
        fprintf(out, "  memory   one NUMA node: nothing is bound\n");
    else
        fprintf(out,
                "  memory   %d NUMA nodes: loader threads and batch slots are shared out among "
                "them\n",
                numa.count);
}

static void print_bytes(const char *what, double bytes)
{
    printf("  %-28s %8.1f MB\n", what, bytes / 1e6);
}

static void print_memory(const struct xt_trainer *trainer)
{
    struct xt_memory_plan plan = xt_memory_plan(trainer);
    printf("memory\n");
    print_bytes("parameters, float32", plan.parameters);
    print_bytes("their gradients, float32", plan.gradients);
    print_bytes("optimizer state, float32", plan.optimizer);
    print_bytes("working copies of weights", plan.working);
    print_bytes("activations and gradients", plan.arena);
    print_bytes("batch slots, the loader", plan.slots);
    print_bytes("the loops' scratch", plan.scratch);
    print_bytes("a checkpoint's copies", plan.saving);
    print_bytes("program and libraries", plan.program);
    print_bytes("all", plan.all);
    if (plan.limit > 0)
        print_bytes("of what may be used", plan.limit);
}

enum xt_status xt_placement_dry_run(const struct xt_options *options, struct xt_trainer *trainer,
                                    struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = xt_options_print(options, &text, err);
    if (status)
        return status;
    printf("settings\n%s\n", xt_str_get(&text));
    xt_str_clear(&text);
    printf("%s on %s, %s\n", trainer->network.model->title, trainer->source->description,
           trainer->network.device.name);
    printf("%" PRId64 " steps of %d images, %" PRId64 " steps an epoch\n", trainer->steps,
           options->values.batch, trainer->epoch_steps);
    printf("%zu parameters\n\n", xt_network_parameter_count(&trainer->network));
    print_memory(trainer);
    printf("\n");
    xt_placement_print_threads(&options->values, stdout);
    printf("\nplacement\n");
    xt_placement_print(trainer->network.graph, stdout);
    printf("\nnothing was trained and nothing was written (--dry-run)\n");
    return XT_OK;
}
