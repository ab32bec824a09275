#include "cli/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "ranks/facts.h"
#include "ranks/launch.h"
#include "ranks/ranks.h"

enum kind { ONE_PROCESS, EACH_HOST, SHARED };

static enum kind kind_of(enum xt_command_id command)
{
    switch (command) {
    case XT_COMMAND_TRAIN:
    case XT_COMMAND_EVAL:
        return SHARED;
    case XT_COMMAND_DEVICES:
    case XT_COMMAND_WARMUP:
    case XT_COMMAND_DOCTOR:
    case XT_COMMAND_SELFTEST:
    case XT_COMMAND_CACHE:
    case XT_COMMAND_HELP:
    case XT_COMMAND_VERSION:
    case XT_COMMAND_MAN:
    case XT_COMMAND_SCHEMA:
    case XT_COMMAND_COMPLETION:
        return EACH_HOST;
    default:
        return ONE_PROCESS;
    }
}

bool xt_cli_ranks_speaks(enum xt_command_id command)
{
    const struct xt_launch launch = xt_launch_read(getenv);
    return launch.tasks < 2 || launch.task == 0 || kind_of(command) == EACH_HOST;
}

/* Rank 0 reports the error. */
static enum xt_status check_alone(enum xt_command_id command, struct xt_err *err)
{
    const struct xt_launch launch = xt_launch_read(getenv);
    if (launch.tasks < 2)
        return XT_OK;
    xt_err_set(err, XT_ERR_USAGE,
               "xtrain %s is for one process, and this is one of %d tasks (%s=%d), each of which "
               "would do all of it: start one; if each has work of its own, add --alone",
               xt_command_get(command)->name, launch.tasks, launch.who, launch.tasks);
    if (launch.task > 0)
        *err->text = '\0';
    return err->status;
}

/* Before anything that the ranks do together depends on it. */
static enum xt_status compare_settings(const struct xt_options *options, struct xt_err *err)
{
    struct xt_str facts = {0};
    struct xt_ranks *ranks = options->values.ranks;
    xt_ranks_add_fact(&facts, "command", "%s", xt_command_get(options->command)->name);
    xt_ranks_add_fact(&facts, "MPI", "%s", ranks->library);
    enum xt_status status = xt_options_list_for_ranks(options, &facts, err);
    if (!status)
        status = xt_ranks_compare(ranks, &facts, err);
    xt_str_clear(&facts);
    return status;
}

static void print_failure(const struct xt_err *err)
{
    xt_result_last_words("", err->text, err->status);
}

enum xt_status xt_cli_ranks_open(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *s = &options->values;
    enum kind kind = kind_of(options->command);
    if (s->rank.alone)
        return XT_OK;
    if (kind != SHARED)
        return kind == ONE_PROCESS ? check_alone(options->command, err) : XT_OK;
    enum xt_status status = xt_ranks_open(&s->ranks, err);
    if (status || !s->ranks)
        return status;
    s->ranks->timeout = s->rank.timeout;
    status = xt_ranks_place(s->ranks, s->rank.bind == XT_BIND_AUTO, err);
    if (status)
        return status;
    s->device.own_threads = s->ranks->threads;
    s->ranks->failing = print_failure;
    s->device.own_xpu = s->ranks->xpu;
    s->data.processes = s->ranks->local_size;
    s->data.cache_is_made = !xt_ranks_is_first(s->ranks);
    if (!xt_ranks_is_first(s->ranks)) {
        char name[96];
        snprintf(name, sizeof name, "rank %d on %s: ", s->ranks->rank,
                 s->ranks->all[s->ranks->rank].host);
        xt_log_set_name(name);
        xt_log_set_level(XT_LOG_SILENT);
        s->output.quiet = true;
        s->output.verbose = false;
        xt_result_mute();
        if (!xt_result_is_json() && !freopen("/dev/null", "w", stdout))
            return xt_err_set(err, XT_ERR_RUN, "/dev/null cannot be opened");
    }
    if (s->device.name && strcmp(s->device.name, "auto") == 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--device auto is for one process; for %d say cpu, or xpu for one each",
                          s->ranks->size);
    return compare_settings(options, err);
}

void xt_cli_ranks_print(const struct xt_run_summary *run, FILE *out)
{
    const struct xt_train_settings *s = run->settings;
    const struct xt_ranks *ranks = s->ranks;
    if (!ranks)
        return;
    fprintf(
        out,
        "%d ranks by %s, each on its share of every batch; batch norms over the images of %s; "
        "%.1f MB of gradients a step in %s, %s\n",
        ranks->size, ranks->library, s->rank.sync_bn ? "all (--sync-bn)" : "each (--no-sync-bn)",
        run->update.reduction_bytes / 1e6, xt_count(run->update.reduction_buckets, "bucket").text,
        s->rank.reduce_type == XT_REDUCE_BF16 ? "bf16" : "f32");
    fprintf(out, "  %-5s %-16s %-7s %-8s %-12s %-26s %s\n", "rank", "host", "images", "threads",
            "CPUs", "instructions", "device");
    for (int i = 0; i < ranks->size; i++) {
        const struct xt_rank *rank = &ranks->all[i];
        fprintf(out, "  %-5d %-16s %-7d %-8d %-12s %-26s %s\n", i, rank->host, rank->images,
                rank->threads, rank->cpus, rank->isa, rank->device);
    }
    fprintf(out,
            "compared between them: settings, versions, initial weights, the names and labels of "
            "%s, the bytes of %zu of them, in %.2f s\n",
            xt_count((long long)ranks->compared.names, "image").text, ranks->compared.samples,
            ranks->compared.seconds);
}

void xt_cli_ranks_compare(const struct xt_ranks *ranks)
{
    for (int i = 1; ranks && i < ranks->size; i++) {
        const struct xt_rank *other = &ranks->all[i];
        if (strcmp(other->isa, ranks->all[0].isa) == 0)
            continue;
        xt_log_warn("rank %d on %s has instructions %s, rank 0 %s: they round differently, so the "
                    "last bits of the run depend on which rank has which images",
                    i, other->host, other->isa, ranks->all[0].isa);
        return;
    }
}

void xt_cli_ranks_describe_time(const struct xt_run_summary *run, struct xt_report *report)
{
    const struct xt_ranks *ranks = run->settings->ranks;
    double seconds = run->times.here;
    if (!ranks || seconds <= 0)
        return;
    const struct xt_ranks_time *time = &ranks->time;
    double all = time->gradients + time->norms + time->other;
    double beside = time->flying > 0 ? fmax(0, 1 - time->gradients / time->flying) : 0;
    struct xt_report *waited = xt_report_group(report, "waited");
    xt_report_values(waited, "ranks=%d gradients=%f norms=%f other=%f beside_backward=%f",
                     ranks->size, time->gradients / seconds, time->norms / seconds,
                     time->other / seconds, beside);
    xt_report_line(
        report,
        "waited for other ranks %.1f %% of the time: gradients %.1f %%, batch norms "
        "%.1f %%, else %.1f %%; %.0f %% of the gradients' traffic overlapped the backward pass",
        100 * all / seconds, 100 * time->gradients / seconds, 100 * time->norms / seconds,
        100 * time->other / seconds, 100 * beside);
}
