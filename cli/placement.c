#include "cli/placement.h"

#include <stdio.h>

#include "base/log.h"
#include "cli/ranks.h"
#include "base/system/numa.h"
#include "base/system/openmp.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "engine/recompute.h"
#include "infer/network/memory_plan.h"

/* A row of the table; "" for an empty cell. */
struct row {
    const char *name, *kind, *place, *type;
    double bytes; /* bytes written; negative: none of its own */
    const char *format, *forward, *backward;
};

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void print_row(const struct row *row, FILE *out)
{
    char bytes[16] = "-";
    if (row->bytes >= 0)
        snprintf(bytes, sizeof bytes, "%.1f MB", row->bytes / 1e6);
    fprintf(out, "%-20s %-14s %-6s %-4s %-8s %-7s %-26s %s\n", row->name, row->kind, row->place,
            row->type, bytes, or_dash(row->format), or_dash(row->forward), or_dash(row->backward));
}

/* The parts of a layer as one row. */
static void print_layer(const struct xt_graph *graph, int first, int end, int length, FILE *out)
{
    char name[64];
    char kind[32];
    double bytes = 0;
    enum xt_dtype dtype = graph->ops[first]->dtype;
    bool same = true;
    for (int i = first; i < end; i++) {
        bytes += (double)graph->ops[i]->out_bytes;
        same = same && graph->ops[i]->dtype == dtype;
    }
    snprintf(name, sizeof name, "%.*s", length, graph->ops[first]->name);
    snprintf(kind, sizeof kind, "%d ops", end - first);
    print_row(&(struct row){name, kind, graph->options.device->place,
                            same ? xt_dtype_name(dtype) : "both", bytes, "nhwc", "", ""},
              out);
}

static void print_ops(const struct xt_graph *graph, FILE *out)
{
    int length = 0;
    int end = 0;
    for (int i = 0; i < graph->op_count; i = end) {
        const struct xt_op *op = graph->ops[i];
        end = xt_graph_layer_end(graph, i, &length);
        if (end > i + 1) {
            print_layer(graph, i, end, length, out);
            continue;
        }
        const struct row row = {
            .name = op->name,
            .kind = xt_op_kind_name(op),
            .place = graph->options.device->place,
            .type = xt_dtype_name(op->dtype),
            .bytes = (double)op->out_bytes,
            .format = "nhwc",
            .forward = xt_op_implementation(op, false),
            .backward = graph->options.training ? xt_op_implementation(op, true) : "",
        };
        print_row(&row, out);
    }
}

/* Number of trainable parameters of the op. */
static size_t count_params(const struct xt_graph *graph, const struct xt_op *op)
{
    size_t count = 0;
    for (int i = 0; i < op->param_count; i++) {
        const struct xt_param *param = &graph->options.params->items[op->params[i]];
        size_t elements = 1;
        for (int k = 0; k < param->ndims; k++)
            elements *= (size_t)param->dims[k];
        count += xt_param_is_statistic(param) ? 0 : elements;
    }
    return count;
}

/* An op, or those of one layer, the last of which gives what the layer does. */
static void print_part(const struct xt_graph *graph, int first, int end, int length, FILE *out)
{
    const struct xt_op *op = graph->ops[end - 1];
    char shape[40] = "";
    char runs[32];
    size_t params = 0;
    double flops = 0;
    for (int k = op->output_count - 1; k >= 0; k--)
        if (op->outputs[k])
            snprintf(shape, sizeof shape, "%dx%dx%d", op->outputs[k]->h, op->outputs[k]->w,
                     op->outputs[k]->c);
    for (int i = first; i < end; i++) {
        params += count_params(graph, graph->ops[i]);
        flops += graph->ops[i]->flops;
    }
    snprintf(runs, sizeof runs, "%d ops", end - first);
    fprintf(out, "%-32.*s %-17s %10zu %10.1f  %s\n", length, op->name, shape, params,
            flops / graph->options.batch * 1e-6,
            end > first + 1 ? runs
            : *op->runs     ? op->runs
                            : xt_op_kind_name(op));
}

