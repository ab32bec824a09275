/* xtrain bench scale: the same batch on 1, 2 and 4 ranks of this machine, each a short run under
 * mpirun. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/bench/scratch.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "models/registry.h"
#include "runs/report/json.h"

enum { STEPS = 24, RUNS = 3 };

struct scale_run {
    int ranks;
    double images_per_s;                    /* of the second half of the steps */
    double gradients, norms, other, beside; /* shares; NAN for a single process */
};

struct scale {
    const struct xt_options *options;
    struct xt_scratch scratch;
    struct scale_run runs[RUNS];
    int count;
};

/* The run's folder and output file. */
static enum xt_status append_places(const struct scale *scale, int ranks, struct xt_str *line,
                                    struct xt_err *err)
{
    char path[sizeof scale->scratch.folder + 16];
    snprintf(path, sizeof path, "%s/%d", scale->scratch.folder, ranks);
    xt_str_printf(line, NULL, " --out ");
    xt_str_append_word(line, path, NULL);
    snprintf(path, sizeof path, "%s/said", scale->scratch.folder);
    xt_str_printf(line, NULL, " 2>");
    return xt_str_append_word(line, path, err);
}

/* The command that starts `ranks` processes. */
static enum xt_status build_line(const struct scale *scale, int ranks, struct xt_str *line,
                                 struct xt_err *err)
{
    const struct xt_settings *s = &scale->options->values;
    bool said = xt_options_source(scale->options, "steps") >= XT_SOURCE_CONFIG;
    long long steps = said ? (long long)s->run.steps : STEPS;
    char *folder = NULL;
    struct xt_str program = {0};
    enum xt_status status = xt_file_program_folder(&folder, err);
    if (!status)
        status = xt_str_printf(&program, err, "%s/xtrain", folder);
    if (ranks > 1)
        xt_str_printf(line, NULL, "mpirun --bind-to none -n %d%s ", ranks,
                      s->device.oversubscribe ? " --oversubscribe" : "");
    xt_str_append_word(line, xt_str_get(&program), NULL);
    xt_str_printf(line, NULL,
                  " --model %s --data '%s' --batch %d --steps %lld --log-every %lld "
                  "--amp %s --threads %d --bucket %d --reduce-type %s %s --json --quiet",
                  s->network.model, xt_model_default_data(s->network.model), s->network.batch,
                  steps, steps > 1 ? steps / 2 : 1, xt_amp_name(s->network.amp), s->device.threads,
                  s->rank.bucket, s->rank.reduce_type == XT_REDUCE_BF16 ? "bf16" : "f32",
                  s->rank.sync_bn ? "--sync-bn" : "--no-sync-bn");
    if (!status)
        status = append_places(scale, ranks, line, err);
    xt_str_clear(&program);
    free(folder);
    return status;
}

/* Reads the JSON line that the run ends with. */
static void read_end(const char *text, struct scale_run *run)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *waited = cJSON_GetObjectItem(json, "waited");
    run->images_per_s = xt_json_get(json, "images_per_s", (double)NAN);
    run->gradients = xt_json_get(waited, "gradients", (double)NAN);
    run->norms = xt_json_get(waited, "norms", (double)NAN);
    run->other = xt_json_get(waited, "other", (double)NAN);
    run->beside = xt_json_get(waited, "beside_backward", (double)NAN);
    cJSON_Delete(json);
}

/* Reports a failed run's output: its last error, else the first line of mpirun. */
static enum xt_status fail(const struct scale *scale, int ranks, struct xt_err *err)
{
    char path[96];
    char line[512];
    char error[512] = "";
    char words[512] = "no output";
    bool spoke = false;
    snprintf(path, sizeof path, "%s/said", scale->scratch.folder);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        int length = (int)strcspn(line, "\n");
        if (strstr(line, "error:") || strstr(line, "not found") || strstr(line, "slots"))
            snprintf(error, sizeof error, "%.*s", length, line);
        if (!spoke && strspn(line, "-= \t\n") < strlen(line)) {
            snprintf(words, sizeof words, "%.*s", length, line);
            spoke = true;
        }
    }
    if (file)
        fclose(file);
    return xt_err_set(err, XT_ERR_RUN, "the run with %d ranks failed: %s", ranks,
                      *error ? error : words);
}

static enum xt_status measure(struct scale *scale, int ranks, struct xt_err *err)
{
    struct scale_run *run = &scale->runs[scale->count];
    struct xt_str line = {0};
    struct xt_str text = {0};
    struct xt_process_end end;
    int code = 0;
    enum xt_status status = build_line(scale, ranks, &line, err);
    xt_log_detail("%s", xt_str_get(&line));
    const struct xt_process_program shell = {
        .argv = (const char *const[]){"sh", "-c", xt_str_get(&line), NULL}};
    if (!status)
        status = xt_process_run_program(&shell, &text, &code, &end, err);
    if (!status)
        status = xt_stop_check(err, "before %d ranks were measured", ranks);
    if (!status && (code || end.signal))
        status = fail(scale, ranks, err);
    if (!status) {
        run->ranks = ranks;
        read_end(xt_str_get(&text), run);
        scale->count++;
    }
    xt_str_clear(&text);
    xt_str_clear(&line);
    return status;
}

static enum xt_status report(const struct scale *scale, struct xt_err *err)
{
    const struct xt_settings *s = &scale->options->values;
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "%s: the same batch of %d by 1 rank and by several, on this machine",
                   xt_model_title(s->network.model), s->network.batch);
    struct xt_report *table = xt_report_table(report, "runs");
    for (int i = 0; i < scale->count; i++) {
        const struct scale_run *run = &scale->runs[i];
        struct xt_report *row = xt_report_group(table, NULL);
        xt_report_add(row, "ranks", "ranks", "%d", run->ranks);
        xt_report_add(row, "images_per_s", "images/s", "%.1f", run->images_per_s);
        xt_report_add(row, "speed_up", "times one", "%.2f",
                      run->images_per_s / scale->runs[0].images_per_s);
        xt_report_scaled(row, "gradients", "waits: gradients %", 100, "%.1f", run->gradients);
        xt_report_scaled(row, "norms", "norms %", 100, "%.1f", run->norms);
        xt_report_scaled(row, "other", "else %", 100, "%.1f", run->other);
        xt_report_scaled(row, "beside_backward", "beside backward %", 100, "%.0f", run->beside);
    }
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_bench_scale(struct xt_options *options, struct xt_err *err)
{
    struct scale scale = {.options = options};
    int most = xt_thread_available(NULL);
    enum xt_status status = xt_scratch_make(&scale.scratch, "the runs", err);
    for (int i = 0; i < RUNS && !status; i++)
        if (1 << i <= most || options->values.device.oversubscribe)
            status = measure(&scale, 1 << i, err);
        else
            xt_log_note("%d ranks are more than the %d CPUs here, and are skipped "
                        "(--oversubscribe)",
                        1 << i, most);
    if (!status)
        status = report(&scale, err);
    xt_scratch_remove(&scale.scratch);
    return status;
}