/* The network's ops for one image: fused ops, shapes, cost. */
static void print_network(const struct xt_graph *graph, FILE *out)
{
    fprintf(out, "%-32s %-17s %10s %10s  %s\n", "op", "output, h x w x c", "parameters", "MFLOP",
            "what runs as it");
    int length = 0;
    int end = 0;
    for (int i = 0; i < graph->op_count; i = end) {
        end = xt_graph_layer_end(graph, i, &length);
        print_part(graph, i, end, length, out);
    }
}

static const char loops[] = "xtrain loops";

/* Host-device transfers of each step, with the type of the data moved. */
static void print_transfers(const struct xt_run_summary *run, FILE *out)
{
    const struct xt_graph *graph = run->network->graph;
    const char *place = run->network->device.place;
    const char *queue = run->update.copy_queue;
    char way[96];
    snprintf(way, sizeof way, "%s%s, %spinned", queue ? "copy queue " : "reorder",
             queue ? *queue ? queue : "of its own" : "",
             run->update.upload_is_copied ? "copied to " : "");
    if (!run->network->device.own_memory)
        return;
    print_row(&(struct row){"images up", "transfer", place, "u8", (double)run->update.upload_bytes,
                            "nhwc", way, ""},
              out);
    if (run->update.loss_on_device) {
        print_row(
            &(struct row){"labels up", "transfer", place, "s32", -1, "", "reorder, pinned", ""},
            out);
        print_row(
            &(struct row){"losses down", "transfer", place, "f32", -1, "", "reorder, pinned", ""},
            out);
        return;
    }
    print_row(&(struct row){"logits down", "transfer", place, "f32",
                            (double)graph->host_logits.bytes, "nhwc",
                            xt_program_implementation(&graph->transfer, XT_FORWARD, NULL), ""},
              out);
    print_row(&(struct row){"their gradient up", "transfer", place, "f32",
                            (double)graph->host_logits_grad.bytes, "nhwc", "",
                            xt_program_implementation(&graph->transfer, XT_BACKWARD, NULL)},
              out);
}

/* Work of a training step beside the network's ops. */
static void print_step(const struct xt_run_summary *run, FILE *out)
{
    const struct xt_network *network = run->network;
    const char *place = network->device.place;
    const char *by = run->update.on_device ? "oneDNN's binary, eltwise" : loops;
    double floats = (double)network->params.value_floats * sizeof(float);
    int states = run->update.states;
    print_transfers(run, out);
    const char *loss = run->update.loss_on_device ? "xtrain:opencl" : loops;
    print_row(&(struct row){"loss", network->task == XT_TASK_PLATES ? "CTC" : "cross entropy",
                            run->update.loss_on_device ? place : "cpu", "f32", -1, "", loss, loss},
              out);
    if (run->watch.loss_scale > 0)
        print_row(&(struct row){"scaler", "loss scale", run->update.loss_on_device ? place : "cpu",
                                "f32", -1, "", "",
                                run->update.loss_on_device ? "xtrain:opencl" : loops},
                  out);
    if (run->update.sums)
        print_row(&(struct row){"gradient sum", "accumulate", place, "f32", floats, "", "", by},
                  out);
    print_row(&(struct row){"optimizer", run->update.optimizer, place, "f32", floats * (1 + states),
                            "", "", by},
              out);
    if (run->update.averages)
        print_row(&(struct row){"average", "ema", place, "f32", floats, "", "", by}, out);
}

void xt_placement_print(const struct xt_graph *graph, const struct xt_run_summary *run, FILE *out)
{
    fprintf(out, "%-20s %-14s %-6s %-4s %-8s %-7s %-26s %s\n", "op", "kind", "device", "type",
            "output", "format", "forward", "backward");
    print_ops(graph, out);
    if (run)
        print_step(run, out);
    for (int i = 0; i < graph->op_count && graph->options.dtype != XT_F32; i++)
        if (graph->ops[i]->why_f32)
            fprintf(out, "%s stays f32: %s\n", graph->ops[i]->name, graph->ops[i]->why_f32);
    const char *type = xt_dtype_name(graph->options.dtype);
    if (graph->options.dtype == XT_F32)
        return;
    fprintf(out,
            "batch norm: statistics and sums in f32, from and to %s tensors; average pools in %s\n",
            type, xt_graph_averages_in_f32(graph) ? "f32" : type);
    fprintf(out, "weights: f32 masters, gradients and update; %s working copies\n", type);
}

enum xt_status xt_placement_check_threads(const struct xt_device_settings *settings,
                                          struct xt_err *err)
{
    const char *why = NULL;
    int may = xt_thread_available(&why);
    if (settings->threads <= may || settings->oversubscribe)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--threads %d: this process may use %d, by %s, and threads that share a CPU "
                      "wait for each other; leave --threads out, or add --oversubscribe",
                      settings->threads, may, why);
}

void xt_placement_print_threads(const struct xt_train_settings *settings, int count, FILE *out)
{
    const char *why = NULL;
    int may = xt_thread_available(&why);
    if (settings->device.threads)
        why = "--threads";
    else if (count < may)
        why = settings->record.resume ? "the checkpoint" : "OMP_THREAD_LIMIT";
    struct xt_numa numa;
    xt_numa_read(&numa, NULL);
    fprintf(out, "threads\n  compute  %d, by %s\n", count, why);
    fprintf(out, "  waiting they spin before they sleep as set by %s\n", xt_openmp_waiting());
    if (settings->data.workers)
        fprintf(out, "  loader   %d, by --workers\n", settings->data.workers);
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

void xt_placement_step_images(const struct xt_run_summary *run, char *text, size_t size)
{
    int batch = run->plan.batch;
    int batches = run->settings->recipe.accumulate;
    if (batches > 1)
        snprintf(text, size, "%d images, in %d batches of %d", batch * batches, batches, batch);
    else
        snprintf(text, size, "%s", xt_count(batch, "image").text);
}

/* Bytes on the host and, with an XPU, on the device. */
static void print_bytes(const char *what, double host, const double *device)
{
    printf("  %-28s %8.1f MB", what, host / 1e6);
    if (device)
        printf(" %10.1f MB", *device / 1e6);
    printf("\n");
}

static void print_recomputed(const struct xt_graph *graph)
{
    size_t bytes = 0;
    int count = xt_graph_count_recomputed(graph, &bytes);
    if (graph->options.recompute)
        printf("--recompute: the outputs of %s are recomputed instead of stored, %.1f MB\n",
               xt_count(count, "batch norm").text, (double)bytes / 1e6);
}

static void print_memory(const struct xt_run_summary *run, struct xt_memory_plan plan)
{
    bool has_own = run->network->device.own_memory;
    if (has_own)
        printf("%-30s %11s %13s\n", "memory", "host", run->network->device.place);
    else
        printf("memory\n");
    for (int i = 0; i < XT_MEMORY_PARTS; i++)
        if (plan.host.parts[i] > 0 || plan.device.parts[i] > 0)
            print_bytes(xt_memory_part_name((enum xt_memory_part)i), plan.host.parts[i],
                        has_own ? &plan.device.parts[i] : NULL);
    print_bytes("all", plan.host.all, has_own ? &plan.device.all : NULL);
    if (plan.host.limit > 0)
        print_bytes("of the limit", plan.host.limit, has_own ? &plan.device.limit : NULL);
    print_recomputed(run->network->graph);
}

enum xt_status xt_placement_dry_run(const struct xt_options *options,
                                    const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_run_summary summary = xt_trainer_summary(trainer);
    const struct xt_run_summary *run = &summary;
    struct xt_str text = {0};
    enum xt_status status = xt_options_print(options, &text, err);
    if (status)
        return status;
    printf("settings\n%s\n", xt_str_get(&text));
    xt_str_clear(&text);
    xt_log_result(stdout, "%s on %s, %s", run->network->model->title, run->plan.data,
                  run->network->device.name);
    char images[64];
    xt_placement_step_images(run, images, sizeof images);
    printf("%s of %s, %s an epoch\n", xt_count(run->plan.steps, "step").text, images,
           xt_count(run->plan.epoch_steps, "step").text);
    printf("%zu parameters\n\n", xt_network_parameter_count(run->network));
    print_memory(run, xt_trainer_memory_plan(trainer));
    printf("\n");
    xt_cli_ranks_print(run, stdout);
    xt_placement_print_threads(run->settings, run->network->device.threads, stdout);
    printf("\nnetwork\n");
    print_network(run->network->graph, stdout);
    printf("\nplacement\n");
    xt_placement_print(run->network->graph, run, stdout);
    printf("\nnothing was trained and nothing was written (--dry-run)\n");
    return XT_OK;
}
